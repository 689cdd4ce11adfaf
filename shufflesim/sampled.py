"""Randomizers of which only a sampler and a likelihood are known: the estimator is learnt from samples, and says how well."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from ._checks import check_epsilon, check_number
from .bounds.ratio import VariationRatio
from .domains import Array, Categories
from .randomizer import Randomizer

# Reports per input from which the estimator is learnt, and the seed of their sampling: part of what an instance is.
LEARNT = 200_000
LEARNING_SEED = 20_240_817
# Numbers in one block of learning: reports times inputs.
BLOCK = 2**21
# Condition number of the learnt matrix beyond which inputs count as indistinguishable.
CONDITION_MAX = 1e8
# Rounding of a log-ratio of posteriors.
RATIO_RTOL = 1e-6


class SampledRandomizer(Randomizer):
    """A randomizer of d categories that is known by `randomize` and `log_likelihood`; reports can be anything in an array.

    Subclasses have fields `epsilon` and `d` and write the two methods, and `bits` if reports are not 64 bits. `epsilon` is
    believed: the declaration is that of any epsilon-LDP randomizer. `check_randomizer` looks for contradictions.

    Notes
    -----
    A report adds its posterior over the d categories under a uniform prior. The mean of that for users who hold x, row x of a
    d x d matrix M, is learnt from 200,000 samples of each input (with a fixed seed), and the estimate is the aggregate times the
    inverse of M. What M is off by is a bias of the estimate, which does not shrink with n as the noise does; the stated variance
    sum_x c_x (1 + c_x/200,000) v_x contains it, with c_x users at x and v_x the variance of one report's estimate.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Noisy(SampledRandomizer):
    ...     epsilon: float
    ...     d: int
    ...     def randomize(self, values, rng):
    ...         return values + rng.laplace(0, (self.d - 1) / self.epsilon, len(values))
    ...     def log_likelihood(self, value, reports):
    ...         return -np.abs(reports - value) * self.epsilon / (self.d - 1)
    >>> Noisy(2.0, 3).amplification
    VariationRatio(p=7.38906, beta=0.761594, q=7.38906)
    """

    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "d", Categories(self.d).d)

    @property
    def domain(self) -> Categories:
        """d categories."""
        return Categories(self.d)

    @property
    def amplification(self) -> VariationRatio:
        """Any epsilon-LDP randomizer: the largest beta."""
        return VariationRatio.ldp(self.epsilon, math.tanh(self.epsilon / 2))

    def inputs(self) -> Array:
        """All codes."""
        return np.arange(self.d)

    @abstractmethod
    def log_likelihood(self, value: Any, reports: Array) -> Array:
        """Log-probability or log-density of reports given one code, up to a constant that is the same for all codes."""

    @property
    def bits(self) -> float:
        """As a double: 64."""
        return 64.0

    def posterior(self, reports: Array) -> Array:
        """Probability of each category given a report, under a uniform prior; shape (n, d)."""
        found = [np.asarray(self.log_likelihood(x, reports)) for x in range(self.d)]
        for one in found:
            if one.shape != reports.shape[:1] or one.dtype.kind not in "iuf" or np.isnan(one).any():
                rule = f"log_likelihood must return one number, not NaN, per report, shape {reports.shape[:1]}"
                raise ValueError(f"{rule}, got {one.dtype} of shape {one.shape}")
        logs = np.column_stack(found)
        if not (logs.max(axis=1, initial=-np.inf) > -np.inf).all():
            raise ValueError("log_likelihood must be above -inf for some input of every report, got -inf for all")
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def aggregate(self, reports: Array) -> Array:
        """Sum of the posteriors, shape (d,)."""
        step = max(1, BLOCK // self.d)
        parts = (self.posterior(reports[i : i + step]).sum(axis=0) for i in range(0, reports.shape[0], step))
        return np.sum([np.zeros(self.d), *parts], axis=0)

    @cached_property
    def learnt(self) -> tuple[Array, Array]:
        """Inverse of M, and the variance of one report's estimates for each input, shape (d, d)."""
        means, seconds = np.zeros((self.d, self.d)), np.zeros((self.d, self.d, self.d))
        step = max(1, BLOCK // self.d**2)
        for x, seed in enumerate(np.random.SeedSequence(LEARNING_SEED).spawn(self.d)):
            rng = np.random.default_rng(seed)
            for start in range(0, LEARNT, step):
                values = self.domain.validate(np.full(min(step, LEARNT - start), x))
                shares = self.posterior(self.randomize(values, rng))
                with np.errstate(divide="ignore"):
                    largest = float(np.log(shares.max(axis=1) / shares.min(axis=1)).max())
                if largest > self.epsilon * (1 + RATIO_RTOL) + RATIO_RTOL:
                    rule = f"at least the largest log-ratio of likelihoods, {largest:.6g} was seen"
                    raise ValueError(f"epsilon must be {rule}, got {self.epsilon!r}")
                means[x] += shares.sum(axis=0) / LEARNT
                seconds[x] += shares.T @ shares / LEARNT
        if not np.linalg.cond(means) <= CONDITION_MAX:
            raise ValueError(f"log_likelihood must tell every input from the others for an estimate, got {self!r}")
        inverse = np.linalg.inv(means)
        covariance = seconds - means[:, :, None] * means[:, None, :]
        return inverse, np.einsum("xij,ik,jk->xk", covariance, inverse, inverse)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts: the aggregate times the inverse of M."""
        return aggregate @ self.learnt[0]

    def variance(self, total: Array, n: int) -> Array:
        """Of the reports, and of the learnt M; see Notes."""
        return (total * (1 + total / LEARNT)) @ self.learnt[1]

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """None by default: a class under construction is checked on the instance at hand."""
        return iter(())


@dataclass(frozen=True)
class Sampled(SampledRandomizer):
    """A randomizer given by two functions, without a class of its own.

    Parameters
    ----------
    epsilon : float
        Local budget in nats that the functions keep; in (0, 700]. It is believed.
    d : int
        Number of categories; >= 2.
    sampler : callable
        (codes of shape (n,), numpy.random.Generator) -> reports, first axis n.
    likelihood : callable
        (code, reports) -> log-probability or log-density of each report given the code, up to a common constant, shape (n,).
    report_bits : float
        Bits of one report.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> noisy = Sampled(
    ...     epsilon=2.0,
    ...     d=2,
    ...     sampler=lambda values, rng: values + rng.laplace(0, 0.5, len(values)),
    ...     likelihood=lambda value, reports: -2 * np.abs(reports - value),
    ... )
    >>> noisy.local_epsilon
    2.0
    """

    epsilon: float
    d: int
    sampler: Callable[[Array, np.random.Generator], Array]
    likelihood: Callable[[int, Array], Array]
    report_bits: float = 64.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sampler", "likelihood"):
            if not callable(getattr(self, name)):
                raise ValueError(f"{name} must be callable, got {getattr(self, name)!r}")
        check_number("report_bits", self.report_bits, "a number >= 1", low=1.0)

    @property
    def bits(self) -> float:
        """The parameter `report_bits`."""
        return float(self.report_bits)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """The sampler's."""
        reports = np.asarray(self.sampler(values.copy(), rng))
        if reports.shape[:1] != values.shape or reports.dtype.kind not in "iufb":
            rule = f"sampler must return numbers, one report per user, first axis {values.shape[0]}"
            raise ValueError(f"{rule}, got {reports.dtype} of shape {reports.shape}")
        return reports

    def log_likelihood(self, value: Any, reports: Array) -> Array:
        """The likelihood's."""
        return np.asarray(self.likelihood(int(value), reports), dtype=float)
