"""shufflesim: simulate, bound and validate protocols in the shuffle model of differential privacy."""

from importlib import import_module
from typing import Any

from ._version import __version__
from .bounds import (
    Bracket,
    LaplacePair,
    PlanarLaplacePair,
    Round,
    TwoLevel,
    VariationRatio,
    bound_curve,
    bound_table,
    calibrate,
    compose,
    delta,
    epsilon,
    renyi,
)
from .channel import Channel, ChannelRandomizer
from .comparison import central_error, compare
from .domains import Counts, Map, Plane, Stream, categorical
from .population import Population
from .protocol import Protocol
from .randomizer import Randomizer
from .repeats import Repeats
from .results import Simulation
from .robustness import robustness
from .sampled import Sampled, SampledRandomizer
from .shuffler import Shuffler
from .simulation import simulate
from .utility import error_grid

__all__ = [
    "Bracket",
    "Channel",
    "ChannelRandomizer",
    "Counts",
    "LaplacePair",
    "Map",
    "PlanarLaplacePair",
    "Plane",
    "Population",
    "Protocol",
    "Randomizer",
    "Repeats",
    "Round",
    "Sampled",
    "SampledRandomizer",
    "Shuffler",
    "Simulation",
    "Stream",
    "TwoLevel",
    "VariationRatio",
    "__version__",
    "audit",
    "bound_curve",
    "bound_table",
    "calibrate",
    "categorical",
    "central_error",
    "check_protocol",
    "check_randomizer",
    "compare",
    "compose",
    "delta",
    "epsilon",
    "error_grid",
    "renyi",
    "robustness",
    "shuffle_stream",
    "simulate",
    "sweep",
    "verify",
]

# Imported on first use: they bring SciPy, pandas, matplotlib or mpmath, which a short script may not need.
_LATE_MODULES = (
    "catalogue",
    "datasets",
    "domains",
    "empirical",
    "mechanisms",
    "paper",
    "plots",
    "postprocess",
    "precision",
    "protocols",
    "sweeps",
)
_LATE_NAMES = {
    "audit": "empirical",
    "check_protocol": "empirical",
    "check_randomizer": "empirical",
    "shuffle_stream": "streams",
    "sweep": "sweeps",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    if name in _LATE_MODULES:
        return import_module(f".{name}", __name__)
    if name in _LATE_NAMES:
        return getattr(import_module(f".{_LATE_NAMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATE_MODULES})
