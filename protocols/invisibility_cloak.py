"""The invisibility cloak: additive shares of every number, with discrete Laplace noise of a few users.

Source: Ghazi, Pagh, Velingker, "Scalable and differentially private distributed aggregation in the shuffled model", 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import EPSILON_MAX, check_delta, check_epsilon, check_integer, check_number, check_users
from shufflesim._sampling import negative_binomial
from shufflesim.bounds import Claim, CompoundLaplace, Crowd, Directions, Simulated, compound, log_distance, present
from shufflesim.domains import Array
from shufflesim.protocol import meet
from shufflesim.protocols._shares import MODULUS_MAX, SHARES_MIN, SharedSum, check_shares, fewest_shares

# Noisy users, on average, in units of ln(1/delta).
NOISY = 10.0
# Less than one noisy user in as many as there may be.
PROBABILITY_MIN = 1e-18
# How far beyond epsilon times the square root of the number of noisy users a budget is sought.
BUDGET_MORE = 60.0


@dataclass(frozen=True)
class InvisibilityCloak(SharedSum):
    """Each user rounds to 0..precision, adds discrete Laplace noise with a small probability, and sends shares modulo q.

    Parameters
    ----------
    epsilon : float
        Budget of the noise of a single user, DLap(e^(-epsilon/precision)); in (0, 700].
    noise_probability : float
        Probability with which a user adds it; in [1e-18, 1].
    users : int
        Number of users for which the modulus is made; >= 1.
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
    The paper has two guarantees. (i) Data sets with the same sum: nothing but the shares matters, and no noise is needed
    (`sum_preserving_delta`). (ii) Another value of one user: delta = D_eps + (1 + e^eps) tau as in `SplitAndMix`, where D_eps is
    that of the noise of Binomial(n, noise_probability) users (`shufflesim.bounds.compound`): exact where levels are few, a bound
    that shows the number of noisy users elsewhere. With a = e^(-epsilon/precision),

        Var = (n noise_probability 2a/(1-a)^2 + sum_i rho_i (1 - rho_i)) (high - low)^2/(n precision)^2.

    Examples
    --------
    >>> protocol = InvisibilityCloak.for_target(1.0, 1e-8, 10_000)
    >>> protocol.shares, protocol.sum_preserving_delta(10_000) < 1e-8
    (8, True)
    """

    epsilon: float
    noise_probability: float
    users: int
    shares: int
    precision: int
    low: float = 0.0
    high: float = 1.0
    modulus: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        rule = f"in [{PROBABILITY_MIN:g}, 1]"
        probability = check_number("noise_probability", self.noise_probability, rule, low=PROBABILITY_MIN, high=1.0)
        object.__setattr__(self, "noise_probability", probability)
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
        """That of a sum of the noise of one user: log(e^b + (1-p)(1+a) e^b/(p(1-a))) for the budget b."""
        return CompoundLaplace(self.epsilon, self.precision, 1, self.noise_probability).ceiling

    def sum_preserving_delta(self, n: int) -> float:
        """2 tau bounds the distance of the messages of two data sets of n users with the same rounded sum, for every eps >= 0."""
        return min(1.0, 2 * math.exp(min(0.0, log_distance(check_users(n), self.shares, self.q)[1])))

    def claims(self, crowd: Crowd) -> list[Claim]:
        """Noise of those honest users who add some, and the distance of the shares from what the sum shows."""
        crowd.refuse_sampling(self)

        def noise(n: int) -> Directions:
            return compound(self.epsilon, self.precision, n, self.noise_probability)

        def value(n: int) -> Simulated:
            return Simulated(noise(n), log_distance(n, self.shares, self.q))

        source = "exact noise of Binomially many users, with the distance of shufflesim.bounds.shares"
        claims = [Claim("accountant", "upper", True, source, "D + (1 + e^eps) tau", present(crowd, value))]
        whole = noise(crowd.n)
        if crowd.complete and isinstance(whole, CompoundLaplace):
            wrapped = self._log_beyond((self.q - 1 - self.precision) // 2, crowd.n)
            note = "the messages show the noisy sum modulo q"
            below = Simulated(whole, (wrapped, wrapped), True)
            claims.append(Claim("lower", "lower", True, "divergence of the sum", note, below))
        return claims

    def _log_beyond(self, reach: int, n: int) -> float:
        """log of Chernoff's bound on Pr[|noise| > reach]."""
        x, log_moment = self.log_moment(np.arange(1, 100) / 100, n)
        return min(0.0, math.log(2) + float((log_moment - x * reach).min()))

    def noise(self, n: int, rng: np.random.Generator) -> Array:
        """Differences of geometric variables where a coin says so."""
        odds = 1 / math.expm1(-self.log_a)
        noisy = np.flatnonzero(rng.random(n) < self.noise_probability)
        found = np.zeros(n, dtype=np.int64)
        found[noisy] = negative_binomial(rng, 1.0, odds, noisy.size) - negative_binomial(rng, 1.0, odds, noisy.size)
        return found

    def total_noise(self, n: int, rng: np.random.Generator) -> int:
        """Differences of negative binomial variables with as many terms as users add noise."""
        noisy = int(rng.binomial(n, self.noise_probability))
        up, down = negative_binomial(rng, float(noisy), 1 / math.expm1(-self.log_a), 2)
        return int(up) - int(down)

    def noise_variance(self, n: int) -> float:
        """n noise_probability 2a/(1-a)^2."""
        return n * self.noise_probability / (2 * math.sinh(-self.log_a / 2) ** 2)

    def log_moment(self, share: Array, n: int) -> tuple[Array, Array]:
        """n log(1 - p + p psi), psi - 1 = 4a sinh(x/2)^2/((1 - a e^x)(1 - a e^-x))."""
        x = -self.log_a * share
        product = np.expm1(self.log_a + x) * np.expm1(self.log_a - x)
        return x, n * np.log1p(self.noise_probability * 4 * math.exp(self.log_a) * np.sinh(x / 2) ** 2 / product)

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int, *, low: float = 0.0, high: float = 1.0) -> InvisibilityCloak:
        """Precision k = 10 n, probability 10 ln(1/delta)/n, a = 1 - epsilon/(10 k), ceil(10 ln(n k/(epsilon delta))) shares.

        Notes
        -----
        The constants are quoted from memory of the paper, as is the modulus, the first odd integer above
        3 k n + 10/delta + 10/epsilon; it is enlarged where the noise here, which is not truncated, needs more room.

        Raises
        ------
        ValueError
            If the probability would be above 1, epsilon above 10 k, or the modulus above 2^52.
        """
        n, epsilon, delta = check_users(n), check_epsilon(epsilon), check_delta(delta)
        probability, precision = NOISY * -math.log(delta) / n, 10 * n
        if probability > 1:
            enough = math.ceil(NOISY * -math.log(delta))
            raise ValueError(f"n must be at least {enough} for the paper's noise at delta = {delta!r}, got {n}")
        if epsilon >= 10 * precision:
            raise ValueError(f"epsilon must be below {10 * precision} for the paper's noise at n = {n}, got {epsilon!r}")
        modulus = 3 * precision * n + math.ceil(min(10 / delta + 10 / epsilon, float(MODULUS_MAX))) + 1
        if modulus > MODULUS_MAX - 2:
            raise ValueError(f"n must leave the paper's modulus below 2^52, got {n} with modulus {modulus}")
        budget = -precision * math.log1p(-epsilon / (10 * precision))
        shares = math.ceil(10 * (math.log(n) + math.log(precision) - math.log(epsilon) - math.log(delta)))
        needed = cls(budget, probability, n, SHARES_MIN, precision, low, high).q
        return cls(budget, probability, n, max(SHARES_MIN, shares), precision, low, high, max(modulus | 1, needed))

    @classmethod
    def for_target(
        cls,
        epsilon: float,
        delta: float,
        n: int,
        *,
        noise_probability: float | None = None,
        precision: int | None = None,
        low: float = 0.0,
        high: float = 1.0,
    ) -> InvisibilityCloak:
        """The largest budget, hence the least noise, for a probability of noise (the paper's by default, at most 1).

        The shares take at most half of delta; the default precision is ceil(sqrt(n)).

        Raises
        ------
        UnreachableError
            If the probability of noise is so small that too often nobody adds any.
        """
        n, epsilon, goal = check_users(n), check_epsilon(epsilon), math.log(check_delta(delta))
        levels = math.isqrt(n - 1) + 1 if precision is None else precision
        probability = min(1.0, -NOISY * goal / n) if noise_probability is None else noise_probability
        # At this budget any single noisy user is enough.
        least = epsilon * (1 - 1e-9)
        first = cls(least, probability, n, SHARES_MIN, levels, low, high)
        shares = fewest_shares(n, first.q, epsilon, goal - math.log(2))

        def make(budget: float) -> InvisibilityCloak:
            return cls(budget, probability, n, shares, levels, low, high)

        most = min(EPSILON_MAX, epsilon * (1 + math.sqrt(n * first.noise_probability)) + BUDGET_MORE)
        return meet(make, epsilon, delta, n, find="largest", within=(least, most))

    def retargeted(self, epsilon: float, delta: float, n: int) -> InvisibilityCloak:
        """With this precision and range."""
        return type(self).for_target(epsilon, delta, n, precision=self.precision, low=self.low, high=self.high)

    @classmethod
    def examples(cls) -> Iterator[InvisibilityCloak]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=1.0, noise_probability=0.2, users=500, shares=12, precision=23, low=-1.0, high=3.0)
        yield cls(epsilon=2.0, noise_probability=0.5, users=500, shares=3, precision=1)
        yield cls(epsilon=0.1, noise_probability=1.0, users=500, shares=15, precision=2**20)
