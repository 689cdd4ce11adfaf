"""Collision: the cells that a user's items hash to are likelier, all of them equally.

Source: the row of Wang et al., PVLDB 17(8), 2024, for sets of s items and l cells.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_integer
from shufflesim.domains import Array

from ._keyed import BITS, KeyedSets, best_places, keyed_hash

# Largest number of cells.
L_MAX = 65_536
# The cell's part of a report.
LOW = np.uint64(2**32 - 1)


@dataclass(frozen=True)
class Collision(KeyedSets):
    """Items are hashed to l cells with a public key per user; one cell is reported, more likely a cell of an own item.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of items; >= 2.
    s : int
        Items in every user's set; in [1, d-1].
    l : int, optional
        Number of cells, in [s + 1, 65536]. By default the one with the smallest variance for rare items, next to
        s + (sE + sqrt((sE)^2 + 8 sE (s-1)))/2 with E = e^eps, at most 65536.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: rows of s distinct integer codes 0..d-1, shape (n, s), or a DataFrame of s categorical columns.
    Source: Wang et al., "Privacy amplification via shuffling", PVLDB 17(8), 2024, the row for sets of s items and l cells.

    With Omega = sE + l - s each of the u <= s cells that own items hash to has probability E/Omega; the others share the rest,
    each between 1/Omega and E/Omega. The declared beta is that of the worst key; `random_hash_beta` is the mean over random
    functions. The variance for rare items is proportional to (l-1)(sE+l-s)^2/(l-s)^2, which the default minimises.

    Examples
    --------
    >>> round(Collision(epsilon=math.log(9 / 4), d=10, s=2, l=7).amplification.beta, 12)
    0.263157894737
    """

    epsilon: float
    d: int
    s: int
    l: int | None = None  # noqa: E741 - the paper's name

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.s >= L_MAX:
            raise ValueError(f"s must be below {L_MAX}, got {self.s}")
        if self.l is None:
            object.__setattr__(self, "l", best_cells(self.epsilon, self.s))
        object.__setattr__(self, "l", check_integer("l", self.l, low=self.s + 1, high=L_MAX))

    @property
    def cells(self) -> int:
        """l, which __post_init__ has made an integer."""
        return int(self.l or 0)

    @property
    def likely(self) -> float:
        """E/Omega, the probability of a covered cell."""
        return 1 / (self.s + (self.cells - self.s) * math.exp(-self.epsilon))

    @property
    def support(self) -> tuple[float, float]:
        """(E/Omega, 1/l)."""
        return self.likely, 1 / self.cells

    @property
    def measure(self) -> tuple[float, float]:
        """s and l cells."""
        return self.s, self.cells

    @property
    def bits(self) -> float:
        """A key and a cell."""
        return int(BITS) + float(math.ceil(math.log2(self.cells)))

    def places(self, hashes: Array) -> Array:
        """Cell floor(l h / 2^32); cells differ in probability by at most l/2^32."""
        return hashes * np.uint64(self.cells) >> BITS

    def hit(self, places: Array, reported: Array) -> Array:
        """The same cell."""
        return places == reported

    def draw(self, places: Array, rng: np.random.Generator) -> Array:
        """Number r of the distinct own cells, or of the other cells, in ascending order."""
        ordered = np.sort(places, axis=1).astype(np.int64)
        new = np.ones(ordered.shape, dtype=bool)
        np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
        rank = np.cumsum(new, axis=1)
        distinct = rank[:, -1]
        uniform = rng.random(len(places))
        own = rng.random(len(places)) < distinct * self.likely
        wanted = np.minimum((uniform * distinct).astype(np.int64), distinct - 1)
        found = ordered[np.arange(len(places)), (rank <= wanted[:, None]).sum(axis=1)]
        free = self.cells - distinct
        outside = np.minimum((uniform * free).astype(np.int64), free - 1)
        for column, first in zip(ordered.T, new.T, strict=True):
            outside += first & (outside >= column)
        return np.where(own, found, outside)

    def pack(self, keys: Array, places: Array) -> Array:
        """One uint64 each."""
        return keys << BITS | places.astype(np.uint64)

    def unpack(self, reports: Array) -> tuple[Array, Array]:
        """Both halves."""
        return reports >> BITS, reports & LOW

    def log_likelihood(self, value: Array, reports: Array) -> Array:
        """Of a set and reports (key, cell), per key."""
        keys, reported = self.unpack(reports)
        cells = np.sort(self.places(keyed_hash(keys[:, None], np.asarray(value))), axis=1)
        distinct = 1 + (cells[:, 1:] != cells[:, :-1]).sum(axis=1)
        # 1 - u E/Omega = (s - u + (l - s)/E) E/Omega: no cancellation where eps is large.
        left = self.s - distinct + (self.cells - self.s) * math.exp(-self.epsilon)
        rest = left * self.likely / (self.cells - distinct)
        return np.log(np.where((cells == reported[:, None]).any(axis=1), self.likely, rest))

    @property
    def covered(self) -> float:
        """1 - (1 - 1/l)^s."""
        return -math.expm1(self.s * math.log1p(-1 / self.cells))

    @property
    def mean_covered(self) -> float:
        """E[u] E/Omega."""
        return self.cells * self.covered * self.likely

    @property
    def random_hash_beta(self) -> float:
        """Mean over random functions of the total variation of two sets without a common item: below the declared beta."""
        likely = self.likely
        total = 0.0
        for (u, v, w), probability in _patterns(self.s, self.cells).items():
            rest_0, rest_1 = ((1 - k * likely) / (self.cells - k) for k in (u, v))
            apart = (u - w) * abs(likely - rest_1) + (v - w) * abs(likely - rest_0)
            total += probability * (apart + (self.cells - u - v + w) * abs(rest_0 - rest_1)) / 2
        return total

    @classmethod
    def examples(cls) -> Iterator[Collision]:
        """Typical, tiny, fewer cells than two sets need, extreme."""
        yield cls(epsilon=2.0, d=20, s=3)
        yield cls(epsilon=1.0, d=4, s=1, l=3)
        yield cls(epsilon=1.0, d=6, s=2, l=3)
        yield cls(epsilon=1e-9, d=5, s=2)
        yield cls(epsilon=700.0, d=6, s=2, l=9)


def _patterns(s: int, cells: int) -> dict[tuple[int, int, int], float]:
    """Joint law of (cells of one set, of another, of both) when 2s items fall into cells independently: item after item."""
    one: dict[int, float] = {0: 1.0}
    for _ in range(s):
        grown: dict[int, float] = defaultdict(float)
        for u, probability in one.items():
            grown[u] += probability * u / cells
            grown[u + 1] += probability * (cells - u) / cells
        one = {u: probability for u, probability in grown.items() if probability > 0}
    found: dict[tuple[int, int, int], float] = defaultdict(float)
    for u, first in one.items():
        two: dict[tuple[int, int], float] = {(0, 0): first}
        for _ in range(s):
            step: dict[tuple[int, int], float] = defaultdict(float)
            for (v, w), probability in two.items():
                step[v, w] += probability * v / cells
                step[v + 1, w + 1] += probability * (u - w) / cells
                step[v + 1, w] += probability * (cells - u - v + w) / cells
            two = {key: probability for key, probability in step.items() if probability > 0}
        for (v, w), probability in two.items():
            found[u, v, w] += probability
    return dict(found)


def best_cells(epsilon: float, s: int) -> int:
    """The integer l > s that minimises (l-1)(sE+l-s)^2/(l-s)^2; at most 65536."""
    if epsilon > math.log(L_MAX):
        return L_MAX
    e, least = math.exp(epsilon), best_places(epsilon, s)
    candidates = {max(s + 1, min(L_MAX, math.floor(least) + k)) for k in (0, 1)}
    return min(sorted(candidates), key=lambda size: (size - 1) * ((s * e + size - s) / (size - s)) ** 2)
