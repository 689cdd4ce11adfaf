"""Categories and sets of them, of which counts are estimated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from .._checks import check_integer, check_size, plain
from .base import Array, Domain, Target, as_array, is_categorical, refuse_missing
from .labels import distinct, encode, in_order, refuse_missing_labels
from .stream import Stream

if TYPE_CHECKING:
    import pandas as pd


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
    target: ClassVar[Target] = "count"

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", check_size("d", self.d, low=2))

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
        return _check_codes(as_array(_codes_of(values, self.d, offset), ()), self.d, offset)

    def total(self, values: Array) -> Array:
        """Counts per category."""
        return np.bincount(values, minlength=self.d)

    def grouped_total(self, values: Array, counts: Array) -> Array:
        """Counts per category."""
        total = np.zeros(self.d, dtype=np.int64)
        np.add.at(total, values, counts)
        return total

    def truth(self, total: Array, n: int) -> Array:
        """Counts per category."""
        return total.astype(float)

    def plausible(self, estimate: Array, n: int) -> Array:
        """Between none and all of the users."""
        return np.clip(estimate, 0, n)

    def plug_in(self, variance: Callable[[Array], Array], estimate: Array, n: int) -> Array:
        """At the estimates as they are, where a variance linear in the counts has no bias; at least that of clipped ones."""
        return np.maximum(variance(estimate), super().plug_in(variance, estimate, n))

    def collect(self, data: Any, offset: int = 0) -> Any:
        """One code a user; a pandas categorical stays one."""
        if is_categorical(data) and len(data):
            return data.array if hasattr(data, "array") else data
        codes: Array = super().collect(data, offset)
        # Here already: integers beside a missing value are floats, all of them, and `validate` may see others first.
        refuse_missing(codes, offset)
        return codes

    def labels_of(self, data: Any) -> Array:
        """The categories of a pandas categorical."""
        return np.asarray(data.dtype.categories) if is_categorical(data) else self.labels

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Codes with geometrically falling frequencies, so that both frequent and rare ones occur."""
        return self.validate(np.minimum(rng.geometric(min(0.5, 4 / self.d), n) - 1, self.d - 1))

    def refused(self) -> Iterator[Any]:
        """Wrong shapes and types, codes outside, missing ones."""
        yield from ([], [[0, 1], [1, 0]], ["a", "b"], [None, 0], [np.nan, 0.0])
        yield from ([-1, 0], [0, self.d], [0.5, 0.0], [1.0, 0.0])


@dataclass(frozen=True)
class Sets(Domain):
    """Sets of exactly s distinct codes out of 0..d-1, one row a user; the number of users who hold each code is estimated.

    Parameters
    ----------
    d : int
        Number of codes; >= 2.
    s : int
        Size of every user's set; 1 <= s <= d. Sets of different sizes are padded with codes of their own before.

    Examples
    --------
    >>> Sets(5, 2).validate([[0, 3], [4, 1]])
    array([[0, 3],
           [4, 1]], dtype=uint8)
    >>> Sets(5, 2).validate([[0, 3], [4, 4]])
    Traceback (most recent call last):
    ...
    ValueError: values must hold 2 distinct codes per user, got [4, 4] at position 1
    """

    d: int
    s: int
    target: ClassVar[Target] = "count"

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", check_size("d", self.d, low=2))
        object.__setattr__(self, "s", check_integer("s", self.s, low=1, high=self.d))

    @property
    def shape(self) -> tuple[int, ...]:
        """(s,)."""
        return (self.s,)

    @property
    def labels(self) -> Array:
        """The codes."""
        return np.arange(self.d)

    def labels_of(self, data: Any) -> Array:
        """The categories that all columns of a DataFrame share."""
        return np.asarray(data.dtypes.iloc[0].categories) if categorical_columns(data) else self.labels

    def collect(self, data: Any, offset: int = 0) -> Any:
        """Rows of codes; the columns of a DataFrame may be categoricals with the same categories."""
        if categorical_columns(data):
            labels = shared_categories(data)
            codes = np.column_stack([_codes_of(data[column], self.d, offset) for column in data.columns])
            codes = super().collect(codes, offset)
            # Here already: `validate` sees codes, and the user knows labels.
            self._refuse_repeated(codes, offset, labels)
            return codes
        codes = super().collect(data, offset)
        refuse_missing(codes, offset)
        return codes

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Rows of integer codes -> the same in the smallest unsigned dtype; see `Domain.validate`."""
        array = _check_codes(as_array(values, self.shape), self.d, offset)
        self._refuse_repeated(array, offset)
        return array

    def _refuse_repeated(self, array: Array, offset: int, labels: list[Any] | None = None) -> None:
        """A row with a code twice; the message names labels where there are some."""
        ordered = np.sort(array, axis=1)
        distinct = (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
        if not distinct.all():
            bad = int(np.argmin(distinct))
            row = [code if labels is None else plain(labels[code]) for code in array[bad].tolist()]
            what = "codes" if labels is None else "categories"
            raise ValueError(f"values must hold {self.s} distinct {what} per user, got {row} at position {offset + bad}")

    def total(self, values: Array) -> Array:
        """Users per code."""
        return np.bincount(values.ravel(), minlength=self.d)

    def truth(self, total: Array, n: int) -> Array:
        """Users per code."""
        return total.astype(float)

    def plausible(self, estimate: Array, n: int) -> Array:
        """Between none and all of the users."""
        return np.clip(estimate, 0, n)

    def plug_in(self, variance: Callable[[Array], Array], estimate: Array, n: int) -> Array:
        """At the estimates as they are, where a variance linear in the counts has no bias; at least that of clipped ones."""
        return np.maximum(variance(estimate), super().plug_in(variance, estimate, n))

    def subsets(self) -> Array:
        """All sets in lexicographic order, shape (C(d, s), s)."""
        return np.array(list(itertools.combinations(range(self.d), self.s)))

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Neighbouring codes, early ones more often, each row in random order."""
        first = np.minimum(rng.geometric(min(0.5, 4 / self.d), n) - 1, self.d - 1)
        rows = (first[:, None] + np.arange(self.s)) % self.d
        return self.validate(rng.permuted(rows, axis=1))

    def refused(self) -> Iterator[Any]:
        """Wrong shapes and types, codes outside, codes that repeat, missing ones."""
        good = np.arange(self.s)[None, :].repeat(2, axis=0)
        yield from (good[:0], good[0], good[:, :, None], good.astype(float), good.astype(str), np.hstack([good, good]))
        yield from (np.where(good == 0, -1, good), np.where(good == 0, self.d, good), good.astype(object) * np.nan)
        if self.s > 1:
            yield np.zeros_like(good)


