"""PrivUnit: a unit vector is reported as a direction, more likely from a cap around it.

Sources: Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection against reconstruction and its applications in private federated
learning", 2018 (arXiv 1812.00984); Asi, Feldman, Talwar, "Optimal algorithms for mean estimation under local differential
privacy", ICML 2022 (the best cap is optimal among all unbiased epsilon-LDP randomizers of unit vectors).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize, special

from shufflesim._checks import check_epsilon, check_number
from shufflesim._sampling import bernoulli
from shufflesim.bounds import OutcomeGroups, TwoLevel, VariationRatio
from shufflesim.domains import Array, UnitVectors
from shufflesim.randomizer import Randomizer

# Largest gamma: beyond it the cap is narrower than what the coordinates of a report resolve.
GAMMA_MAX = 1 - 2**-40
# From this dim on single precision will do: a normal vector is hardly ever along x, where its other part would lose digits.
WIDE = 32
# Coordinates that are worked on at once, so that they stay in the processor's cache.
CELLS = 2**15
# Smallest mass of a cap, far enough from the smallest double.
MASS_MIN = 1e-305
# Shortest mean of a report whose inverse square is a number.
LENGTH_MIN = 1e-150


@dataclass(frozen=True)
class PrivUnit(Randomizer):
    """A unit vector x; a direction u from the cap u.x >= gamma has e^eps times the density of one outside.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    dim : int
        Length of the vectors; >= 2.
    gamma : float, optional
        Height at which the cap begins, in [0, 1 - 2^-40]. By default the one with the smallest variance.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or the cap's share of the sphere is below 1e-305.

    Notes
    -----
    Data: vectors of length 1, float, shape (n, dim).
    Source: Bhowmick et al., "Protection against reconstruction and its applications", arXiv 2018; Asi et al., ICML 2022.

    With c the cap's share of the sphere and E = e^eps: density E/Z in the cap, 1/Z outside, relative to the uniform one,
    Z = cE + 1 - c. In a direction u = v x + sqrt(1 - v^2) w, w uniform orthogonal to x, v has a density proportional to
    (1 - v^2)^((dim-3)/2) on either side of gamma. Hence E[u] = m x with

        m = (E-1)/Z (1 - gamma^2)^((dim-1)/2) / ((dim-1) B(1/2, (dim-1)/2)),

    and u/m is an unbiased report whose squared error, 1/m^2 - 1 in sum, does not depend on x. dm/dgamma has the sign of
    m - gamma: the best cap is the one with m = gamma. Reports are float32, which moves a report by 1e-7.

    Examples
    --------
    >>> best = PrivUnit(epsilon=4.0, dim=100)
    >>> round(best.cap, 6) == round(best.mean_length, 6)
    True
    """

    epsilon: float
    dim: int
    gamma: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "dim", UnitVectors(self.dim).dim)
        gamma = self._best() if self.gamma is None else self.gamma
        rule = "a number in [0, 1 - 2^-40]"
        object.__setattr__(self, "gamma", check_number("gamma", gamma, rule, low=0.0, high=GAMMA_MAX))
        if self._share(self.cap) < MASS_MIN or self._length(self.cap) < LENGTH_MIN:
            rule = f"a cap of at least {MASS_MIN:g} of the sphere, and reports with a mean length of {LENGTH_MIN:g}"
            raise ValueError(f"gamma must leave {rule}, got {self.gamma!r} for epsilon={self.epsilon!r}, dim={self.dim}")

    @property
    def domain(self) -> UnitVectors:
        """Unit vectors."""
        return UnitVectors(self.dim)

    @property
    def cap(self) -> float:
        """gamma, which __post_init__ has made a number."""
        return float(self.gamma or 0.0)

    @property
    def _half(self) -> float:
        """(dim-1)/2: 1 - v^2 of a uniform direction is Beta((dim-1)/2, 1/2)."""
        return (self.dim - 1) / 2

    def _share(self, gamma: float) -> float:
        """c, from the nearer of the two tails of v^2."""
        below = float(special.betainc(0.5, self._half, gamma**2))
        return 0.5 * (1 - below if below <= 0.5 else float(special.betainc(self._half, 0.5, (1 - gamma) * (1 + gamma))))

    def _length(self, gamma: float) -> float:
        """m, in factors that neither overflow nor cancel."""
        log_lever = self._half * (math.log1p(-gamma) + math.log1p(gamma)) - special.betaln(0.5, self._half)
        lever = math.exp(log_lever) / (self.dim - 1)
        c, small = self._share(gamma), math.exp(-self.epsilon)
        return lever * -math.expm1(-self.epsilon) / (c + (1 - c) * small)

    def _best(self) -> float:
        """gamma = m, or the largest gamma if its m is still larger."""
        if self._length(GAMMA_MAX) >= GAMMA_MAX:
            return GAMMA_MAX
        return float(optimize.brentq(lambda gamma: self._length(gamma) - gamma, 0.0, GAMMA_MAX, xtol=1e-17, rtol=1e-14))

    @cached_property
    def two_level(self) -> TwoLevel:
        """The law seen by its two densities."""
        return TwoLevel(self.epsilon, min(0.5, self._share(self.cap)))

    @cached_property
    def mean_length(self) -> float:
        """m, with which a report shrinks."""
        return self._length(self.cap)

    @property
    def amplification(self) -> VariationRatio:
        """beta = c(E-1)/Z, attained by opposite vectors; q* = 1 (see `TwoLevel`)."""
        return self.two_level.amplification

    @property
    def width(self) -> int:  # type: ignore[override]
        """One random number per coordinate."""
        return self.dim

    @property
    def bits(self) -> float:
        """32 dim."""
        return 32.0 * self.dim

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Unit vectors, shape (n, dim) -> directions, float32, shape (n, dim)."""
        n = values.shape[0]
        reports = np.empty((n, self.dim), dtype=np.float32)
        kind: Any = np.float64 if self.dim < WIDE else np.float32
        v, side = self._heights(n, rng)
        rows = max(1, CELLS // self.dim)
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            x = values[part].astype(kind)
            x /= np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
            w = rng.standard_normal(x.shape, dtype=kind)
            w -= np.einsum("ij,ij->i", w, x)[:, None] * x
            w *= (side[part] / np.sqrt(np.einsum("ij,ij->i", w, w)))[:, None].astype(kind)
            x *= v[part, None].astype(kind)
            np.add(x, w, out=reports[part], casting="same_kind")
        return reports

    def _heights(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """v and sqrt(1 - v^2), by inversion: a uniform share of the sphere above v, within the cap or outside.

        Shares near 0 are inverted for 1 - v^2, shares near 1/2 for v^2.
        """
        c = self.two_level.mass
        near = bernoulli(rng, self.two_level.likely, n)
        uniform = rng.random(n)
        above = np.where(near, c * (1 - uniform), c + (1 - c) * uniform)
        sign = np.where(above <= 0.5, 1.0, -1.0)
        tail = 2 * np.minimum(above, 1 - above)
        square, rest = np.empty(n), np.empty(n)
        flat = tail > 0.5
        square[flat] = special.betaincinv(0.5, self._half, 1 - tail[flat])
        rest[flat] = 1 - square[flat]
        rest[~flat] = special.betaincinv(self._half, 0.5, tail[~flat])
        square[~flat] = 1 - rest[~flat]
        return sign * np.sqrt(square), np.sqrt(rest)

    def aggregate(self, reports: Array) -> Array:
        """Sums of the coordinates and of their squares, shape (2, dim)."""
        return np.array([reports.sum(axis=0, dtype=float), np.square(reports).sum(axis=0, dtype=float)])

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean, shape (dim,)."""
        return aggregate[0] / (n * self.mean_length)

    @cached_property
    def _square(self) -> tuple[float, float]:
        """(a, b) with E[u_j^2 | x] = a x_j^2 + b.

        E[w_j^2] = (1 - x_j^2)/(dim-1), hence b = E[1 - v^2]/(dim-1) and a = E[v^2] - b = (dim E[v^2] - 1)/(dim-1). By parts, the
        integral of (dim v^2 - 1) times v's uniform density over v >= gamma is gamma (1-gamma^2)^((dim-1)/2) / B(1/2, (dim-1)/2),
        which is (dim-1) gamma times the one behind m: a = gamma m.
        """
        a = self.cap * self.mean_length
        return a, (1 - a) / self.dim

    def variance(self, total: Array, n: int) -> Array:
        """(E[u_j^2]/m^2 - mean of x_j^2)/n."""
        a, b = self._square
        return ((a * total[1] / n + b) / self.mean_length**2 - total[1] / n) / n

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """`variance` with x_j^2 replaced by its unbiased estimate (u_j^2 - b)/a where it grows with x_j^2 (gamma > m).

        Where it falls by k x_j^2, the least that x_j^2 can be is the square of the mean, which the estimate's square exceeds by
        the variance on average: the solution of V = (b/m^2 - k (estimate^2 - V))/n.
        """
        a, b = self._square
        if self.cap <= self.mean_length:
            falls = 1 - self.cap / self.mean_length
            known = np.minimum(self.estimate(aggregate, n) ** 2, 1.0) if n > 1 else np.zeros(self.dim)
            return (b / self.mean_length**2 - falls * known) / (n - falls if n > 1 else 1)
        return (aggregate[1] / n * (1 / self.mean_length**2 - 1 / a) + b / a) / n

    def log_likelihood(self, value: Array, reports: Array) -> Array:
        """epsilon in the cap, 0 outside."""
        return np.where(reports @ np.asarray(value, dtype=float) >= self.cap, self.epsilon, 0.0)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Opposite vectors, whose caps are disjoint."""
        return self.two_level.groups()

    @classmethod
    def examples(cls) -> Iterator[PrivUnit]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=4.0, dim=64)
        yield cls(epsilon=1.0, dim=2)
        yield cls(epsilon=2.0, dim=3, gamma=0.75)
        yield cls(epsilon=1e-9, dim=5)
        yield cls(epsilon=700.0, dim=10)
