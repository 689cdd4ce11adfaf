"""Harmony: one random coordinate of a bounded vector, rounded to a sign, by randomized response.

Source: Nguyen, Xiao, Yang, Hui, Shin, Shin, "Collecting and analyzing data from smart device users with local differential
privacy", 2016 (arXiv 1606.05053).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from shufflesim._sampling import bernoulli
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array

from .duchi import ENUMERABLE, SignVectors


@dataclass(frozen=True)
class Harmony(SignVectors):
    """A random coordinate of a bounded vector and its rounded sign, the sign by randomized response.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    dim : int
        Length of the vectors; >= 1. For dim = 1 users hold plain numbers.
    low, high : float
        Ends of the interval that every coordinate lies in, fixed without looking at the data.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: numbers in [low, high], shape (n, dim); shape (n,) for dim = 1.
    Source: Nguyen et al., "Collecting and analyzing data from smart device users with local differential privacy", arXiv 2016.

    With s the sign of the reported coordinate, dim s/tanh(eps/2) on that coordinate and 0 on all others is an unbiased report.

    Examples
    --------
    >>> Harmony(epsilon=1.0, dim=100).bits
    8.0
    """

    epsilon: float
    dim: int
    low: float = -1.0
    high: float = 1.0

    @property
    def amplification(self) -> VariationRatio:
        """beta = (E-1)/(E+1), attained by opposite vertices: they differ on every coordinate (no neutral part)."""
        return VariationRatio.ldp(self.epsilon, math.tanh(self.epsilon / 2))

    @property
    def bits(self) -> float:
        """The coordinate and the sign: log2(2 dim), rounded up."""
        return float(math.ceil(math.log2(2 * self.dim)))

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Vectors, shape (n, dim), or numbers, shape (n,) -> 2 * coordinate + (sign > 0), shape (n,)."""
        n = values.shape[0]
        coordinate = rng.integers(0, self.dim, n)
        held = self.domain.scaled(values.reshape(n, self.dim)[np.arange(n), coordinate])[:, 0]
        sign = rng.random(n) < (1 + held) / 2
        sign ^= ~bernoulli(rng, float(special.expit(self.epsilon)), n)
        return (2 * coordinate + sign).astype(np.min_scalar_type(2 * self.dim - 1))

    def aggregate(self, reports: Array) -> Array:
        """Number of each report, shape (2 dim,)."""
        return np.bincount(reports, minlength=2 * self.dim)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean, shape (dim,)."""
        signs = aggregate[1::2] - aggregate[::2]
        return self.domain.unscaled(signs * (self.dim / math.tanh(self.epsilon / 2) / n))

    @property
    def square(self) -> float:
        """dim/tanh(eps/2)^2: dim^2/tanh(eps/2)^2 for one coordinate in dim."""
        return self.dim / math.tanh(self.epsilon / 2) ** 2

    def log_channel(self) -> Array | None:
        """The 2^dim x 2 dim law of vertices for small dim."""
        if self.dim > ENUMERABLE:
            return None
        own, other = (float(special.log_expit(sign * self.epsilon)) - math.log(self.dim) for sign in (1, -1))
        signs = self._vertices > 0
        return np.stack([np.where(signs, other, own), np.where(signs, own, other)], axis=2).reshape(len(signs), -1)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Opposite vertices x0, x1; the others hold one of them, or agree with either on half of the coordinates.

        Outcomes: x0's sign and x1's sign on the coordinates where the others agree with x0, and the same where they do not.
        Coordinates on which two vertices agree have ratios (E, E) and (1, 1) where opposite ones have (E, 1) and (1, E): a
        mean-preserving spread of g0 - e^eps g1, as in `TwoLevel`. So opposite vertices are the worst pair of the blanket.
        """
        high, low = (float(special.expit(sign * self.epsilon)) for sign in (1, -1))
        notes = {0: "others hold x0", self.dim: "others hold x1"}
        notes.setdefault(self.dim // 2, "others agree with either on half of the coordinates")
        groups = []
        for apart, note in notes.items():
            share = np.repeat([1 - apart / self.dim, apart / self.dim], 2)
            first, second, other = (
                share * np.where(np.array(likely), high, low) for likely in ([1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1])
            )
            groups.append(OutcomeGroups(first, second, other, share * low, note))
        return tuple(groups)

    @classmethod
    def examples(cls) -> Iterator[Harmony]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=1.0, dim=20)
        yield cls(epsilon=2.0, dim=1, low=0.0, high=10.0)
        yield cls(epsilon=1.5, dim=2)
        yield cls(epsilon=1e-9, dim=3)
        yield cls(epsilon=700.0, dim=4)
