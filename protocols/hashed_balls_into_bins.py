"""Balls into bins for large domains: values are hashed into buckets, by a function of its own for each message.

Source: Luo, Wang, Yi, "Frequency estimation in the shuffle model with almost a single message", CCS 2022 (large domains).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from shufflesim._checks import check_integer, check_users
from shufflesim.bounds import Claim, Crowd, Pairs, Table, VariationRatio, declared_claims_for
from shufflesim.domains import Array, Categories, Queries
from shufflesim.mechanisms._field import prime_power

from ._dummies import WithDummies, check_target, least_dummies, per_user
from .balls_into_bins import balls, check_dummies

# Products of two residues, and one more, stay below 2^63.
PRIME_MAX = 2**31 - 1
# Largest domain of which all counts are estimated at once.
COUNTED_MAX = 2**24
# Hashes (or candidates) that are worked on at once.
CELLS = 2**20


@dataclass(frozen=True)
class HashedBallsIntoBins(WithDummies):
    """Each user sends a random hash function with the value's bucket, and on average `dummies` functions with random buckets.

    Parameters
    ----------
    d : int
        Number of categories; in [2, 2^31 - 2].
    buckets : int
        Range b of the hash functions; in [2, 2^31 - 2].
    dummies : float
        Expected number of dummies per user, rho: floor(rho), plus one more with probability rho - floor(rho); in (0, 1e6].
    prime : int, optional
        P, a prime with max(d, buckets) < P < 2^31; by default the smallest.
    queries : tuple of int, optional
        Codes whose counts are estimated; all by default, which is refused for d beyond 2^24.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    A message is (u, v, w), u in 1..P-1, v in 0..P-1, w in 0..b-1; it supports the value x if h(x) = ((u x + v) mod P) mod b = w.
    For two values (u x0 + v, u x1 + v) is uniform on the ordered pairs of distinct residues, so that with k = floor(P/b) and
    t = P mod b they collide with probability c = k (P + t - b)/(P (P - 1)), the same for every pair. Among N messages of n users,
    D = N - n are dummies, and with N_x messages that support x

        est_x = (N_x - D/b - n c)/(1 - c),
        Var_x = ((n - c_x) c (1 - c) + E[D] (1/b)(1 - 1/b))/(1 - c)^2.

    p = inf, beta = 1 - c (no collision), q = q* = b: exact for user 1 among the dummies. The published formula would need
    beta = 1.

    Cost of the analyzer: one hash per message and query; for all counts P/b candidates per message, or d hashes where that is
    less. One message supports several values, so that the aggregate is drawn from counts for a single query only.

    Examples
    --------
    >>> HashedBallsIntoBins(d=1000, buckets=100, dummies=2).amplification
    VariationRatio(p=inf, beta=0.990974, q=100)
    >>> paper = HashedBallsIntoBins.original(1.0, 1e-8, 10_000, d=2**20, buckets=100)
    >>> ours = paper.retargeted(1.0, 1e-8, 10_000)
    >>> round(paper.dummies, 3), round(ours.dummies, 3)
    (6.116, 0.616)
    """

    d: int
    buckets: int
    dummies: float
    prime: int | None = None
    queries: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", check_integer("d", self.d, low=2, high=PRIME_MAX - 1))
        object.__setattr__(self, "buckets", check_integer("buckets", self.buckets, low=2, high=PRIME_MAX - 1))
        object.__setattr__(self, "dummies", check_dummies(self.dummies))
        object.__setattr__(self, "prime", _checked_prime(self.prime, max(self.d, self.buckets)))
        if self.queries is not None:
            object.__setattr__(self, "queries", Queries(self.d, self.queries).codes)
        elif self.d > COUNTED_MAX:
            raise ValueError(f"queries must say whose counts are estimated for d beyond {COUNTED_MAX}, got None with d={self.d}")

    @property
    def domain(self) -> Categories | Queries:
        """d categories; those of `queries` are estimated."""
        return Categories(self.d) if self.queries is None else Queries(self.d, self.queries)

    @property
    def local_epsilon(self) -> float:
        """inf: a message rules out all values that it does not support."""
        return math.inf

    @property
    def exact_collision(self) -> Fraction:
        """Probability that two values share a bucket."""
        p, k, t = self._prime, self._prime // self.buckets, self._prime % self.buckets
        return Fraction(k * (p + t - self.buckets), p * (p - 1))

    @property
    def collision(self) -> float:
        """`exact_collision`, rounded."""
        return float(self.exact_collision)

    @property
    def amplification(self) -> VariationRatio:
        """(inf, 1 - c, b), beta rounded up."""
        beta = min(1.0, math.nextafter(float(1 - self.exact_collision), math.inf))
        return VariationRatio(math.inf, beta, self.buckets)

    @property
    def width(self) -> int:
        """Numbers per user, at most."""
        return 3 * super().width

    @property
    def bits_per_message(self) -> float:
        """Two residues and a bucket."""
        return float(2 * math.ceil(math.log2(self._prime)) + math.ceil(math.log2(self.buckets)))

    def valid(self, messages: Array) -> Array:
        """u in 1..P-1, v in 0..P-1, w in 0..b-1."""
        if messages.ndim != 2 or messages.shape[1] != 3 or messages.dtype.kind not in "iu":
            return np.zeros(messages.shape[0], dtype=bool)
        inside = (messages >= np.array([1, 0, 0])) & (messages < np.array([self._prime, self._prime, self.buckets]))
        return np.logical_and.reduce(inside, axis=1)

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The declaration's bounds, and what is seen of user 1 among the dummies when all others hold her first value.

        Take away all messages that support that value: all of the others', whose number is known, and user 1's if she holds it.
        All that this loses of the upper bound's pair is whether a message that supports the first value supports the second too.
        """
        claims = declared_claims_for(self.amplification, self.blanket(crowd))
        if self.counted(crowd):
            b, c = Fraction(self.buckets), self.exact_collision
            rows = [(1 / b, b, b * c), ((1 - c) / b, Fraction(0), b), (1 - (2 - c) / b, Fraction(0), Fraction(0))]
            table = Table(*np.array(rows, dtype=float).T)
            source, note = "the dummies that do not support the others' value", "all others hold user 1's first value"
            claims.append(Claim("lower", "lower", True, source, note, Pairs((table,), self.blanket(crowd))))
        return claims

    def uniform(self, count: int, rng: np.random.Generator) -> Array:
        """Functions with random buckets, shape (count, 3)."""
        return rng.integers((1, 0, 0), (self._prime, self._prime, self.buckets), (count, 3), dtype=np.uint32)

    def report(self, values: Array, blank: Array, rng: np.random.Generator) -> Array:
        """The functions as they are, with the values' buckets."""
        u, v, _ = blank.T.astype(np.uint64)
        return np.column_stack((blank[:, :2], self.hashed(u, v, values.astype(np.uint64)).astype(np.uint32)))

    def hashed(self, u: Array, v: Array, x: Array) -> Array:
        """h(x), all of type uint64, elementwise."""
        return (u * x + v) % np.uint64(self._prime) % np.uint64(self.buckets)

    def aggregate(self, messages: Array) -> Array:
        """Messages that support each value (or query), and the number of all messages, shape (k + 1,)."""
        u, v, w = messages.T.astype(np.uint64)
        candidates = -(-self._prime // self.buckets)
        if self.queries is None and candidates < self.d:
            supports = self._supported(u, v, w, candidates)
        else:
            supports = self._supports(u, v, w)
        return np.append(supports, messages.shape[0])

    def _supports(self, u: Array, v: Array, w: Array) -> Array:
        """By hashing every value for every message."""
        codes = self.domain.labels.astype(np.uint64)
        supports = np.zeros(codes.size, dtype=np.int64)
        step = max(1, CELLS // codes.size)
        for part in (slice(start, start + step) for start in range(0, u.size, step)):
            supports += (self.hashed(u[part, None], v[part, None], codes) == w[part, None]).sum(axis=0)
        return supports

    def _supported(self, u: Array, v: Array, w: Array, candidates: int) -> Array:
        """By solving u x + v = w + b j mod P for x, for every j for which the right side is a residue."""
        prime, b = np.uint64(self._prime), np.uint64(self.buckets)
        inverse = _power(u, self._prime - 2, prime)
        supports = np.zeros(self.d, dtype=np.int64)
        multiples = np.arange(candidates, dtype=np.uint64) * b
        step = max(1, CELLS // candidates)
        for part in (slice(start, start + step) for start in range(0, u.size, step)):
            residues = w[part, None] + multiples
            x = (residues + (prime - v[part, None])) % prime * inverse[part, None] % prime
            np.add.at(supports, x[(residues < prime) & (x < self.d)].astype(np.int64), 1)
        return supports

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts: supports less those of dummies and of collisions."""
        dummies = aggregate[-1] - n
        return (aggregate[:-1] - dummies / self.buckets - n * self.collision) / float(1 - self.exact_collision)

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All messages that came."""
        return float(aggregate[-1])

    def variance(self, total: Array, n: int) -> Array:
        """Of collisions and of dummies."""
        apart = float(1 - self.exact_collision)
        dummies = n * self.dummies * (1 / self.buckets) * (1 - 1 / self.buckets)
        return ((n - total) * self.collision * apart + dummies) / apart**2

    def sample_groups(self, values: Array, counts: Array, rng: np.random.Generator) -> Array | None:
        """Support of a single query: its users, collisions of all others, and dummies; None for more than one."""
        if self.queries is None or len(self.queries) > 1:
            return None
        n, own = int(counts.sum()), int(self.domain.grouped_total(values, counts)[0])
        drawn = self.drawn(n, rng)
        support = own + rng.binomial(n - own, self.collision) + rng.binomial(drawn, 1 / self.buckets)
        return np.array([support, n + drawn])

    @property
    def _prime(self) -> int:
        return int(self.prime or 0)

    @classmethod
    def original(
        cls,
        epsilon: float,
        delta: float,
        n: int,
        *,
        d: int,
        buckets: int | None = None,
        prime: int | None = None,
        queries: tuple[int, ...] | None = None,
    ) -> Self:
        """As in the paper: mu = 32 ln(2/delta)/eps^2 dummies per bucket, mu b/n per user; see `balls`.

        Parameters
        ----------
        epsilon, delta : float
            The target: eps > 0 in nats, with 32 ln(2/delta)/eps^2 > ln(1/delta); delta in (0, 1).
        n : int
            Number of users, all honest.
        d, prime, queries
            As in the constructor.
        buckets : int, optional
            n/ln n by default, the paper's choice for the smallest error; at least 2.
        """
        epsilon, delta, n = check_target(epsilon, delta, n)
        b = _default_buckets(n) if buckets is None else check_integer("buckets", buckets, low=2, high=PRIME_MAX - 1)
        return cls(d, b, per_user(balls(epsilon, delta) * b, n), prime, queries)

    @classmethod
    def for_target(
        cls,
        epsilon: float,
        delta: float,
        n: int,
        *,
        d: int,
        buckets: int | None = None,
        prime: int | None = None,
        queries: tuple[int, ...] | None = None,
    ) -> Self:
        """The fewest dummies whose sound eps is at most epsilon; arguments as in `original`, any eps > 0."""
        n = check_users(n)
        first = cls(d, _default_buckets(n) if buckets is None else buckets, 1.0, prime, queries)
        return least_dummies(lambda dummies: replace(first, dummies=dummies), epsilon, delta, n, first.amplification.beta)

    def retargeted(self, epsilon: float, delta: float, n: int) -> Self:
        """`for_target` for the same hash functions and queries."""
        return self.for_target(epsilon, delta, n, d=self.d, buckets=self.buckets, prime=self.prime, queries=self.queries)

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny, a large domain with a few queries, a single one."""
        yield cls(d=100, buckets=16, dummies=1.5)
        yield cls(d=2, buckets=2, dummies=1)
        yield cls(d=2**31 - 2, buckets=50, dummies=0.5, queries=(2**31 - 3, 0, 12345))
        yield cls(d=2**20, buckets=8, dummies=2.25, queries=(7,))


def _default_buckets(n: int) -> int:
    """n/ln n."""
    return min(PRIME_MAX - 1, max(2, round(n / math.log(n)))) if n > 1 else 2


def _checked_prime(prime: int | None, above: int) -> int:
    """The prime that was asked for, or the smallest one; there is one up to 2^31 - 1, which is itself one."""
    if prime is None:
        return next(candidate for candidate in range(above + 1, PRIME_MAX + 1) if prime_power(candidate)[1] == 1)
    checked = check_integer("prime", prime, low=above + 1, high=PRIME_MAX)
    if prime_power(checked)[1] != 1:
        raise ValueError(f"prime must be a prime, got {checked}")
    return checked


def _power(base: Array, exponent: int, modulus: np.uint64) -> Array:
    """base^exponent mod modulus, elementwise."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base % modulus
        base, exponent = base * base % modulus, exponent >> 1
    return result
