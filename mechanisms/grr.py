"""Generalised randomized response: the truth, or any other category uniformly.

Source: Kairouz, Bonawitz, Ramage, "Discrete distribution estimation under local privacy", ICML 2016.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._sampling import bernoulli, uniform_codes
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array
from shufflesim.randomizer import CategoricalRandomizer

# Largest d for which the law is handed out as a d x d matrix.
ENUMERABLE = 64
# The same for maximum likelihood, which needs the matrix and no more.
LAW_ROWS = 4096


@dataclass(frozen=True)
class GRR(CategoricalRandomizer):
    """GRR on d categories (also called k-RR or direct encoding).

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of categories; >= 2.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: integer codes 0..d-1 or a pandas categorical, shape (n,).
    Source: Kairouz, Bonawitz, Ramage, "Discrete distribution estimation under local privacy", ICML 2016.

    With E = e^eps: the own category with probability E/(E+d-1), each other with 1/(E+d-1). Seen otherwise: with probability
    (E-1)/(E+d-1) the truth, else uniform on all d - which is how it is sampled, and why reports that ignore the value are
    perfect clones of the neutral part (q* = 1).

    Examples
    --------
    >>> GRR(epsilon=math.log(3), d=3).amplification
    VariationRatio(p=3, beta=0.4, q=3, q_star=1)
    """

    epsilon: float
    d: int

    @property
    def truthful(self) -> float:
        """Probability (E-1)/(E+d-1) that the report depends on the value."""
        return -math.expm1(-self.epsilon) / (1 + (self.d - 1) * math.exp(-self.epsilon))

    @property
    def support(self) -> tuple[float, float]:
        """(E, 1)/(E+d-1)."""
        b = math.exp(-self.epsilon) / (1 + (self.d - 1) * math.exp(-self.epsilon))
        return self.truthful + b, b

    @property
    def amplification(self) -> VariationRatio:
        """beta = (E-1)/(E+d-1), attained by every pair; q* = 1 (d = 2: no neutral part)."""
        return VariationRatio.ldp(self.epsilon, self.truthful, q_star=1.0)

    @property
    def alphabet(self) -> int:
        """d categories."""
        return self.d

    @property
    def bits(self) -> float:
        """log2 d, rounded up."""
        return float(math.ceil(math.log2(self.d)))

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Perturb codes, shape (n,) -> codes, shape (n,), same dtype."""
        reports = uniform_codes(rng, self.d, values.shape[0], values.dtype)
        np.copyto(reports, values, where=bernoulli(rng, self.truthful, values.shape[0]))
        return reports

    def aggregate(self, reports: Array) -> Array:
        """Reports per category, shape (d,)."""
        return np.bincount(reports, minlength=self.d)

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Truthful reports per input are binomial, all others one multinomial; fewer than d are drawn one by one."""
        kept = rng.binomial(totals, self.truthful)
        rest = int(totals.sum() - kept.sum())
        if rest < self.d:
            return kept + np.bincount(rng.integers(0, self.d, rest), minlength=self.d)
        return kept + rng.multinomial(rest, np.full(self.d, 1 / self.d))

    def log_channel(self) -> Array | None:
        """The d x d law for d up to `ENUMERABLE`."""
        return self._log_law() if self.d <= ENUMERABLE else None

    def histogram_law(self) -> Array | None:
        """The d x d law, which `aggregate` counts the columns of, for d up to `LAW_ROWS`."""
        return np.exp(self._log_law()) if self.d <= LAW_ROWS else None

    def _log_law(self) -> Array:
        log_a = -math.log1p((self.d - 1) * math.exp(-self.epsilon))
        return np.where(np.eye(self.d, dtype=bool), log_a, log_a - self.epsilon)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Outcomes x0, x1, x*, and the rest; by symmetry one pair, and x* equal to x0, to x1 or to neither."""
        a, b = self.support
        cases = {
            "others hold x0": [a, b, b],
            "others hold x1": [b, a, b],
            "others hold a third value": [b, b, a],
        }
        if self.d == 2:
            del cases["others hold a third value"]
        return tuple(
            OutcomeGroups(self._masses([a, b, b]), self._masses([b, a, b]), self._masses(other), self._masses([b, b, b]), note)
            for note, other in cases.items()
        )

    def _masses(self, first_three: list[float]) -> Array:
        """Masses of the outcomes x0, x1, a third value (if there is one), and all the rest."""
        b = self.support[1]
        return np.array([*first_three[: min(self.d, 3)], max(0, self.d - 3) * b])

    @classmethod
    def examples(cls) -> Iterator[GRR]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=1.0, d=10)
        yield cls(epsilon=math.log(3), d=3)
        yield cls(epsilon=2.0, d=2)
        yield cls(epsilon=1e-9, d=4)
        yield cls(epsilon=700.0, d=5)
        yield cls(epsilon=3.0, d=2**20)
