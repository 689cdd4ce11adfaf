"""The exact law of a shuffled multiset of reports, for small laws and few users: no bound, no sampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .._checks import check_integer
from ..domains import Array

# Largest number of multisets of reports times data sets times inputs.
CELLS_MAX = 50_000_000


@dataclass(frozen=True)
class Worst:
    """A divergence and the neighbouring data sets that attain it.

    Attributes
    ----------
    delta : float or Fraction
        D_eps of the shuffled reports of (x0, others) against those of (x1, others).
    x0, x1 : int
        Row of the law that user 1 holds.
    others : tuple of int
        Rows that the others hold.
    """

    delta: Any
    x0: int
    x1: int
    others: tuple[int, ...]


class Enumeration:
    """All multisets of n reports and their probabilities.

    Parameters
    ----------
    law : array_like, shape (inputs, outcomes)
        Row x is the law of the report of a user who holds x: floats, or `fractions.Fraction` for exact results.
    n : int
        Number of users, >= 1.

    Raises
    ------
    ValueError
        If the law is no matrix of probabilities, or there is too much to enumerate.

    Notes
    -----
    A multiset is coded as one integer, its counts being digits to base n + 1. Adding a user's report convolves with that user's
    row; all terms are positive, so that floats keep their relative accuracy. Data sets of the others are multisets too, since
    the shuffler hides who is who.

    Examples
    --------
    The smallest counterexample to the published bound, in exact arithmetic:

    >>> half = Fraction(1, 5)
    >>> grr = Enumeration([[3 * half, half, half], [half, 3 * half, half], [half, half, 3 * half]], n=3)
    >>> grr.worst(growth=Fraction(2), others=(0, 2)).delta
    Fraction(2, 25)
    """

    def __init__(self, law: Any, n: int) -> None:
        rows = np.array(law, dtype=object)
        rational = rows.ndim == 2 and all(isinstance(p, (Fraction, int)) for p in rows.ravel())
        self.law: Array = rows if rational else np.asarray(law, dtype=float)
        self.n = check_integer("n", n, low=1)
        if self.law.ndim != 2 or (self.law < 0).any() or any(abs(float(total) - 1) > 1e-9 for total in self.law.sum(axis=1)):
            raise ValueError(f"law must be a matrix of probabilities whose rows sum to 1, got shape {self.law.shape}")
        inputs, outcomes = self.law.shape
        data_sets = math.comb(self.n - 1 + inputs - 1, inputs - 1)
        cells = math.comb(self.n + outcomes - 1, outcomes - 1) * data_sets * inputs
        if cells > CELLS_MAX or (self.n + 1) ** outcomes > 2**62:
            raise ValueError(f"law and n must give at most {CELLS_MAX:,} multisets in all, got about {cells:,} for n = {self.n}")

    def data_sets(self) -> Iterator[tuple[int, ...]]:
        """Everything that the others may hold, up to order."""
        return itertools.combinations_with_replacement(range(self.law.shape[0]), self.n - 1)

    def views(self, others: Sequence[int]) -> Array:
        """Probabilities of all multisets that can occur, one row for each input of user 1."""
        codes, masses = np.zeros(1, dtype=np.int64), np.array([1 if self.law.dtype == object else 1.0], dtype=self.law.dtype)
        for x in others:
            codes, masses = self._with(codes, masses, self.law[x])
        parts = [self._with(codes, masses, row) for row in self.law]
        every = np.unique(np.concatenate([part for part, _ in parts]))
        found = np.zeros((len(parts), every.size), dtype=self.law.dtype)
        for row, (part, mass) in zip(found, parts, strict=True):
            row[np.searchsorted(every, part)] = mass
        return found

    def _with(self, codes: Array, masses: Array, row: Array) -> tuple[Array, Array]:
        """One more report of law `row`."""
        possible = [k for k, p in enumerate(row) if p > 0]
        added = np.concatenate([codes + (self.n + 1) ** k for k in possible])
        products = np.concatenate([masses * row[k] for k in possible])
        every, inverse = np.unique(added, return_inverse=True)
        total = np.zeros(every.size, dtype=masses.dtype)
        np.add.at(total, inverse, products)
        return every, total

    def worst(self, eps: float | None = None, *, growth: Any = None, others: Sequence[int] | None = None) -> Worst:
        """The largest divergence over user 1's two inputs, in both directions, and the others' data.

        Parameters
        ----------
        eps : float
            In nats.
        growth : Fraction or float
            e^eps, instead of eps.
        others : sequence of int, optional
            What the others hold; everything they may hold by default.
        """
        if (eps is None) == (growth is None):
            raise ValueError(f"exactly one of eps and growth must be given, got eps={eps!r}, growth={growth!r}")
        factor = math.exp(eps) if eps is not None else growth
        if others is not None and len(others) != self.n - 1:
            raise ValueError(f"others must be {self.n - 1} inputs, got {len(others)}")
        best: Worst | None = None
        for data in self.data_sets() if others is None else [tuple(others)]:
            views = self.views(data)
            for i, j in itertools.permutations(range(len(views)), 2):
                difference = views[i] - factor * views[j]
                delta = difference[difference > 0].sum()
                if best is None or delta > best.delta:
                    best = Worst(delta, i, j, data)
        if best is None:
            raise ValueError(f"law must have at least two inputs, got {len(self.law)}")
        return best

    def curve(self, others: Sequence[int] | None = None) -> tuple[Array, Array]:
        """The whole privacy curve: eps of all its kinks, increasing, and the largest delta there.

        Between two kinks delta is linear in e^eps for each pair of data sets; from the last kink on it is constant (0, if no
        multiset tells the inputs apart for certain).
        """
        pairs = []
        kinks = [np.zeros(1)]
        for data in self.data_sets() if others is None else [tuple(others)]:
            views = self.views(data).astype(float)
            for i, j in itertools.permutations(range(len(views)), 2):
                both = (views[i] > 0) & (views[j] > 0)
                kinks.append(np.log(views[i][both] / views[j][both]))
                pairs.append((views[i], views[j]))
        eps = np.unique(np.concatenate(kinks))
        delta = np.zeros(eps.size)
        for first, second in pairs:
            delta = np.maximum(delta, _divergences(first, second, np.exp(eps)))
        return eps, delta


def _divergences(first: Array, second: Array, growth: Array) -> Array:
    """sum max(0, first - growth second) for increasing growth, by sums from the largest ratio down."""
    with np.errstate(divide="ignore"):
        ratio = np.where(second > 0, first / np.where(second > 0, second, 1.0), np.inf)
    order = np.argsort(-ratio)
    above = np.searchsorted(-ratio[order], -growth, side="left")
    p, q = (np.concatenate([[0.0], np.cumsum(part[order])]) for part in (first, second))
    return np.maximum(p[above] - growth * q[above], 0.0)
