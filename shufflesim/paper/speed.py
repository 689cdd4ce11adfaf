"""Table 5: time of a straightforward Algorithm 1 beside that of the bound engine, one after the other on one machine."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._resumable import Rows
from ..bounds import VariationRatio, epsilon
from ..domains import Array
from ..mechanisms import KSubset
from ..plots import COLOURS, POINT_MARKERS
from .pictures import DOTTED, SOLID, legend_below, line, panels
from .piece import Finding, Piece, spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

USERS, BISECTIONS = (10**4, 10**5, 10**6, 10**7, 10**8, 10**12), (10, 20)
# The longest that Algorithm 1 may take in full; beyond it, chunks of one delta are timed, and scaled.
SECONDS = 40.0
CHUNK, CHUNKS = 100_000, 10
ENGINE_RUNS = 9
EPSILON, CATEGORIES = 3.0, 128
# Growth of time from n to 10 n that is called linear, and where it is looked at; seconds that nobody waits for.
LINEAR, LINEAR_FROM = (5.0, 20.0), 10**4
INTERACTIVE = 0.1


def algorithm1_part(x: VariationRatio, n: int, eps: float, c: Array) -> float:
    """Part of delta of the published pair: Algorithm 1 for the numbers c of clones among n - 1 messages.

    With a ~ Bin(c, 1/2), the likelihood ratio exceeds e^eps above low(t) clones of the first kind among t in all; user 1's
    message is one of the first kind, the second, or neither.
    """
    from scipy import special

    e, p, r = math.exp(eps), x.p, x.r0
    alpha = x.beta / (p - 1)
    omega = max(0.0, 1 - alpha - p * alpha)
    log_weight = special.gammaln(n) - special.gammaln(c + 1) - special.gammaln(n - c)
    weight = np.exp(log_weight + special.xlogy(c, 2 * r) + special.xlog1py(n - 1 - c, -2 * r))

    def low(t: Array) -> Array:
        neutral = (e - 1) * omega * r * (n - t) / (alpha * (1 - 2 * r)) if omega > 0 else 0.0
        return np.asarray(((e * p - 1) * t + neutral) / ((p - 1) * (e + 1)))

    def above(k: Array) -> Array:
        """Pr[a > k] for real k."""
        j = np.floor(k) + 1
        inside = (j > 0) & (j <= c)
        tail = special.betainc(np.where(inside, j, 1.0), np.where(inside, c - j + 1, 1.0), 0.5)
        return np.where(inside, tail, j <= 0)

    total = (p - e) * alpha * above(low(c + 1) - 1) + (1 - p * e) * alpha * above(low(c + 1))
    if omega > 0:
        total += omega * (1 - e) * above(low(c))
    return float(weight @ total)


def algorithm1(x: VariationRatio, n: int, delta: float, bisections: int) -> tuple[float, float]:
    """The last interval of the bisection of [0, log p], delta as the expectation over all c = 0..n-1 each time."""
    low, high = 0.0, math.log(x.p)
    for _ in range(bisections):
        middle = 0.5 * (low + high)
        parts = (algorithm1_part(x, n, middle, _chunk(k, n)) for k in range(0, n, CHUNK))
        low, high = (low, middle) if sum(parts) <= delta else (middle, high)
    return low, high


def _chunk(start: int, n: int) -> Array:
    return np.arange(start, min(start + CHUNK, n), dtype=float)


def algorithm1_seconds(x: VariationRatio, n: int, eps: float, bisections: int) -> float:
    """Time that it would take: chunks spread over all c, so that the cheap far ends have their share, scaled."""
    starts = np.unique(np.linspace(0, max(n - CHUNK, 0), CHUNKS).astype(np.int64))
    begun = time.perf_counter()
    for start in starts:
        algorithm1_part(x, n, eps, _chunk(int(start), n))
    return (time.perf_counter() - begun) / (starts.size * min(CHUNK, n)) * n * bisections


def machine() -> str:
    """Processor, number of cores, system and versions."""
    name = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        models = [row.partition(":")[2].strip() for row in listed.read_text().splitlines() if row.startswith("model name")]
        name = models[0] if models else name
    system = f"{platform.system()} {platform.machine()}"
    return f"{name}, {os.cpu_count()} cores, {system}, Python {platform.python_version()}, NumPy {np.__version__}"


def rows(n: int, bisections: int) -> Rows:
    """Times of both for the k-subset mechanism at delta = 0.01/n.

    Parameters
    ----------
    n : int
        Users.
    bisections : int
        T of Algorithm 1. The engine narrows its bracket to a millionth whatever T is.
    """
    x, delta = KSubset(EPSILON, CATEGORIES).amplification, 0.01 / n
    bracket = epsilon(x, n, delta, bound="published")
    # Once before it counts: modules are loaded, memory is there.
    algorithm1_part(x, n, bracket.upper, _chunk(0, n))
    seconds, how, inside = algorithm1_seconds(x, n, bracket.upper, bisections), "scaled from a part", None
    if seconds < SECONDS:
        begun = time.perf_counter()
        low, high = algorithm1(x, n, delta, bisections)
        seconds, how = time.perf_counter() - begun, "in full"
        inside = bool(low <= bracket.lower <= bracket.upper <= high)
    found = {"algorithm1_seconds": seconds, "algorithm1": how, "inside": inside, "epsilon": bracket.upper}
    found |= {f"{bound}_seconds": _median(partial(epsilon, x, n, delta, bound=bound)) for bound in ("published", "sound")}
    return [found | {"machine": machine()}]


def _median(function: Callable[[], object]) -> float:
    times = []
    for _ in range(ENGINE_RUNS + 1):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


def draw(table: pd.DataFrame) -> Figure:
    """Seconds against n, both logarithmic."""
    figure, (ax,) = panels(1, 1, 4, 2)
    figure.set_size_inches(6.5, 4.6)
    for place, (bisections, part) in enumerate(table.groupby("bisections")):
        curve = part.sort_values("n")
        label = f"Algorithm 1, T = {bisections} (filled: run in full)"
        line(ax, curve["n"].to_numpy(), curve["algorithm1_seconds"].to_numpy(), place, label, DOTTED)
        full = curve[curve["algorithm1"] == "in full"]
        ax.plot(full["n"], full["algorithm1_seconds"], POINT_MARKERS[place], color=COLOURS[place], markersize=5)
    engine = table[table["bisections"] == table["bisections"].max()].sort_values("n")
    for place, bound in enumerate(("published", "sound"), start=2):
        line(ax, engine["n"].to_numpy(), engine[f"{bound}_seconds"].to_numpy(), place, f"engine, {bound}", SOLID)
    ax.set(xscale="log", yscale="log", xlabel="users n", ylabel="seconds")
    legend_below(figure, [ax], 2)
    return figure


def judge(table: pd.DataFrame) -> list[Finding]:
    """Growth of both with n, their ratio, and whether they agree."""
    wide = table.pivot_table(index="n", columns="bisections", values="algorithm1_seconds")
    full = table[table["algorithm1"] == "in full"]
    # What was scaled by n grows with n whatever is true.
    large = full[full["n"] >= LINEAR_FROM]
    pairs = large.merge(large.assign(n=large["n"] // 10), on=["n", "bisections"], suffixes=("", "_next"))
    growth = (pairs["algorithm1_seconds_next"] / pairs["algorithm1_seconds"]).to_numpy()
    engine = table["published_seconds"]
    scaled = set(table.loc[table["algorithm1"] != "in full", "n"])
    times = [
        f"n = {n:.0e}: {' and '.join(f'{s:.3g}' for s in wide.loc[[n]].to_numpy()[0])} s{' (*)' if n in scaled else ''}"
        for n in wide.index
    ]
    ratio = table["algorithm1_seconds"] / engine
    return [
        Finding(
            "the time of Algorithm 1 is linear in n.",
            f"where it was run in full, ten times the users take {spread(growth)} times as long; counted as true between "
            f"{LINEAR[0]:g} and {LINEAR[1]:g}. With T = {' and '.join(map(str, wide.columns))}, {', '.join(times)}. "
            "(*) At least one of the two was scaled from a part.",
            int(((growth >= LINEAR[0]) & (growth <= LINEAR[1])).sum()),
            len(growth),
        ),
        Finding(
            f"(here) the engine answers within {INTERACTIVE:g} s whatever n is, with a bracket that is 1e-6 wide.",
            f"published {spread(1e3 * engine, ' ms')}; sound {spread(1e3 * table['sound_seconds'], ' ms')}; Algorithm 1 takes "
            f"{spread(ratio[full.index])} times as long where it was run in full, and would take up to {ratio.max():.2g} times.",
            int((table[["published_seconds", "sound_seconds"]].max(axis=1) <= INTERACTIVE).sum()),
            len(table),
        ),
        Finding(
            "(here) the engine's bracket lies in the last interval of Algorithm 1 wherever that was run in full.",
            f"{int(full['inside'].sum())} of {len(full)} times. Measured on {table['machine'].iloc[-1]}.",
            int(full["inside"].sum()),
            len(full),
        ),
    ]


SPEED = Piece(
    "table5",
    f"Table 5: running time, k-subset at local eps = {EPSILON:g}, d = {CATEGORIES}, delta = 0.01/n",
    rows,
    tuple({"n": n, "bisections": bisections} for n in USERS for bisections in BISECTIONS),
    draw,
    judge,
    alone=True,
    remark="Algorithm 1 is vectorised with NumPy and SciPy here and runs over all numbers of clones, without truncation. The "
    "paper reports tens of seconds at n = 1e8 for its own implementation, which is not the one that is timed here.",
)
