"""Figures 3 and 4: extra amplification of two multi-message protocols, eps of the original analysis over eps computed here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .._resumable import Rows
from ..bounds import VariationRatio, bound_table
from ..protocols import FakeUsers
from .pictures import DASHED, DOTTED, SOLID, panels_of_bounds
from .piece import Finding, Piece, spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

USERS, BINS, LARGEST = (10**4, 10**5, 10**6), (16, 1024), 2.0
TARGETS = tuple(k / 10 for k in range(1, 21))
DRAWN = (
    ("sound", SOLID, "sound (here)"),
    ("published", DOTTED, "variation-ratio as published"),
    ("analytic", SOLID, "closed form 4.2"),
    ("asymptotic", SOLID, "closed form 4.3"),
    ("lower", DASHED, "lower bound (here)"),
)
# Relative width of a bracket of eps.
BRACKET = 2e-6
# About 75% of a budget, more than half of it; where the grid of the authors' script ends.
ABOUT_75, HALF, SCRIPT = 0.7, 0.5, 1.0


def fake_users(n: int, target: float) -> Rows:
    """The protocol of Cheu and Zhilyaev, calibrated to a target by its own analysis, at delta = 0.01/n with one fake per user.

    Parameters
    ----------
    n : int
        Users; the bounds do not depend on the number of categories, as long as there are three.
    target : float
        eps' of the original analysis, in nats. Where it cannot be had with one fake a user there is no row.
    """
    delta = 0.01 / n
    try:
        x = FakeUsers.original(target, delta, n, d=3)
    except ValueError:
        return []
    return _rows(bound_table(x, n, delta), target, flip=x.flip)


def balls(n: int, d: int, target: float) -> Rows:
    """Balls into bins of Luo, Wang and Yi: N = floor(32 ln(2/delta) d/eps'^2) dummies over d bins at delta = 0.01/n.

    The number of dummies is fixed, as in the paper; `BallsIntoBins` draws it at random, which changes little.

    Parameters
    ----------
    n : int
        Users; they only set delta, since the dummies alone hide a message.
    d : int
        Bins.
    target : float
        eps' of the original analysis, in nats.
    """
    delta = 0.01 / n
    dummies = math.floor(32 * (math.log(2) - math.log(delta)) * d / target**2)
    x = VariationRatio(math.inf, 1.0, d)
    return _rows(bound_table(x, dummies + 1, delta), target, dummies=dummies)


def _rows(table: pd.DataFrame, target: float, **own: Any) -> Rows:
    found = table[table["bound"].isin([name for name, *_ in DRAWN])]
    return [
        {**own, "bound": row["bound"], "side": row["side"], "sound": bool(row["sound"]), "epsilon": row["epsilon"]}
        | {"extra_ratio": target / row["epsilon"]}
        for row in found.to_dict("records")
    ]


def draw(table: pd.DataFrame) -> Figure:
    """One panel for each n and number of bins."""
    across, what = ("target", "eps' of the original analysis"), ("extra_ratio", "extra amplification ratio")
    figure, axes = panels_of_bounds(table, ("d", "n") if "d" in table else ("n",), across, what, DRAWN)
    for ax in axes:
        ax.set(xlim=(0, LARGEST + 0.05), ylim=(0, None))
    return figure


def judge(table: pd.DataFrame) -> list[Finding]:
    """Budget saved by the exact evaluation and by the closed forms, and how far the published value is from the exact one."""
    wide = table.pivot_table(index=[c for c in ("d", "n", "target") if c in table], columns="bound", values="epsilon")
    target, of = wide.index.get_level_values("target").to_numpy(), len(wide)
    saved = {bound: 1 - wide[bound] / target for bound in ("sound", "analytic")}
    shift = wide["published"] / wide["sound"] - 1
    lowest = wide["published"] < wide["sound"] * (1 - BRACKET)
    within = target <= SCRIPT
    findings = [
        Finding(
            "about 75% of the budget, or more, is saved against the original analysis (extra amplification ratio about 4).",
            f"the sound eps is smaller by {spread(100 * saved['sound'], '%')}, a ratio of {spread(1 / (1 - saved['sound']))}; "
            f"counted as true from {100 * ABOUT_75:g}% on.",
            int((saved["sound"] >= ABOUT_75).sum()),
            of,
        ),
        Finding(
            f"the closed form 4.2 saves more than 50% (for eps' up to {SCRIPT:g}, as in the authors' script).",
            f"it saves {spread(100 * saved['analytic'][within], '%')}; beyond, up to eps' = {target.max():g}, "
            f"{spread(100 * saved['analytic'][~within].clip(lower=-1), '%')}.",
            int((saved["analytic"] > HALF)[within].sum()),
            int(within.sum()),
        ),
        Finding(
            "(here) the published value is at least the exact one of user 1's message among the fakes or dummies.",
            f"it departs from it by {100 * shift.min():.2g}% to {100 * shift.max():.2g}% of eps and is below it at "
            f"{int(lowest.sum())} of {of} points.",
            int((~lowest).sum()),
            of,
        ),
    ]
    if "lower" not in wide:
        return findings
    gap = wide["sound"] / wide["lower"]
    return [
        *findings,
        Finding(
            "(here) nothing is lost by hiding user 1's message among the fakes alone, without the others' real messages.",
            f"with them, a data set attains a lower bound; the sound eps is {spread(gap)} times that.",
            int((gap <= 1 + BRACKET).sum()),
            of,
        ),
    ]


FAKE_USERS = Piece(
    "fig3",
    "Figure 3: Cheu and Zhilyaev's fake users, one fake per user, delta = 0.01/n",
    fake_users,
    tuple({"n": n, "target": target} for n in USERS for target in TARGETS),
    draw,
    judge,
    remark="For few users and a small eps' the original analysis asks for more than one fake user each: no point there.",
)
BALLS = Piece(
    "fig4",
    "Figure 4: balls into bins, delta = 0.01/n",
    balls,
    tuple({"n": n, "d": d, "target": target} for n in USERS for d in BINS for target in TARGETS),
    draw,
    judge,
)
