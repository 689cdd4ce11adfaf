"""A returned bracket against a second computation that shares no code with the engine, and in more digits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import mpmath

from . import precision
from ._checks import check_delta, check_integer
from .bounds import Bounded, Bracket, Crowd, Pairs, Table, claims_of
from .bounds import epsilon as epsilon_at

# Messages up to which eps itself is solved for to all digits; beyond, three values of delta locate it.
SOLVED = 5_000
# Steps of the secant method: each of them doubles the digits, nearly.
STEPS = 12
# Digits of a contour integral, and windows beyond the central one that are looked at.
CONTOUR_DIGITS, WINDOWS = 30, 4_000


@dataclass(frozen=True)
class Verification:
    """What a second computation says about a bracket of eps.

    Attributes
    ----------
    bracket : Bracket
        What `epsilon` returns.
    bound : str
        Which claim gives it.
    epsilon : mpmath.mpf
        The same eps recomputed.
    lower_holds, upper_holds : bool
        Whether delta is still exceeded at the lower end, and kept at the upper end.
    digits : float
        Decimal digits in which the safe end of the bracket agrees with `epsilon`.
    method : str
        How it was recomputed.
    """

    bracket: Bracket
    bound: str
    epsilon: mpmath.mpf
    lower_holds: bool
    upper_holds: bool
    digits: float
    method: str

    @property
    def holds(self) -> bool:
        """Whether the bracket contains the recomputed eps."""
        return self.lower_holds and self.upper_holds

    def __str__(self) -> str:
        ends = f"[{self.bracket.lower!r}, {self.bracket.upper!r}]"
        verdict = "contains" if self.holds else "DOES NOT CONTAIN"
        shown = mpmath.nstr(self.epsilon, 30)
        return f"{self.bound}: {ends} {verdict} {shown}; {self.digits:.1f} digits agree ({self.method})"


def verify(x: Bounded, n: int, delta: float, *, bound: str = "sound", digits: int = 50) -> Verification:
    """Recompute the eps of a bound in multiple precision.

    Parameters
    ----------
    x : VariationRatio, Randomizer or Protocol
        What is bounded.
    n : int
        Number of users.
    delta : float
        Probability in (0, 1).
    bound : str
        Which bound; of "sound" the claim that gives it.
    digits : int
        Significant digits of the sums, 20 to 200.

    Returns
    -------
    Verification

    Raises
    ------
    ValueError
        If the bound is not given by tables of at most four rows and a fixed number of messages, is 0, inf or the local eps, or an
        argument is out of range.

    Notes
    -----
    Divergences are summed exactly in multiple precision (`shufflesim.precision`, no incomplete beta function, no contour). Up to
    5,000 messages eps is solved for to all digits. Beyond, delta is computed at both ends of the bracket, which proves or refutes
    them, and eps interpolated. Where the sum would be too long (four rows, about 1e5 messages and more), delta is a contour
    integral with 30 digits, good to what its windows far from the saddle point can contribute.

    Examples
    --------
    >>> from shufflesim.mechanisms import RandomizedResponse
    >>> found = verify(RandomizedResponse(1.0), 100, 1e-4)
    >>> found.holds, found.digits > 5
    (True, True)
    """
    delta, digits = check_delta(delta), check_integer("digits", digits, low=20, high=200)
    bracket = epsilon_at(x, n, delta, bound=bound)
    claims = [c for c in claims_of(x, Crowd(n)) if bound in ("sound", c.bound)]
    if bound == "sound":
        claims = [c for c in claims if c.side == "upper" and c.sound and not c.baseline]
    claim = min(claims, key=lambda c: epsilon_at(x, n, delta, bound=c.bound).upper) if len(claims) > 1 else claims[0]
    if not 0 < bracket.lower <= bracket.upper < math.inf:
        raise ValueError(f"eps must be positive and finite for a second computation, got [{bracket.lower!r}, {bracket.upper!r}]")
    if bracket.upper >= x.local_epsilon:
        # There the tables, of doubles, no longer tell: their rounding alone exceeds a tiny delta.
        raise ValueError(f"eps must be below the local eps {x.local_epsilon!r} for a second computation, got {bracket.upper!r}")
    value = claim.value
    if not isinstance(value, Pairs) or value.above is not None or value.count.is_random:
        raise ValueError(f"bound must be given by finite tables and a fixed number of messages, got {claim.bound!r} of {x!r}")
    tables = [t for table in value.tables for t in ([table] if table.symmetric else [table, table.swapped()])]
    return _Second(tables, value.count.fixed, delta, digits).against(bracket, claim.bound)


@dataclass(frozen=True)
class _Second:
    tables: list[Table]
    messages: int
    delta: float
    digits: int

    def against(self, bracket: Bracket, bound: str) -> Verification:
        with mpmath.workdps(self.digits + 10):
            ends = [mpmath.mpf(bracket.lower), mpmath.mpf(bracket.upper)]
            values = [self._worst(eps) for eps in ends]
            (low, _, how), (high, error, _) = values
            goal = mpmath.mpf(self.delta)
            lower_holds, upper_holds = low + values[0][1] >= goal, high - error <= goal
            root = self._root(ends, [low, high], goal)
            gap = abs(root - ends[1]) / root
            found = float(-mpmath.log10(max(gap, mpmath.mpf(10) ** -self.digits)))
        return Verification(bracket, bound, root, bool(lower_holds), bool(upper_holds), found, how)

    def _root(self, ends: list[mpmath.mpf], values: list[mpmath.mpf], goal: mpmath.mpf) -> mpmath.mpf:
        """Where log D meets log delta: interpolated, and for few messages solved for."""
        (e0, e1), (v0, v1) = ends, [mpmath.log(v / goal) for v in values]
        if e0 == e1 or v0 == v1:
            e0, v0 = e1 * (1 - mpmath.mpf(10) ** -8), mpmath.log(self._worst(e1 * (1 - mpmath.mpf(10) ** -8))[0] / goal)
        for _ in range(STEPS if self.messages <= SOLVED else 1):
            root = e1 - v1 * (e1 - e0) / (v1 - v0)
            if self.messages > SOLVED or abs(root - e1) <= abs(root) * mpmath.mpf(10) ** -self.digits:
                return root
            e0, v0, e1, v1 = e1, v1, root, mpmath.log(self._worst(root)[0] / goal)
            if v1 == 0 or v1 == v0:
                return e1
        return e1

    def _worst(self, eps: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf, str]:
        """Largest delta of the tables, its error, and how it was found."""
        found = [self._delta(table, eps) for table in self.tables]
        return max(found, key=lambda f: f[0])

    def _delta(self, table: Table, eps: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf, str]:
        try:
            exact = precision.delta(table, self.messages, eps, digits=self.digits)
            return exact, exact * mpmath.mpf(10) ** (1 - self.digits), f"exact sum, {self.digits} digits"
        except ValueError:
            value, error = contour_delta(table, self.messages, eps)
            return value, error, f"contour integral, {CONTOUR_DIGITS} digits"


def contour_delta(table: Table, n: int, eps: Any) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Divergence of one direction by the contour integral of `bounds.contour` in multiple precision: (value, error).

    Only the central window is integrated; what the others may add is estimated from `|M|^n` at their centres, and all beyond
    `WINDOWS` of them by the largest of these.
    """
    with mpmath.workdps(CONTOUR_DIGITS + 10):
        growth = mpmath.exp(eps)
        rows = [(mpmath.mpf(w), mpmath.mpf(a) - growth * mpmath.mpf(b)) for w, a, b in zip(*_columns(table), strict=True)]
        if max(x for _, x in rows) <= 0:
            return mpmath.mpf(0), mpmath.mpf(0)

        def moments(theta: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
            parts = [w * mpmath.exp(theta * x) for w, x in rows]
            total = mpmath.fsum(parts)
            first = mpmath.fsum(p * x for p, (_, x) in zip(parts, rows, strict=True)) / total
            second = mpmath.fsum(p * x * x for p, (_, x) in zip(parts, rows, strict=True)) / total
            return mpmath.log(total), first, second - first**2

        theta = _saddle(moments, n, mpmath.fsum(w * x * x for w, x in rows))
        log_m, _, variance = moments(theta)
        spread = mpmath.sqrt(n * variance)
        need = CONTOUR_DIGITS * mpmath.log(10)
        step = 2 * mpmath.pi / (need / theta + spread * mpmath.sqrt(2 * need))

        def term(y: mpmath.mpf) -> mpmath.mpc:
            z = mpmath.mpc(theta, y)
            return mpmath.exp(n * (mpmath.log(mpmath.fsum(w * mpmath.exp(z * x) for w, x in rows)) - log_m)) / z**2

        total, k = term(mpmath.mpf(0)).real / 2, 1
        while k * step * spread < 2 * mpmath.sqrt(2 * need):
            total += term(k * step).real
            k += 1
        unit = mpmath.exp(n * log_m) / n
        weights = [float(w * mpmath.exp(theta * x)) for w, x in rows]
        heavy = sorted(range(len(rows)), key=lambda i: -weights[i])[:2]
        distance = abs(rows[heavy[0]][1] - rows[heavy[1]][1])
        peaks = [abs(term(2 * mpmath.pi * j / distance)) for j in range(1, WINDOWS)]
        # A window is about as wide as the central one.
        beyond = mpmath.fsum(peaks) + max(peaks) * WINDOWS
        return unit * step * total / mpmath.pi, unit * (
            beyond * 4 / spread + abs(step * total) * mpmath.mpf(10) ** -CONTOUR_DIGITS
        )


def _columns(table: Table) -> tuple[Any, Any, Any]:
    """Weights and ratios; g0 = g1 + gap with all digits where the table has a gap."""
    if table.gap is None:
        return table.weight, table.g0, table.g1
    return table.weight, [mpmath.mpf(b) + mpmath.mpf(g) for b, g in zip(table.g1, table.gap, strict=True)], table.g1


def _saddle(moments: Any, n: int, second: mpmath.mpf) -> mpmath.mpf:
    """n K'(theta) = 2/theta by bisection of the exponent: any theta near it will do."""
    low, high = mpmath.mpf(0), mpmath.sqrt(2 / (n * second))
    while n * moments(high)[1] < 2 / high:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if n * moments(middle)[1] < 2 / middle else (low, middle)
    return high
