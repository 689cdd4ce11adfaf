"""What protocols share in which every user holds a bit and sends messages of one bit."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Self

from shufflesim.domains import Array, Categories
from shufflesim.protocol import Protocol


class Bits(Protocol):
    """Bits that no user's messages hide without those of the others; all parameters are noise."""

    @property
    def domain(self) -> Categories:
        """Bits."""
        return Categories(2)

    @property
    def local_epsilon(self) -> float:
        """inf: some messages show the bit."""
        return math.inf

    @property
    def bits_per_message(self) -> float:
        """One bit."""
        return 1.0

    def retargeted(self, epsilon: float, delta: float, n: int) -> Self:
        """`for_target` with its defaults."""
        return type(self).for_target(epsilon, delta, n)


class NoisyBits(Bits):
    """A user who holds 1 sends a message, and everybody a random number of messages that are noise."""

    @property
    @abstractmethod
    def noise_per_user(self) -> float:
        """Expected messages beyond the value."""

    @property
    def messages_per_user(self) -> float:
        """The noise and 1, of a user who holds 1; one less of the others."""
        return 1 + self.noise_per_user

    @property
    def width(self) -> int:
        """The expected number of messages."""
        return math.ceil(self.messages_per_user)

    def expected_messages(self, total: Array, n: int) -> float:
        """The ones, and the noise."""
        return float(total[1]) + n * self.noise_per_user
