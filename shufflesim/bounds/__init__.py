"""Bounds on the privacy of shuffled messages: tables of likelihood ratios, one evaluator, named claims."""

from .api import Bounded, bound_table, claims_of, delta, epsilon
from .approach import approach
from .bracket import Bracket
from .calibration import Calibration, UnreachableError, calibrate
from .claim import BOUNDS, Claim
from .composed import Composed, composed_claims
from .composition import Round, compose
from .compound import CompoundLaplace, compound
from .count import MessageCount, Part
from .crowd import Crowd
from .curve import bound_curve
from .declared import declared_claims_for
from .directions import Directions
from .discrete_laplace import PolyaDifference, Simulated
from .flooded import Flooded, flooded
from .groups import OutcomeGroups
from .metric import LaplacePair, PlanarLaplacePair
from .negative_binomial import NoisyCount
from .pairs import Pairs
from .present import present
from .ratio import VariationRatio
from .renyi import renyi
from .shares import log_distance
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
    "CompoundLaplace",
    "Crowd",
    "Directions",
    "Flooded",
    "LaplacePair",
    "MessageCount",
    "NoisyCount",
    "OutcomeGroups",
    "Pairs",
    "Part",
    "PlanarLaplacePair",
    "PolyaDifference",
    "Round",
    "Simulated",
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
    "compound",
    "declared_claims_for",
    "delta",
    "epsilon",
    "flooded",
    "log_distance",
    "present",
    "renyi",
]
