"""Points of a plane or a map, of which the mean position is estimated."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._checks import check_number, plain
from .base import Array, Target, refuse_missing
from .numbers import WIDTHS, _Numbers

# Mean radius of the Earth in kilometres (IUGG), and the units in which maps are measured, in kilometres.
EARTH_KM = 6371.0088
UNITS = {"m": 1e-3, "km": 1.0}
# Beyond this a degree of longitude shrinks by more than a factor of 11, and a map needs a projection of its own.
LATITUDE_MAX = 85.0


class Region(ABC):
    """A rectangle of the plane, given directly or as part of a map.

    Attributes
    ----------
    labels : ndarray
        Names of the two coordinates that users give.
    """

    @property
    @abstractmethod
    def labels(self) -> Array:
        """Names of the two coordinates."""

    @property
    @abstractmethod
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Smallest and largest value of each coordinate that a user gives."""

    @property
    @abstractmethod
    def sides(self) -> tuple[float, float]:
        """Lengths of the rectangle's sides in the plane."""

    @abstractmethod
    def project(self, values: Array) -> Array:
        """Coordinates that users give -> points of the plane around the rectangle's centre, shape (n, 2)."""

    @abstractmethod
    def unproject(self, points: Array) -> Array:
        """The inverse of `project`, also for points outside of the rectangle."""

    @abstractmethod
    def locate(self, points: Array) -> Array:
        """The same as a linear map, for means and estimates: nothing is wrapped."""

    @abstractmethod
    def displace(self, means: Array) -> Array:
        """The inverse of `locate`."""

    @property
    @abstractmethod
    def scales(self) -> Array:
        """How far each coordinate that users give moves for a unit of length in the plane."""

    @classmethod
    def parse(cls, text: str) -> Region:
        """A region from text: "plane:X0:X1:Y0:Y1" or "map:SOUTH:NORTH:WEST:EAST:UNIT".

        Raises
        ------
        ValueError
            If it is neither, or describes no region.
        """
        kind, *ends = text.split(":")
        try:
            numbers = [float(end) for end in ends[:4]]
        except ValueError:
            numbers = []
        if (kind, len(ends), len(numbers)) == ("plane", 4, 4):
            return Plane(x=(numbers[0], numbers[1]), y=(numbers[2], numbers[3]))
        if (kind, len(ends), len(numbers)) == ("map", 5, 4):
            return Map(latitude=(numbers[0], numbers[1]), longitude=(numbers[2], numbers[3]), unit=ends[4])
        raise ValueError(f"region must be plane:X0:X1:Y0:Y1 or map:SOUTH:NORTH:WEST:EAST:UNIT, got {text!r}")

    @property
    def diameter(self) -> float:
        """Largest distance of two points."""
        return math.hypot(*self.sides)


