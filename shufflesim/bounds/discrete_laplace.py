"""Sums that are hidden by two-sided discrete noise: the difference of two negative binomial variables, and its shift.

Polya(s, a) is the law NB(s, a); the difference of two of them is the discrete Laplace law DLap(a) for s = 1,
Pr[k] = (1-a)/(1+a) a^|k|.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .claim import Ends
from .directions import BISECTION_RTOL, Directions, falls_below

Array = np.ndarray[Any, np.dtype[Any]]

_MACHINE = float(np.finfo(float).eps)
# Covers the roundings of the few terms of the closed form.
ROUNDING = 16 * _MACHINE
# Relative error of the quadrature for s < 1: measured below 2e-14 (`tests/test_shares.py`).
QUADRATURE_RTOL = 1e-12
# Step of the quadrature, its scale, and the exponent at which the integrand is cut off: e^-42 = 6e-19.
STEP, SCALE, CUT = 0.15, 40.0, 42.0
# Relative accuracy at which the best eps is sought.
TURN_RTOL = 1e-5
# No probability beyond this many units in the exponent matters.
UNDERFLOW = 700.0


@dataclass(frozen=True)
class PolyaDifference(Directions):
    """P = Polya(s, a) - Polya(s, a) against Q = P + shift.

    Parameters
    ----------
    budget : float
        log(1/a) = budget/shift, so that s = 1 is budget-differentially private.
    shift : int
        Distance of the two sums, >= 1.
    s : float
        Share of the users who add noise, in (0, 1]; those beyond their number would only add more.

    Notes
    -----
    P is symmetric and falls on both sides of 0 for s <= 1, since the law of Polya(s, a) falls. Hence both directions agree, the
    divergence grows with the shift, and P(x) > e^eps P(x - shift) is possible for x < shift/2 only.

    s = 1: with t the last integer below shift (1 - eps/budget)/2, for eps < budget,

        D = 1 - (a^(t+1) + e^eps a^(shift-t))/(1 + a).

    s < 1: by Euler's integral for 2F1, P is a mixture of geometric sequences,

        P(k) = K int_0^1 (at)^|k| t^(s-1) (1-t)^-s (1-a^2 t)^-s dt,   K = (1-a)^(2s) sin(pi s)/pi,

    and so log-convex on each side of 0: the likelihood ratio falls from 0 to shift/2 and, to e^budget, from 0 to minus infinity.
    D is a sum over an interval, whose terms are geometric under the integral.
    """

    budget: float
    shift: int
    s: float = 1.0
    symmetric: ClassVar[bool] = True

    @property
    def log_a(self) -> float:
        """-budget/shift."""
        return -self.budget / self.shift

    @cached_property
    def ceiling(self) -> float:
        """The largest log likelihood ratio, P(0)/P(shift)."""
        if self.s >= 1:
            return self.budget
        zero, far = (self._integral(lambda log_b, k=k: np.exp(k * log_b)) for k in (0, self.shift))  # type: ignore[misc]
        return math.inf if far == 0 else (math.log(zero) - math.log(far)) * (1 + ROUNDING) + 4 * QUADRATURE_RTOL

    def limits(self) -> tuple[float, float]:
        """0: all ratios are finite."""
        return 0.0, 0.0

    def forth(self, eps: float) -> tuple[float, float]:
        """By the closed form, or by quadrature."""
        return self._whole(eps) if self.s >= 1 else self._mixture(eps)

    def back(self, eps: float) -> tuple[float, float]:
        """The same."""
        return self.forth(eps)

    def beyond(self, reach: int) -> float:
        """An upper bound on `Pr[|noise| > reach]`: that of s = 1, since further symmetric unimodal noise only widens it."""
        return (
            1.0 if reach < 0 else min(1.0, 2 * math.exp((reach + 1) * self.log_a) / (1 + math.exp(self.log_a))) * (1 + ROUNDING)
        )

    def _whole(self, eps: float) -> tuple[float, float]:
        if eps >= self.budget:
            return 0.0, 0.0
        log_a = self.log_a
        t = max(0, math.ceil(self.shift * (1 - eps / self.budget) / 2) - 1)
        # 1 + a - a^(t+1) - e^eps a^(shift-t) without cancellation of the ones.
        exponent = eps + (self.shift - t - 1) * log_a
        up, down = -math.expm1((t + 1) * log_a), math.exp(log_a) * math.expm1(exponent)
        value = max(0.0, (up - down) / (1 + math.exp(log_a)))
        # Exponents are known to a few units of their parts.
        doubt = ROUNDING * (up + abs(down) + math.exp(log_a + exponent) * (eps + self.budget))
        return max(0.0, value - doubt), value + doubt

    @cached_property
    def _nodes(self) -> tuple[Array, Array]:
        """log t and log of the weights: t = 1/(1 + e^-v) with v = SCALE sinh(u/SCALE), trapezoid rule in u.

        The integrand falls as e^(sv) and e^(-(1-s)v); the substitution makes this doubly exponential far out, and is nearly the
        identity where 1 - a^2 t and (at)^k turn, so that the strip in which all is analytic stays about pi/2 wide.
        """
        s = self.s
        ends = [SCALE * math.asinh(CUT / share / SCALE) for share in (s, 1 - s)]
        # The right end also has to pass the turn at 1 - t = 1 - a.
        ends[1] += SCALE * math.asinh(-math.log(-self.log_a) / SCALE) if self.log_a > -1 else 0.0
        u = STEP * np.arange(-math.ceil(ends[0] / STEP), math.ceil(ends[1] / STEP) + 1)
        v = SCALE * np.sinh(u / SCALE)
        log_t, log_rest = -np.logaddexp(0, -v), -np.logaddexp(0, v)
        two = 2 * self.log_a + log_t
        log_near = np.log(-np.expm1(two))
        log_k = 2 * s * math.log(-math.expm1(self.log_a)) + math.log(math.sin(math.pi * min(s, 1 - s)) / math.pi)
        return self.log_a + log_t, log_k + s * log_t + (1 - s) * log_rest - s * log_near + np.log(STEP * np.cosh(u / SCALE))

    def _integral(self, of: Callable[[Array], Array]) -> float:
        """Integral of a function of log(at)."""
        log_b, log_weight = self._nodes
        return float((np.exp(log_weight) * of(log_b)).sum())

    def probability(self, k: int) -> float:
        """P(k) for s < 1."""
        return self._integral(lambda log_b: np.exp(abs(k) * log_b))

    def _mixture(self, eps: float) -> tuple[float, float]:
        if eps > self.ceiling:
            return 0.0, 0.0
        growth, shift = math.exp(eps), self.shift
        log_b, log_weight = self._nodes
        weight = np.exp(log_weight)

        def likely(x: int, other: int) -> bool:
            return float(weight @ np.exp(x * log_b)) > growth * float(weight @ np.exp(other * log_b))

        right = _last(lambda x: likely(x, shift - x), (shift - 1) // 2)
        far = math.ceil(UNDERFLOW / -self.log_a)
        left = far if eps < self.budget else _last(lambda x: likely(x, shift + x), far)
        if right < 0:
            return 0.0, (QUADRATURE_RTOL + ROUNDING) * 2 * float(weight @ np.ones(log_b.size))
        # Sums of b^k: |x| over -left..right, and shift - right..shift + left.
        over = -np.expm1(log_b)
        b = np.exp(log_b)
        first = 1 + b * (-np.expm1(right * log_b) - np.expm1(left * log_b)) / over
        second = np.exp((shift - right) * log_b) * -np.expm1((right + left + 1) * log_b) / over
        gained, lost = float(weight @ first), growth * float(weight @ second)
        doubt = (QUADRATURE_RTOL + (1 + eps) * ROUNDING) * (gained + lost)
        # Beyond `far` nothing is left but what underflows.
        return max(0.0, gained - lost - doubt), min(1.0, max(0.0, gained - lost) + doubt) + 1e-300


def _last(holds: Callable[[int], bool], most: int) -> int:
    """The last integer in 0..most for which a condition holds that fails from some point on; -1 if it holds for none."""
    if holds(most):
        return most
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2 if high < 4 * (low + 2) else 2 * (low + 2) - 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class Simulated:
    """The divergence of noisy sums, and a distance from what sums alone show: D_eps + (1 + e^eps) tau.

    Parameters
    ----------
    noise : Directions
        Noisy sums.
    log_distance : (float, float)
        Enclosure of log tau.
    loss : bool
        Whether tau is lost instead, as for a lower bound: D_eps - (1 + e^eps) tau.

    Notes
    -----
    tau counts for the more the larger eps is, while the truth falls: the bound at any smaller eps holds as well. D_eps is convex
    in e^eps, and so is the bound, which falls up to `turn`.
    """

    noise: Directions
    log_distance: tuple[float, float]
    loss: bool = False

    @cached_property
    def turn(self) -> float:
        """About where the bound is smallest."""
        top = min(self.noise.ceiling, UNDERFLOW)
        if self.loss or self.log_distance[1] == -math.inf:
            return top
        low, high = 0.0, top
        while high - low > TURN_RTOL * top:
            first, second = low + (high - low) / 3, high - (high - low) / 3
            # Towards larger eps where rounding hides how the bound falls, as where D is nearly 1.
            falls = self._at(first)[1] * (1 - ROUNDING) >= self._at(second)[1] * (1 - 4 * ROUNDING)
            low, high = (first, high) if falls else (low, second)
        return min((high, top), key=lambda eps: self._at(eps)[1])

    def _at(self, eps: float) -> tuple[float, float]:
        low, high, _ = self.noise.delta(eps, 0.0)
        log_factor = max(0.0, eps) + math.log1p(math.exp(-abs(eps)))
        ends = [math.exp(min(x + log_factor, UNDERFLOW)) for x in self.log_distance]
        if self.loss:
            return low - ends[1] * (1 + ROUNDING), high - ends[0] * (1 - ROUNDING)
        return low + ends[0] * (1 - ROUNDING), high + ends[1] * (1 + ROUNDING)

    def delta(self, eps: float, rtol: float) -> Ends:
        """Ends at eps, or at the best smaller one."""
        low, high = self._at(min(eps, self.turn))
        return max(0.0, min(1.0, low)), max(0.0, min(1.0, high)), self.noise.method

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """Where it falls to delta; inf if the distance alone is larger."""
        width = min(BISECTION_RTOL, 1e-3 * rtol)
        low, _ = falls_below(lambda eps: self.delta(eps, rtol)[0], delta, self.turn, width)
        _, high = falls_below(lambda eps: self.delta(eps, rtol)[1], delta, self.turn, width)
        return low, high, self.noise.method

    def limits(self) -> tuple[float, float]:
        """Its smallest value."""
        return self.delta(self.turn, 0.0)[:2]

    def remark(self, delta: float) -> str:
        """How large the distance is."""
        return "" if self.loss else f"log10 tau = {self.log_distance[1] / math.log(10):.1f}"
