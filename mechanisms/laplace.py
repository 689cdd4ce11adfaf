"""Laplace noise on a bounded number, with a budget for the whole interval or for a unit of length.

Sources: Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data analysis", TCC 2006; Chatzikokolakis,
Andres, Bordenabe, Palamidessi, "Broadening the scope of differential privacy using metrics", PETS 2013 (metric privacy).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import EPSILON_MAX, check_epsilon, check_number
from shufflesim.bounds import Claim, Crowd, LaplacePair, VariationRatio
from shufflesim.domains import Array, Interval
from shufflesim.randomizer import Randomizer


class _LaplaceNoise(Randomizer):
    """x + Laplace noise, x in [low, high]."""

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        interval = Interval(self.low, self.high)
        object.__setattr__(self, "low", interval.low)
        object.__setattr__(self, "high", interval.high)

    @property
    @abstractmethod
    def scale(self) -> float:
        """Scale of the noise, in the units of the data."""

    @property
    def domain(self) -> Interval:
        """[low, high]."""
        return Interval(self.low, self.high)

    @property
    def amplification(self) -> VariationRatio:
        """beta = 1 - e^{-eps/2} with the local eps of the interval, attained by its two ends; q_star = q."""
        return VariationRatio.ldp(self.local_epsilon, -math.expm1(-self.local_epsilon / 2))

    @property
    def bits(self) -> float:
        """A double."""
        return 64.0

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Numbers, shape (n,) -> noisy numbers, shape (n,)."""
        return values + rng.laplace(0.0, self.scale, values.shape[0])

    def aggregate(self, reports: Array) -> Array:
        """Their sum, shape (1,)."""
        return np.array([reports.sum(dtype=float)])

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean, shape (1,)."""
        return aggregate / n

    def variance(self, total: Array, n: int) -> Array:
        """2 scale^2 / n, whatever the data."""
        return np.full(np.shape(total)[1:], 2 * self.scale**2 / n)

    def cdf(self, value: float, reports: Array) -> Array:
        """Distribution function of a report given one value."""
        z = (reports - value) / self.scale
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def law_claims(self, crowd: Crowd) -> list[Claim]:
        """Blanket and lower bounds for the two ends, which are the worst pair of the blanket (docs/soundness.md)."""
        return LaplacePair(self.local_epsilon, self.local_epsilon).law_claims(
            crowd, "the two ends, the worst pair of the blanket"
        )


@dataclass(frozen=True)
class Laplace(_LaplaceNoise):
    """x + Laplace noise of scale (high - low)/eps, for x in [low, high].

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    low, high : float
        Ends of the interval that every value lies in, fixed without looking at the data; [0, 1] by default.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: numbers in [low, high], shape (n,).
    Source: Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data analysis", TCC 2006.

    Examples
    --------
    >>> round(Laplace(epsilon=2.0).amplification.beta, 6)
    0.632121
    """

    epsilon: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.isfinite(self.scale):
            raise ValueError(f"(high - low)/epsilon must be finite, got epsilon={self.epsilon!r}")

    @property
    def scale(self) -> float:
        """(high - low)/eps."""
        return (self.high - self.low) / self.epsilon

    @classmethod
    def examples(cls) -> Iterator[Laplace]:
        """Typical, scaled, extreme."""
        yield cls(epsilon=2.0)
        yield cls(epsilon=1.0, low=-40.0, high=120.0)
        yield cls(epsilon=1e-9)
        yield cls(epsilon=700.0)


@dataclass(frozen=True)
class MetricLaplace(_LaplaceNoise):
    """x + Laplace noise of scale 1/eps, for x in [low, high]: two values at distance t are eps t-indistinguishable.

    Parameters
    ----------
    epsilon : float
        Budget per unit of length, in nats; in (0, 700].
    low, high : float
        Ends of the interval that every value lies in, fixed without looking at the data; epsilon (high - low) at most 700.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: numbers in [low, high], shape (n,).
    Source: Chatzikokolakis et al., "Broadening the scope of differential privacy using metrics", PETS 2013.

    As a randomizer it is (epsilon (high - low))-LDP, and its bounds are for the two ends. `pair` is about two values.

    Examples
    --------
    >>> from shufflesim import epsilon
    >>> noise = MetricLaplace(epsilon=0.1, low=0.0, high=50.0)
    >>> noise.local_epsilon
    5.0
    >>> float(epsilon(noise.pair(20.0, 25.0), 10_000, 1e-6)) < float(epsilon(noise, 10_000, 1e-6))
    True
    """

    epsilon: float
    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.local_epsilon <= EPSILON_MAX:
            raise ValueError(f"epsilon * (high - low) must be in (0, {EPSILON_MAX:g}], got {self.local_epsilon!r}")

    @property
    def scale(self) -> float:
        """1/eps."""
        return 1 / self.epsilon

    @property
    def local_epsilon(self) -> float:
        """epsilon (high - low), for the two ends."""
        return self.epsilon * (self.high - self.low)

    def pair(self, x0: float, x1: float) -> LaplacePair:
        """Two values among users in the whole interval, as something to bound.

        Their distance to the farther end decides; the bounds are for an interval that reaches as far on both sides.
        """
        rule = f"in [{self.low!r}, {self.high!r}]"
        x0, x1 = (check_number(name, x, rule, low=self.low, high=self.high) for name, x in (("x0", x0), ("x1", x1)))
        if x0 == x1:
            raise ValueError(f"x0 and x1 must differ, got {x0!r} twice")
        farthest = max(abs(x - end) for x in (x0, x1) for end in (self.low, self.high))
        return LaplacePair(self.epsilon * abs(x1 - x0), self.epsilon * farthest)

    @classmethod
    def examples(cls) -> Iterator[MetricLaplace]:
        """Typical, extreme."""
        yield cls(epsilon=0.1, low=-10.0, high=20.0)
        yield cls(epsilon=1e-9, low=0.0, high=1.0)
        yield cls(epsilon=7.0, low=-50.0, high=50.0)
