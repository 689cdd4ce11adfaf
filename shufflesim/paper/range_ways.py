"""Ways to answer range queries under local noise, calibrated to the same central privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._sampling import child
from ..bounds import Bounded, VariationRatio, calibrate, epsilon
from ..domains import Array, Counts
from ..mechanisms import GRR, OUE, HierarchicalGRR
from ..simulation import simulate


def between(values: Array, ends: Array) -> Array:
    """Sum of values[low:high] for each row (low, high)."""
    found: Array = np.diff(np.append(0, np.cumsum(values))[ends], axis=1)[:, 0]
    return found


def sum_variance(part: GRR, held: Array, n: int, nodes: Array) -> Array:
    """Variance of GRR's sum over `nodes` categories of which `held` of the n users hold one.

    A report is one of k categories with probability a + (k-1) b of such a user, k b of any other.
    """
    a, b = part.support
    own, other = np.where(nodes > 0, a + (nodes - 1) * b, 0.0), nodes * b
    found: Array = (held * own * (1 - own) + (n - held) * other * (1 - other)) / (a - b) ** 2
    return found


def largest(make: Callable[[float], Bounded], n: int, delta: float, target: float) -> float:
    """The largest local budget that keeps the central eps `target`.

    For GRR and the tree it is enough to make the declaration: its three-outcome bound is the blanket of the law.
    """
    return float(calibrate(make, n, delta, target).parameter)


def largest_grr(nodes: int, n: int, delta: float, target: float) -> GRR:
    """GRR with the largest budget."""
    return GRR(largest(lambda e: GRR(e, nodes).amplification, n, delta, target), nodes)


class Way(Protocol):
    """A way to answer ranges, calibrated."""

    @property
    def local(self) -> float:
        """Local eps."""

    def central(self, n: int, delta: float) -> float:
        """Sound central eps."""

    def variance(self, counts: Array, ends: Array) -> Array:
        """Exact variance of each range's unbiased estimate, shape (ranges,)."""

    def estimates(self, counts: Array, ends: Array, delta: float, seed: np.random.SeedSequence) -> Array:
        """One run, shape (ranges,)."""


@dataclass(frozen=True)
class _One:
    """One randomizer for all users."""

    randomizer: HierarchicalGRR | GRR | OUE

    @property
    def local(self) -> float:
        """Local eps."""
        return self.randomizer.epsilon

    def central(self, n: int, delta: float) -> float:
        """Of the randomizer's law."""
        return float(epsilon(self.randomizer, n, delta))


@dataclass(frozen=True)
class Tree(_One):
    """Each user reports on one level, drawn at random."""

    randomizer: HierarchicalGRR
    consistent: bool = False

    def variance(self, counts: Array, ends: Array) -> Array:
        """As the randomizer says."""
        return self.randomizer.range_variance(counts, *ends.T, consistent=self.consistent)

    def estimates(self, counts: Array, ends: Array, delta: float, seed: np.random.SeedSequence) -> Array:
        """One simulation."""
        run = simulate(self.randomizer, Counts(counts), delta=delta, seed=seed, method="counts")
        found = self.randomizer.ranges(run.aggregate, run.n, *ends.T, consistent=self.consistent)
        return found["estimate"].to_numpy()


