"""Discussion: clones of each randomizer against the local eps, and whether amplification is utility."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from .._resumable import Rows
from ..bounds import calibrate, epsilon
from ..bounds.api import amplification_ratio
from ..mechanisms import (
    GRR,
    OUE,
    PCKVGRR,
    RAPPOR,
    Collision,
    Duchi,
    HadamardResponse,
    Harmony,
    KSubset,
    Laplace,
    LocalHash,
    Piecewise,
    PrivSet,
    PrivUnit,
    SamplingRAPPOR,
    Wheel,
)
from ..randomizer import Randomizer
from .pictures import DASHED, DOTTED, line, panels
from .piece import Finding, Piece, spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

USERS = 10**5
# Each randomizer from its local budget, by the kind of its data; what is not said is its utility-optimal choice.
KINDS: dict[str, dict[str, Callable[[float], Randomizer]]] = {
    "categories, d = 64": {
        "GRR": partial(GRR, d=64),
        "k-subset": partial(KSubset, d=64),
        "local hash": partial(LocalHash, d=64),
        "Hadamard": partial(HadamardResponse, d=64),
        "RAPPOR": partial(RAPPOR, d=64),
        "OUE": partial(OUE, d=64),
    },
    "sets and key-value pairs, d = 64, s = 4": {
        "PrivSet": partial(PrivSet, d=64, s=4),
        "Collision": partial(Collision, d=64, s=4),
        "Wheel": partial(Wheel, d=64, s=4),
        "sampling RAPPOR": partial(SamplingRAPPOR, d=64, s=4),
        "PCKV-GRR": partial(PCKVGRR, d=64, s=4),
    },
    "numbers and vectors": {
        "Laplace": partial(Laplace, low=-1.0, high=1.0),
        "Piecewise": Piecewise,
        "Duchi, 1 number": Duchi,
        "Duchi, 8 numbers": partial(Duchi, dim=8),
        "Harmony, 8 numbers": partial(Harmony, dim=8),
        "PrivUnit, 16 dimensions": partial(PrivUnit, dim=16),
    },
}
LOCAL = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
# Randomizers whose errors can be compared: all of categories, and those of one number in [-1, 1].
COMPARED = {name: kind for kind, made in KINDS.items() for name in made if "cat" in kind} | dict.fromkeys(
    ("Laplace", "Piecewise", "Duchi, 1 number"), "a number in [-1, 1]"
)
CENTRAL = (0.03, 0.1, 0.3, 1.0)
# Relative distance from which two numbers differ; numbers that stand for all in [-1, 1].
DIFFER, GRID = 1e-3, 1001


def clone_rows(kind: str, randomizer: str) -> Rows:
    """What hides a report, by the declaration and by the law, and what it comes to for `USERS` users at delta = 0.01/n.

    Parameters
    ----------
    kind, randomizer : str
        Keys of `KINDS`.

    Notes
    -----
    `clones` is 2r = 2 beta p/((p-1) q), the probability that another report is a clone of the parts that tell user 1's inputs
    apart; `hiding` adds omega/q_star, the clones of the neutral part; `blanket` is the mass that the law has for every input,
    None where it is not in closed form.
    """
    found = []
    for epsilon0 in LOCAL:
        x = KINDS[kind][randomizer](epsilon0)
        declared, masses = x.amplification, [group.floor.sum() for group in x.groups() if group.floor is not None]
        central = float(epsilon(x, USERS, 0.01 / USERS))
        found.append(
            {
                "epsilon0": epsilon0,
                "beta": declared.beta,
                "clones": declared.r0 + declared.r1,
                "hiding": declared.r0 + declared.r1 + declared.omega / declared.neutral_q,
                "blanket": float(max(masses)) if masses else None,
                "stronger_clone": 2 / (math.exp(epsilon0) + 1),
                "clone": math.exp(-epsilon0),
                "central": central,
                "amplification_ratio": amplification_ratio(epsilon0, central),
            }
        )
    return found


def draw_clones(table: pd.DataFrame) -> Figure:
    """Above the clone probabilities, below the amplification ratios; one column for each kind of data."""
    kinds = list(dict.fromkeys(table["kind"]))
    figure, axes = panels(2, len(kinds), 8, 1, sharex=True, sharey="row")
    for column, kind in enumerate(kinds):
        above, below = axes[column], axes[column + len(kinds)]
        here = table[table["kind"] == kind]
        for place, (name, curve) in enumerate(here.groupby("randomizer", sort=False)):
            for ax, what in ((above, "clones"), (below, "amplification_ratio")):
                line(ax, curve["epsilon0"].to_numpy(), curve[what].to_numpy(), place, str(name))
        one = here[here["randomizer"] == here["randomizer"].iloc[0]]
        for what, style, label in (("stronger_clone", DASHED, "stronger clone"), ("clone", DOTTED, "clone, $e^{-eps}$")):
            above.plot(one["epsilon0"], one[what], style, color="black", linewidth=1.8, label=label)
        above.set_title(kind, fontsize="small")
        above.set(yscale="log")
        below.set(yscale="log", xlabel="local eps")
        handles = above.get_legend_handles_labels()
        below.legend(*handles, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, fontsize="small", handlelength=3)
    axes[0].set_ylabel("clone probability 2r")
    axes[len(kinds)].set_ylabel("amplification ratio")
    return figure


def judge_clones(table: pd.DataFrame) -> list[Finding]:
    """Clones against the general ones, against the blanket, and against amplification."""
    share = table["clones"] / table["stronger_clone"]
    known = table.dropna(subset="blanket")
    gain = known["blanket"] / known["hiding"]
    agree, pairs = concordant(table, ["epsilon0"], "clones", "amplification_ratio")
    more = table["clones"] > table["clone"]
    return [
        Finding(
            "(here) no randomizer has a larger clone probability 2r than the stronger clone, 2/(e^eps0 + 1).",
            f"2r is {spread(share)} times that of the stronger clone.",
            int((share <= 1 + DIFFER).sum()),
            len(table),
        ),
        Finding(
            "(here) it has a larger one than the clone, e^-eps0.",
            f"2r is {spread(table['clones'] / table['clone'])} times e^-eps0.",
            int(more.sum()),
            len(table),
        ),
        Finding(
            "(here) at the same local eps, the randomizer with more clones is amplified more.",
            f"the one with fewer is amplified more in {pairs - agree} of {pairs} pairs that differ: where p = q, 2r is "
            "proportional to the total variation beta, which is what has to be hidden.",
            agree,
            pairs,
        ),
        Finding(
            "(here) the mass that the law has for every input is at least what the declaration hides with, 2r + omega/q*.",
            f"it is {spread(gain)} times that.",
            int((gain >= 1 - DIFFER).sum()),
            len(known),
        ),
    ]


def concordant(table: pd.DataFrame, within: list[str], one: str, other: str) -> tuple[int, int]:
    """Pairs of rows that agree in `within` and are in the same order by two columns; pairs that differ in both."""
    same = of = 0
    for _, rows in table.groupby(within):
        for a, b in combinations(rows[[one, other]].to_numpy(), 2):
            first, second = (math.log(x / y) for x, y in zip(a, b, strict=True))
            if min(abs(first), abs(second)) > DIFFER:
                same, of = same + (first * second > 0), of + 1
    return same, of


def utility_rows(randomizer: str, fixed: str, value: float) -> Rows:
    """Error, local and central eps and amplification of one randomizer for `USERS` users at delta = 0.01/n.

    Parameters
    ----------
    randomizer : str
        A key of `COMPARED`.
    fixed : {"local", "central"}
        Which eps has the value; a central one is met by the largest local budget that keeps it.
    value : float
        In nats.

    Notes
    -----
    `mse` is the exact mean squared error: of the frequency of a category, the same for all data on average, or of the mean of
    numbers that fill [-1, 1] evenly.
    """
    make = next(made[randomizer] for made in KINDS.values() if randomizer in made)
    delta = 0.01 / USERS
    x: Any = make(value) if fixed == "local" else calibrate(make, USERS, delta, value).x
    central = float(epsilon(x, USERS, delta))
    categories = x.domain.target == "count"
    values = x.domain.validate(np.arange(x.domain.d) if categories else np.linspace(-1, 1, GRID))
    variance = np.mean(x.variance(x.domain.total(values) * (USERS / len(values)), USERS))
    return [
        {
            "kind": COMPARED[randomizer],
            "epsilon0": x.epsilon,
            "central": central,
            "amplification_ratio": amplification_ratio(x.epsilon, central),
            "mse": float(variance / USERS**2 if categories else variance),
        }
    ]


def draw_utility(table: pd.DataFrame) -> Figure:
    """One row for each kind of data: error against central eps, and against the amplification ratio, as the local eps grows."""
    kinds = list(dict.fromkeys(table["kind"]))
    figure, axes = panels(len(kinds), 2, sharex="col", sharey="row")
    for left, right, kind in zip(axes[::2], axes[1::2], kinds, strict=True):
        here = table[(table["kind"] == kind) & (table["fixed"] == "local")]
        for place, (name, curve) in enumerate(here.groupby("randomizer", sort=False)):
            for ax, across in ((left, "central"), (right, "amplification_ratio")):
                line(ax, curve[across].to_numpy(), curve["mse"].to_numpy(), place, str(name))
        left.set(xscale="log", yscale="log", ylabel="mean squared error")
        right.set(xscale="log", yscale="log")
        left.set_title(kind, fontsize="small")
        left.legend(loc="lower left", frameon=False, fontsize="small", handlelength=3)
    left.set_xlabel("central eps")
    right.set_xlabel("amplification ratio")
    return figure


def judge_utility(table: pd.DataFrame) -> list[Finding]:
    """Whether amplification is utility, and which randomizer is best."""
    local, central = (table[table["fixed"] == fixed] for fixed in ("local", "central"))
    found = []
    for kind, here in central.groupby("kind", sort=False):
        wide = here.pivot_table(index="value", columns="randomizer", values="mse")
        least = wide.le(wide.min(axis=1) * (1 + DIFFER), axis=0)
        names = ", ".join(f"{' and '.join(least.columns[row])} at {value:g}" for value, row in least.iterrows())
        found.append(
            Finding(
                f"(here) {kind}: one randomizer has the least error at every central eps.",
                f"the least has {names}; the largest error is {spread(wide.max(axis=1) / wide.min(axis=1))} times the least.",
                int(least.sum().max()),
                len(least),
            )
        )
    for rows, what in ((local, "local"), (central, "central")):
        agree, pairs = concordant(rows, ["kind", "value"], "amplification_ratio", "mse")
        found.append(
            Finding(
                f"(here) at the same {what} eps, the randomizer that is amplified more has the smaller error.",
                f"in {pairs - agree} of {pairs} pairs of randomizers that differ in both.",
                pairs - agree,
                pairs,
            )
        )
    return found


CLONES = Piece(
    "discussion-clones",
    f"Clones against the local eps, and amplification for n = {USERS:,} at delta = 0.01/n",
    clone_rows,
    tuple({"kind": kind, "randomizer": name} for kind, made in KINDS.items() for name in made),
    draw_clones,
    judge_clones,
)
UTILITY = Piece(
    "discussion-utility",
    f"Error against central eps and against amplification, n = {USERS:,}, delta = 0.01/n",
    utility_rows,
    tuple(
        {"randomizer": name, "fixed": fixed, "value": value}
        for name in COMPARED
        for fixed, values in (("local", LOCAL), ("central", CENTRAL))
        for value in values
    ),
    draw_utility,
    judge_utility,
)
