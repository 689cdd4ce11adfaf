"""Central indistinguishability of two points under noise on a line or in the plane (metric differential privacy).

Source: Wang et al., PVLDB 17(8), 2024: p = e^d01, q = e^dmax, with d01 the distance of the two points and dmax the largest
distance between one of them and an input of the others, in units of the noise's scale. Inputs lie in the interval or disc of
radius dmax - d01/2 around the point halfway between the two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from .._checks import check_number
from .claim import Claim
from .continuous import EXPONENT_MAX, clone_probabilities, laplace_beta, laplace_tables, planar_beta
from .crowd import Crowd
from .groups import OutcomeGroups, blanket_claims, lower_claims, sign_claims
from .planar import ACCURACY, REACH_MAX, planar_tables
from .ratio import VariationRatio
from .table import Array

# Covers the roundings of e^d and of a total variation in double precision, taken to the safe side.
ROUND_UP = 1 + 4e-16
# Nearer points are told apart by nothing that a double can hold.
D01_MIN = 1e-12
# Angles of a quarter of the rim that are looked at.
ANGLES = 2001


@dataclass(frozen=True)
class MetricPair(ABC):
    """Two points among users who are all near them; anything that `ss.epsilon` takes.

    Parameters
    ----------
    d01 : float
        Distance of the two points in units of the noise's scale; at least 1e-12.
    d_max : float
        Largest distance from one of the points to an input of any user; >= d01. The users' inputs are taken to fill the interval
        (or disc) of radius d_max - d01/2 around the point halfway between the two.
    """

    d01: float
    d_max: float

    def __post_init__(self) -> None:
        nearest = f"a finite number >= {D01_MIN:g}"
        object.__setattr__(self, "d01", check_number("d01", self.d01, nearest, low=D01_MIN))
        rule = f"a number in [d01, {self._reach():g}]"
        object.__setattr__(self, "d_max", check_number("d_max", self.d_max, rule, low=self.d01, high=self._reach()))

    @staticmethod
    @abstractmethod
    def _reach() -> float:
        """Largest d_max."""

    @property
    @abstractmethod
    def beta(self) -> float:
        """Total variation between the noise around the two points."""

    @property
    def radius(self) -> float:
        """Of the interval or disc of all inputs, whose centre is halfway between the two points."""
        return self.d_max - self.d01 / 2

    @property
    def local_epsilon(self) -> float:
        """d01, rounded up."""
        return math.nextafter(self.d01 * ROUND_UP, math.inf)

    @property
    def amplification(self) -> VariationRatio:
        """p = e^d01, q = e^dmax, q_star = q."""
        p = math.nextafter(math.exp(self.d01) * ROUND_UP, math.inf)
        q = math.nextafter(math.exp(self.d_max) * ROUND_UP, math.inf)
        return VariationRatio(p, min(self.beta * ROUND_UP, (p - 1) / (p + 1)), max(p, q))

    @property
    def clone_probabilities(self) -> tuple[float, float]:
        """2r of the declaration, and the earlier bound 2/max over x of (e^d(x,x0) + e^d(x,x1))."""
        reduction, _ = clone_probabilities(self.d01, self.d_max, self.beta)
        return reduction, 2 / self._farthest_sum()

    @abstractmethod
    def _farthest_sum(self) -> float:
        """max over the users' inputs x of e^d(x,x0) + e^d(x,x1)."""

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The declaration's bounds and those of the law."""
        return self.amplification.claims(crowd) + self.law_claims(crowd)

    @abstractmethod
    def law_claims(self, crowd: Crowd, pair: str = "this pair") -> list[Claim]:
        """Bounds from the noise itself; `pair` is what the notes call the two points."""


