"""Figures 1 and 2: amplification ratio of the k-subset mechanism and of optimal local hashing against the local eps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import mechanisms
from .._resumable import Rows
from ..bounds import bound_table
from .pictures import DASHED, DOTTED, SOLID, legend_below, line, panels, power
from .piece import Finding, Piece, spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

USERS, SIZES = (10**4, 10**6), (16, 128, 1024)
EPSILONS = tuple(k / 4 for k in range(1, 21))
# Drawn, in this order: name in a bound table, style, label.
DRAWN = (
    ("sound", SOLID, "sound (here)"),
    ("published", DOTTED, "variation-ratio as published"),
    ("blanket", SOLID, "blanket, optimal (here)"),
    ("stronger-clone", SOLID, "stronger clone"),
    ("clone", SOLID, "clone"),
    ("blanket-bennett", SOLID, "blanket, Bennett, specific"),
    ("blanket-hoeffding", SOLID, "blanket, Hoeffding, specific"),
    ("blanket-bennett-generic", SOLID, "blanket, Bennett, generic"),
    ("blanket-hoeffding-generic", SOLID, "blanket, Hoeffding, generic"),
    ("efmrtt19", SOLID, "EFMRTT19"),
    ("lower", DASHED, "lower bound (here)"),
    ("lower-5.1", DASHED, "lower bound, Theorem 5.1"),
)
EARLIER = (
    "stronger-clone",
    "clone",
    "blanket-bennett",
    "blanket-hoeffding",
    "blanket-bennett-generic",
    "blanket-hoeffding-generic",
    "efmrtt19",
)
# About 30% of a budget; a gap that nobody sees in a figure; relative width of a bracket of eps.
ABOUT_30, INVISIBLE, BRACKET = 0.25, 1e-3, 2e-6


def rows(mechanism: str, n: int, d: int, epsilon: float) -> Rows:
    """Every bound on the central eps of one mechanism at delta = 0.01/n.

    Parameters
    ----------
    mechanism : str
        Name of a class of `shufflesim.mechanisms` with parameters epsilon and d; the rest is its utility-optimal choice.
    n, d : int
        Users and categories.
    epsilon : float
        Local budget in nats.
    """
    x: Any = getattr(mechanisms, mechanism)(epsilon=epsilon, d=d)
    table = bound_table(x, n, 0.01 / n)
    found = table.rename(columns={"epsilon": "central"})[["bound", "side", "sound", "central", "amplification_ratio"]]
    return [{str(key): value for key, value in row.items()} for row in found.to_dict("records")]


def draw(table: pd.DataFrame) -> Figure:
    """One panel for each n and d; amplification ratios on a common logarithmic scale."""
    cells = [(n, d) for n in sorted(table["n"].unique()) for d in sorted(table["d"].unique())]
    columns = table["d"].nunique()
    figure, axes = panels(len(cells) // columns, columns, len(DRAWN), 3, sharex=True, sharey="row")
    for ax, (n, d) in zip(axes, cells, strict=True):
        here = table[(table["n"] == n) & (table["d"] == d)]
        for place, (bound, style, label) in enumerate(DRAWN):
            curve = here[here["bound"] == bound].sort_values("epsilon")
            width = 2.6 if bound == "sound" else 1.3
            line(ax, curve["epsilon"].to_numpy(), curve["amplification_ratio"].to_numpy(), place, label, style, width)
        ax.set(yscale="log")
        ax.set_title(f"n = {power(n)}, d = {d:,}", fontsize="small")
    for ax in axes[-columns:]:
        ax.set_xlabel("local eps")
    for ax in axes[::columns]:
        ax.set_ylabel("amplification ratio")
    legend_below(figure, axes)
    return figure


def judge(table: pd.DataFrame) -> list[Finding]:
    """Budget saved, gap to the lower bound, and where the published value is no upper bound."""
    wide = table.pivot_table(index=["n", "d", "epsilon"], columns="bound", values="central")
    of = len(wide)
    earlier = wide[[name for name in EARLIER if name in wide]]
    best, saved = earlier.min(axis=1), 100 * (1 - wide["sound"] / earlier.min(axis=1))
    which = earlier.idxmin(axis=1).value_counts()
    clone = 100 * (1 - wide["sound"] / wide["stronger-clone"])
    loose = wide["sound"] / wide["lower"] - 1
    below = wide["published"] < wide["lower"] * (1 - BRACKET)
    excess = wide["sound"] / wide["published"] - 1
    return [
        Finding(
            "about 30% of the budget (central eps) is saved against the best earlier bound.",
            f"the sound bound saves {spread(saved, '%')}, of the best earlier bound, which is "
            f"{', '.join(f'{name} at {count} of {of} points' for name, count in which.items())}; counted as true from "
            f"{100 * ABOUT_30:g}% on.",
            int((wide["sound"] <= (1 - ABOUT_30) * best).sum()),
            of,
        ),
        Finding(
            "the same against the stronger clone alone, the best earlier bound that looks at eps0 only.",
            f"it saves {spread(clone, '%')}.",
            int((wide["sound"] <= (1 - ABOUT_30) * wide["stronger-clone"]).sum()),
            of,
        ),
        Finding(
            "upper and lower bound coincide.",
            f"the sound bound is {spread(100 * loose, '%')} above the largest lower bound; counted as true up to "
            f"{INVISIBLE:g} of eps.",
            int((loose <= INVISIBLE).sum()),
            of,
        ),
        Finding(
            "the published value is an upper bound.",
            f"it is below a proved lower bound at {int(below.sum())} of {of} points; the sound bound is "
            f"{spread(100 * excess, '%')} above it.",
            int((~below).sum()),
            of,
        ),
        Finding(
            "(here) the sound bound is never below the lower bound.",
            f"the smallest quotient sound / lower is {float((wide['sound'] / wide['lower']).min()):.6f}.",
            int((wide["sound"] >= wide["lower"]).sum()),
            of,
        ),
    ]


def _piece(name: str, mechanism: str, title: str) -> Piece:
    cases = tuple({"mechanism": mechanism, "n": n, "d": d, "epsilon": eps} for n in USERS for d in SIZES for eps in EPSILONS)
    return Piece(name, f"{title}, delta = 0.01/n", rows, cases, draw, judge)


SUBSET = _piece("fig1", "KSubset", "Figure 1: the k-subset mechanism")
LOCAL_HASH = _piece("fig2", "LocalHash", "Figure 2: optimal local hashing")
