"""Bounds on the privacy of shuffled messages: tables of likelihood ratios, one evaluator, named claims."""

from .api import BOUNDS, Bounded, bound_table, delta, epsilon
from .bracket import Bracket
from .claim import Claim
from .composition import Round, compose
from .groups import OutcomeGroups
from .ratio import VariationRatio
from .renyi import renyi
from .table import MessageCount, Table

__all__ = [
    "BOUNDS",
    "Bounded",
    "Bracket",
    "Claim",
    "MessageCount",
    "OutcomeGroups",
    "Round",
    "Table",
    "VariationRatio",
    "bound_table",
    "compose",
    "delta",
    "epsilon",
    "renyi",
]
