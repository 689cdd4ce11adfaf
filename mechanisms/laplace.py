"""Laplace noise on a bounded number.

Source: Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data analysis", TCC 2006.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_epsilon
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array, Interval
from shufflesim.randomizer import Randomizer

# Cells of [low, high] into which reports are merged for the lower bound; more bring it closer to the exact divergence.
CELLS = 64


@dataclass(frozen=True)
class Laplace(Randomizer):
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

    Examples
    --------
    >>> round(Laplace(epsilon=2.0).amplification.beta, 6)
    0.632121
    """

    epsilon: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        interval = Interval(self.low, self.high)
        object.__setattr__(self, "low", interval.low)
        object.__setattr__(self, "high", interval.high)
        if not math.isfinite(self.scale):
            raise ValueError(f"(high - low)/epsilon must be finite, got epsilon={self.epsilon!r}")

    @property
    def scale(self) -> float:
        """Scale of the noise, in the units of the data."""
        return (self.high - self.low) / self.epsilon

    @property
    def domain(self) -> Interval:
        """[low, high]."""
        return Interval(self.low, self.high)

    @property
    def amplification(self) -> VariationRatio:
        """beta = 1 - e^{-eps/2}, attained by the two ends; q_star = q."""
        return VariationRatio.ldp(self.epsilon, -math.expm1(-self.epsilon / 2))

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

    def variance(self, truth: Array, n: int) -> Array:
        """2 scale^2 / n, whatever the data."""
        return np.full(np.shape(truth), 2 * self.scale**2 / n)

    def cdf(self, value: float, reports: Array) -> Array:
        """Distribution function of a report given one value."""
        z = (reports - value) / self.scale
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """For the lower bound: user 1 at one end or the other, reports merged into cells."""
        edges = np.linspace(0, 1, CELLS + 1)
        held = {"others hold low": 0.0, "others hold high": 1.0, "others hold the middle": 0.5}
        masses = {x: self._cell_masses(edges - x) for x in (0.0, 0.5, 1.0)}
        return tuple(
            OutcomeGroups(masses[0.0], masses[1.0], masses[x], None, f"inputs low, high, {note}") for note, x in held.items()
        )

    def _cell_masses(self, edges: Array) -> Array:
        """Masses of (-inf, e_0], (e_0, e_1], ..., (e_k, inf) under noise of scale 1/eps around 0, without cancellation."""
        z = self.epsilon * edges
        tails = 0.5 * np.exp(-np.abs(z))
        inner = np.where(
            z[1:] <= 0,
            tails[1:] * -np.expm1(np.minimum(z[:-1] - z[1:], 0)),
            np.where(z[:-1] >= 0, tails[:-1] * -np.expm1(z[:-1] - z[1:]), 1 - tails[:-1] - tails[1:]),
        )
        first = tails[0] if z[0] <= 0 else 1 - tails[0]
        last = tails[-1] if z[-1] >= 0 else 1 - tails[-1]
        return np.concatenate(([first], inner, [last]))

    @classmethod
    def examples(cls) -> Iterator[Laplace]:
        """Typical, scaled, extreme."""
        yield cls(epsilon=2.0)
        yield cls(epsilon=1.0, low=-40.0, high=120.0)
        yield cls(epsilon=1e-9)
        yield cls(epsilon=700.0)
