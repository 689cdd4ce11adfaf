"""Fake users: one-hot vectors hidden among vectors of nobody, all with flipped bits.

Source: Cheu, Zhilyaev, "Differentially private histograms in the shuffle model from fake users", S&P 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from shufflesim._checks import EPSILON_TINY, check_delta, check_epsilon, check_integer, check_number, check_users
from shufflesim._sampling import bernoulli, bit_sums, packed_bernoulli, unpadded
from shufflesim.bounds import Claim, Crowd, MessageCount, Pairs, Part, Table, VariationRatio, declared_claims_for
from shufflesim.domains import Array, Categories
from shufflesim.protocol import Protocol, meet
from shufflesim.shuffler import Encoded

# Smaller flips hide nobody: there are never more than 1e18 users with 1e6 fakes each.
FLIP_MIN = 1e-30
# Vectors that one user sends for nobody; more are a mistake rather than a protocol.
FAKES_MAX = 10**6


@dataclass(frozen=True)
class FakeUsers(Protocol):
    """Each user sends the one-hot vector of the value and k zero vectors, every bit flipped with probability f.

    Parameters
    ----------
    d : int
        Number of categories, and of bits of a message; >= 2.
    flip : float
        Probability f; in [1e-30, 1/2).
    fakes : int
        Number k of zero vectors of one user; in [1, 10^6].

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: integer codes 0..d-1 or a pandas categorical, shape (n,).
    Source: Cheu, Zhilyaev, "Differentially private histograms in the shuffle model from fake users", S&P 2022.

    With N_j the number of messages in which bit j is 1,

        est_j = (N_j - (k+1) n f)/(1 - 2f),   Var_j = (k+1) n f (1-f)/(1 - 2f)^2,

    independent over j. Messages are dense here, d bits each, (k+1) d a user; as lists of ones see `sparse_bits_per_user`.

    Privacy: only the bits of the two inputs matter, and the others' k n zero vectors and user 1's own hide them. These have the
    law W, user 1's vector the laws R0 and R1:

        bits    10           01           00           11
        W       f(1-f)       f(1-f)       (1-f)^2      f^2
        R0      (1-f)^2      f^2          f(1-f)       f(1-f)
        R1      f^2          (1-f)^2      f(1-f)       f(1-f)

    This table is the sound bound. As a declaration, p = ((1-f)/f)^2, beta = 1 - 2f, q = (1-f)/f and omega = 2f(1-f): the
    published pair is no upper bound, since its neutral part is (1/2, 1/2) on 00 and 11 and that of W is not.

    Examples
    --------
    >>> FakeUsers(d=10, flip=0.2).amplification
    VariationRatio(p=16, beta=0.6, q=4)
    """

    d: int
    flip: float
    fakes: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", Categories(self.d).d)
        rule = f"a number in [{FLIP_MIN:g}, 1/2)"
        flip = check_number("flip", self.flip, rule, low=FLIP_MIN, high=math.nextafter(0.5, 0.0))
        object.__setattr__(self, "flip", flip)
        object.__setattr__(self, "fakes", check_integer("fakes", self.fakes, low=1, high=FAKES_MAX))

    @property
    def domain(self) -> Categories:
        """d categories."""
        return Categories(self.d)

    @property
    def local_epsilon(self) -> float:
        """log p, rounded up: two bits of the real message, as if it were known which one that is."""
        return 2 * math.log1p((1 - 2 * self.flip) / self.flip) * (1 + 1e-15)

    @property
    def amplification(self) -> VariationRatio:
        """(p, 1 - 2f, q) of two bits; p and q rounded up."""
        odds = (1 - self.flip) / self.flip
        return VariationRatio(odds * odds * (1 + 1e-15), 1 - 2 * self.flip, odds * (1 + 4e-16))

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        """One."""
        return (self.amplification,)

    @property
    def table(self) -> Table:
        """The law of two bits; see above."""
        f, keep = self.flip, 1 - self.flip
        odds, gap = keep / f, (1 - 2 * f) / (f * keep)
        return Table(
            np.array([f * keep, f * keep, keep * keep, f * f]),
            np.array([odds, 1 / odds, 1 / odds, odds]),
            np.array([1 / odds, odds, 1 / odds, odds]),
            np.array([gap, -gap, 0.0, 0.0]),
        )

    @property
    def width(self) -> int:
        """Random 64-bit words: a few per 64 bits."""
        return (1 + self.fakes) * -(-self.d // 8)

    @property
    def messages_per_user(self) -> float:
        """Fakes and the own message: k + 1."""
        return float(1 + self.fakes)

    @property
    def bits_per_message(self) -> float:
        """One bit a category: d."""
        return float(self.d)

    @property
    def sparse_bits_per_user(self) -> float:
        """Expected bits of one user if messages are lists of their ones: (1-f + (d-1)f + k d f) log2 d, the latter rounded up."""
        ones = 1 - self.flip + (self.d - 1) * self.flip + self.fakes * self.d * self.flip
        return ones * math.ceil(math.log2(self.d))

    def blanket(self, crowd: Crowd) -> MessageCount:
        """User 1's message and the fakes of all users, user 1's own included."""
        crowd.refuse_sampling(self)
        return crowd.blanket({self.fakes: 1.0})

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The law of two bits among the fakes, the declaration's bounds, and a lower bound from data of the others.

        The real messages of the others are left out above. From three categories on they may all hold a third one: then their
        two bits have the law of fakes, and more of them than assumed is all that they are.
        """
        count, table = self.blanket(crowd), self.table
        source = "exact law of two bits among the fakes"
        claims = [Claim("accountant", "upper", True, source, "the others' real messages are left out", Pairs((table,), count))]
        # What is sound among the declaration's bounds is never below.
        claims += [replace(claim, baseline=True) for claim in declared_claims_for(self.amplification, count)]
        if self.d > 2:
            every = MessageCount(1 + self.fakes, Part(crowd.n - 1, (1 + self.fakes,), (crowd.present,)))
            note = "the others hold a third value"
            claims.append(Claim("lower", "lower", True, source, note, Pairs((table,), every)))
        return claims

    def valid(self, messages: Array) -> Array:
        """Rows without padding bits."""
        return unpadded(messages, self.d)

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """Bits packed along each message, uint8, shape (n (k+1), ceil(d/8)); the real message of each user comes first."""
        n = values.shape[0]
        packed = packed_bernoulli(rng, self.flip, n * (1 + self.fakes), self.d)
        own = np.arange(n) * (1 + self.fakes), values >> 3
        bit = np.uint8(128) >> (values & 7).astype(np.uint8)
        packed[own] = (packed[own] | bit) ^ bit * bernoulli(rng, self.flip, n)
        return Encoded(packed, np.full(n, 1 + self.fakes))

    def aggregate(self, messages: Array) -> Array:
        """Ones per bit, shape (d,)."""
        return bit_sums(messages, self.d)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts: ones less those of flipped zeros, scaled up by what flipping leaves."""
        return (aggregate - n * (1 + self.fakes) * self.flip) / (1 - 2 * self.flip)

    def variance(self, total: Array, n: int) -> Array:
        """The same for every bit: (k+1) n f (1-f)/(1 - 2f)^2."""
        return np.full(self.d, n * (1 + self.fakes) * self.flip * (1 - self.flip) / (1 - 2 * self.flip) ** 2)

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Ones per bit: a binomial of the owners and one of all other bits, independent over bits."""
        zeros = int(totals.sum()) * (1 + self.fakes) - totals
        return totals - rng.binomial(totals, self.flip) + rng.binomial(zeros, self.flip)

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int, *, d: int, fakes: int = 1) -> FakeUsers:
        """f(1-f) = (33/(5 n k)) ((e^eps + 1)/(e^eps - 1))^2 ln(4/delta); refused where that is not below 1/4."""
        epsilon, delta, n = check_epsilon(epsilon), check_delta(delta), check_users(n)
        fakes = check_integer("fakes", fakes, low=1, high=FAKES_MAX)
        product = 33 / (5 * n) * (math.log(4) - math.log(delta)) / math.tanh(max(epsilon, EPSILON_TINY) / 2) ** 2
        needed = math.floor(4 * product) + 1
        if fakes < needed:
            raise ValueError(
                f"fakes must be at least {needed:,} for n = {n:,} users, epsilon={epsilon!r}, delta={delta!r}, got {fakes:,}"
            )
        # f(1-f) = v without cancellation.
        v = product / fakes
        return cls(d, 2 * v / (1 + math.sqrt(1 - 4 * v)), fakes)

    @classmethod
    def for_target(cls, epsilon: float, delta: float, n: int, *, d: int, fakes: int = 1) -> FakeUsers:
        """The smallest f that meets the target."""
        target = check_number("epsilon", epsilon, "a number > 0 (nats)", low=math.ulp(0.0))
        # log((1-f)/f) is half the local eps: one of target/2 meets the target whatever the crowd.
        most = -math.log(FLIP_MIN)
        least = min(0.5 * target * (1 - 1e-6), 0.5 * most)

        def make(odds: float) -> FakeUsers:
            return cls(d, max(FLIP_MIN, math.exp(-odds) / (1 + math.exp(-odds))), fakes)

        return meet(make, epsilon, delta, n, find="largest", within=(least, most))

    def retargeted(self, epsilon: float, delta: float, n: int) -> FakeUsers:
        """With as many categories and fakes."""
        return self.for_target(epsilon, delta, n, d=self.d, fakes=self.fakes)

    @classmethod
    def examples(cls) -> Iterator[FakeUsers]:
        """Typical, tiny, extreme."""
        yield cls(d=16, flip=0.1)
        yield cls(d=2, flip=0.3, fakes=2)
        yield cls(d=100, flip=1e-6)
