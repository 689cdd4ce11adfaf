"""Validation of what users pass: one line that says the rule and the value received."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

# e^eps must stay finite in double precision together with small factors; beyond this the log of the law would be needed.
EPSILON_MAX = 700.0
# What stands for any smaller budget where its square is divided by: no number of users or messages is enough from far above.
EPSILON_TINY = 1e-100
# What array indices can hold.
SIZE_MAX = 2**62
# More users than that do not exist, and a double does not count them.
USERS_MAX = 10**18
# More runs or draws than anybody waits for.
TRIALS_MOST = 10**8


def plain(value: Any) -> Any:
    """NumPy scalars, in tuples and lists too, as the Python values that people recognise: for messages."""
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    return value.item() if isinstance(value, np.generic) else value


def check_number(name: str, value: Any, rule: str, *, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite real number in [low, high]; `rule` is what the message says."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} must be {rule}, got {plain(value)!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not low <= number <= high:
        raise ValueError(f"{name} must be {rule}, got {plain(value)!r}")
    return number


def check_integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """An integer (NumPy's too, no bool) in [low, high]."""
    rule = f"an integer >= {low}" if high is None else f"an integer in [{low}, {high}]"
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {rule}, got {plain(value)!r}") from None
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {rule}, got {number}")
    return number


def check_size(name: str, value: Any, *, low: int) -> int:
    """An integer that can be the size of an array or an index: at least `low`, at most 2^62."""
    number = check_integer(name, value, low=low)
    if number > SIZE_MAX:
        raise ValueError(f"{name} must be at most 2^62, got {number}")
    return number


def check_epsilon(value: Any, name: str = "epsilon") -> float:
    """A local budget: > 0 and at most `EPSILON_MAX`."""
    number = check_number(name, value, f"a number in (0, {EPSILON_MAX:g}] (nats)", high=EPSILON_MAX)
    if number <= 0:
        raise ValueError(f"{name} must be a number in (0, {EPSILON_MAX:g}] (nats), got {plain(value)!r}")
    return number


def check_users(n: Any, name: str = "n") -> int:
    """A number of users; integral floats such as 1e6 are accepted."""
    if isinstance(n, (float, np.floating)) and math.isfinite(n) and float(n).is_integer():
        n = int(n)
    n = check_integer(name, n, low=1)
    if n > USERS_MAX:
        raise ValueError(f"{name} must be at most {USERS_MAX:.0e}, got {n}")
    return n


def check_delta(delta: Any) -> float:
    """A delta: a probability strictly between 0 and 1."""
    number = check_number("delta", delta, "in (0, 1)", low=0.0, high=1.0)
    if number in (0.0, 1.0):
        raise ValueError(f"delta must be in (0, 1), got {plain(delta)!r}")
    return number


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: what was probably meant, or everything there is."""
    known = sorted(known)
    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def check_target(epsilon: Any, delta: Any, n: Any) -> tuple[float, float, int]:
    """A privacy target: central eps > 0, delta, and the number of users."""
    number = check_number("epsilon", epsilon, "a number > 0 (nats)", low=0.0)
    if number == 0:
        raise ValueError(f"epsilon must be a number > 0 (nats), got {epsilon!r}")
    return number, check_delta(delta), check_users(n)
