"""Balls into bins: the value in clear, hidden among uniform dummies.

Source: Luo, Wang, Yi, "Frequency estimation in the shuffle model with almost a single message", CCS 2022 (small domains).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from shufflesim._checks import check_number
from shufflesim.bounds import Claim, Crowd, VariationRatio, declared_claims_for
from shufflesim.domains import Array, Categories

from ._dummies import DUMMIES_MAX, LabelledDummies, check_target, least_dummies, per_user


@dataclass(frozen=True)
class BallsIntoBins(LabelledDummies):
    """Each user sends the value and, on average, `dummies` labels uniform on all d.

    Parameters
    ----------
    d : int
        Number of categories; >= 2.
    dummies : float
        Expected number of dummies per user, rho: floor(rho), plus one more with probability rho - floor(rho); in (0, 1e6].

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    A single user's messages show the value, so that the local eps is infinite: all privacy comes from the crowd's dummies.
    Given the number D of dummies (it is public: messages minus users), the dummies are a multinomial and

        est_j = N_j - D/d,   Var_j = E[D] (1/d)(1 - 1/d).

    The real messages add no noise. p = inf, beta = 1, q = d, and omega = 0: the published pair is exact here.

    Examples
    --------
    >>> BallsIntoBins(d=16, dummies=1.5).amplification
    VariationRatio(p=inf, beta=1, q=16)
    >>> paper = BallsIntoBins.original(1.0, 1e-8, 10_000, d=16)
    >>> ours = BallsIntoBins.for_target(1.0, 1e-8, 10_000, d=16)
    >>> round(paper.dummies, 3), round(ours.dummies, 3)
    (0.979, 0.099)
    """

    d: int
    dummies: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", Categories(self.d).d)
        object.__setattr__(self, "dummies", check_dummies(self.dummies))

    @property
    def local_epsilon(self) -> float:
        """inf: the value is sent in clear."""
        return math.inf

    @property
    def amplification(self) -> VariationRatio:
        """(inf, 1, d): no neutral part."""
        return VariationRatio(math.inf, 1.0, self.d)

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The declaration's bounds, and the same value as a lower bound.

        If all others hold one value and it is known how many of them are there, their real messages can be subtracted: what is
        left is user 1's message among the dummies, which is exactly the pair that the upper bound uses.
        """
        claims = declared_claims_for(self.amplification, self.blanket(crowd))
        if self.counted(crowd):
            exact, note = claims[0], "attained when all others hold one value"
            claims.append(Claim("lower", "lower", True, exact.source, note, exact.value))
        return claims

    def report(self, values: Array, blank: Array, rng: np.random.Generator) -> Array:
        """The value."""
        return values

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts: messages per label minus the share of the dummies."""
        return aggregate - (aggregate.sum() - n) / self.d

    def variance(self, total: Array, n: int) -> Array:
        """The same for every label: E[D] (1/d)(1 - 1/d)."""
        return np.full(self.d, n * self.dummies * (1 / self.d) * (1 - 1 / self.d))

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Counts plus a multinomial of all dummies."""
        return self.spread(totals, int(totals.sum()), rng)

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int, *, d: int) -> Self:
        """As in the paper: mu = 32 ln(2/delta)/eps^2 dummies per label, mu d/n per user; see `balls`.

        Parameters
        ----------
        epsilon, delta : float
            The target: eps > 0 in nats, with 32 ln(2/delta)/eps^2 > ln(1/delta); delta in (0, 1).
        n : int
            Number of users, all honest.
        d : int
            Number of categories.
        """
        epsilon, delta, n = check_target(epsilon, delta, n)
        return cls(d, per_user(balls(epsilon, delta) * Categories(d).d, n))

    @classmethod
    def for_target(cls, epsilon: float, delta: float, n: int, *, d: int) -> Self:
        """The fewest dummies whose exact eps is at most epsilon; arguments as in `original`, any eps > 0."""
        return least_dummies(lambda dummies: cls(d, dummies), epsilon, delta, n)

    def retargeted(self, epsilon: float, delta: float, n: int) -> Self:
        """`for_target` for the same d."""
        return self.for_target(epsilon, delta, n, d=self.d)

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny, extreme."""
        yield cls(d=16, dummies=1.5)
        yield cls(d=2, dummies=0.25)
        yield cls(d=300, dummies=3)


def check_dummies(value: float) -> float:
    """A mean number of dummies."""
    rule = f"a number in (0, {DUMMIES_MAX:g}]"
    dummies = check_number("dummies", value, rule, low=0.0, high=DUMMIES_MAX)
    if dummies == 0:
        raise ValueError(f"dummies must be {rule}, got {value!r}: without dummies nothing hides the value")
    return dummies


def balls(epsilon: float, delta: float) -> float:
    """Luo, Wang, Yi 2022: mu = 32 ln(2/delta)/eps^2, the dummies that one label needs on average.

    A label without a dummy, which has probability e^-mu, shows the value. Where that is likelier than delta the formula cannot
    hold; this is the case for eps beyond about 5.6.
    """
    mu = 32 * (math.log(2) - math.log(delta)) / epsilon / epsilon
    if mu <= -math.log(delta):
        top = math.sqrt(32 * (math.log(2) - math.log(delta)) / -math.log(delta))
        raise ValueError(f"epsilon must be below sqrt(32 ln(2/delta)/ln(1/delta)) = {top:.6g}, got {epsilon!r}")
    return mu
