"""Duchi, Jordan and Wainwright's mechanism: a bounded vector is rounded to a vertex, and a vertex on its side is reported.

Source: Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private estimation", JASA 113(521), 2018; the law for
an even dimension is repaired.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from shufflesim._checks import check_epsilon, check_size
from shufflesim._sampling import bernoulli, bit_sums
from shufflesim.bounds import OutcomeGroups, TwoLevel, VariationRatio
from shufflesim.domains import Array, Box, Interval
from shufflesim.randomizer import Randomizer

# Largest dim for which the law over all 2^dim vertices is handed out as a matrix.
ENUMERABLE = 6
# Largest dim for which the others' values between user 1's two are counted; beyond it they hold one of these.
COUNTED = 256


class SignVectors(Randomizer):
    """Users hold vectors in [low, high]^dim; each coordinate is rounded at random to an end, without bias."""

    dim: int
    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "dim", check_size("dim", self.dim, low=1))
        interval = Interval(self.low, self.high)
        object.__setattr__(self, "low", interval.low)
        object.__setattr__(self, "high", interval.high)

    @property
    def domain(self) -> Interval | Box:
        """[low, high] for dim = 1, else [low, high]^dim."""
        return Interval(self.low, self.high) if self.dim == 1 else Box(self.dim, self.low, self.high)

    @property
    @abstractmethod
    def square(self) -> float:
        """E[t^2] of a coordinate t of an unbiased report on the scale of [-1, 1], the same for all values."""

    def variance(self, total: Array, n: int) -> Array:
        """(E[t^2] - mean of x_j^2)/n, scaled back."""
        return self.domain.half**2 * (self.square - total[1] / n) / n

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """(E[t^2] - estimate^2)/(n-1), the reports' sample variance: on average too large by the data's share of it."""
        estimate = (self.estimate(aggregate, n) - self.domain.middle) / self.domain.half
        known = np.minimum(estimate**2, 1.0) if n > 1 else np.zeros(self.dim)
        return self.domain.half**2 * (self.square - known) / max(1, n - 1)

    def inputs(self) -> Array:
        """The vertices, if they are few; the law of any other value is a mixture of theirs."""
        if self.dim > ENUMERABLE:
            return np.empty(0)
        ends = np.where(self._vertices > 0, self.high, self.low)
        return ends[:, 0] if self.dim == 1 else ends

    @property
    def _vertices(self) -> Array:
        """All vertices as rows of -1 and 1: the binary numbers in order, first coordinate first."""
        bits = np.arange(2**self.dim)[:, None] >> np.arange(self.dim)[::-1] & 1
        return 2 * bits - 1


@dataclass(frozen=True)
class Duchi(SignVectors):
    """A bounded vector rounded to a vertex v; the report is a vertex t, e^eps times as likely if t.v > 0.

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
    Source: Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private estimation", JASA 113(521), 2018.

    With E = e^eps, v in {-1, 1}^dim and C the number of t with t.v > 0: Pr[t] = E/Z if t.v > 0, else 1/Z, Z = C E + 2^dim - C.
    E[t] = m v with m = (E-1) binom(dim-1, floor(dim/2))/Z, so that t/m is an unbiased report.

    As published, for even dim a vertex with t.v = 0 is drawn both with those on v's side and with the others. Its probability is
    then (E + 1) times that of a vertex beyond, where p = e^eps is claimed: that law is log(E + 1)-LDP only.

    Examples
    --------
    >>> Duchi(epsilon=1.0, dim=3).amplification.beta == Duchi(epsilon=1.0).amplification.beta
    True
    >>> round(Duchi(epsilon=math.log(9), dim=4).amplification.beta, 6)
    0.714286
    """

    epsilon: float
    dim: int = 1
    low: float = -1.0
    high: float = 1.0

    @cached_property
    def _half(self) -> float:
        """binom(dim-1, floor(dim/2))/2^dim, which is half the share of vertices with t.v = 0 where dim is even."""
        return 0.5 * float(special.beta(self.dim // 2 + 0.5, 0.5)) / math.pi

    @cached_property
    def two_level(self) -> TwoLevel:
        """The law seen by its two densities; the share of the high one is C/2^dim."""
        return TwoLevel(self.epsilon, 0.5 if self.dim % 2 else 0.5 - self._half)

    @property
    def _densities(self) -> tuple[float, float]:
        """(E, 1) 2^dim/Z."""
        c, small = self.two_level.mass, math.exp(-self.epsilon)
        return 1 / (c + (1 - c) * small), small / (c + (1 - c) * small)

    @property
    def mean_length(self) -> float:
        """m, with which a report shrinks."""
        return self._half * -math.expm1(-self.epsilon) * self._densities[0]

    @property
    def amplification(self) -> VariationRatio:
        """beta = C (E-1)/Z, attained by opposite vertices; q* = 1.

        Their neutral part is uniform on t.v = 0, at the smallest density; any other two sides overlap (see `TwoLevel`).
        """
        return self.two_level.amplification

    @property
    def published_beta(self) -> float:
        """(E-1)/(E+1) for every dimension: larger than the true one for even dim, where the law it is for is not eps-LDP."""
        return math.tanh(self.epsilon / 2)

    @property
    def width(self) -> int:  # type: ignore[override]
        """One random number per coordinate."""
        return self.dim

    @property
    def bits(self) -> float:
        """One bit a coordinate."""
        return float(self.dim)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Vectors, shape (n, dim), or numbers, shape (n,) -> vertices, bits packed along each row, shape (n, ceil(dim/8)).

        A uniform vertex t is strictly on one side of v or tied. Strict ones stay so, on v's side with probability E/(E+1), by
        reflection. A tie has probability 1/Z under the law, 2^dim/Z times the uniform one; the other ties are made strict.
        """
        n = values.shape[0]
        v = np.packbits(rng.random((n, self.dim)) < (1 + self.domain.scaled(values)) / 2, axis=1)
        everything = np.packbits(np.ones(self.dim, dtype=bool))
        t = rng.integers(0, 256, v.shape, dtype=np.uint8) & everything
        apart = np.bitwise_count(t ^ v).sum(axis=1, dtype=np.int64)
        wanted = bernoulli(rng, float(special.expit(self.epsilon)), n)
        t[(2 * apart < self.dim) != wanted] ^= everything
        ties = np.flatnonzero(2 * apart == self.dim)
        if ties.size:
            ties = ties[~bernoulli(rng, min(1.0, self._densities[1]), ties.size)]
            # A tie is still one after reflection.
            t[ties] ^= self._moves(t[ties] ^ v[ties], wanted[ties], rng)
        return t

    def _moves(self, apart: Array, wanted: Array, rng: np.random.Generator) -> Array:
        """Coordinates to flip so that vertices tied with v become uniform among those on the wanted side, packed."""
        half = self.dim // 2
        excess = np.arange(1, half + 1)
        logs = -special.betaln(half + excess + 1.0, half - excess + 1.0)
        law = np.cumsum(np.exp(logs - logs.max()))
        count = 1 + np.searchsorted(law, law[-1] * rng.random(apart.shape[0]), side="right").clip(0, half - 1)
        movable = np.unpackbits(apart, axis=1, count=self.dim).astype(bool) == wanted[:, None]
        keys = np.where(movable, rng.random(movable.shape), np.inf)
        limit = np.take_along_axis(np.sort(keys, axis=1), count[:, None] - 1, axis=1)
        return np.packbits(keys <= limit, axis=1)

    def aggregate(self, reports: Array) -> Array:
        """Ones per coordinate, shape (dim,)."""
        return bit_sums(reports, self.dim)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean, shape (dim,)."""
        return self.domain.unscaled((2 * aggregate - n) / (n * self.mean_length))

    @property
    def square(self) -> float:
        """1/m^2: each coordinate of a report is -1 or 1."""
        return 1 / self.mean_length**2

    def outcome(self, reports: Array) -> Array:
        """The bits read as a binary number, first coordinate first."""
        return np.unpackbits(reports, axis=1, count=self.dim).astype(np.int64) @ (1 << np.arange(self.dim)[::-1])

    def log_channel(self) -> Array | None:
        """The 2^dim x 2^dim law of vertices for dim up to `ENUMERABLE`."""
        if self.dim > ENUMERABLE:
            return None
        high = math.log(self._densities[0]) - self.dim * math.log(2)
        return np.where(self._vertices @ self._vertices.T > 0, high, high - self.epsilon)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Opposite vertices x0, x1; the others hold x0, x1, or a vertex that differs from x0 in about half the coordinates.

        Outcomes by the sign of t.x0 and by whether the others' vertex makes them likely. Every outcome is unlikely for some
        vertex, its opposite; hence the floor.
        """
        high, low = self._densities
        notes = {0: "others hold x0", self.dim: "others hold x1"}
        if 2 <= self.dim <= COUNTED:
            middle = self.dim // 2
            for h in (middle, middle - 1 + middle % 2):
                notes.setdefault(h, f"others hold a vertex {h} coordinates from x0")
        groups = []
        for h, note in notes.items():
            share = self._shares(h)
            first, second, other = (
                share * np.where(np.array(likely), high, low)
                for likely in ([1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0])
            )
            groups.append(OutcomeGroups(first, second, other, share * low, note))
        return tuple(groups)

    def _shares(self, h: int) -> Array:
        """Shares of vertices t with t.x0 > 0, < 0, = 0, each split by t.x > 0 or not, for x at h coordinates from x0.

        With S and D the sums of t x0 over the coordinates where x agrees and differs: t.x0 = S + D, t.x = S - D.
        """
        c = self.two_level.mass
        if h in (0, self.dim):
            own, opposite = (c, 0.0) if h == 0 else (0.0, c)
            return np.array([own, c - own, opposite, c - opposite, 0.0, 1 - 2 * c])
        same, differ = self.dim - h, h
        whole = 2**self.dim
        both = sum(math.comb(differ, k) * _above(same, abs(2 * k - differ)) for k in range(differ + 1)) / whole
        second = sum(math.comb(same, k) * _above(differ, abs(2 * k - same)) for k in range(same + 1)) / whole
        tied = sum(
            math.comb(same, k) * math.comb(differ, (differ - (2 * k - same)) // 2)
            for k in range(same + 1)
            if 0 < 2 * k - same <= differ and (differ - (2 * k - same)) % 2 == 0
        )
        return np.array([both, c - both, second, c - second, tied / whole, 1 - 2 * c - tied / whole])

    @classmethod
    def examples(cls) -> Iterator[Duchi]:
        """Typical, tiny, even, extreme."""
        yield cls(epsilon=1.0, dim=9)
        yield cls(epsilon=1.0)
        yield cls(epsilon=math.log(9), dim=2, low=0.0, high=50.0)
        yield cls(epsilon=2.0, dim=4)
        yield cls(epsilon=1e-9, dim=3)
        yield cls(epsilon=700.0, dim=20)


def _above(k: int, bound: int) -> int:
    """Number of sign vectors of length k with a sum > bound."""
    return sum(math.comb(k, j) for j in range((k + bound) // 2 + 1, k + 1))
