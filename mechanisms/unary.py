"""Unary encoding: a one-hot vector with every bit perturbed on its own (RAPPOR and OUE).

Sources: Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014 (basic, one time); Wang, Blocki, Li, Jha, "Locally differentially private
protocols for frequency estimation", USENIX Security 2017 (OUE).
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._sampling import bernoulli, bit_sums, packed_bernoulli, unpadded
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array
from shufflesim.randomizer import CategoricalRandomizer

# Largest d for which all 2^d outcomes are handed out as a matrix.
ENUMERABLE = 8


class _Unary(CategoricalRandomizer):
    """Own bit 1 with probability a, every other bit 1 with probability b, all independent."""

    @property
    @abstractmethod
    def log_on(self) -> tuple[float, float]:
        """(log a, log b)."""

    @property
    @abstractmethod
    def log_off(self) -> tuple[float, float]:
        """(log(1-a), log(1-b)), accurate where 1 - a or b is tiny."""

    @property
    def amplification(self) -> VariationRatio:
        """beta = a - b: only the bits of the two inputs matter. q_star = q, attained where both bits are 1."""
        a, b = self.support
        return VariationRatio.ldp(self.epsilon, a - b)

    @property
    def width(self) -> int:  # type: ignore[override]
        """Random 64-bit words: a few per 64 bits."""
        return -(-self.d // 8)

    @property
    def bits(self) -> float:
        """One bit a category."""
        return float(self.d)

    def valid(self, reports: Array) -> Array:
        """Rows without padding bits."""
        return unpadded(reports, self.d)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Perturb codes, shape (n,) -> bits packed along each row, uint8, shape (n, ceil(d/8))."""
        a, b = self.support
        n = values.shape[0]
        packed = packed_bernoulli(rng, b, n, self.d)
        own = np.arange(n), values >> 3
        bit = np.uint8(128) >> (values & 7).astype(np.uint8)
        packed[own] = (packed[own] & ~bit) | bit * bernoulli(rng, a, n)
        return packed

    def aggregate(self, reports: Array) -> Array:
        """Ones per bit, shape (d,)."""
        return bit_sums(reports, self.d)

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Ones per bit: a binomial of the owners and one of all others, independent over bits."""
        a, b = self.support
        return rng.binomial(totals, a) + rng.binomial(totals.sum() - totals, b)

    def outcome(self, reports: Array) -> Array:
        """The bits read as a binary number, first category first."""
        bits = np.unpackbits(reports, axis=1, count=self.d).astype(np.int64)
        return bits @ (1 << np.arange(self.d)[::-1])

    def log_channel(self) -> Array | None:
        """The d x 2^d law for d up to `ENUMERABLE`."""
        if self.d > ENUMERABLE:
            return None
        y = (np.arange(2**self.d)[:, None] >> np.arange(self.d)[::-1]) & 1
        (on_a, on_b), (off_a, off_b) = self.log_on, self.log_off
        others = np.where(y, on_b, off_b)
        own = np.where(y, on_a, off_a)
        return np.array([own[:, x] + np.delete(others, x, axis=1).sum(axis=1) for x in range(self.d)])

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Outcomes by the bits of x0, x1, x*, and whether any other bit is 0 (only then the smallest probability is low)."""
        tracked = min(self.d, 3)
        a, b = self.support
        off_b = math.exp(self.log_off[1])
        high, low = a / b, math.exp(self.log_off[0] - self.log_off[1])
        rows = []
        for pattern in itertools.product((0, 1), repeat=tracked):
            base = math.prod(b if bit else off_b for bit in pattern)
            ratio = [high if bit else low for bit in pattern]
            all_ones = b ** (self.d - tracked)
            for mass, rest_ones in ((base * all_ones, True), (base * (1 - all_ones), False)):
                if mass > 0:
                    floor = high if rest_ones and all(pattern) else low
                    rows.append([mass * r for r in ratio] + [mass * floor])
        columns = np.array(rows).T
        names = ("others hold x0", "others hold x1", "others hold a third value")
        return tuple(OutcomeGroups(columns[0], columns[1], columns[k], columns[-1], names[k]) for k in range(tracked))


@dataclass(frozen=True)
class RAPPOR(_Unary):
    """Basic one-time RAPPOR: every bit of the one-hot vector is flipped with probability 1/(e^{eps/2}+1).

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of categories; >= 2.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: integer codes 0..d-1 or a pandas categorical, shape (n,).
    Source: Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014 (basic, one time).

    Examples
    --------
    >>> RAPPOR(epsilon=2 * math.log(3), d=5).support
    (0.75, 0.25)
    """

    epsilon: float
    d: int

    @property
    def support(self) -> tuple[float, float]:
        """(S, 1)/(S+1), S = e^{eps/2}."""
        s = math.exp(-self.epsilon / 2)
        return 1 / (1 + s), s / (1 + s)

    @property
    def log_on(self) -> tuple[float, float]:
        """(log S/(S+1), log 1/(S+1))."""
        keep = -math.log1p(math.exp(-self.epsilon / 2))
        return keep, keep - self.epsilon / 2

    @property
    def log_off(self) -> tuple[float, float]:
        """Flipping is symmetric: 1 - a = b."""
        return self.log_on[::-1]

    @classmethod
    def examples(cls) -> Iterator[RAPPOR]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=2.0, d=16)
        yield cls(epsilon=1.0, d=2)
        yield cls(epsilon=1.5, d=4)
        yield cls(epsilon=1e-9, d=3)
        yield cls(epsilon=700.0, d=4)


@dataclass(frozen=True)
class OUE(_Unary):
    """Optimised unary encoding: the own bit is 1 with probability 1/2, every other with 1/(e^eps + 1).

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of categories; >= 2.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: integer codes 0..d-1 or a pandas categorical, shape (n,).
    Source: Wang et al., "Locally differentially private protocols for frequency estimation", USENIX Security 2017.

    Examples
    --------
    >>> OUE(epsilon=math.log(3), d=5).support
    (0.5, 0.25)
    """

    epsilon: float
    d: int

    @property
    def support(self) -> tuple[float, float]:
        """(1/2, 1/(E+1)), E = e^eps."""
        s = math.exp(-self.epsilon)
        return 0.5, s / (1 + s)

    @property
    def log_on(self) -> tuple[float, float]:
        """(log 1/2, log 1/(E+1))."""
        return math.log(0.5), -self.epsilon - math.log1p(math.exp(-self.epsilon))

    @property
    def log_off(self) -> tuple[float, float]:
        """(log 1/2, log E/(E+1))."""
        return math.log(0.5), -math.log1p(math.exp(-self.epsilon))

    @classmethod
    def examples(cls) -> Iterator[OUE]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=2.0, d=16)
        yield cls(epsilon=1.0, d=2)
        yield cls(epsilon=1.5, d=4)
        yield cls(epsilon=1e-9, d=3)
        yield cls(epsilon=700.0, d=4)
