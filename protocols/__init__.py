"""Protocols, one file each; imported as `shufflesim.protocols` and under no other name."""

if __name__ != "shufflesim.protocols":
    raise ImportError(f"import this package as shufflesim.protocols, not as {__name__}")

from .balls_into_bins import BallsIntoBins
from .biased_coin import BiasedCoin
from .binary_expansion_mean import BinaryExpansionMean
from .correlated_count import CorrelatedCount
from .fake_users import FakeUsers
from .hashed_balls_into_bins import HashedBallsIntoBins
from .invisibility_cloak import InvisibilityCloak
from .mix_dump import MixDUMP
from .negative_binomial_count import NegativeBinomialCount
from .pure_dump import PureDUMP
from .recursive_sum import RecursiveSum
from .single_message import SingleMessage
from .split_and_mix import SplitAndMix
from .uniform_coins import UniformCoins

__all__ = [
    "BallsIntoBins",
    "BiasedCoin",
    "BinaryExpansionMean",
    "CorrelatedCount",
    "FakeUsers",
    "HashedBallsIntoBins",
    "InvisibilityCloak",
    "MixDUMP",
    "NegativeBinomialCount",
    "PureDUMP",
    "RecursiveSum",
    "SingleMessage",
    "SplitAndMix",
    "UniformCoins",
]
