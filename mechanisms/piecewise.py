"""The piecewise mechanism: a number is reported from an interval around it, or from the rest of a wider one.

Source: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, "Collecting and analyzing multidimensional data with local differential
privacy", ICDE 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from shufflesim._checks import check_epsilon
from shufflesim._sampling import bernoulli
from shufflesim.bounds import OutcomeGroups, TwoLevel, VariationRatio
from shufflesim.domains import Array, Interval
from shufflesim.randomizer import Randomizer


@dataclass(frozen=True)
class Piecewise(Randomizer):
    """A number of [low, high], scaled to x in [-1, 1]; the report lies in [-C, C] and is likelier near x.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    low, high : float
        Ends of the interval that every value lies in, fixed without looking at the data.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: numbers in [low, high], shape (n,).
    Source: Wang et al., "Collecting and analyzing multidimensional data with local differential privacy", ICDE 2019.

    With S = e^{eps/2}, C = (S+1)/(S-1): uniform on [l, l + C - 1], l = x - (C-1)(1-x)/2, with probability S/(S+1), else uniform
    on the rest of [-C, C]. Reports are on the scale of x. A report t has mean x and variance x^2/(S-1) + (S+3)/(3(S-1)^2).

    Examples
    --------
    >>> noise = Piecewise(epsilon=2 * math.log(3))
    >>> round(noise.limit, 12), round(noise.amplification.beta, 6)
    (2.0, 0.666667)
    """

    epsilon: float
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        interval = Interval(self.low, self.high)
        object.__setattr__(self, "low", interval.low)
        object.__setattr__(self, "high", interval.high)

    @property
    def domain(self) -> Interval:
        """[low, high]."""
        return Interval(self.low, self.high)

    @property
    def _excess(self) -> float:
        """S - 1."""
        return math.expm1(self.epsilon / 2)

    @property
    def _width(self) -> float:
        """C - 1 = 2/(S-1), the length of the likely interval."""
        return 2 / self._excess

    @property
    def limit(self) -> float:
        """C, the largest report."""
        return 1 + self._width

    @property
    def _likely(self) -> float:
        """S/(S+1)."""
        return float(special.expit(self.epsilon / 2))

    @property
    def amplification(self) -> VariationRatio:
        """beta = 1 - 1/S, attained by the two ends; q* = 1 (see `TwoLevel`)."""
        return TwoLevel.piecewise(self.epsilon).amplification

    @property
    def bits(self) -> float:
        """A double."""
        return 64.0

    def _start(self, x: Array) -> Array:
        """l."""
        return x - self._width * (1 - x) / 2

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Numbers, shape (n,) -> reports in [-C, C], shape (n,).

        The unlikely part has length C + 1, of which (C+1)(1+x)/2 is left of the likely interval: w uniform on [-1, 1] is on the
        left if w < x.
        """
        x = self.domain.scaled(values)[:, 0]
        near = bernoulli(rng, self._likely, x.shape[0])
        uniform = rng.random(x.shape[0])
        w = 2 * uniform - 1
        far = w * (1 + self._width / 2) + np.where(w < x, -1.0, 1.0) * (self._width / 2)
        return np.where(near, self._start(x) + self._width * uniform, far)

    def aggregate(self, reports: Array) -> Array:
        """Sum and sum of squares, shape (2,)."""
        return np.array([reports.sum(), np.square(reports).sum()])

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean, shape (1,)."""
        return self.domain.unscaled(aggregate[:1] / n)

    def variance(self, total: Array, n: int) -> Array:
        """((mean of x^2)/(S-1) + (S+3)/(3(S-1)^2))/n, scaled back."""
        return self.domain.half**2 * (total[1] / n / self._excess + self._constant) / n

    @property
    def _constant(self) -> float:
        """(S+3)/(3(S-1)^2), the variance of a report for x = 0."""
        return (1 + 4 / self._excess) / (3 * self._excess)

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """`variance` with x^2 replaced by its unbiased estimate from t^2: E[t^2] = x^2 S/(S-1) + (S+3)/(3(S-1)^2)."""
        # x^2/(S-1) ~ (t^2 - k)/S, so that the whole is t^2/S + k (1 - 1/S) > 0.
        share = math.exp(-self.epsilon / 2)
        square = aggregate[1:] / n
        return self.domain.half**2 * (square * share + self._constant * -math.expm1(-self.epsilon / 2)) / n

    def cdf(self, value: float, reports: Array) -> Array:
        """Distribution function of a report given one value."""
        x = float(self.domain.scaled(np.array([value]))[0, 0])
        start, end = self._start(np.array(x)), x + self._width * (1 + x) / 2
        below = np.clip(reports, -self.limit, start) + self.limit
        above = np.clip(reports, end, self.limit) - end
        inside = np.clip((reports - start) / self._width, 0.0, 1.0)
        return (below + above) / (self.limit + 1) * float(special.expit(-self.epsilon / 2)) + inside * self._likely

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """The two ends, whose likely intervals are disjoint."""
        return TwoLevel.piecewise(self.epsilon).groups()

    @classmethod
    def examples(cls) -> Iterator[Piecewise]:
        """Typical, scaled, extreme."""
        yield cls(epsilon=2.0)
        yield cls(epsilon=0.5, low=0.0, high=120.0)
        yield cls(epsilon=1e-9)
