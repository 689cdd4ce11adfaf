"""Split and mix: additive shares of every number, with noise that adds up to one discrete Laplace variable.

Source: Ishai, Kushilevitz, Ostrovsky, Sahai, "Cryptography from anonymity", FOCS 2006 (the shares); Balle, Bell, Gascon, Nissim,
"Private summation in the multi-message shuffle model", CCS 2020 (the noise and the number of shares).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import EPSILON_MAX, check_delta, check_epsilon, check_integer, check_users
from shufflesim._sampling import negative_binomial
from shufflesim.bounds import Claim, Crowd, PolyaDifference, Simulated, log_distance, present
from shufflesim.domains import Array
from shufflesim.protocol import meet
from shufflesim.protocols._shares import SHARES_MIN, SharedSum, check_shares, fewest_shares

# The number of shares in closed form is for at least that many users.
ORIGINAL_USERS_MIN = 19


@dataclass(frozen=True)
class SplitAndMix(SharedSum):
    """Each user rounds to 0..precision, adds a part of discrete Laplace noise, and sends shares that sum to this modulo q.

    Parameters
    ----------
    epsilon : float
        Central budget of the noise of all users together, DLap(e^(-epsilon/precision)); in (0, 700].
    users : int
        Number of users whose noise adds up to one discrete Laplace variable; >= 1.
    shares : int
        Messages of one user, m; in [3, 10000].
    precision : int
        Levels between low and high; >= 1, at most 2^40.
    low, high : float
        Range of the numbers, of which the mean is estimated.
    modulus : int or None
        q, at most 2^52. None: large enough that a sum is decoded wrongly with probability below 1e-12/users^2.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or the modulus too small or too large.

    Notes
    -----
    Data: numbers in [low, high], shape (n,).
    Source: Ishai, Kushilevitz, Ostrovsky, Sahai, "Cryptography from anonymity", FOCS 2006 (the shares); Balle, Bell, Gascon,
    Nissim, "Private summation in the multi-message shuffle model", CCS 2020 (the noise and the number of shares).

    Each user's noise is Polya(1/users, a) - Polya(1/users, a), a = e^(-epsilon/precision). With n users

        Var = ((n/users) 2a/(1-a)^2 + sum_i rho_i (1 - rho_i)) (high - low)^2/(n precision)^2,

    rho the fraction of a scaled number. What the shares show beyond their sum is bounded by the distance tau of
    ``shufflesim.bounds.shares``, so that delta = D_eps + (1 + e^eps) tau, where D_eps is the divergence of the noisy sum: 0 from
    eps = epsilon on. Fewer honest users than `users` make too little noise, which D_eps follows exactly. The sum modulo q shows
    in any case; this gives the lower bound.

    Examples
    --------
    >>> import shufflesim as ss
    >>> protocol = SplitAndMix.for_target(1.0, 1e-8, 10_000)
    >>> protocol.shares, protocol.precision, float(ss.epsilon(protocol, 10_000, 1e-8)) <= 1
    (8, 100, True)
    """

    epsilon: float
    users: int
    shares: int
    precision: int
    low: float = 0.0
    high: float = 1.0
    modulus: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "users", check_users(self.users, "users"))
        object.__setattr__(self, "shares", check_shares(self.shares))
        object.__setattr__(self, "precision", check_integer("precision", self.precision, low=1))
        object.__setattr__(self, "low", self.domain.low)
        object.__setattr__(self, "high", self.domain.high)
        self.settle()

    @property
    def log_a(self) -> float:
        """-epsilon/precision."""
        return -self.epsilon / self.precision

    @property
    def local_epsilon(self) -> float:
        """An upper bound on that of the noise of one user, of shape s = 1/users.

        With the law z of Polya(s, a), no likelihood ratio of the difference at distance k exceeds z(0)/z(k) =
        e^epsilon Gamma(s) Gamma(k + 1)/Gamma(k + s) <= e^epsilon Gamma(s) (k + 1)^(1-s) (Gautschi).
        """
        s = 1 / self.users
        if self.users == 1:
            return self.epsilon
        return (self.epsilon + math.lgamma(s) + (1 - s) * math.log1p(self.precision)) * (1 + 1e-12)

    def claims(self, crowd: Crowd) -> list[Claim]:
        """Noise of the honest users, and the distance of their shares from what the sum shows."""
        crowd.refuse_sampling(self)

        def noise(n: int) -> PolyaDifference:
            return PolyaDifference(self.epsilon, self.precision, min(1.0, n / self.users))

        def value(n: int) -> Simulated:
            return Simulated(noise(n), log_distance(n, self.shares, self.q))

        source = "Balle et al. 2020, with the distance of shufflesim.bounds.shares"
        claims = [Claim("accountant", "upper", True, source, "D + (1 + e^eps) tau", present(crowd, value))]
        if crowd.complete and crowd.n <= self.users:
            exact = noise(crowd.n)
            wrapped = math.log(exact.beyond((self.q - 1 - self.precision) // 2) + 5e-324)
            note = "the messages show the noisy sum modulo q"
            claims.append(
                Claim("lower", "lower", True, "divergence of the sum", note, Simulated(exact, (wrapped, wrapped), True))
            )
        return claims

    def noise(self, n: int, rng: np.random.Generator) -> Array:
        """Differences of Polya variables of shape 1/users."""
        odds = 1 / math.expm1(-self.log_a)
        return negative_binomial(rng, 1 / self.users, odds, n) - negative_binomial(rng, 1 / self.users, odds, n)

    def total_noise(self, n: int, rng: np.random.Generator) -> int:
        """The same with shape n/users."""
        up, down = negative_binomial(rng, n / self.users, 1 / math.expm1(-self.log_a), 2)
        return int(up) - int(down)

    def noise_variance(self, n: int) -> float:
        """(n/users) 2a/(1-a)^2."""
        return (n / self.users) / (2 * math.sinh(-self.log_a / 2) ** 2)

    def log_moment(self, share: Array, n: int) -> tuple[Array, Array]:
        """(n/users) log((1-a)^2/((1 - a e^x)(1 - a e^-x)))."""
        x, one = -self.log_a * share, math.log(-math.expm1(self.log_a))
        return x, (n / self.users) * (2 * one - np.log(-np.expm1(self.log_a + x)) - np.log(-np.expm1(self.log_a - x)))

    @classmethod
    def original(
        cls, epsilon: float, delta: float, n: int, *, precision: int | None = None, low: float = 0.0, high: float = 1.0
    ) -> SplitAndMix:
        """m = ceil((2 sigma + log2 q)/(log2 n - log2 e) + 2) shares, sigma = log2((1 + e^epsilon)/delta), precision ceil(sqrt n).

        Notes
        -----
        sigma bounds the distance by 2^-sigma; delta = (1 + e^epsilon) 2^-sigma is the safe form of the paper's lemma.

        Raises
        ------
        ValueError
            Below 19 users.
        """
        n = check_users(n)
        if n < ORIGINAL_USERS_MIN:
            raise ValueError(f"n must be at least {ORIGINAL_USERS_MIN} for the paper's number of shares, got {n}")
        sigma = (np.logaddexp(0.0, check_epsilon(epsilon)) - math.log(check_delta(delta))) / math.log(2)
        first = cls(epsilon, n, SHARES_MIN, _default(precision, n), low, high)
        shares = math.ceil((2 * sigma + math.log2(first.q)) / (math.log2(n) - math.log2(math.e)) + 2)
        return cls(epsilon, n, max(SHARES_MIN, shares), first.precision, low, high, first.modulus)

    @classmethod
    def for_target(
        cls, epsilon: float, delta: float, n: int, *, precision: int | None = None, low: float = 0.0, high: float = 1.0
    ) -> SplitAndMix:
        """The fewest shares with (1 + e^epsilon) tau <= delta, and the least noise for what they leave of delta.

        The default precision ceil(sqrt(n)) keeps the error of rounding below that of the noise.
        """
        n, epsilon, goal = check_users(n), check_epsilon(epsilon), math.log(check_delta(delta))
        first = cls(epsilon, n, SHARES_MIN, _default(precision, n), low, high)

        many = fewest_shares(n, first.q, epsilon, goal)

        def make(budget: float) -> SplitAndMix:
            return cls(budget, n, many, first.precision, low, high)

        if epsilon == EPSILON_MAX:
            return make(epsilon)
        return meet(make, epsilon, delta, n, find="largest", within=(epsilon, min(EPSILON_MAX, epsilon + 60.0)))

    def retargeted(self, epsilon: float, delta: float, n: int) -> SplitAndMix:
        """With this precision and range."""
        return type(self).for_target(epsilon, delta, n, precision=self.precision, low=self.low, high=self.high)

    @classmethod
    def examples(cls) -> Iterator[SplitAndMix]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=1.0, users=500, shares=12, precision=23, low=-1.0, high=3.0)
        yield cls(epsilon=2.0, users=500, shares=3, precision=1)
        yield cls(epsilon=1e-3, users=500, shares=15, precision=2**20)


def _default(precision: int | None, n: int) -> int:
    return math.isqrt(n - 1) + 1 if precision is None else precision
