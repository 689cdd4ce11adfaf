"""Several messages of one user that are random on their own, each hidden among the same crowd: the bounds of all together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy import special

from .bracket import Bracket
from .claim import Claim, Ends, Value
from .composition import DeltaCurve, Round, compose
from .count import Array, MessageCount
from .crowd import Crowd
from .pairs import SUM_ROUNDING, Pairs
from .present import present
from .ratio import VariationRatio
from .search import bracket
from .table import Table

# Most outcomes of each half of the parts that are enumerated.
OUTCOMES_MAX = 2**18
# Error of a log-probability, and of a sum of it and others, in units in the last place of what is summed.
LOG_ULPS = 8.0
# More than what all outcomes have together whose probability is no normal number.
LOST = 1e-300
# e^eps overflows beyond.
EXP_MAX = 709.0
# Slack of a part's eps, where its sum with those of others is all that is asked for or where a search begins.
START_RTOL = 1e-3
# The method that is named without dp-accounting.
WITHOUT = "sum of the parts (composing them needs dp-accounting)"

_MACHINE = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Composed:
    """The composition of independent parts that the same n users run.

    Parameters
    ----------
    pairs : tuple of Pairs
        What bounds each part: one table that is its own mirror image (g0 and g1 swapped), and the number of messages.
    local : tuple of float
        Local eps of each part; finite.

    Raises
    ------
    ValueError
        If a part's pair is of another kind.

    Notes
    -----
    Given the data the parts are independent, so that the product of pairs that bound the parts bounds all of them together
    (Dong, Roth, Su, "Gaussian differential privacy", JRSS B 2022); a mirror image in each part makes both directions equal.
    A part's pair is the law of how many of m messages fall on each row of its table: with c of them, multinomial probability
    M(c), P(c) = M(c) sum_k c_k g0_k/m, and Q(c) likewise. If the outcomes of half of the parts are few (`OUTCOMES_MAX`), they
    are listed and sorted by P/Q, and delta is a sum over the outcomes of the other half. Otherwise the parts' privacy loss
    distributions are composed (`compose`); without the package that this needs, what is left is the sum of the parts' eps at
    delta divided by their number, a looser bound.

    Examples
    --------
    >>> from shufflesim import VariationRatio
    >>> from shufflesim.bounds import MessageCount
    >>> digit = Pairs((VariationRatio(3, 0.5, 3).published_table(),), MessageCount(20))
    >>> two = Composed((digit, digit), (math.log(3), math.log(3)))
    >>> [round(value.epsilon(1e-3, 1e-6)[1], 4) for value in (digit, two)]
    [0.8168, 1.2278]
    """

    pairs: tuple[Pairs, ...]
    local: tuple[float, ...]

    def __post_init__(self) -> None:
        for pair, local in zip(self.pairs, self.local, strict=True):
            (table,) = pair.tables
            if not table.symmetric or pair.count.is_random or local == math.inf:
                raise ValueError(
                    f"a part needs a symmetric table, a fixed number of messages and a finite local eps, got {pair!r}"
                )

    def delta(self, eps: float, rtol: float) -> Ends:
        """Ends of delta; for a negative eps by the mirror image."""
        if eps < 0:
            low, high, method = self.delta(-eps, rtol)
            gap, factor = -math.expm1(eps), math.exp(eps)
            return (
                max(0.0, (gap + factor * low) * (1 - SUM_ROUNDING)),
                min(1.0, (gap + factor * high) * (1 + SUM_ROUNDING)),
                method,
            )
        if self._product is not None:
            return self._product.delta(eps)
        try:
            return _ends(self._curve.at(eps))
        except ImportError:
            ends = [pair.delta(eps / len(self.pairs), rtol)[:2] for pair in self.pairs]
            low, high = (math.fsum(column) for column in zip(*ends, strict=True))
            return min(1.0, low / (1 + _MACHINE)), min(1.0, high * (1 + _MACHINE)), WITHOUT

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """Ends of the smallest eps."""
        ceiling = math.fsum(self.local) * (1 + len(self.local) * _MACHINE)
        if self._product is not None:
            return self._product.epsilon(delta, max(pair.epsilon(delta, START_RTOL)[1] for pair in self.pairs), ceiling, rtol)
        try:
            return _ends(compose(self._rounds, delta=delta))
        except ImportError:
            low, high, _ = self.sum_of_parts(delta, rtol)
            return low, high, WITHOUT

    def sum_of_parts(self, delta: float, rtol: float) -> Ends:
        """Ends of the sum of the parts' eps at delta divided by their number: a bound as well."""
        share = delta / len(self.pairs)  # may be too small for a float
        singles = {pair: pair.epsilon(share, rtol) if share > 0 else (0.0, math.inf, "") for pair in set(self.pairs)}
        ends = [singles[pair][:2] for pair in self.pairs]
        low, high = (math.fsum(map(min, column, self.local)) for column in zip(*ends, strict=True))
        error = 1 + len(ends) * _MACHINE
        return low / error, high * error, "sum of the parts"

    def limits(self) -> tuple[float, float]:
        """Nothing is left at the sum of the local eps."""
        return 0.0, 0.0

    def remark(self, delta: float) -> str:
        """How many parts."""
        return f"{len(self.pairs)} parts composed"

    @property
    def _rounds(self) -> list[Round]:
        """Equal parts once, with their number."""
        return [
            Round(_Single(pair, local), pair.count.largest, times)
            for (pair, local), times in Counter(zip(self.pairs, self.local, strict=True)).items()
        ]

    @cached_property
    def _curve(self) -> DeltaCurve:
        return DeltaCurve(self._rounds)

    @cached_property
    def _product(self) -> _Product | None:
        """The outcomes in two halves that are about as large; None if one is too large."""
        halves: list[list[Pairs]] = [[], []]
        sizes = [1, 1]
        for pair, size in sorted(((p, _outcomes(p)) for p in self.pairs), key=lambda found: -found[1]):
            smaller = int(sizes[1] < sizes[0])
            halves[smaller].append(pair)
            sizes[smaller] *= size
        return None if max(sizes) > OUTCOMES_MAX else _Product(_joint(halves[0]), _joint(halves[1]))


