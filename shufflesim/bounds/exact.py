"""The divergence of a table as a finite sum, for few messages or few rows that matter.

Two rows (A, B) are summed in closed form (or none: A = B, gap = 0); the counts c of the other rows run over a grid. Given c,
with t = m - |c| messages left, L = x_B t + x.c, gap = x_A - x_B and a ~ Bin(t, rho), rho = w_A/(w_A + w_B),

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
# Above this many messages, rare rows are enumerated as long as that takes no more terms than this.
MANY_MESSAGES, DIRECT_TERMS = 20_000, 20_000
# The same for any number of messages, where a row is so rare that tails and products with its weight are next to underflow.
LEAST_WEIGHT = 1e-250
# Half-width of a range of counts up to which it is worth narrowing it.
CHERNOFF_SPAN = 20_000
# Accuracy of the exponents in Chernoff's bound there (cancellation in counts of up to 2^63 messages).
RANGE_ACCURACY = 1.0
# What the products of a whole grid can lose to underflow.
UNDERFLOW = 1e-290
# log of what the incomplete beta function, and products with it, lose where they are denormal or zero.
LOG_TAIL_UNDERFLOW = math.log(1e-305)

_MACHINE = float(np.finfo(float).eps)
# Below the first, a mean is divided by in two steps; the second is the smallest positive double.
LEAST_MEAN, SMALLEST = 1e-290, 5e-324


def _stirling_error(k: Array) -> Array:
    """log k! minus Stirling's approximation, for integers k >= 1."""
    big = np.maximum(k, 16.0)
    inverse = 1 / (big * big)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / big
    small = np.minimum(k, 16.0)
    direct = special.gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * math.log(2 * math.pi)
    return np.where(k < 16, direct, series)


def _deviance(k: Array, mean: Array) -> Array:
    """k log(k/mean) + mean - k for k >= 1, mean > 0, without cancellation where the two are close."""
    gap = k - mean
    v = gap / (k + mean)
    near = np.abs(v) < 0.1
    safe = np.where(near, v, 0.0)
    square = safe * safe
    # k log((1+v)/(1-v)) = 2 k (v + v^3/3 + v^5/5 + ...), of which the first term and mean - k leave gap v.
    tail = np.full_like(square, 1 / 17)
    for j in range(7, 0, -1):
        tail = tail * square + 1 / (2 * j + 1)
    tail *= square
    close = gap * safe + 2 * k * safe * tail
    # k/mean may overflow where the mean is next to the smallest double.
    floor = np.maximum(mean, LEAST_MEAN)
    return np.where(near, close, k * (np.log(k / floor) + np.log(floor / np.maximum(mean, SMALLEST))) - gap)


def log_binomial_pmf(k: Array, m: Array | float, p: float, q: float) -> Array:
    """log Pr[Bin(m, p) = k], q = 1 - p given with its own accuracy; k and m integers, elementwise.

    Catherine Loader's form (2000): Stirling errors and deviances, each free of cancellation; relative accuracy of the probability
    is a few units in the last place of log Pr and of the distance from the mean, for any m.
    """
    k, m = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(m, dtype=float))
    if p <= 0 or q <= 0:
        with np.errstate(divide="ignore"):
            return np.log(np.where(k == (0.0 if p <= 0 else m), 1.0, 0.0))
    log_p = math.log(p) if p < 0.5 else math.log1p(-q)
    log_q = math.log(q) if q < 0.5 else math.log1p(-p)
    inside = (k > 0) & (k < m)
    i, n = np.where(inside, k, 1.0), np.where(inside, m, 2.0)
    j = n - i
    errors = _stirling_error(n) - _stirling_error(i) - _stirling_error(j)
    middle = errors - _deviance(i, n * p) - _deviance(j, n * q) + 0.5 * (np.log(n / i) - np.log(j) - math.log(2 * math.pi))
    return np.where(inside, middle, np.where(k == 0, m * log_q, m * log_p))


def _upper_tail(k: Array, t: Array, rho: float, rest: float) -> Array:
    """Pr[Bin(t, rho) >= k], elementwise, rest = 1 - rho; 1 for k <= 0, 0 for k > t."""
    inside = (k >= 1) & (k <= t)
    safe_k, safe_t = np.where(inside, k, 1), np.where(inside, t, 1)
    if rho < 0.5:
        tail = special.betainc(safe_k, safe_t - safe_k + 1.0, rho)
    else:
        tail = special.betaincc(safe_t - safe_k + 1.0, safe_k, rest)
    return np.where(inside, tail, np.where(k <= 0, 1.0, 0.0))