@overload
def categorical(column: Stream, domain: Any = ...) -> Stream: ...


@overload
def categorical(column: Any, domain: Any = ...) -> pd.Series[Any]: ...


def categorical(column: Any, domain: Any = None) -> pd.Series[Any] | Stream:
    """Encode a column of any labels as a pandas categorical, strictly.

    Parameters
    ----------
    column : array_like, shape (n,), or Stream
        Labels of one type; no missing values.
    domain : array_like, optional
        The public list of categories. Without it the categories are those that occur, sorted - which reveals them: use a
        public domain where the set of occurring values is itself private. A `Stream` is read once more to find them.

    Returns
    -------
    pandas.Series or Stream
        Of categorical dtype, with no missing codes. A stream is encoded when it is read.

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
        if wrong and not (name == "domain" and given is None) and not isinstance(given, Stream):
            raise ValueError(f"{name} must be a one-dimensional sequence of labels, got {type(given).__name__}")
    if isinstance(column, Stream):
        return column.encoded(column.occurring() if domain is None else domain)
    series = pd.Series(column)
    if series.empty:
        raise ValueError("the column must have at least one value, got none")
    if domain is None:
        refuse_missing_labels(series)
        domain = series.cat.categories if isinstance(series.dtype, pd.CategoricalDtype) else in_order(series.unique())
    return encode(series, distinct(domain))


def _codes_of(values: Any, d: int, offset: int) -> Any:
    """Codes of a pandas categorical; anything else unchanged."""
    if not is_categorical(values):
        return values
    codes = np.asarray(values.codes if hasattr(values, "codes") else values.cat.codes)
    categories = values.dtype.categories
    if len(categories) != d:
        raise ValueError(f"d must be the number of categories of the data, {len(categories)}, got {d}")
    if codes.size and codes.min() < 0:
        raise ValueError(f"values must not be missing, got a missing value at position {offset + int(np.argmin(codes))}")
    return codes


def categorical_columns(data: Any) -> bool:
    """Whether it is a DataFrame of nothing but categoricals."""
    import pandas as pd

    return isinstance(data, pd.DataFrame) and all(isinstance(dtype, pd.CategoricalDtype) for dtype in data.dtypes)


def shared_categories(data: pd.DataFrame) -> list[Any]:
    """The categories of every column of a DataFrame of categoricals; refuses different ones."""
    lists = [list(dtype.categories) for dtype in data.dtypes]
    other = next((found for found in lists if found != lists[0]), None)
    if other is not None:
        raise ValueError(f"data must have the same categories in all columns, in one order, got {lists[0]} and {other}")
    return lists[0]


def _check_codes(array: Array, d: int, offset: int) -> Array:
    """Integer codes in 0..d-1 of any shape, in the smallest unsigned type that holds them."""
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    if array.dtype.kind not in "iu":
        refuse_missing(array, offset)
        hint = " (encode a column with shufflesim.categorical)" if array.dtype.kind in "OUST" else ""
        shown = array.ravel()[0]
        raise ValueError(f"values must be integer codes in 0..{d - 1}, got {array.dtype} such as {plain(shown)!r}{hint}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= d:
        bad = np.unravel_index(int(np.argmax((array < 0) | (array >= d))), array.shape)
        raise ValueError(f"values must be codes in 0..{d - 1}, got {int(array[bad])} at position {offset + int(bad[0])}")
    return array.astype(np.min_scalar_type(d - 1), copy=False)
