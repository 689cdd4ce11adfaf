"""The privacy blanket with the inner mean bounded by Hoeffding's or Bennett's inequality.

Source: Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019: with M ~ Bin(n, gamma) blanket
messages, L = (R0 - e^eps R1)/omega under the blanket law omega, E L = -a, a = e^eps - 1,

    D <= (1/(gamma n)) E[ max(0, L_1 + ... + L_M) ].

Integrating the tail inequality Pr[L_1 + ... + L_m > t] over t > 0 gives

    Hoeffding (L in an interval of length b):              (b^2/(4a)) exp(-2 m a^2/b^2),
    Bennett (L + a <= h, Var L <= v), phi(u) = (1+u) log(1+u) - u:  (h/log(1 + ah/v)) exp(-m (v/h^2) phi(ah/v)),

by (t + ma)^2 >= (ma)^2 + 2mat and by convexity of phi. Both are exponential in m, so that the mean over M is the n-th power of
1 - gamma (1 - exp(-...)).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from .bracket import exp_down, exp_up
from .claim import Ends
from .table import EXCESS_ULPS, Table

_MACHINE = float(np.finfo(float).eps)
# Covers the roundings of the exponent and of the n-th power, in units of eps_machine times (1 + their size).
ROUNDING_ULPS = 64.0
# Relative width at which the bisection for eps stops.
BISECTION_RTOL = 1e-12
# exp overflows beyond this.
LOG_MAX = 700.0


@dataclass(frozen=True)
class Moments:
    """What is known of L at one eps: enclosures of its range, of its largest value and of its variance."""

    span: tuple[float, float]
    top: tuple[float, float]
    variance: tuple[float, float]


class Blanket(ABC):
    """A blanket of which gamma and the moments of L are known."""

    gamma: float

    @abstractmethod
    def moments(self, eps: float) -> list[Moments]:
        """One per direction and pair."""


@dataclass(frozen=True)
class GenericBlanket(Blanket):
    """Any eps0-LDP randomizer: gamma >= e^-eps0, and L = c (u - e^eps v), u, v in [1, e^eps0], with a true blanket mass c <= 1.

    Hence L in [1 - e^(eps+eps0), e^eps0 - e^eps] and E L^2 <= e^eps0 (1 + e^2eps) - 2 e^eps.
    c is known to be at least gamma only, so that the range may not be scaled by gamma as well.
    """

    epsilon: float

    @property
    def gamma(self) -> float:  # type: ignore[override]
        """e^-eps0."""
        return math.exp(-self.epsilon)

    def moments(self, eps: float) -> list[Moments]:
        """From the ranges alone."""
        e, e0 = math.exp(eps), math.exp(self.epsilon)
        span, top = (1 + e) * math.expm1(self.epsilon), e * math.expm1(self.epsilon - eps)
        # E L^2 - (E L)^2.
        variance = math.expm1(self.epsilon) * (1 + e * e)
        return [Moments(*(_around(v, 8 * _MACHINE * abs(v)) for v in (span, top, variance)))] if e0 < math.inf else []


@dataclass(frozen=True, eq=False)
class TableBlanket(Blanket):
    """The optimal blanket of a randomizer, from its blanket tables (the row with g0 = g1 = 0 is not blanket)."""

    tables: tuple[Table, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableBlanket) and [t.key for t in self.tables] == [t.key for t in other.tables]

    def __hash__(self) -> int:
        return hash(tuple(t.key for t in self.tables))

    @property
    def gamma(self) -> float:  # type: ignore[override]
        """Mass of the blanket; the same for every pair."""
        table = self.tables[0]
        return float(table.weight[(table.g0 > 0) | (table.g1 > 0)].sum())

    def moments(self, eps: float) -> list[Moments]:
        """Exact for the rows, in both directions."""
        found, e, gamma = [], math.exp(eps), self.gamma
        for table in self.tables:
            inside = (table.g0 > 0) | (table.g1 > 0)
            w = table.weight[inside]
            for g0, g1 in ((table.g0[inside], table.g1[inside]), (table.g1[inside], table.g0[inside])):
                x = gamma * (g0 - e * g1)
                doubt = gamma * EXCESS_ULPS * _MACHINE * float((g0 + e * g1).max())
                second, a = float(w @ (x * x)) / gamma, math.expm1(eps)
                uncertain = 2 * doubt * math.sqrt(second) + doubt**2 + 64 * _MACHINE * (second + a * a)
                span, top = float(x.max() - x.min()), float(x.max())
                found.append(Moments(_around(span, 2 * doubt), _around(top, doubt), _around(second - a * a, uncertain)))
        return found


@dataclass(frozen=True)
class Tail:
    """delta at eps by one of the two inequalities.

    Parameters
    ----------
    blanket : Blanket
        gamma and moments.
    n : int
        Users.
    local : float
        Local eps; no value exceeds it.
    bennett : bool
        Which inequality.
    """

    blanket: Blanket
    n: int
    local: float
    bennett: bool

    def delta(self, eps: float, rtol: float) -> Ends:
        """Ends of the bound, which is 1 for eps <= 0 and 0 from the local eps on."""
        if eps >= self.local:
            return 0.0, 0.0, "local eps"
        low, high = self._log_delta(eps)
        return min(1.0, exp_down(low)), min(1.0, exp_up(high)), self._name

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """Where the bound falls to delta, by bisection below the local eps."""
        target = math.log(delta)
        margin = 8 * _MACHINE * (1 - target)
        ends = []
        for end, goal in ((0, target + margin), (1, target - margin)):
            low, high = 0.0, self.local
            if high == math.inf:
                return math.inf, math.inf, "trivial"
            while high - low > BISECTION_RTOL * high:
                middle = 0.5 * (low + high)
                low, high = (low, middle) if self._log_delta(middle)[end] <= goal else (middle, high)
            ends.append((low, high)[end])
        return ends[0], ends[1], self._name

    def limits(self) -> tuple[float, float]:
        """0 beyond a finite local eps."""
        return 0.0, 0.0 if self.local < math.inf else 1.0

    def remark(self, delta: float) -> str:
        """Whether the bound never falls to delta below the local eps."""
        return "falls back to the local eps" if self.epsilon(delta, 0.0)[1] >= self.local else ""

    @property
    def _name(self) -> str:
        return "Bennett" if self.bennett else "Hoeffding"

    def _log_delta(self, eps: float) -> tuple[float, float]:
        """Ends of log delta, at most 0; 0 where there is less than one blanket message on average or a number overflows."""
        gamma = self.blanket.gamma
        if eps <= 0 or gamma * self.n < 1 or max(eps, self.local if self.local < math.inf else 0) > LOG_MAX / 4:
            return 0.0, 0.0
        pair = self._bennett if self.bennett else self._hoeffding
        with np.errstate(over="ignore"):
            found = [[pair(m, eps, gamma, end) for end in (0, 1)] for m in self.blanket.moments(eps)]
        return min(0.0, max(f[0] for f in found)), min(0.0, max(f[1] for f in found))

    def _hoeffding(self, m: Moments, eps: float, gamma: float, end: int) -> float:
        a, b = math.expm1(eps), m.span[end]
        if b <= 0:
            return -math.inf
        return self._total(2 * math.log(b) - math.log(4 * a), 2 * (a / b) ** 2, gamma, end)

    def _bennett(self, m: Moments, eps: float, gamma: float, end: int) -> float:
        a = math.expm1(eps)
        h, v = m.top[end] + a, max(m.variance[end], np.finfo(float).tiny)
        if h <= 0:
            return -math.inf
        u = a * h / v
        if u == math.inf:
            # The bound falls as u grows: a smaller u is on the safe side of the upper end.
            if end == 0:
                return -math.inf
            u = np.finfo(float).max
        return self._total(math.log(h / math.log1p(u)), v / h**2 * _phi(u), gamma, end)

    def _total(self, log_factor: float, exponent: float, gamma: float, end: int) -> float:
        power = self.n * math.log1p(gamma * math.expm1(-exponent))
        first = log_factor - math.log(gamma * self.n)
        margin = ROUNDING_ULPS * _MACHINE * (1 + abs(first) - power)
        return first + power + (margin if end else -margin)


def _around(value: float, doubt: float) -> tuple[float, float]:
    return value - doubt, value + doubt


def _phi(u: float) -> float:
    """(1+u) log(1+u) - u, by its series where that cancels."""
    if u < 0.1:
        return sum((-u) ** k / (k * (k - 1)) for k in range(2, 18))
    return (1 + u) * math.log1p(u) - u
