r"""Two independent binomial counts, one of them raised by 1: how well can one tell which?

With Z, Z' ~ Bin(n, c), P the law of (Z + 1, Z') and Q that of (Z, Z' + 1). The ratio of Z + 1 to Z at a count u is

    l(u) = Pr[Z = u - 1] / Pr[Z = u] = ((1 - c)/c) u/(n + 1 - u),

which rises with u, and with p the law of Z,

    D_eps = sum_{a, b} p(a) p(b) max(0, l(a) - e^eps l(b)),    where l(n + 1) = inf: one more term, Pr[Z = n].

For each a the sum runs over b <= v(a), and Abel's summation leaves nothing to cancel, with F the distribution function of Z:

    sum_{b <= v} p(b) (l(a) - e^eps l(b)) = F(v) (l(a) - e^eps l(v)) + e^eps sum_{b < v} F(b) (l(b+1) - l(b)).

v(a) does not depend on c. Swapping the two counts shows that both directions agree; counting n + 1 - u instead of u, that c and
1 - c do: c <= 1/2 below. No table of `Pairs` gives this, since the ratio is a product over two counts.

Counts are summed one by one in a window of some deviations. A wider window is cut into cells of w counts. The terms are convex
in l(a) and in l(b), so that each cell may be replaced by its mean for a lower bound, and by its two edges with the same mean for
an upper one; errors are of the order of (w/deviation)^2. In a cell from k on, p is log-concave with second differences above

    -kappa = -1/(k + 1) - 1/(n - k - w),    hence    chord <= log p <= chord + kappa w^2/8,

and its mean is that of a truncated geometric law with a ratio between those at the two ends, log ratio g: between the middle and
the middle plus g (w^2 - 1)/12, since the variance of such a law is largest for g = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import search
from .bracket import exp_down, exp_up
from .claim import Ends
from .count import Array
from .pairs import LIMIT_RTOL, SUM_ROUNDING

# Counts, or cells of counts, of a window: at first, and where that does not give the accuracy that is asked for at most.
CELLS, CELLS_MAX = 2**13, 2**19
# Slack asked of D_0, one after the other, until it is on one side of delta.
ZERO_SLACKS = (1e-2, 1e-5, 1e-9)
# log of the probability outside of a window on either side: the first one that makes it negligible is used.
LOG_FLOORS = (-64.0, -128.0, -256.0, -512.0, -1024.0)
# What is outside should be this much smaller than D, in logarithms (e^-42 = 6e-19).
NEGLIGIBLE = 42.0
# Range of log p that is summed up in one unit: neither a sum nor its product with a difference of ratios underflows.
SPAN = 400.0
# Units in the last place of l(a) that l(a) - e^eps l(b) is known to, and within which its sign may be wrong: ratios of three or
# four roundings, an exponential, a product and a difference.
EXCESS_ULPS = 16.0
# The same of the log ratio of two neighbouring probabilities, which is near 0.
RATIO_ULPS = 8.0
# The same of log p, per unit of log p and of the distance from the mean (see `exact.log_binomial_pmf`).
PMF_ULPS = 16.0

_MACHINE = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Swapped:
    """The divergence between (Z + 1, Z') and (Z, Z' + 1) for independent Z, Z' ~ Bin(trials, probability).

    Parameters
    ----------
    trials : int
        Coins of each count; >= 1.
    probability : float
        Of each coin; in (0, 1).

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Does not grow with `trials`: further coins are noise that is added to either count.
    Cost: a few passes over at most `CELLS_MAX` numbers, 8,000 as a rule, for each eps, whatever the number of coins.

    Examples
    --------
    >>> low, high, _ = Swapped(3, 0.7).delta(0.5, 1e-9)
    >>> f"{low:.9f} {high:.9f}"
    '0.532508214 0.532508214'
    """

    trials: int
    probability: float

    def __post_init__(self) -> None:
        if self.trials < 1 or not 0 < self.probability < 1:
            raise ValueError(f"trials must be >= 1 and probability in (0, 1), got {self!r}")

    @property
    def rarer(self) -> tuple[float, float]:
        """(p, 1 - p) for the side p <= 1/2; what is subtracted from 1 is accurate."""
        c = self.probability
        return (1 - c, c) if c > 0.5 else (c, 1 - c)

    @property
    def ceiling(self) -> float:
        """All finite ratios are at most n^2: D does not change beyond this eps."""
        return 2 * math.log(self.trials) * (1 + 4 * _MACHINE)

    @cached_property
    def _windows(self) -> dict[tuple[float, int], _Window]:
        return {}

    def delta(self, eps: float, rtol: float) -> Ends:
        """Ends of delta at any real eps."""
        if eps >= 0:
            low, high, method = self.log_enclosure(eps, rtol)
            return min(1.0, exp_down(low)), min(1.0, exp_up(high)), method
        # D_eps(P||Q) = 1 - e^eps + e^eps D_-eps(Q||P), and both directions agree.
        low, high, method = self.log_enclosure(-eps, rtol)
        gap, factor = -math.expm1(eps), math.exp(eps)
        return (
            max(0.0, (gap + factor * exp_down(low)) * (1 - SUM_ROUNDING)),
            min(1.0, (gap + factor * exp_up(high)) * (1 + SUM_ROUNDING)),
            method,
        )

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """Ends of the smallest eps >= 0 at which delta is reached; inf below the limit of large eps."""
        log_delta = math.log(delta)
        keep = search.margin(log_delta)
        for slack in ZERO_SLACKS:
            low0, high0, method = self.log_enclosure(0.0, slack)
            if high0 <= log_delta - keep:
                return 0.0, 0.0, method
            if low0 > log_delta:
                break
        limit_low, limit_high = self._log_limits()
        if limit_low >= log_delta + keep:
            return math.inf, math.inf, "limit of large eps"
        p, q = self.rarer
        # The log ratio is nearly normal with variance 2/(npq).
        precision = 0.5 * self.trials * p * q
        start = min(math.sqrt(2 * max(-log_delta, 0.1) / max(precision, 1e-300)), 0.5 * self.ceiling)
        if start == 0:
            return 0.0, math.inf, "limit of large eps"
        lower, upper, method = search.bracket(
            self.log_enclosure, log_delta, start, max(start * precision, 0.1), self.ceiling, rtol
        )
        return (lower, upper, method) if limit_high <= log_delta - keep else (lower, math.inf, "limit of large eps")

    def limits(self) -> tuple[float, float]:
        """Enclosure of Pr[one of the two counts could not have come under Q]."""
        low, high = self._log_limits()
        return min(1.0, exp_down(low)), min(1.0, exp_up(high))

    def remark(self, delta: float) -> str:
        """Nothing: the value is exact."""
        return ""

    def log_enclosure(self, eps: float, rtol: float) -> Ends:
        """(log_lower, log_upper, method) of D at eps >= 0; -inf for a zero."""
        if eps >= self.ceiling:
            return *self._log_limits(), "limit of large eps"
        low, high, cells = -math.inf, 0.0, CELLS
        while True:
            window, ends = self._enclosed(eps, cells)
            low, high = max(low, ends[0]), min(high, ends[1])
            width = min(1.0, high - low)
            if window.step == 1 or cells >= CELLS_MAX or width <= max(rtol, 4 * window.rounding):
                break
            # The width falls with the square of the number of cells.
            cells = min(CELLS_MAX, cells * 2 ** math.ceil(0.5 * math.log2(2 * width / rtol)))
        return low, high, "exact sum" if window.step == 1 else f"sum over cells of {window.step} counts"

    def _enclosed(self, eps: float, cells: int) -> tuple[_Window, tuple[float, float]]:
        """The first window outside of which nothing matters, and what it gives."""
        p, q = self.rarer
        guess = -0.25 * eps * eps * self.trials * p * q
        for floor in LOG_FLOORS:
            if floor > max(guess - NEGLIGIBLE, LOG_FLOORS[-1]):
                continue
            if (floor, cells) not in self._windows:
                self._windows[floor, cells] = _Window.of(self.trials, p, q, floor, cells)
            window = self._windows[floor, cells]
            ends = window.enclose(eps)
            if window.log_omitted <= ends[0] - NEGLIGIBLE:
                break
        return window, ends

    def _log_limits(self) -> tuple[float, float]:
        """log(p^n + q^n - (pq)^n)."""
        p, q = self.rarer
        log_q = math.log(q) if q < 0.75 else math.log1p(-p)
        first, second = self.trials * math.log(p), self.trials * log_q
        value = second + math.log1p(math.exp(first - second) * -math.expm1(second)) if second > -math.inf else -math.inf
        error = LIMIT_RTOL * (1 + abs(value))
        return value - error, value + error


@dataclass(frozen=True, eq=False)
class _Side:
    """One end of the sum: log-probabilities and ratios of a, and for b those ratios and sums up to them.

    The sums are F, F one further on, and G (of F times the steps of the ratio), in units of e^unit. Ratios are without the factor
    (1-c)/c.
    """

    mass: Array
    of_a: Array
    of_b: Array
    unit: Array
    distribution: Array
    following: Array
    stepped: Array

    @classmethod
    def of(cls, mass_a: Array, of_a: Array, mass_b: Array, of_b: Array, rises: Array) -> _Side:
        """With the sums taken; `rises` are the differences of `of_b`."""
        unit, f, g = np.empty_like(mass_b), np.empty_like(mass_b), np.empty_like(mass_b)
        highest = np.maximum.accumulate(mass_b)
        level = np.floor((highest[-1] - highest) / SPAN)
        starts = np.append(0, np.flatnonzero(np.diff(level)) + 1)
        last_f = last_g = last_unit = 0.0
        for start, end in zip(starts, np.append(starts[1:], mass_b.size), strict=True):
            here = highest[end - 1]
            carried = math.exp(last_unit - here) if start else 0.0
            unit[start:end] = here
            f[start:end] = last_f * carried + np.cumsum(np.exp(mass_b[start:end] - here))
            g[start] = (last_g + last_f * rises[start - 1]) * carried if start else 0.0
            g[start + 1 : end] = g[start] + np.cumsum(f[start : end - 1] * rises[start : end - 1])
            last_f, last_g, last_unit = f[end - 1], g[end - 1], here
        following = f + np.append(np.exp(mass_b[1:] - unit[:-1]), 0.0)
        return cls(mass_a, of_a, of_b, unit, f, following, g)

    def log_sum(self, eps: float, last: float) -> tuple[float, float]:
        """log of the sum, without and with what rounding of the ratios may add; `last` is the log-probability of a = n + 1."""
        e = math.exp(eps)
        b = np.searchsorted(self.of_b, self.of_a * math.exp(-eps)) - 1
        start = int(np.argmax(b >= 0))
        last += self.unit[-1] + math.log(self.distribution[-1])
        if b[start] < 0:
            return last, last
        b, of_a = b[start:], self.of_a[start:]
        weight = self.mass[start:] + self.unit[b]
        log_unit = float(weight.max())
        weight = np.exp(weight - log_unit)
        excess = np.maximum(of_a - e * self.of_b[b], 0.0)
        value = float((weight * (self.distribution[b] * excess + e * self.stepped[b])).sum())
        # Where the sign is wrong, one b more or less is in the sum whose excess is within its error.
        doubt = EXCESS_ULPS * _MACHINE * float((weight * of_a * self.following[b]).sum())
        low, high = (math.log(v) + log_unit if v > 0 else -math.inf for v in (value - doubt, value + doubt))
        return float(np.logaddexp(low, last)), float(np.logaddexp(high, last))


@dataclass(frozen=True, eq=False)
class _Window:
    """The sum over counts near the mean of Bin(n, p), p <= 1/2, and what is outside."""

    step: int
    lower: _Side
    upper: _Side
    log_omitted: float
    rounding: float
    # log of (1-c)/c, and of the probability of the term a = n + 1 over this, if it is in the window.
    log_factor: float
    log_last: float

    @classmethod
    def of(cls, n: int, p: float, q: float, floor: float, cells: int) -> _Window:
        """All counts whose probability is not below e^floor, on either side."""
        # Imported on first use: SciPy's special functions take longer to load than all the rest.
        from .exact import RANGE_ACCURACY, likely_range, log_binomial_pmf

        first, last = likely_range(n, p, floor)
        # One more on either side: Z + 1 is outside only if Z is outside of the range.
        first, last = max(0, first - 1), min(n, last + 1)
        step = -(-(last - first + 1) // cells)
        edges = first + step * np.arange(-(-(last - first + 1) // step) + (step > 1), dtype=np.int64)
        left = (n + 1 - edges).astype(float)
        ratio, rises = edges / left, (float(n + 1) / left[:-1]) * (step / left[1:])
        mass = log_binomial_pmf(edges, n, p, q)
        if step == 1:
            lower = upper = _Side.of(mass, ratio, mass, ratio, rises)
        else:
            lower, upper = _cells(edges, left, mass, ratio, rises, n, p / q)
        # Outside: a below or above, or b below; b above a does not count. Once more for a sign that is wrong at the first b.
        outside = 3 * (first > 0) + (last < n)
        log_omitted = math.log(outside) + floor + RANGE_ACCURACY if outside else -math.inf
        distance = max(last - n * p, n * p - first) + step
        # Two probabilities, two running sums, and what little a sum and its unit add.
        rounding = _MACHINE * (2 * PMF_ULPS * (10 + distance - floor) + 2 * edges.size + 64)
        log_factor = math.log(q) - math.log(p)
        log_last = n * math.log(p) - log_factor if last == n else -math.inf
        return cls(step, lower, upper, log_omitted, rounding, log_factor, log_last)

    def enclose(self, eps: float) -> tuple[float, float]:
        """Ends of log D."""
        low, high = self.lower.log_sum(eps, self.log_last)
        if self.upper is not self.lower:
            high = self.upper.log_sum(eps, self.log_last)[1]
        low, high = low + self.log_factor - self.rounding, high + self.log_factor + self.rounding
        return low, min(0.0, float(np.logaddexp(high, self.log_omitted)))


def _cells(edges: Array, left: Array, mass: Array, ratio: Array, rises: Array, n: int, odds: float) -> tuple[_Side, _Side]:
    """Both ends of the sum from log p and the ratio l at the edges; `left` is n + 1 - edges, `odds` p/(1-p)."""
    w = float(edges[1] - edges[0])
    start, end = edges[:-1].astype(float), edges[1:].astype(float)
    # The geometric sum between two edges, over w p(start).
    change = np.diff(mass)
    level = change == 0
    change = np.where(level, 1.0, change)
    chord = np.where(level, 1.0, np.expm1(change) / (w * np.expm1(change / w)))
    low = mass[:-1] + math.log(w) + np.log(chord)
    high = low + (1 / (start + 1) + 1 / (n - end)) * (w * w / 8)
    # log Pr[k + 1]/Pr[k] at both ends, and the distance of the mean from the start.
    first, final = (np.log(odds * (n - k) / (k + 1)) for k in (start, end))
    doubt = RATIO_ULPS * _MACHINE
    near = np.clip(0.5 * (w - 1) + np.minimum(final - doubt, 0.0) * ((w * w - 1) / 12), 0.0, w - 1)
    far = np.clip(0.5 * (w - 1) + np.maximum(first + doubt, 0.0) * ((w * w - 1) / 12), 0.0, w - 1)
    # l is convex: its mean is between l at the mean and the chord there; as shares of the way from edge to edge.
    share_low, share_high = (near / w) * (left[1:] / (left[:-1] - near)), far / w
    of_b = ratio[:-1] + share_high * rises
    between = (1 - share_high[:-1]) * rises[:-1] + share_high[1:] * rises[1:]
    with np.errstate(divide="ignore"):
        masses = [
            np.logaddexp(np.append(high + np.log1p(-share), -math.inf), np.append(-math.inf, high + np.log(share)))
            for share in (share_high, share_low)
        ]
    return (
        _Side.of(low, ratio[:-1] + share_low * rises, low, of_b, between),
        _Side.of(masses[0], ratio, masses[1], ratio, rises),
    )
