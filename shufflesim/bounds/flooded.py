"""Counts of two kinds of messages, both with noise and both flooded by the same negative binomial number of messages.

The messages show U = x + Z1 + F and V = Z2 + F with Z1, Z2 ~ Polya(s, a) and F ~ NB(r, p), all independent; x is 0 (P) or 1 (Q).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from .directions import Directions
from .negative_binomial import Array, NoisyCount, pmf

_MACHINE = float(np.finfo(float).eps)
# Terms that are summed one by one.
TERMS_MAX = 2**18
# Mass that is cut off.
TAIL = 1e-30
# Smaller probabilities may have lost digits.
LEAST = 1e-280
# Roundings of one step of the recursion and of one term of the sum.
STEP_ULPS = 4.0


def flooded(epsilon_star: float, s: float, r: float, p: float) -> Directions:
    """The exact divergence where noise is whole (s >= 1; more would only help) and its sum short enough, else an upper bound."""
    if s >= 1:
        exact = Flooded(epsilon_star, r, p)
        return exact if exact.size <= TERMS_MAX else FloodedAtMost(epsilon_star, r, p)
    return FloodedAtMost(epsilon_star - math.log(s), r, p)


@dataclass(frozen=True)
class Flooded(Directions):
    """P against Q for geometric Z1 and Z2 (s = 1), exactly.

    Parameters
    ----------
    epsilon_star : float
        log(1/a).
    r, p : float
        Of the flood.

    Notes
    -----
    With M = min(U, V) and W = F + a geometric variable of ratio a^2, of law T,

        P(U, V) = (1-a)/(1+a) a^|U-V| T(M).

    Q(U, V) = P(U - 1, V) is P/a where U > V and P(U, V) a T(M-1)/T(M) elsewhere. Summed over U - V this leaves one dimension:

        D_eps(P||Q) = sum_M max(0, T(M) - e^(eps - eps*) T(M-1))/(1+a),
        D_eps(Q||P) = (max(0, 1 - a e^eps) + sum_M max(0, a T(M-1) - e^eps T(M)))/(1+a).
    """

    epsilon_star: float
    r: float
    p: float

    @cached_property
    def size(self) -> int:
        """M beyond which W has less than `TAIL`, by bounds on the flood and on the geometric variable."""
        geometric = math.ceil(-math.log(TAIL / 2) / (2 * self.epsilon_star))
        good, bad = 0, 1
        while self._flood_beyond(bad) > TAIL / 2:
            good, bad = bad, 2 * bad
            if bad > TERMS_MAX:
                return geometric + bad
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._flood_beyond(middle) > TAIL / 2 else (good, middle)
        return geometric + bad

    def _flood_beyond(self, k: int) -> float:
        return float(special.betainc(k + 1.0, self.r, self.p))

    @cached_property
    def law(self) -> tuple[Array, Array]:
        """T on 0..size by the recursion T(M) = a^2 T(M-1) + (1 - a^2) Pr[F = M] of positive terms, and its absolute error."""
        # Imported on first use: it takes long to load.
        from scipy.signal import lfilter

        flood, error = pmf(np.arange(self.size + 1), self.r, self.p)
        square = math.exp(-2 * self.epsilon_star)
        added = -math.expm1(-2 * self.epsilon_star) * flood
        law = lfilter([1.0], [1.0, -square], added)
        doubt = lfilter([1.0], [1.0, -square], error * added + STEP_ULPS * _MACHINE * law)
        return law, doubt * (1 + 1e-6) + 1e-300

    @property
    def ceiling(self) -> float:
        """max(eps*, log((a^2 + p max(r, 1))/a)), since T(M)/T(M-1) <= a^2 + Pr[F = M]/Pr[F = M-1]."""
        a = math.exp(-self.epsilon_star)
        return max(self.epsilon_star, math.log(a * a + self.p * max(self.r, 1.0)) + self.epsilon_star) * (1 + 1e-14)

    def limits(self) -> tuple[float, float]:
        """Nothing of the flood, and nothing of W."""
        (value, doubt), a = (float(x[0]) for x in self.law), math.exp(-self.epsilon_star)
        return max(0.0, value - doubt) / (1 + a), (value + doubt) / (1 + a)

    @cached_property
    def _sums(self) -> tuple[Array, Array, Array]:
        """Of T and of its error, with a 0 in front: sums of the first terms; and T(M)/T(M-1), which falls if r >= 1."""
        law, doubt = self.law
        known = law[:-1] > LEAST
        ratio = np.where(known, law[1:] / np.where(known, law[:-1], 1.0), np.inf)
        sums, errors = (np.concatenate([[0.0], np.cumsum(x)]) for x in (law, doubt))
        return sums, errors + sums * np.arange(sums.size) * _MACHINE, np.minimum.accumulate(ratio)

    @cached_property
    def _accuracy(self) -> float:
        """Relative accuracy of T(M)/T(M-1)."""
        law, doubt = self.law
        known = law > LEAST
        return 4 * float((doubt[known] / law[known]).max()) + STEP_ULPS * _MACHINE

    def _sum(self, here: float, before: float) -> tuple[float, float]:
        """Enclosure of sum_M max(0, here T(M) + before T(M-1)); one of both factors is positive."""
        law, doubt = self.law
        if self.r >= 1:
            return self._interval(here, before)
        shifted, unsure = np.concatenate([[0.0], law[:-1]]), np.concatenate([[0.0], doubt[:-1]])
        terms = here * law + before * shifted
        error = (abs(here) * law + abs(before) * shifted) * STEP_ULPS * _MACHINE + abs(here) * doubt + abs(before) * unsure
        ends = [float(np.maximum(0.0, terms + side * error).sum()) for side in (-1, 1)]
        cut = (max(here, 0.0) + max(before, 0.0)) * TAIL
        return ends[0] * (1 - 1e-14), ends[1] * (1 + 1e-14) + cut

    def _interval(self, here: float, before: float) -> tuple[float, float]:
        """The same for r >= 1: the laws of F and of W are log-concave, and the positive terms are all first or all last ones."""
        (law, doubt), (sums, errors, ratio) = self.law, self._sums
        level, last, accuracy = -before / here, law.size - 1, self._accuracy
        # T(M) > level T(M-1) for M = 0..t; what is within the error of T counts as error.
        t, far, near = (int(np.searchsorted(-ratio, -level * x, side="left")) for x in (1.0, 1 - accuracy, 1 + accuracy))
        open_terms = accuracy * (abs(here) + abs(before)) * float(sums[min(far, last) + 1] - sums[near])
        if here > 0:
            taken = float(sums[t])
            value = here * float(law[t]) + (here + before) * taken
            value_error = here * float(doubt[t]) + abs(here + before) * float(errors[t])
        else:
            # M = t + 1..last, where T(last) is the last one that is known.
            taken = float(sums[-1] - sums[min(t, last) + 1])
            value = before * float(law[min(t, last)]) + (here + before) * taken
            value_error = before * float(doubt[min(t, last)]) + abs(here + before) * float(errors[-1] + TAIL)
        slack = value_error + open_terms + STEP_ULPS * _MACHINE * (abs(value) + 2 * abs(here + before) * taken)
        cut = (max(here, 0.0) + max(before, 0.0)) * TAIL if here < 0 or t >= last else 0.0
        return max(0.0, value - slack), max(0.0, value + slack + cut)

    def forth(self, eps: float) -> tuple[float, float]:
        """P||Q."""
        a = math.exp(-self.epsilon_star)
        low, high = self._sum(1.0, -math.exp(min(700.0, eps - self.epsilon_star)))
        # The bound below is larger, but does not underflow.
        return low / (1 + a), min(high / (1 + a), FloodedAtMost(self.epsilon_star, self.r, self.p).forth(eps)[1])

    def back(self, eps: float) -> tuple[float, float]:
        """Q||P."""
        if eps >= self.epsilon_star:
            # T(M) >= a^2 T(M-1): no term is positive.
            return 0.0, 0.0
        a = math.exp(-self.epsilon_star)
        first = max(0.0, -math.expm1(eps - self.epsilon_star))
        low, high = self._sum(-math.exp(min(700.0, eps)), a)
        return (first + low) / (1 + a) * (1 - 1e-14), (first + high) / (1 + a) * (1 + 1e-14)


@dataclass(frozen=True)
class FloodedAtMost(Directions):
    """An upper bound for any s: the flood alone, and a pure part.

    Parameters
    ----------
    pure : float
        L = eps* + max(0, log(1/s)).
    r, p : float
        Of the flood.

    Notes
    -----
    The law z of Polya(s, a) has z(k) >= e^-L z(k-1). So Q(U, V) = P(U-1, V) <= e^L P(U, V), hence D_eps(Q||P) <= 1 - e^(eps-L);
    and with one message more in the flood and one less in Z2, Q(U, V) >= e^-L P'(U, V), where P' is P with F + 1 for F:

        D_eps(P||Q) <= D_(eps-L)(F||F + 1).
    """

    pure: float
    r: float
    p: float

    @cached_property
    def _flood(self) -> NoisyCount:
        return NoisyCount(self.r, self.p)

    @property
    def ceiling(self) -> float:
        """L and that of the flood."""
        return self.pure + self._flood.ceiling

    def limits(self) -> tuple[float, float]:
        """No flood."""
        return self._flood.limits()

    def forth(self, eps: float) -> tuple[float, float]:
        """P||Q."""
        x = eps - self.pure
        if x >= 0:
            return self._flood.forth(x)
        low, high = self._flood.back(-x)
        gap, factor = -math.expm1(x), math.exp(x)
        return (gap + factor * low) * (1 - 1e-15), (gap + factor * high) * (1 + 1e-15)

    def back(self, eps: float) -> tuple[float, float]:
        """Q||P."""
        value = max(0.0, -math.expm1(eps - self.pure))
        return value * (1 - 1e-14), value * (1 + 1e-14)
