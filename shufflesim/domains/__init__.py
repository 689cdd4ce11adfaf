"""What a user holds: validation of data, and what is estimated about it."""

from .base import Array, Domain
from .blocks import Blocks, Histogram
from .categories import Categories, Sets, categorical
from .counts import Counts
from .digits import Digits
from .keyvalue import KeyValues
from .numbers import Box, Interval, UnitVectors
from .points import Map, Plane, Points
from .queries import Queries
from .stream import Stream

__all__ = [
    "Array",
    "Blocks",
    "Box",
    "Categories",
    "Counts",
    "Digits",
    "Domain",
    "Histogram",
    "Interval",
    "KeyValues",
    "Map",
    "Plane",
    "Points",
    "Queries",
    "Sets",
    "Stream",
    "UnitVectors",
    "categorical",
]
