"""eps at given delta from enclosures of D alone: a bracket that the enclosures themselves prove."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

# Units in the last place of log delta that a bound keeps away from it: the logarithm of delta, and the two ulps by which
# reported values are rounded outwards.
LOG_ULPS = 8.0
# Each end aims at this share of the wanted gap away from the root.
SHARE = 0.3
# Slack asked of an enclosure, in terms of what an end may be away from the root; and the range of what is asked at all.
SLACK_SHARE = 0.4
SLACK_MIN, SLACK_MAX = 1e-14, 0.1
# An end that cannot reach its aim is refined until this share of the bracket is in doubt.
REFINE = 0.1
# Enclosures that a search may take; the bracket is proven whenever it stops. Steps after which it halves instead.
EVALUATIONS_MAX = 80
PATIENCE = 3

_MACHINE = 2.0**-52

Enclosure = Callable[[float, float], tuple[float, float, str]]


def _height(log_d: float) -> float:
    return math.sqrt(max(-2 * log_d, 0.0))


def margin(log_delta: float) -> float:
    """What log D has to keep away from log delta to be shown to be on one side of it."""
    return LOG_ULPS * _MACHINE * (1 + abs(log_delta))


@dataclass
class _End:
    """One end of the bracket: the best proven eps, and the nearest one at which the proof failed (None so far)."""

    good: float
    bad: float | None = None
    tries: int = 0


@dataclass
class _State:
    log_delta: float
    lower: _End
    upper: _End
    slope: float
    # (eps, middle of log D): the two points nearest to the root in log D.
    points: list[tuple[float, float]] = field(default_factory=list)
    width: float = 0.0  # half-width of the last enclosure of log D

    def add(self, eps: float, low: float, high: float) -> None:
        keep = margin(self.log_delta)
        for end, proven, sign in (
            (self.upper, high <= self.log_delta - keep, 1),
            (self.lower, low >= self.log_delta + keep, -1),
        ):
            if proven and sign * (end.good - eps) > 0:
                end.good = eps
            elif not proven and (end.bad is None or sign * (eps - end.bad) > 0):
                end.bad = eps
        if not (low > -math.inf and high < math.inf):
            return
        self.width = 0.5 * (high - low)
        self.points = sorted([*self.points, (eps, 0.5 * (low + high))], key=lambda p: abs(p[1] - self.log_delta))[:2]
        if len(self.points) == 2:
            (e0, v0), (e1, v1) = self.points
            # A secant through two points that differ by less than their enclosures' slack says nothing.
            if abs(v1 - v0) > 4 * self.width and (v1 - v0) * (e1 - e0) < 0:
                self.slope = (v0 - v1) / (e1 - e0)

    def reached(self, rtol: float) -> bool:
        """Whether the bracket is as narrow as asked."""
        return self.upper.good < math.inf and self.upper.good - self.lower.good <= rtol * self.upper.good

    def root(self) -> float | None:
        """Where the secant of sqrt(-2 log D), which is nearly linear in eps, meets log delta."""
        if not self.points:
            return None
        (eps, value), goal = self.points[0], _height(self.log_delta)
        if len(self.points) == 2:
            (far, other), here = self.points[1], _height(value)
            rise = _height(other) - here
            if abs(value - other) > 4 * self.width and rise * (far - eps) > 0:
                return eps + (goal - here) * (far - eps) / rise
        return eps + (goal - _height(value)) * max(_height(value), 0.1) / self.slope


def bracket(
    enclosure: Enclosure, log_delta: float, start: float, slope: float, ceiling: float, rtol: float
) -> tuple[float, float, str]:
    """(lower, upper, method) with D >= delta at lower and D <= delta at upper, as shown by enclosures or by the ends.

    Parameters
    ----------
    enclosure : callable
        (eps, slack) -> (log_lower, log_upper, method) of a D that does not rise with eps.
    log_delta : float
        Logarithm of delta.
    start, slope : float
        Where to begin, and -d log D/d eps there, both without a guarantee.
    ceiling : float
        D is 0 from here on; may be inf.
    rtol : float
        Relative gap (upper - lower)/upper to aim at.
    """
    state = _State(log_delta, _End(0.0), _End(ceiling), slope)
    eps, method, share = start, "", SLACK_SHARE
    for _ in range(EVALUATIONS_MAX):
        slack = min(SLACK_MAX, max(share * SHARE * rtol * state.slope * eps, SLACK_MIN))
        low, high, method = enclosure(eps, slack)
        state.add(eps, low, high)
        following = _next(state, rtol)
        if following is None and not state.reached(rtol) and high - low <= 2.5 * slack and slack > SLACK_MIN:
            # The slope was wrong, and so was the slack that was asked; what failed so far may succeed with less.
            share *= 0.1 * slack / (share * SHARE * rtol * state.slope * eps)
            state.lower.bad = state.upper.bad = None
            following = _next(state, rtol)
        if following is None:
            break
        eps = following
    return state.lower.good, state.upper.good, method


def _next(state: _State, rtol: float) -> float | None:
    """The next eps to look at; None when the bracket is as narrow as asked, or as the enclosures allow."""
    lower, upper = state.lower, state.upper
    if state.reached(rtol):
        return None
    whole = upper.good - lower.good
    enough = max(REFINE * whole, 0.1 * rtol * lower.good, 4 * _MACHINE * lower.good) if whole < math.inf else 0.0
    root = state.root()
    best = None
    for end, other, sign in ((upper, lower, 1), (lower, upper, -1)):
        # Where this end can still go: up to its last failure, or to the other end's proven value.
        failed = other.good if end.bad is None else end.bad
        if abs(end.good - failed) > enough:
            distance = sign * (end.good - root) if root is not None else abs(end.good - failed)
            if best is None or distance > best[0]:
                best = distance, end, failed, sign
    if best is None:
        return None
    _, end, failed, sign = best
    end.tries += 1
    inner, outer = min(failed, end.good), max(failed, end.good)
    if root is not None and (end.tries % (PATIENCE + 1) or outer == math.inf):
        away = max(SHARE * rtol * root, 1.25 * (state.width + margin(state.log_delta)) / state.slope)
        trial = root + sign * away
        if inner < trial < outer:
            return trial
    if outer == math.inf:
        return 2 * inner if inner > 0 else 1.0
    trial = 0.5 * (inner + outer)
    return trial if inner < trial < outer else None
