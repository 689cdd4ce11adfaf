"""How many messages hide user 1's message: a fixed number, and what users send at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# Allowed excess of a part's probabilities over 1: the rounding of a short sum.
PROBABILITY_TOLERANCE = 1e-12
# log of a power beyond which the generating function is computed in units of it.
LOG_LARGE = 300.0


@dataclass(frozen=True)
class Part:
    """`trials` independent draws, each of `sizes[i]` messages with probability `probabilities[i]`, and of none otherwise.

    Parameters
    ----------
    trials : int
        Number of draws (users); >= 0.
    sizes : tuple of int
        Numbers of messages; >= 1, distinct.
    probabilities : tuple of float
        Their probabilities; >= 0, sum at most 1.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    100 users who send 3 messages each and drop out with probability 1/4:

    >>> Part(100, (3,), (0.75,)).mean
    225.0
    """

    trials: int
    sizes: tuple[int, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.trials < 0 or len(self.sizes) != len(self.probabilities) or len(set(self.sizes)) != len(self.sizes):
            raise ValueError(f"a part needs trials >= 0 and a probability for each distinct size, got {self!r}")
        if any(size < 1 for size in self.sizes) or any(not p >= 0 for p in self.probabilities):
            raise ValueError(f"sizes must be >= 1 and probabilities >= 0, got {self!r}")
        if sum(self.probabilities) > 1 + PROBABILITY_TOLERANCE:
            raise ValueError(f"probabilities must sum to at most 1, got {self!r}")

    @property
    def mean(self) -> float:
        """Expected number of messages of all draws."""
        return self.trials * math.fsum(s * p for s, p in zip(self.sizes, self.probabilities, strict=True))

    @property
    def variance(self) -> float:
        """Variance of the number of messages of all draws."""
        pairs = list(zip(self.sizes, self.probabilities, strict=True))
        mean = math.fsum(s * p for s, p in pairs)
        return self.trials * (math.fsum((s - mean) ** 2 * p for s, p in pairs) + mean * mean * self.none)

    @property
    def none(self) -> float:
        """Probability that a draw sends nothing."""
        return max(0.0, 1 - math.fsum(self.probabilities))

    @property
    def largest(self) -> int:
        """Most messages of all draws."""
        return self.trials * max((s for s, p in zip(self.sizes, self.probabilities, strict=True) if p > 0), default=0)

    def log_pgf(self, log_w: Array) -> Array:
        """log E[w^messages] from log w, real or complex."""
        # Where w^size is large, in units of the largest one.
        top = np.maximum(max(self.sizes) * log_w.real, 0.0)
        large = top > LOG_LARGE
        near = np.where(large, 0.0, log_w)
        change, scaled = np.zeros_like(near), self.none * np.exp(-top)
        for size, p in zip(self.sizes, self.probabilities, strict=True):
            change = change + p * np.expm1(size * near)
            scaled = scaled + p * np.exp(size * log_w - top)
        return self.trials * np.where(large, top + np.log(np.where(large, scaled, 1.0)), _log1p(change))


def _log1p(z: Array) -> Array:
    """log(1 + z) with the digits of a small z; NumPy's own loses them where z is complex."""
    if not np.iscomplexobj(z):
        return np.log1p(z)
    square = np.maximum(2 * z.real + z.real**2 + z.imag**2, -1 + 1e-16)
    return 0.5 * np.log1p(square) + 1j * np.arctan2(z.imag, 1 + z.real)


@dataclass(frozen=True, init=False)
class MessageCount:
    """How many messages hide user 1's message, that message included: `fixed` and the sum of independent parts.

    Parameters
    ----------
    fixed : int
        Messages that are always there; >= 1 (user 1's own).
    *parts : Part
        Further messages that are sent at random; the receiver sees how many came.

    Raises
    ------
    ValueError
        If `fixed` is below 1.

    Notes
    -----
    Parts that are certain are counted as fixed, so that equal laws of the usual kinds compare equal.

    Examples
    --------
    >>> MessageCount(1000).mean, MessageCount.binomial(1, 10, 0.5).mean
    (1000.0, 6.0)
    >>> MessageCount(3, Part(100, (3,), (0.75,))).largest
    303
    """

    fixed: int
    parts: tuple[Part, ...]

    def __init__(self, fixed: int, *parts: Part) -> None:
        if fixed < 1:
            raise ValueError(f"fixed must be at least 1, user 1's own message, got {fixed!r}")
        random = []
        for part in parts:
            if part.largest == 0:
                continue
            if len(part.sizes) == 1 and part.probabilities[0] >= 1:
                fixed += part.largest
            else:
                random.append(part)
        object.__setattr__(self, "fixed", fixed)
        object.__setattr__(self, "parts", tuple(random))

    @classmethod
    def binomial(cls, fixed: int, trials: int, probability: float) -> MessageCount:
        """`fixed + Binomial(trials, probability)` messages."""
        return cls(fixed, Part(trials, (1,), (probability,)))

    @property
    def is_random(self) -> bool:
        """Whether the number varies."""
        return bool(self.parts)

    @property
    def largest(self) -> int:
        """Most messages there can be."""
        return self.fixed + sum(part.largest for part in self.parts)

    @property
    def mean(self) -> float:
        """Expected number of messages."""
        return self.fixed + math.fsum(part.mean for part in self.parts)

    @property
    def variance(self) -> float:
        """Variance of the number of messages."""
        return math.fsum(part.variance for part in self.parts)

    @property
    def step(self) -> int:
        """Most messages of a single draw."""
        return max((size for part in self.parts for size in part.sizes), default=1)

    def log_pgf(self, log_w: Array) -> Array:
        """log E[w^messages] from log w, real or complex."""
        total = self.fixed * log_w
        for part in self.parts:
            total = total + part.log_pgf(log_w)
        return total

    def law(self) -> Array:
        """Probabilities of fixed, fixed + 1, ..., largest messages; all terms are positive, so that small ones are accurate."""
        total = np.ones(1)
        for part in self.parts:
            one = np.zeros(1 + max(part.sizes))
            one[0] = part.none
            one[list(part.sizes)] = part.probabilities
            for bit in reversed(range(part.trials.bit_length())):
                if bit == part.trials.bit_length() - 1:
                    power = one
                    continue
                power = np.convolve(power, power)
                if part.trials >> bit & 1:
                    power = np.convolve(power, one)
            total = np.convolve(total, power)
        return total[: self.largest - self.fixed + 1]
