"""The witch-hat mechanism: a number with a density that falls from a peak at the value to a flat brim.

The row of Wang et al., PVLDB 17(8), 2024, for this mechanism is no total variation of any law: positive for equal inputs and
negative for distant ones. What stands here is a reconstruction from the row's parameters B, m and F: a symmetric hat of height m
and brim 2B.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from shufflesim._checks import check_epsilon, check_number
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array, Interval
from shufflesim.randomizer import Randomizer

# Cells of each hat between which the lower bound distinguishes.
CELLS = 32
# Slopes among which the best is looked for, in units of 1/(high - low).
SLOPES = (1e-6, 1e9)


@dataclass(frozen=True)
class WitchHat(Randomizer):
    """Density `e^{max(0, eps - slope |y - x|)}`, up to a constant, for x in [low, high] and y in an interval around it.

    Parameters
    ----------
    epsilon : float
        Height of the hat: the local budget however far two values are apart, in nats; in (0, 700].
    low, high : float
        Ends of the interval that every value lies in, fixed without looking at the data.
    slope : float, optional
        Budget per unit of length between near values; > 0. By default the one with the smallest variance at the ends.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: numbers in [low, high], shape (n,).
    Source: Wang et al., "Privacy amplification via shuffling", PVLDB 17(8), 2024; the row of its table is reconstructed.

    Reports lie in [low - r, high + r] with r = eps/slope, so that every hat fits. In the paper's parameters 2B = high - low,
    m = eps, F = 2/slope; the constant is Z = F(e^m - 1) + 2B, and two values at distance t have the likelihood ratio
    p = min(e^{slope t}, e^m) and the total variation F(e^m - e^{m-u} - u)/Z, u = min(t/F, m).

    A report has mean h x around the middle of the interval, h = F(e^m - 1 - m)/Z, and is divided by h.

    Examples
    --------
    >>> hat = WitchHat(epsilon=2.0, low=-3.0, high=3.0, slope=1.0)
    >>> round(hat.total_variation(0.1), 12)
    0.03305641324
    """

    epsilon: float
    low: float = -1.0
    high: float = 1.0
    slope: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        interval = Interval(self.low, self.high)
        object.__setattr__(self, "low", interval.low)
        object.__setattr__(self, "high", interval.high)
        if self.slope is None:
            object.__setattr__(self, "slope", best_slope(self.epsilon) / (interval.high - interval.low))
        rule = "a positive number for which epsilon/slope is finite"
        slope = check_number("slope", self.slope, rule, low=math.nextafter(0.0, 1.0))
        if not 0 < self.epsilon / slope < math.inf or not math.isfinite(interval.high - interval.low + 2 * self.epsilon / slope):
            raise ValueError(f"slope must be {rule}, got {self.slope!r}")
        object.__setattr__(self, "slope", slope)

    @property
    def domain(self) -> Interval:
        """[low, high]."""
        return Interval(self.low, self.high)

    @property
    def _shape(self) -> _Hat:
        """In units of half the interval."""
        return _Hat(self.epsilon, float(self.slope or 0.0) * self.domain.half)

    @property
    def local_epsilon(self) -> float:
        """min(eps, slope (high - low))."""
        return min(self.epsilon, 2 * self._shape.slope)

    def total_variation(self, distance: float) -> float:
        """Of two values at this distance."""
        rule = f"in [0, {self.high - self.low!r}]"
        distance = check_number("distance", distance, rule, low=0.0, high=self.high - self.low)
        return self._shape.total_variation(distance / self.domain.half)

    @property
    def amplification(self) -> VariationRatio:
        """The two ends; q_star = 1 where their hats are disjoint, q otherwise.

        Two hats with a common part have g0, g1 = (A, B) and (1, 1) where disjoint ones have (A, 1) and (1, B): for every eps a
        mean-preserving spread of g0 - e^eps g1. So disjoint hats are the worst pair, and their neutral part is flat.
        """
        shape = self._shape
        beta = shape.total_variation(2.0)
        return VariationRatio.ldp(self.local_epsilon, beta, q_star=1.0 if shape.radius <= 1 else None)

    @property
    def bits(self) -> float:
        """A double."""
        return 64.0

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Numbers, shape (n,) -> numbers in [low - eps/slope, high + eps/slope], shape (n,).

        Under the hat an exponential distance cut off at eps; on the brim a uniform point of [low, high], moved out by the radius.
        """
        n, shape = values.shape[0], self._shape
        x = (values - self.domain.middle) / self.domain.half
        distance = -np.log1p(rng.random(n) * math.expm1(-self.epsilon)) / shape.slope
        brim = rng.uniform(-1.0, 1.0, n)
        under = np.where(rng.random(n) < 0.5, x - distance, x + distance)
        moved = np.where(brim < x, brim - shape.radius, brim + shape.radius)
        return self.domain.middle + self.domain.half * np.where(rng.random(n) < shape.covered, under, moved)

    def aggregate(self, reports: Array) -> Array:
        """Sums of reports around the middle, in units of half the interval, and of their squares, shape (2,)."""
        y = (reports - self.domain.middle) / self.domain.half
        return np.array([y.sum(), np.square(y).sum()])

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean, shape (1,)."""
        return self.domain.unscaled(aggregate[:1] / (n * self._shape.shrinkage))

    def variance(self, total: Array, n: int) -> Array:
        """(E[y^2] - h^2 x^2)/h^2 summed over users, E[y^2] = h x^2 + a constant."""
        shape = self._shape
        spread = n * shape.second + total[1] * shape.blurred
        return (self.domain.half / (n * shape.shrinkage)) ** 2 * spread

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """With sum x^2 = (sum y^2 - n constant)/h, brought into [n mean^2, n]."""
        shape = self._shape
        mean = np.clip(aggregate[0] / (n * shape.shrinkage), -1.0, 1.0)
        square = np.clip((aggregate[1] - n * shape.second) / shape.shrinkage, n * mean**2, n)
        return self.variance(np.array([[n * mean], [square]]), n)

    def cdf(self, value: float, reports: Array) -> Array:
        """Distribution function of a report given one value."""
        return self._shape.cdf((value - self.domain.middle) / self.domain.half, (reports - self.domain.middle) / self.domain.half)

    def log_likelihood(self, value: float, reports: Array) -> Array:
        """`max(0, eps - slope |y - x|)`."""
        return np.maximum(0.0, self.epsilon - float(self.slope or 0.0) * np.abs(reports - value))

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Cells of the two ends' hats, for a lower bound; others at either end or in the middle."""
        shape, part = self._shape, np.linspace(-1.0, 1.0, 2 * CELLS + 1) * self._shape.radius
        edges = np.unique(np.concatenate([part - 1, part + 1, [0.0]]))
        laws = {name: np.diff(shape.cdf(x, edges)) for name, x in (("low", -1.0), ("high", 1.0), ("the middle", 0.0))}
        return tuple(OutcomeGroups(laws["low"], laws["high"], law, None, f"others hold {name}") for name, law in laws.items())

    @classmethod
    def examples(cls) -> Iterator[WitchHat]:
        """Typical, scaled with overlapping hats, extreme."""
        yield cls(epsilon=2.0)
        yield cls(epsilon=1.0, low=0.0, high=50.0, slope=0.02)
        yield cls(epsilon=1e-9)
        yield cls(epsilon=700.0)


