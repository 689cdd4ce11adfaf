"""One function of (table, number of messages, eps), and its inverse in eps: the engine behind every bound."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from . import contour, exact
from .table import MessageCount, Table, thin

# Relative slack of a divergence that the contour integral is asked for. In eps this is smaller by |d log D / d log eps|.
RTOL = 1e-9
# Exact sums are used up to this many terms at once; above it only when the contour integral misses RTOL, up to the second.
EXACT_TERMS = 20_000
EXACT_TERMS_MAX = 2_000_000
# Nodes that the contour integral may use beyond the central window.
CONTOUR_NODES = 400_000
# Random numbers of messages are enumerated up to this many possibilities.
RANDOM_COUNTS_MAX = 64
# Relative width at which the search for eps stops.
EPS_RTOL = 1e-12


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

    def log_enclosure(self, eps: float) -> tuple[float, float, str]:
        """(log_lower, log_upper, method) with log_lower <= log D_eps <= log_upper; -inf for a zero."""
        cheap = self._exact(eps, EXACT_TERMS)
        if cheap is not None:
            return *cheap, "exact sum"
        low, high = contour.enclose(self.table, self.count, eps, rtol=RTOL, max_nodes=CONTOUR_NODES)
        # RTOL cannot be asked below the rounding allowance, which the exact sum has as well.
        s = contour.saddle(self.table, self.count, eps)
        if s is not None and high - low > 4 * (RTOL + s.rounding):
            dear = self._exact(eps, EXACT_TERMS_MAX)
            if dear is not None and dear[1] - dear[0] < high - low:
                return *dear, "exact sum"
        return low, high, "contour integral"

    def log_estimate(self, eps: float) -> tuple[float, float]:
        """(log D, d log D / d eps), cheap and without a guarantee: what the root search steps with."""
        s = contour.saddle(self.table, self.count, eps)
        if s is None:
            return -math.inf, 0.0
        cheap = self._exact(eps, EXACT_TERMS)
        low, high = cheap or contour.enclose(self.table, self.count, eps, rtol=1.0, max_nodes=0)
        return (0.5 * (low + high) if low > -math.inf else high), s.slope

    def _exact(self, eps: float, terms: int) -> tuple[float, float] | None:
        """Enclosure by the exact sum if it needs at most that many terms."""
        s = contour.saddle(self.table, self.count, eps)
        if s is None:
            return -math.inf, -math.inf
        # The leading-order saddle point value is within a factor of a few of D: enough to decide what is negligible.
        m = self.count.mean
        log_d = s.log_total - math.log(1 + s.theta * s.spread) - math.log(s.theta)
        floor = log_d - contour.NEGLIGIBLE - math.log(max(float(s.x.max()), 1e-300))
        if not self.count.is_random:
            if m > 2**53:
                return None
            grid = exact.Grid(self.table, self.count.fixed, floor)
            return exact.enclose(self.table, self.count.fixed, eps, grid, s.rounding) if grid.size <= terms else None
        if self.count.trials >= RANDOM_COUNTS_MAX:
            return None
        parts: list[tuple[float, float]] = []
        for extra in range(self.count.trials + 1):
            total = self.count.fixed + extra
            grid = exact.Grid(self.table, total, floor)
            if grid.size * (self.count.trials + 1) > terms:
                return None
            weight = float(exact.log_binomial_pmf(np.array(float(extra)), self.count.trials, self.count.probability))
            low, high = exact.enclose(self.table, total, eps, grid, s.rounding)
            parts.append((low + weight, high + weight))
        lows, highs = np.array(parts).T
        return float(special.logsumexp(lows)), float(special.logsumexp(highs))

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
        low0, high0, method = self.log_enclosure(0.0)
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
        low, high, method = self.log_enclosure(eps)
        slope = max(-self.log_estimate(eps)[1], 1e-300)
        if lower_only:
            return self._walk(eps, log_delta, -1, slope, low, ceiling), math.inf, method
        upper = self._walk(eps, log_delta, +1, slope, high, ceiling)
        lower = self._walk(eps, log_delta, -1, slope, low, ceiling)
        return lower, upper, method

    def _walk(self, eps: float, log_delta: float, side: int, slope: float, log_value: float, ceiling: float) -> float:
        """Move eps outwards until the enclosure itself shows that it is on the wanted side of the root."""
        step = EPS_RTOL * eps + 1e-300
        while side * (log_value - log_delta) > 0:
            step = max(2 * step, 1.01 * side * (log_value - log_delta) / slope if log_value > -math.inf else 0.0)
            if side < 0 and step >= eps:
                return 0.0
            if side > 0 and eps + step >= ceiling:
                return math.nextafter(ceiling, math.inf)
            trial = eps + side * step
            enclosure = self.log_enclosure(trial)
            log_value = enclosure[1] if side > 0 else enclosure[0]
            if side * (log_value - log_delta) <= 0:
                return trial
        return eps

    def _root(self, log_delta: float, ceiling: float) -> float:
        """Newton's method on sqrt(-2 log D), which is nearly linear in eps, inside a shrinking bracket."""
        low, high = 0.0, ceiling
        x = self.table.excess(0.0)
        guess = math.sqrt(2 * max(-log_delta, 0.1) * float(self.table.weight @ np.minimum(x * x, 1e300)) / self.count.mean)
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
            if abs(trial - eps) <= EPS_RTOL * trial or high - low <= EPS_RTOL * high:
                return trial
            eps = trial
        return eps
