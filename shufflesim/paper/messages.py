"""Discussion: messages, bits and error of multi-message protocols against the central eps that they keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .._resumable import Rows
from ..bounds import epsilon
from ..mechanisms import GRR
from ..protocol import Protocol
from ..protocols import (
    BallsIntoBins,
    BiasedCoin,
    FakeUsers,
    HashedBallsIntoBins,
    MixDUMP,
    PureDUMP,
    SingleMessage,
    UniformCoins,
)
from .pictures import DOTTED, SOLID, legend_below, line, panels
from .piece import Finding, Piece, spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Users, delta = 0.01/n; categories; buckets of hashed bins; most dummies or fakes per user that are tried where they are whole.
USERS, D, BUCKETS, MOST = 10**5, 16, 256, 64
TARGETS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
SINGLE, ONE_BIT = "one message, GRR", "uniform coins, one bit"
# The calibrations of each protocol; a parameter named last is the least whole number from which on they can be met.
PROTOCOLS: dict[str, tuple[type[Protocol], dict[str, object], str]] = {
    "balls into bins": (BallsIntoBins, {"d": D}, ""),
    f"hashed bins, {BUCKETS} buckets": (HashedBallsIntoBins, {"d": D, "buckets": BUCKETS}, ""),
    "pureDUMP": (PureDUMP, {"d": D}, ""),
    "mixDUMP": (MixDUMP, {"d": D}, "dummies"),
    "fake users": (FakeUsers, {"d": D}, "fakes"),
    "biased coins": (BiasedCoin, {"d": D}, ""),
    ONE_BIT: (UniformCoins, {}, ""),
    SINGLE: (SingleMessage, {"randomizer": GRR(1.0, D)}, ""),
}
# Relative width of a bracket of eps; "about 75%", from here on.
BRACKET, ABOUT_75 = 2e-6, 0.70


def made(protocol: str, way: str, target: float) -> Protocol:
    """A protocol by one of its calibrations.

    Raises
    ------
    ValueError
        If it does not apply, or no parameter is enough.
    """
    cls, parameters, whole = PROTOCOLS[protocol]
    calibrated: Callable[..., Protocol] = partial(getattr(cls, way), target, 0.01 / USERS, USERS, **parameters)
    if not whole:
        return calibrated()
    for number in range(1, MOST):
        try:
            return calibrated(**{whole: number})
        except ValueError:
            continue
    return calibrated(**{whole: MOST})


def rows(protocol: str, target: float) -> Rows:
    """Cost and error of one protocol by exact accounting (`for_target`) and by its own paper's calibration (`original`).

    Parameters
    ----------
    protocol : str
        A key of `PROTOCOLS`.
    target : float
        Central eps in nats at delta = 0.01/n, n = `USERS`.

    Notes
    -----
    `rmse` is the exact one of a count of users, for equal counts; `central` the sound central eps of what was made. A calibration
    that does not apply leaves them out, and `note` says why.
    """
    found = []
    for way in ("for_target", "original")[: 1 if protocol == SINGLE else 2]:
        row: dict[str, object] = dict.fromkeys(("messages", "bits", "rmse", "central")) | {"way": way, "note": ""}
        try:
            x = made(protocol, way, target)
        except ValueError as error:
            row["note"] = str(error)
        else:
            categories = len(x.domain.labels)
            row["messages"] = x.messages_per_user
            row["bits"] = x.messages_per_user * x.bits_per_message
            row["rmse"] = float(np.sqrt(np.mean(x.variance(np.full(categories, USERS / categories), USERS))))
            row["central"] = float(epsilon(x, USERS, 0.01 / USERS))
        found.append(row)
    return found


def draw(table: pd.DataFrame) -> Figure:
    """Messages, bits and error against the central eps promised: exact accounting and, dotted, the protocol's own paper."""
    names = list(dict.fromkeys(table["protocol"]))
    figure, axes = panels(1, 3, 2 + len(names), 3, sharex=True)
    for place, name in enumerate(names):
        here = table[table["protocol"] == name].sort_values("target")
        for way, style in (("for_target", SOLID), ("original", DOTTED)):
            curve = here[here["way"] == way].dropna(subset="messages")
            for ax, what in zip(axes, ("messages", "bits", "rmse"), strict=True):
                line(ax, curve["target"].to_numpy(), curve[what].to_numpy(), place, name if style == SOLID else "_", style)
    for ax, label in zip(axes, ("messages per user", "bits per user", "root mean square error (users)"), strict=True):
        ax.set(xscale="log", yscale="log", xlabel="central eps promised", ylabel=label)
    for style, label in ((SOLID, "exact accounting"), (DOTTED, "the protocol's own paper")):
        axes[0].plot([], [], style, color="black", label=label)
    legend_below(figure, axes)
    return figure


