"""k-subset: a random set of k categories that holds the own one more often.

Sources: Wang, Huang, Wang, Nie, Xiong, Xia, Yang, "Mutual information optimally local private discrete distribution estimation",
arXiv:1607.08025, 2016; Ye and Barg, "Optimal schemes for discrete distribution estimation under locally differential privacy",
IEEE Trans. Inform. Theory 2018.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_integer
from shufflesim._sampling import bernoulli, bit_sums, packed_bernoulli, unpadded
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array
from shufflesim.randomizer import CategoricalRandomizer
from shufflesim.shuffler import well_formed

# Largest d for which all C(d, k) outcomes are handed out as a matrix.
ENUMERABLE = 10
# Binary digits of the density that a row of bits starts with.
START_DIGITS = 6
# Item indices that `aggregate` counts at once.
COUNTED = 2**22
# Items times states of the count-space sampler (a few seconds), and the users that NumPy's hypergeometric sampler can handle.
COUNT_STATES = 2**24
HYPERGEOMETRIC_MAX = 10**9


@dataclass(frozen=True)
class KSubset(CategoricalRandomizer):
    """Report k of the d categories: each set that holds the own category is e^eps times as likely as one that does not.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of categories; >= 2.
    k : int, optional
        Size of the set, in [1, d-1]. By default the one with the smallest variance for rare items, next to d/(e^eps + 1).

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: integer codes 0..d-1 or a pandas categorical, shape (n,).
    Source: Ye, Barg, "Optimal schemes for discrete distribution estimation", IEEE Trans. Inform. Theory, 2018.

    With E = e^eps a set has probability E/Z or 1/Z, Z = E C(d-1,k-1) + C(d-1,k): the own item is in with probability
    a = kE/(kE+d-k), and k - 1 or k of the d - 1 others are in uniformly. The variance of a rare item's estimate is
    n (E(k-1)+d-k)(Ek+d-1-k)/(k (d-k) (E-1)^2); over real k it falls up to d/(1 + sqrt(E(dE-1)/(d-E))) for E < d and rises from
    there on, for E >= d it only rises. The default is the better neighbouring integer.

    A report is d packed bits, or k indices in ascending order where those need fewer bits.

    Examples
    --------
    >>> KSubset(epsilon=1.0, d=100).k, KSubset(epsilon=3.0, d=100).k, KSubset(epsilon=5.0, d=100).k
    (27, 4, 1)
    >>> KSubset(epsilon=math.log(3), d=5, k=2).amplification
    VariationRatio(p=3, beta=0.333333, q=3)
    """

    epsilon: float
    d: int
    k: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is None:
            object.__setattr__(self, "k", best_size(self.epsilon, self.d))
        object.__setattr__(self, "k", check_integer("k", self.k, low=1, high=self.d - 1))

    @property
    def _size(self) -> int:
        """k, which __post_init__ has made an integer."""
        return int(self.k or 0)

    @property
    def weights(self) -> tuple[float, float]:
        """C(d, k)/Z times (E, 1): how much likelier than under the uniform law a set is, (d E, d)/(kE+d-k)."""
        small = math.exp(-self.epsilon)
        high = self.d / (self._size + (self.d - self._size) * small)
        return high, high * small

    @property
    def support(self) -> tuple[float, float]:
        """(k E/(kE+d-k), (E C(d-2,k-2) + C(d-2,k-1))/Z)."""
        d, k = self.d, self._size
        high, low = self.weights
        return k / d * high, k / d * (high * (k - 1) + low * (d - k)) / (d - 1)

    @property
    def amplification(self) -> VariationRatio:
        """beta = (E-1) C(d-2,k-1)/Z, attained by every pair; q_star = q, and 1 for k = 1.

        Neutral outcomes hold both inputs or none. A set of both, E/Z, is met at 1/Z by an input outside of it, which exists
        for k < d. For k = 1 there is no such set, and one without x0 and x1 has the smallest probability, 1/Z.
        """
        d, k = self.d, self._size
        beta = k * (d - k) / (d * (d - 1)) * self.weights[0] * -math.expm1(-self.epsilon)
        return VariationRatio.ldp(self.epsilon, beta, q_star=1.0 if k == 1 else None)

    @property
    def indexed(self) -> bool:
        """Whether k indices need fewer bits than d flags."""
        return self._size * math.ceil(math.log2(self.d)) < self.d

    @property
    def bits(self) -> float:
        """d, or k log2 d (rounded up) where indices are sent."""
        return float(min(self.d, self._size * math.ceil(math.log2(self.d))))

    @property
    def width(self) -> int:  # type: ignore[override]
        """Random numbers: some per index, or a few words per 64 bits."""
        return 2 * self._size if self.indexed else -(-self.d // 8)

    def valid(self, reports: Array) -> Array:
        """Increasing rows of codes, or rows of bits without padding."""
        if not self.indexed:
            return unpadded(reports, self.d)
        return well_formed(reports, self.d) & np.logical_and.reduce(reports[:, 1:] > reports[:, :-1], axis=1)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Codes, shape (n,) -> indices, shape (n, k), smallest unsigned dtype; or packed bits, uint8, shape (n, ceil(d/8))."""
        holds = bernoulli(rng, self.support[0], values.shape[0])
        return self._draw_indices(values, holds, rng) if self.indexed else self._draw_bits(values, holds, rng)

    def _draw_indices(self, values: Array, holds: Array, rng: np.random.Generator) -> Array:
        """Sorted rows; what repeats in a row is drawn again until nothing does.

        The set of distinct others grows by uniform new ones, so that every set of the wanted size is equally likely. At most
        one in log2 d of the others is in a set: few repeat.
        """
        reports = self._others(values[:, None], (values.shape[0], self._size), rng)
        reports[holds, 0] = values[holds]
        reports.sort(axis=1)
        rows = np.arange(values.shape[0])
        while self._size > 1:
            part = reports[rows]
            again = np.zeros(part.shape, dtype=bool)
            np.equal(part[:, 1:], part[:, :-1], out=again[:, 1:])
            found = again.any(axis=1)
            if not found.any():
                break
            rows, part, again = rows[found], part[found], again[found]
            owner = np.repeat(values[rows], again.sum(axis=1))
            part[again] = self._others(owner, owner.shape, rng)
            part.sort(axis=1)
            reports[rows] = part
        return reports

    def _draw_bits(self, values: Array, holds: Array, rng: np.random.Generator) -> Array:
        """Independent bits near the wanted density, corrected to the exact number of ones among the others.

        Bits start exchangeable, and a correction sets (or clears) uniformly drawn positions, so that given their number the
        others are a uniform set. As many positions are drawn as bits are wrong, never too many; the density starts on the
        side where most positions change something.
        """
        d, k, n = self.d, self._size, values.shape[0]
        share = k / d * 2**START_DIGITS
        packed = packed_bernoulli(rng, (math.floor(share) if 2 * k <= d else math.ceil(share)) / 2**START_DIGITS, n, d)
        own, bit = np.arange(n) * packed.shape[1] + (values >> 3), np.uint8(128) >> (values & 7).astype(np.uint8)
        flat = packed.reshape(-1)
        flat[own] &= ~bit
        rows = np.arange(n)
        wrong = k - holds - ones(packed)
        while True:
            rows, wrong = rows[wrong != 0], wrong[wrong != 0]
            if not rows.size:
                break
            # Idempotent: a position drawn twice, or already as wanted, changes nothing.
            for few, change in ((wrong > 0, np.bitwise_or), (wrong < 0, np.bitwise_and)):
                row = np.repeat(rows[few], np.abs(wrong[few]))
                item = self._others(values[row], row.shape, rng)
                mask = np.uint8(128) >> (item & 7).astype(np.uint8)
                change.at(flat, row * packed.shape[1] + (item >> 3), mask if change is np.bitwise_or else ~mask)
            wrong = (k - holds[rows]) - ones(packed[rows])
        flat[own] |= bit * holds
        return packed

    def _others(self, values: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Uniform items other than the user's own."""
        items = rng.integers(0, self.d - 1, shape, dtype=np.min_scalar_type(max(256, self.d - 1))).astype(
            values.dtype, copy=False
        )
        items += items >= values
        return items

    def aggregate(self, reports: Array) -> Array:
        """Sets that hold each item, shape (d,)."""
        if not self.indexed:
            return bit_sums(reports, self.d)
        flat = reports.reshape(-1)
        parts = (np.bincount(flat[i : i + COUNTED], minlength=self.d) for i in range(0, flat.size, COUNTED))
        return sum(parts, start=np.zeros(self.d, dtype=np.int64))

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array | None:
        """One item after the other; None if d k is above `COUNT_STATES` or there are 10^9 truthful reports.

        With probability C(d,k)/Z a set is uniform, else uniform among those that hold the own item. All that matters before item
        i is how many members a set still lacks (of the items from i on, without the own one), and whether the own item is still
        to come: then the sets do not depend on which it is, and the owners of i are a random sample of them.
        """
        d, k = self.d, self._size
        kept = rng.binomial(totals, self.support[0] * -math.expm1(-self.epsilon))
        if d * k > COUNT_STATES or kept.sum() >= HYPERGEOMETRIC_MAX:
            return None
        lacks = np.arange(k + 1)
        free, bound = np.zeros(k + 1, dtype=np.int64), np.zeros(k + 1, dtype=np.int64)
        free[k], bound[k - 1] = totals.sum() - kept.sum(), kept.sum()
        found = kept.astype(np.int64)
        for i in range(d):
            owners = rng.multivariate_hypergeometric(bound, kept[i])
            bound -= owners
            for sets, left in ((free, d - i), (bound, d - 1 - i)):
                taken = rng.binomial(sets, np.minimum(lacks / max(left, 1), 1.0))
                found[i] += taken.sum()
                sets -= taken
                sets[:-1] += taken[1:]
            free += owners
        return found

    def outcome(self, reports: Array) -> Array:
        """Position of the set among all sets of size k in lexicographic order, for tiny d."""
        if self.indexed:
            codes = (1 << (self.d - 1 - reports.astype(np.int64))).sum(axis=1)
        else:
            codes = np.unpackbits(reports, axis=1, count=self.d).astype(np.int64) @ (1 << np.arange(self.d)[::-1])
        listed = np.array([sum(1 << (self.d - 1 - i) for i in z) for z in itertools.combinations(range(self.d), self._size)])
        return listed.size - 1 - np.searchsorted(listed[::-1], codes)

    def log_channel(self) -> Array | None:
        """The d x C(d, k) law for d up to `ENUMERABLE`."""
        if self.d > ENUMERABLE:
            return None
        holds = np.array([[x in z for z in itertools.combinations(range(self.d), self._size)] for x in range(self.d)])
        base = math.log(self.weights[0]) - math.log(holds.shape[1])
        return np.where(holds, base, base - self.epsilon)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """By which of x0, x1, x* are in the set; some input is outside of any set, hence the floor is the low probability."""
        d, k = self.d, self._size
        tracked = min(d, 3)
        high, low = self.weights
        rows = []
        for pattern in itertools.product((True, False), repeat=tracked):
            # Probability of the pattern under a uniform set: its items drawn one after the other.
            inside, mass = 0, 1.0
            for i, member in enumerate(pattern):
                mass *= (k - inside if member else d - k - (i - inside)) / (d - i)
                inside += member
            if mass > 0:
                rows.append([mass * (high if member else low) for member in pattern] + [mass * low])
        columns = np.array(rows).T
        names = ("others hold x0", "others hold x1", "others hold a third value")
        return tuple(OutcomeGroups(columns[0], columns[1], columns[i], columns[-1], names[i]) for i in range(tracked))

    @classmethod
    def examples(cls) -> Iterator[KSubset]:
        """Typical with each kind of report, tiny, more than half of the items, extreme."""
        yield cls(epsilon=1.0, d=20)
        yield cls(epsilon=3.0, d=100)
        yield cls(epsilon=1.0, d=2)
        yield cls(epsilon=math.log(3), d=5, k=2)
        yield cls(epsilon=1.5, d=5, k=4)
        yield cls(epsilon=2.0, d=4, k=1)
        yield cls(epsilon=1e-9, d=4)
        yield cls(epsilon=100.0, d=8, k=3)


def ones(packed: Array) -> Array:
    """Ones in each packed row."""
    wide = packed.view(np.uint64) if packed.shape[1] % 8 == 0 else packed
    return np.bitwise_count(wide).sum(axis=1, dtype=np.int64)


def best_size(epsilon: float, d: int) -> int:
    """The integer k in [1, d-1] that minimises (E(k-1)+d-k)(Ek+d-1-k)/(k (d-k)), E = e^eps."""
    if epsilon >= math.log(d):
        return 1
    e = math.exp(epsilon)
    least = d / (1 + math.sqrt(e * (d * e - 1) / (d - e)))
    candidates = {max(1, min(d - 1, math.floor(least) + i)) for i in (0, 1)}
    return min(sorted(candidates), key=lambda k: (e * (k - 1) + d - k) * (e * k + d - 1 - k) / (k * (d - k)))
