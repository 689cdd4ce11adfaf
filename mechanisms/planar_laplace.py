"""Planar Laplace noise on a point: privacy by distance on a plane or a map (geo-indistinguishability).

Source: Andres, Bordenabe, Chatzikokolakis, Palamidessi, "Geo-indistinguishability: differential privacy for location-based
systems", CCS 2013.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shufflesim._checks import EPSILON_MAX, check_epsilon, plain
from shufflesim.bounds import Claim, Crowd, PlanarLaplacePair, VariationRatio
from shufflesim.bounds.continuous import planar_beta
from shufflesim.bounds.planar import REACH_MAX
from shufflesim.domains import Array, Map, Plane, Points
from shufflesim.domains.points import Region
from shufflesim.randomizer import Randomizer


@dataclass(frozen=True)
class PlanarLaplace(Randomizer):
    """A point of a region plus noise of density e^{-eps r} at distance r, up to a constant.

    Parameters
    ----------
    epsilon : float
        Budget per unit of length, in nats; in (0, 700]. The unit is that of a `Plane`'s coordinates, or the named one of a `Map`:
        metres or kilometres.
    region : Plane or Map
        What every point lies in, fixed without looking at the data; epsilon times its diameter must be at most 700.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: points (x, y), or (latitude, longitude) in degrees, shape (n, 2).
    Source: Andres et al., "Geo-indistinguishability", CCS 2013.

    Two points at distance t, measured in the region's plane, are (eps t)-indistinguishable; as a randomizer of the whole region
    it is (eps diameter)-LDP. `pair` is about two points. The radius of the noise is Gamma(2)/eps, the angle uniform.
    Reports are points of the plane around the region's centre, in its unit; noise is added there, and nothing is clipped to the
    region or wrapped around the Earth.

    Examples
    --------
    >>> city = Map(latitude=(40.5, 41.0), longitude=(-74.3, -73.7), unit="km")
    >>> noise = PlanarLaplace(epsilon=0.2, region=city)
    >>> round(noise.local_epsilon, 2)
    15.03
    >>> noise.pair((40.64, -73.78), (40.78, -73.87)).d01 < 4
    True
    """

    epsilon: float
    region: Region

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        Points(self.region)
        if not 0 < self.local_epsilon <= EPSILON_MAX:
            rule = f"epsilon * region.diameter must be in (0, {EPSILON_MAX:g}]"
            raise ValueError(f"{rule}, got {self.epsilon!r} * {self.region.diameter!r}")

    @property
    def domain(self) -> Points:
        """Points of the region."""
        return Points(self.region)

    @property
    def local_epsilon(self) -> float:
        """epsilon times the diameter, for two opposite corners."""
        return self.epsilon * self.region.diameter

    @property
    def amplification(self) -> VariationRatio:
        """p and beta of two opposite corners: both grow with the distance, so that they are right for every pair; q_star = q."""
        return VariationRatio.ldp(self.local_epsilon, planar_beta(self.local_epsilon))

    @property
    def bits(self) -> float:
        """Two doubles."""
        return 128.0

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Points, shape (n, 2) -> points of the plane around the region's centre, shape (n, 2)."""
        n = values.shape[0]
        radius = rng.standard_gamma(2.0, n) / self.epsilon
        angle = rng.uniform(0.0, 2 * math.pi, n)
        return self.region.project(values) + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def aggregate(self, reports: Array) -> Array:
        """Sums of both coordinates, shape (2,)."""
        return reports.sum(axis=0)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean position in the coordinates that users give, not wrapped, shape (2,)."""
        return self.region.locate((aggregate / n)[None])[0]

    def variance(self, total: Array, n: int) -> Array:
        """3/(n eps^2) for each coordinate of the plane: half of E[r^2] = 6/eps^2; back in the units of the data."""
        return self.region.scales**2 * (3 / (n * self.epsilon**2))

    def log_likelihood(self, value: Array, reports: Array) -> Array:
        """-eps times the distance."""
        centre = self.region.project(np.asarray(value, dtype=float)[None])[0]
        return -self.epsilon * np.hypot(*(reports - centre).T)

    def inputs(self) -> Array:
        """Centre and corners, between which the law differs most."""
        halves = np.array(self.region.sides) / 2 * (1 - 1e-12)
        return self.region.unproject(np.array([[0, 0], [-1, -1], [1, 1], [-1, 1], [1, -1]]) * halves)

    def pair(self, x0: Any, x1: Any) -> PlanarLaplacePair:
        """Two points among users in the whole region, as something to bound.

        The bounds are for the disc around the point halfway between the two that reaches to the farthest corner. The blanket
        needs all of the region in it, and a corner beside the two can be farther from their middle than it is from either less
        d01/2.
        """
        points = self.region.project(self.domain.validate([x0, x1]))
        distance = float(np.hypot(*(points[1] - points[0])))
        if distance == 0:
            raise ValueError(f"x0 and x1 must differ, got {plain(x0)!r} twice")
        width, height = np.array(self.region.sides) / 2
        corners = np.array([[sx * width, sy * height] for sx in (-1, 1) for sy in (-1, 1)])
        radius = float(np.hypot(*(corners - points.mean(axis=0)).T).max())
        return PlanarLaplacePair(self.epsilon * distance, self.epsilon * (radius + distance / 2))

    def law_claims(self, crowd: Crowd) -> list[Claim]:
        """Lower bounds of two opposite corners, as far as the quadrature reaches; no pair is proved to be the worst."""
        if self.local_epsilon > REACH_MAX:
            return []
        pair = PlanarLaplacePair(self.local_epsilon, self.local_epsilon)
        return [claim for claim in pair.law_claims(crowd, "two opposite corners") if claim.side == "lower"]

    @classmethod
    def examples(cls) -> Iterator[PlanarLaplace]:
        """A map in kilometres and one in metres, a plane, extreme."""
        yield cls(0.2, Map(latitude=(40.5, 41.0), longitude=(-74.3, -73.7), unit="km"))
        yield cls(0.001, Map(latitude=(-18.0, -16.0), longitude=(178.0, -179.0), unit="m"))
        yield cls(1.0, Plane(x=(0, 2), y=(-1, 1)))
        yield cls(1e-9, Plane(x=(0, 1), y=(0, 1)))
        yield cls(700.0, Plane(x=(0, 0.8), y=(0, 0.6)))