def judge(table: pd.DataFrame) -> list[Finding]:
    """What exact accounting saves, and what several messages are worth."""
    key = ["protocol", "target"]
    exact, paper = (table[table["way"] == way].set_index(key).dropna(subset="messages") for way in ("for_target", "original"))
    both = exact.index.intersection(paper.index)
    central = paper["central"] / paper.index.get_level_values("target")
    saved = 1 - central
    # A user's own message is sent in any case.
    more = (paper.loc[both, "messages"] - 1) / (exact.loc[both, "messages"] - 1)
    error = paper.loc[both, "rmse"] / exact.loc[both, "rmse"]
    wide = exact.pivot_table(index="target", columns="protocol", values="rmse").drop(columns=ONE_BIT, errors="ignore")
    wide = (
        wide.dropna(axis=1, how="all")
        .reindex(columns=[SINGLE, *wide.columns.drop(SINGLE, errors="ignore")])
        .dropna(subset=[SINGLE])
    )
    single, several = wide[SINGLE], wide.drop(columns=SINGLE)
    names = ", ".join(several.idxmin(axis=1).astype(str).unique())
    means = "; ".join(f"{name}: {spread(100 * part, '%')}" for name, part in saved.groupby("protocol", sort=False))
    return [
        Finding(
            "about 75% of the budget, or more, is saved for multi-message protocols (here also those of no figure).",
            f"exact accounting of the calibrations of the protocols' own papers saves {means}; counted as true from "
            f"{100 * ABOUT_75:g}% on.",
            int((saved >= ABOUT_75).sum()),
            len(saved),
        ),
        Finding(
            "(here) calibrations of the protocols' own papers keep the central eps that they promise.",
            f"the exact eps is {spread(central)} times the promised one.",
            int((central <= 1 + BRACKET).sum()),
            len(central),
        ),
        Finding(
            "(here) exact accounting needs fewer messages for the same promise.",
            f"the papers send {spread(more)} times as many beside a user's own. Biased coins send less the more they hide, and "
            "whole numbers of dummies or coins can be the same.",
            int((more > 1).sum()),
            len(more),
        ),
        Finding(
            "(here) exact accounting gives a smaller error for the same promise.",
            f"the error by the papers is {spread(error)} times as large.",
            int((error > 1).sum()),
            len(error),
        ),
        Finding(
            f"(here) several messages give smaller errors than one, GRR on {D} categories, at equal central eps.",
            f"the least error of several ({names}) is {spread(several.min(axis=1) / single)} times that of GRR; "
            f"{int(several.lt(single, axis=0).sum().sum())} of all {int(several.notna().sum().sum())} errors are smaller.",
            int((several.min(axis=1) < single).sum()),
            len(single),
        ),
    ]


MESSAGES = Piece(
    "discussion-messages",
    f"Messages, bits and error against central eps, n = {USERS:,}, d = {D}, delta = 0.01/n",
    rows,
    tuple({"protocol": protocol, "target": target} for protocol in PROTOCOLS for target in TARGETS),
    draw,
    judge,
    remark="MixDUMP and fake users have as few dummies or fakes as can keep the promise, and flip what they must. Where one "
    "dummy or coin is more than enough, what is saved is in part due to whole numbers.",
)
