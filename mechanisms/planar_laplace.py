"""Planar Laplace noise on positions: geo-indistinguishability.

Source: Andres, Bordenabe, Chatzikokolakis, Palamidessi, "Geo-indistinguishability: differential privacy for location-based
systems", CCS 2013.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shufflesim._checks import EPSILON_MAX, check_epsilon
from shufflesim.bounds import Claim, Crowd, PlanarLaplacePair, VariationRatio
from shufflesim.bounds.continuous import planar_beta
from shufflesim.bounds.metric import D01_MIN
from shufflesim.bounds.planar import REACH_MAX
from shufflesim.domains import Array, Map, Plane, Points
from shufflesim.domains.points import Region
from shufflesim.randomizer import Randomizer


@dataclass(frozen=True)
class PlanarLaplace(Randomizer):
    """A position plus noise with density ~ e^{-eps r} at distance r: two positions at distance t are eps t-indistinguishable.

    Parameters
    ----------
    epsilon : float
        Budget per unit of length of the region, in nats; in (0, 700]. On a `Map` in kilometres that is per kilometre.
    region : Plane or Map
        Where all positions lie, fixed without looking at the data; epsilon times its diameter at most 700.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Noise: distance ~ Gamma(2, 1/eps), angle uniform; each coordinate has variance 3/eps^2. A report is a point of the region's
    plane, in its unit of length from its centre, and may lie outside of the region.

    The mean position is estimated in the user's coordinates. A `Map` is projected linearly, so that this is unbiased - unless the
    noise is so wide that the estimate itself leaves the map around the Earth.

    As a randomizer it is (eps times diameter)-LDP. `pair` is about two positions.

    Examples
    --------
    >>> from shufflesim.domains import Map
    >>> airports = Map(latitude=(24.5, 49.5), longitude=(-125.0, -66.5), unit="km")
    >>> noise = PlanarLaplace(epsilon=0.002, region=airports)  # 0.2 for two places 100 km apart
    >>> round(noise.local_epsilon, 3)
    11.784
    >>> pair = noise.pair((40.64, -73.78), (40.78, -73.87))  # JFK and LaGuardia
    >>> round(pair.d01, 4), round(pair.d_max, 2)
    (0.035, 9.8)
    """

    epsilon: float
    region: Region

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        diameter = Points(self.region).region.diameter
        if not 0 < self.epsilon * diameter <= EPSILON_MAX:
            rule = f"epsilon must make epsilon times the region's diameter be in (0, {EPSILON_MAX:g}]"
            raise ValueError(f"{rule}, got {self.epsilon!r} * {diameter!r}")

    @property
    def domain(self) -> Points:
        """Points of the region."""
        return Points(self.region)

    @property
    def local_epsilon(self) -> float:
        """epsilon times the region's diameter, for two opposite corners."""
        return self.epsilon * self.region.diameter

    @property
    def amplification(self) -> VariationRatio:
        """p = q = e^local, beta that of two opposite corners: all three grow with the distance, so they hold for every pair."""
        return VariationRatio.ldp(self.local_epsilon, planar_beta(self.local_epsilon))

    @property
    def bits(self) -> float:
        """Two doubles."""
        return 128.0

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Positions, shape (n, 2) -> points of the plane around the region's centre, shape (n, 2)."""
        n = values.shape[0]
        distance = rng.standard_gamma(2.0, n) / self.epsilon
        angle = rng.uniform(0.0, 2 * math.pi, n)
        return self.region.project(values) + distance[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def aggregate(self, reports: Array) -> Array:
        """Their sum, shape (2,)."""
        return reports.sum(axis=0)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean position, shape (2,)."""
        return self.region.unproject(aggregate.reshape(1, 2) / n)[0]

    def variance(self, total: Array, n: int) -> Array:
        """3/eps^2/n in squared units of length, whatever the data; in those of the user's coordinates."""
        return 3 / n * (self.region.steps / self.epsilon) ** 2

    def log_likelihood(self, value: Any, reports: Array) -> Array:
        """-eps times the distance."""
        centre = self.region.project(np.asarray(value, dtype=float).reshape(1, 2))
        return -self.epsilon * np.hypot(*(reports - centre).T)

    def pair(self, x0: Any, x1: Any) -> PlanarLaplacePair:
        """Two positions among users in the whole region, as something to bound.

        The bounds are for the disc around the point halfway between the two that contains the region; its radius must not be more
        than 40/epsilon, less half of the distance.
        """
        ends = np.array([self.domain.validate(np.array([x]))[0] for x in (x0, x1)])
        first, second = self.region.project(ends)
        distance = float(np.hypot(*(second - first)))
        if not self.epsilon * distance >= D01_MIN:
            raise ValueError(f"x0 and x1 must be at least {D01_MIN:g}/epsilon apart, got {x0!r} and {x1!r}")
        corners = np.array(self.region.sides) / 2 * [[1, 1], [1, -1], [-1, 1], [-1, -1]]
        radius = float(np.hypot(*(corners - (first + second) / 2).T).max())
        return PlanarLaplacePair(self.epsilon * distance, self.epsilon * (radius + distance / 2))

    def law_claims(self, crowd: Crowd) -> list[Claim]:
        """Lower bounds for two opposite corners, up to a local budget of 40; no pair is known to be the blanket's worst."""
        local = self.local_epsilon
        if not D01_MIN <= local <= REACH_MAX:
            return []
        claims = PlanarLaplacePair(local, local).law_claims(crowd, "two opposite corners")
        return [claim for claim in claims if claim.side == "lower"]

    @classmethod
    def examples(cls) -> Iterator[PlanarLaplace]:
        """Typical on a map and on a plane, extreme."""
        yield cls(epsilon=0.2, region=Map(latitude=(48.8, 48.9), longitude=(2.2, 2.5), unit="km"))
        yield cls(epsilon=1.0, region=Plane(x=(0.0, 3.0), y=(-2.0, 2.0)))
        yield cls(epsilon=1e-9, region=Plane(x=(0.0, 1.0), y=(0.0, 1.0)))
        yield cls(epsilon=0.02, region=Map(latitude=(-20.0, -10.0), longitude=(178.0, -170.0), unit="km"))