def composed_claims(
    declarations: Sequence[VariationRatio], tables: Sequence[Table], lowers: Iterable[Claim], local: Iterable[float], crowd: Crowd
) -> list[Claim]:
    """The bounds of a protocol that consists of independent parts with a message (or a bundle of them) of each user.

    Parameters
    ----------
    declarations : sequence of VariationRatio
        Of each part, for the published bound.
    tables : sequence of Table
        What is proved to bound each part; symmetric.
    lowers : iterable of Claim
        Bounds of parts; the lower ones among them, the largest of which is a bound on all parts together: an input may change in
        that part alone, and the others can be ignored.
    local : iterable of float
        Local eps of each part.
    crowd : Crowd
        Who takes part; all with probability 1 unless there is a single part.
    """
    budgets = tuple(local)

    def value(tables: Sequence[Table]) -> Value:
        if len(tables) == 1:
            return Pairs((crowd.spread(tables[0]),), MessageCount(crowd.n))
        return present(crowd, lambda n: Composed(tuple(Pairs((t,), MessageCount(n)) for t in tables), budgets))

    sound = all(x.published_soundness()[0] for x in declarations)
    note = "omega = 0 in every part" if sound else "omega > 0 in some part: may lie below the truth"
    source = "Wang et al. 2024, Algorithm 1, for each part"
    claims = [
        Claim("published", "upper", sound, source, note, value([x.published_table() for x in declarations]), baseline=True),
        Claim("accountant", "upper", True, "composition of the parts' pairs (docs/soundness.md)", "", value(tables)),
    ]
    found = {table.key: table for claim in lowers if claim.bound == "lower" for table in cast(Pairs, claim.value).tables}
    if found:
        source, note = "exact divergence when all others hold one value (docs/theory.md)", "largest of the parts, each alone"
        claims.append(Claim("lower", "lower", True, source, note, Pairs(tuple(found.values()), MessageCount(crowd.n))))
    return claims


