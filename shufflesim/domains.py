"""What a user holds: validation of data, and what is estimated about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ._checks import check_integer, check_number

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray[Any, np.dtype[Any]]


class Domain(ABC):
    """The set of values that one user can hold.

    Attributes
    ----------
    target : {"count", "mean"}
        What is estimated: the number of users per category, or the mean over users.
    """

    target: Literal["count", "mean"]

    @property
    @abstractmethod
    def labels(self) -> Array:
        """One label for each estimated number, shape (k,)."""

    @abstractmethod
    def validate(self, values: Any, offset: int = 0) -> Array:
        """Check every value and return them as an array, shape (n,), without changing the caller's.

        `offset` is the position of the first value in the whole data, for the message.

        Raises
        ------
        ValueError
            Naming the rule and the first value that breaks it.
        """

    @abstractmethod
    def total(self, values: Array) -> Array:
        """Additive summary of validated values, shape (k,): counts, or the sum."""

    @abstractmethod
    def truth(self, total: Array, n: int) -> Array:
        """The true values of what is estimated, shape (k,)."""

    @abstractmethod
    def example(self, n: int, rng: np.random.Generator) -> Array:
        """n valid values, for tests and benchmarks."""


@dataclass(frozen=True)
class Categories(Domain):
    """Codes 0..d-1; a pandas categorical counts as its codes.

    Parameters
    ----------
    d : int
        Number of categories; >= 2.

    Examples
    --------
    >>> Categories(3).validate([0, 2, 1])
    array([0, 2, 1], dtype=uint8)
    >>> Categories(3).validate([0, 3])
    Traceback (most recent call last):
    ...
    ValueError: values must be codes in 0..2, got 3 at position 1
    """

    d: int
    target: Literal["count"] = "count"

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", check_integer("d", self.d, low=2))

    @property
    def labels(self) -> Array:
        """The codes."""
        return np.arange(self.d)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Smallest unsigned type that holds every code."""
        return np.min_scalar_type(self.d - 1)

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Integer codes or a pandas categorical -> codes in the smallest unsigned dtype; see `Domain.validate`."""
        array = _vector(_codes_of(values, self.d, offset))
        if array.dtype.kind == "b":
            array = array.view(np.uint8)
        if array.dtype.kind not in "iu":
            _refuse_missing(array, offset)
            hint = " (encode a column with shufflesim.categorical)" if array.dtype.kind in "OUST" else ""
            raise ValueError(f"values must be integer codes in 0..{self.d - 1}, got {array.dtype} such as {array[0]!r}{hint}")
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= self.d:
            bad = int(np.argmax((array < 0) | (array >= self.d)))
            raise ValueError(f"values must be codes in 0..{self.d - 1}, got {int(array[bad])} at position {offset + bad}")
        return array.astype(self.dtype, copy=False)

    def total(self, values: Array) -> Array:
        """Counts per category."""
        return np.bincount(values, minlength=self.d)

    def truth(self, total: Array, n: int) -> Array:
        """Counts per category."""
        return total.astype(float)

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Codes with geometrically falling frequencies, so that both frequent and rare ones occur."""
        return self.validate(np.minimum(rng.geometric(min(0.5, 4 / self.d), n) - 1, self.d - 1))


