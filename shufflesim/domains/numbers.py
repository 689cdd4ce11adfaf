"""Numbers and vectors, of which means are estimated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._checks import check_number, check_size
from .base import Array, Domain, Target, as_array, check_range, is_categorical, refuse_missing

# Departure of a squared length from 1 that is rounding of float32 data, not a mistake.
UNIT_TOLERANCE = 1e-5
# Widths of an interval whose squares are numbers too.
WIDTHS = (1e-150, 1e150)


class _Numbers(Domain):
    """Values that become numbers in [-1, 1], or vectors of them, by a linear map that estimates undo.

    The summary is the sum of the mapped numbers and of their squares, shape (2, dim): near 0, so that a large offset of the data
    does not cancel digits.
    """

    target: ClassVar[Target] = "mean"

    @property
    def middle(self) -> float:
        """What maps to 0."""
        return 0.0

    @property
    def half(self) -> float:
        """Half the width of the range: what a mapped unit stands for."""
        return 1.0

    @property
    def labels(self) -> Array:
        """One label for each coordinate."""
        return np.array([f"mean {j}" for j in range(math.prod(self.shape))])

    def labels_of(self, data: Any) -> Array:
        """The names of a DataFrame's columns."""
        return np.asarray(data.columns) if hasattr(data, "columns") else self.labels

    def collect(self, data: Any, offset: int = 0) -> Any:
        """Numbers; codes of a categorical are none."""
        if is_categorical(data):
            raise ValueError("data must be numbers, got a categorical")
        return super().collect(data, offset)

    def scaled(self, values: Array) -> Array:
        """Validated values in [-1, 1], shape (n, dim); what is cut off is rounding."""
        return np.clip((values.reshape(values.shape[0], -1) - self.middle) / self.half, -1.0, 1.0)

    def unscaled(self, means: Array) -> Array:
        """Means of scaled values, in the units of the data."""
        return self.middle + self.half * means

    def total(self, values: Array) -> Array:
        """Sums of the scaled values and of their squares, shape (2, dim)."""
        scaled = self.scaled(values)
        return np.array([scaled.sum(axis=0), np.einsum("ij,ij->j", scaled, scaled)])

    def grouped_total(self, values: Array, counts: Array) -> Array:
        """The same of counts[i] users who hold values[i]."""
        scaled = self.scaled(values)
        return np.array([np.einsum("i,ij->j", counts, part) for part in (scaled, scaled * scaled)])

    def truth(self, total: Array, n: int) -> Array:
        """The mean, shape (dim,)."""
        return self.unscaled(total[0] / n)

    def plausible(self, estimate: Array, n: int) -> Array:
        """All users at the mean."""
        mean = np.clip((estimate - self.middle) / self.half, -1.0, 1.0)
        return n * np.array([mean, mean**2])

    def _numbers(self, values: Any, rule: str, offset: int) -> Array:
        if is_categorical(values):
            raise ValueError(f"values must be {rule}, got a categorical")
        array = as_array(values, self.shape)
        if array.dtype.kind not in "iuf":
            refuse_missing(array, offset)
            raise ValueError(f"values must be {rule}, got {array.dtype}")
        return array


