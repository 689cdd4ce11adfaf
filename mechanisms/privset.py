"""PrivSet: a random set of k items, likelier where it meets the user's set.

Source: Wang, Huang, Nie, Wang, Xu, Yang, "PrivSet: set-valued data analyses with local differential privacy", INFOCOM 2018.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shufflesim._checks import check_integer
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array
from shufflesim.shuffler import well_formed

from ._sets import SetRandomizer, log_hits, log_miss, others

# Inputs times outcomes up to which the law is handed out as a matrix.
ENUMERABLE = 4096
# Largest d for which the best k is searched.
SEARCHED = 2**20
# Part of two masses that is left of their rounding where they are equal.
ROUNDING = 1e-14


@dataclass(frozen=True)
class PrivSet(SetRandomizer):
    """Report k of the d items: each set that meets the own one is e^eps times as likely as one that does not.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of items; >= 2.
    s : int
        Size of every user's set; in [1, d-1].
    k : int, optional
        Size of the report; in [1, d-s], since every larger set meets every user's. By default the one with the smallest variance
        for rare items; d is at most 2^20 then.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: rows of s distinct integer codes 0..d-1, shape (n, s), or a DataFrame of s categorical columns.
    Source: Wang et al., "PrivSet: set-valued data analyses with local differential privacy", INFOCOM 2018.

    With E = e^eps a report has probability E/Z or 1/Z, Z = E (C(d,k) - C(d-s,k)) + C(d-s,k). An own item is in it with
    probability a = E C(d-1,k-1)/Z. Any other is with b = (E (C(d-1,k-1) - C(d-1-s,k-1)) + C(d-1-s,k-1))/Z, whatever the own ones
    are. For k = 1 and eps large the report is one of the user's items. For s = 1 it is k-subset.

    Examples
    --------
    >>> PrivSet(epsilon=1.0, d=100, s=3).k
    8
    >>> PrivSet(epsilon=math.log(3), d=6, s=2, k=1).amplification
    VariationRatio(p=3, beta=0.4, q=3, q_star=1)
    """

    epsilon: float
    d: int
    s: int
    k: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is None:
            object.__setattr__(self, "k", best_size(self.epsilon, self.d, self.s))
        object.__setattr__(self, "k", check_integer("k", self.k, low=1, high=self.d - self.s))

    @property
    def _size(self) -> int:
        """k, which __post_init__ has made an integer."""
        return int(self.k or 0)

    @cached_property
    def weights(self) -> tuple[float, float]:
        """C(d, k)/Z times (E, 1): how much likelier than under the uniform law a report is."""
        miss = log_miss(self.d, self.s, self._size)
        high = 1 / (math.exp(miss - self.epsilon) - math.expm1(miss))
        return high, high * math.exp(-self.epsilon)

    @property
    def support(self) -> tuple[float, float]:
        """(E C(d-1,k-1), E (C(d-1,k-1) - C(d-1-s,k-1)) + C(d-1-s,k-1))/Z."""
        share, miss = self._size / self.d, log_miss(self.d - 1, self.s, self._size - 1)
        high, low = self.weights
        return share * high, share * (low * math.exp(miss) - high * math.expm1(miss))

    @property
    def amplification(self) -> VariationRatio:
        """beta = (E-1) (C(d-s,k) - C(d-u,k))/Z, u = min(2s, d) items in both sets; q_star = q, and 1 for k = 1 and 2s <= d.

        For k = 1 disjoint sets have no report in common, and all other items have the smallest probability, 1/Z. Sharing an item
        instead turns ratios (E, 1), (1, E) of two items to (E, E), (1, 1): of E - t, 1 - t E (t = e^eps' >= 1) the sum stays,
        and the ends come closer, so that D falls.
        """
        d, s, k = self.d, self.s, self._size
        miss = log_miss(d, s, k)
        apart = math.exp(miss) * -math.expm1(log_miss(d, 2 * s - self.common, k) - miss)
        beta = apart * self.weights[0] * -math.expm1(-self.epsilon)
        return VariationRatio.ldp(self.epsilon, beta, q_star=1.0 if k == 1 and self.common == 0 else None)

    @property
    def bits(self) -> float:
        """log2 C(d, k), rounded up."""
        d, k = self.d, self._size
        nats = math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)
        return float(math.ceil(round(nats / math.log(2), 6)))

    @property
    def width(self) -> int:  # type: ignore[override]
        """Random numbers: one per item of the report and of the own set, or per item at all."""
        return self.s + self._size if self.sparse else self.d

    @property
    def sparse(self) -> bool:
        """Whether at most half of the items that are not the user's are in a report."""
        return 2 * self._size <= self.d - self.s

    def valid(self, reports: Array) -> Array:
        """Increasing rows of items."""
        return well_formed(reports, self.d) & np.logical_and.reduce(reports[:, 1:] > reports[:, :-1], axis=1)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Sets, shape (n, s) -> items in ascending order, shape (n, k), same dtype.

        How many own items are in is drawn first; given that, both parts are uniform sets.
        """
        law = log_hits(self.d, self.s, self._size) + np.where(np.arange(min(self.s, self._size) + 1) > 0, 0.0, -self.epsilon)
        edges = np.cumsum(np.exp(law - law.max()))
        own = np.searchsorted(edges, edges[-1] * rng.random(values.shape[0]), side="right")
        return self._draw_sparse(values, own, rng) if self.sparse else self._draw_dense(values, own, rng)

    def _draw_sparse(self, values: Array, own: Array, rng: np.random.Generator) -> Array:
        """What repeats in a row is drawn again until nothing does.

        The set of distinct others grows by uniform new ones, so that every set of the wanted size is equally likely.
        """
        k, columns = self._size, min(self.s, self._size)
        values = np.sort(values, axis=1)
        reports = others(np.repeat(values, k, axis=0), self.d, rng).reshape(-1, k)
        chosen = rng.permuted(values, axis=1)[:, :columns]
        np.copyto(reports[:, :columns], chosen, where=np.arange(columns) < own[:, None])
        reports.sort(axis=1)
        rows = np.arange(values.shape[0])
        while k > 1:
            part = reports[rows]
            again = np.zeros(part.shape, dtype=bool)
            np.equal(part[:, 1:], part[:, :-1], out=again[:, 1:])
            found = again.any(axis=1)
            if not found.any():
                break
            rows, part, again = rows[found], part[found], again[found]
            part[again] = others(np.repeat(values[rows], again.sum(axis=1), axis=0), self.d, rng)
            part.sort(axis=1)
            reports[rows] = part
        return reports

    def _draw_dense(self, values: Array, own: Array, rng: np.random.Generator) -> Array:
        """The k items with the smallest keys: negative ones for the chosen own items, infinite for those not chosen."""
        keys = rng.random((values.shape[0], self.d))
        chosen = np.arange(self.s) < own[:, None]
        np.put_along_axis(keys, rng.permuted(values, axis=1).astype(np.intp), np.where(chosen, -1.0, np.inf), axis=1)
        reports = np.argpartition(keys, self._size - 1, axis=1)[:, : self._size].astype(values.dtype)
        reports.sort(axis=1)
        return reports

    def aggregate(self, reports: Array) -> Array:
        """Reports that hold each item, shape (d,)."""
        return np.bincount(reports.reshape(-1), minlength=self.d)

    def outcome(self, reports: Array) -> Array:
        """Position of the set among all sets of size k in lexicographic order, for tiny d."""
        listed = np.array([sum(1 << (self.d - 1 - i) for i in z) for z in itertools.combinations(range(self.d), self._size)])
        codes = (1 << (self.d - 1 - reports.astype(np.int64))).sum(axis=1)
        return listed.size - 1 - np.searchsorted(listed[::-1], codes)

    def log_channel(self) -> Array | None:
        """The C(d, s) x C(d, k) law of tiny instances."""
        size = math.comb(self.d, self._size)
        if math.comb(self.d, self.s) * size > ENUMERABLE:
            return None
        reports = np.array(list(itertools.combinations(range(self.d), self._size)))
        meets = (self.inputs()[:, None, :, None] == reports[None, :, None, :]).any(axis=(2, 3))
        base = math.log(self.weights[0]) - math.log(size)
        return np.where(meets, base, base - self.epsilon)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """By which of S0, S1, S* a report meets; some set is missed by any report, hence the floor is the low probability.

        S0 and S1 share as little as they can, which is the worst pair of the blanket by the argument of `amplification`. S* takes
        its items outside of both sets first, then from both, then from one or from each in turn.
        """
        s, c = self.s, self.common
        free = min(s, self.d - 2 * s + c)
        shared = min(s - free, c)
        left = s - free - shared
        candidates = {
            "others hold S0": (s, c, 2 * s - c),
            "others hold S1": (c, s, 2 * s - c),
            "others hold a set away from both": (shared + left, shared, 2 * s - c + free),
            "others hold a set away from both, half of the rest in each": (
                shared + left - left // 2,
                shared + left // 2,
                2 * s - c + free,
            ),
        }
        return tuple(self._grouped(*overlaps, note) for note, overlaps in candidates.items())

    def _grouped(self, with_first: int, with_second: int, union: int, note: str) -> OutcomeGroups:
        s = self.s
        sizes = {(): 0, (0,): s, (1,): s, (2,): s, (0, 1): 2 * s - self.common, (0, 2): 2 * s - with_first}
        sizes |= {(1, 2): 2 * s - with_second, (0, 1, 2): union}
        high, low = self.weights
        rows = []
        for pattern in itertools.product((True, False), repeat=3):
            met = tuple(i for i in range(3) if pattern[i])
            missed = tuple(i for i in range(3) if not pattern[i])
            mass = _mass(lambda sets: log_miss(self.d, sizes[sets], self._size), missed, met)
            if mass > 0:
                rows.append([mass * (high if member else low) for member in pattern] + [mass * low])
        columns = np.array(rows).T
        return OutcomeGroups(columns[0], columns[1], columns[2], columns[3], note)

    @classmethod
    def examples(cls) -> Iterator[PrivSet]:
        """Typical, tiny of each kind, extreme."""
        yield cls(epsilon=1.0, d=40, s=3)
        yield cls(epsilon=math.log(3), d=4, s=2, k=2)
        yield cls(epsilon=1.5, d=4, s=1, k=3)
        yield cls(epsilon=2.0, d=3, s=2, k=1)
        yield cls(epsilon=1e-9, d=4, s=1)
        yield cls(epsilon=700.0, d=6, s=2)


def _mass(log_missed: Callable[[tuple[int, ...]], float], missed: tuple[int, ...], met: tuple[int, ...]) -> float:
    """Probability that a uniform report misses all of some sets and meets all of others, given that of missing sets.

    By inclusion and exclusion; of two masses that differ by rounding only nothing is left.
    """
    log = log_missed(missed)
    if not met or log == -math.inf:
        return math.exp(log)
    wider = tuple(sorted((*missed, met[0])))
    if len(met) == 1:
        return math.exp(log) * -math.expm1(log_missed(wider) - log)
    all_of_them = _mass(log_missed, missed, met[1:])
    left = all_of_them - _mass(log_missed, wider, met[1:])
    return left if left > ROUNDING * all_of_them else 0.0


def best_size(epsilon: float, d: int, s: int) -> int:
    """The k in [1, d-s] with the smallest b (1-b)/(a-b)^2; all are tried.

    Examples
    --------
    >>> best_size(2.0, 60, 1), best_size(1.0, 60, 5), best_size(700.0, 30, 5)
    (7, 3, 1)
    """
    if d > SEARCHED:
        raise ValueError(f"k must be given for d > {SEARCHED}, got d={d}")
    i, e = np.arange(d - s), math.exp(-epsilon)
    miss = np.cumsum(np.log1p(-s / (d - i)))
    miss_rest = np.append(0.0, np.cumsum(np.log1p(-s / (d - 1 - i[:-1]))))
    total = e * np.exp(miss) - np.expm1(miss)
    share = (i + 1) / d / total
    b = share * (e * np.exp(miss_rest) - np.expm1(miss_rest))
    log_gap = np.log(share) + miss_rest
    return 1 + int(np.argmin(np.log(b) + np.log1p(-b) - 2 * log_gap))
