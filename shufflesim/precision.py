"""The other side of `bounds`: the same divergence to 50 digits, by exact summation in multiple precision.

Independent of the engine on purpose: no log-gamma, no incomplete beta function, no contour. Probabilities are updated term by
term with mpmath, whose working precision leaves room for every subtraction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import mpmath

from ._checks import check_integer, check_users, plain
from ._fixed_point import four_kinds
from .bounds import Table, VariationRatio

# Decimal digits kept beyond those asked for and those that the smallness of the result takes.
GUARD = 25
# Terms above which a sum would take longer than anyone wants to wait (about half a minute).
TERMS_MAX = 2_000_000

Rows = Sequence[tuple[Any, Any, Any]]


def delta(table: Table | Rows, n: int, eps: Any, *, digits: int = 50) -> mpmath.mpf:
    """Hockey-stick divergence of one direction of a table, to `digits` significant digits.

    Parameters
    ----------
    table : Table or sequence of (weight, g0, g1)
        At most four distinct rows; numbers or decimal strings, taken as exact.
    n : int
        Messages, user 1's included; up to a few thousand.
    eps : number or str
        Any real number.
    digits : int
        Significant digits; 15 to 1000.

    Returns
    -------
    mpmath.mpf
        (1/n) E[max(0, sum of g0 - e^eps g1)].

    Raises
    ------
    ValueError
        If there are more than four distinct rows, or the sum would need more than `TERMS_MAX` terms.

    Examples
    --------
    The smallest counterexample to the published bound (docs/soundness.md), e^eps = 2:

    >>> with mpmath.workdps(30):
    ...     print(delta(VariationRatio(3, 0.4, 3).published_table(), 3, mpmath.log(2)))
    0.0720000000000000...
    """
    n, digits = check_users(n), check_integer("digits", digits, low=15, high=1000)
    rows, eps = _rows(table), _finite("eps", eps)
    lost = 0
    while True:
        # Truncation and rounding are absolute; `lost` digits go to the smallness of the result.
        with mpmath.workdps(digits + GUARD + lost):
            value = _sum(rows, n, eps, need=(digits + GUARD / 2 + lost) * math.log(10))
            small = 0 if value <= 0 else max(0, -int(mpmath.floor(mpmath.log10(value))))
        if lost >= small and value > 0:
            return value
        if value <= 0 and lost > 4 * n + 400:
            return mpmath.mpf(0)
        lost = 2 * small + 10 if value > 0 else 2 * lost + 50


def rows_of(x: VariationRatio, bound: str, *, digits: int = 60) -> list[tuple[Any, Any, Any]]:
    """The published or three-outcome table of a declaration, its parameters taken as exact and its rows not rounded.

    Parameters
    ----------
    x : VariationRatio
        The declaration.
    bound : {"published", "three-outcome"}
        Which table.
    digits : int
        Digits of the rows.

    Returns
    -------
    list of (weight, g0, g1)
        For `delta`.
    """
    with mpmath.workdps(digits):
        beta, q, q1, q_star = (mpmath.mpf(v) for v in (x.beta, x.q, x.second_q, x.neutral_q))
        infinite = x.p == math.inf
        inverse = mpmath.mpf(0) if infinite else 1 / mpmath.mpf(x.p)
        alpha = mpmath.mpf(0) if infinite or x.p == 1 else beta / (mpmath.mpf(x.p) - 1)
        p_alpha = beta if infinite else alpha * mpmath.mpf(x.p)
        omega, r0, r1 = 1 - alpha - p_alpha, p_alpha / q, p_alpha / q1
        clones = [(r0, q, q * inverse), (r1, q1 * inverse, q1)]
        if bound == "published":
            rest = 1 - r0 - r1
            return [*clones, (rest, omega / rest, omega / rest)] if rest > 0 else clones
        if bound == "three-outcome":
            s = omega / q_star
            return [*clones, (s, q_star, q_star), (1 - r0 - r1 - s, mpmath.mpf(0), mpmath.mpf(0))]
    raise ValueError(f"bound must be 'published' or 'three-outcome', got {bound!r}")


def _rows(table: Table | Rows) -> list[tuple[Any, Any, Any]]:
    columns: Any = table
    if isinstance(table, Table):
        # A table with a gap column means g0 = g1 + gap, with all the digits of both.
        with mpmath.workdps(1100):
            first = table.g0 if table.gap is None else [mpmath.mpf(a) + b for a, b in zip(table.g1, table.gap, strict=True)]
            columns = list(zip(table.weight, first, table.g1, strict=True))
    try:
        rows = [tuple(_finite("every entry of the table", v) for v in (w, g0, g1)) for w, g0, g1 in columns]
    except TypeError:
        raise ValueError(f"table must be a Table or rows of (weight, g0, g1), got {table!r}") from None
    rows = [row for row in rows if row[0] != 0]
    if not 1 <= len(rows) <= 4:
        raise ValueError(f"table must have 1 to 4 rows, got {len(rows)}")
    return rows


def _finite(name: str, value: Any) -> mpmath.mpf:
    """A number or a decimal string, at the precision at hand (strings) or exactly (floats)."""
    try:
        if isinstance(value, bool):
            raise TypeError
        with mpmath.workdps(1100):
            number = mpmath.mpf(value if isinstance(value, (int, str, mpmath.mpf)) else float(value))
    except (TypeError, ValueError):
        number = mpmath.nan
    if not mpmath.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {plain(value)!r}")
    return number


def _sum(rows: list[tuple[Any, Any, Any]], n: int, eps: mpmath.mpf, need: float) -> mpmath.mpf:
    """Counts of all rows but two are enumerated; for these two, tails of a binomial are carried along."""
    growth = mpmath.exp(eps)
    x = [g0 - growth * g1 for _, g0, g1 in rows]
    if max(x) <= 0:
        return mpmath.mpf(0)
    # One message this bad outweighs all others: cutting it off there changes nothing but the digits that are needed.
    x = [max(value, -4 * n * max(x)) for value in x]
    if len(rows) == 1:
        return x[0]
    ranges = [_range(n, float(w), need) for w, _, _ in rows]
    order = sorted(range(len(rows)), key=lambda i: ranges[i][1] - ranges[i][0])
    outer, inner = order[:-2], sorted(order[-2:], key=lambda i: -x[i])
    terms = math.prod(ranges[i][1] - ranges[i][0] + 1 for i in outer)
    if terms > TERMS_MAX:
        raise ValueError(f"n must be small enough for {TERMS_MAX} terms, got {terms} terms")
    a, b = inner
    if len(outer) == 2:
        return four_kinds([(rows[i][0], x[i]) for i in (*inner, *outer)], n) / n
    w_a, w_b, gap = rows[a][0], rows[b][0], x[a] - x[b]
    rho, tail, total = w_a / (w_a + w_b), None, mpmath.mpf(0)
    # w^c/c! for every count, so that a multinomial weight is a product of look-ups.
    least = max(0, n - sum(ranges[i][1] for i in outer))
    both = _exponential_terms(w_a + w_b, least, n - sum(ranges[i][0] for i in outer))
    single = [_exponential_terms(rows[i][0], *ranges[i]) for i in outer]
    for counts, t in _counts(n, [ranges[i] for i in outer]):
        weight, level = both[t - least], x[b] * t
        for i, c, terms_of_row in zip(outer, counts, single, strict=True):
            weight *= terms_of_row[c - ranges[i][0]]
            level += x[i] * c
        if gap == 0:
            total += weight * max(mpmath.mpf(0), level)
            continue
        k = int(mpmath.floor(-level / gap)) + 1
        if k > t:
            continue
        if k <= 0:
            total += weight * (gap * t * rho + level)
            continue
        tail = _Tail(t - 1, k - 1, rho) if tail is None else tail.move(t - 1, k - 1)
        # Pr[Bin(t) >= k] = Pr[Bin(t-1) >= k-1] - (1 - rho) Pr[Bin(t-1) = k-1].
        total += weight * (gap * t * rho * tail.upper + level * (tail.upper - (1 - rho) * tail.point))
    return total * mpmath.factorial(n) / n


def _exponential_terms(w: mpmath.mpf, low: int, top: int) -> list[mpmath.mpf]:
    """w^c/c! for c = low..top."""
    terms = [w**low / mpmath.factorial(low)]
    for c in range(low + 1, top + 1):
        terms.append(terms[-1] * w / c)
    return terms


def _range(n: int, w: float, need: float) -> tuple[int, int]:
    """Counts outside of which Pr[Bin(n, w)] is below e^-need (Bernstein)."""
    w = min(w, 1.0)
    reach = need / 3 + math.sqrt(need * need / 9 + 2 * need * n * w * (1 - w))
    return max(0, math.floor(n * w - reach)), min(n, math.ceil(n * w + reach))


def _counts(n: int, ranges: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Counts of the enumerated rows, and what is left for the other two."""
    for counts in itertools.product(*(range(low, high + 1) for low, high in ranges)):
        left = n - sum(counts)
        if left >= 0:
            yield counts, left


