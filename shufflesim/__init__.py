"""shufflesim: simulate, bound and validate protocols in the shuffle model of differential privacy."""

from importlib import import_module
from typing import Any

from ._version import __version__
from .bounds import Bracket, VariationRatio, bound_table, delta, epsilon
from .domains import categorical
from .empirical import check_protocol, check_randomizer
from .protocol import Protocol
from .randomizer import ChannelRandomizer, Randomizer
from .results import Simulation
from .shuffler import Shuffler
from .simulation import simulate

__all__ = [
    "Bracket",
    "ChannelRandomizer",
    "Protocol",
    "Randomizer",
    "Shuffler",
    "Simulation",
    "VariationRatio",
    "__version__",
    "bound_table",
    "categorical",
    "check_protocol",
    "check_randomizer",
    "delta",
    "epsilon",
    "simulate",
]

# Imported on first use: they bring pandas, matplotlib or mpmath, which a short script may not need.
_LATE = ("catalogue", "datasets", "domains", "mechanisms", "plots", "precision", "protocols")


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATE})
