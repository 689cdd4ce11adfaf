"""The divergence of a table as a finite sum, for few messages or few rows that matter.

Two rows (A, B) are summed in closed form; the counts c of the other rows run over a grid. Given c, with t = m - |c| messages
left, L = x_B t + x.c, gap = x_A - x_B and a ~ Bin(t, rho), rho = w_A/(w_A + w_B),

    E[max(0, gap a + L)] = gap t rho Pr[Bin(t-1, rho) >= k - 1] + L Pr[Bin(t, rho) >= k],    k = floor(-L/gap) + 1.

The grid leaves out counts whose probability cannot matter; their mass times the largest possible value is the slack.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from .table import Array, Table

# Relative accuracy of scipy's incomplete beta function, a + b m for binomials of size m, allowed for on each of the two parts of
# a term before they cancel. Measured against 60 digits: 6e-14 at m = 1e3, 8e-13 at 1e5, 2e-11 at 1e7, 2e-8 at 1e9, less beyond.
TAIL_ACCURACY = (2e-13, 5e-17)
# What the products of a whole grid can lose to underflow.
UNDERFLOW = 1e-290

_MACHINE = float(np.finfo(float).eps)


def log_binomial_pmf(k: Array, m: int, w: float) -> Array:
    """log Pr[Bin(m, w) = k]."""
    return -math.log(m + 1) - special.betaln(m - k + 1.0, k + 1.0) + special.xlogy(k, w) + special.xlog1py(m - k, -w)


def _upper_tail(k: Array, t: Array, rho: float) -> Array:
    """Pr[Bin(t, rho) >= k], elementwise; 1 for k <= 0, 0 for k > t."""
    inside = (k >= 1) & (k <= t)
    safe_k, safe_t = np.where(inside, k, 1), np.where(inside, t, 1)
    return np.where(inside, special.betainc(safe_k, safe_t - safe_k + 1.0, rho), np.where(k <= 0, 1.0, 0.0))


class Grid:
    """Which counts of which rows have to be enumerated if probabilities below e^log_floor may be left out."""

    def __init__(self, table: Table, m: int, log_floor: float) -> None:
        self.m = m
        self.ranges = [_range(m, min(float(w), 1.0), log_floor) for w in table.weight]
        widths = np.array([high - low + 1 for low, high in self.ranges])
        # The two rows with the most possible counts are the ones that are summed in closed form.
        order = np.argsort(widths, kind="stable")
        self.enumerated = [int(i) for i in order[:-2]]
        self.inner = [int(i) for i in order[-2:]]
        self.complete = all(self.ranges[i] == (0, m) for i in self.enumerated)
        self.size = math.prod(int(widths[i]) for i in self.enumerated)


def _range(m: int, w: float, log_floor: float) -> tuple[int, int]:
    """Counts outside of which Pr[Bin(m, w)] falls below e^log_floor; all counts when m is small.

    Chernoff-Bernstein: Pr[|count - m w| >= v] <= exp(-v^2 / (2 m w (1-w) + 2 v / 3)), on both sides.
    """
    if m <= 16:
        return 0, m
    need = max(-log_floor, 1.0)
    reach = need / 3 + math.sqrt(need * need / 9 + 2 * need * m * w * (1 - w))
    return max(0, math.floor(m * w - reach)), min(m, math.ceil(m * w + reach))


def enclose(table: Table, grid: Grid, x: Array, doubt: Array, rounding: float) -> tuple[float, float]:
    """Enclosure of log D in one direction for `grid.m` messages, by the sum over the grid.

    `x` is X per row, largest value 1, and the result is in that unit; `doubt` is the uncertainty of each X and `rounding` a
    relative allowance (see `contour.Saddle`).

    Notes
    -----
    Cost: `grid.size` evaluations of two incomplete beta functions.
    """
    m = grid.m
    a, b = sorted(grid.inner, key=lambda row: -x[row])
    axes = [np.arange(grid.ranges[i][0], grid.ranges[i][1] + 1, dtype=float) for i in grid.enumerated]
    sums, log_scale = np.zeros(3), -math.inf
    rest = axes[1:]
    mesh = [g.ravel() for g in np.meshgrid(*rest, indexing="ij")] if rest else [np.zeros(1)]
    outer = axes[0] if axes else np.zeros(1)
    block = max(1, 2**17 // mesh[0].size)
    for start in range(0, outer.size, block):
        head = outer[start : start + block]
        counts = []
        if axes:
            counts.append(np.repeat(head, mesh[0].size))
            counts.extend(np.tile(g, head.size) for g in (mesh if rest else []))
        log_weight, values = _terms(table, x, doubt, m, grid.enumerated, counts, a, b)
        with np.errstate(divide="ignore"):
            logs = log_weight + np.log(values)
        top = float(logs.max(initial=-math.inf))
        if top == -math.inf:
            continue
        if top > log_scale:
            sums, log_scale = sums * (math.exp(log_scale - top) if log_scale > -math.inf else 0.0), top
        sums += np.exp(logs - log_scale).sum(axis=1)
    total, cancelled, doubtful = (float(v) for v in sums)
    omitted = _omitted(table, m, grid)
    # Logs of the weights: at most log(m + 1) for each message that is not in the largest row, and t log(w_a + w_b).
    used = float(sum(min(grid.ranges[i][1], m - grid.ranges[i][0]) for i in grid.enumerated))
    left = m - float(sum(grid.ranges[i][0] for i in grid.enumerated))
    exponent = left * abs(_log_both(table, a, b, grid.enumerated))
    rounding += 8 * _MACHINE * (1 + (used + 1) * math.log(m + 1) + exponent)
    if total <= 0:
        return -math.inf, math.log(omitted + UNDERFLOW)
    rounding += ((TAIL_ACCURACY[0] + TAIL_ACCURACY[1] * m) * cancelled + doubtful) / total
    value = log_scale + math.log(total)
    if omitted > 0:
        upper = value + math.log1p(rounding + math.exp(min(700.0, math.log(omitted) - value)))
    else:
        upper = value + math.log1p(rounding)
    return value - math.log1p(rounding), upper


def _log_weight(table: Table, row: int) -> float:
    """log of a weight, from the other weights where it is near 1."""
    w = float(table.weight[row])
    return math.log(w) if w < 0.5 else math.log1p(-float(np.delete(table.weight, row).sum()))


def _log_both(table: Table, a: int, b: int, rows: list[int]) -> float:
    """log(w_a + w_b), from whichever of w_a + w_b and 1 - (the others) is small and therefore accurate."""
    both = float(table.weight[a] + table.weight[b])
    return math.log(both) if both < 0.5 else math.log1p(-float(sum(table.weight[row] for row in rows)))


def _terms(
    table: Table, x: Array, doubt: Array, m: int, rows: list[int], counts: list[Array], a: int, b: int
) -> tuple[Array, Array]:
    """Log-probability of each vector of counts, and three means given it, over m.

    The means are of max(0, S), of the size of the two parts that this is the difference of, and of the summed doubts where S is
    positive or might be, up to them.
    """
    used = np.sum(counts, axis=0) if counts else np.zeros(1)
    keep = used <= m
    counts, used = [c[keep] for c in counts], used[keep]
    t = m - used
    w_a, w_b = float(table.weight[a]), float(table.weight[b])
    # m!/(t! used!) = 1/((m + 1) B(t + 1, used + 1)), without the cancellation of log-gammas.
    log_weight = -math.log(m + 1) - special.betaln(t + 1.0, used + 1.0) + special.gammaln(used + 1.0)
    log_weight = log_weight + t * _log_both(table, a, b, rows)
    level, sure, doubts = x[b] * t, x[a] * t, doubt[b] * t
    for row, c in zip(rows, counts, strict=True):
        log_weight = log_weight - special.gammaln(c + 1.0) + c * _log_weight(table, row)
        level, sure, doubts = level + x[row] * c, sure + x[row] * c, doubts + doubt[row] * c
    rho, gap = w_a / (w_a + w_b), float(x[a] - x[b])
    if gap <= 0:
        value = np.maximum(level, 0.0)
        return log_weight, np.array([value, value, np.where(level > -doubts, doubts + doubt[a] * t, 0.0)]) / m
    threshold = np.clip(-level / gap, -1.0, m + 1.0)
    k = np.floor(threshold) + 1
    one_less, tail = _upper_tail(k - 1, t - 1, rho), _upper_tail(k, t, rho)
    gain, loss = gap * t * rho * one_less, level * tail
    # a = t alone: the two parts would cancel where one B outweighs everything else.
    alone = np.maximum(sure, 0.0) * np.exp(t * (math.log(w_a) - math.log(w_a + w_b)))
    value = np.where(k == t, alone, np.maximum(gain + loss, 0.0))
    size = np.where(k == t, alone, gain + np.abs(loss))
    # Where a = k - 1 misses S > 0 by less than the doubt, it counts as well; Pr[a >= k - 1] is not worth a closer look then.
    tied = (threshold - (k - 1)) * gap <= doubts + (doubt[a] - doubt[b]) * np.maximum(k - 1, 0.0)
    tail = np.where(tied, _upper_tail(np.where(tied, k - 1, 0), t, rho), tail)
    doubts = doubts * tail + max(0.0, float(doubt[a] - doubt[b])) * t * np.where(tied, tail, rho * one_less)
    return log_weight, np.array([value, size, doubts]) / m


def _omitted(table: Table, m: int, grid: Grid) -> float:
    """Bound on what the counts outside the grid contribute: E[sum of positive X; some count outside] / m, X <= 1."""
    total = 0.0
    for row in grid.enumerated:
        low, high = grid.ranges[row]
        w = float(table.weight[row])
        outside = 0.0
        if low > 0:
            outside += float(special.betainc(m - low + 1.0, float(low), 1 - w))
        if high < m:
            outside += float(special.betainc(high + 1.0, float(m - high), w))
        total += outside
    return total
