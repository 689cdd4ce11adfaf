"""A named bound: what it says, on which side it is, whether it is proved, and the tables that give its value."""

from __future__ import annotations

from dataclasses import dataclass

from .bracket import Side
from .table import MessageCount, Table


@dataclass(frozen=True)
class Claim:
    """One bound of one randomizer, protocol or declaration at a given number of users.

    Parameters
    ----------
    bound : str
        Its name, as in the `bound=` argument.
    side : {"upper", "lower"}
        On which side of the truth it is meant to be.
    sound : bool
        Whether it is proved to be on that side.
    source, note : str
        Paper and theorem; the condition that decides, or what was maximised over.
    tables : tuple of Table
        The bound is the largest divergence among these, over both directions.
    count : MessageCount
        Number of messages, user 1's included.
    """

    bound: str
    side: Side
    sound: bool
    source: str
    note: str
    tables: tuple[Table, ...]
    count: MessageCount