@dataclass(frozen=True)
class Groups:
    """Disjoint random groups of users, one a level of a tree, each with GRR of its own budget on the nodes there.

    Attributes
    ----------
    parts : tuple of GRR
        Leaves first; the one of level h has d/2^h nodes.
    sizes : tuple of int
        Users in each group.
    """

    parts: tuple[GRR, ...]
    sizes: tuple[int, ...]

    @classmethod
    def calibrated(cls, d: int, n: int, delta: float, target: float) -> Groups:
        """Groups of n/H users, equal up to one, each with the largest budget that keeps its own central eps at `target`."""
        levels = d.bit_length() - 1
        sizes = tuple(n // levels + (h < n % levels) for h in range(levels))
        return cls(tuple(largest_grr(d >> h, size, delta, target) for h, size in enumerate(sizes)), sizes)

    @property
    def local(self) -> float:
        """Of the leaves."""
        return self.parts[0].epsilon

    def central(self, n: int, delta: float) -> float:
        """Largest over the groups."""
        return max(float(epsilon(part.amplification, size, delta)) for part, size in zip(self.parts, self.sizes, strict=True))

    def covers(self, ends: Array) -> Iterator[Array]:
        """Which nodes of each level make up each range, shape (ranges, nodes): at most two; none if it is everything."""
        low, high = (end[:, None] for end in ends.T)
        for part in self.parts:
            node = np.arange(part.d)
            yield (low < high) & (((node == low) & (low % 2 == 1)) | ((node == high - 1) & (high % 2 == 1)))
            low, high = (low + 1) >> 1, high >> 1

    def variance(self, counts: Array, ends: Array) -> Array:
        """Noise of the groups, and who is in which.

        With K_h of the n users below the range's nodes of level h, and m_h users in its group, the latter is
        sum_h (n/m_h) K_h (1 - K_h/n) (n - m_h)/(n-1), plus sum_{g != h} K_g K_h/(n-1) as the groups share the users.
        """
        n = int(counts.sum())
        found, total, square = (np.zeros(len(ends)) for _ in range(3))
        for h, (part, size, cover) in enumerate(zip(self.parts, self.sizes, self.covers(ends), strict=True)):
            held, nodes = cover @ _nodes(counts, h), cover.sum(axis=1)
            found += n / size * (sum_variance(part, held, n, nodes) + held * (1 - held / n) * (n - size) / (n - 1))
            total, square = total + held, square + held**2
        return found + (total**2 - square) / (n - 1)

    def estimates(self, counts: Array, ends: Array, delta: float, seed: np.random.SeedSequence) -> Array:
        """Draws who is in which group, and simulates every group."""
        n, rng, left, found = counts.sum(), np.random.default_rng(child(seed, 0)), counts, np.zeros(len(ends))
        for h, (part, size, cover) in enumerate(zip(self.parts, self.sizes, self.covers(ends), strict=True)):
            here = rng.multivariate_hypergeometric(left, size, method="marginals")
            left = left - here
            run = simulate(part, Counts(_nodes(here, h)), delta=delta, seed=child(seed, 1, h), method="counts")
            found += cover @ run.estimate * (n / size)
        return np.where(ends[:, 1] - ends[:, 0] == counts.size, n, found)


def _nodes(counts: Array, h: int) -> Array:
    """Users per node of level h."""
    found: Array = counts.reshape(-1, 1 << h).sum(axis=1)
    return found


@dataclass(frozen=True)
class Flat(_One):
    """One histogram whose leaves are added up."""

    randomizer: GRR | OUE

    def variance(self, counts: Array, ends: Array) -> Array:
        """OUE's leaves are independent, of GRR's a report is one."""
        n = int(counts.sum())
        if isinstance(self.randomizer, GRR):
            return sum_variance(self.randomizer, between(counts, ends), n, ends[:, 1] - ends[:, 0])
        return between(self.randomizer.variance(counts, n), ends)

    def estimates(self, counts: Array, ends: Array, delta: float, seed: np.random.SeedSequence) -> Array:
        """One simulation."""
        return between(simulate(self.randomizer, Counts(counts), delta=delta, seed=seed, method="counts").estimate, ends)


def as_published(epsilon0: float, d: int) -> VariationRatio:
    """The tree's declaration with q* = omega/(1 - 2r), which nobody has proved: its three-outcome pair is the published one."""
    declared = HierarchicalGRR(epsilon0, d).amplification
    pretended = declared.omega / (1 - declared.r0 - declared.r1)
    # Without a neutral part the published pair is the sound one.
    return VariationRatio(declared.p, declared.beta, declared.q, q_star=pretended or None)


def ways(d: int, n: int, delta: float, target: float) -> dict[str, Way]:
    """Every way by its name, with the largest local budget at which each accounting promises the central eps `target`."""
    basic = largest(lambda e: VariationRatio.ldp(e, math.tanh(e / 2)), n, delta, target)
    published = largest(lambda e: as_published(e, d), n, delta, target)
    sound = HierarchicalGRR(largest(lambda e: HierarchicalGRR(e, d).amplification, n, delta, target), d)
    return {
        "tree, sound": Tree(sound),
        "tree, published": Tree(HierarchicalGRR(published, d)),
        "tree, basic": Tree(HierarchicalGRR(basic, d)),
        "tree, consistent": Tree(sound, consistent=True),
        "separate": Groups.calibrated(d, n, delta, target),
        "flat GRR": Flat(largest_grr(d, n, delta, target)),
        "flat OUE": Flat(OUE(largest(lambda e: OUE(e, d), n, delta, target), d)),
    }
