"""PCKV-GRR: pairs are padded with dummy keys, one is drawn, and reported by randomized response on pairs of key and sign.

Source: Gu, Li, Cheng, Xiong, Cao, "PCKV: locally differentially private correlated key-value data collection with optimized
utility", USENIX Security 2020.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_epsilon
from shufflesim._sampling import bernoulli, uniform_codes
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array, KeyValues
from shufflesim.randomizer import Randomizer

# Inputs times outcomes up to which the law is handed out as a matrix.
ENUMERABLE = 4096


@dataclass(frozen=True)
class PCKVGRR(Randomizer):
    """Draw one of s padded pairs, report its key and sign, or any key and sign uniformly.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of keys; >= 1.
    s : int
        Most pairs of one user, and number of dummy keys; in [1, d].

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: pairs (key, value), float, shape (n, s, 2); keys 0..d-1, values in [-1, 1], nan twice for no pair; or a DataFrame.
    Source: Gu et al., "PCKV: locally differentially private correlated key-value data collection", USENIX Security 2020.

    With E = e^eps and d' = d + s keys: each of a user's pairs is drawn with probability 1/s, and what is missing to s pairs is a
    uniform dummy key with the value 0. A value v becomes the sign + with probability (1+v)/2. The report is the truth with
    probability t = s (E-1)/(s (E-1) + 2d'), else uniform on the 2d' pairs of key and sign: as randomized response with the larger
    budget log(s (E-1) + 1), of which the draw leaves eps. With counts N+, N- of a real key, the estimates are
    (N+ + N- - n (1-t)/d') s/t users and (N+ - N-) s/t as the sum of their values.

    Examples
    --------
    >>> PCKVGRR(epsilon=math.log(4), d=3, s=2).amplification
    VariationRatio(p=4, beta=0.375, q=4, q_star=1)
    """

    epsilon: float
    d: int
    s: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        domain = KeyValues(self.d, self.s, fewer=True)
        object.__setattr__(self, "d", domain.d)
        object.__setattr__(self, "s", domain.s)

    @property
    def domain(self) -> KeyValues:
        """At most s pairs out of d keys."""
        return KeyValues(self.d, self.s, fewer=True)

    @property
    def reports(self) -> int:
        """2 d' = 2 (d + s) pairs of key and sign."""
        return 2 * (self.d + self.s)

    @property
    def truthful(self) -> float:
        """s (E-1)/(s (E-1) + 2d'), the probability that the report depends on the pairs."""
        own = self.s * -math.expm1(-self.epsilon)
        return own / (own + self.reports * math.exp(-self.epsilon))

    @property
    def floor(self) -> float:
        """1/(s (E-1) + 2d'), the least probability of any report."""
        small = math.exp(-self.epsilon)
        return small / (self.s * -math.expm1(-self.epsilon) + self.reports * small)

    @property
    def amplification(self) -> VariationRatio:
        """beta = s (E-1)/(s E + 2d' - s), attained by opposite values; q* = 1.

        A report has probability floor (1 + s (E-1) mu), mu <= 1/s being that it is drawn. D is convex in both inputs' mu, hence
        largest where each is 1/s on s reports; a common one instead of one for each is no better, as (E, E), (1, 1) is inside
        (E, 1), (1, E). What is left is neutral at the floor.
        """
        return VariationRatio.ldp(self.epsilon, self.truthful, q_star=1.0)

    @property
    def published_beta(self) -> float:
        """s (E-1)/(s E + 2d - s), the value in print (Wang et al. 2024) with the real keys in place of d': an upper bound."""
        own = self.s * -math.expm1(-self.epsilon)
        return own / (own + 2 * self.d * math.exp(-self.epsilon))

    @property
    def bits(self) -> float:
        """log2 2d', rounded up."""
        return float(math.ceil(math.log2(self.reports)))

    @property
    def width(self) -> int:  # type: ignore[override]
        """Numbers drawn per user."""
        return 6

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Pairs, shape (n, s, 2) -> 2 key + (0 for +, 1 for -), shape (n,), smallest unsigned dtype; dummy keys are from d on."""
        n = values.shape[0]
        key, value = values[np.arange(n), rng.integers(0, self.s, n)].T
        missing = np.isnan(key)
        dummy = self.d + rng.integers(0, self.s, n)
        drawn = np.where(missing, dummy, np.where(missing, 0, key).astype(np.int64))
        minus = 2 * rng.random(n) >= 1 + np.where(missing, 0, value)
        reports = uniform_codes(rng, self.reports, n, np.min_scalar_type(self.reports - 1))
        np.copyto(reports, 2 * drawn + minus, where=bernoulli(rng, self.truthful, n), casting="unsafe")
        return reports

    def aggregate(self, reports: Array) -> Array:
        """Counts of reports, shape (2d',)."""
        return np.bincount(reports, minlength=self.reports)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Users per key, then sums of values per key, shape (2d,)."""
        plus, minus = np.asarray(aggregate).reshape(-1, 2)[: self.d].T
        scale = self.s / self.truthful
        return np.append((plus + minus - 2 * n * self.floor) * scale, (plus - minus) * scale)

    def variance(self, total: Array, n: int) -> Array:
        """Of each estimate, from users, sums and sums of squares v2 per key.

        A report is of a given key with probability a = b + t/s if the user has it, else b = 2 floor; users: (s/t)^2 times the sum
        of a (1-a) and b (1-b); sums: (s/t)^2 times the sum of a and b, minus v2.
        """
        users, _, squares = total
        b = 2 * self.floor
        a, scale = b + self.truthful / self.s, (self.s / self.truthful) ** 2
        counts = users * (a * (1 - a)) + (n - users) * (b * (1 - b))
        return np.append(scale * counts, scale * (users * a + (n - users) * b) - squares)

    def inputs(self) -> Array:
        """All sets of at most s keys with values 1, -1 and 0, padded with nan, shape (inputs, s, 2)."""
        found = []
        for size in range(self.s + 1):
            for keys in itertools.combinations(range(self.d), size):
                for held in itertools.product((1.0, -1.0, 0.0), repeat=size):
                    found.append([*zip(keys, held, strict=True), *[(np.nan, np.nan)] * (self.s - size)])
        return np.array(found)

    def log_channel(self) -> Array | None:
        """The law on 2d' reports for tiny instances."""
        if sum(math.comb(self.d, size) * 3**size for size in range(self.s + 1)) * self.reports > ENUMERABLE:
            return None
        pairs = self.inputs()
        drawn = np.zeros((len(pairs), self.reports // 2, 2))
        for row, held in zip(drawn, pairs, strict=True):
            for key, value in held:
                if np.isnan(key):
                    row[self.d :] += 0.5 / self.s**2
                else:
                    row[int(key)] += np.array([1 + value, 1 - value]) / (2 * self.s)
        return math.log(self.floor) + np.log1p(self.s * math.expm1(self.epsilon) * drawn.reshape(len(pairs), -1))

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """The pairs of x0, those of x1, dummy pairs, s other pairs and the rest; x0 and x1 have the same keys, other signs."""
        s = self.s
        away = min(s, self.d - s)
        sizes = np.array([s, s, 2 * s, away, self.reports - 4 * s - away])
        # s (E-1) mu by group; x* has `away` pairs elsewhere, and dummies as far as some are missing.
        drawn = {
            "x0": [1.0, 0, 0, 0, 0],
            "x1": [0, 1.0, 0, 0, 0],
            "no pair": [0, 0, 0.5, 0, 0],
            "pairs of other keys": [0, 0, (s - away) / (2 * s), 1.0, 0],
        }
        law = {name: sizes * self.floor * (1 + math.expm1(self.epsilon) * np.array(mu)) for name, mu in drawn.items()}
        if away == 0:
            del law["pairs of other keys"]
        return tuple(
            OutcomeGroups(law["x0"], law["x1"], other, sizes * self.floor, f"others hold {name}") for name, other in law.items()
        )

    @classmethod
    def examples(cls) -> Iterator[PCKVGRR]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=2.0, d=10, s=3)
        yield cls(epsilon=math.log(4), d=1, s=1)
        yield cls(epsilon=1.0, d=2, s=2)
        yield cls(epsilon=1e-9, d=2, s=1)
        yield cls(epsilon=700.0, d=3, s=2)
