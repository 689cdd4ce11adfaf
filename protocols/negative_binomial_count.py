"""Counting with negative binomial noise: users send as many identical messages as value and noise say.

Source: Ghazi, Kumar, Manurangsi, Pagh, "Private counting from anonymous messages: near-optimal accuracy with vanishing
communication overhead", ICML 2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_delta, check_epsilon, check_number, check_users
from shufflesim._sampling import negative_binomial
from shufflesim.bounds import Claim, Crowd, NoisyCount, present
from shufflesim.domains import Array
from shufflesim.protocol import meet
from shufflesim.shuffler import Encoded

from ._bits import NoisyBits

# Largest shape; the paper's for delta = 1e-300 is 2,075.
SHAPE_MAX = 1e6
# Least 1 - p: the noise has a mean of r (1-p)^-1 messages.
REST_MIN = 1e-12
# The paper's theorem is for eps and delta in (0, 1); 1 is its usual example.
ORIGINAL_EPSILON_MAX = 1.0


def check_shape(r: object) -> float:
    """A shape r of negative binomial noise."""
    rule = f"a number in (0, {SHAPE_MAX:g}]"
    number = check_number("r", r, rule, low=0.0, high=SHAPE_MAX)
    if number == 0:
        raise ValueError(f"r must be {rule}, got {r!r}: without noise nothing hides the value")
    return number


def check_success(p: object) -> float:
    """A parameter p of negative binomial noise."""
    rule = f"a number in (0, 1 - {REST_MIN:g}]"
    number = check_number("p", p, rule, low=0.0, high=1 - REST_MIN)
    if number == 0:
        raise ValueError(f"p must be {rule}, got {p!r}: without noise nothing hides the value")
    return number


def paper_shape(delta: float) -> float:
    """3 (1 + ln(1/delta))."""
    return 3 * (1 - math.log(check_delta(delta)))


@dataclass(frozen=True)
class NegativeBinomialCount(NoisyBits):
    """Each user sends value (0 or 1) + NB(r/users, p) copies of one message; the noise of all users adds up to NB(r, p).

    Parameters
    ----------
    r : float
        Shape of the noise of all users together; in (0, 1e6].
    p : float
        Its other parameter, the ratio in which its tail falls; in (0, 1 - 1e-12].
    users : int
        Number of users whose noise adds up to NB(r, p); >= 1. With n users its shape is r n/users.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: bits 0 and 1, booleans, or a categorical of two categories, shape (n,).
    Source: Ghazi, Kumar, Manurangsi, Pagh, "Private counting from anonymous messages", ICML 2020.

    NB(r, p) has the law Gamma(k + r)/(Gamma(r) k!) (1-p)^r p^k and the mean rp/(1-p). With Y messages of n users,

        est = Y - (n/users) rp/(1-p),   Var = (n/users) rp/(1-p)^2.

    The analyzer sees Y and nothing else, so that the exact privacy is the divergence between NB(r, p) and its shift by one,
    whatever the others hold: upper and lower bound agree. It is far below what the paper's theorem promises.

    Examples
    --------
    >>> import shufflesim as ss
    >>> protocol = NegativeBinomialCount.original(1.0, 1e-6, 1000)
    >>> round(float(ss.epsilon(protocol, 1000, 1e-6)), 4)
    0.1765
    """

    r: float
    p: float
    users: int

    undeclared = (
        "a user sends a random number of identical messages, so that no message has a law of its own; the number of all "
        "messages has an exact accountant"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "r", check_shape(self.r))
        object.__setattr__(self, "p", check_success(self.p))
        object.__setattr__(self, "users", check_users(self.users, "users"))

    @property
    def alphabet(self) -> int:
        """All messages are the same."""
        return 1

    @property
    def odds(self) -> float:
        """p/(1-p)."""
        return self.p / (1 - self.p)

    @property
    def noise_per_user(self) -> float:
        """Expected messages beyond the value, r p/((1-p) users)."""
        return self.r * self.odds / self.users

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The exact divergence; with users who may be absent an upper bound."""
        crowd.refuse_sampling(self)
        source = "divergence between the noise and its shift by one"
        value = present(crowd, lambda n: NoisyCount(self.r * (n / self.users), self.p))
        claims = [Claim("accountant", "upper", True, source, "the number of messages is all there is to see", value)]
        if crowd.complete:
            claims.append(Claim("lower", "lower", True, source, "attained whatever the others hold", value))
        return claims

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """Copies of message 0, user by user."""
        sizes = values + negative_binomial(rng, self.r / self.users, self.odds, values.shape[0])
        return Encoded(np.zeros(int(sizes.sum()), dtype=np.uint8), sizes)

    def aggregate(self, messages: Array) -> Array:
        """Their number, shape (1,)."""
        return np.array([messages.shape[0]])

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Users who hold 0, and who hold 1."""
        ones = float(aggregate[0]) - n * self.noise_per_user
        return np.array([n - ones, ones])

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All that came."""
        return float(aggregate[0])

    def variance(self, total: Array, n: int) -> Array:
        """That of the noise."""
        return np.full(2, n * self.noise_per_user / (1 - self.p))

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """The ones and the noise of all."""
        n = int(totals.sum())
        return totals[1:] + negative_binomial(rng, self.r * (n / self.users), self.odds, 1)

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int) -> NegativeBinomialCount:
        """r = 3 (1 + ln(1/delta)), p = e^(-0.2 epsilon) as in the paper, for epsilon in (0, 1].

        Raises
        ------
        ValueError
            If epsilon is above 1, where the paper has no theorem, or so small that p rounds to 1.
        """
        rule = f"a number in (0, {ORIGINAL_EPSILON_MAX:g}]"
        if not check_epsilon(epsilon) <= ORIGINAL_EPSILON_MAX:
            raise ValueError(f"epsilon must be {rule} in the paper's theorem, got {epsilon!r}")
        return cls(paper_shape(delta), math.exp(-0.2 * epsilon), n)

    @classmethod
    def for_target(cls, epsilon: float, delta: float, n: int, *, r: float | None = None) -> NegativeBinomialCount:
        """The smallest p for a shape r, by default the paper's; larger shapes have less variance and more messages.

        Raises
        ------
        UnreachableError
            If no p meets the target, as for a shape near 1 and a small delta.
        """
        n, shape = check_users(n), paper_shape(delta) if r is None else check_shape(r)
        check_epsilon(epsilon)

        def make(fall: float) -> NegativeBinomialCount:
            return cls(shape, math.exp(-fall), n)

        return meet(make, epsilon, delta, n, find="largest", within=(2 * REST_MIN, 600.0))

    @classmethod
    def examples(cls) -> Iterator[NegativeBinomialCount]:
        """Typical, tiny, extreme."""
        yield cls(r=44.0, p=math.exp(-0.2), users=500)
        yield cls(r=1.5, p=0.5, users=10)
        yield cls(r=30.0, p=0.999, users=400)
