"""Balls into bins: the value in clear, hidden among uniform dummies.

Source: Luo, Wang, Yi, "Frequency estimation in the shuffle model with almost a single message", CCS 2022 (small domains).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_number
from shufflesim._sampling import bernoulli, uniform_codes
from shufflesim.bounds import Claim, Crowd, MessageCount, VariationRatio, declared_claims_for
from shufflesim.domains import Array, Categories
from shufflesim.protocol import Protocol
from shufflesim.shuffler import Encoded

# The number of uniform dummies of one user; more are a mistake rather than a protocol.
DUMMIES_MAX = 1e6


@dataclass(frozen=True)
class BallsIntoBins(Protocol):
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
    """

    d: int
    dummies: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", Categories(self.d).d)
        rule = f"a number in (0, {DUMMIES_MAX:g}]"
        dummies = check_number("dummies", self.dummies, rule, low=0.0, high=DUMMIES_MAX)
        if dummies == 0:
            raise ValueError(f"dummies must be {rule}, got {self.dummies!r}: without dummies nothing hides the value")
        object.__setattr__(self, "dummies", dummies)

    @property
    def domain(self) -> Categories:
        """d categories."""
        return Categories(self.d)

    @property
    def local_epsilon(self) -> float:
        """inf: the value is sent in clear."""
        return math.inf

    @property
    def amplification(self) -> VariationRatio:
        """(inf, 1, d): no neutral part."""
        return VariationRatio(math.inf, 1.0, self.d)

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        """One."""
        return (self.amplification,)

    @property
    def alphabet(self) -> int:
        """d labels."""
        return self.d

    @property
    def width(self) -> int:
        """Messages per user, at most."""
        return 1 + math.ceil(self.dummies)

    @property
    def messages_per_user(self) -> float:
        """1 + rho."""
        return 1 + self.dummies

    @property
    def bits_per_message(self) -> float:
        """log2 d, rounded up."""
        return float(math.ceil(math.log2(self.d)))

    def blanket(self, crowd: Crowd) -> MessageCount:
        """User 1's message and the dummies of all users, user 1's own included."""
        crowd.refuse_sampling(self)
        whole = math.floor(self.dummies)
        more = self.dummies - whole
        return crowd.blanket({whole: 1 - more, whole + 1: more})

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The declaration's bounds, and the same value as a lower bound.

        If all others hold one value and it is known how many of them are there, their real messages can be subtracted: what is
        left is user 1's message among the dummies, which is exactly the pair that the upper bound uses. The number of messages
        tells how many are there if nobody can be missing, or if all users send equally many.
        """
        claims = declared_claims_for(self.amplification, self.blanket(crowd))
        if crowd.complete or self.dummies == math.floor(self.dummies):
            exact, note = claims[0], "attained when all others hold one value"
            claims.append(Claim("lower", "lower", True, exact.source, note, exact.value))
        return claims

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """The value and the user's dummies, user by user."""
        whole = math.floor(self.dummies)
        sizes = 1 + whole + bernoulli(rng, self.dummies - whole, values.shape[0])
        messages = uniform_codes(rng, self.d, int(sizes.sum()), self.domain.dtype)
        messages[np.cumsum(sizes) - sizes] = values
        return Encoded(messages, sizes)

    def aggregate(self, messages: Array) -> Array:
        """Messages per label, shape (d,)."""
        return np.bincount(messages, minlength=self.d)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts: messages per label minus the share of the dummies."""
        return aggregate - (aggregate.sum() - n) / self.d

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All labels that came."""
        return float(aggregate.sum())

    def variance(self, total: Array, n: int) -> Array:
        """The same for every label: E[D] (1/d)(1 - 1/d)."""
        return np.full(self.d, n * self.dummies * (1 / self.d) * (1 - 1 / self.d))

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Counts plus a multinomial of all dummies."""
        n, whole = int(totals.sum()), math.floor(self.dummies)
        drawn = n * whole + int(rng.binomial(n, self.dummies - whole))
        return totals + rng.multinomial(drawn, np.full(self.d, 1 / self.d))

    @classmethod
    def examples(cls) -> Iterator[BallsIntoBins]:
        """Typical, tiny, extreme."""
        yield cls(d=16, dummies=1.5)
        yield cls(d=2, dummies=0.25)
        yield cls(d=300, dummies=3)
