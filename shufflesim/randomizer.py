"""The contract of a local randomizer, and what follows from it for free."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from ._checks import check_epsilon
from .bounds.claim import Claim
from .bounds.crowd import Crowd
from .bounds.enumerated import LOG_TINY
from .bounds.groups import OutcomeGroups, enumerate_groups, group_claims
from .bounds.ratio import VariationRatio
from .domains import Array, Categories, Domain
from .shuffler import well_formed


class Randomizer(ABC):
    """A local randomizer: each user perturbs a value into one report.

    Subclasses are frozen dataclasses with a field `epsilon`. A subclass writes `domain`, `amplification`, `randomize`,
    `aggregate`, `estimate`, `variance`, `bits` and `examples`; and what it knows of its law: `log_channel` (tiny instances),
    `cdf` (continuous reports) and `groups` (likelihood ratios in closed form). If the law is a small matrix, subclass
    `ChannelRandomizer` instead: then `channel` alone is enough. If all you have is a sampler and a likelihood, see
    `SampledRandomizer`.

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
    def alphabet(self) -> int | None:
        """Number of distinct reports where these (or their entries) are the integers 0, 1, ...; None for anything else."""
        return None

    def valid(self, reports: Array) -> Array:
        """Which reports an honest user could have sent, shape (number of reports,); the analyzer rejects the others."""
        return well_formed(reports, self.alphabet)

    @property
    @abstractmethod
    def bits(self) -> float:
        """Bits of one report as it would be sent."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny and extreme instances, shared by tests, docs and benchmarks."""

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """What the reports say about `variance`: its value at the estimates, which are brought into their range if need be."""
        return self.domain.plug_in(lambda total: self.variance(total, n), self.estimate(aggregate, n), n)

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

    def log_likelihood(self, value: Any, reports: Array) -> Array | None:
        """Log-probability or log-density of reports given one value, up to a constant, shape (n,); None if not at hand."""
        return None

    def histogram_law(self) -> Array | None:
        """The law as a matrix if `aggregate` counts its columns, for maximum likelihood; None otherwise."""
        return None

    def with_epsilon(self, epsilon: float) -> Self:
        """The same randomizer with another budget; parameters that were the best choice are chosen anew."""
        known = {f.name: f for f in fields(self) if f.init}  # type: ignore[arg-type]
        if "epsilon" not in known:
            raise ValueError(f"randomizer must have a parameter epsilon for another budget, got {self!r}")
        given = {name: getattr(self, name) for name in known}
        free = {name: None for name, f in known.items() if f.default is None}
        if free and type(self)(**{**given, **free}) == self:
            given.update(free)
        return type(self)(**{**given, "epsilon": epsilon})

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
