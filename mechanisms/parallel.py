"""Parallel composition: each user answers with one of several randomizers, drawn at random, and says which.

Source: Wang et al., "Privacy amplification via shuffling: unified, simplified, and tightened", PVLDB 17(8), 2024, Algorithm 2 and
Theorem 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shufflesim._checks import check_number, plain
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.bounds.groups import enumerate_groups
from shufflesim.domains import Array, Categories, Domain, Sets
from shufflesim.randomizer import Randomizer

# Outcomes times inputs up to which the law is handed out as a matrix, and inputs up to which all pairs get bounds of their own.
ENUMERABLE = 65_536
ENUMERATED = 8
# Departure of weights from a sum of 1 that is rounding.
WEIGHTS_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Parallel(Randomizer):
    """Draw k with probability P_k, report k and the report of the k-th randomizer.

    Parameters
    ----------
    randomizers : sequence of Randomizer
        At least one; all of the same domain, of categories or sets of them.
    weights : sequence of float, optional
        P_k > 0, adding up to 1; uniform by default.

    Raises
    ------
    ValueError
        If the randomizers do not fit together, or the weights are no distribution.

    Notes
    -----
    Data: what the parts take: integer codes, shape (n,), or rows of s distinct codes, shape (n, s).
    Source: Wang et al., "Privacy amplification via shuffling", PVLDB 17(8), 2024, Algorithm 2.

    Local eps is the largest of the parts. The total variation is sum_k P_k beta_k, attained where one pair of inputs is the worst
    for every part; in a bound table "published" is the advanced parallel composition (Theorem 6.1) and "stronger-clone" the basic
    one.

    The estimate is sum_k (w_k/P_k) est_k, with fixed weights w_k proportional to P_k over the part's variance at equal counts. A
    user who holds an item adds 1 on average to it whichever part she draws, so that the variance of a count c is
    sum_k (w_k^2/P_k)(V_k + c) - c, V_k that of part k if all users drew it.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR, RAPPOR
    >>> Parallel((GRR(1.0, 4), RAPPOR(1.0, 4)), weights=(0.75, 0.25)).local_epsilon
    1.0
    """

    randomizers: tuple[Randomizer, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        given: Any = self.randomizers
        if not isinstance(given, tuple | list) or not given or not all(isinstance(part, Randomizer) for part in given):
            raise ValueError(f"randomizers must be a list of at least one Randomizer, got {plain(given)!r}")
        domain = given[0].domain
        if not isinstance(domain, Categories | Sets) or any(part.domain != domain for part in given):
            found = list(dict.fromkeys(repr(part.domain) for part in given))
            raise ValueError(f"randomizers must have one domain of categories or sets in common, got {', '.join(found)}")
        object.__setattr__(self, "randomizers", tuple(given))
        weights: Any = self.weights
        if weights is None:
            weights = (1 / len(given),) * len(given)
        if not isinstance(weights, tuple | list | np.ndarray) or len(weights) != len(given):
            raise ValueError(f"weights must be as many numbers as randomizers, {len(given)}, got {plain(weights)!r}")
        least = math.nextafter(0.0, 1.0)
        weights = tuple(check_number("weights", weight, "numbers in (0, 1]", low=least, high=1.0) for weight in weights)
        if abs(sum(weights) - 1) > WEIGHTS_TOLERANCE:
            raise ValueError(f"weights must add up to 1, got {sum(weights)!r}")
        object.__setattr__(self, "weights", tuple(weight / sum(weights) for weight in weights))

    @property
    def _parts(self) -> list[tuple[float, Randomizer]]:
        """Probability and randomizer of each part."""
        return list(zip(self.weights or (), self.randomizers, strict=True))

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """The largest of the parts'."""
        return max(part.local_epsilon for part in self.randomizers)

    def with_epsilon(self, epsilon: float) -> Parallel:
        """Every part with this budget."""
        return Parallel(tuple(part.with_epsilon(epsilon) for part in self.randomizers), self.weights)

    @property
    def domain(self) -> Domain:
        """The parts'."""
        return self.randomizers[0].domain

    @property
    def amplification(self) -> VariationRatio:
        """Mean beta; the largest q_star where all parts have the same p and q, q otherwise.

        Parts of a law with disjoint reports: extremal and neutral parts mix with the weights P_k alpha_k and P_k omega_k, and
        every input's law holds the mixture's clones at the rates alpha p/q and omega/max q_star.
        """
        declared = [part.amplification for part in self.randomizers]
        beta = sum(weight * d.beta for weight, d in zip(self.weights or (), declared, strict=True))
        same = all((d.p, d.q, d.second_q) == (declared[0].p,) * 3 for d in declared)
        largest = max(d.neutral_q for d in declared)
        return VariationRatio.ldp(self.epsilon, beta, q_star=largest if same and largest < declared[0].q else None)

    @property
    def bits(self) -> float:
        """The number of the part, and the longest report."""
        return math.ceil(math.log2(len(self.randomizers))) + max(part.bits for part in self.randomizers)

    @property
    def width(self) -> int:  # type: ignore[override]
        """The widest part's, and its reports' bytes."""
        return max(*(part.width for part in self.randomizers), self._layout[1])

    @cached_property
    def _example(self) -> list[Array]:
        """One report of each part: its type and shape are those of all of them."""
        rng = np.random.default_rng(0)
        values = self.domain.validate(self.domain.example(1, rng))
        return [part.randomize(values, rng) for part in self.randomizers]

    @cached_property
    def _layout(self) -> tuple[list[tuple[np.dtype[Any], tuple[int, ...], int]], int]:
        """Type, shape and bytes of each part's report; bytes of the longest."""
        layout = [(report.dtype, report.shape[1:], report.nbytes) for report in self._example]
        return layout, max(size for _, _, size in layout)

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """The part of each user."""
        edges = np.cumsum(self.weights or ())[:-1]
        return np.searchsorted(edges, rng.random(n), side="right")

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Values -> bytes, uint8: the number of the part in 4 bytes, then its report, padded with zeros."""
        layout, longest = self._layout
        drawn = self._draw(values.shape[0], rng)
        reports = np.zeros((values.shape[0], 4 + longest), dtype=np.uint8)
        reports[:, :4] = drawn.astype("<u4").view(np.uint8).reshape(-1, 4)
        for k, (part, (_, _, size)) in enumerate(zip(self.randomizers, layout, strict=True)):
            users = np.flatnonzero(drawn == k)
            if users.size:
                found = np.ascontiguousarray(part.randomize(values[users], rng))
                reports[users, 4 : 4 + size] = found.view(np.uint8).reshape(users.size, size)
        return reports

    def _split(self, reports: Array) -> Iterator[tuple[int, Array, Array]]:
        """Number, positions and reports of each part that occurs."""
        drawn = np.ascontiguousarray(reports[:, :4]).view("<u4")[:, 0]
        for k, (dtype, shape, size) in enumerate(self._layout[0]):
            users = np.flatnonzero(drawn == k)
            if users.size:
                packed = np.ascontiguousarray(reports[users, 4 : 4 + size])
                yield k, users, packed.view(dtype).reshape(users.size, *shape)

    @cached_property
    def _slots(self) -> tuple[list[tuple[int, ...]], Array]:
        """Shape of each part's aggregate, and where its slot begins: the number of reports, then the aggregate."""
        shapes = [np.shape(part.aggregate(report)) for part, report in zip(self.randomizers, self._example, strict=True)]
        return shapes, np.cumsum([0, *(1 + math.prod(shape) for shape in shapes)])

    def aggregate(self, reports: Array) -> Array:
        """For each part the number of reports and their aggregate, one after the other."""
        _, starts = self._slots
        total = np.zeros(starts[-1])
        for k, users, found in self._split(reports):
            total[starts[k]] = users.size
            total[starts[k] + 1 : starts[k + 1]] = np.ravel(self.randomizers[k].aggregate(found))
        return total

    @cached_property
    def _shares(self) -> Array:
        """w_k/P_k."""
        k = len(self.domain.labels)
        even = np.full(k, getattr(self.domain, "s", 1) / k)
        precision = np.array([1 / float(np.mean(part.variance(even, 1))) if weight else 0.0 for weight, part in self._parts])
        precision = np.minimum(precision, 1e300)
        return precision / float(np.array(self.weights) @ precision)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts, shape (d,); parts that nobody drew add nothing."""
        shapes, starts = self._slots
        found = np.zeros(len(self.domain.labels))
        for k, (part, shape) in enumerate(zip(self.randomizers, shapes, strict=True)):
            users = round(float(aggregate[starts[k]]))
            if users:
                slot = np.asarray(aggregate[starts[k] + 1 : starts[k + 1]]).reshape(shape)
                found = found + self._shares[k] * part.estimate(slot, users)
        return found

    def variance(self, total: Array, n: int) -> Array:
        """sum_k (w_k^2/P_k)(V_k + c) - c, written so that a single part has the variance of that part."""
        found = (sum(weight * share**2 for (weight, _), share in zip(self._parts, self._shares, strict=True)) - 1) * total
        for (weight, part), share in zip(self._parts, self._shares, strict=True):
            found = found + weight * share**2 * part.variance(total, n)
        return found

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array | None:
        """Users per part and category are multinomial; each part then samples its own. None if a part cannot, or for sets."""
        if not isinstance(self.domain, Categories):
            return None
        left, rest = np.asarray(totals, dtype=np.int64), 1.0
        slots: list[Array] = []
        last = len(self.randomizers) - 1
        for k, (weight, part) in enumerate(self._parts):
            here = rng.binomial(left, min(1.0, weight / rest)) if k < last else left
            left, rest = left - here, rest - weight
            found = part.sample_aggregate(here, rng)
            if found is None:
                return None
            slots += [here.sum(keepdims=True), np.ravel(found)]
        return np.concatenate(slots).astype(float)

    def inputs(self) -> Array:
        """The first part's: all have the same domain."""
        return self.randomizers[0].inputs()

    def log_channel(self) -> Array | None:
        """The parts' laws side by side, for tiny instances."""
        laws = [part.log_channel() for part in self.randomizers]
        if any(law is None for law in laws) or sum(law.size for law in laws if law is not None) > ENUMERABLE:
            return None
        return np.hstack(
            [law + math.log(weight) for law, weight in zip(laws, self.weights or (), strict=True) if law is not None]
        )

    def outcome(self, reports: Array) -> Array:
        """The part's column behind those of the parts before."""
        laws = [part.log_channel() for part in self.randomizers]
        starts = np.cumsum([0, *(0 if law is None else law.shape[1] for law in laws)])
        found = np.zeros(reports.shape[0], dtype=np.int64)
        for k, users, own in self._split(reports):
            found[users] = starts[k] + self.randomizers[k].outcome(own)
        return found

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """By enumeration for up to `ENUMERATED` inputs; none otherwise, where the declaration alone gives bounds."""
        law = self.channel()
        return () if law is None or len(law) > ENUMERATED else enumerate_groups(law)

    @classmethod
    def examples(cls) -> Iterator[Parallel]:
        """Typical, reports of different kinds and budgets, a single part, many categories."""
        from .grr import GRR
        from .local_hash import LocalHash
        from .unary import RAPPOR

        yield cls((GRR(1.0, 4), RAPPOR(1.0, 4)), weights=(0.75, 0.25))
        yield cls((GRR(2.0, 3), LocalHash(1.0, 3, 2), RAPPOR(0.5, 3)))
        yield cls((GRR(1.0, 3),))
        yield cls((RAPPOR(1.0, 300), GRR(1.0, 300), LocalHash(1.0, 300)), weights=(0.25, 0.5, 0.25))
