"""The contract of a domain, and how data become arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# What is estimated: numbers of users (or sums of bounded values over them), or means.
Target = Literal["count", "mean"]


class Domain(ABC):
    """The set of values that one user can hold.

    Attributes
    ----------
    target : {"count", "mean"}
        What is estimated: sums over users, such as the number of users per category, or means.
    """

    target: ClassVar[Target]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one user's value; data have the shape `(n, *shape)`."""
        return ()

    @property
    @abstractmethod
    def labels(self) -> Array:
        """One label for each estimated number, shape (k,)."""

    @property
    def kinds(self) -> dict[str, slice]:
        """Which of the estimated numbers are of one kind, so that their errors can be averaged."""
        return {"users" if self.target == "count" else "means": slice(None)}

    @abstractmethod
    def validate(self, values: Any, offset: int = 0) -> Array:
        """Check every value and return them as an array, shape `(n, *shape)`, without changing the caller's.

        `offset` is the position of the first value in the whole data, for the message.

        Raises
        ------
        ValueError
            Naming the rule and the first value that breaks it.
        """

    @abstractmethod
    def total(self, values: Array) -> Array:
        """Additive summary of validated values: what the truth and the exact variances follow from."""

    def grouped_total(self, values: Array, counts: Array) -> Array:
        """`total` of counts[i] users who hold values[i]."""
        raise ValueError(f"data must be given user by user for {self!r}, got Counts")

    @abstractmethod
    def truth(self, total: Array, n: int) -> Array:
        """The true values of what is estimated, shape (k,)."""

    @abstractmethod
    def plausible(self, estimate: Array, n: int) -> Array:
        """A summary like `total` for estimated targets, brought into their range: for standard errors only.

        Where the targets leave it open, the one with the least second moments.
        """

    def plug_in(self, variance: Callable[[Array], Array], estimate: Array, n: int) -> Array:
        """An exact variance, as a function of the summary, at estimated targets."""
        return variance(self.plausible(estimate, n))

    @abstractmethod
    def example(self, n: int, rng: np.random.Generator) -> Array:
        """n valid values, for tests and benchmarks."""

    @abstractmethod
    def refused(self) -> Iterator[Any]:
        """Data that `validate` must refuse, for tests."""

    def collect(self, data: Any, offset: int = 0) -> Any:
        """The data as something that can be sliced by user, not yet validated; `offset` as for `validate`."""
        return as_array(data, self.shape, "data")

    def labels_of(self, data: Any) -> Array:
        """`labels`, or better ones that the data bring along."""
        return self.labels


def as_array(values: Any, shape: tuple[int, ...], name: str = "values") -> Array:
    """An array with one row a user; refuses other shapes, nothing at all, and masked values."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must have as many entries for every user, got a ragged sequence ({error})") from None
    if array.ndim != 1 + len(shape) or array.shape[1:] != shape:
        rule = f"have shape (n, {', '.join(map(str, shape))})" if shape else "be one-dimensional"
        raise ValueError(f"{name} must {rule}, got shape {array.shape}")
    if array.shape[0] == 0:
        raise ValueError(f"{name} must hold at least one user, got none")
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise ValueError(f"{name} must not be masked, got a masked value")
    return array


def refuse_missing(array: Array, offset: int) -> None:
    """NaN or None among values of a type that is wrong anyway: the missing value is what the user wants to hear of."""
    if array.dtype.kind not in "fO":
        return
    import pandas as pd

    missing = np.asarray(pd.isna(array)).reshape(array.shape[0], -1).any(axis=1)
    if missing.any():
        raise ValueError(f"values must not be missing, got a missing value at position {offset + int(missing.argmax())}")


def check_range(array: Array, low: float, high: float, offset: int) -> None:
    """Every entry in [low, high]; NaN is not."""
    inside = (array >= low) & (array <= high)
    if not inside.all():
        bad = np.unravel_index(int(np.argmin(inside)), array.shape)
        place = f"position {offset + int(bad[0])}" + (f", coordinate {int(bad[1])}" if array.ndim > 1 else "")
        raise ValueError(f"values must be in [{low:g}, {high:g}], got {array[bad].item()!r} at {place}")


def is_categorical(values: Any) -> bool:
    """Whether it is a pandas categorical (series, index or array)."""
    return getattr(getattr(values, "dtype", None), "name", None) == "category"
