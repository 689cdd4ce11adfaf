"""The contract of a protocol: what users send, and what the analyzer makes of the shuffled messages."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from ._checks import check_users
from .bounds import UnreachableError, VariationRatio, calibrate
from .bounds import epsilon as epsilon_at
from .bounds.claim import Claim
from .bounds.crowd import Crowd
from .domains import Array, Categories, Domain
from .shuffler import Encoded


class Protocol(ABC):
    """A protocol in the shuffle model; subclasses are frozen dataclasses.

    A user sends any number of messages; the analyzer sees the shuffled messages of all users and nothing else. It works on
    an additive aggregate of them, so that data of any size can be simulated in parts.

    Attributes
    ----------
    undeclared : str
        Why a protocol without `declarations` has none; empty for all others.
    """

    undeclared: ClassVar[str] = ""

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
        """Expected number of messages of one user; of the value that makes for the most where it depends on the value."""

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
    def declarations(self) -> tuple[VariationRatio, ...]:
        """(p, beta, q) of each independent part; empty where variation-ratio does not apply, `undeclared` then says why."""
        return ()

    @classmethod
    def for_target(cls, *arguments: Any, **parameters: Any) -> Self:
        """`for_target(epsilon, delta, n, ...)`: the least noise whose sound central eps is at most epsilon for n honest users."""
        raise ValueError(f"{cls.__name__} must be built from its own parameters, it has no search for a privacy target")

    @classmethod
    def original(cls, *arguments: Any, **parameters: Any) -> Self:
        """`original(epsilon, delta, n, ...)`: calibrated as in the protocol's own paper, refused where that does not apply."""
        raise ValueError(f"{cls.__name__} must be built from its own parameters, it has no calibration of its own paper")

    @classmethod
    def extra_amplification_ratio(cls, epsilon: float, delta: float, n: int, **parameters: Any) -> float:
        """The eps that the paper's own calibration promises over the sound eps of what it makes (rounded up): > 1 is a gain."""
        found = float(epsilon_at(cls.original(epsilon, delta, n, **parameters), n, delta))
        return epsilon / found if found > 0 else math.inf

    def retargeted(self, epsilon: float, delta: float, n: int) -> Self:
        """`for_target` with all that is not noise as it is here, such as the number of categories."""
        raise ValueError(f"{self.name} must be built from its own parameters, it has no search for a privacy target")

    @property
    def alphabet(self) -> int | None:
        """Number of distinct messages where these (or their entries) are the integers 0, 1, ...; None for anything else."""
        return None

    def valid(self, messages: Array) -> Array:
        """Which messages an honest user could have sent, shape (number of messages,); the analyzer rejects the others."""
        flat = messages.reshape(messages.shape[0], math.prod(messages.shape[1:]))
        if messages.dtype.kind == "f":
            return np.logical_and.reduce(np.isfinite(flat), axis=1)
        if self.alphabet is None:
            return np.ones(messages.shape[0], dtype=bool)
        return np.logical_and.reduce((flat >= 0) & (flat < self.alphabet), axis=1)

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

    def sample_groups(self, values: Array, counts: Array, rng: np.random.Generator) -> Array | None:
        """The same for counts[i] users who hold values[i]; what `sample_aggregate` gives where values are categories."""
        if not isinstance(self.domain, Categories):
            return None
        return self.sample_aggregate(self.domain.grouped_total(values, counts), rng)

    def expected_messages(self, total: Array, n: int) -> float:
        """Expected number of messages of n users, from their data's summary `total` where it depends on the data."""
        return n * self.messages_per_user

    def messages_in(self, aggregate: Array, n: int) -> float:
        """Number of messages behind an aggregate of n users; the expected number unless the aggregate shows it."""
        return n * self.messages_per_user


Made = TypeVar("Made", bound=Protocol)


def meet(
    make: Callable[[Any], Made],
    epsilon: float,
    delta: float,
    n: int,
    *,
    find: Literal["largest", "smallest"],
    within: tuple[float, float],
) -> Made:
    """The protocol with the largest (or smallest) parameter within a range whose sound central eps is at most epsilon.

    Parameters
    ----------
    make : callable
        Makes the protocol from the parameter.
    epsilon, delta : float
        The target: eps > 0 in nats, delta in (0, 1).
    n : int
        Number of users, all honest.
    find, within
        As in `calibrate`.

    Raises
    ------
    UnreachableError
        If no parameter meets the target; the message says how many users would be enough for the one that comes nearest.
    """
    n = check_users(n)
    try:
        found: Made = calibrate(make, n, delta, epsilon, find=find, within=within).x
        return found
    except UnreachableError as error:
        nearest = make(within[0] if find == "largest" else within[1])
        try:
            enough = f"{nearest.name} would need n = {calibrate(nearest, None, delta, epsilon).n:,}"
        except UnreachableError:
            enough = f"no number of users is enough for {nearest.name}"
        raise UnreachableError(
            f"epsilon must be within reach of n = {n:,} users at delta = {delta!r}, got {epsilon!r}; {enough}"
        ) from error
