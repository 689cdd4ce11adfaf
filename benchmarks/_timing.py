"""Shared by the benchmarks: warm medians, and one line a figure."""

import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np


def median_seconds(function: Callable[[], object], repeats: int = 20) -> float:
    """Median wall time of `function` after one warm-up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def header(title: str) -> None:
    """What is measured, and on which machine."""
    print(f"\n{title}\n{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")


def line(name: str, figure: str, aim: str) -> None:
    """One figure beside its aim."""
    print(f"  {name:<62} {figure:>18}   aim: {aim}")


def peak() -> int:
    """Bytes of the largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
