"""Figures 1 and 2: amplification ratio of the k-subset mechanism and of optimal local hashing against the local eps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import mechanisms
from .._resumable import Rows
from ..bounds import bound_table
from .pictures import DASHED, DOTTED, SOLID, panels_of_bounds
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
    ("published, fixed hash", DOTTED, "variation-ratio as published, fixed hash"),
    ("lower, fixed hash", DASHED, "lower bound, fixed hash (here)"),
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
# What the table has of one fixed hash.
FIXED = ("sound", "published", "lower", *EARLIER)
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

    Notes
    -----
    `choice` is k, or the range l of the hash. The paper's row for local hashing is for one hash function that does not map
    the two inputs to one value: GRR on l values. Here every user draws a function and sends it, so that two inputs collide
    with probability 1/l; both are in the table.
    """
    x: Any = getattr(mechanisms, mechanism)(epsilon=epsilon, d=d)
    choice = x.k if mechanism == "KSubset" else x.l
    tables = [bound_table(x, n, 0.01 / n)]
    if mechanism == "LocalHash":
        fixed = bound_table(mechanisms.GRR(epsilon, choice), n, 0.01 / n)
        fixed = fixed[fixed["bound"].isin(FIXED)]
        tables.append(fixed.assign(bound=fixed["bound"] + ", fixed hash"))
    return [
        {"choice": int(choice), "bound": row["bound"], "side": row["side"], "sound": bool(row["sound"])}
        | {"central": row["epsilon"], "amplification_ratio": row["amplification_ratio"]}
        for table in tables
        for row in table.to_dict("records")
    ]


def draw(table: pd.DataFrame) -> Figure:
    """One panel for each n and d; amplification ratios on a common logarithmic scale."""
    across, what = ("epsilon", "local eps"), ("amplification_ratio", "amplification ratio")
    figure, axes = panels_of_bounds(table, ("n", "d"), across, what, DRAWN, sharey="row")
    for ax in axes:
        ax.set_yscale("log")
    return figure


def judge(table: pd.DataFrame) -> list[Finding]:
    """Budget saved, gap to the lower bound, and where the published value is no upper bound."""
    wide = table.pivot_table(index=["n", "d", "epsilon"], columns="bound", values="central")
    choice = table.groupby(["n", "d", "epsilon"])["choice"].first()
    papers = wide
    if "sound, fixed hash" in wide:
        papers = wide.assign(**{name: wide[f"{name}, fixed hash"] for name in FIXED})
        tight, words = choice > 2, "upper and lower bound coincide for l > 2 (the paper's row, one fixed hash)."
    else:
        tight, words = choice <= 2, "upper and lower bound coincide for k <= 2."
    return [
        *_saved(papers),
        _coincide(papers[tight], words),
        *([_coincide(wide, "(here) they coincide for the hash that each user draws and sends.")] if papers is not wide else []),
        _is_upper(table, papers),
        Finding(
            "(here) the sound bound is never below the lower bound.",
            f"the smallest quotient sound / lower is {float((wide['sound'] / wide['lower']).min()):.6f}.",
            int((wide["sound"] >= wide["lower"]).sum()),
            len(wide),
        ),
    ]


def _saved(wide: pd.DataFrame) -> list[Finding]:
    earlier = wide[[name for name in EARLIER if name in wide]]
    best, names = earlier.min(axis=1), earlier.idxmin(axis=1).value_counts()
    which = ", ".join(f"{name} at {count} of {len(wide)} points" for name, count in names.items())
    return [
        Finding(
            f"about 30% of the budget (central eps), or more, is saved against {what}.",
            f"the sound bound saves {spread(100 * (1 - wide['sound'] / other), '%')}{more}; counted as true from "
            f"{100 * ABOUT_30:g}% on.",
            int((wide["sound"] <= (1 - ABOUT_30) * other).sum()),
            len(wide),
        )
        for what, other, more in (
            ("the best earlier bound", best, f", of the best earlier bound, which is {which}"),
            ("the stronger clone, the best earlier bound that looks at eps0 only", wide["stronger-clone"], ""),
        )
    ]


def _coincide(wide: pd.DataFrame, claim: str) -> Finding:
    loose = wide["sound"] / wide["lower"] - 1
    return Finding(
        claim,
        f"the sound bound is {spread(100 * loose, '%')} above the largest lower bound; counted as true up to "
        f"{100 * INVISIBLE:g}%.",
        int((loose <= INVISIBLE).sum()),
        len(wide),
    )


def _is_upper(table: pd.DataFrame, wide: pd.DataFrame) -> Finding:
    name = "published, fixed hash" if "sound, fixed hash" in wide else "published"
    proved = table[table["bound"] == name].set_index(["n", "d", "epsilon"])["sound"].reindex(wide.index)
    refuted = wide["published"] < wide["lower"] * (1 - BRACKET)
    excess = wide["sound"] / wide["published"] - 1
    return Finding(
        "the published value is an upper bound.",
        f"it is proved to be one at {int(proved.sum())} of {len(wide)} points; a proved lower bound refutes it at "
        f"{int(refuted.sum())}, and nothing is known of the others. The sound bound is {spread(100 * excess, '%')} above it.",
        int(proved.sum()),
        len(wide),
    )


def _piece(name: str, mechanism: str, title: str, remark: str) -> Piece:
    cases = tuple({"mechanism": mechanism, "n": n, "d": d, "epsilon": eps} for n in USERS for d in SIZES for eps in EPSILONS)
    return Piece(name, f"{title}, delta = 0.01/n", rows, cases, draw, judge, remark=remark)


RATIOS = "Ratios are drawn, so that an upper bound on eps lies below a lower one."
SUBSET = _piece("fig1", "KSubset", "Figure 1: the k-subset mechanism", RATIOS)
LOCAL_HASH = _piece(
    "fig2",
    "LocalHash",
    "Figure 2: optimal local hashing",
    f"{RATIOS} The paper's row is for one hash function that keeps the two inputs apart: randomized response on l values. "
    "Lines without that name are for functions that users draw and send.",
)
