"""The exact values of tests/data, with their strings turned into numbers."""

import json
import math
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import mpmath

DATA = Path(__file__).parent / "data"


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference computed in a test file, without the tracer of coverage, which sees every line of mpmath and skips it.

    The tracer leaves and comes back within one frame: its calls and returns stay balanced.
    """

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(tracer)

    return run


def load(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def log_formula(text: str) -> float:
    """eps0 as written in params.json: a number or ln(fraction)."""
    if text.startswith("ln("):
        over, _, under = text[3:-1].partition("/")
        return math.log(float(over) / float(under or 1))
    return float(text)


def close(value: Any, expected: str, rtol: float) -> bool:
    """Relative comparison against a decimal string, beyond double precision where needed."""
    with mpmath.workdps(40):
        target = mpmath.mpf(expected)
        return abs(mpmath.mpf(value) - target) <= mpmath.mpf(rtol) * abs(target)
