"""The exact law of a shuffled multiset of reports, for small laws and few users: no bound, no sampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .._checks import EPSILON_MAX, check_integer, check_number
from ..domains import Array

# Largest number of multisets of reports times data sets times inputs; and of values of delta in the whole curve.
CELLS_MAX = 50_000_000
CURVE_MAX = 50_000_000
# Relative error of an enumerated probability in floats: of the law's entries, n products, and sums of positive terms.
RTOL = 1e-12
# Products down to here keep that relative error (with room for it); a smaller one is off by less than the least double.
NORMAL, SUBNORMAL = 1e-307, math.nextafter(0, 1)
# Largest e^eps.
GROWTH_MAX = math.exp(EPSILON_MAX)
# Digits of eps to which kinks are told apart.
KINK_DIGITS = 12


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
    error : float
        Bound on the rounding of delta; 0 if the law and e^eps are rational numbers.
    """

    delta: Any
    x0: int
    x1: int
    others: tuple[int, ...]
    error: float


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
        rule = "a matrix of probabilities whose rows sum to 1"
        try:
            rows = np.array(law, dtype=object)
            rational = rows.ndim == 2 and all(isinstance(p, (Fraction, int)) for p in rows.ravel())
            self.law: Array = rows if rational else np.asarray(law, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"law must be {rule}, got {law!r}") from None
        self.n = check_integer("n", n, low=1)
        if self.law.ndim != 2 or not self.law.size:
            raise ValueError(f"law must be {rule}, got shape {self.law.shape}")
        sums = [float(total) for total in self.law.sum(axis=1)]
        if not (self.law >= 0).all() or not all(abs(total - 1) <= 1e-9 for total in sums):
            raise ValueError(f"law must be {rule}, got sums {sums} and a smallest entry {float(self.law.min())!r}")
        inputs, outcomes = self.law.shape
        data_sets = math.comb(self.n - 1 + inputs - 1, inputs - 1)
        cells = math.comb(self.n + outcomes - 1, outcomes - 1) * data_sets * inputs
        if cells > CELLS_MAX or (self.n + 1) ** outcomes > 2**62:
            raise ValueError(
                f"n and law must give at most {CELLS_MAX:,} multisets in all data sets, coded in 62 bits, "
                f"got {inputs} inputs, each of {outcomes} outcomes for n = {self.n}"
            )

    def data_sets(self) -> Iterator[tuple[int, ...]]:
        """Everything that the others may hold, up to order."""
        return itertools.combinations_with_replacement(range(self.law.shape[0]), self.n - 1)

    def views(self, others: Sequence[int]) -> Array:
        """Probabilities of all multisets that can occur, one row for each input of user 1.

        Raises
        ------
        ValueError
            If `others` are not n - 1 rows of the law.
        """
        others = self._checked(others)
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
            In nats; at most 700.
        growth : Fraction or float
            e^eps, instead of eps; > 0, at most e^700.
        others : sequence of int, optional
            What the others hold; everything they may hold by default.
        """
        if (eps is None) == (growth is None):
            raise ValueError(f"exactly one of eps and growth must be given, got eps={eps!r}, growth={growth!r}")
        if eps is not None:
            growth = math.exp(check_number("eps", eps, f"a number <= {EPSILON_MAX:g}", high=EPSILON_MAX))
        elif not isinstance(growth, (Fraction, int)) or not 0 < growth <= GROWTH_MAX:
            rule = f"a number > 0, at most e^{EPSILON_MAX:g}"
            growth = check_number("growth", growth, rule, low=math.nextafter(0, 1), high=GROWTH_MAX)
        if len(self.law) < 2:
            raise ValueError(f"law must have at least two inputs, got {len(self.law)}")
        best: Worst | None = None
        for data in self._asked(others):
            views = self.views(data)
            grown = growth * views
            for i, view in enumerate(views):
                # Against itself the divergence is 0, or 1 - e^eps: no pair of data sets.
                deltas = [0 if i == j else total for j, total in enumerate(np.maximum(view - grown, 0).sum(axis=1))]
                j = max(range(len(views)), key=deltas.__getitem__)
                if best is None or deltas[j] > best.delta:
                    best = Worst(deltas[j], i, j if j != i else int(i == 0), data, self._error(view, grown[j], growth))
        assert best is not None
        return best

    def _asked(self, others: Sequence[int] | None) -> Iterator[tuple[int, ...]]:
        if others is None:
            return self.data_sets()
        return iter([self._checked(others)])

    def _checked(self, others: Any) -> tuple[int, ...]:
        if not isinstance(others, (Sequence, np.ndarray)) or isinstance(others, str) or len(others) != self.n - 1:
            raise ValueError(f"others must be {self.n - 1} inputs, got {others!r}")
        return tuple(check_integer("others", x, low=0, high=len(self.law) - 1) for x in others)

    def _error(self, first: Array, second: Array, growth: Any) -> float:
        """Both terms of each difference that is positive or may be; and what products lose that are below all normal numbers."""
        rational = self.law.dtype == object
        if rational and isinstance(growth, (Fraction, int)):
            return 0.0
        near = first * (1 + 2 * RTOL) >= second
        error = RTOL * float((first[near] + second[near]).sum())
        if rational or float(self.law[self.law > 0].min()) ** self.n >= NORMAL:
            return error
        return error + self.n * self.law.shape[1] * first.size * SUBNORMAL * (1 + growth)

    def curve(self, others: Sequence[int] | None = None) -> tuple[Array, Array]:
        """The whole privacy curve: eps of the kinks of all pairs of data sets, increasing, and the largest delta there.

        Between two of them delta is linear in e^eps for each pair, so that the largest is convex, at most its chord; from the
        last one on it is constant (0, if no multiset tells the inputs apart for certain). Kinks beyond eps = 700 are left out,
        and so are multisets whose probability is below all doubles; e^700 times 5e-324 is 5e-20.

        Raises
        ------
        ValueError
            If there are too many kinks.
        """
        found = [np.zeros(1)]
        for data in self._asked(others):
            with np.errstate(divide="ignore"):
                logs = np.log(self.views(data).astype(float))
            for i, j in itertools.combinations(range(len(logs)), 2):
                both = (logs[i] > -np.inf) & (logs[j] > -np.inf)
                found.append(np.unique(np.round(np.abs(logs[i][both] - logs[j][both]), KINK_DIGITS)))
        kinks = np.unique(np.concatenate(found))
        eps = np.concatenate([-kinks[:0:-1], kinks])
        eps = eps[np.abs(eps) <= EPSILON_MAX]
        pairs = 2 * (len(found) - 1)
        if eps.size * pairs > CURVE_MAX:
            raise ValueError(f"n and law must give at most {CURVE_MAX:,} kinks times pairs, got {eps.size:,} times {pairs:,}")
        delta = np.zeros(eps.size)
        for data in self._asked(others):
            views = self.views(data).astype(float)
            for i, j in itertools.permutations(range(len(views)), 2):
                delta = np.maximum(delta, _divergences(views[i], views[j], np.exp(eps)))
        return eps, delta


def _divergences(first: Array, second: Array, growth: Array) -> Array:
    """sum max(0, first - growth second) for increasing growth, by sums from the largest ratio down."""
    with np.errstate(over="ignore"):
        ratio = np.where(second > 0, first / np.where(second > 0, second, 1.0), np.inf)
    order = np.argsort(-ratio)
    above = np.searchsorted(-ratio[order], -growth, side="left")
    p, q = (np.concatenate([[0.0], np.cumsum(part[order])]) for part in (first, second))
    return np.maximum(p[above] - growth * q[above], 0.0)
