"""One function of (table, number of messages, eps), and its inverse in eps: the engine behind every bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import special

from . import contour, exact, search, smoothed
from .count import MessageCount
from .table import Array, Table, thin

# Relative slack that `delta` asks of a divergence, and relative gap that `epsilon` asks of its bracket.
DELTA_RTOL = 1e-9
EPSILON_RTOL = 1e-6
# Exact sums are preferred up to this many terms, and used up to the second number where both integrals miss their aim.
EXACT_TERMS = 600
EXACT_TERMS_MAX = 100_000
# Nodes times rows that the contour integral may use beyond the central window, at first and at last, and the smoothed one in all.
CONTOUR_CELLS_FIRST, CONTOUR_CELLS = 10_000, 120_000
SMOOTHED_CELLS = 4_000_000
# Cells that take as long as one term of a sum.
CELLS_PER_TERM = 30
# Slack from which on the smoothed integral is the cheaper one; beyond so many rows it always is, and sums are hopeless.
SMOOTHED_RTOL = 1e-7
MANY_ROWS = 12
# Above this many messages the incomplete beta function loses digits; exact sums are then a last resort, with their slack.
EXACT_MESSAGES = 1_000_000
# Relative accuracy of the table itself beyond which a long sum is not worth its time (local eps below about 1e-8).
HOPELESS = 0.01
# Messages outside the likeliest row, on average, up to which the sum is used for any number of messages.
FEW = 50.0
# Below this, in units of the largest X, weights and tails underflow together; the integrals work with logarithms.
LOG_UNDERFLOW = -1500.0
# Times that a sum may be repeated with more terms when the first guess of its size was too large.
SUM_ATTEMPTS = 4
# Random numbers of messages are enumerated up to this many that matter, out of so many.
RANDOM_COUNTS_MAX, RANDOM_RANGE_MAX = 512, 8192
# Accuracy of the law of the number of messages per possible number: a few roundings in each of its sums.
LAW_ACCURACY = 1e-15
# Slack asked of D_0, one after the other, until it is on one side of delta.
ZERO_SLACKS = (1e-2, 1e-5, 1e-9)
# Relative step at which the search on estimates stops; enclosures take over from there.
ROOT_RTOL = 1e-5

# (log_lower, log_upper) or None where the aim was given up, and how.
Found = tuple[tuple[float, float] | None, str]
Attempt = Callable[[], Found]


class Divergence:
    """D_eps of one direction of one table, as a function of eps >= 0.

    Parameters
    ----------
    table : Table
        Rows (weight, g0, g1).
    count : MessageCount
        Messages that hide user 1's message, that message included.
    """

    def __init__(self, table: Table, count: MessageCount) -> None:
        self.table, self.count = thin(table, count)
        self._probabilities: Array | None = None
        self._windows_first = True

    def log_enclosure(self, eps: float, rtol: float = DELTA_RTOL) -> tuple[float, float, str]:
        """(log_lower, log_upper, method) with log_lower <= log D_eps <= log_upper; -inf for a zero.

        `rtol` is the relative slack to aim at; what is reached is in the result.
        """
        edge = self.table.edge(eps, self.count)
        if edge is not None:
            return -math.inf, edge, "edge of the local budget"
        s = contour.saddle(self.table, self.count, eps)
        if s is None:
            return -math.inf, -math.inf, "exact sum"
        accuracy = s.accuracy(self.count.largest)
        lows, highs, method = [-math.inf], [math.inf], ""
        for attempt in self._attempts(s, rtol):
            ends, how = attempt()
            if ends is None:
                continue
            lows.append(ends[0])
            highs.append(ends[1])
            method = how
            if min(highs) - max(lows) <= 4 * (rtol + accuracy) or accuracy >= HOPELESS:
                break
        if max(lows) > min(highs):
            # Apart by more than the roundings that were allowed for: then what contains all of them.
            return min(lows[1:]), max(highs[1:]), method
        return max(lows), min(highs), method

    def _attempts(self, s: contour.Saddle, rtol: float) -> list[Attempt]:
        """Ways to an enclosure, the cheapest that may reach the aim first; all are valid, so that they may be intersected."""
        per_node = smoothed.per_node(self.table, s)

        def windows(cells: int) -> Found:
            ends = contour.enclose(self.table, self.count, s, rtol=rtol, max_nodes=cells // per_node, or_nothing=True)
            return ends, "contour integral"

        def smooth() -> Found:
            ends = smoothed.enclose(self.table, self.count, s, rtol=rtol, max_cells=SMOOTHED_CELLS)
            return ends, "smoothed contour integral"

        def by_sum() -> Found:
            return self._sum(s, EXACT_TERMS_MAX), "exact sum"

        def few() -> Found:
            ends, method = windows(CONTOUR_CELLS_FIRST)
            # Where it gives up once, it does so for all eps nearby: a search need not try again.
            self._windows_first = ends is not None
            return ends, method

        terms, more = self._terms(s), partial(windows, CONTOUR_CELLS)
        if terms <= EXACT_TERMS and (self.count.largest <= EXACT_MESSAGES or self._few(s)):
            return [by_sum, smooth, more]
        if self.table.size > MANY_ROWS:
            return [smooth, more]
        costs = min(smoothed.cells(self.table, self.count, s, rtol), SMOOTHED_CELLS)
        rest = [by_sum, smooth] if terms * CELLS_PER_TERM < costs else [smooth, by_sum]
        if rtol < SMOOTHED_RTOL:
            return [more, *rest]
        return [few, *rest, more] if self._windows_first else [*rest, more]

    def _terms(self, s: contour.Saddle) -> int:
        """Terms of the sum at the likeliest number of messages; its cost if that number is fixed."""
        floor = self._log_unit(s) - contour.NEGLIGIBLE
        if self.table.size > MANY_ROWS and self.count.largest > 1:
            return EXACT_TERMS_MAX + 1
        return exact.Grid(self.table, round(self.count.mean), floor).size if floor > LOG_UNDERFLOW else EXACT_TERMS_MAX + 1

    @staticmethod
    def _log_unit(s: contour.Saddle) -> float:
        """log D in units of the largest X, from the saddle point alone: within a factor of a few as a rule."""
        return s.log_total - math.log(1 + s.theta * s.spread) - math.log(s.theta)

    def log_estimate(self, eps: float) -> tuple[float, float]:
        """(log D, d log D / d eps), cheap and without a guarantee: what the root search steps with."""
        s = contour.saddle(self.table, self.count, eps)
        if s is None:
            return -math.inf, 0.0
        by_sum = self._sum(s, EXACT_TERMS) if self._few(s) else None
        return (0.5 * sum(by_sum) if by_sum and by_sum[0] > -math.inf else contour.estimate(self.count, s)), s.slope

    def _few(self, s: contour.Saddle) -> bool:
        """Whether so few messages are outside the likeliest row that the integrand has no Gaussian peak; sums are short then."""
        return self.count.largest * (1 - float(s.tilted.max())) < FEW

    def _sum(self, s: contour.Saddle, terms: int) -> tuple[float, float] | None:
        """Enclosure by exact sums, averaged over the number of messages; None if that takes more than so many terms."""
        if self.count.largest - self.count.fixed > RANDOM_RANGE_MAX or (self.table.size > MANY_ROWS and self.count.largest > 1):
            return None
        law = self._law()
        # The saddle point value is within a factor of a few of D unless most of the probability sits on a sum of 0; then
        # the first sum tells better which counts matter.
        log_d = self._log_unit(s)
        for _ in range(SUM_ATTEMPTS):
            if log_d < LOG_UNDERFLOW:
                return None
            floor = log_d - contour.NEGLIGIBLE
            matters = law > math.exp(max(floor - math.log(law.size), -740.0))
            kept = np.flatnonzero(matters)
            if kept.size > RANDOM_COUNTS_MAX:
                return None
            grids = [exact.Grid(self.table, self.count.fixed + int(more), floor) for more in kept]
            if sum(grid.size for grid in grids) > terms:
                return None
            parts = np.array([exact.enclose(self.table, grid, s.x, s.doubt, s.rounding) for grid in grids])
            low, high = (float(end) for end in special.logsumexp(parts + np.log(law[kept])[:, None], axis=0))
            if self.count.is_random:
                # No D exceeds the largest X, which is 1 here.
                high = float(np.logaddexp(high, math.log(float(law[~matters].sum()) + exact.UNDERFLOW)))
                low, high = low - LAW_ACCURACY * law.size, high + LAW_ACCURACY * law.size
            if low > log_d - 20 or (kept.size == law.size and all(grid.complete for grid in grids)):
                break
            log_d = low if low > -math.inf else log_d - 100
        return s.log_scale + low, s.log_scale + high

    def _law(self) -> Array:
        if self._probabilities is None:
            self._probabilities = self.count.law()
        return self._probabilities

    def log_limit(self) -> float:
        """log of the limit of D as eps grows: Pr[no message that could also have come under the other input]."""
        lone = self.table.g1 == 0
        own = float(self.table.weight[lone] @ self.table.g0[lone])
        if own == 0:
            return -math.inf
        log_w = math.log(float(self.table.weight[lone].sum()))
        return math.log(own) + float(self.count.log_pgf(np.asarray(log_w))) - log_w

    def epsilon(self, log_delta: float, rtol: float = EPSILON_RTOL) -> tuple[float, float, str]:
        """(lower, upper, method) around the smallest eps >= 0 with D_eps <= delta.

        `rtol` is the relative gap (upper - lower)/upper to aim at; what is reached is in the result.
        """
        # 0 is only worth an enclosure where the estimate leaves it open: the search verifies its own ends anyway.
        if self.log_estimate(0.0)[0] < log_delta + 1:
            for slack in ZERO_SLACKS:
                low0, high0, method = self.log_enclosure(0.0, slack)
                if high0 <= log_delta - search.margin(log_delta):
                    return 0.0, 0.0, method
                if low0 > log_delta:
                    break
        limit = self.log_limit()
        slack = 1e-13 * (1 + abs(limit)) if limit > -math.inf else 0.0
        if limit - slack >= log_delta:
            return math.inf, math.inf, "limit of large eps"
        ceiling = self.table.ceiling
        start = self._root(log_delta, ceiling)
        slope = max(-self.log_estimate(start)[1], 1e-300)
        lower, upper, method = search.bracket(self.log_enclosure, log_delta, start, slope, ceiling, rtol)
        return (lower, math.inf, "limit of large eps") if limit + slack >= log_delta else (lower, upper, method)

    def _root(self, log_delta: float, ceiling: float) -> float:
        """Newton's method on sqrt(-2 log D), which is nearly linear in eps, inside a shrinking bracket."""
        low, high = 0.0, ceiling
        # For small eps, log D is about -m eps^2 / (2 Var X).
        x, _, scale = self.table.excess(0.0, self.count.largest)
        deviation = scale * math.sqrt(float(self.table.weight @ (x * x)))
        guess = deviation * math.sqrt(2 * max(-log_delta, 0.1) / self.count.mean)
        eps = guess if guess < ceiling else (0.5 * ceiling if ceiling < math.inf else 1.0)
        target = math.sqrt(max(-2 * log_delta, 0.0))
        for _ in range(200):
            value, slope = self.log_estimate(eps)
            if value > log_delta:
                low = eps
            else:
                high = eps
            root = math.sqrt(max(-2 * value, 1e-12))
            step = (target - root) * root / -slope if slope < 0 and value > -math.inf else math.inf
            trial = eps + step
            if not low < trial < high:
                trial = 0.5 * (low + high) if high < math.inf else 2 * eps
            if abs(trial - eps) <= ROOT_RTOL * trial or high - low <= ROOT_RTOL * high:
                return trial
            eps = trial
        return eps
