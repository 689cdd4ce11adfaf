"""Closed forms for eps at given delta, evaluated with 50 digits and rounded outwards.

Sources: Wang et al., PVLDB 17(8), 2024, Theorems 4.2 and 4.3; Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021,
and "Stronger privacy amplification by shuffling", SODA 2023; Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta,
"Amplification by shuffling", SODA 2019.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .bracket import exp_down, exp_up
from .claim import Ends
from .ratio import VariationRatio

if TYPE_CHECKING:
    import mpmath

DIGITS = 50
# Below this log delta no double is positive.
LOG_DELTA_MIN = -745.0
# Width, in log delta, at which the inversion of a closed form stops.
INVERSE_WIDTH = 1e-12


@dataclass(frozen=True)
class ClosedForm(ABC):
    """eps as an explicit function of delta; the local eps where its condition fails.

    Parameters
    ----------
    local : float
        Local eps; no value exceeds it.
    """

    local: float

    # The condition may exclude large delta; below this it depends on delta monotonically.
    log_delta_max: ClassVar[float] = -INVERSE_WIDTH

    @abstractmethod
    def formula(self, delta: mpmath.mpf) -> tuple[mpmath.mpf | None, str]:
        """(eps, "") or (None, the condition that fails), at the precision at hand."""

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """The value, one rounding to either side."""
        import mpmath

        with mpmath.workdps(DIGITS):
            value, failed = self.formula(mpmath.mpf(delta))
            if value is None or value >= self.local:
                return self.local, self.local, failed or "above the local eps"
            near = float(value)
        return max(0.0, math.nextafter(near, -math.inf)), math.nextafter(near, math.inf), "closed form"

    def delta(self, eps: float, rtol: float) -> Ends:
        """The smallest delta at which the formula gives at most eps, by bisection; 1 where there is none."""
        if eps >= self.local:
            return 0.0, 0.0, "local eps"
        import mpmath

        def holds(log_delta: float) -> bool:
            value, _ = self.formula(mpmath.exp(mpmath.mpf(log_delta)))
            return value is not None and value <= eps

        low, high = LOG_DELTA_MIN, self.log_delta_max
        with mpmath.workdps(DIGITS):
            if not holds(high):
                return 1.0, 1.0, "closed form"
            if holds(low):
                return 0.0, exp_up(low), "closed form"
            while high - low > INVERSE_WIDTH * max(1.0, -high):
                middle = 0.5 * (low + high)
                low, high = (low, middle) if holds(middle) else (middle, high)
        return exp_down(low), exp_up(high), "closed form"

    def limits(self) -> tuple[float, float]:
        """0 beyond a finite local eps."""
        return 0.0, 0.0 if self.local < math.inf else 1.0

    def remark(self, delta: float) -> str:
        """Which condition failed, so that the value is the local eps."""
        value, _, how = self.epsilon(delta, 0.0)
        return f"falls back to the local eps: {how}" if value == self.local else ""


@dataclass(frozen=True)
class Asymptotic(ClosedForm):
    """Theorem 4.3: needs n > 8 ln(4/delta)/r; N = n - 1 other messages."""

    x: VariationRatio
    messages: int

    def formula(self, delta: mpmath.mpf) -> tuple[mpmath.mpf | None, str]:
        """Theorem 4.3 with L = ln(4/delta), c = max(0, 4(1-3r)/(9(1-2r)))."""
        import mpmath

        part = _parts(self.x)
        if part.r == 0 or self.messages == 0:
            return (mpmath.mpf(0), "") if part.beta == 0 else (None, "no message is a clone")
        log_term = mpmath.log(4 / delta)
        if failed := _crowded(part.r, self.messages, log_term):
            return None, failed
        rest = 1 - 2 * part.r
        c = max(mpmath.mpf(0), 4 * (1 - 3 * part.r) / (9 * rest)) if rest > 0 else mpmath.mpf(0)
        noise = _clone_noise(part.r, self.messages, log_term)
        # beta (p+1)/(p-1) = alpha + p alpha.
        return mpmath.log1p(part.beta / ((1 - c) * (part.alpha + part.p_alpha) + c) * noise), ""


@dataclass(frozen=True)
class Analytic(ClosedForm):
    """Theorem 4.2, from the least number Omega of clones that is likely; N = n - 1 other messages.

    With c clones the two inputs differ by the factor 1 + f(c), f(c) = beta (2 s + 1)/(A c - beta s + B), s = k sqrt(c),
    A = alpha + beta/2 - B/N, B = omega r N/(1-2r). The theorem puts in c = Omega, which bounds all c >= Omega only where f
    falls. Its condition on Omega lets cases through in which f rises and f(Omega) lies below the bound it stands for, such as
    p = q = 1.0473, beta = 0.00395, n = 469, delta = 2.5e-11. Here the largest f(c), Omega <= c <= N, is taken: f rises up to
    2 k A c + 2 A sqrt(c) = k (2B + beta), k = sqrt(ln(4/delta)/2), and falls from there on; it rises throughout if A <= 0.
    """

    x: VariationRatio
    messages: int

    def formula(self, delta: mpmath.mpf) -> tuple[mpmath.mpf | None, str]:
        """Theorem 4.2."""
        import mpmath

        part, n = _parts(self.x), self.messages
        if part.beta == 0:
            return mpmath.mpf(0), ""
        log_term = mpmath.log(4 / delta)
        clones = 2 * part.r * n - mpmath.sqrt(min(6 * part.r, mpmath.mpf(0.5)) * n * log_term)
        if clones <= 0:
            return None, "needs Omega > 0"
        rest = 1 - 2 * part.r
        if rest <= 0 < part.omega:
            return None, "needs 1 - 2r > 0"
        neutral = part.omega * part.r / rest if part.omega > 0 else mpmath.mpf(0)
        slope, k = part.alpha + part.beta / 2 - neutral, mpmath.sqrt(log_term / 2)
        if slope > 0:
            inner = k * (2 * neutral * n + part.beta)
            peak = ((mpmath.sqrt(slope**2 + 2 * k * slope * inner) - slope) / (2 * k * slope)) ** 2
        else:
            peak = mpmath.mpf(n)
        clones = max(clones, min(peak, mpmath.mpf(n)))
        spread = k * mpmath.sqrt(clones)
        below = slope * clones - part.beta * spread + neutral * n
        if below <= 0:
            return None, "needs a positive denominator"
        return mpmath.log1p(part.beta * (2 * spread + 1) / below), ""


@dataclass(frozen=True)
class CloneForm(ClosedForm):
    """The closed forms of the clone papers: clones with probability `clone` each way, local ratio p, N = n - 1 other messages."""

    p: float
    q: float
    stronger: bool
    messages: int

    def formula(self, delta: mpmath.mpf) -> tuple[mpmath.mpf | None, str]:
        """log(1 + (p-1)/(p+1) (sqrt(32 ln(4/delta)/(rN)) + 4/(rN))), r = p/((p+1) q) (stronger clone) or 1/(2q) (clone)."""
        import mpmath

        p, q = mpmath.mpf(self.p), mpmath.mpf(self.q)
        r = p / ((p + 1) * q) if self.stronger else 1 / (2 * q)
        log_term = mpmath.log(4 / delta)
        if failed := _crowded(r, self.messages, log_term):
            return None, failed
        return mpmath.log1p((p - 1) / (p + 1) * _clone_noise(r, self.messages, log_term)), ""


@dataclass(frozen=True)
class Efmrtt(ClosedForm):
    """Erlingsson et al. 2019: 12 eps0 sqrt(ln(1/delta)/n) for n >= 1000, eps0 < 1/2, delta < 1/100."""

    n: int

    log_delta_max: ClassVar[float] = math.log(0.01) - INVERSE_WIDTH

    def formula(self, delta: mpmath.mpf) -> tuple[mpmath.mpf | None, str]:
        """The theorem, eps0 being the local eps."""
        import mpmath

        if not (self.n >= 1000 and self.local < 0.5 and delta < 0.01):
            return None, "needs n >= 1000, eps0 < 1/2 and delta < 1/100"
        return 12 * mpmath.mpf(self.local) * mpmath.sqrt(mpmath.log(1 / delta) / self.n), ""


@dataclass(frozen=True)
class _Parts:
    alpha: Any
    p_alpha: Any
    omega: Any
    r: Any
    beta: Any


def _parts(x: VariationRatio) -> _Parts:
    """The declaration's exact rationals as 50-digit numbers; q = max(q, q1), which is no smaller a bound."""
    import mpmath

    inverse, p_alpha, omega, r0, r1 = (mpmath.mpf(v.numerator) / v.denominator for v in x.exact_parts)
    return _Parts(p_alpha * inverse, p_alpha, omega, min(r0, r1), mpmath.mpf(x.beta))


def _crowded(r: mpmath.mpf, messages: int, log_term: mpmath.mpf) -> str:
    """The condition n > 8 ln(4/delta)/r: empty if it holds."""
    import mpmath

    needed = 8 * log_term / r
    return "" if messages + 1 > needed else f"needs n > {mpmath.nstr(needed, 4)}"


def _clone_noise(r: mpmath.mpf, messages: int, log_term: mpmath.mpf) -> mpmath.mpf:
    import mpmath

    return mpmath.sqrt(32 * log_term / (r * messages)) + 4 / (r * messages)