@dataclass(frozen=True)
class LaplacePair(MetricPair):
    """Two points on a line under Laplace noise; users' inputs in an interval around them.

    Parameters
    ----------
    d01, d_max : float
        Distances in units of the noise's scale (1/eps for `eps |x - x'|`-privacy): 1e-12 <= d01 <= d_max <= 700.

    Examples
    --------
    >>> from shufflesim.bounds import epsilon
    >>> near, far = (float(epsilon(LaplacePair(d01, 2.0), 10_000, 1e-6)) for d01 in (0.5, 2.0))
    >>> near < far < 2.0
    True
    """

    @staticmethod
    def _reach() -> float:
        return EXPONENT_MAX

    @property
    def beta(self) -> float:
        """1 - e^{-d01/2}."""
        return laplace_beta(self.d01)

    def _farthest_sum(self) -> float:
        """At an end of the interval."""
        return math.exp(self.d_max) * (1 + math.exp(-self.d01))

    def law_claims(self, crowd: Crowd, pair: str = "this pair") -> list[Claim]:
        """Blanket of the interval; lower bounds with all others at one of three points."""
        half = self.d01 / 2
        blanket = laplace_tables(-half, half, 0.0, self.radius)
        held = {"others at x0": -half, "others halfway": 0.0}
        if self.d_max > self.d01:
            held["others at an end of the interval"] = -self.radius
        lowers = [laplace_tables(-half, half, x) for x in held.values()]
        groups = tuple(self._halves(x, note) for note, x in held.items())
        note = f"{pair}; largest of: {'; '.join(held)}"
        return [
            *blanket_claims([blanket], crowd, self.local_epsilon, f"{pair}, others anywhere in the interval"),
            *lower_claims(lowers, crowd, note),
            *sign_claims(groups, crowd, note),
        ]

    def _halves(self, x: float, note: str) -> OutcomeGroups:
        """Masses on either side of the middle."""
        first, second, other = (_halves(centre) for centre in (-self.d01 / 2, self.d01 / 2, x))
        return OutcomeGroups(first, second, other, None, note)


def _halves(centre: float) -> Array:
    """Laplace mass below and above 0, the smaller one without cancellation."""
    small = 0.5 * math.exp(-abs(centre))
    large = 0.5 - 0.5 * math.expm1(-abs(centre))
    return np.array([large, small] if centre < 0 else [small, large])


@dataclass(frozen=True)
class PlanarLaplacePair(MetricPair):
    """Two points in the plane under planar Laplace noise; users' inputs in a disc around them.

    Parameters
    ----------
    d01, d_max : float
        Distances in units of the noise's scale (1/eps for eps-geo-indistinguishability): 1e-12 <= d01 <= d_max <= 40.

    Notes
    -----
    For a region of another shape take a disc that contains it: the bounds hold for every smaller set of inputs. The blanket is
    that of the disc whose centre is halfway between the points; `bounds.planar.planar_tables` takes any two points of any disc.

    Examples
    --------
    >>> round(PlanarLaplacePair(d01=1.0, d_max=3.0).beta, 6)
    0.29596
    """

    @staticmethod
    def _reach() -> float:
        return REACH_MAX

    @property
    def beta(self) -> float:
        """z (K0(z) L1(z) + K1(z) L0(z)), z = d01/2."""
        return planar_beta(self.d01)

    def _farthest_sum(self) -> float:
        """On the rim, since the sum is convex; by a scan of the angles, the maximum to 1e-6."""
        turn = np.cos(np.linspace(0, math.pi / 2, ANGLES))
        square, product = self.radius**2 + self.d01**2 / 4, self.radius * self.d01
        near, far = (np.exp(np.sqrt(square + sign * product * turn)) for sign in (-1, 1))
        return float((near + far).max())

    def law_claims(self, crowd: Crowd, pair: str = "this pair") -> list[Claim]:
        """Blanket of the disc; lower bound with all others at one of three points of the line through both."""
        half = self.d01 / 2
        points = (-half, 0.0), (half, 0.0)
        blanket = planar_tables(*points, radius=self.radius)
        held = {"others at x0": (-half, 0.0), "others halfway": (0.0, 0.0)}
        if self.d_max > self.d01:
            held["others at the end of the disc"] = (-self.radius, 0.0)
        lowers = [planar_tables(*points, centre=x) for x in held.values()]
        return [
            *blanket_claims([blanket], crowd, self.local_epsilon, f"{pair}, others anywhere in the disc", ACCURACY),
            *lower_claims(lowers, crowd, f"{pair}; largest of: {'; '.join(held)}", ACCURACY),
        ]
