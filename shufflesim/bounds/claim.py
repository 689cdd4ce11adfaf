"""A named bound: what it says, on which side it is, whether it is proved, and what evaluates it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .bracket import Side

# Every name that `bound=` understands, in the order of a bound table; which of them apply depends on what is known of the object.
BOUNDS = (
    "sound",
    "published",
    "three-outcome",
    "blanket",
    "analytic",
    "asymptotic",
    "stronger-clone",
    "stronger-clone-closed",
    "clone",
    "clone-closed",
    "blanket-hoeffding",
    "blanket-bennett",
    "blanket-hoeffding-generic",
    "blanket-bennett-generic",
    "efmrtt19",
    "lower",
    "lower-5.1",
)

# (lower, upper, how): lower <= exact value <= upper.
Ends = tuple[float, float, str]


class Value(Protocol):
    """What evaluates a bound. Hashable; equal values are solved once in a table."""

    def delta(self, eps: float, rtol: float) -> Ends:
        """Ends of delta at any real eps; `rtol` is the relative width to aim at."""

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """Ends of the smallest eps >= 0 at which delta is reached."""

    def limits(self) -> tuple[float, float]:
        """Enclosure of what delta tends to as eps grows."""

    def remark(self, delta: float) -> str:
        """What the reader of a table has to know about the value at this delta; empty if nothing."""


@dataclass(frozen=True)
class Claim:
    """One bound of one randomizer, protocol or declaration for a given crowd.

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
    value : Value
        What evaluates it.
    baseline : bool
        Whether it is offered for comparison only: no candidate for "sound", because it is unproved or another claim is proved to
        be at most as large.
    """

    bound: str
    side: Side
    sound: bool
    source: str
    note: str
    value: Value
    baseline: bool = False
