"""What protocols have in common whose users send additive shares of a noisy number."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from shufflesim._checks import check_integer
from shufflesim.bounds import log_distance
from shufflesim.domains import Array, Digits
from shufflesim.protocol import Protocol
from shufflesim.shuffler import Encoded

# Numbers of shares; two shares hide nothing (the bound on the distance is above 1).
SHARES_MIN, SHARES_MAX = 3, 10_000
# Sums of shares are added up in two halves of 26 bits: 2^37 messages fit into 64-bit integers.
HALF_BITS = 26
MODULUS_MAX = 2 ** (2 * HALF_BITS)
# Noise that falls more slowly is beyond the largest modulus, by Chernoff's bound with any probability below `WRAP_MAX`.
FALL_MIN = 1e-18
# Shares that are summed up at once.
TOGETHER = 1024
# Probability that the noise leaves the window in which sums are decoded, for the default modulus: divided by users^2, since such
# an error is about `users` times as large as a value, and small against the variance of the noise.
WRAP = 1e-12
# The largest such probability with which an estimate is made.
WRAP_MAX = 1e-9
# Chernoff parameters that are tried, as shares of the largest.
CHERNOFF = np.arange(1, 40) / 40


def check_shares(shares: object) -> int:
    """A number of shares."""
    return check_integer("shares", shares, low=SHARES_MIN, high=SHARES_MAX)


def fewest_shares(n: int, modulus: int, epsilon: float, log_delta: float) -> int:
    """The smallest m with (1 + e^epsilon) tau <= delta."""

    def enough(shares: int) -> bool:
        return log_distance(n, shares, modulus)[1] + float(np.logaddexp(0.0, epsilon)) <= log_delta - 1e-9

    # tau falls by a factor of sqrt(n) with every share: enough of them make it smaller than any float.
    few, many = SHARES_MIN - 1, SHARES_MIN
    while not enough(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


class SharedSum(Protocol):
    """Numbers are rounded to integers 0..precision at random, made noisy, and split into shares that sum to them modulo q."""

    epsilon: float
    users: int
    shares: int
    precision: int
    low: float
    high: float
    modulus: int | None

    undeclared = (
        "a user's shares are jointly dependent (each is uniform, all together sum to the value), so that no ratio q bounds their "
        "likelihood under another user's law; an accountant of the sum and the distance of the shares from it take its place"
    )

    @property
    @abstractmethod
    def log_a(self) -> float:
        """log of the ratio in which the noise falls, -epsilon/precision."""

    @abstractmethod
    def noise(self, n: int, rng: np.random.Generator) -> Array:
        """Noise of n users, shape (n,), integers."""

    @abstractmethod
    def total_noise(self, n: int, rng: np.random.Generator) -> int:
        """The sum of the noise of n users."""

    @abstractmethod
    def noise_variance(self, n: int) -> float:
        """Variance of `total_noise`."""

    @abstractmethod
    def log_moment(self, share: Array, n: int) -> tuple[Array, Array]:
        """(x, log E e^(x noise)) of the noise of n users at shares of the largest x at which it is finite."""

    def settle(self) -> None:
        """Check the modulus, or choose the smallest one that is large enough."""
        if -self.log_a < FALL_MIN:
            rule = f"at least {FALL_MIN:g} a level of precision, for noise below 2^52"
            raise ValueError(f"epsilon must be {rule}, got {self.epsilon!r} for {self.precision} levels")
        size = self.users * self.precision
        if self.modulus is None:
            modulus = size + 2 * self.reach(WRAP / self.users**2, self.users) + 1
            if modulus > MODULUS_MAX:
                raise ValueError(f"modulus must be at most 2^52, got {modulus}: a smaller precision or less noise would do")
        else:
            modulus = check_integer("modulus", self.modulus, low=2, high=MODULUS_MAX)
            needed = size + 2 * self.reach(WRAP_MAX, self.users) + 1
            if modulus < needed:
                raise ValueError(f"modulus must be at least {needed} for the sum of {self.users} users and noise, got {modulus}")
        object.__setattr__(self, "modulus", modulus)

    def reach(self, chance: float, n: int) -> int:
        """T such that the noise of n users exceeds T in absolute value with at most this probability (Chernoff's bound)."""
        x, log_moment = self.log_moment(CHERNOFF, n)
        return math.ceil(float(((log_moment - math.log(chance / 2)) / x).min()))

    @property
    def q(self) -> int:
        """The modulus."""
        return int(self.modulus or 0)

    @property
    def domain(self) -> Digits:
        """Numbers in [low, high], one digit."""
        return Digits((self.precision,), self.low, self.high)

    @property
    def alphabet(self) -> int:
        """Elements of Z_q."""
        return self.q

    @property
    def width(self) -> int:
        """Shares of a user."""
        return self.shares

    @property
    def messages_per_user(self) -> float:
        """The shares."""
        return float(self.shares)

    @property
    def bits_per_message(self) -> float:
        """log2 q, rounded up."""
        return float((self.q - 1).bit_length())

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """All shares but the last uniform on Z_q, user by user."""
        n, q = values.shape[0], self.q
        number = self.domain.digits(values, rng)[..., 0] + self.noise(n, rng)
        shares = rng.integers(0, q, (n, self.shares), dtype=np.int64)
        # Below 2^52 each: `TOGETHER` of them fit into 64 bits.
        sums = [shares[:, j : min(j + TOGETHER, self.shares - 1)].sum(axis=1) % q for j in range(0, self.shares - 1, TOGETHER)]
        shares[:, -1] = (number - sum(sums)) % q
        return Encoded(shares.ravel(), np.full(n, self.shares))

    def aggregate(self, messages: Array) -> Array:
        """Sums of the lower and of the upper 26 bits, shape (2,)."""
        return np.array([(messages & ((1 << HALF_BITS) - 1)).sum(), (messages >> HALF_BITS).sum()], dtype=np.int64)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean: the sum modulo q, decoded to a window with as much room for noise below 0 as above n precision.

        Raises
        ------
        ValueError
            If the modulus leaves too little room for n users.
        """
        room = (self.q - 1 - n * self.precision) // 2
        needed = self.reach(WRAP_MAX, n)
        if room < needed:
            enough = n * self.precision + 2 * needed + 1
            raise ValueError(f"modulus must be at least {enough} for the sum of {n} users and noise, got {self.q}")
        total = (int(aggregate[0]) + (int(aggregate[1]) << HALF_BITS)) % self.q
        if total > self.q - room - 1:
            total -= self.q
        return np.array([self.low + (self.high - self.low) * (total / (self.precision * n))])

    def variance(self, total: Array, n: int) -> Array:
        """(noise + sum rho (1 - rho)) / (n precision)^2 in units of the range, rho the fraction that is rounded at random."""
        rounding = self.domain.digit_sums(total)[2]
        return (self.high - self.low) ** 2 * (self.noise_variance(n) + rounding) / (self.precision * float(n)) ** 2

    def sample_groups(self, values: Array, counts: Array, rng: np.random.Generator) -> Array:
        """The sum modulo q, in halves: the estimate depends on the shares through nothing else."""
        whole, fraction = self.domain.expand(values)
        up = rng.binomial(counts, fraction)
        total = sum(int(c) * int(w) + int(u) for c, w, u in zip(counts, whole[..., 0], up, strict=True))
        total = (total + self.total_noise(int(counts.sum()), rng)) % self.q
        return np.array([total & ((1 << HALF_BITS) - 1), total >> HALF_BITS], dtype=np.int64)
