"""Counting with correlated noise: two kinds of messages, of which the same number floods both.

Source: Ghazi, Kumar, Manurangsi, Pagh, "Private counting from anonymous messages: near-optimal accuracy with vanishing
communication overhead", ICML 2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_epsilon, check_number, check_users
from shufflesim._sampling import negative_binomial
from shufflesim.bounds import Claim, Crowd, Directions, Flooded, PolyaDifference, UnreachableError, flooded, present
from shufflesim.domains import Array
from shufflesim.protocol import meet
from shufflesim.shuffler import Encoded

from ._bits import NoisyBits
from .negative_binomial_count import REST_MIN, NegativeBinomialCount, check_shape, check_success, paper_shape

# Share of the target's epsilon that is left to the flood.
FLOOD_SHARE = 0.1
# Largest -log p that is tried.
FALL_MAX = 600.0
# Largest share of epsilon that the paper's flood may take, as in its theorem on the plain count.
ORIGINAL_EPSILON_MAX = 1.0


@dataclass(frozen=True)
class CorrelatedCount(NoisyBits):
    """Each user sends value + Z1 + F messages +1 and Z2 + F messages -1: the flood F cancels in the estimate.

    Parameters
    ----------
    epsilon_star : float
        Budget of the noise that stays, Z1 and Z2 ~ Polya(1/users, e^-epsilon_star); in (0, 700].
    r, p : float
        Of the flood, F ~ NB(r/users, p), which hides how many messages of both kinds there are; r in (0, 1e6],
        p in (0, 1 - 1e-12].
    users : int
        Number of users whose noise adds up to one discrete Laplace variable; >= 1.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: bits 0 and 1, booleans, or a categorical of two categories, shape (n,).
    Source: Ghazi, Kumar, Manurangsi, Pagh, "Private counting from anonymous messages", ICML 2020.

    Messages +1 and -1 are coded as 1 and 0. With a = e^-epsilon_star and n users

        est = #(+1) - #(-1),   Var = (n/users) 2a/(1-a)^2.

    The exact privacy of both numbers is one sum (`shufflesim.bounds.flooded`), the same whatever the others hold, where that has
    at most 2^18 terms; for more of them, and for fewer honest users than `users`, there is an upper bound.

    Examples
    --------
    >>> protocol = CorrelatedCount.for_target(1.0, 1e-6, 1000)
    >>> protocol.epsilon_star, round(protocol.messages_per_user, 2)
    (0.9, 1.67)
    """

    epsilon_star: float
    r: float
    p: float
    users: int

    undeclared = (
        "a user sends a random number of messages of two kinds, so that no message has a law of its own; the numbers of both "
        "kinds have an exact accountant"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_star", check_epsilon(self.epsilon_star, "epsilon_star"))
        object.__setattr__(self, "r", check_shape(self.r))
        object.__setattr__(self, "p", check_success(self.p))
        object.__setattr__(self, "users", check_users(self.users, "users"))

    @property
    def alphabet(self) -> int:
        """0 for -1, 1 for +1."""
        return 2

    @property
    def noise_per_user(self) -> float:
        """Expected messages beyond the value, (2a/(1-a) + 2rp/(1-p))/users."""
        return 2 * (1 / math.expm1(self.epsilon_star) + self.r * self.p / (1 - self.p)) / self.users

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The exact divergence of both numbers of messages where it can be summed, an upper bound elsewhere."""
        crowd.refuse_sampling(self)

        def value(n: int) -> Directions:
            return flooded(self.epsilon_star, n / self.users, self.r * (n / self.users), self.p)

        source = "divergence of the numbers of both kinds of messages"
        whole = value(crowd.n)
        exact = isinstance(whole, Flooded) and crowd.complete and crowd.n == self.users
        note = "exact" if exact else "flood and noise bounded one by one where they cannot be summed"
        claims = [Claim("accountant", "upper", True, source, note, present(crowd, value))]
        if exact:
            claims.append(Claim("lower", "lower", True, source, "attained whatever the others hold", whole))
        elif crowd.complete and crowd.n <= self.users:
            difference = PolyaDifference(self.epsilon_star, 1, crowd.n / self.users)
            claims.append(Claim("lower", "lower", True, "divergence of the difference", "both numbers show it", difference))
        return claims

    def _draw(self, n: float, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Messages +1 and -1 that are noise, of n users together, `size` times."""
        flood = negative_binomial(rng, self.r * (n / self.users), self.p / (1 - self.p), size)
        odds = 1 / math.expm1(self.epsilon_star)
        plus, minus = (negative_binomial(rng, n / self.users, odds, size) for _ in range(2))
        return plus + flood, minus + flood

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """Messages 1 and then 0, user by user."""
        n = values.shape[0]
        plus, minus = self._draw(1, n, rng)
        kinds = np.column_stack([values + plus, minus])
        return Encoded(np.repeat(np.tile(np.array([1, 0], dtype=np.uint8), n), kinds.ravel()), kinds.sum(axis=1))

    def aggregate(self, messages: Array) -> Array:
        """Messages -1 and +1, shape (2,)."""
        return np.bincount(messages, minlength=2)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Users who hold 0, and who hold 1."""
        ones = float(int(aggregate[1]) - int(aggregate[0]))
        return np.array([n - ones, ones])

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All that came."""
        return float(aggregate.sum())

    def variance(self, total: Array, n: int) -> Array:
        """That of the noise that stays."""
        return np.full(2, (n / self.users) / (2 * math.sinh(self.epsilon_star / 2) ** 2))

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """The ones and the noise of all."""
        plus, minus = self._draw(int(totals.sum()), 1, rng)
        return np.array([minus[0], totals[1] + plus[0]])

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int, *, flood: float = FLOOD_SHARE) -> CorrelatedCount:
        """epsilon_star = (1 - flood) epsilon, and a flood of r = 3 (1 + ln(1/delta)), p = e^(-0.2 flood epsilon).

        Raises
        ------
        ValueError
            If flood epsilon is above 1, where the paper's theorem on the flood ends.
        """
        share = check_flood(flood)
        if check_epsilon(epsilon) * share > ORIGINAL_EPSILON_MAX:
            raise ValueError(f"epsilon must be at most {ORIGINAL_EPSILON_MAX / share:g} for flood = {share:g}, got {epsilon!r}")
        return cls((1 - share) * epsilon, paper_shape(delta), math.exp(-0.2 * share * epsilon), n)

    @classmethod
    def for_target(
        cls, epsilon: float, delta: float, n: int, *, flood: float = FLOOD_SHARE, r: float | None = None
    ) -> CorrelatedCount:
        """epsilon_star = (1 - flood) epsilon, and the smallest flood that is enough.

        The flood costs messages and no accuracy: `flood` near 0 means the error of central noise and many messages.

        Raises
        ------
        UnreachableError
            If no flood is enough, as for a shape near 1 and a small delta.
        """
        n, share = check_users(n), check_flood(flood)
        star, shape = (1 - share) * check_epsilon(epsilon), paper_shape(delta) if r is None else check_shape(r)

        def make(fall: float) -> CorrelatedCount:
            return cls(star, shape, math.exp(-fall), n)

        try:
            # A flood that is private by itself for the rest of epsilon is more than enough.
            least = -math.log(NegativeBinomialCount.for_target(epsilon - star, delta, n, r=shape).p) * (1 - 1e-6)
        except UnreachableError:
            least = 2 * REST_MIN
        return meet(make, epsilon, delta, n, find="largest", within=(least, FALL_MAX))

    @classmethod
    def examples(cls) -> Iterator[CorrelatedCount]:
        """Typical, tiny, extreme."""
        yield cls(epsilon_star=0.9, r=45.0, p=0.98, users=500)
        yield cls(epsilon_star=2.0, r=2.0, p=0.3, users=10)
        yield cls(epsilon_star=0.01, r=50.0, p=0.995, users=400)


def check_flood(flood: object) -> float:
    """A share strictly between 0 and 1."""
    return check_number("flood", flood, "strictly between 0 and 1", low=math.nextafter(0, 1), high=math.nextafter(1, 0))
