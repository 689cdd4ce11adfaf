"""The wheel: a user's items hash to arcs of a circle, whose points are likelier.

Source: Wang et al., "Set-valued data publication with local privacy: tight error bounds and efficient mechanisms", PVLDB 13(8),
2020; the row of Wang et al., PVLDB 17(8), 2024.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_number
from shufflesim.domains import Array

from ._keyed import BITS, KeyedSets, best_places, keyed_hash

# Shortest arc, well above the 2^-32 between two places.
LEAST = 2.0**-24
# Rounding of a sum of measures of arcs.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Wheel(KeyedSets):
    """Items are hashed to a circle with a public key per user; one point is reported, more likely close behind an own item.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of items; >= 2.
    s : int
        Items in every user's set; in [1, d-1].
    length : float, optional
        Share of the circle that an item's arc takes, in [2^-24, 1/s). By default the one with the smallest variance for rare
        items, 1/(s + (sE + sqrt((sE)^2 + 8 sE (s-1)))/2) with E = e^eps, at least 2^-24.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: rows of s distinct integer codes 0..d-1, shape (n, s), or a DataFrame of s categorical columns.
    Source: Wang et al., "Set-valued data publication with local privacy", PVLDB 13(8), 2020.

    Places of items are multiples of 2^-32 of the circle, reported points are not. With Omega = s length E + 1 - s length a point
    that arcs of own items cover has density E/Omega, the others share what is left, between 1/Omega and E/Omega. The declared
    beta is that of the worst key. The variance for rare items is proportional to
    (1 - length)(s length E + 1 - s length)^2/(length (1 - s length)^2).

    Examples
    --------
    >>> round(Wheel(epsilon=math.log(9), d=10, s=2, length=1 / 8).amplification.beta, 12)
    0.666666666667
    """

    epsilon: float
    d: int
    s: int
    length: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length is None:
            object.__setattr__(self, "length", best_length(self.epsilon, self.s))
        rule = f"a number in [2^-24, 1/s) with s = {self.s}"
        object.__setattr__(self, "length", check_number("length", self.length, rule, low=LEAST, high=1.0))
        if not self.share < 1:
            raise ValueError(f"length must be {rule}, got {self.length!r}")

    @property
    def arc(self) -> float:
        """length, which __post_init__ has made a number."""
        return float(self.length or 0.0)

    @property
    def share(self) -> float:
        """s length, what the arcs cover at most."""
        return self.s * self.arc

    @property
    def likely(self) -> float:
        """E/Omega, the density of a covered point."""
        return 1 / (self.share + (1 - self.share) * math.exp(-self.epsilon))

    @property
    def support(self) -> tuple[float, float]:
        """(length E/Omega, length)."""
        return self.arc * self.likely, self.arc

    @property
    def measure(self) -> tuple[float, float]:
        """s length, and the circle."""
        return self.share, 1.0

    @property
    def published_beta(self) -> float:
        """s length (E-1)/Omega: too large for s length > 1/2, where it can exceed (E-1)/(E+1)."""
        return self.share * self.likely * -math.expm1(-self.epsilon)

    @property
    def random_hash_beta(self) -> float:
        """Mean over random functions of the total variation for sets of one item: length (1 - length)(E-1)/Omega."""
        if self.s > 1:
            raise ValueError(f"random_hash_beta must be for s = 1, got {self.s}")
        return (1 - self.arc) * self.published_beta

    @property
    def bits(self) -> float:
        """A key, and a double."""
        return float(BITS) + 64.0

    def places(self, hashes: Array) -> Array:
        """h/2^32."""
        return hashes / 2.0**32

    def hit(self, places: Array, reported: Array) -> Array:
        """Within the arc that starts at the place."""
        behind = reported - places
        return (behind >= 0) & (behind < self.arc) | (behind < self.arc - 1)

    def pack(self, keys: Array, places: Array) -> Array:
        """Rows of two doubles, which hold a key exactly."""
        return np.column_stack([keys.astype(float), places])

    def unpack(self, reports: Array) -> tuple[Array, Array]:
        """Both columns."""
        return reports[:, 0].astype(np.uint64), reports[:, 1]

    def _gaps(self, places: Array) -> tuple[Array, Array, Array]:
        """Sorted starts of arcs, way from each to the next, and what of it arcs cover; shape (n, s)."""
        starts = np.sort(places, axis=1)
        gaps = np.diff(starts, axis=1, append=starts[:, :1] + 1)
        return starts, gaps, np.minimum(gaps, self.arc)

    def draw(self, places: Array, rng: np.random.Generator) -> Array:
        """A uniform point of what is covered, or of the rest, measured from the first arc on."""
        starts, gaps, inside = self._gaps(places)
        covered = inside.sum(axis=1)
        own = rng.random(len(places)) < covered * self.likely
        part = np.where(own[:, None], inside, gaps - inside)
        ends = np.cumsum(part, axis=1)
        r = rng.random(len(places)) * ends[:, -1]
        k = (ends[:, :-1] <= r[:, None]).sum(axis=1)
        row = np.arange(len(places))
        beyond = r - ends[row, k] + part[row, k]
        return np.mod(starts[row, k] + np.where(own, 0.0, inside[row, k]) + beyond, 1.0)

    def log_likelihood(self, value: Array, reports: Array) -> Array:
        """Log-density of a set and reports (key, point), per key."""
        keys, reported = self.unpack(reports)
        places = self.places(keyed_hash(keys[:, None], np.asarray(value)))
        covered = self._gaps(places)[2].sum(axis=1)
        # 1 - c E/Omega = (s length - c + (1 - s length)/E) E/Omega: no cancellation where eps is large.
        overlap = np.where(self.share - covered > ROUNDING, self.share - covered, 0.0)
        rest = (overlap + (1 - self.share) * math.exp(-self.epsilon)) * self.likely / (1 - covered)
        return np.log(np.where(self.hit(places, reported[:, None]).any(axis=1), self.likely, rest))

    @property
    def covered(self) -> float:
        """1 - (1 - length)^s."""
        return -math.expm1(self.s * math.log1p(-self.arc))

    @property
    def mean_covered(self) -> float:
        """Mean measure of the arcs, times E/Omega."""
        return self.covered * self.likely

    @classmethod
    def examples(cls) -> Iterator[Wheel]:
        """Typical, tiny, arcs that cover more than half of the circle, extreme."""
        yield cls(epsilon=2.0, d=20, s=3)
        yield cls(epsilon=1.0, d=4, s=1, length=0.25)
        yield cls(epsilon=1.0, d=6, s=2, length=0.375)
        yield cls(epsilon=1e-9, d=5, s=2)
        yield cls(epsilon=700.0, d=6, s=2, length=0.1)


def best_length(epsilon: float, s: int) -> float:
    """The length in (0, 1/s) that minimises (1-x)(s x E+1-s x)^2/(x (1-s x)^2), as in `best_places`; at least 2^-24."""
    return max(1 / best_places(min(epsilon, -math.log(LEAST)), s), LEAST)
