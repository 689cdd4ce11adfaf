"""Means of numbers or vectors bit by bit, each bit by randomized response with a budget of its own.

Source: Girgis, Diggavi, "Multi-message shuffled privacy in federated learning", arXiv 2302.11152 (2023), for entries in a range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from shufflesim._checks import EPSILON_MAX, check_integer, check_number, check_target
from shufflesim.bounds import Claim, Crowd, Table, VariationRatio, approach, composed_claims
from shufflesim.domains import Array, Digits
from shufflesim.mechanisms import RandomizedResponse
from shufflesim.protocol import Protocol
from shufflesim.shuffler import Encoded

# Most coordinates that a user sends of a level: one row of the bound's table for each.
SAMPLED_MAX = 1000
# Numbers in a block of groups of users, where groups are spread over coordinates.
GROUP_DRAWS = 2**22


@dataclass(frozen=True)
class BinaryExpansionMean(Protocol):
    """Each user writes each coordinate in binary and sends, level by level, bits of some coordinates by randomized response.

    Parameters
    ----------
    budget : float
        v > 0, shared among the levels.
    levels : int
        m: bits of a coordinate, the last one rounded at random; in [1, 41].
    dim : int or None
        D, the length of the vectors; None for single numbers.
    sampled : int or None
        s: how many coordinates a user sends of each level, drawn afresh without replacement; in [1, D], at most 1000. All of
        them by default.
    low, high : float
        Range of every coordinate.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: numbers in [low, high], shape (n,); with dim, shape (n, dim).
    Source: Girgis, Diggavi, "Multi-message shuffled privacy in federated learning", arXiv 2302.11152 (2023), for entries in a
    range.

    With u = (x - low)/(high - low) in [0, 1], level k < m is the k-th binary digit of u, of weight w_k = 2^-k, and level m
    what is left, rounded at random, of weight 2^-(m-1). Level k has the budget v_k, proportional to w_k^(2/3), which makes
    sum_k w_k^2/v_k^2 least for sum_k v_k = v; its bits are flipped with probability

        f_k = (1 - t/sqrt(t^2 + 4))/2,  t = v_k/s,  so that  f_k (1 - f_k)/(1 - 2 f_k)^2 = (s/v_k)^2,

    a local eps of u_k = 2 asinh(v_k/(2s)) <= v_k/s per bit. With the bits y received for coordinate j,

        est_j = (D/s) sum_k w_k sum_y (y - f_k)/(1 - 2 f_k) / n,
        n^2 Var_j = sum_k w_k^2 sum_i [(D/s) ((s/v_k)^2 + b_ijk) - b_ijk^2],

    b_ijk being user i's bit, for k = m the probability that it is 1. Both are in units of u.

    Privacy: levels are independent given the data. The s bits of a level are bounded as if they came in one message: any
    choice and any bits have probability >= f^s/C(D, s) whoever sends them, and the worst neighbour differs in all bits. The
    rows are (C(s, h) f^s; T^h, T^(s-h)), h = 0..s, T = (1 - f)/f, and the rest (1 - (2f)^s; 0, 0) (docs/soundness.md).

    Examples
    --------
    >>> BinaryExpansionMean(budget=3.0, levels=2).declarations
    (VariationRatio(p=4, beta=0.6, q=4), VariationRatio(p=4, beta=0.6, q=4))
    """

    budget: float
    levels: int
    dim: int | None = None
    sampled: int | None = None
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", check_integer("levels", self.levels, low=1, high=41))
        budget = check_number("budget", self.budget, "a number > 0", low=0.0)
        if budget == 0:
            raise ValueError(f"budget must be a number > 0, got {self.budget!r}")
        object.__setattr__(self, "budget", budget)
        domain = self.domain
        for name in ("dim", "low", "high"):
            object.__setattr__(self, name, getattr(domain, name))
        if self.sampled is not None:
            object.__setattr__(self, "sampled", check_integer("sampled", self.sampled, low=1, high=self.length))
        if self.chosen > SAMPLED_MAX:
            raise ValueError(f"sampled must be at most {SAMPLED_MAX}, got {self.chosen} of {self.length} coordinates")
        most = self._most(self.levels, self.chosen)
        if budget > most * (1 + 1e-12):
            raise ValueError(f"budget must be at most {most:.6g}, a local eps of {EPSILON_MAX:g} on a level, got {budget!r}")

    @staticmethod
    def _shares(levels: int) -> Array:
        """v_k/v."""
        weights = np.exp2(-2 / 3 * np.minimum(np.arange(1, levels + 1), max(levels - 1, 1)))
        return np.asarray(weights / weights.sum())

    @classmethod
    def _most(cls, levels: int, chosen: int) -> float:
        """The budget at which the first level has a local eps of `EPSILON_MAX`."""
        return float(2 * chosen * math.sinh(EPSILON_MAX / 2 / chosen * (1 - 1e-12)) / cls._shares(levels)[0])

    @property
    def domain(self) -> Digits:
        """Numbers in [low, high], or vectors of them."""
        return Digits((2,) * (self.levels - 1) + (1,), self.low, self.high, self.dim)

    @property
    def length(self) -> int:
        """Coordinates D of a vector."""
        return 1 if self.dim is None else self.dim

    @property
    def chosen(self) -> int:
        """Coordinates s that a user reports."""
        return self.length if self.sampled is None else self.sampled

    @cached_property
    def budgets(self) -> Array:
        """v_1, ..., v_m."""
        return self.budget * self._shares(self.levels)

    @cached_property
    def bits(self) -> tuple[RandomizedResponse, ...]:
        """What the bits of each level go through."""
        return tuple(RandomizedResponse(2 * math.asinh(v / (2 * self.chosen))) for v in self.budgets)

    @property
    def _local(self) -> list[float]:
        return [self.chosen * bit.epsilon for bit in self.bits]

    @property
    def local_epsilon(self) -> float:
        """Sum of the levels', s u_k each."""
        return math.fsum(self._local)

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        """The levels': p = q = T^s, beta the total variation of s bits; q* = T for s = 2, else p."""
        return tuple(_declaration(bit.epsilon, self.chosen) for bit in self.bits)

    @property
    def alphabet(self) -> int:
        """The code of bit y of coordinate j on level k is 2 (D k + j) + y, counted from 0."""
        return 2 * self.levels * self.length

    @property
    def width(self) -> int:
        """All bits of all coordinates."""
        return self.levels * self.length

    @property
    def messages_per_user(self) -> float:
        """m s."""
        return float(self.levels * self.chosen)

    @property
    def bits_per_message(self) -> float:
        """Level, coordinate, and the bit itself."""
        return float(math.ceil(math.log2(self.levels)) + math.ceil(math.log2(self.length)) + 1)

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The composition of the levels, and the largest lower bound of a single one."""
        if self.messages_per_user > 1:
            crowd.refuse_sampling(self)
        seen = crowd
        if 1 < self.chosen < self.length:
            # What is sent of one coordinate; with one bit a user, or with all, a neighbour may differ in every bit that is sent.
            seen = Crowd(crowd.n, dropout=crowd.dropout, sampling=self.chosen / self.length)
        lowers = [claim for bit in self.bits for claim in bit.law_claims(seen)]
        if self.chosen == 1:
            tables = [x.three_outcome_table() for x in self.declarations]
        else:
            tables = [_bundle(bit.epsilon, self.chosen) for bit in self.bits]
        return composed_claims(self.declarations, tables, lowers, self._local, crowd)

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """All bits of a user, user by user, level by level."""
        n, length, chosen = len(values), self.length, self.chosen
        drawn = self.domain.digits(values, rng).reshape(n, length, self.levels)
        codes = np.empty((n, self.levels, chosen), dtype=np.int64)
        for k, bit in enumerate(self.bits):
            picked = _subsets(rng, length, chosen, n)
            sent = bit.randomize(np.take_along_axis(drawn[:, :, k], picked, axis=1).ravel(), rng)
            codes[:, k] = 2 * (length * k + picked) + sent.reshape(n, chosen)
        messages = codes.astype(np.min_scalar_type(self.alphabet - 1), copy=False).ravel()
        return Encoded(messages, np.full(n, self.levels * chosen))

    def aggregate(self, messages: Array) -> Array:
        """How often each message came, shape (2 m D,)."""
        return np.bincount(messages, minlength=self.alphabet)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The means, shape (D,)."""
        scaled = self.domain.places @ self._ones(aggregate) / n
        return self.domain.unscaled(2 * scaled - 1)

    def variance(self, total: Array, n: int) -> Array:
        """Of each estimated mean, shape (D,)."""
        first, _, rounding = self.domain.digit_sums(total)
        squares = first.copy()
        squares[-1] -= rounding
        return self._variance(first, squares, n)

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """The same with the numbers of ones as estimated; the roundings as if all users had the same remainder."""
        first = np.clip(self._ones(aggregate), 0, n)
        squares = first.copy()
        squares[-1] *= first[-1] / n
        return self._variance(first, squares, n)

    def _variance(self, first: Array, squares: Array, n: int) -> Array:
        """From the sums of the probabilities of a one, and of their squares, shape (m, D)."""
        noise = n * (self.chosen / self.budgets[:, None]) ** 2
        summed = (self.domain.places**2) @ (self.length / self.chosen * (noise + first) - squares)
        return np.asarray(summed * (2 * self.domain.half / n) ** 2)

    def _ones(self, aggregate: Array) -> Array:
        """Estimated users with a one, shape (m, D)."""
        counts = aggregate.reshape(self.levels, self.length, 2)
        kept = np.array([bit.truthful for bit in self.bits])[:, None]
        flipped = np.array([bit.support[1] for bit in self.bits])[:, None]
        return self.length / self.chosen * (counts[..., 1] - flipped * counts.sum(axis=2)) / kept

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All bits that came."""
        return float(aggregate.sum())

    def sample_groups(self, values: Array, counts: Array, rng: np.random.Generator) -> Array | None:
        """Bit by bit if users send one coordinate of each level, or all; None otherwise."""
        length = self.length
        if 1 < self.chosen < length:
            return None
        ones = np.zeros((self.levels, length), dtype=np.int64)
        sent = np.zeros((self.levels, length), dtype=np.int64)
        step = max(1, GROUP_DRAWS // self.width)
        for start in range(0, len(counts), step):
            found, fraction = self.domain.expand(values[start : start + step])
            users = counts[start : start + step]
            found, fraction = found.reshape(len(users), length, self.levels), fraction.reshape(len(users), length)
            for k in range(self.levels):
                picked = np.broadcast_to(users[:, None], fraction.shape)
                if self.chosen < length:
                    picked = rng.multinomial(users, np.full(length, 1 / length))
                sent[k] += picked.sum(axis=0)
                ones[k] += (picked * found[:, :, k]).sum(axis=0)
                if k == self.levels - 1:
                    ones[k] += rng.binomial(picked, fraction).sum(axis=0)
        chances = np.array([bit.support for bit in self.bits])[:, :, None]
        received = rng.binomial(ones, chances[:, 0]) + rng.binomial(sent - ones, chances[:, 1])
        return np.stack([sent - received, received], axis=2).ravel()

    @classmethod
    def for_target(
        cls,
        epsilon: float,
        delta: float,
        n: int,
        *,
        levels: int,
        dim: int | None = None,
        sampled: int | None = None,
        low: float = 0.0,
        high: float = 1.0,
    ) -> Self:
        """The largest budget, to a thousandth, whose sound central eps is at most epsilon for n honest users.

        Parameters
        ----------
        epsilon, delta, n
            The target and the number of users.
        levels, dim, sampled, low, high
            As in the constructor.

        Raises
        ------
        ValueError
            If a parameter is out of its range.
        """
        epsilon, delta, n = check_target(epsilon, delta, n)

        # The levels' local eps have a sum of at most the budget.
        least = cls(epsilon * (1 - 1e-9), levels, dim, sampled, low, high)
        most = cls._most(least.levels, least.chosen)
        return approach(
            lambda budget: cls(budget, levels, dim, sampled, low, high),
            *(epsilon, delta, n),
            good=least.budget,
            bad=most,
            slope=1.0,
        )

    def retargeted(self, epsilon: float, delta: float, n: int) -> Self:
        """The same levels, coordinates and range."""
        kept = {name: getattr(self, name) for name in ("levels", "dim", "sampled", "low", "high")}
        return self.for_target(epsilon, delta, n, **kept)

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny, extreme."""
        yield cls(budget=4.0, levels=3, low=-1, high=1)
        yield cls(budget=2.0, levels=1)
        yield cls(budget=3.0, levels=2, dim=5, sampled=1)
        yield cls(budget=8.0, levels=2, dim=4, sampled=2)
        yield cls(budget=1e4, levels=2, dim=3)