@dataclass(frozen=True)
class Interval(Domain):
    """Real numbers in [low, high]; their mean is estimated.

    Examples
    --------
    >>> Interval(0, 1).validate([0.5, 1.5])
    Traceback (most recent call last):
    ...
    ValueError: values must be in [0, 1], got 1.5 at position 1
    """

    low: float
    high: float
    target: Literal["mean"] = "mean"

    def __post_init__(self) -> None:
        low, high = check_number("low", self.low, "a finite number"), check_number("high", self.high, "a finite number")
        if not low < high:
            raise ValueError(f"low must be < high, got low={low!r}, high={high!r}")
        if not high - low < np.inf:
            raise ValueError(f"high - low must be finite, got low={low!r}, high={high!r}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def labels(self) -> Array:
        """A single label."""
        return np.array(["mean"])

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Numbers -> float64; see `Domain.validate`."""
        if _is_categorical(values):
            raise ValueError(f"values must be numbers in [{self.low:g}, {self.high:g}], got a categorical")
        array = _vector(values)
        if array.dtype.kind not in "iuf":
            _refuse_missing(array, offset)
            raise ValueError(f"values must be numbers in [{self.low:g}, {self.high:g}], got {array.dtype}")
        inside = (array >= self.low) & (array <= self.high)
        if not inside.all():
            bad = int(np.argmin(inside))
            raise ValueError(
                f"values must be in [{self.low:g}, {self.high:g}], got {array[bad].item()!r} at position {offset + bad}"
            )
        return array.astype(float, copy=False)

    def total(self, values: Array) -> Array:
        """The sum."""
        return np.array([values.sum(dtype=float)])

    def truth(self, total: Array, n: int) -> Array:
        """The mean."""
        return total / n

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform numbers, both ends included."""
        values = rng.uniform(self.low, self.high, n)
        values[: min(2, n)] = [self.low, self.high][: min(2, n)]
        return values


def categorical(column: Any, domain: Any = None) -> pd.Series[Any]:
    """Encode a column of any labels as a pandas categorical, strictly.

    Parameters
    ----------
    column : array_like, shape (n,)
        Labels of one type; no missing values.
    domain : array_like, optional
        The public list of categories. Without it the categories are those that occur, sorted - which reveals them: use a
        public domain where the set of occurring values is itself private.

    Returns
    -------
    pandas.Series
        Of categorical dtype, with no missing codes.

    Raises
    ------
    ValueError
        If a value is missing, or is not in the domain, or the domain repeats a label or has fewer than 2.

    Examples
    --------
    >>> categorical(["b", "a", "b"]).cat.codes.tolist()
    [1, 0, 1]
    """
    import pandas as pd

    for name, given in (("column", column), ("domain", domain)):
        wrong = isinstance(given, (str, bytes, set, frozenset, dict)) or np.ndim(given) != 1
        if wrong and not (name == "domain" and given is None):
            raise ValueError(f"{name} must be a one-dimensional sequence of labels, got {type(given).__name__}")
    series = pd.Series(column)
    if series.empty:
        raise ValueError("the column must have at least one value, got none")
    missing = series.isna()
    if missing.any():
        first = int(missing.argmax())
        raise ValueError(f"the column must have no missing values, got {int(missing.sum())}, the first at position {first}")
    if domain is None:
        labels = series.cat.categories if isinstance(series.dtype, pd.CategoricalDtype) else _sorted(series.unique())
    else:
        labels = pd.Index(domain)
        if labels.hasnans or labels.has_duplicates:
            raise ValueError(f"the domain must list distinct labels without missing ones, got {list(labels)[:5]}...")
    if len(labels) < 2:
        raise ValueError(f"the domain must have at least 2 categories, got {list(labels)}")
    index = pd.Index(labels)
    if isinstance(series.dtype, pd.CategoricalDtype):
        codes = index.get_indexer(series.cat.categories)[series.cat.codes]
    else:
        codes = index.get_indexer(series)
    if codes.min() < 0:
        bad = int(codes.argmin())
        raise ValueError(f"every value must be in the domain, got {_plain(series.iloc[bad])!r} at position {bad}")
    return pd.Series(pd.Categorical.from_codes(codes, categories=index), index=series.index, name=series.name)


def _plain(label: Any) -> Any:
    """A NumPy scalar as the Python value that people recognise."""
    return label.item() if isinstance(label, np.generic) else label


def _sorted(labels: Any) -> Any:
    try:
        return sorted(labels)
    except TypeError:
        raise ValueError(f"the column must have labels of one type, got {sorted({type(x).__name__ for x in labels})}") from None


def _is_categorical(values: Any) -> bool:
    return getattr(getattr(values, "dtype", None), "name", None) == "category"


def _codes_of(values: Any, d: int, offset: int) -> Any:
    """Codes of a pandas categorical; anything else unchanged."""
    if not _is_categorical(values):
        return values
    codes = np.asarray(values.codes if hasattr(values, "codes") else values.cat.codes)
    categories = values.dtype.categories
    if len(categories) != d:
        raise ValueError(f"d must be the number of categories of the data, {len(categories)}, got {d}")
    if codes.size and codes.min() < 0:
        raise ValueError(f"values must not be missing, got a missing value at position {offset + int(np.argmin(codes))}")
    return codes


def _refuse_missing(array: Array, offset: int) -> None:
    """NaN or None among values of a type that is wrong anyway: the missing value is what the user wants to hear of."""
    if array.dtype.kind not in "fO":
        return
    import pandas as pd

    missing = np.asarray(pd.isna(array))
    if missing.any():
        raise ValueError(f"values must not be missing, got a missing value at position {offset + int(missing.argmax())}")


def _vector(values: Any) -> Array:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        raise ValueError("values must hold at least one user, got none")
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise ValueError("values must not be masked, got a masked value")
    return array
