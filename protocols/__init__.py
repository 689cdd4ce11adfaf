"""Protocols, one file each; imported as `shufflesim.protocols` and under no other name."""

if __name__ != "shufflesim.protocols":
    raise ImportError(f"import this package as shufflesim.protocols, not as {__name__}")

from .balls_into_bins import BallsIntoBins
from .biased_coin import BiasedCoin
from .binary_expansion_mean import BinaryExpansionMean
from .fake_users import FakeUsers
from .hashed_balls_into_bins import HashedBallsIntoBins
from .mix_dump import MixDUMP
from .pure_dump import PureDUMP
from .recursive_sum import RecursiveSum
from .single_message import SingleMessage
from .uniform_coins import UniformCoins

__all__ = [
    "BallsIntoBins",
    "BiasedCoin",
    "BinaryExpansionMean",
    "FakeUsers",
    "HashedBallsIntoBins",
    "MixDUMP",
    "PureDUMP",
    "RecursiveSum",
    "SingleMessage",
    "UniformCoins",
]
