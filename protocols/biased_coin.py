"""Biased coins: the value in clear, hidden among ones that all users add at random.

Source: Balcer, Cheu, "Separating local and shuffled differential privacy via histograms", ITC 2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import EPSILON_TINY, check_delta, check_number, check_users
from shufflesim._sampling import bernoulli
from shufflesim.bounds import Claim, Crowd, Swapped, VariationRatio, declared_claims_for, present
from shufflesim.domains import Array, Categories
from shufflesim.protocol import Protocol, meet
from shufflesim.shuffler import Encoded

# Smaller coins hide nobody: there are never more than 1e18 users.
COIN_MIN = 1e-30
# Smallest 1 - c that is searched: a double has three digits of it.
TAIL_MIN = 2.0**-43


@dataclass(frozen=True)
class BiasedCoin(Protocol):
    """Each user sends the value, and every message that there is once more with probability c.

    Parameters
    ----------
    coin : float
        Probability c of a one that is added; in [1e-30, 1).
    d : int, optional
        None for bits: there is one message, a user with bit x and coin z sends it x + z times, possibly not at all. From 2 on
        for categories: the label of the own category, and each of the d labels with probability c.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    A single user's messages show the value with probability 1 - c or more, so that the local eps is infinite. With Y the number
    of messages (per label), all n users' coins are a binomial:

        est = Y - n c,   Var = n c (1 - c).

    Bits are the domain of two categories, whose estimated counts are n - est and est; x + c messages a user. Labels have
    independent errors; 1 + c d messages a user.

    Privacy of bits: p = inf, beta = 1, q = 1/c for x = 1 and 1/(1-c) for x = 0, omega = 0; the published pair is exact. Privacy
    of labels: two counts change, one of them up and the other down; see `shufflesim.bounds.Swapped`.

    Examples
    --------
    >>> BiasedCoin(coin=0.75).amplification
    VariationRatio(p=inf, beta=1, q=1.33333, q1=4)
    >>> BiasedCoin(coin=0.75, d=10).messages_per_user
    8.5
    """

    coin: float
    d: int | None = None

    def __post_init__(self) -> None:
        rule = f"a number in [{COIN_MIN:g}, 1)"
        coin = check_number("coin", self.coin, rule, low=COIN_MIN, high=math.nextafter(1.0, 0.0))
        object.__setattr__(self, "coin", coin)
        if self.d is not None:
            object.__setattr__(self, "d", Categories(self.d).d)

    @property
    def domain(self) -> Categories:
        """Two categories, the bits 0 and 1, or d."""
        return Categories(2 if self.d is None else self.d)

    @property
    def local_epsilon(self) -> float:
        """inf: the value is sent in clear."""
        return math.inf

    @property
    def amplification(self) -> VariationRatio:
        """(inf, 1, 1/c and 1/(1-c)) of the count that goes up: no neutral part."""
        return VariationRatio(math.inf, 1.0, 1 / self.coin, 1 / (1 - self.coin))

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        """One for bits; for labels that of the own one and that of another."""
        if self.d is None:
            return (self.amplification,)
        return self.amplification, VariationRatio(math.inf, 1.0, 1 / (1 - self.coin), 1 / self.coin)

    @property
    def alphabet(self) -> int:
        """One message for bits; d labels."""
        return 1 if self.d is None else self.d

    @property
    def width(self) -> int:
        """Messages of one user, at most."""
        return 1 + self.alphabet

    @property
    def messages_per_user(self) -> float:
        """1 + c per message that there is; less for users with bit 0."""
        return 1 + self.coin * self.alphabet

    def expected_messages(self, total: Array, n: int) -> float:
        """Ones and coins."""
        real = n if self.d is not None else int(total[1])
        return real + n * self.coin * self.alphabet

    @property
    def bits_per_message(self) -> float:
        """log2 d, rounded up; one for bits."""
        return float(max(1, math.ceil(math.log2(self.alphabet))))

    def claims(self, crowd: Crowd) -> list[Claim]:
        """Exact, on both sides where nobody can be absent.

        Whatever the others hold is known and can be subtracted: what is left are the own ones among the coins of all users. If
        users can be absent, the number of those who are there is assumed to be known, which their messages do not tell.
        """
        crowd.refuse_sampling(self)
        if self.d is None:
            claims = declared_claims_for(self.amplification, crowd.blanket({1: 1.0}))
        else:
            source = "exact law of the two counts that change"
            claims = [Claim("accountant", "upper", True, source, "any d", present(crowd, self._two_counts))]
        if crowd.complete:
            exact, note = claims[0], "attained whatever the others hold"
            claims.append(Claim("lower", "lower", True, exact.source, note, exact.value))
        return claims

    def _two_counts(self, n: int) -> Swapped:
        """Of n users who are there."""
        return Swapped(n, self.coin)

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """x + z messages a user; or the own label and the others that came up, user by user."""
        if self.d is None:
            sizes = values.astype(np.int64) + bernoulli(rng, self.coin, values.shape[0])
            return Encoded(np.zeros(int(sizes.sum()), dtype=np.uint8), sizes)
        added = bernoulli(rng, self.coin, (values.shape[0], self.d))
        sizes = 1 + np.count_nonzero(added, axis=1)
        own = np.zeros(int(sizes.sum()), dtype=bool)
        own[np.cumsum(sizes) - sizes] = True
        messages = np.empty(own.size, dtype=self.domain.dtype)
        messages[own], messages[~own] = values, np.nonzero(added)[1]
        return Encoded(messages, sizes)

    def aggregate(self, messages: Array) -> Array:
        """Messages per label, shape (d,); all messages, shape (1,), for bits."""
        return np.bincount(messages, minlength=self.alphabet)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts: messages less the expected number of coins."""
        return self._counts(aggregate - n * self.coin, n)

    def zero_preserving_estimate(self, aggregate: Array, n: int) -> Array:
        """The paper's own: 0 instead of the unbiased estimate unless more than n messages (per label) came.

        A category that nobody holds is estimated as 0, exactly and always; all others are biased towards 0.
        """
        return self._counts(np.where(aggregate > n, aggregate - n * self.coin, 0.0), n)

    def _counts(self, ones: Array, n: int) -> Array:
        return np.array([n - ones[0], ones[0]]) if self.d is None else ones

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All messages that came."""
        return float(aggregate.sum())

    def variance(self, total: Array, n: int) -> Array:
        """The same for every count: n c (1 - c)."""
        return np.full(self.domain.d, n * self.coin * (1 - self.coin))

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Counts plus a binomial of n coins for each message that there is."""
        real = totals[1:] if self.d is None else totals
        return real + rng.binomial(totals.sum(), self.coin, real.size)

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int, *, d: int | None = None) -> BiasedCoin:
        """1 - c = 50 ln(2/delta) / (eps^2 n), from n = 100 ln(2/delta) / eps^2 on, for eps in (0, 1].

        Labels: two counts change, each of them calibrated for (eps/2, delta/2); hence eps in (0, 2].
        """
        delta, n, parts = check_delta(delta), check_users(n), 1 if d is None else 2
        rule = f"in (0, {parts}], where the paper's calibration applies"
        part = check_number("epsilon", epsilon, rule, low=math.ulp(0.0), high=float(parts)) / parts
        part = max(part, EPSILON_TINY)
        needed = 100 * (math.log(2 * parts) - math.log(delta)) / part / part
        if n < needed:
            raise ValueError(f"n must be at least 100 ln(2/delta)/eps^2 = {np.ceil(needed):,.0f} of each count, got {n:,}")
        return cls(math.nextafter(1 - 0.5 * needed / n, 0.0), d)

    @classmethod
    def for_target(cls, epsilon: float, delta: float, n: int, *, d: int | None = None) -> BiasedCoin:
        """The largest c in [1/2, 1) that meets the target."""
        return meet(lambda tail: cls(1 - tail, d), epsilon, delta, n, find="smallest", within=(TAIL_MIN, 0.5))

    def retargeted(self, epsilon: float, delta: float, n: int) -> BiasedCoin:
        """With as many categories."""
        return self.for_target(epsilon, delta, n, d=self.d)

    @classmethod
    def examples(cls) -> Iterator[BiasedCoin]:
        """Typical, tiny, extreme."""
        yield cls(coin=0.9)
        yield cls(coin=0.75, d=8)
        yield cls(coin=0.5, d=2)
        yield cls(coin=0.01, d=300)