@dataclass(frozen=True)
class _Single:
    """What `compose` needs to know of a part."""

    value: Value
    local_epsilon: float

    def claims(self, crowd: Crowd) -> list[Claim]:
        return [Claim("accountant", "upper", True, "", "", self.value)]


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Outcomes of some parts: log(P/Q), P, Q, and the relative error of each (of the logarithm: absolute)."""

    ratio: Array
    p: Array
    q: Array
    error: float


class _Product:
    """Delta of two independent groups of parts."""

    def __init__(self, first: _Outcomes, second: _Outcomes) -> None:
        self.few, many = sorted((first, second), key=lambda half: half.ratio.size)
        order = np.argsort(many.ratio)
        self.ratio = many.ratio[order]
        # Sums over all outcomes from one on.
        self.p, self.q = (np.append(np.cumsum(a[order][::-1])[::-1], 0.0) for a in (many.p, many.q))
        self.margin = first.error + second.error + LOG_ULPS * _MACHINE * (1 + abs(self.ratio).max() + abs(self.few.ratio).max())
        # A sum of k terms >= 0 is known to k roundings; an outcome that is wrongly in it has |P - e^eps Q| <= 3 margins of both.
        self.error = 4 * self.margin + _MACHINE * (self.ratio.size + self.few.ratio.size + 8)

    def delta(self, eps: float) -> Ends:
        """Sum of P - e^eps Q over all outcomes with a ratio beyond eps, those included where this is not sure."""
        start = np.searchsorted(self.ratio, eps - self.few.ratio - self.margin - 4 * _MACHINE * eps)
        p, q = float(self.few.p @ self.p[start]), float(self.few.q @ self.q[start])
        if eps > EXP_MAX:
            return 0.0, min(1.0, p * (1 + self.error) + LOST), "enumeration"
        grown = math.exp(eps) * q
        error = self.error * (p + grown)
        low, high = p - grown - error - LOST * math.exp(eps), p - grown + error + LOST
        return max(0.0, low), max(0.0, min(1.0, high)), "enumeration"

    def epsilon(self, delta: float, start: float, ceiling: float, rtol: float) -> Ends:
        """By a search from `start`."""
        if self.delta(0.0)[1] <= delta:
            return 0.0, 0.0, "enumeration"

        def enclosure(eps: float, slack: float) -> tuple[float, float, str]:
            low, high, method = self.delta(eps)
            return math.log(low) if low > 0 else -math.inf, math.log(high) if high > 0 else -math.inf, method

        first = start if 0 < start < ceiling else 0.5 * ceiling
        return bracket(enclosure, math.log(delta), first, -2 * math.log(delta) / first, ceiling, rtol)


def _ends(found: Bracket) -> Ends:
    return found.lower, found.upper, found.method


def _outcomes(pair: Pairs) -> int:
    """How many messages on each row of the table: number of possibilities."""
    rows = pair.tables[0].size
    return math.comb(pair.count.largest + rows - 1, rows - 1)


def _joint(pairs: list[Pairs]) -> _Outcomes:
    """All combinations of some parts' outcomes."""
    log_p, log_q, ratio, error = np.zeros(1), np.zeros(1), np.zeros(1), 0.0
    for pair in pairs:
        more = _outcomes_of(pair.tables[0], pair.count.largest)
        log_p, log_q, ratio = ((a[:, None] + b).ravel() for a, b in zip((log_p, log_q, ratio), more[:3], strict=True))
        error += more[3]
    return _Outcomes(ratio, np.exp(log_p), np.exp(log_q), error)


def _outcomes_of(table: Table, messages: int) -> tuple[Array, Array, Array, float]:
    """Of one part: log P, log Q, log(P/Q) of each outcome that is possible, and the error of all three."""
    counts, left = np.zeros((1, 0), dtype=np.int64), np.array([messages])
    for _ in range(table.size - 1):
        sizes = left + 1
        placed = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        counts = np.column_stack([np.repeat(counts, sizes, axis=0), placed])
        left = np.repeat(left, sizes) - placed
    counts = np.column_stack([counts, left])
    first, second = counts @ table.g0, counts @ table.g1
    possible = (first > 0) & (second > 0)
    counts, first, second = counts[possible], np.log(first[possible]), np.log(second[possible])
    log_weight = np.log(table.weight)
    whole = float(special.gammaln(messages + 1.0))
    mass = whole - math.log(messages) - special.gammaln(counts + 1.0).sum(axis=1) + counts @ log_weight
    # What is summed: the factorials, whose logarithms add up to at most that of m!, and the logarithms of weights and ratios.
    size = 2 * whole + messages * (1 + float(abs(log_weight).max())) + float(max(abs(first).max(), abs(second).max()))
    return mass + first, mass + second, first - second, LOG_ULPS * _MACHINE * (table.size + size)