class Grid:
    """Which counts of which rows have to be enumerated if probabilities below e^log_floor may be left out."""

    def __init__(self, table: Table, m: int, log_floor: float) -> None:
        self.m, self.log_floor = m, log_floor
        self.ranges = [likely_range(m, min(float(w), 1.0), log_floor) for w in table.weight]
        widths = np.array([high - low + 1 for low, high in self.ranges])
        # The two rows with the most possible counts are the ones that are summed in closed form; one, where that is cheap and
        # the incomplete beta function would lose digits.
        order = np.argsort(widths, kind="stable")
        # The heaviest row always stays: how far its weight is from 1, a double may not know.
        heaviest = int(np.argmax(table.weight))
        order = np.append(order[order != heaviest], heaviest)
        inner = 2
        hard = m > MANY_MESSAGES or float(table.weight.min()) < LEAST_WEIGHT
        if hard and math.prod(widths[order[:-1]].tolist()) <= DIRECT_TERMS:
            inner = 1  # all rows but one are rare, or few messages: all in logarithms
        self.enumerated = [int(i) for i in order[:-inner]]
        self.inner = [int(i) for i in order[-inner:]]
        self.complete = all(self.ranges[i] == (0, m) for i in self.enumerated)
        self.size = math.prod(int(widths[i]) for i in self.enumerated)


def likely_range(m: int, w: float, log_floor: float) -> tuple[int, int]:
    """Counts outside of which Pr[Bin(m, w)] falls below e^log_floor; all counts when m is small.

    Chernoff: Pr[count beyond c] <= exp(-m KL(c/m, w)) on either side of the mean; Bernstein's weaker form limits the search:
    Pr[|count - m w| >= v] <= exp(-v^2 / (2 m w (1-w) + 2 v / 3)).
    """
    if m <= 16:
        return 0, m
    need = max(-log_floor, 1.0)
    reach = need / 3 + math.sqrt(need * need / 9 + 2 * need * m * w * (1 - w))
    low, high = max(0, math.floor(m * w - reach)), min(m, math.ceil(m * w + reach))
    if reach > CHERNOFF_SPAN:
        return low, high
    # -1 and m + 1 are as unlikely as can be; the mean's neighbours are not unlikely at all.
    inside, outside = math.floor(m * w), low - 1
    while inside - outside > 1:
        middle = (inside + outside) // 2
        inside, outside = (inside, middle) if _divergence(middle, m, w) >= need else (middle, outside)
    low = outside + 1
    inside, outside = math.ceil(m * w), high + 1
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (inside, middle) if _divergence(middle, m, w) >= need else (middle, outside)
    return low, outside - 1


def _divergence(k: int, m: int, w: float) -> float:
    """m KL(k/m, w), to RANGE_ACCURACY for the ranges that are searched: all but one part is small there."""
    if w > 0.5:
        k, w = m - k, 1 - w
    if m * w == 0:
        return math.inf if k > 0 else 0.0
    first = k * (math.log(k / m) - math.log(w)) if k > 0 else 0.0
    return first - (m - k) * math.log1p((k - m * w) / (m - k)) if k < m else first


