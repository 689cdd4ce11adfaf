"""Outcomes of a randomizer grouped by likelihood ratios: from the law to the blanket bound and the lower bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .claim import Claim
from .table import Array, MessageCount, Table


@dataclass(frozen=True, eq=False)
class OutcomeGroups:
    """Masses of groups of outcomes for one pair of user 1's inputs and one input of all the others.

    Parameters
    ----------
    first, second : array_like, shape (J,)
        Probabilities of each group under user 1's two inputs; sum 1.
    other : array_like, shape (J,)
        The same under the input that all other users hold; sum 1.
    floor : array_like, shape (J,), or None
        Sum over the group's outcomes of the smallest probability that any input gives them (or less); None if unknown.
    note : str
        Which inputs these are, for the reader of a bound table.

    Notes
    -----
    Within a group all outcomes share the ratios first : second : other : floor. Coarser groups are allowed where `floor` is
    None: merging outcomes can only lower the divergence of one data set, so the lower bound stays one.
    """

    first: Array
    second: Array
    other: Array
    floor: Array | None
    note: str

    def __post_init__(self) -> None:
        for name in ("first", "second", "other", "floor"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))

    def blanket_table(self) -> Table | None:
        """Privacy blanket, optimal decomposition (Balle et al. 2019): floor mass hides, the rest is revealed.

        None where the floor is unknown, or an outcome of user 1 is impossible for some input: nothing hides it then.
        """
        if self.floor is None:
            return None
        # 1 - sum(floor), as a sum of differences that are exact where the two agree.
        return _against(self.floor, self.first, self.second, revealed=max(0.0, float((self.first - self.floor).sum())))

    def homogeneous_table(self) -> Table | None:
        """All others hold one input: the exact divergence of that data set. None where it is not absolutely continuous."""
        return _against(self.other, self.first, self.second, revealed=0.0)


def _against(weight: Array, first: Array, second: Array, revealed: float) -> Table | None:
    possible = (first > 0) | (second > 0)
    if np.any(weight[possible] <= 0):
        return None
    rows = weight > 0
    return Table(
        np.append(weight[rows], revealed),
        np.append(first[rows] / weight[rows], 0.0),
        np.append(second[rows] / weight[rows], 0.0),
    )


def group_claims(groups: tuple[OutcomeGroups, ...], count: MessageCount) -> list[Claim]:
    """Blanket upper bound and homogeneous lower bound, each the worst over the given groups."""
    claims = []
    blankets = _distinct([g.blanket_table() for g in groups])
    pairs = "; ".join(dict.fromkeys(g.note for g in groups))
    if blankets is not None and blankets:
        claims.append(
            Claim(
                "blanket",
                "upper",
                True,
                "Balle et al. 2019, Lemma 5.3 (optimal blanket, evaluated exactly)",
                f"worst of: {pairs}",
                tuple(blankets),
                count,
            )
        )
    lowers = [t for t in (g.homogeneous_table() for g in groups) if t is not None]
    if lowers:
        claims.append(
            Claim(
                "lower",
                "lower",
                True,
                "exact divergence when all others hold one value (docs/soundness.md)",
                f"largest of: {pairs}",
                tuple(_distinct(lowers) or ()),
                count,
            )
        )
    return claims


def _distinct(tables: list[Table | None] | list[Table]) -> list[Table] | None:
    """Drop repeated tables; None if one is missing (the bound does not exist then)."""
    seen: dict[bytes, Table] = {}
    for table in tables:
        if table is None:
            return None
        seen.setdefault(table.key, table)
    return list(seen.values())


def enumerate_groups(channel: Array) -> tuple[OutcomeGroups, ...]:
    """All pairs of inputs and all inputs of the others of a channel matrix, one row an input, one column an outcome.

    Notes
    -----
    d (d-1)/2 * d triples; repeated ones cost nothing later, but d beyond some tens needs the law in closed form.
    """
    floor = channel.min(axis=0)
    inputs = range(channel.shape[0])
    return tuple(
        OutcomeGroups(channel[i], channel[j], channel[k], floor, f"inputs {i}, {j}, others {k}")
        for i in inputs
        for j in inputs
        if i < j
        for k in inputs
    )
