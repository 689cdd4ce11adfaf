"""The contract of a protocol: what users send, and what the analyzer makes of the shuffled messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self

import numpy as np

from .bounds.claim import Claim
from .bounds.crowd import Crowd
from .domains import Array, Domain
from .shuffler import Encoded


class Protocol(ABC):
    """A protocol in the shuffle model; subclasses are frozen dataclasses.

    A user sends any number of messages; the analyzer sees the shuffled messages of all users and nothing else. It works on
    an additive aggregate of them, so that data of any size can be simulated in parts.
    """

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What a user holds."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """Privacy of one user's messages without the others; inf if they reveal the value."""

    @abstractmethod
    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """Messages of validated values, shape (n,), without a loop over users."""

    @abstractmethod
    def aggregate(self, messages: Array) -> Array:
        """Sum up messages; additive, so that parts can be added."""

    @abstractmethod
    def estimate(self, aggregate: Array, n: int) -> Array:
        """Unbiased estimate of the domain's target from the aggregate of n users' messages, shape (k,)."""

    @abstractmethod
    def variance(self, total: Array, n: int) -> Array:
        """Exact variance of each estimate for data with the domain's summary `total` (counts per category), shape (k,)."""

    @property
    @abstractmethod
    def messages_per_user(self) -> float:
        """Expected number of messages of one user."""

    @property
    @abstractmethod
    def bits_per_message(self) -> float:
        """Bits of one message as it would be sent."""

    @abstractmethod
    def claims(self, crowd: Crowd) -> list[Claim]:
        """Every bound that applies in a crowd."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny and extreme instances, shared by tests, docs and benchmarks."""

    @property
    def width(self) -> int:
        """Random numbers drawn per user at once; bounds the memory of one block of users."""
        return 1

    @property
    def name(self) -> str:
        """What tables call it."""
        return repr(self)

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """What the messages say about `variance`: its value at the estimates, which are brought into their range if need be."""
        return self.domain.plug_in(lambda total: self.variance(total, n), self.estimate(aggregate, n), n)

    def histogram_law(self) -> Array | None:
        """The law of one user's message as a matrix if `aggregate` counts its columns, for maximum likelihood; None otherwise."""
        return None

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array | None:
        """Draw the aggregate of all messages from the counts per input alone, exactly; None if there is no way."""
        return None

    def messages_in(self, aggregate: Array, n: int) -> float:
        """Number of messages behind an aggregate of n users; the expected number unless the aggregate shows it."""
        return n * self.messages_per_user
