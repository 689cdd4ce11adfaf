"""Bounds on the privacy of shuffled messages: tables of likelihood ratios, one evaluator, named claims."""

from .api import BOUNDS, Bounded, bound_table, delta, epsilon
from .bracket import Bracket
from .claim import Claim
from .count import MessageCount, Part
from .groups import OutcomeGroups
from .ratio import VariationRatio
from .table import Table

__all__ = [
    "BOUNDS",
    "Bounded",
    "Bracket",
    "Claim",
    "MessageCount",
    "OutcomeGroups",
    "Part",
    "Table",
    "VariationRatio",
    "bound_table",
    "delta",
    "epsilon",
]
