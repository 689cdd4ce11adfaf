"""Outcomes of a randomizer grouped by likelihood ratios: from the law to the blanket bound and the lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .claim import Claim
from .continuous import Enclosure
from .count import MessageCount
from .crowd import Crowd
from .pairs import Pairs
from .table import Array, Table
from .tails import TableBlanket, Tail


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

    def sign_table(self) -> Table | None:
        """The same with outcomes merged by the sign of first - second (Wang et al. 2024, Theorem 5.1)."""
        sign = np.sign(self.first - self.second).astype(int) + 1
        other, first, second = (
            np.bincount(sign, weights=masses, minlength=3) for masses in (self.other, self.first, self.second)
        )
        return _against(other, first, second, revealed=0.0)


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


def group_claims(groups: tuple[OutcomeGroups, ...], crowd: Crowd, local: float) -> list[Claim]:
    """Blanket upper bounds and homogeneous lower bounds, each the worst over the given groups."""
    blankets = _distinct([g.blanket_table() for g in groups])
    lowers = _distinct([t for t in (g.homogeneous_table() for g in groups) if t is not None])
    inputs = "; ".join(dict.fromkeys(g.note for g in groups))
    return [
        *blanket_claims([Enclosure(t, t) for t in blankets], crowd, local, f"worst of: {inputs}"),
        *lower_claims([Enclosure(t, t) for t in lowers], crowd, f"largest of: {inputs}"),
        *sign_claims(groups, crowd, f"largest of: {inputs}"),
    ]


def blanket_claims(blankets: Sequence[Enclosure], crowd: Crowd, local: float, note: str, accuracy: float = 0.0) -> list[Claim]:
    """The optimal blanket, given by tables around it, and its looser forms; `note` says what the worst was taken over."""
    if not blankets:
        return []
    source = "Balle et al. 2019, Lemma 5.3 (optimal blanket, evaluated exactly)"
    claims = [Claim("blanket", "upper", True, source, note, _value(blankets, crowd, accuracy))]
    if crowd.complete:
        blanket = TableBlanket(tuple(upper for _, upper in blankets))
        note = f"gamma = {blanket.gamma:.4g}, range and variance of this law; a looser form of blanket"
        for bound, bennett in (("blanket-hoeffding", False), ("blanket-bennett", True)):
            source = f"Balle et al. 2019, {'Bennett' if bennett else 'Hoeffding'}"
            claims.append(Claim(bound, "upper", True, source, note, Tail(blanket, crowd.n, local, bennett), baseline=True))
    return claims


def lower_claims(lowers: Sequence[Enclosure], crowd: Crowd, note: str, accuracy: float = 0.0) -> list[Claim]:
    """The exact divergence of data sets in which all others hold one value, given by tables around it."""
    if not lowers:
        return []
    source = "exact divergence when all others hold one value (docs/theory.md)"
    return [Claim("lower", "lower", True, source, note, _value(lowers, crowd, accuracy))]


def _value(found: Sequence[Enclosure], crowd: Crowd, accuracy: float) -> Pairs:
    below, above = (tuple(crowd.spread(table) for table in tables) for tables in zip(*found, strict=True))
    finite = all(lower is upper for lower, upper in found)
    return Pairs(below, MessageCount(crowd.n), None if finite else above, accuracy)


def sign_claims(groups: tuple[OutcomeGroups, ...], crowd: Crowd, note: str) -> list[Claim]:
    """The lower bound of Theorem 5.1."""
    signs = _distinct([t for t in (g.sign_table() for g in groups) if t is not None])
    if not signs:
        return []
    source = "Wang et al. 2024, Theorem 5.1 (reports merged by the sign of R0 - R1)"
    value = Pairs(tuple(crowd.spread(t) for t in signs), MessageCount(crowd.n))
    return [Claim("lower-5.1", "lower", True, source, note, value)]


def _distinct(tables: list[Table | None]) -> tuple[Table, ...]:
    """Drop repeated tables; none if one is missing (the bound does not exist then)."""
    seen: dict[bytes, Table] = {}
    for table in tables:
        if table is None:
            return ()
        seen.setdefault(table.key, table)
    return tuple(seen.values())


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
