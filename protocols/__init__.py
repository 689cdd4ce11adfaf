"""Protocols, one file each; imported as `shufflesim.protocols` and under no other name."""

if __name__ != "shufflesim.protocols":
    raise ImportError(f"import this package as shufflesim.protocols, not as {__name__}")

from .balls_into_bins import BallsIntoBins
from .correlated_count import CorrelatedCount
from .invisibility_cloak import InvisibilityCloak
from .negative_binomial_count import NegativeBinomialCount
from .single_message import SingleMessage
from .split_and_mix import SplitAndMix

__all__ = ["BallsIntoBins", "CorrelatedCount", "InvisibilityCloak", "NegativeBinomialCount", "SingleMessage", "SplitAndMix"]
