"""Public hash functions, one a user: a 32-bit key and a mixing function that stands for a random function of the items."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from shufflesim.bounds import Claim, Crowd, OutcomeGroups, VariationRatio
from shufflesim.bounds.continuous import Enclosure
from shufflesim.bounds.groups import blanket_claims, group_claims
from shufflesim.domains import Array

from ._sets import SetRandomizer

# Bits of a key, and of a hash.
BITS = np.uint64(32)
# Reports times items that the decoder handles at once.
DECODED = 2**16
# The multipliers of the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), and the golden ratio in 64 bits.
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def keyed_hash(keys: Array, items: Array) -> Array:
    """32-bit hashes of items under keys, uint64, of the arrays' common shape; for random keys they behave like random functions.

    Examples
    --------
    >>> keyed_hash(np.array([7, 7]), np.array([1, 1])).tolist()
    [3097068108, 3097068108]
    """
    z = (keys.astype(np.uint64) << BITS | items.astype(np.uint64)) * GOLDEN
    z ^= z >> np.uint64(30)
    z *= MIX[0]
    z ^= z >> np.uint64(27)
    z *= MIX[1]
    return (z ^ z >> np.uint64(31)) >> BITS


class KeyedSets(SetRandomizer):
    """Sets of s out of d items, hashed with a fresh public key per user; a report is (key, place).

    A report is at the place of each own item with probability a, and at that of any other, whose hash is independent of it, with
    probability b. Privacy is claimed for the worst key, hence whatever the hash function; accuracy is that of random functions.
    """

    @property
    def width(self) -> int:  # type: ignore[override]
        """Hashes of the own items."""
        return 4 * self.s

    @abstractmethod
    def places(self, hashes: Array) -> Array:
        """Where 32-bit hashes lie."""

    @abstractmethod
    def hit(self, places: Array, reported: Array) -> Array:
        """Whether a reported place supports an item at the given place."""

    @abstractmethod
    def draw(self, places: Array, rng: np.random.Generator) -> Array:
        """Reported places for users whose items lie at the given places, shape (n, s) -> (n,)."""

    @abstractmethod
    def pack(self, keys: Array, places: Array) -> Array:
        """Reports of keys and places."""

    @abstractmethod
    def unpack(self, reports: Array) -> tuple[Array, Array]:
        """Keys, uint64, and places of reports."""

    @property
    @abstractmethod
    def covered(self) -> float:
        """Probability that a given place is covered by the items of a random set."""

    @property
    @abstractmethod
    def mean_covered(self) -> float:
        """Probability that a report lies at a place that the own items cover."""

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Sets, shape (n, s) -> keys and places, packed, first axis n."""
        keys = rng.integers(0, 2**32, values.shape[0], dtype=np.uint64)
        return self.pack(keys, self.draw(self.places(keyed_hash(keys[:, None], values)), rng))

    def aggregate(self, reports: Array) -> Array:
        """Reports that support each item, shape (d,); every report is compared with every item."""
        supports = np.zeros(self.d, dtype=np.int64)
        for start in range(0, reports.shape[0], DECODED):
            keys, reported = self.unpack(reports[start : start + DECODED])
            for item in range(self.d):
                supports[item] += np.count_nonzero(self.hit(self.places(keyed_hash(keys, np.full(1, item))), reported))
        return supports

    def law_claims(self, crowd: Crowd) -> list[Claim]:
        """Blanket of the worst key; lower bounds of random functions, with reports merged by whose items cover them."""
        worst = self.worst_groups()
        tables = {table.key: table for table in (group.blanket_table() for group in worst) if table is not None}
        note = f"worst key, worst of: {'; '.join(group.note for group in worst)}"
        blankets = [Enclosure(table, table) for table in tables.values()]
        return [
            *blanket_claims(blankets, crowd, self.local_epsilon, note),
            *group_claims(self.groups(), crowd, self.local_epsilon),
        ]

    @property
    @abstractmethod
    def likely(self) -> float:
        """E/Omega, the density of a covered place."""

    @property
    @abstractmethod
    def measure(self) -> tuple[float, float]:
        """What s items cover if no two overlap, and what there is."""

    @property
    def apart(self) -> float:
        """What one of two such sets covers and the other does not, at most."""
        held, whole = self.measure
        return min(held, whole - held)

    @property
    def amplification(self) -> VariationRatio:
        """beta = `apart` times (E-1)/Omega, for a key without avoidable overlaps; q_star = 1 where two sets have room, else q.

        All densities are between 1/Omega, the floor, and E/Omega: g0 and g1 in [1, E], and what two sets cover in common is a
        contraction of what they cover apart. So with room for both, all at (E, 1) and (1, E) is the worst.
        """
        held, whole = self.measure
        beta = self.apart * self.likely * -math.expm1(-self.epsilon)
        return VariationRatio.ldp(self.epsilon, beta, q_star=1.0 if 2 * held <= whole else None)

    def worst_groups(self) -> tuple[OutcomeGroups, ...]:
        """Places of one set only, of the other only, of both, of none, for a key under which they share as little as possible."""
        held, whole = self.measure
        places = np.array([self.apart, self.apart, held - self.apart, max(0.0, whole - 2 * held)])
        high = places * self.likely
        floor = high * math.exp(-self.epsilon)
        first, second = (np.where(own, high, floor) for own in ([True, False, True, False], [False, True, True, False]))
        return (OutcomeGroups(first, second, floor, floor, "two sets with as little in common as possible"),)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Random functions: two sets without a common item, reports by which of them cover the place; no floor.

        Given one set's report, the places of the other's items are independent of it: masses multiply. What merges, merges
        reports, so that it remains a lower bound. With fewer than 2s items there are no such sets.
        """
        if self.d < 2 * self.s:
            return ()
        c, own = self.covered, self.mean_covered
        both = np.array([own * c, own * (1 - c), (1 - own) * c, (1 - own) * (1 - c)])
        other = both[[0, 2, 1, 3]]
        third = np.array([c * c, c * (1 - c), c * (1 - c), (1 - c) ** 2])
        cases = [("others hold the first set", both), ("others hold the second set", other)]
        if self.d >= 3 * self.s:
            cases.append(("others hold a third set", third))
        return tuple(OutcomeGroups(both, other, law, None, f"random functions, disjoint sets, {note}") for note, law in cases)


def best_places(epsilon: float, s: int) -> float:
    """The real l > s that minimises (l-1)(sE+l-s)^2/(l-s)^2: with l cells, or arcs of length 1/l, the variance for rare items.

    With t = l - s it is (t+s-1)((sE+t)/t)^2, stationary at t^2 - sE t - 2 sE (s-1) = 0.
    """
    e = math.exp(epsilon)
    return s + (s * e + math.sqrt((s * e) ** 2 + 8 * s * e * (s - 1))) / 2
