"""Protocols, one file each; imported as `shufflesim.protocols` and under no other name."""

if __name__ != "shufflesim.protocols":
    raise ImportError(f"import this package as shufflesim.protocols, not as {__name__}")

from .balls_into_bins import BallsIntoBins
from .hashed_balls_into_bins import HashedBallsIntoBins
from .mix_dump import MixDUMP
from .pure_dump import PureDUMP
from .single_message import SingleMessage

__all__ = ["BallsIntoBins", "HashedBallsIntoBins", "MixDUMP", "PureDUMP", "SingleMessage"]
