"""Local randomizers, one file each; imported as `shufflesim.mechanisms` and under no other name."""

if __name__ != "shufflesim.mechanisms":
    raise ImportError(f"import this package as shufflesim.mechanisms, not as {__name__}")

from .collision import Collision
from .duchi import Duchi
from .grr import GRR
from .hadamard import HadamardResponse
from .harmony import Harmony
from .hierarchical import HierarchicalGRR
from .ksubset import KSubset
from .laplace import Laplace, MetricLaplace
from .local_hash import LocalHash
from .parallel import Parallel
from .piecewise import Piecewise
from .planar_laplace import PlanarLaplace
from .privset import PrivSet
from .privunit import PrivUnit
from .randomized_response import RandomizedResponse
from .sampling_rappor import SamplingRAPPOR
from .unary import OUE, RAPPOR
from .wheel import Wheel
from .witch_hat import WitchHat

__all__ = [
    "GRR",
    "OUE",
    "RAPPOR",
    "Collision",
    "Duchi",
    "HadamardResponse",
    "Harmony",
    "HierarchicalGRR",
    "KSubset",
    "Laplace",
    "LocalHash",
    "MetricLaplace",
    "Parallel",
    "Piecewise",
    "PlanarLaplace",
    "PrivSet",
    "PrivUnit",
    "RandomizedResponse",
    "SamplingRAPPOR",
    "Wheel",
    "WitchHat",
]
