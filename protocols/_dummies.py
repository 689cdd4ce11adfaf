"""What protocols share in which every user sends one report and dummies, messages that are uniform on all there are."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from shufflesim._checks import SIZE_MAX, USERS_MAX, check_delta, check_number, check_users
from shufflesim._sampling import bernoulli, uniform_codes
from shufflesim.bounds import Crowd, MessageCount, VariationRatio
from shufflesim.domains import Array, Categories
from shufflesim.protocol import Protocol, meet
from shufflesim.shuffler import Encoded

# The number of uniform dummies of one user; more are a mistake rather than a protocol.
DUMMIES_MAX = 1e6


class WithDummies(Protocol):
    """A report and, on average, `dummies` uniform messages: floor(dummies), and one more with what is left as probability."""

    dummies: float

    @property
    @abstractmethod
    def amplification(self) -> VariationRatio:
        """Of the report among dummies."""

    @abstractmethod
    def uniform(self, count: int, rng: np.random.Generator) -> Array:
        """That many dummies, first axis messages."""

    @abstractmethod
    def report(self, values: Array, blank: Array, rng: np.random.Generator) -> Array:
        """The users' reports, shape of `blank`, which holds as many fresh dummies to make them from."""

    @property
    def whole(self) -> int:
        """Dummies of every user."""
        return math.floor(self.dummies)

    @property
    def more(self) -> float:
        """Probability of a further one."""
        return self.dummies - self.whole

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        """One."""
        return (self.amplification,)

    @property
    def width(self) -> int:
        """Messages per user, at most."""
        return 1 + math.ceil(self.dummies)

    @property
    def messages_per_user(self) -> float:
        """The report and the dummies."""
        return 1 + self.dummies

    def blanket(self, crowd: Crowd) -> MessageCount:
        """User 1's message and the dummies of all users, user 1's own included."""
        crowd.refuse_sampling(self)
        return crowd.blanket({self.whole: 1 - self.more, self.whole + 1: self.more})

    def counted(self, crowd: Crowd) -> bool:
        """Whether the number of messages tells how many users are there: nobody can be missing, or all send equally many."""
        return crowd.complete or self.more == 0

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """The report and the user's dummies, user by user."""
        sizes = 1 + self.whole + bernoulli(rng, self.more, values.shape[0])
        messages = self.uniform(int(sizes.sum()), rng)
        first = np.cumsum(sizes) - sizes
        messages[first] = self.report(values, messages[first], rng)
        return Encoded(messages, sizes)

    def drawn(self, n: int, rng: np.random.Generator) -> int:
        """Number of dummies of n users."""
        if n * self.width > SIZE_MAX:
            raise ValueError(f"n must be such that there are at most 2^62 messages, got {n} users for {self.name}")
        return n * self.whole + int(rng.binomial(n, self.more))


class LabelledDummies(WithDummies):
    """Reports that are labels out of d, among uniform labels."""

    d: int

    @property
    def domain(self) -> Categories:
        """d categories."""
        return Categories(self.d)

    @property
    def alphabet(self) -> int:
        """d labels."""
        return self.d

    @property
    def bits_per_message(self) -> float:
        """log2 d, rounded up."""
        return float(math.ceil(math.log2(self.d)))

    def uniform(self, count: int, rng: np.random.Generator) -> Array:
        """Labels."""
        return uniform_codes(rng, self.d, count, self.domain.dtype)

    def aggregate(self, messages: Array) -> Array:
        """Messages per label, shape (d,)."""
        return np.bincount(messages, minlength=self.d)

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All labels that came."""
        return float(aggregate.sum())

    def spread(self, kept: Array, n: int, rng: np.random.Generator) -> Array:
        """The aggregate of n users of whom kept[j] report their label j and all others a uniform one."""
        uniform = n - int(kept.sum()) + self.drawn(n, rng)
        return kept + rng.multinomial(uniform, np.full(self.d, 1 / self.d))


Made = TypeVar("Made", bound=WithDummies)


def least_dummies(make: Callable[[Any], Made], epsilon: float, delta: float, n: int, beta: float = 1.0) -> Made:
    """The protocol with the fewest dummies, on average, that meets the target.

    Without a single dummy delta is beta, the total variation of the report. That happens with probability (1 - dummies)^n for
    fewer than one a user, and must not be likelier than delta/beta.
    """
    n, log_delta = check_users(n), math.log(check_delta(delta))
    least = -math.expm1(min(log_delta - math.log(beta), -1e-9) / n)
    return meet(make, epsilon, delta, n, find="smallest", within=(least, DUMMIES_MAX))


def check_target(epsilon: Any, delta: Any, n: Any) -> tuple[float, float, int]:
    """eps > 0 in nats, delta in (0, 1), at least one user."""
    rule = "a number > 0 (nats)"
    checked = check_number("epsilon", epsilon, rule, low=0.0)
    if checked == 0:
        raise ValueError(f"epsilon must be {rule}, got {epsilon!r}")
    return checked, check_delta(delta), check_users(n)


def per_user(total: float, n: int) -> float:
    """Dummies of one of n users who send that many in all."""
    if total > n * DUMMIES_MAX:
        least = total / DUMMIES_MAX
        enough = f"n = {math.ceil(least):,} would be enough" if least <= USERS_MAX else "no number of users is enough"
        raise ValueError(f"n must be so large that {total:.4g} dummies are at most {DUMMIES_MAX:g} a user, got {n}; {enough}")
    return total / n