def enclose(table: Table, grid: Grid, x: Array, doubt: Array, rounding: float) -> tuple[float, float]:
    """Enclosure of log D in one direction for `grid.m` messages, by the sum over the grid.

    `x` is X per row, largest value 1, and the result is in that unit; `doubt` is the uncertainty of each X and `rounding` a
    relative allowance (see `contour.Saddle`).

    Notes
    -----
    Cost: `grid.size` evaluations of two incomplete beta functions.
    """
    m = grid.m
    inner = sorted(grid.inner, key=lambda row: -x[row])
    a, b = inner[0], inner[-1]
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
    log_omitted = _log_omitted(grid)
    # Of each weight, its logarithm and the distances of its counts from their means (what a last digit of a row shifts).
    distance = 0.0
    for row in grid.enumerated:
        mean = m * float(table.weight[row])
        distance += max(grid.ranges[row][1] - mean, mean - grid.ranges[row][0])
    rounding += 16 * _MACHINE * (10 + distance - min(0.0, grid.log_floor))
    if total <= 0:
        # All parts may have cancelled: what they can be wrong by is left.
        lost = (rounding + TAIL_ACCURACY[0] + TAIL_ACCURACY[1] * m) * cancelled + doubtful
        wrong = log_scale + math.log(lost) if lost > 0 else -math.inf
        return -math.inf, float(np.logaddexp(np.logaddexp(log_omitted, math.log(UNDERFLOW)), wrong))
    rounding += ((TAIL_ACCURACY[0] + TAIL_ACCURACY[1] * m) * cancelled + doubtful) / total
    value = log_scale + math.log(total)
    # Weights sum to at most 1 and means to at most 1: so much is wrong where tails of two rows underflow.
    lost = LOG_TAIL_UNDERFLOW if a != b else -math.inf
    log_omitted = float(np.logaddexp(log_omitted, lost))
    upper = value + math.log1p(rounding + math.exp(min(700.0, log_omitted - value)))
    if lost >= value or rounding >= 1:
        return -math.inf, upper
    return value + math.log1p(-math.exp(lost - value)) + math.log1p(-rounding), upper


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
    w_a, w_b = float(table.weight[a]), float(table.weight[b]) if b != a else 0.0
    # A multinomial as a chain of binomials: each row against all that come after it, whose sum is accurate.
    left, after = np.full_like(t, float(m)), [w_a + w_b]
    for row in reversed(rows):
        after.append(after[-1] + float(table.weight[row]))
    log_weight = np.zeros_like(t)
    level, sure, doubts = x[b] * t, x[a] * t, np.zeros_like(t)
    for row, c, rest in zip(rows, counts, reversed(after[:-1]), strict=True):
        w = float(table.weight[row])
        log_weight = log_weight + log_binomial_pmf(c, left, w / (w + rest), rest / (w + rest))
        left = left - c
        level, sure, doubts = level + x[row] * c, sure + x[row] * c, doubts + doubt[row] * c
    rho, other, gap = w_a / (w_a + w_b), w_b / (w_a + w_b), float(x[a] - x[b])
    if gap <= 0:
        value = np.maximum(level, 0.0)
        return log_weight, np.array([value, value, np.where(level > -doubts - doubt[b] * t, doubts + doubt[b] * t, 0.0)]) / m
    with np.errstate(over="ignore"):
        threshold = np.clip(-level / gap, -1.0, m + 1.0)
    k = np.floor(threshold) + 1
    # Next to a large negative X the smallest positive one vanishes in the threshold; a = t alone has neither in its sum.
    k = np.where((k > t) & (sure > 0), t, k)
    one_less, tail = _upper_tail(k - 1, t - 1, rho, other), _upper_tail(k, t, rho, other)
    gain, loss = gap * t * rho * one_less, level * tail
    # a = t alone: the two parts would cancel where one B outweighs everything else.
    log_share = math.log1p(w_b / w_a) if w_b / w_a < math.inf else math.log(w_b) - math.log(w_a)
    alone = np.maximum(sure, 0.0) * np.exp(-t * log_share)
    value = np.where(k == t, alone, np.maximum(gain + loss, 0.0))
    size = np.where(k == t, alone, gain + np.abs(loss))
    # Where a = k - 1 misses S > 0 by less than the doubt, it counts as well; Pr[a >= k - 1] is not worth a closer look then.
    first = np.clip(k - 1, 0.0, t)
    tied = (threshold - (k - 1)) * gap <= doubts + doubt[a] * first + doubt[b] * (t - first)
    tail = np.where(tied, _upper_tail(np.where(tied, k - 1, 0), t, rho, other), tail)
    most_b = np.minimum((t - np.where(tied, first, np.clip(k, 0.0, t))) * tail, t * other)
    doubts = doubts * tail + doubt[a] * t * np.where(tied, np.minimum(tail, rho), rho * one_less) + doubt[b] * most_b
    return log_weight, np.array([value, size, doubts]) / m


def _log_omitted(grid: Grid) -> float:
    """log of a bound on what the counts outside the grid contribute: E[sum of positive X; some count outside] / m, X <= 1."""
    sides = sum((grid.ranges[row][0] > 0) + (grid.ranges[row][1] < grid.m) for row in grid.enumerated)
    return math.log(sides) + min(grid.log_floor, -1.0) + RANGE_ACCURACY if sides else -math.inf
