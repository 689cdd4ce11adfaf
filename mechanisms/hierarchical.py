"""Hierarchical randomized response for range queries: each user reports her node on one random level of a binary tree.

Sources: Cormode, Kulkarni, Srivastava, "Answering range queries under local differential privacy", PVLDB 12(10), 2019; as a
parallel composition: Wang et al., PVLDB 17(8), 2024, Algorithm 2 and Theorem 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shufflesim._checks import check_users
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array
from shufflesim.randomizer import CategoricalRandomizer

from .grr import ENUMERABLE, GRR

if TYPE_CHECKING:
    import pandas as pd

# Coefficients of leaves, ranges times d, that the variance of consistent ranges works on at once.
COEFFICIENTS = 2**21


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
    Data: integer codes 0..d-1 or a pandas categorical, shape (n,).
    Source: Cormode, Kulkarni, Srivastava, "Answering range queries under local differential privacy", PVLDB 12(10), 2019.

    A parallel composition: the report (h, y) is eps-LDP, its total variation the mean of the levels'. In a bound table
    "stronger-clone" is the basic parallel composition (largest beta), "published" the advanced one (Theorem 6.1) and
    "three-outcome" its sound form; "blanket" is the optimal blanket of the law of (h, y) itself.

    `estimate` gives counts of categories from the leaves alone; `ranges` any range from all levels.

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

    def ranges(self, aggregate: Array, n: int, low: Any, high: Any, *, consistent: bool = False) -> pd.DataFrame:
        """Numbers of users in ranges low <= x < high of categories, from the aggregate of n reports.

        Parameters
        ----------
        aggregate : ndarray, shape (2d - 2,)
            As `aggregate` makes it; `Simulation.aggregate` is one.
        n : int
            Number of users.
        low, high : int or array_like of int
            Ends of one range or of many; 0 <= low < high <= d.
        consistent : bool
            Whether estimates of nodes are first made to agree with those of their children, and with n at the root (weighted
            least squares; Hay et al., PVLDB 2010): still unbiased, and less noisy. O(d) per range instead of O(log d).

        Returns
        -------
        pandas.DataFrame
            One row a range: low, high, estimate, stderr (the exact one at estimated counts).

        Raises
        ------
        ValueError
            If an end is no integer in its range, or the aggregate is of another shape.

        Examples
        --------
        >>> tree = HierarchicalGRR(epsilon=700.0, d=8)
        >>> aggregate = tree.aggregate(tree.randomize(np.arange(8, dtype=np.uint8).repeat(3000), np.random.default_rng(0)))
        >>> tree.ranges(aggregate, 24_000, [0, 1], [8, 4])["estimate"].round(-3).tolist()
        [24000.0, 9000.0]
        """
        import pandas as pd

        n, aggregate = check_users(n), np.asarray(aggregate)
        if aggregate.shape != (2 * self.d - 2,):
            raise ValueError(f"aggregate must have shape ({2 * self.d - 2},), got {aggregate.shape}")
        if aggregate.dtype.kind not in "iuf" or not np.all(np.isfinite(aggregate)):
            raise ValueError(f"aggregate must hold finite numbers, got {aggregate.dtype} with others")
        if aggregate.sum() != n:
            raise ValueError(f"aggregate must hold the reports of n = {n} users, got {aggregate.sum()}")
        ends = self._ends(low, high)
        if consistent:
            leaves = self._consistent([self._nodes(h, aggregate, n) for h in range(self.levels)], n)
            held = np.maximum(leaves, 0.0)
            found = np.diff(np.append(0.0, np.cumsum(leaves))[ends], axis=1)[:, 0]
            variance = self._linear_variance(held * (n / held.sum()), ends)
        else:
            variance, found = self._direct(lambda h: self._nodes(h, aggregate, n), n, ends)
        return pd.DataFrame(
            {"low": ends[:, 0], "high": ends[:, 1], "estimate": found, "stderr": np.sqrt(np.maximum(variance, 0.0))}
        )

    def range_variance(self, total: Array, low: Any, high: Any, *, consistent: bool = False) -> Array:
        """Exact variance of the estimates of `ranges` for true counts per category, shape (ranges,)."""
        counts = np.asarray(total, dtype=float)
        if counts.shape != (self.d,):
            raise ValueError(f"total must have shape ({self.d},), got {counts.shape}")
        ends = self._ends(low, high)
        if consistent:
            return self._linear_variance(counts, ends)
        return self._direct(lambda h: counts.reshape(-1, 1 << h).sum(axis=1), float(counts.sum()), ends)[0]

    def _ends(self, low: Any, high: Any) -> Array:
        """Ranges as rows (low, high)."""
        rule = f"low < high must be integers in 0..{self.d}, one pair a range"
        pair = [np.atleast_1d(end) for end in (low, high)]
        if any(end.ndim != 1 or end.dtype.kind not in "iu" or not end.size for end in pair):
            raise ValueError(f"{rule}, got {', '.join(f'{end.dtype} of shape {end.shape}' for end in pair)}")
        try:
            # Beyond d, and then refused, stays beyond d.
            given = np.array(np.broadcast_arrays(*(np.minimum(end, self.d + 1).astype(np.int64) for end in pair)))
        except ValueError:
            raise ValueError(f"{rule}, got {np.shape(low)} and {np.shape(high)} ends") from None
        wrong = (given[0] < 0) | (given[0] >= given[1]) | (given[1] > self.d)
        if wrong.any():
            bad = int(wrong.argmax())
            raise ValueError(f"{rule}, got low={given[0, bad]}, high={given[1, bad]}")
        return given.T.astype(np.int64)

    def _nodes(self, h: int, aggregate: Array, n: int) -> Array:
        """Unbiased numbers of users below each node of a level."""
        a, b = self.parts[h].support
        return (self.levels * aggregate[self.offsets[h] : self.offsets[h + 1]] - n * b) / (a - b)

    def _direct(self, nodes: Callable[[int], Array], n: float, ends: Array) -> tuple[Array, Array]:
        """Variance and sum over the at most 2 log2 d nodes that make up each range.

        A report counts H/(a_h - b_h) for the node that it names, if that is one of them. With B and K the sums of b/(a - b) and
        H b/(a - b)^2 over the nodes, a user outside has variance K - B^2, one below node (h, y) H/(a_h - b_h) - 2 B - 1 more.
        """
        left, right = ends.T.copy()
        found, more, K, B, held = (np.zeros(len(ends)) for _ in range(5))
        for h, part in enumerate(self.parts):
            a, b = part.support
            level, gap = nodes(h), a - b
            for take, node in ((left & 1 == 1, left), (right & 1 == 1, right - 1)):
                take = take & (left < right)
                value = np.where(take, level[np.minimum(node, part.d - 1)], 0.0)
                users = np.clip(value, 0, n)
                found, held, more = found + value, held + users, more + users * (self.levels / gap)
                K, B = K + take * (self.levels * b / gap**2), B + take * (b / gap)
            left, right = (left + 1) >> 1, right >> 1
        # What reaches the root is everybody.
        return n * (K - B**2) + more - held * (2 * B + 1), found + n * (left < right)

    @cached_property
    def _weights(self) -> Array:
        """Weight of a node's own estimate beside the sum of its children's, by level; from the variances of rare nodes."""
        own = np.array([(self.levels - b) * b / (a - b) ** 2 for a, b in (part.support for part in self.parts)])
        # Without any lies only the levels' randomness is left, the same on each.
        own = np.maximum(own, (self.levels - 1) / self.d)
        weights, best = [1.0], own[0]
        for variance in own[1:]:
            weights.append(2 * best / (variance + 2 * best))
            best = 2 * best * variance / (variance + 2 * best)
        return np.array(weights)

    def _consistent(self, levels: list[Array], n: float) -> Array:
        """Leaves after averaging up the tree and passing differences down it."""
        for h in range(1, self.levels):
            share = self._weights[h]
            levels[h] = share * levels[h] + (1 - share) * _pairs(levels[h - 1])
        parent = np.array([float(n)])
        for level in reversed(levels):
            parent = level + np.repeat((parent - _pairs(level)) / 2, 2)
        return parent

    def _linear_variance(self, counts: Array, ends: Array) -> Array:
        """Variance of consistent ranges, by the coefficients of all nodes: the passes of `_consistent` backwards."""
        step = max(1, COEFFICIENTS // self.d)
        return np.concatenate([self._variance_of(counts, ends[i : i + step]) for i in range(0, len(ends), step)])

    def _variance_of(self, counts: Array, ends: Array) -> Array:
        place = np.arange(self.d)
        down = ((place >= ends[:, :1]) & (place < ends[:, 1:])).astype(float)
        up = []
        for _ in range(self.levels):
            half = _pairs(down) / 2
            up.append(down - np.repeat(half, 2, axis=1))
            down = half
        for h in range(self.levels - 1, 0, -1):
            up[h - 1] = up[h - 1] + np.repeat((1 - self._weights[h]) * up[h], 2, axis=1)
            up[h] = self._weights[h] * up[h]
        base, mean = np.zeros((len(ends), 1)), np.zeros((len(ends), 1))
        own, square = np.zeros((len(ends), self.d)), np.zeros((len(ends), self.d))
        for h, (part, weight) in enumerate(zip(self.parts, up, strict=True)):
            a, b = part.support
            gap = a - b
            base += self.levels * b / gap**2 * (weight**2).sum(axis=1, keepdims=True)
            mean += b / gap * weight.sum(axis=1, keepdims=True)
            own += np.repeat(weight, 1 << h, axis=1)
            square += np.repeat(weight**2 * (self.levels / gap), 1 << h, axis=1)
        return (base + square - (mean + own) ** 2) @ counts

    @classmethod
    def examples(cls) -> Iterator[HierarchicalGRR]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=1.0, d=64)
        yield cls(epsilon=math.log(3), d=4)
        yield cls(epsilon=2.0, d=2)
        yield cls(epsilon=1e-9, d=8)
        yield cls(epsilon=700.0, d=8)
        yield cls(epsilon=2.0, d=2**16)


def _pairs(level: Array) -> Array:
    """Sums of neighbours, along the last axis."""
    return level[..., ::2] + level[..., 1::2]
