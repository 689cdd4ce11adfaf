"""Randomizers that are given by their law as a matrix: everything else follows from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from ._checks import plain
from .bounds.enumerated import declaration_of, total_variations
from .bounds.groups import OutcomeGroups, enumerate_groups
from .bounds.ratio import VariationRatio
from .domains import Array, Categories, Domain
from .randomizer import Randomizer

# Departure of a channel's row sums from 1 that is rounding, not a mistake; per outcome.
LAW_TOLERANCE = 1e-12
# Inputs up to which every pair of inputs, and every input of the others, gets tables of its own for the bounds.
ENUMERATED = 12
# Departure from the identity that a pseudo-inverse may have before the rows count as dependent.
INVERSE_TOLERANCE = 1e-6
ROUNDING = 1e-15


class ChannelRandomizer(Randomizer):
    """A randomizer of d categories given by its law alone: write `channel`, get everything else.

    The sampler inverts the rows' distribution functions; the estimator is the least-squares inverse of the channel; the
    amplification parameters are read off by enumeration.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Stay(ChannelRandomizer):
    ...     epsilon: float
    ...     def channel(self):
    ...         e = np.exp(self.epsilon)
    ...         return np.array([[e, 1, 1], [1, e, 1], [1, 1, e]]) / (e + 2)
    >>> Stay(1.0).amplification
    VariationRatio(p=2.71828, beta=0.364175, q=2.71828, q_star=1)
    """

    @abstractmethod
    def channel(self) -> Array:
        """The law, shape (d, outcomes): rows are inputs, non-negative and summing to 1."""

    @cached_property
    def law(self) -> Array:
        """`channel`, validated."""
        law = np.asarray(self.channel(), dtype=float)
        if law.ndim != 2 or min(law.shape) < 2:
            raise ValueError(f"channel must be a matrix with at least 2 rows and 2 columns, got shape {law.shape}")
        if not np.all(np.isfinite(law)) or law.min() < 0:
            raise ValueError(f"channel must be finite and >= 0, got {plain(law.min())!r} as its smallest entry")
        worst = float(np.abs(law.sum(axis=1) - 1).max())
        if worst > LAW_TOLERANCE * law.shape[1]:
            raise ValueError(f"channel must have rows that sum to 1, got a row that is off by {worst:.3g}")
        return law

    def log_channel(self) -> Array:
        """Log of `channel`; -inf for impossible outcomes."""
        with np.errstate(divide="ignore"):
            return np.log(self.law)

    @property
    def domain(self) -> Domain:
        """One category a row."""
        return Categories(self.law.shape[0])

    @property
    def local_epsilon(self) -> float:
        """Enumerated, whatever `epsilon` says; `check_randomizer` compares the two."""
        return self.amplification.local_epsilon

    @cached_property
    def amplification(self) -> VariationRatio:
        """Enumerated: largest ratio, largest total variation, q = p, and the smallest q_star for all pairs."""
        return declaration_of(self.law)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """All pairs and inputs of the others of a small channel; of a large one, lower bounds for the pair that differs most."""
        law = self.law
        if len(law) <= ENUMERATED:
            return enumerate_groups(law)
        distances = total_variations(law)
        i, j = max(distances, key=distances.__getitem__)
        return tuple(OutcomeGroups(law[i], law[j], other, None, f"inputs {i}, {j}, others {k}") for k, other in enumerate(law))

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Columns drawn from each user's row, shape (n,)."""
        rows, columns = self.law.shape
        # Rows laid end to end: row x occupies (x, x + 1], one sorted search serves all users.
        edges = (np.cumsum(self.law, axis=1) / self.law.sum(axis=1, keepdims=True) + np.arange(rows)[:, None]).ravel()
        found = np.searchsorted(edges, values + rng.random(values.shape[0]), side="right")
        return (found - values.astype(np.intp) * columns).clip(0, columns - 1)

    def aggregate(self, reports: Array) -> Array:
        """Counts per outcome."""
        return np.bincount(reports, minlength=self.law.shape[1])

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """A multinomial of each input's users."""
        return rng.multinomial(totals, self.law / self.law.sum(axis=1, keepdims=True)).sum(axis=0)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Unbiased counts: the channel's pseudo-inverse applied to the counts per outcome."""
        return aggregate @ self.inverse

    def variance(self, total: Array, n: int) -> Array:
        """sum_x c_x (E[g^2 | x] - E[g | x]^2) for the linear estimator g."""
        return total @ (self.law @ self.inverse**2 - (self.law @ self.inverse) ** 2)

    @cached_property
    def inverse(self) -> Array:
        """The estimator of one report, shape (outcomes, d)."""
        inverse = np.linalg.pinv(self.law)
        # Large entries, for inputs that are hard to tell apart, leave as much rounding in the product; noise is larger by far.
        allowed = INVERSE_TOLERANCE + ROUNDING * self.law.shape[1] * float(np.abs(inverse).max())
        if not np.allclose(self.law @ inverse, np.eye(len(self.law)), atol=min(allowed, 0.01)):
            raise ValueError("channel must have linearly independent rows for an unbiased estimate, got dependent ones")
        return inverse

    def log_likelihood(self, value: Any, reports: Array) -> Array:
        """Entries of `log_channel`."""
        return self.log_channel()[value, reports]

    def histogram_law(self) -> Array:
        """The law."""
        return self.law

    @property
    def alphabet(self) -> int:
        """One report for each column."""
        return int(self.law.shape[1])

    @property
    def bits(self) -> float:
        """log2 of the number of outcomes, rounded up."""
        return float(np.ceil(np.log2(self.law.shape[1])))

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """None by default: a class under construction is checked on the instance at hand."""
        return iter(())


@dataclass(frozen=True, eq=False, repr=False)
class Channel(ChannelRandomizer):
    """A randomizer given as a matrix, without a class of its own.

    Parameters
    ----------
    matrix : array_like, shape (d, outcomes)
        Row x is the law of the report of a user who holds x; non-negative, rows sum to 1. A report is the number of a column.

    Raises
    ------
    ValueError
        If it is no such matrix, or an outcome is possible for some inputs only (the local eps is infinite).

    Examples
    --------
    >>> Channel([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    Channel(3 x 3, epsilon=1.79176)
    """

    matrix: Any

    def __post_init__(self) -> None:
        try:
            copied = np.array(self.matrix, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"channel must be a matrix of numbers, got {type(self.matrix).__name__} ({error})") from None
        copied.flags.writeable = False
        object.__setattr__(self, "matrix", copied)
        # The first look at the declaration validates everything.
        self.amplification  # noqa: B018

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """Largest log-ratio of two rows."""
        return self.amplification.local_epsilon

    def channel(self) -> Array:
        """The matrix."""
        return np.asarray(self.matrix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Channel) and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.matrix.shape, self.matrix.tobytes()))

    def __repr__(self) -> str:
        rows, columns = self.matrix.shape
        return f"Channel({rows} x {columns}, epsilon={self.epsilon:.6g})"
