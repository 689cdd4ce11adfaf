"""Any local randomizer as a protocol: one report is one message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import EPSILON_MAX, check_target
from shufflesim.bounds import Claim, Crowd, VariationRatio
from shufflesim.domains import Array, Domain
from shufflesim.protocol import Protocol, meet
from shufflesim.randomizer import Randomizer
from shufflesim.shuffler import Encoded

# How far within its ends the search for a budget stays, relatively: nothing may round beyond them.
LEAST = 1e-9


@dataclass(frozen=True)
class SingleMessage(Protocol):
    """Every user sends one report of a local randomizer.

    Parameters
    ----------
    randomizer : Randomizer
        What each user applies.

    Raises
    ------
    ValueError
        If `randomizer` is not a Randomizer.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> SingleMessage(GRR(epsilon=1.0, d=4)).messages_per_user
    1.0
    """

    randomizer: Randomizer

    def __post_init__(self) -> None:
        if not isinstance(self.randomizer, Randomizer):
            raise ValueError(f"randomizer must be a Randomizer, got {self.randomizer!r}")

    @classmethod
    def for_target(cls, epsilon: float, delta: float, n: int, *, randomizer: Randomizer) -> SingleMessage:
        """The randomizer with the largest budget whose sound central eps is at most epsilon.

        Parameters
        ----------
        epsilon, delta : float
            The target: central eps > 0 in nats, delta in (0, 1).
        n : int
            Number of users, all honest.
        randomizer : Randomizer
            Any budget; parameters that are the best choice for it are chosen anew.
        """
        epsilon, delta, n = check_target(epsilon, delta, n)
        cls(randomizer)
        # A budget per unit of length is not the local one.
        unit = min(1.0, randomizer.epsilon / randomizer.local_epsilon)
        # Any budget up to the target meets it.
        within = (min(epsilon * (1 - LEAST), EPSILON_MAX / 2) * unit, EPSILON_MAX * (1 - LEAST) * unit)
        return meet(lambda budget: cls(randomizer.with_epsilon(budget)), epsilon, delta, n, find="largest", within=within)

    def retargeted(self, epsilon: float, delta: float, n: int) -> SingleMessage:
        """The same randomizer with another budget."""
        return self.for_target(epsilon, delta, n, randomizer=self.randomizer)

    @property
    def domain(self) -> Domain:
        """The randomizer's."""
        return self.randomizer.domain

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        """The randomizer's."""
        return (self.randomizer.amplification,)

    @property
    def alphabet(self) -> int | None:
        """The randomizer's."""
        return self.randomizer.alphabet

    def valid(self, messages: Array) -> Array:
        """The randomizer's."""
        return self.randomizer.valid(messages)

    @property
    def local_epsilon(self) -> float:
        """The randomizer's budget."""
        return self.randomizer.local_epsilon

    @property
    def name(self) -> str:
        """The randomizer's repr."""
        return repr(self.randomizer)

    @property
    def width(self) -> int:
        """The randomizer's."""
        return self.randomizer.width

    @property
    def messages_per_user(self) -> float:
        """One."""
        return 1.0

    @property
    def bits_per_message(self) -> float:
        """Bits of one report."""
        return self.randomizer.bits

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """One report a user."""
        return Encoded(self.randomizer.randomize(values, rng))

    def aggregate(self, messages: Array) -> Array:
        """The randomizer's."""
        return self.randomizer.aggregate(messages)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The randomizer's."""
        return self.randomizer.estimate(aggregate, n)

    def variance(self, total: Array, n: int) -> Array:
        """The randomizer's."""
        return self.randomizer.variance(total, n)

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """The randomizer's."""
        return self.randomizer.estimated_variance(aggregate, n)

    def histogram_law(self) -> Array | None:
        """The randomizer's."""
        return self.randomizer.histogram_law()

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The randomizer's."""
        return self.randomizer.claims(crowd)

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array | None:
        """The randomizer's."""
        return self.randomizer.sample_aggregate(totals, rng)

    @classmethod
    def examples(cls) -> Iterator[SingleMessage]:
        """A few randomizers; all of them are examples of their own classes."""
        from shufflesim.mechanisms import GRR, Laplace

        yield cls(GRR(epsilon=1.0, d=4))
        yield cls(Laplace(epsilon=2.0))
