"""Numbers that are written in digits, the last one rounded at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import check_integer, check_size
from .base import Array, check_range
from .numbers import Interval, _Numbers

# Largest product of all precisions: digits of a double, with room for the roundings of the products.
GRID_MAX = 2**40


@dataclass(frozen=True)
class Digits(_Numbers):
    """Numbers in [low, high], or vectors of them, in mixed radix; their mean is estimated.

    Parameters
    ----------
    precisions : tuple of int
        p_1, ..., p_m. With u = (x - low)/(high - low): digit j is z_j = min(floor(p_j rem), p_j - 1) of what is left, rem = u at
        first, and p_j rem - z_j is left after it; the last digit is p_m rem, rounded at random to a neighbouring integer, 0..p_m.
        All >= 2, the last one >= 1; their product at most 2^40. On average u = sum_j z_j/(p_1 ... p_j).
    low, high : float
        Range of the numbers.
    dim : int or None
        Length of the vectors; None for single numbers.

    Examples
    --------
    >>> tenths = Digits((10, 10), low=0, high=1)
    >>> tenths.digits(tenths.validate([0.25, 1.0]), np.random.default_rng(0)).tolist()
    [[2, 5], [9, 10]]
    """

    precisions: tuple[int, ...]
    low: float
    high: float
    dim: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.precisions, (tuple, list)) or not self.precisions:
            raise ValueError(f"precisions must be one or more integers, got {self.precisions!r}")
        last = len(self.precisions) - 1
        checked = tuple(check_integer("precisions", p, low=2 if j < last else 1) for j, p in enumerate(self.precisions))
        if math.prod(checked) > GRID_MAX:
            raise ValueError(f"precisions must have a product of at most 2^40, got {math.prod(checked)}")
        object.__setattr__(self, "precisions", checked)
        interval = Interval(self.low, self.high)
        object.__setattr__(self, "low", interval.low)
        object.__setattr__(self, "high", interval.high)
        if self.dim is not None:
            object.__setattr__(self, "dim", check_size("dim", self.dim, low=1))

    @property
    def shape(self) -> tuple[int, ...]:
        """() or (dim,)."""
        return () if self.dim is None else (self.dim,)

    @property
    def middle(self) -> float:
        """(low + high)/2."""
        return Interval(self.low, self.high).middle

    @property
    def half(self) -> float:
        """(high - low)/2."""
        return Interval(self.low, self.high).half

    @property
    def labels(self) -> Array:
        """A single label, or one for each coordinate."""
        return np.array(["mean"]) if self.dim is None else super().labels

    def labels_of(self, data: Any) -> Array:
        """A single label, or the names of a DataFrame's columns."""
        return self.labels if self.dim is None else super().labels_of(data)

    @property
    def places(self) -> Array:
        """What a unit of each digit is worth, 1/(p_1 ... p_j), shape (m,)."""
        return 1 / np.cumprod(np.array(self.precisions, dtype=float))

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Numbers -> float64, shape `(n, *shape)`; see `Domain.validate`."""
        array = self._numbers(values, f"numbers in [{self.low:g}, {self.high:g}]", offset)
        check_range(array, self.low, self.high, offset)
        return array.astype(float, copy=False)

    def expand(self, values: Array) -> tuple[Array, Array]:
        """Digits before rounding, shape `(n, *shape, m)`, and the fraction of the last one, shape `(n, *shape)`."""
        rest = np.clip(0.5 + ((values - self.middle) / self.half) / 2, 0.0, 1.0)
        found = np.empty((*rest.shape, len(self.precisions)), dtype=np.int64)
        for j, p in enumerate(self.precisions[:-1]):
            rest = rest * p
            found[..., j] = np.minimum(rest.astype(np.int64), p - 1)
            rest = rest - found[..., j]
        rest = rest * self.precisions[-1]
        found[..., -1] = rest.astype(np.int64)
        return found, rest - found[..., -1]

    def digits(self, values: Array, rng: np.random.Generator) -> Array:
        """Digits of validated values, the last one rounded at random, shape `(n, *shape, m)`."""
        found, fraction = self.expand(values)
        found[..., -1] += rng.random(fraction.shape) < fraction
        return found

    def total(self, values: Array) -> Array:
        """Summary of the numbers and of their digits, shape (3 + 2 m, dim); see `digit_sums`."""
        return self.grouped_total(values, np.ones(values.shape[0]))

    def grouped_total(self, values: Array, counts: Array) -> Array:
        """Rows: scaled values, their squares; mean digits, mean squared digits; variances f(1-f) of the last one's rounding."""
        found, fraction = (a.reshape(values.shape[0], -1, *a.shape[1 + len(self.shape) :]) for a in self.expand(values))
        mean, square = found.astype(float), found.astype(float) ** 2
        mean[..., -1] += fraction
        square[..., -1] += fraction * (2 * found[..., -1] + 1)
        sums = (np.einsum("i,ikj->jk", counts, a) for a in (mean, square))
        rounding = np.einsum("i,ij->j", counts, fraction * (1 - fraction))
        return np.vstack([super().grouped_total(values, counts), *sums, rounding])

    def digit_sums(self, total: Array) -> tuple[Array, Array, Array]:
        """Of a summary: sums of E z_j and of E z_j^2, shape (m, dim), and of the variances of the rounding, shape (dim,)."""
        m = len(self.precisions)
        return total[2 : 2 + m], total[2 + m : 2 + 2 * m], total[-1]

    def plausible(self, estimate: Array, n: int) -> Array:
        """All users at the mean."""
        mean = self.middle + self.half * np.clip((estimate - self.middle) / self.half, -1.0, 1.0)
        return n * self.grouped_total(np.clip(mean, self.low, self.high).reshape(1, *self.shape), np.ones(1))

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform numbers, both ends included."""
        values = rng.uniform(self.low, self.high, (n, *self.shape))
        values[0] = self.low
        values[min(1, n - 1)] = self.high
        return values

    def refused(self) -> Any:
        """Wrong shapes, types, missing and infinite values, numbers outside."""
        good = np.full((2, *self.shape), self.low)
        for bad in (np.nan, np.inf, self.low - 1e-3 * (self.high - self.low)):
            values = good.copy()
            values[1] = bad
            yield values
        yield from (good[:0], good[0], good[..., None], good.astype(str), good > 0)
