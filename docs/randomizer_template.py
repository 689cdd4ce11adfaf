"""A randomizer of your own: copy this file, rename the class, change the five marked places.

`shufflesim check docs/randomizer_template.py:MyRandomizer` compares the class with its own claims.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim import VariationRatio
from shufflesim.domains import Array
from shufflesim.randomizer import CategoricalRandomizer

# Largest d for which the law is handed out as a matrix.
ENUMERABLE = 16


# Step 1: name and parameters, validated on construction (`CategoricalRandomizer` checks epsilon and d).
@dataclass(frozen=True)
class MyRandomizer(CategoricalRandomizer):
    """The truth, or any category at all: here the law of GRR, as an example.

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
    Source: say here which paper and year the law is from.

    Examples
    --------
    >>> MyRandomizer(epsilon=math.log(3), d=3).support
    (0.6, 0.2)
    """

    epsilon: float
    d: int

    # Step 2: the law. Here: probabilities that a report supports the own item, and a given other one. The estimator of counts
    # and its exact variance follow from these two.
    @property
    def support(self) -> tuple[float, float]:
        """(E, 1)/(E+d-1) with E = e^eps, written so that E = e^700 does not overflow."""
        least = math.exp(-self.epsilon)
        total = 1 + (self.d - 1) * least
        return 1 / total, least / total

    # Step 3: the claim, (p, beta, q) with p = q = e^eps for any eps-LDP randomizer; leave out q_star unless you can prove one.
    @property
    def amplification(self) -> VariationRatio:
        """beta = a - b, the total variation of any two inputs."""
        a, b = self.support
        return VariationRatio.ldp(self.epsilon, a - b)

    @property
    def bits(self) -> float:
        """log2 d, rounded up."""
        return float(math.ceil(math.log2(self.d)))

    # Step 4: the sampler, for all users at once, and what the analyzer sums up.
    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Codes, shape (n,) -> codes, shape (n,)."""
        a, b = self.support
        reports = rng.integers(0, self.d, values.shape[0], dtype=values.dtype)
        return np.where(rng.random(values.shape[0]) < a - b, values, reports)

    def aggregate(self, reports: Array) -> Array:
        """Reports per category, shape (d,)."""
        return np.bincount(reports, minlength=self.d)

    # Step 5: what checks, tests and documentation need: the law of tiny instances as a matrix, and examples.
    def log_channel(self) -> Array | None:
        """Logs of the d x d law for small d."""
        if self.d > ENUMERABLE:
            return None
        a, _ = self.support
        return np.where(np.eye(self.d, dtype=bool), math.log(a), math.log(a) - self.epsilon)

    @classmethod
    def examples(cls) -> Iterator[MyRandomizer]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=1.0, d=10)
        yield cls(epsilon=math.log(3), d=3)
        yield cls(epsilon=1e-9, d=4)
