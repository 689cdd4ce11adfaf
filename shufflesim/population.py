"""Users who never send, and users who do not follow the protocol.

Sources of the attacks: Cao, Jia, Gong, "Data poisoning attacks to local differential privacy protocols", USENIX Security 2021
(random messages, random item, maximal gain); Cheu, Smith, Ullman, "Manipulation attacks in local differential privacy", S&P 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ._checks import check_number, nearest
from .domains import Array, Categories
from .protocol import Protocol
from .shuffler import Encoded

Attack = Literal["target-item", "maximal-gain", "garbage", "out-of-alphabet"]

# Candidates among which a maximal gain is looked for: messages of users who hold the target, and of others.
POOL = 64


@dataclass(frozen=True)
class Population:
    """Which users take part, and what those do who do not follow the protocol.

    Parameters
    ----------
    dropout : float
        Probability, in [0, 1), that a user sends nothing; independent.
    faulty : float
        Probability, in [0, 1), that a user who sends something does not follow the protocol; independent.
    attack : {"target-item", "maximal-gain", "garbage", "out-of-alphabet"}, optional
        What faulty users do; needed for faulty > 0.

        "target-item" follows the protocol with `target` for a value. "maximal-gain" sends as many messages as an honest user,
        each of them the one that moves the estimate furthest towards `target`, found among the messages that honest users could
        send. "garbage" sends random messages. "out-of-alphabet" sends messages that no honest user could send; the analyzer
        rejects and counts them.
    target : optional
        A value that a user can hold, as in the data; needed for the first two attacks.

    Raises
    ------
    ValueError
        For a probability out of its range, an unknown attack, or a target that is missing or useless.

    Examples
    --------
    >>> Population(dropout=0.1, faulty=0.02, attack="target-item", target=3)
    Population(dropout=0.1, faulty=0.02, attack='target-item', target=3)
    """

    dropout: float = 0.0
    faulty: float = 0.0
    attack: Attack | None = None
    target: Any = None

    def __post_init__(self) -> None:
        for name in ("dropout", "faulty"):
            value = check_number(name, getattr(self, name), "in [0, 1)", low=0.0, high=np.nextafter(1.0, 0.0))
            object.__setattr__(self, name, value)
        if self.attack is not None and self.attack not in get_args(Attack):
            known = get_args(Attack)
            raise ValueError(f"attack must be one of {', '.join(known)}, got {self.attack!r}; {nearest(str(self.attack), known)}")
        if (self.faulty > 0) != (self.attack is not None):
            raise ValueError(f"attack must be given exactly if faulty > 0, got faulty={self.faulty!r}, attack={self.attack!r}")
        if (self.attack in ("target-item", "maximal-gain")) != (self.target is not None):
            got = f"attack={self.attack!r}, target={self.target!r}"
            raise ValueError(f"target must be given exactly for target-item and maximal-gain, got {got}")


@dataclass(frozen=True, eq=False)
class Sent:
    """What the users of one block send, and how many of them are there."""

    encoded: Encoded
    present: int
    faulty: int


@dataclass(eq=False)
class Received:
    """What came to the analyzer: users who sent something, faulty ones among them, and messages that were rejected."""

    users: int = 0
    faulty: int = 0
    rejected: int = 0

    def add(self, users: int, faulty: int, rejected: int) -> None:
        """Those of one more block."""
        self.users, self.faulty, self.rejected = self.users + users, self.faulty + faulty, self.rejected + rejected

    @property
    def honest(self) -> int:
        """Users who followed the protocol."""
        return self.users - self.faulty


class Senders:
    """The users of a population with one protocol: encodes blocks of values.

    Parameters
    ----------
    population : Population
        Who takes part.
    protocol : Protocol
        What honest users do.
    rng : numpy.random.Generator
        For what all faulty users have in common.
    """

    def __init__(self, population: Population, protocol: Protocol, rng: np.random.Generator) -> None:
        self.population, self.protocol = population, protocol
        self._target: Array | None = None
        self._best: Array | None = None
        if population.target is not None:
            try:
                self._target = protocol.domain.validate(np.asarray([population.target]))
            except ValueError as error:
                raise ValueError(f"target must be a value that a user can hold, got {population.target!r}: {error}") from None
        if population.attack == "maximal-gain":
            self._best = self._maximal_gain(rng)
        # One message, for its type.
        self._like = self._sample(rng, 1)[:1]
        if population.attack == "out-of-alphabet":
            self._outside(self._like)

    def encode(self, values: Array, population_rng: np.random.Generator, rng: np.random.Generator) -> Sent:
        """Messages of those who send; honest users first, which the shuffler undoes."""
        here = population_rng.random(values.shape[0]) >= self.population.dropout
        faulty = here & (population_rng.random(values.shape[0]) < self.population.faulty)
        honest = values[here & ~faulty]
        bad = int(faulty.sum())
        parts = [self.protocol.encode(honest, rng)] if honest.shape[0] else []
        if bad:
            parts.append(self._attack(values[faulty], population_rng))
        return Sent(_together(parts, self._like), int(here.sum()), bad)

    def accepted(self, messages: Array) -> Array:
        """The messages that the analyzer does not reject, in the type of honest ones."""
        return messages[self.protocol.valid(messages)].astype(self._like.dtype, copy=False)

    def _attack(self, values: Array, rng: np.random.Generator) -> Encoded:
        """What faulty users send instead."""
        count = values.shape[0]
        if self._target is not None:
            values = np.repeat(self._target, count, axis=0)
        elif self.population.attack == "garbage":
            domain = self.protocol.domain
            if isinstance(domain, Categories):
                values = domain.validate(rng.integers(0, domain.d, count))
            else:
                values = domain.validate(domain.example(count, rng))
        encoded = self.protocol.encode(values, rng)
        messages = encoded.messages
        if self.population.attack == "garbage" and self.protocol.alphabet is not None:
            messages = rng.integers(0, self.protocol.alphabet, messages.shape).astype(messages.dtype)
        elif self.population.attack == "out-of-alphabet":
            messages = self._outside(messages)
        elif self._best is not None:
            messages = np.repeat(self._best, messages.shape[0], axis=0)
        return Encoded(messages, encoded.sizes)

    def _outside(self, messages: Array) -> Array:
        """Messages of the same number that no honest user could send."""
        if messages.dtype.kind == "f":
            return np.full(messages.shape, np.nan, dtype=messages.dtype)
        if self.protocol.alphabet is None:
            largest = np.full(messages.shape, np.iinfo(messages.dtype).max if messages.dtype.kind in "iu" else True)
            if not self.protocol.valid(largest).any():
                return largest
            raise ValueError(
                f"attack must not be out-of-alphabet for {self.protocol.name}, of which every message is well-formed"
            )
        return np.full(messages.shape, self.protocol.alphabet, dtype=np.int64)

    def _sample(self, rng: np.random.Generator, n: int) -> Array:
        return self.protocol.encode(self.protocol.domain.validate(self.protocol.domain.example(n, rng)), rng).messages

    def _maximal_gain(self, rng: np.random.Generator) -> Array:
        """The message, of a pool, that moves the estimate furthest towards the target."""
        protocol, domain = self.protocol, self.protocol.domain
        assert self._target is not None  # checked by Population
        held = protocol.encode(np.repeat(self._target, POOL, axis=0), rng).messages[:POOL]
        pool = np.concatenate([held, self._sample(rng, POOL)[:POOL]])
        towards = domain.truth(domain.total(self._target), 1)
        if domain.target == "mean":
            others = domain.validate(domain.example(1000, np.random.default_rng(0)))
            towards = towards - domain.truth(domain.total(others), 1000)
        gains = [float(towards @ protocol.estimate(protocol.aggregate(pool[i : i + 1]), 1)) for i in range(len(pool))]
        best = int(np.argmax(gains))
        return pool[best : best + 1]


def _together(parts: list[Encoded], like: Array) -> Encoded:
    if not parts:
        return Encoded(like[:0], np.zeros(0, dtype=np.int64))
    if len(parts) == 1:
        return parts[0]
    sizes = [np.ones(len(p.messages), dtype=np.int64) if p.sizes is None else p.sizes for p in parts]
    return Encoded(np.concatenate([p.messages for p in parts]), np.concatenate(sizes))
