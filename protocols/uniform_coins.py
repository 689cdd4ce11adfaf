"""Uniform coins: a bit in clear, hidden among fair coins.

Source: Balcer, Cheu, Joseph, Mao, "Connecting robust shuffle privacy and pan-privacy", SODA 2021.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import EPSILON_TINY, check_delta, check_epsilon, check_integer, check_users
from shufflesim.bounds import Claim, Crowd, MessageCount, UnreachableError, VariationRatio, calibrate, declared_claims_for
from shufflesim.domains import Array
from shufflesim.shuffler import Encoded

from ._bits import Bits

# Coins of one user; more are a mistake rather than a protocol.
COINS_MAX = 10**6


@dataclass(frozen=True)
class UniformCoins(Bits):
    """Each user sends the bit x and k fair coins, all as messages of one bit.

    Parameters
    ----------
    coins : int
        Number k of coins of one user; in [1, 10^6].

    Raises
    ------
    ValueError
        If it is out of its range.

    Notes
    -----
    Data: bits 0 and 1, booleans, or a categorical of two categories, shape (n,).
    Source: Balcer, Cheu, Joseph, Mao, "Connecting robust shuffle privacy and pan-privacy", SODA 2021.

    A single user's messages can show the bit, so that the local eps is infinite. With Y the number of ones,

        est = Y - n k/2,   Var = n k/4,

    and the estimated counts of the two categories, the bits 0 and 1, are n - est and est. p = inf, beta = 1, q = 2, and
    omega = 0: the published pair is exact.

    Examples
    --------
    >>> UniformCoins(coins=3).amplification
    VariationRatio(p=inf, beta=1, q=2)
    """

    coins: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "coins", check_integer("coins", self.coins, low=1, high=COINS_MAX))

    @property
    def amplification(self) -> VariationRatio:
        """(inf, 1, 2): no neutral part."""
        return VariationRatio(math.inf, 1.0, 2.0)

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        """One."""
        return (self.amplification,)

    @property
    def alphabet(self) -> int:
        """Two bits."""
        return 2

    @property
    def width(self) -> int:
        """Coins and the own message: k + 1."""
        return 1 + self.coins

    @property
    def messages_per_user(self) -> float:
        """Coins and the own message: k + 1."""
        return float(1 + self.coins)

    def blanket(self, crowd: Crowd) -> MessageCount:
        """User 1's message and the coins of all users, user 1's own included."""
        crowd.refuse_sampling(self)
        return crowd.blanket({self.coins: 1.0})

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The declaration's bounds, and the same value as a lower bound.

        If all others hold one value, their bits can be subtracted: the number of messages tells how many they are.
        """
        claims = declared_claims_for(self.amplification, self.blanket(crowd))
        exact, note = claims[0], "attained when all others hold one value"
        return [*claims, Claim("lower", "lower", True, exact.source, note, exact.value)]

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """The bit and the user's coins, user by user."""
        n = values.shape[0]
        drawn = np.frombuffer(rng.bytes(-(-n * self.coins // 8)), dtype=np.uint8)
        messages = np.empty((n, self.width), dtype=np.uint8)
        messages[:, 0], messages[:, 1:] = values, np.unpackbits(drawn, count=n * self.coins).reshape(n, self.coins)
        return Encoded(messages.ravel(), np.full(n, self.width))

    def aggregate(self, messages: Array) -> Array:
        """Zeros and ones, shape (2,)."""
        return np.bincount(messages, minlength=2)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts of both bits: messages less n k/2."""
        ones = aggregate[1] - 0.5 * n * self.coins
        return np.array([n - ones, ones])

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All messages that came."""
        return float(aggregate.sum())

    def variance(self, total: Array, n: int) -> Array:
        """The same for both: n k/4."""
        return np.full(2, 0.25 * n * self.coins)

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Ones and a binomial of all coins."""
        drawn = int(totals.sum()) * self.coins
        ones = rng.binomial(drawn, 0.5)
        return totals + np.array([drawn - ones, ones])

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int) -> UniformCoins:
        """The smallest k with n k >= 20 ((e^eps + 1)/(e^eps - 1))^2 ln(2/delta)."""
        epsilon, delta, n = check_epsilon(epsilon), check_delta(delta), check_users(n)
        needed = 20 * (math.log(2) - math.log(delta)) / math.tanh(max(epsilon, EPSILON_TINY) / 2) ** 2
        if needed > n * COINS_MAX:
            rule = f"n must be at least {np.ceil(needed / COINS_MAX):,.0f} for at most {COINS_MAX:,} coins of each user"
            raise ValueError(f"{rule}, got {n:,}")
        return cls(math.ceil(needed / n))

    @classmethod
    def for_target(cls, epsilon: float, delta: float, n: int) -> UniformCoins:
        """The smallest k that meets the target."""
        n = check_users(n)
        try:
            found: UniformCoins = calibrate(cls, n, delta, epsilon, find="smallest", within=(1, COINS_MAX)).x
        except UnreachableError as error:
            # The coins of all users together are what counts.
            needed = math.ceil(calibrate(cls(1), None, delta, epsilon).n / COINS_MAX)
            rule = f"n must be at least {needed:,} for at most {COINS_MAX:,} coins of each user"
            raise UnreachableError(f"{rule} to reach epsilon={epsilon!r} at delta={delta!r}, got {n:,}") from error
        return found

    @classmethod
    def examples(cls) -> Iterator[UniformCoins]:
        """Typical, tiny, extreme."""
        yield cls(coins=3)
        yield cls(coins=1)
        yield cls(coins=20)
