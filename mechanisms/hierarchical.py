"""Hierarchical randomized response for range queries: each user reports her node on one random level of a binary tree.

Sources: Cormode, Kulkarni, Srivastava, "Answering range queries under local differential privacy", PVLDB 12(10), 2019; as a
parallel composition: Wang et al., PVLDB 17(8), 2024, Algorithm 2 and Theorem 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array
from shufflesim.randomizer import CategoricalRandomizer

from .grr import ENUMERABLE, GRR


@dataclass(frozen=True)
class HierarchicalGRR(CategoricalRandomizer):
    """A uniformly random level of a binary tree over d = 2^H categories, and GRR with the whole budget on the node there.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of categories; a power of two, >= 2. Level h = 0..H-1 has d/2^h nodes.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    A parallel composition: the report (h, y) is eps-LDP, its total variation the mean of the levels'. In a bound table
    "stronger-clone" is the basic parallel composition (largest beta), "published" the advanced one (Theorem 6.1) and
    "three-outcome" its sound form; "blanket" is the optimal blanket of the law of (h, y) itself.

    Examples
    --------
    >>> HierarchicalGRR(epsilon=1.0, d=64).levels
    6
    """

    epsilon: float
    d: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d & (self.d - 1):
            raise ValueError(f"d must be a power of two, got {self.d}")

    @property
    def levels(self) -> int:
        """H = log2 d."""
        return self.d.bit_length() - 1

    @cached_property
    def parts(self) -> tuple[GRR, ...]:
        """GRR on each level, leaves first."""
        return tuple(GRR(self.epsilon, self.d >> h) for h in range(self.levels))

    @cached_property
    def offsets(self) -> Array:
        """First report of each level; d (2 - 2^(1-H)) = 2d - 2 reports in all."""
        return np.cumsum([0, *(part.d for part in self.parts)])

    @property
    def support(self) -> tuple[float, float]:
        """A report supports a leaf if it is this leaf: (a, b)/H with GRR's a, b on d categories."""
        a, b = self.parts[0].support
        return a / self.levels, b / self.levels

    @property
    def amplification(self) -> VariationRatio:
        """beta is the mean over levels, attained by two categories in different halves; q* = 1 as for GRR."""
        beta = sum(part.truthful for part in self.parts) / self.levels
        return VariationRatio.ldp(self.epsilon, beta, q_star=1.0)

    @property
    def bits(self) -> float:
        """log2 of the number of reports, rounded up."""
        return float(math.ceil(math.log2(2 * self.d - 2)))

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Codes, shape (n,) -> nodes, shape (n,): the first of the level plus the node on it."""
        level = rng.integers(0, self.levels, values.shape[0], dtype=np.uint8)
        reports = np.empty(values.shape[0], dtype=np.min_scalar_type(2 * self.d - 3))
        for h, part in enumerate(self.parts):
            chosen = level == h
            nodes = (values[chosen].astype(np.int64) >> h).astype(np.min_scalar_type(part.d - 1))
            reports[chosen] = self.offsets[h] + part.randomize(nodes, rng).astype(np.int64)
        return reports

    def aggregate(self, reports: Array) -> Array:
        """Reports per node, shape (2d - 2,)."""
        return np.bincount(reports, minlength=2 * self.d - 2)

    def supports(self, aggregate: Array) -> Array:
        """Reports per leaf."""
        return aggregate[: self.d]

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Users per level and category are multinomial; each level then is GRR's."""
        left, found = np.asarray(totals, dtype=np.int64), []
        for h, part in enumerate(self.parts):
            here = rng.binomial(left, 1 / (self.levels - h))
            left = left - here
            found.append(part.sample_aggregate(here.reshape(part.d, -1).sum(axis=1), rng))
        return np.concatenate(found)

    def log_channel(self) -> Array | None:
        """The d x (2d - 2) law for small d."""
        if self.d > ENUMERABLE:
            return None
        rows = []
        for h, part in enumerate(self.parts):
            law = part.log_channel()
            if law is not None:
                rows.append(np.repeat(law, 1 << h, axis=0))
        return np.hstack(rows) - math.log(self.levels)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Two categories that differ on every level; the others hold one of them, or a third that differs where it can.

        All levels have the ratios E : 1, so that nodes of all levels share a group: x0's and x1's nodes with more than two on the
        level, the same on the last level, where a third category is on x0's side, a third category's nodes, and the rest.
        """
        share = [part.support[1] / self.levels for part in self.parts]
        upper, last = sum(share[:-1]), share[-1]
        rest = sum(b * (part.d - 3) for b, part in zip(share[:-1], self.parts, strict=False))
        floor = np.array([upper, upper, last, last, upper, rest])
        high = math.exp(self.epsilon)
        names = ["others hold x0", "others hold x1"]
        if self.d > 2:
            names.append("others hold a third value, different from both on every level but the last")

        def masses(*owned: int) -> Array:
            return floor * np.where(np.isin(np.arange(6), owned), high, 1.0)

        first, second, third = masses(0, 2), masses(1, 3), masses(4, 2)
        others = (first, second, third)
        return tuple(OutcomeGroups(first, second, others[k], floor, note) for k, note in enumerate(names))

    @classmethod
    def examples(cls) -> Iterator[HierarchicalGRR]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=1.0, d=64)
        yield cls(epsilon=math.log(3), d=4)
        yield cls(epsilon=2.0, d=2)
        yield cls(epsilon=1e-9, d=8)
        yield cls(epsilon=700.0, d=8)
        yield cls(epsilon=2.0, d=2**16)
