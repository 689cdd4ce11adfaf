"""From a privacy target to a parameter: the largest budget, the fewest dummies, the smallest crowd."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .._checks import EPSILON_MAX, USERS_MAX, check_delta, check_number, check_users, nearest, plain
from .api import Bounded, epsilon
from .api import delta as delta_at
from .bracket import Bracket

# Relative distance, of real parameters, between the one that is returned and one that misses the target.
PARAMETER_RTOL = 1e-6
# Slack of delta in the steps of the search: delta moves by several times as much as the parameter.
STEP_RTOL = 1e-6

Find = Literal["largest", "smallest"]


class UnreachableError(ValueError):
    """No parameter in the range that was searched meets the target."""


@dataclass(frozen=True)
class Calibration:
    """A parameter that meets a privacy target, and what it achieves.

    Attributes
    ----------
    parameter : float or int
        What was searched for.
    epsilon : Bracket
        Central eps there; `epsilon.upper` is at most the target.
    x : Randomizer, Protocol or VariationRatio
        What the parameter makes.
    n : int
        Number of users.
    """

    parameter: float | int
    epsilon: Bracket
    x: Any
    n: int


def calibrate(
    factory: Callable[[Any], Bounded] | Bounded,
    n: int | None,
    delta: float,
    epsilon: float,
    *,
    find: Find = "largest",
    within: tuple[float, float] | None = None,
    n_honest: int | None = None,
    dropout: float = 0.0,
    sampling: float = 1.0,
) -> Calibration:
    """The largest (or smallest) parameter whose sound central eps is at most `epsilon`.

    Parameters
    ----------
    factory : callable, Randomizer, Protocol or VariationRatio
        Makes the randomizer or protocol from the parameter, such as ``lambda eps0: GRR(eps0, d=100)``. With ``n=None``: what is
        bounded, and the parameter is the number of users.
    n : int or None
        Number of users; None to search for the smallest that is enough.
    delta, epsilon : float
        The target: delta in (0, 1), central eps > 0 in nats.
    find : {"largest", "smallest"}
        Which end of the parameters that meet the target: "largest" for a local budget, "smallest" for a number of dummies.
    within : (low, high), optional
        Where to search; two integers for an integer parameter. By default from `epsilon` to 700, for a local budget.
    n_honest, dropout, sampling
        Who takes part; see `delta`.

    Returns
    -------
    Calibration
        The parameter, the central eps that it achieves, and what it makes. The target is met by that very parameter. One that
        is further by a relative 1e-6 (an integer: by one) misses it, as far as the numerical slack can tell, unless it is the end
        of the range.

    Raises
    ------
    ValueError
        If an argument is out of range, or the end of the range that is the safe one (the low end for "largest", the high end
        for "smallest") misses the target. Errors of the factory are passed on.

    Notes
    -----
    A bisection: it relies on the central eps to be monotone in the parameter. Where it is not, the parameter still meets the
    target, but another one further on may meet it as well.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> from shufflesim.protocols import BallsIntoBins
    >>> found = calibrate(lambda eps0: GRR(eps0, d=100), 10**6, 1e-8, 0.05)
    >>> round(found.parameter, 4), float(found.epsilon) <= 0.05
    (4.7699, True)
    >>> calibrate(lambda k: BallsIntoBins(16, k), 10**4, 1e-8, 0.5, find="smallest", within=(1, 1000)).parameter
    1
    >>> calibrate(GRR(2.0, d=100), None, 1e-8, 0.05).n
    6111
    """
    delta, epsilon = check_delta(delta), _positive("epsilon", epsilon)
    if find not in ("largest", "smallest"):
        raise ValueError(f"find must be 'largest' or 'smallest', got {find!r}; {nearest(str(find), ('largest', 'smallest'))}")
    if n is None:
        if n_honest is not None or within is not None:
            got = f"n_honest={n_honest!r}, within={plain(within)!r}"
            raise ValueError(
                f"n_honest and within must be left out for n=None, where the number of users is searched for, got {got}"
            )
        if not hasattr(factory, "claims"):
            raise ValueError(f"factory must be a Randomizer, Protocol or VariationRatio for n=None, got {factory!r}")
        search = _Search(lambda users: (factory, users), delta, epsilon, {"dropout": dropout, "sampling": sampling})
        return search.run("smallest", 1, USERS_MAX, "n")
    n = check_users(n)
    if not callable(factory):
        raise ValueError(f"factory must be callable, such as lambda eps0: GRR(eps0, d=100), got {factory!r}")
    low, high = _range(within, epsilon)
    crowd = {"n_honest": n_honest, "dropout": dropout, "sampling": sampling}
    return _Search(lambda parameter: (factory(parameter), n), delta, epsilon, crowd).run(find, low, high, "parameter")


def _positive(name: str, value: Any) -> float:
    number = check_number(name, value, "a number > 0 (nats)", low=0.0)
    if number == 0:
        raise ValueError(f"{name} must be a number > 0 (nats), got {plain(value)!r}")
    return number


def _range(within: Any, epsilon: float) -> tuple[float, float]:
    if within is None:
        # A local budget of the target meets it whatever the crowd; a little less, for the roundings of a declaration.
        return min(epsilon, EPSILON_MAX) * (1 - 1e-9), EPSILON_MAX
    try:
        low, high = within
    except (TypeError, ValueError):
        raise ValueError(f"within must be two numbers (low, high), got {plain(within)!r}") from None
    if all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in (low, high)):
        low, high = int(low), int(high)
    else:
        low, high = (check_number("within", v, "two finite numbers (low, high)") for v in (low, high))
    if not low < high:
        raise ValueError(f"within must be two numbers low < high, got {plain(within)!r}")
    return low, high


@dataclass(frozen=True)
class _Search:
    make: Callable[[Any], tuple[Any, int]]
    delta: float
    target: float
    crowd: dict[str, Any]

    def _made(self, parameter: float) -> tuple[Any, int]:
        x, n = self.make(parameter)
        if isinstance(x, type) or not hasattr(x, "claims"):
            raise ValueError(f"factory must make a Randomizer, Protocol or VariationRatio, got {x!r} from {parameter!r}")
        return x, n

    def at(self, parameter: float) -> Calibration:
        x, n = self._made(parameter)
        return Calibration(parameter, epsilon(x, n, self.delta, **self.crowd), x, n)

    def likely(self, parameter: float) -> bool:
        """Whether delta holds at the target: one evaluation, and up to rounding the same question."""
        x, n = self._made(parameter)
        return bool(delta_at(x, n, self.target, rtol=STEP_RTOL, **self.crowd).upper <= self.delta)

    def run(self, find: Find, low: float, high: float, name: str) -> Calibration:
        """Between an end that meets the target and one that misses it: first by `likely`, then by what is returned itself."""
        near, far = (low, high) if find == "largest" else (high, low)
        first = self.at(near)
        if not self._meets(first):
            reached = f"{name}={near!r} gives eps <= {first.epsilon.upper:.6g}"
            hint = "" if name == "n" else f"; the other end is tried with find={'smallest' if find == 'largest' else 'largest'!r}"
            raise UnreachableError(
                f"epsilon must be reached at the {'low' if find == 'largest' else 'high'} end of [{low!r}, {high!r}], "
                f"got {self.target!r}; {reached}{hint}"
            )
        guess = far if self.likely(far) else _bisect(near, far, self.likely)
        found = self.at(guess)
        if self._meets(found):
            return found
        return self.at(_bisect(*_stepped_back(near, guess, self._reached), self._reached))

    def _reached(self, parameter: float) -> bool:
        return self._meets(self.at(parameter))

    def _meets(self, found: Calibration) -> bool:
        return bool(found.epsilon.upper <= self.target)


def _stepped_back(good: float, bad: float, holds: Callable[[float], bool]) -> tuple[float, float]:
    """A parameter that holds and one that does not: from `bad` in growing steps towards `good`, as it misses by little."""
    whole = isinstance(good, int) and isinstance(bad, int)
    step = 1 if whole else PARAMETER_RTOL * abs(bad)
    while abs(good - bad) > step > 0:
        tried = bad + step if good > bad else bad - step
        if holds(tried):
            return tried, bad
        bad, step = tried, 4 * step
    return good, bad


def _bisect(good: float, bad: float, holds: Callable[[float], bool]) -> float:
    """The last parameter, between one that holds and one that does not, that was seen to hold."""
    while (middle := _between(good, bad)) is not None:
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _between(a: float, b: float) -> float | None:
    """A parameter between two; None where there is none, or none that is worth a look."""
    low, high = min(a, b), max(a, b)
    whole = isinstance(a, int) and isinstance(b, int)
    if high - low <= (1 if whole else PARAMETER_RTOL * max(abs(low), abs(high))):
        return None
    middle = math.sqrt(low) * math.sqrt(high) if low > 0 and high > 4 * low else 0.5 * (low + high)
    return min(max(int(middle), int(low) + 1), int(high) - 1) if whole else middle