@dataclass(frozen=True)
class Interval(_Numbers):
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

    def __post_init__(self) -> None:
        low, high = check_number("low", self.low, "a finite number"), check_number("high", self.high, "a finite number")
        if not low < high:
            raise ValueError(f"low must be < high, got low={low!r}, high={high!r}")
        if not high - low < np.inf:
            raise ValueError(f"high - low must be finite, got low={low!r}, high={high!r}")
        if not WIDTHS[0] <= high - low <= WIDTHS[1]:
            raise ValueError(f"high - low must be in [{WIDTHS[0]:g}, {WIDTHS[1]:g}], got low={low!r}, high={high!r}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def middle(self) -> float:
        """(low + high)/2."""
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        """(high - low)/2."""
        return self.high / 2 - self.low / 2

    @property
    def labels(self) -> Array:
        """A single label."""
        return np.array(["mean"])

    def labels_of(self, data: Any) -> Array:
        """A single label."""
        return self.labels

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Numbers -> float64, shape (n,); see `Domain.validate`."""
        array = self._numbers(values, f"numbers in [{self.low:g}, {self.high:g}]", offset)
        check_range(array, self.low, self.high, offset)
        return array.astype(float, copy=False)

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform numbers, both ends included."""
        values = rng.uniform(self.low, self.high, n)
        values[: min(2, n)] = [self.low, self.high][: min(2, n)]
        return values

    def refused(self) -> Iterator[Any]:
        """Wrong shapes, types, missing and infinite values, numbers outside."""
        width = self.high - self.low
        yield from ([], [[0.0, 1.0]], ["a", "b"], [None, self.low], [np.nan, self.low], [np.inf, self.low], [True, False])
        yield from ([self.low - 1e-3 * width], [self.high + 1e-3 * width])


@dataclass(frozen=True)
class Box(_Numbers):
    """Vectors of `dim` numbers in [low, high]; the mean of each coordinate is estimated.

    Examples
    --------
    >>> Box(2, -1, 1).validate([[0.5, 0.0], [1.0, 1.5]])
    Traceback (most recent call last):
    ...
    ValueError: values must be in [-1, 1], got 1.5 at position 1, coordinate 1
    """

    dim: int
    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_size("dim", self.dim, low=1))
        interval = Interval(self.low, self.high)
        object.__setattr__(self, "low", interval.low)
        object.__setattr__(self, "high", interval.high)

    @property
    def shape(self) -> tuple[int, ...]:
        """(dim,)."""
        return (self.dim,)

    @property
    def middle(self) -> float:
        """(low + high)/2."""
        return Interval(self.low, self.high).middle

    @property
    def half(self) -> float:
        """(high - low)/2."""
        return Interval(self.low, self.high).half

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Vectors -> float64, shape (n, dim); see `Domain.validate`."""
        array = self._numbers(values, f"numbers in [{self.low:g}, {self.high:g}]", offset)
        check_range(array, self.low, self.high, offset)
        return array.astype(float, copy=False)

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform vectors, two opposite corners included."""
        values = rng.uniform(self.low, self.high, (n, self.dim))
        values[0] = self.low
        values[min(1, n - 1)] = self.high
        return values

    def refused(self) -> Iterator[Any]:
        """Wrong shapes, types, missing and infinite values, numbers outside."""
        good = np.full((2, self.dim), self.low)
        for bad in (np.nan, np.inf, self.low - 1e-3 * (self.high - self.low)):
            values = good.copy()
            values[1, -1] = bad
            yield values
        yield from (good[:0], good[0], good[:, :, None], np.full((2, self.dim + 1), self.low), good.astype(str), good > 0)


@dataclass(frozen=True)
class UnitVectors(_Numbers):
    """Vectors of length 1 in R^dim; the mean of each coordinate is estimated.

    Nothing is normalised: a vector whose squared length differs from 1 by more than 1e-5 is refused.

    Examples
    --------
    >>> UnitVectors(2).validate([[0.6, 0.8], [1.0, 1.0]])
    Traceback (most recent call last):
    ...
    ValueError: values must have length 1, got 1.414213562 at position 1
    """

    dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_size("dim", self.dim, low=2))

    @property
    def shape(self) -> tuple[int, ...]:
        """(dim,)."""
        return (self.dim,)

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Vectors -> float64, shape (n, dim); see `Domain.validate`."""
        array = self._numbers(values, "vectors of length 1", offset).astype(float, copy=False)
        square = np.einsum("ij,ij->i", array, array)
        unit = np.abs(square - 1) <= UNIT_TOLERANCE
        if not unit.all():
            bad = int(np.argmin(unit))
            raise ValueError(f"values must have length 1, got {np.sqrt(square[bad]):.10g} at position {offset + bad}")
        return array

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Vectors around a common direction, so that the mean is not 0."""
        values = rng.standard_normal((n, self.dim))
        values[:, 0] += np.sqrt(self.dim) / 2
        return values / np.linalg.norm(values, axis=1, keepdims=True)

    def refused(self) -> Iterator[Any]:
        """Wrong shapes, types and lengths, missing and infinite values."""
        good = np.zeros((2, self.dim))
        good[:, 0] = 1.0
        for bad in (np.nan, np.inf, 1e-2):
            values = good.copy()
            values[1, 1] = bad
            yield values
        yield from (good[:0], good[0], 1.01 * good, np.zeros((2, self.dim)), good[:, :-1], good.astype(str), good > 0)
