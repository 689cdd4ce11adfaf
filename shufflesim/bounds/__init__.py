"""Bounds on the privacy of shuffled messages: tables of likelihood ratios, one evaluator, named claims."""

from .api import Bounded, bound_table, claims_of, delta, epsilon
from .approach import approach
from .bracket import Bracket
from .calibration import Calibration, UnreachableError, calibrate
from .claim import BOUNDS, Claim
from .composed import Composed, composed_claims
from .composition import Round, compose
from .count import MessageCount, Part
from .crowd import Crowd
from .curve import bound_curve
from .declared import declared_claims_for
from .groups import OutcomeGroups
from .metric import LaplacePair, PlanarLaplacePair
from .pairs import Pairs
from .present import present
from .ratio import VariationRatio
from .renyi import renyi
from .swapped import Swapped
from .table import Table
from .two_level import TwoLevel

__all__ = [
    "BOUNDS",
    "Bounded",
    "Bracket",
    "Calibration",
    "Claim",
    "Composed",
    "Crowd",
    "LaplacePair",
    "MessageCount",
    "OutcomeGroups",
    "Pairs",
    "Part",
    "PlanarLaplacePair",
    "Round",
    "Swapped",
    "Table",
    "TwoLevel",
    "UnreachableError",
    "VariationRatio",
    "approach",
    "bound_curve",
    "bound_table",
    "calibrate",
    "claims_of",
    "compose",
    "composed_claims",
    "declared_claims_for",
    "delta",
    "epsilon",
    "present",
    "renyi",
]
