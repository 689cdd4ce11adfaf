"""One function of (table, number of messages, eps), and its inverse in eps: the engine behind every bound."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from . import contour, exact
from .table import MessageCount, Table, thin

# Relative slack that `delta` asks of a divergence, and that `epsilon` asks of its result (before rounding allowances).
DELTA_RTOL = 1e-9
EPSILON_RTOL = 4e-7
# Exact sums are preferred up to this many terms, and used up to the second number where the contour integral misses its aim.
EXACT_TERMS = 4_000
EXACT_TERMS_MAX = 2_000_000
# Nodes times rows that the contour integral may use beyond the central window.
CONTOUR_CELLS = 120_000
# Above this many messages log-gamma loses too many digits for an exact sum.
EXACT_MESSAGES = 1e7
# Random numbers of messages are enumerated up to this many possibilities.
RANDOM_COUNTS_MAX = 64
# Relative step at which the search for eps stops; the enclosures around the root are what is returned.
ROOT_RTOL = 1e-9


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

    def log_enclosure(self, eps: float, rtol: float = DELTA_RTOL) -> tuple[float, float, str]:
        """(log_lower, log_upper, method) with log_lower <= log D_eps <= log_upper; -inf for a zero.

        `rtol` is the relative slack to aim at; what is reached is in the result.
        """
        edge = self.table.edge(eps)
        s = contour.saddle(self.table, self.count, eps) if edge is None else None
        if s is None:
            return -math.inf, math.log(edge) if edge else -math.inf, "exact sum"
        grids = self._grids(s)
        terms = sum(grid.size for grid in grids) if grids else math.inf
        if terms <= EXACT_TERMS:
            return *self._sum(s, grids), "exact sum"
        nodes = CONTOUR_CELLS // self.table.size
        low, high = contour.enclose(self.table, self.count, s, rtol=rtol, max_nodes=nodes)
        # No method can beat the rounding allowance, which both share.
        if high - low > 4 * (rtol + s.rounding) and terms <= EXACT_TERMS_MAX:
            exact_low, exact_high = self._sum(s, grids)
            if exact_high - exact_low < high - low:
                return exact_low, exact_high, "exact sum"
        return low, high, "contour integral"

    def log_estimate(self, eps: float) -> tuple[float, float]:
        """(log D, d log D / d eps), cheap and without a guarantee: what the root search steps with."""
        s = contour.saddle(self.table, self.count, eps)
        if s is None:
            return -math.inf, 0.0
        return contour.estimate(self.count, s), s.slope

    def _grids(self, s: contour.Saddle) -> list[exact.Grid]:
        """What an exact sum would run over, one grid for each possible number of messages; [] if there are too many."""
        if self.count.mean > EXACT_MESSAGES or (self.count.is_random and self.count.trials >= RANDOM_COUNTS_MAX):
            return []
        # The leading-order value is within a factor of a few of D: enough to decide what is negligible.
        log_d = s.log_total - math.log(1 + s.theta * s.spread) - math.log(s.theta)
        floor = log_d - contour.NEGLIGIBLE
        extra = self.count.trials + 1 if self.count.is_random else 1
        return [exact.Grid(self.table, self.count.fixed + k, floor) for k in range(extra)]

    def _sum(self, s: contour.Saddle, grids: list[exact.Grid]) -> tuple[float, float]:
        """Enclosure by exact sums, averaged over the number of messages."""
        extra = np.arange(len(grids), dtype=float)
        log_weight = exact.log_binomial_pmf(extra, len(grids) - 1, self.count.probability if len(grids) > 1 else 0.0)
        parts = np.array([exact.enclose(self.table, grid, s.x, s.rounding) for grid in grids])
        low, high = special.logsumexp(parts + log_weight[:, None], axis=0)
        return s.log_scale + float(low), s.log_scale + float(high)

    def log_limit(self) -> float:
        """log of the limit of D as eps grows: Pr[no message that could also have come under the other input]."""
        lone = self.table.g1 == 0
        own = float(self.table.weight[lone] @ self.table.g0[lone])
        if own == 0:
            return -math.inf
        log_w = math.log(float(self.table.weight[lone].sum()))
        count = self.count
        # E[w^(m-1)] for m = fixed + Binomial.
        log_random = count.trials * math.log1p(count.probability * math.expm1(log_w)) if count.is_random else 0.0
        return math.log(own) + (count.fixed - 1) * log_w + log_random

    def epsilon(self, log_delta: float) -> tuple[float, float, str]:
        """(lower, upper, method) around the smallest eps >= 0 with D_eps <= delta."""
        low0, high0, method = self.log_enclosure(0.0, EPSILON_RTOL)
        if high0 <= log_delta:
            return 0.0, 0.0, method
        limit = self.log_limit()
        slack = 1e-13 * (1 + abs(limit)) if limit > -math.inf else 0.0
        if limit - slack >= log_delta:
            return math.inf, math.inf, "limit of large eps"
        ceiling = self.table.log_max_ratio * (1 + 4e-16)
        if limit + slack >= log_delta:
            return self._search(log_delta, ceiling, lower_only=True)[0], math.inf, "limit of large eps"
        if low0 <= log_delta:
            return 0.0, self._search(log_delta, ceiling)[1], method
        return self._search(log_delta, ceiling)

    def _search(self, log_delta: float, ceiling: float, lower_only: bool = False) -> tuple[float, float, str]:
        eps = self._root(log_delta, ceiling)
        slope = max(-self.log_estimate(eps)[1], 1e-300)
        rtol = min(0.1, max(EPSILON_RTOL * slope * eps, DELTA_RTOL))
        low, high, method = self.log_enclosure(eps, rtol)
        # The estimate lacks the lattice effect of few messages: step once more with the enclosure's own value.
        miss = 0.5 * (low + high) - log_delta
        if low > -math.inf and abs(miss) > 0.25 * max(rtol, high - low) and 0 < eps + miss / slope < ceiling:
            eps += miss / slope
            low, high, method = self.log_enclosure(eps, rtol)
        if lower_only:
            return self._walk(eps, log_delta, -1, slope, low, ceiling, rtol), math.inf, method
        upper = self._walk(eps, log_delta, +1, slope, high, ceiling, rtol)
        lower = self._walk(eps, log_delta, -1, slope, low, ceiling, rtol)
        return lower, upper, method

    def _walk(
        self, eps: float, log_delta: float, side: int, slope: float, log_value: float, ceiling: float, rtol: float
    ) -> float:
        """Move eps outwards until the enclosure itself shows that it is on the wanted side of the root."""
        step = EPSILON_RTOL / 8 * eps
        while side * (log_value - log_delta) > 0:
            needed = 1.01 * side * (log_value - log_delta) / slope if abs(log_value) < math.inf else 0.0
            step += max(step, needed)
            if side < 0 and step >= eps:
                return 0.0
            if side > 0 and eps + step >= ceiling:
                return math.nextafter(ceiling, math.inf)
            trial = eps + side * step
            enclosure = self.log_enclosure(trial, rtol)
            log_value = enclosure[1] if side > 0 else enclosure[0]
            if side * (log_value - log_delta) <= 0:
                return trial
        return eps

    def _root(self, log_delta: float, ceiling: float) -> float:
        """Newton's method on sqrt(-2 log D), which is nearly linear in eps, inside a shrinking bracket."""
        low, high = 0.0, ceiling
        # For small eps, log D is about -m eps^2 / (2 Var X).
        x, scale = self.table.excess(0.0, self.count.largest)
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
