"""Bounds on the privacy of shuffled messages: tables of likelihood ratios, one evaluator, named claims."""

from .api import Bounded, bound_table, claims_of, delta, epsilon
from .bracket import Bracket
from .claim import BOUNDS, Claim
from .crowd import Crowd
from .declared import declared_claims_for
from .groups import OutcomeGroups
from .pairs import Pairs
from .ratio import VariationRatio
from .table import MessageCount, Table

__all__ = [
    "BOUNDS",
    "Bounded",
    "Bracket",
    "Claim",
    "Crowd",
    "MessageCount",
    "OutcomeGroups",
    "Pairs",
    "Table",
    "VariationRatio",
    "bound_table",
    "claims_of",
    "declared_claims_for",
    "delta",
    "epsilon",
]