class _Tail:
    """Pr[Bin(s, rho) >= j] and Pr[Bin(s, rho) = j], moved by single steps in s and j, 0 <= j <= s."""

    def __init__(self, s: int, j: int, rho: mpmath.mpf) -> None:
        self.s, self.j, self.rho = s, j, rho
        self.point = mpmath.binomial(s, j) * rho**j * (1 - rho) ** (s - j)
        self.upper, term = mpmath.mpf(0), self.point
        for i in range(j, s + 1):
            self.upper += term
            ratio = mpmath.mpf(s - i) / (i + 1) * rho / (1 - rho)
            term *= ratio
            # What is left is at most a geometric series, its ratios falling.
            if ratio < 1 and term < self.upper * (1 - ratio) * mpmath.eps / 16:
                break

    def move(self, s: int, j: int) -> _Tail:
        while self.s < s:
            self.upper += self.point * self.j * (1 - self.rho) / (self.s - self.j + 1)
            self.point *= mpmath.mpf(self.s + 1) * (1 - self.rho) / (self.s + 1 - self.j)
            self.s += 1
        while self.j < j:
            self.upper -= self.point
            self.point *= mpmath.mpf(self.s - self.j) / (self.j + 1) * self.rho / (1 - self.rho)
            self.j += 1
        while self.j > j:
            self.point *= mpmath.mpf(self.j) / (self.s - self.j + 1) * (1 - self.rho) / self.rho
            self.upper += self.point
            self.j -= 1
        while self.s > s:
            self.point *= mpmath.mpf(self.s - self.j) / (self.s * (1 - self.rho))
            self.upper -= self.point * self.j * (1 - self.rho) / (self.s - self.j)
            self.s -= 1
        return self
