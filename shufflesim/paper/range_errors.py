"""Figure 5, the other half: errors of range queries on real data at equal central privacy."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .._resumable import Rows
from .._sampling import child, seed_root
from ..datasets import load
from ..domains import Array
from .pictures import DASH_DOT, DASHED, DOTTED, SOLID, legend_below, line, panels
from .piece import Finding, Piece, spread
from .range_ways import between, ways

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Minutes of a day; categories that each size has in use: minutes of the day, or 64 equal slots.
DAY = 1440
USED = {64: 64, 2048: DAY}
TARGETS = (0.01, 0.03, 0.1, 0.3, 1.0)
# Ranges that are asked for, and runs; the seed of both.
RANGES, RUNS, SEED = 200, 10, 5
# Drawn, in this order: name in the table, style, label.
DRAWN = (
    ("tree, sound", SOLID, "tree, sound accounting"),
    ("tree, published", DOTTED, "tree, advanced accounting as published"),
    ("tree, basic", DASHED, "tree, basic accounting"),
    ("tree, consistent", SOLID, "tree, sound accounting, made consistent"),
    ("separate", DASH_DOT, "separate users for each level"),
    ("flat GRR", SOLID, "no tree: GRR, leaves added up"),
    ("flat OUE", SOLID, "no tree: OUE, leaves added up"),
)
# Quotient of root mean square errors, over runs and ranges that share their noise, that counts as agreement; the same of budgets.
AGREE, SAME = 1.5, 1e-4


@cache
def users(d: int) -> Array:
    """Flights of the bundled year by scheduled minute of the day (d = 2048), or by d equal slots of it, shape (d,)."""
    flights = load("flights")
    minute = flights["hour"].to_numpy(dtype=np.int64) * 60 + flights["minute"].to_numpy(dtype=np.int64)
    return np.bincount(minute * USED[d] // DAY, minlength=d)


@cache
def asked(d: int) -> Array:
    """Ends of `RANGES` random ranges of the categories in use, shape (ranges, 2); none is empty."""
    ends = np.sort(np.random.default_rng([SEED, d]).integers(0, USED[d] + 1, (2 * RANGES, 2)), axis=1)
    return ends[ends[:, 0] < ends[:, 1]][:RANGES]


def rows(d: int, target: float) -> Rows:
    """Root mean square error over `RANGES` ranges of each way to keep the central eps `target` at delta = 0.01/n.

    Parameters
    ----------
    d : int
        64 or 2048.
    target : float
        Central eps in nats.

    Notes
    -----
    The exact expected error, and that of `RUNS` runs, in users. `central` is the sound central eps of what is run: above the
    target where the accounting promises too much.
    """
    counts, ends = users(d), asked(d)
    n, truth = int(counts.sum()), between(counts, ends)
    delta, root = 0.01 / n, seed_root(SEED)
    found = []
    for name, way in ways(d, n, delta, target).items():
        runs = [way.estimates(counts, ends, delta, child(root, d, TARGETS.index(target), run)) for run in range(RUNS)]
        found.append(
            {
                "method": name,
                "local_epsilon": way.local,
                "central": way.central(n, delta),
                "expected_rmse": float(np.sqrt(way.variance(counts, ends).mean())),
                "rmse": float(np.sqrt(np.mean((np.array(runs) - truth) ** 2))),
            }
        )
    return found


def draw(table: pd.DataFrame) -> Figure:
    """One panel for each d: expected errors as lines, those of the runs as crosses."""
    sizes = sorted(table["d"].unique())
    figure, axes = panels(1, len(sizes), len(DRAWN) + 1, 2, sharex=True, sharey=True)
    for ax, d in zip(axes, sizes, strict=True):
        here = table[table["d"] == d].sort_values("target")
        for place, (name, style, label) in enumerate(DRAWN):
            curve = here[here["method"] == name]
            width = 2.6 if name == "tree, sound" else 1.3
            line(ax, curve["target"].to_numpy(), curve["expected_rmse"].to_numpy(), place, label, style, width)
        ax.plot(here["target"], here["rmse"], "x", color="black", markersize=3.5, label=f"{RUNS} runs")
        ax.set(xscale="log", yscale="log", xlabel="central eps")
        ax.set_title(f"d = {d:,}", fontsize="small")
    axes[0].set_ylabel("root mean square error of a range (users)")
    legend_below(figure, axes, 2)
    return figure


def judge(table: pd.DataFrame) -> list[Finding]:
    """What accounting is worth in error, and whether the tree is."""
    wide = table.pivot_table(index=["d", "target"], columns="method", values="expected_rmse")
    local = table.pivot_table(index=["d", "target"], columns="method", values="local_epsilon")
    of, sound, better = len(wide), wide["tree, sound"], wide["tree, consistent"]
    flat = wide[["flat GRR", "flat OUE"]].min(axis=1)
    excess = (local["tree, published"] / local["tree, sound"] - 1).abs()
    runs = table["rmse"] / table["expected_rmse"]

    def times(other: pd.Series, own: pd.Series = sound) -> str:
        return "; ".join(f"d = {d:,}: {spread(part)}" for d, part in (own / other).groupby("d"))

    return [
        Finding(
            "(here) at equal central eps, sound advanced accounting gives smaller errors of ranges than basic accounting.",
            f"its error over that of basic accounting is {times(wide['tree, basic'])}.",
            int((sound < wide["tree, basic"]).sum()),
            of,
        ),
        Finding(
            "(here) one tree, with sound accounting, gives smaller errors than separate users for each level.",
            f"its error over theirs is {times(wide['separate'])}.",
            int((sound < wide["separate"]).sum()),
            of,
        ),
        Finding(
            "(here) the tree gives smaller errors than adding up the leaves of one histogram, the better of GRR and OUE.",
            f"its error over that of the histogram is {times(flat)}. Who is on which level is noise that no budget removes.",
            int((sound < flat).sum()),
            of,
        ),
        Finding(
            "(here) the same after the tree's estimates are made consistent.",
            f"its error over that of the histogram is {times(flat, better)}.",
            int((better < flat).sum()),
            of,
        ),
        Finding(
            "(here) published and sound accounting allow the same budget.",
            f"local eps differ by {spread(100 * excess, '%')}; counted as true up to {100 * SAME:g}%.",
            int((excess <= SAME).sum()),
            of,
        ),
        Finding(
            "(here) runs have the expected error.",
            f"observed over expected is {spread(runs)}, over {RUNS} runs of {RANGES} ranges each; counted as true up to a factor "
            f"of {AGREE:g}.",
            int(runs.between(1 / AGREE, AGREE).sum()),
            len(runs),
        ),
    ]


RANGE_ERRORS = Piece(
    "fig5-errors",
    "Range queries on 336,776 scheduled departures at equal central eps, delta = 0.01/n",
    rows,
    tuple({"d": d, "target": target} for d in USED for target in TARGETS),
    draw,
    judge,
)