def _check_ends(name: str, ends: Any, rule: str, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
    try:
        first, second = ends
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a pair of numbers, got {plain(ends)!r}") from None
    return check_number(name, first, rule, low=low, high=high), check_number(name, second, rule, low=low, high=high)


@dataclass(frozen=True)
class Plane(Region):
    """The rectangle x by y of a plane; distances are in the units of the coordinates.

    Examples
    --------
    >>> Plane(x=(0, 3), y=(-2, 2)).diameter
    5.0
    """

    x: tuple[float, float]
    y: tuple[float, float]

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            low, high = _check_ends(name, getattr(self, name), "a pair of finite numbers")
            if not low < high or not WIDTHS[0] <= high - low <= WIDTHS[1]:
                rule = f"a pair low < high with high - low in [{WIDTHS[0]:g}, {WIDTHS[1]:g}]"
                raise ValueError(f"{name} must be {rule}, got {plain(getattr(self, name))!r}")
            object.__setattr__(self, name, (low, high))

    @property
    def labels(self) -> Array:
        """x and y."""
        return np.array(["x", "y"])

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """As given."""
        return self.x, self.y

    @property
    def sides(self) -> tuple[float, float]:
        """Lengths along x and y."""
        return self.x[1] - self.x[0], self.y[1] - self.y[0]

    def locate(self, points: Array) -> Array:
        """The same as `unproject`."""
        return self.unproject(points)

    def displace(self, means: Array) -> Array:
        """The same as `project`."""
        return self.project(means)

    @property
    def scales(self) -> Array:
        """1: the plane's own coordinates."""
        return np.ones(2)

    @property
    def _centre(self) -> Array:
        return np.array([(low + high) / 2 for low, high in self.limits])

    def project(self, values: Array) -> Array:
        """The centre moves to 0."""
        return values - self._centre

    def unproject(self, points: Array) -> Array:
        """Back from the centre."""
        return points + self._centre


@dataclass(frozen=True)
class Map(Region):
    """Latitudes and longitudes in degrees, projected to a plane that is measured in metres or kilometres.

    Parameters
    ----------
    latitude : (float, float)
        South and north end, within [-85, 85].
    longitude : (float, float)
        West and east end, within [-180, 180]; west > east is a map across the date line.
    unit : {"m", "km"}
        Of distances in the plane, hence of 1/epsilon.

    Notes
    -----
    Equirectangular around the middle of the map: x = R cos(lat0) (lon - lon0), y = R (lat - lat0). It is linear, so that the mean
    position is estimated without bias. Distances are true near the middle; away from it, east-west ones are too long by up to
    `distortion`. Points of the plane that lie beyond a pole or the date line come back wrapped around the Earth.

    Examples
    --------
    >>> city = Map(latitude=(48.8, 48.9), longitude=(2.2, 2.5), unit="km")
    >>> round(city.diameter, 2), round(city.distortion, 4)
    (24.61, 1.001)
    """

    latitude: tuple[float, float]
    longitude: tuple[float, float]
    unit: str

    def __post_init__(self) -> None:
        south, north = _check_ends("latitude", self.latitude, "in [-85, 85] degrees", -LATITUDE_MAX, LATITUDE_MAX)
        west, east = _check_ends("longitude", self.longitude, "in [-180, 180] degrees", -180.0, 180.0)
        if not south < north:
            raise ValueError(f"latitude must be a pair south < north, got {plain(self.latitude)!r}")
        if west == east:
            raise ValueError(f"longitude must be a pair of different ends, got {plain(self.longitude)!r}")
        if not isinstance(self.unit, str) or self.unit not in UNITS:
            raise ValueError(f"unit must be 'm' or 'km', got {plain(self.unit)!r}")
        object.__setattr__(self, "latitude", (south, north))
        object.__setattr__(self, "longitude", (west, east))

    @property
    def labels(self) -> Array:
        """latitude and longitude."""
        return np.array(["latitude", "longitude"])

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """As given; across the date line the east end is below the west end."""
        return self.latitude, self.longitude

    @property
    def _span(self) -> float:
        """Degrees of longitude from west to east."""
        west, east = self.longitude
        return (east - west) % 360.0 or 360.0

    @property
    def _scale(self) -> Array:
        """Length in the plane of a degree of longitude, and of latitude."""
        degree = math.radians(1) * EARTH_KM / UNITS[self.unit]
        return np.array([degree * math.cos(math.radians(sum(self.latitude) / 2)), degree])

    @property
    def sides(self) -> tuple[float, float]:
        """East-west and north-south."""
        width, height = self._scale * [self._span, self.latitude[1] - self.latitude[0]]
        return float(width), float(height)

    def locate(self, points: Array) -> Array:
        """(east, north) -> latitude and longitude; across the date line longitudes go on beyond 180."""
        return self._middle + points[:, ::-1] * self.scales

    def displace(self, means: Array) -> Array:
        """Latitude and continued longitude -> (east, north)."""
        return ((means - self._middle) / self.scales)[:, ::-1]

    @property
    def _middle(self) -> Array:
        return np.array([sum(self.latitude) / 2, self.longitude[0] + self._span / 2])

    @property
    def scales(self) -> Array:
        """Degrees of latitude and of longitude."""
        return 1 / self._scale[::-1]

    @property
    def distortion(self) -> float:
        """Length in the plane of an east-west line at the map's edge, over its true length where that is smallest."""
        middle = math.cos(math.radians(sum(self.latitude) / 2))
        return middle / min(math.cos(math.radians(end)) for end in self.latitude)

    def project(self, values: Array) -> Array:
        """(latitude, longitude) -> (east, north) of the middle."""
        east = (values[:, 1] - self.longitude[0]) % 360.0
        # The east end of a map around the whole Earth is its west end.
        east = np.where(values[:, 1] == self.longitude[1], self._span, east) - self._span / 2
        return np.column_stack([east, values[:, 0] - sum(self.latitude) / 2]) * self._scale

    def unproject(self, points: Array) -> Array:
        """(east, north) -> latitude in [-90, 90] and longitude in [-180, 180), around the Earth where it has to be."""
        east, north = (points / self._scale).T
        latitude = (north + sum(self.latitude) / 2 + 180.0) % 360.0 - 180.0
        over = np.abs(latitude) > 90
        latitude = np.where(over, np.copysign(180.0, latitude) - latitude, latitude)
        longitude = east + self._span / 2 + self.longitude[0] + np.where(over, 180.0, 0.0)
        return np.column_stack([latitude, (longitude + 180.0) % 360.0 - 180.0])


@dataclass(frozen=True)
class Points(_Numbers):
    """Points of a region, one row (x, y) or (latitude, longitude) a user; the mean position is estimated.

    Examples
    --------
    >>> Points(Plane(x=(0, 1), y=(0, 1))).validate([[0.5, 2.0]])
    Traceback (most recent call last):
    ...
    ValueError: values must have y in [0, 1], got 2.0 at position 0
    """

    region: Region
    target: ClassVar[Target] = "mean"

    def __post_init__(self) -> None:
        if not isinstance(self.region, Region):
            raise ValueError(f"region must be a Plane or a Map, got {plain(self.region)!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """(2,)."""
        return (2,)

    @property
    def labels(self) -> Array:
        """The region's."""
        return self.region.labels

    def labels_of(self, data: Any) -> Array:
        """The region's."""
        return self.labels

    @property
    def half(self) -> float:
        """Half of the longer side, in the plane."""
        return max(self.region.sides) / 2

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Points -> float64, shape (n, 2); see `Domain.validate`."""
        array = self._numbers(values, "points", offset).astype(float, copy=False)
        refuse_missing(array, offset)
        for column, (label, (low, high)) in enumerate(zip(self.labels, self.region.limits, strict=True)):
            given = array[:, column]
            inside = (given >= low) & (given <= high)
            if low > high:
                inside = (np.abs(given) <= 180) & ((given >= low) | (given <= high))
            if not inside.all():
                bad = int(np.argmin(inside))
                rule = f"{label} in [{low:g}, {high:g}]"
                raise ValueError(f"values must have {rule}, got {given[bad].item()!r} at position {offset + bad}")
        return array

    def scaled(self, values: Array) -> Array:
        """Projected points, in units of `half`."""
        return self.region.project(values) / self.half

    def unscaled(self, means: Array) -> Array:
        """The point of the map or plane."""
        return self.region.locate(self.half * means.reshape(1, 2))[0]

    def plausible(self, estimate: Array, n: int) -> Array:
        """All users at the mean."""
        mean = self.region.displace(estimate.reshape(1, 2))[0] / self.half
        return n * np.array([mean, mean**2])

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform points, more of them in one quarter."""
        share = rng.random((n, 2)) ** 1.5 - 0.5
        return self.region.unproject(share * self.region.sides)

    def refused(self) -> Iterator[Any]:
        """Wrong shapes and types, missing values, points outside."""
        good = self.region.unproject(np.zeros((2, 2)))
        for column in (0, 1):
            for bad in (np.nan, np.inf, self.region.limits[column][1] + 1e-3 * (1 + abs(self.region.limits[column][1]))):
                values = good.copy()
                values[1, column] = bad
                yield values
        yield from (good[:0], good[0], good[:, :1], good.astype(str), good > 0)