def _subsets(rng: np.random.Generator, length: int, chosen: int, n: int) -> Array:
    """n uniform sets of `chosen` of the coordinates, shape (n, chosen)."""
    if chosen == 1:
        return rng.integers(0, length, (n, 1))
    every = np.broadcast_to(np.arange(length), (n, length))
    return every if chosen == length else rng.permuted(every, axis=1)[:, :chosen]


def _declaration(epsilon: float, chosen: int) -> VariationRatio:
    """Of `chosen` bits that are kept with odds e^epsilon and differ one and all."""
    h = np.arange(chosen + 1)
    log_binomial = np.array([math.log(math.comb(chosen, int(k))) for k in h])
    log_none = -chosen * np.logaddexp(0.0, epsilon)
    gaps = np.exp(log_binomial + log_none + epsilon * h) * -np.expm1(-epsilon * np.abs(2 * h - chosen))
    beta = float(gaps[2 * h > chosen].sum()) * (1 + (chosen + 1) * chosen * 4e-15)
    return VariationRatio.ldp(chosen * epsilon, beta, q_star=math.exp(epsilon) * (1 + 4e-15) if chosen == 2 else None)


def _bundle(epsilon: float, chosen: int) -> Table:
    """What bounds `chosen` bits of a user, see the class; from exact values, rounded once, odds rounded up."""
    odds = Fraction(math.nextafter(math.exp(epsilon) * (1 + 4e-16), math.inf))
    each = 1 / (1 + odds) ** chosen
    powers = [odds**h for h in range(chosen + 1)]
    weights = [float(math.comb(chosen, h) * each) for h in range(chosen + 1)] + [float(1 - 2**chosen * each)]
    g0 = [float(power) for power in powers]
    gaps = [float(powers[h] - powers[chosen - h]) for h in range(chosen + 1)]
    return Table(np.array(weights), np.array([*g0, 0.0]), np.array([*g0[::-1], 0.0]), np.array([*gaps, 0.0]))
