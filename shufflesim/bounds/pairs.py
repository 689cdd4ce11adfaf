"""The value of a bound that is given by tables: the worst of them, in both directions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from .bracket import exp_down, exp_up
from .claim import Ends
from .count import MessageCount
from .table import Table

if TYPE_CHECKING:
    from .evaluate import Divergence

# Covers the four roundings of 1 - e^eps + e^eps D for negative eps.
SUM_ROUNDING = 1e-15
# How far beyond the first answer the error of a quadrature is still followed, in eps.
REACH = 0.5
EXPONENT_MAX = 700.0
# Relative error of the logarithm of the limit of large eps.
LIMIT_RTOL = 1e-13


@dataclass(frozen=True, eq=False)
class Pairs:
    """The largest divergence among some tables, over both directions.

    Parameters
    ----------
    tables : tuple of Table
        At least one.
    count : MessageCount
        Messages that hide user 1's message, that message included.
    above : tuple of Table, optional
        Where `tables` only give the lower end: tables whose largest divergence is the upper end (continuous laws).
    accuracy : float
        Error of g0 and g1 in the mean, beyond their last digits (quadrature): delta may be off by (1 + e^eps) times that.
    """

    tables: tuple[Table, ...]
    count: MessageCount
    above: tuple[Table, ...] | None = None
    accuracy: float = 0.0

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for equal tables and counts."""
        ends = [frozenset(t.key for t in tables) for tables in (self.tables, self.above or self.tables)]
        return (*ends, self.count, self.accuracy)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pairs) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def delta(self, eps: float, rtol: float) -> Ends:
        """Ends of the largest delta."""
        low, high, method = self._worst([self._end(tables, lambda one: _delta(one, eps, rtol)) for tables in self._ends()])
        error = self.accuracy * (1 + math.exp(min(eps, EXPONENT_MAX)))
        return max(0.0, low - error), min(1.0, high + error), method

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """Ends of the largest eps."""
        low, high, method = self._solve(delta, rtol)
        if self.accuracy == 0:
            return low, high, method
        # What the tables may be wrong by up to a little beyond the first answer; further out nothing is known.
        reach = high + REACH
        error = self.accuracy * (1 + math.exp(min(reach, EXPONENT_MAX)))
        low = self._solve(delta + error, rtol)[0] if delta + error < 1 else 0.0
        high = self._solve(delta - error, rtol)[1] if delta > error else math.inf
        return low, high if high <= reach else math.inf, method

    def _solve(self, delta: float, rtol: float) -> Ends:
        log_delta = math.log(delta)
        return self._worst([self._end(tables, lambda one: one[0].epsilon(log_delta, rtol)) for tables in self._ends()])

    def limits(self) -> tuple[float, float]:
        """Enclosure of what the largest delta tends to."""
        logs = [max(one.log_limit() for table in end for one, _ in self._directions(table)) for end in self._ends()]
        if logs[-1] == -math.inf:
            return 0.0, 0.0
        low, high = (value + side * LIMIT_RTOL * (1 + abs(value)) for value, side in ((logs[0], -1), (logs[-1], 1)))
        return min(1.0, exp_down(low)), min(1.0, exp_up(high))

    def remark(self, delta: float) -> str:
        """Nothing: the value is exact."""
        return ""

    def _ends(self) -> list[tuple[Table, ...]]:
        return [self.tables] if self.above is None else [self.tables, self.above]

    def _end(self, tables: tuple[Table, ...], solve: Callable[[tuple[Divergence, Divergence]], Ends]) -> Ends:
        """Largest over tables and directions."""
        found = [solve(pair) for table in tables for pair in self._directions(table)]
        worst = max(found, key=lambda f: f[1])
        return max(f[0] for f in found), worst[1], worst[2]

    @staticmethod
    def _worst(ends: list[Ends]) -> Ends:
        return ends[0][0], ends[-1][1], ends[-1][2]

    def _directions(self, table: Table) -> list[tuple[Divergence, Divergence]]:
        """Each direction with its reverse; one where they agree."""
        # Imported on first use: SciPy's special functions take longer to load than all the rest.
        from .evaluate import Divergence

        forth, back = Divergence(table, self.count), Divergence(table.swapped(), self.count)
        return [(forth, back)] if table.symmetric else [(forth, back), (back, forth)]


def _delta(pair: tuple[Divergence, Divergence], eps: float, rtol: float) -> Ends:
    forth, back = pair
    if eps >= 0:
        low, high, method = forth.log_enclosure(eps, rtol)
        return min(exp_down(low), 1.0), min(exp_up(high), 1.0), method
    # max(0, s) = s + max(0, -s): D_eps(P||Q) = 1 - e^eps + e^eps D_-eps(Q||P).
    low, high, method = back.log_enclosure(-eps, rtol)
    gap, factor = -math.expm1(eps), math.exp(eps)
    return (
        max(0.0, (gap + factor * exp_down(low)) * (1 - SUM_ROUNDING)),
        min(1.0, (gap + factor * exp_up(high)) * (1 + SUM_ROUNDING)),
        method,
    )