@dataclass(frozen=True)
class _Hat:
    """The law for x in [-1, 1]; all masses are over e^m, so that m = 700 does not overflow.

    e^m - (1 + m + ... + m^{k-1}/(k-1)!) = e^m P(k, m), P the regularised incomplete gamma function: no cancellation.
    """

    m: float
    slope: float

    @property
    def radius(self) -> float:
        return self.m / self.slope

    @property
    def under(self) -> float:
        """Mass under the hat, F (1 - e^-m)."""
        return 2 / self.slope * -math.expm1(-self.m)

    @property
    def total(self) -> float:
        return self.under + 2 * math.exp(-self.m)

    @property
    def covered(self) -> float:
        """Probability of a report under the hat."""
        return self.under / self.total

    @property
    def shrinkage(self) -> float:
        """The factor h by which reports are nearer to 0 on average."""
        return 2 / self.slope * float(special.gammainc(2, self.m)) / self.total

    @property
    def blurred(self) -> float:
        """h (1 - h): 1 - h is what lies flat, (F m + 2) e^-m."""
        return self.shrinkage * 2 * (self.radius + 1) * math.exp(-self.m) / self.total

    @property
    def second(self) -> float:
        """E[y^2] of a user at 0: the flat part on [-1 - r, 1 + r], and the hat beyond it."""
        flat = 2 / 3 * (1 + self.radius) ** 3 * math.exp(-self.m)
        return (flat + 4 / self.slope**3 * float(special.gammainc(4, self.m))) / self.total

    def total_variation(self, distance: float) -> float:
        u = min(distance * self.slope / 2, self.m)
        # e^m - e^{m-u} - u over e^m: for small numbers a difference of second order.
        gain = -math.expm1(-u) - u * math.exp(-self.m)
        if self.m < 1e-3:
            gain = u * (self.m - u / 2) + u * (u * u / 6 - self.m * self.m / 2) + u * self.m**3 / 6 - u**4 / 24
        return max(0.0, 2 / self.slope * gain / self.total)

    def cdf(self, x: float, y: Array) -> Array:
        flat = math.exp(-self.m)
        y = np.clip(y, -1 - self.radius, 1 + self.radius)
        t = np.clip(y - x, -self.radius, self.radius)
        brim = flat * (np.minimum(y, x - self.radius) + 1 + self.radius + np.maximum(y - x - self.radius, 0.0))
        rising = flat * np.expm1(self.slope * (np.minimum(t, 0.0) + self.radius)) / self.slope
        falling = -np.expm1(-self.slope * np.maximum(t, 0.0)) / self.slope
        return (brim + rising + falling) / self.total


def best_slope(epsilon: float) -> float:
    """The slope with the smallest variance at the ends of [0, 1] (where x^2 is largest), found numerically."""

    def loss(log_slope: float) -> float:
        hat = _Hat(epsilon, math.exp(log_slope) / 2)
        return math.log(hat.second + hat.blurred) - 2 * math.log(hat.shrinkage)

    low, high = (math.log(epsilon * factor) for factor in SLOPES)
    grid = np.linspace(low, high, 200)
    best = grid[int(np.argmin([loss(g) for g in grid]))]
    step = grid[1] - grid[0]
    found = optimize.minimize_scalar(loss, bounds=(best - step, best + step), method="bounded", options={"xatol": 1e-9})
    return math.exp(found.x)
