"""From a privacy target to a parameter where evaluations are dear: by secants, to a thousandth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from .api import Bounded, claims_of, epsilon
from .calibration import UnreachableError
from .composed import Composed
from .crowd import Crowd

# Relative distance between the parameter that is returned and one that misses the target; that of the first, cheap search.
PARAMETER_RTOL = 1e-3
FIRST_RTOL = 0.03
# Evaluations at most; the target is met whenever the search stops.
EVALUATIONS_MAX = 60
# Of so many steps one halves the interval.
PATIENCE = 4
# How far beyond the root a step goes, in units of the tolerance.
AIM = 0.3
# Logarithms of parameters have to differ by so much to tell the slope: the slack of composed values hides it over less.
SHORT = 2e-3

Made = TypeVar("Made", bound=Bounded)


def approach(
    make: Callable[[float], Made], target: float, delta: float, n: int, *, good: float, bad: float, slope: float
) -> Made:
    """What `make` gives for the parameter nearest to `bad` whose sound central eps is at most `target`.

    Parameters
    ----------
    make : callable
        From a parameter > 0.
    target, delta, n
        Central eps in nats, delta, and the number of users.
    good, bad : float
        Ends of the range; `good` is expected to meet the target.
    slope : float
        d log eps/d log parameter, about.

    Raises
    ------
    UnreachableError
        If `good` misses the target.

    Notes
    -----
    `calibrate` goes on to 1e-6 and takes some 25 evaluations. Here a search for what the sum of the parts' eps allows, which
    costs little and is no less than their composition, is followed by one with some 5 evaluations of the composition. Both rely
    on eps to be monotone.
    """
    ends = good, bad, slope
    near, start = _search(make, lambda x: _sum_of_parts(x, n, delta), target, *ends, FIRST_RTOL)
    if near is None:
        start = good
    found, _ = _search(make, lambda x: float(epsilon(x, n, delta)), target, start, *ends[1:], PARAMETER_RTOL)
    if found is None:
        raise UnreachableError(f"epsilon must be within reach of n = {n:,} users at delta = {delta!r}, got {target!r}")
    return found


def _sum_of_parts(x: Bounded, n: int, delta: float) -> float:
    (value,) = (claim.value for claim in claims_of(x, Crowd(n)) if claim.bound == "accountant")
    if not isinstance(value, Composed):
        return float(epsilon(x, n, delta))
    return value.sum_of_parts(delta, FIRST_RTOL)[1]


def _search(
    make: Callable[[float], Made],
    eps_of: Callable[[Made], float],
    target: float,
    good: float,
    bad: float,
    slope: float,
    rtol: float,
) -> tuple[Made | None, float]:
    """The last one that meets the target, and its parameter; None if `good` misses it."""
    found, parameter = make(good), good
    if (eps := eps_of(found)) > target:
        return None, good
    state = _State(math.log(good), math.log(bad), math.log(target), slope, rtol)
    state.add(state.met, eps)
    for step in range(EVALUATIONS_MAX):
        if state.proven and abs(state.missed - state.met) <= rtol:
            break
        tried = state.following(step)
        at = bad if tried == math.log(bad) else math.exp(tried)
        made = make(at)
        eps = eps_of(made)
        state.add(tried, eps)
        if eps > target:
            state.missed, state.proven = tried, True
            continue
        found, parameter, state.met = made, at, tried
        if tried == state.missed:
            break
    return found, parameter


@dataclass
class _State:
    """Logarithms of parameters: one that meets the target, one that (once `proven`) misses it."""

    met: float
    missed: float
    goal: float
    slope: float
    rtol: float
    proven: bool = False
    # The two newest (log parameter, log eps) where neither is 0.
    points: list[tuple[float, float]] = field(default_factory=list)

    def add(self, parameter: float, eps: float) -> None:
        if eps <= 0:
            return
        self.points = [*self.points[-1:], (parameter, math.log(eps))]
        if len(self.points) == 2:
            (x0, y0), (x1, y1) = self.points
            if abs(x1 - x0) > SHORT and (y1 - y0) * (x1 - x0) * self.slope > 0:
                self.slope = (y1 - y0) / (x1 - x0)

    def following(self, step: int) -> float:
        """By the slope; halfway where that says nothing, and now and then; ever longer steps where eps is still 0."""
        width = self.missed - self.met
        if not self.points:
            return self.met + math.copysign(min(abs(width), 2.0**step), width)
        root = self.points[-1][0] + (self.goal - self.points[-1][1]) / self.slope
        # A little beyond, away from the nearer end, so that both ends come near the root.
        root += math.copysign(AIM * self.rtol, width) * (1 if abs(root - self.missed) > abs(root - self.met) else -1)
        if not self.proven and (root - self.met) * width < (reach := AIM * self.rtol * 2.0**step) * abs(width):
            # Longer and longer steps until one misses: a slope that is too steep would take short ones.
            root = self.met + math.copysign(reach, width)
        if min(self.met, self.missed) < root < max(self.met, self.missed) and ((step + 1) % PATIENCE or not self.proven):
            return root
        beyond = not self.proven and (root - self.missed) * width >= 0
        return self.missed if beyond else self.met + 0.5 * width
