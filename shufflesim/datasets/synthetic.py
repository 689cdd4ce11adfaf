"""Seeded synthetic columns: uniform, Zipf and geometric categories, and Gaussian mixtures on an interval.

Invariant: every value is a fixed function of its own uniform numbers, drawn in order, so the result depends on the
seed alone and not on `CHUNK`, which only bounds the working memory.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._checks import plain

Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator

CHUNK = 1 << 20
"""Values made at a time."""

MAX_TABLE = 1 << 27
"""Most categories a tabulated law may have; making the table takes about 32 bytes a category, 4 GiB at this size."""

MIN_MASS = 1e-300
"""Least share of a mixture that must lie in the interval; below it doubles no longer hold the shares accurately."""

NARROW = 1e-5
"""Width, in standard deviations, under which a normal density is replaced by an exponential tilt.

The relative error of the density is then at most NARROW**2 / 8 < 2e-11; above it the difference of two values of the
normal distribution function keeps a relative error under 1e-8.
"""


def uniform(n: int, d: int, *, seed: Seed) -> NDArray[np.unsignedinteger[Any]]:
    """Draw n categories, each of 0..d-1 equally likely.

    Parameters
    ----------
    n : int
        Number of values; >= 1.
    d : int
        Number of categories; 2 <= d <= 2**64.
    seed : int, numpy.random.SeedSequence or numpy.random.Generator
        A Generator is used as it is and advances; the others give the same result at every call.

    Returns
    -------
    numpy.ndarray, shape (n,)
        Codes in 0..d-1, in the smallest unsigned dtype that holds d-1.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Examples
    --------
    >>> codes = uniform(1000, 10, seed=1)
    >>> codes.dtype, int(codes.min()), int(codes.max())
    (dtype('uint8'), 0, 9)
    """
    n, d = _integer("n", n, 1), _integer("d", d, 2)
    if d > 2**64:
        raise ValueError(f"d must be an integer <= 2**64, got {d}")
    return _generator(seed).integers(0, d, size=n, dtype=np.min_scalar_type(d - 1))


def zipf(n: int, d: int, exponent: float = 1.0, *, seed: Seed) -> NDArray[np.unsignedinteger[Any]]:
    """Draw n categories from the Zipf law truncated to d categories.

    Parameters
    ----------
    n : int
        Number of values; >= 1.
    d : int
        Number of categories; 2 <= d <= 2**27.
    exponent : float, optional
        Finite, >= 0; 0 is the uniform law.
    seed : int, numpy.random.SeedSequence or numpy.random.Generator
        A Generator is used as it is and advances; the others give the same result at every call.

    Returns
    -------
    numpy.ndarray, shape (n,)
        Codes in 0..d-1, in the smallest unsigned dtype that holds d-1. Code 0 is the most frequent.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    Pr[code = k] = (k + 1)**-exponent / sum_{j=1}^{d} j**-exponent, tabulated in double precision and drawn by
    inversion with 53 random bits. Time O(n log d); memory is the result plus about 32 d bytes plus a fixed working
    space.

    Examples
    --------
    >>> codes = zipf(100_000, 100, exponent=1.2, seed=1)
    >>> counts = np.bincount(codes, minlength=100)
    >>> bool(counts[0] > counts[1] > counts[2] > counts[9])
    True
    """
    n, d = _integer("n", n, 1), _table_size(d)
    exponent = _number("exponent", exponent, "a finite number >= 0", lambda x: x >= 0)
    # Past 1e300 all the probability is on code 0 anyway, and the product would overflow.
    return _tabulated(n, -min(exponent, 1e300) * np.log(np.arange(1, d + 1)), seed)


def geometric(n: int, d: int, ratio: float = 0.9, *, seed: Seed) -> NDArray[np.unsignedinteger[Any]]:
    """Draw n categories from the geometric law truncated to d categories.

    Parameters
    ----------
    n : int
        Number of values; >= 1.
    d : int
        Number of categories; 2 <= d <= 2**27.
    ratio : float, optional
        Probability of a category over that of the one before; 0 < ratio < 1.
    seed : int, numpy.random.SeedSequence or numpy.random.Generator
        A Generator is used as it is and advances; the others give the same result at every call.

    Returns
    -------
    numpy.ndarray, shape (n,)
        Codes in 0..d-1, in the smallest unsigned dtype that holds d-1. Code 0 is the most frequent.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    Pr[code = k] = (1 - ratio) ratio**k / (1 - ratio**d), tabulated in double precision and drawn by inversion with 53
    random bits: categories that lie wholly in the last 2**-53 of the probability never occur. Time O(n log d); memory
    is the result plus about 32 d bytes plus a fixed working space.

    Examples
    --------
    >>> codes = geometric(100_000, 300, ratio=0.5, seed=1)
    >>> codes.dtype, round(float((codes == 0).mean()), 1)
    (dtype('uint16'), 0.5)
    """
    n, d = _integer("n", n, 1), _table_size(d)
    ratio = _number("ratio", ratio, "a number in (0, 1)", lambda x: 0 < x < 1)
    return _tabulated(n, math.log(ratio) * np.arange(d), seed)


def gaussian_mixture(
    n: int,
    means: Sequence[float] | NDArray[np.floating[Any]] = (0.3, 0.7),
    scales: Sequence[float] | NDArray[np.floating[Any]] = (0.1, 0.05),
    weights: Sequence[float] | NDArray[np.floating[Any]] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    *,
    seed: Seed,
) -> NDArray[np.float64]:
    """Draw n numbers from a mixture of normal laws, truncated to [low, high].

    Parameters
    ----------
    n : int
        Number of values; >= 1.
    means : sequence of float, shape (k,), optional
        Means of the normal laws before truncation; finite, inside or outside the interval.
    scales : sequence of float, shape (k,), optional
        Their standard deviations; positive and finite.
    weights : sequence of float, shape (k,), optional
        Their weights before truncation; positive and finite, normalised here. Default: equal.
    low, high : float, optional
        The interval; finite, low < high.
    seed : int, numpy.random.SeedSequence or numpy.random.Generator
        A Generator is used as it is and advances; the others give the same result at every call.

    Returns
    -------
    numpy.ndarray of float64, shape (n,)
        Numbers with low <= x <= high.

    Raises
    ------
    ValueError
        If an argument breaks its rule, or if the interval holds less than 1e-300 of the mixture.

    Notes
    -----
    The law is the mixture conditioned on the interval: nothing piles up at the ends, and a normal law that is mostly
    outside counts for less. Drawn by inversion, one uniform number for the component and one for the place. Time
    O(n k); memory is the result plus a fixed working space.

    Examples
    --------
    >>> x = gaussian_mixture(10_000, means=[0.2, 0.9], scales=[0.05, 0.3], weights=[1, 3], seed=1)
    >>> bool(x.min() > 0), bool(x.max() < 1), bool((x > 0.5).mean() > 0.5)
    (True, True, True)
    """
    n = _integer("n", n, 1)
    means_ = _numbers("means", means, positive=False)
    scales_ = _numbers("scales", scales, positive=True)
    weights_ = np.ones(len(means_)) if weights is None else _numbers("weights", weights, positive=True)
    for name, array in (("scales", scales_), ("weights", weights_)):
        if len(array) != len(means_):
            raise ValueError(f"{name} must have as many entries as means ({len(means_)}), got {len(array)}")
    low = _number("low", low, "a finite number", lambda x: True)
    high = _number("high", high, "a finite number", lambda x: True)
    if not low < high:
        raise ValueError(f"low must be less than high, got low={low}, high={high}")
    if math.isinf(high - low):
        raise ValueError(f"high - low must be finite, got low={low}, high={high}")
    rng = _generator(seed)

    weights_ = weights_ / weights_.max()
    weights_ = weights_ / weights_.sum()
    parts = [_part(mean, scale, low, high) for mean, scale in zip(means_.tolist(), scales_.tolist(), strict=True)]
    shares = weights_ * [part.mass for part in parts]
    if not shares.sum() >= MIN_MASS:
        raise ValueError(f"[low, high] must hold at least {MIN_MASS} of the mixture, got [{low}, {high}]")
    cumulative = np.cumsum(shares)
    cumulative /= cumulative[-1]

    values = np.empty(n)
    for start in range(0, n, CHUNK):
        chunk = values[start : start + CHUNK]
        draws = rng.random((len(chunk), 2))
        which = np.searchsorted(cumulative, draws[:, 0], side="right")
        for index, part in enumerate(parts):
            chosen = which == index
            chunk[chosen] = part.place(draws[chosen, 1])
    return values


@dataclass(frozen=True)
class _Wide:
    """Inversion of the normal distribution function, on the side where it keeps its relative precision."""

    mean: float
    scale: float
    low: float
    high: float
    side: int
    start: float
    mass: float

    def place(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.special import ndtri

        # u = 0 stands for the first 2**-53 of the probability; its middle keeps ndtri finite when start = 0.
        quantile = ndtri(self.start + np.maximum(u, 2.0**-54) * self.mass)
        # Already in the interval: this only undoes the last rounding.
        return np.clip(self.mean + self.side * self.scale * quantile, self.low, self.high)


@dataclass(frozen=True)
class _Narrow:
    """Inversion of the density proportional to exp(-tilt t) on t in [0, 1], the place within the interval."""

    low: float
    high: float
    tilt: float
    mass: float

    def place(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        # Below 1e-12 the tilt changes t by less than that, and a subnormal tilt would lose digits.
        t = u if abs(self.tilt) < 1e-12 else -np.log1p(u * math.expm1(-self.tilt)) / self.tilt
        return np.clip(self.low + (self.high - self.low) * t, self.low, self.high)


def _part(mean: float, scale: float, low: float, high: float) -> _Wide | _Narrow:
    """Truncate one normal law, in the form that is accurate for the width of the interval.

    The arithmetic is on Python floats: a tiny scale gives infinite bounds, which are right, and no warning.
    """
    from scipy.special import ndtr

    a, b = (low - mean) / scale, (high - mean) / scale
    width = (high - low) / scale
    if width <= NARROW:
        middle = a + width / 2
        density = math.exp(-middle * middle / 2) / math.sqrt(2 * math.pi)
        if density == 0:
            return _Narrow(low, high, 0.0, 0.0)
        # density > 0 bounds |middle| by 39, hence tilt**4 is below double precision in sinh(tilt / 2) / (tilt / 2).
        tilt = middle * width
        return _Narrow(low, high, tilt, width * density * (1 + tilt * tilt / 24))
    side = 1
    if a + b > 0:
        side, a, b = -1, -b, -a
    start = float(ndtr(a))
    return _Wide(mean, scale, low, high, side, start, float(ndtr(b)) - start)


def _tabulated(n: int, log_weights: NDArray[np.floating[Any]], seed: Seed) -> NDArray[np.unsignedinteger[Any]]:
    """Draw codes with probabilities proportional to exp(log_weights), whose maximum must be 0, by inversion."""
    rng = _generator(seed)
    cumulative = np.cumsum(np.exp(log_weights))
    # The last entry becomes exactly 1 > u, so that a code never exceeds d - 1.
    cumulative /= cumulative[-1]
    codes = np.empty(n, dtype=np.min_scalar_type(len(cumulative) - 1))
    for start in range(0, n, CHUNK):
        chunk = codes[start : start + CHUNK]
        chunk[:] = np.searchsorted(cumulative, rng.random(len(chunk)), side="right")
    return codes


def _generator(seed: Seed) -> np.random.Generator:
    if isinstance(seed, np.random.Generator | np.random.SeedSequence):
        return np.random.default_rng(seed)
    if isinstance(seed, numbers.Integral) and not isinstance(seed, bool) and seed >= 0:
        return np.random.default_rng(int(seed))
    raise ValueError(f"seed must be an integer >= 0, a SeedSequence or a Generator, got {_show(seed)}")


def _integer(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {_show(value)}")
    return int(value)


def _table_size(d: object) -> int:
    size = _integer("d", d, 2)
    if size > MAX_TABLE:
        raise ValueError(f"d must be an integer <= {MAX_TABLE} for a tabulated law, got {size}")
    return size


def _number(name: str, value: object, rule: str, holds: Callable[[float], bool]) -> float:
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and holds(number):
            return number
    raise ValueError(f"{name} must be {rule}, got {_show(value)}")


def _numbers(name: str, value: object, *, positive: bool) -> NDArray[np.float64]:
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.empty(0)
    if array.ndim == 1 and array.size and array.dtype.kind in "iuf":
        array = array.astype(np.float64)
        if np.isfinite(array).all() and (not positive or (array > 0).all()):
            return array
    kind = "positive finite" if positive else "finite"
    raise ValueError(f"{name} must be a non-empty sequence of {kind} numbers, got {_show(value)}")


def _show(value: object) -> str:
    """Show a value on one line of bounded length."""
    text = " ".join(repr(plain(value)).split())
    return text if len(text) <= 80 else text[:77] + "..."
