"""shufflesim: simulate, bound and validate protocols in the shuffle model of differential privacy."""

from ._version import __version__
from .bounds import Bracket, VariationRatio, bound_table, delta, epsilon
