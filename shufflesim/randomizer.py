"""The contract of a local randomizer, and what follows from it for free."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from ._checks import check_epsilon
from .bounds.claim import Claim
from .bounds.crowd import Crowd
from .bounds.groups import OutcomeGroups, enumerate_groups, group_claims
from .bounds.ratio import VariationRatio
from .domains import Array, Categories, Domain

# Departure of a channel's row sums from 1 that is rounding, not a mistake.
LAW_TOLERANCE = 1e-12
# Rounding of a sum of absolute differences, per outcome; and how close to the largest beta counts as the largest.
DECLARATION_SLACK = 4e-16
SNAP = 1e-12
# Below this, exp gives a denormal number or 0.
LOG_TINY = -745.0


class Randomizer(ABC):
    """A local randomizer: each user perturbs a value into one report.

    Subclasses are frozen dataclasses with a field `epsilon`. A subclass writes `domain`, `amplification`, `randomize`,
    `aggregate`, `estimate`, `variance`, `bits` and `examples`; and what it knows of its law: `log_channel` (tiny instances),
    `cdf` (continuous reports) and `groups` (likelihood ratios in closed form). If the law is a small matrix, subclass
    `ChannelRandomizer` instead: then `channel` alone is enough.

    Attributes
    ----------
    epsilon : float
        Local budget in nats.
    """

    epsilon: float

    # Random numbers drawn per user at once; bounds the memory of one block of users.
    width: ClassVar[int] = 1

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What a user holds."""

    @property
    @abstractmethod
    def amplification(self) -> VariationRatio:
        """The declared (p, beta, q, q_star)."""

    @abstractmethod
    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Perturb validated values, shape (n,) -> reports, first axis n. No loop over users."""

    @abstractmethod
    def aggregate(self, reports: Array) -> Array:
        """Sum up reports; additive, so that parts can be added: aggregate(a + b) = aggregate(a) + aggregate(b)."""

    @abstractmethod
    def estimate(self, aggregate: Array, n: int) -> Array:
        """Unbiased estimate of the domain's target (counts or mean) from the aggregate of n reports, shape (k,)."""

    @abstractmethod
    def variance(self, total: Array, n: int) -> Array:
        """Exact variance of each estimate for data with the domain's summary `total` (counts per category), shape (k,)."""

    @property
    @abstractmethod
    def bits(self) -> float:
        """Bits of one report as it would be sent."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny and extreme instances, shared by tests, docs and benchmarks."""

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """What the reports say about `variance`: its value at the estimates, brought into their range for this purpose."""
        return self.variance(self.domain.plausible(self.estimate(aggregate, n), n), n)

    def inputs(self) -> Array:
        """Values in the order of the rows of `channel`; codes unless overridden."""
        law = self.channel()
        return np.arange(0 if law is None else len(law))

    def log_channel(self) -> Array | None:
        """Log of the law as a matrix, shape (inputs, outcomes); None if it is continuous or too large."""
        return None

    def channel(self) -> Array | None:
        """The law as a matrix, shape (inputs, outcomes), rows sum to 1; None if it is continuous or too large."""
        logs = self.log_channel()
        return None if logs is None else np.exp(np.maximum(logs, LOG_TINY))

    def outcome(self, reports: Array) -> Array:
        """Column of `channel` of each report, shape (n,)."""
        return reports

    def cdf(self, value: Any, reports: Array) -> Array | None:
        """Distribution function of a real-valued report given one value; None if reports are discrete."""
        return None

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Grouped law for the worst pairs and the inputs of the others; by enumeration of `channel` unless overridden."""
        law = self.channel()
        return () if law is None else enumerate_groups(np.asarray(law, dtype=float))

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array | None:
        """Draw the aggregate of all reports from the counts per input alone, exactly; None if there is no way."""
        return None

    @property
    def local_epsilon(self) -> float:
        """Local budget, the value without shuffling."""
        return check_epsilon(self.epsilon)

    def law_claims(self, crowd: Crowd) -> list[Claim]:
        """Bounds from the law itself: those of `groups` unless overridden."""
        return group_claims(self.groups(), crowd, self.local_epsilon)

    def claims(self, crowd: Crowd) -> list[Claim]:
        """Every bound that applies to a crowd with one report each."""
        check_epsilon(self.epsilon)
        return self.amplification.claims(crowd) + self.law_claims(crowd)


class CategoricalRandomizer(Randomizer):
    """A randomizer of d categories that estimates counts from supports (a "pure" protocol).

    A report supports some items: the user's own with probability a, any given other with probability b. With N_j reports
    supporting j, the estimate of the count c_j is (N_j - n b)/(a - b), with variance
    [c_j a (1-a) + (n - c_j) b (1-b)]/(a - b)^2 (Wang et al., USENIX Security 2017).
    """

    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "d", Categories(self.d).d)

    @property
    def domain(self) -> Domain:
        """d categories."""
        return Categories(self.d)

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """(a, b): probabilities that a report supports the user's own item, and a given other."""

    def supports(self, aggregate: Array) -> Array:
        """Number of reports that support each item, shape (d,)."""
        return aggregate

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Unbiased counts, shape (d,); not clipped and not normalised."""
        a, b = self.support
        return (self.supports(aggregate) - n * b) / (a - b)

    def variance(self, total: Array, n: int) -> Array:
        """Variance of each estimated count."""
        a, b = self.support
        return (total * (a * (1 - a)) + (n - total) * (b * (1 - b))) / (a - b) ** 2


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
    VariationRatio(p=2.71828, beta=0.364175, q=2.71828)
    """

    @abstractmethod
    def channel(self) -> Array:
        """The law, shape (d, outcomes): rows are inputs, non-negative and summing to 1."""

    def log_channel(self) -> Array:
        """Log of `channel`; -inf for impossible outcomes."""
        with np.errstate(divide="ignore"):
            return np.log(self.checked_channel())

    def checked_channel(self) -> Array:
        """`channel`, validated."""
        law = np.asarray(self.channel(), dtype=float)
        if law.ndim != 2 or min(law.shape) < 2:
            raise ValueError(f"channel must be a matrix with at least 2 rows and 2 columns, got shape {law.shape}")
        if not np.all(np.isfinite(law)) or law.min() < 0:
            raise ValueError(f"channel must be finite and >= 0, got {law.min()!r} as its smallest entry")
        worst = float(np.abs(law.sum(axis=1) - 1).max())
        if worst > LAW_TOLERANCE * law.shape[1]:
            raise ValueError(f"channel must have rows that sum to 1, got a row that is off by {worst:.3g}")
        return law

    @property
    def domain(self) -> Domain:
        """One category a row."""
        return Categories(self.checked_channel().shape[0])

    @property
    def local_epsilon(self) -> float:
        """Enumerated, whatever `epsilon` says; `check_randomizer` compares the two."""
        return self.amplification.local_epsilon

    @property
    def amplification(self) -> VariationRatio:
        """Enumerated: largest ratio, largest total variation; q = p and q_star = q."""
        law = self.checked_channel()
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = law[:, None, :] / law[None, :, :]
        p = float(np.nanmax(ratios))
        beta = float(max(0.5 * np.abs(a - b).sum() for a in law for b in law))
        if p == np.inf:
            raise ValueError("channel must not have an outcome that only some inputs produce, got one: eps is infinite")
        # Rounded to the safe side; a beta within rounding of the largest is the largest.
        p = np.nextafter(p * (1 + 4e-16), np.inf)
        top, beta = (p - 1) / (p + 1), beta + DECLARATION_SLACK * law.shape[1]
        return VariationRatio(p, top if beta >= top * (1 - SNAP) else beta, p)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Columns drawn from each user's row, shape (n,)."""
        law = self.checked_channel()
        # Rows laid end to end: row x occupies (x, x + 1], one sorted search serves all users.
        edges = (np.cumsum(law, axis=1) / law.sum(axis=1, keepdims=True) + np.arange(law.shape[0])[:, None]).ravel()
        found = np.searchsorted(edges, values + rng.random(values.shape[0]), side="right")
        return (found - values.astype(np.intp) * law.shape[1]).clip(0, law.shape[1] - 1)

    def aggregate(self, reports: Array) -> Array:
        """Counts per outcome."""
        return np.bincount(reports, minlength=self.checked_channel().shape[1])

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Unbiased counts: the channel's pseudo-inverse applied to the counts per outcome."""
        return aggregate @ self._inverse()

    def variance(self, total: Array, n: int) -> Array:
        """sum_x c_x (E[g^2 | x] - E[g | x]^2) for the linear estimator g."""
        law, inverse = self.checked_channel(), self._inverse()
        per_input = law @ inverse**2 - (law @ inverse) ** 2
        return total @ per_input

    def _inverse(self) -> Array:
        law = self.checked_channel()
        inverse = np.linalg.pinv(law)
        if not np.allclose(law @ inverse, np.eye(law.shape[0]), atol=1e-6):
            raise ValueError("channel must have linearly independent rows for an unbiased estimate, got dependent ones")
        return inverse

    @property
    def bits(self) -> float:
        """log2 of the number of outcomes, rounded up."""
        return float(np.ceil(np.log2(self.checked_channel().shape[1])))

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """None by default: a class under construction is checked on the instance at hand."""
        return iter(())
