"""Local randomizers, one file each; imported as `shufflesim.mechanisms` and under no other name."""

if __name__ != "shufflesim.mechanisms":
    raise ImportError(f"import this package as shufflesim.mechanisms, not as {__name__}")

from .duchi import Duchi
from .grr import GRR
from .harmony import Harmony
from .hierarchical import HierarchicalGRR
from .laplace import Laplace, MetricLaplace
from .local_hash import LocalHash
from .piecewise import Piecewise
from .privunit import PrivUnit
from .randomized_response import RandomizedResponse
from .unary import OUE, RAPPOR

__all__ = [
    "GRR",
    "OUE",
    "RAPPOR",
    "Duchi",
    "Harmony",
    "HierarchicalGRR",
    "Laplace",
    "LocalHash",
    "MetricLaplace",
    "Piecewise",
    "PrivUnit",
    "RandomizedResponse",
]
