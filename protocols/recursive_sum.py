"""Sums of numbers digit by digit, each digit by randomized response.

Source: Balle, Bell, Gascon, Nissim, "Private summation in the multi-message shuffle model", CCS 2020 (recursive protocol).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from shufflesim._checks import EPSILON_MAX, EPSILON_TINY, USERS_MAX, check_integer, check_number, check_target
from shufflesim.bounds import Claim, Crowd, VariationRatio, approach, composed_claims
from shufflesim.domains import Array, Digits
from shufflesim.mechanisms import GRR
from shufflesim.protocol import Protocol
from shufflesim.shuffler import Encoded

# Most distinct messages: they are counted one by one.
ALPHABET_MAX = 2**22
# Most digits: each at least doubles the product of precisions, see `Digits`.
DIGITS_MAX = 40
# The largest gamma of a search: the last float below 1.
GAMMA_MAX = 1 - 2.0**-53


@dataclass(frozen=True)
class RecursiveSum(Protocol):
    """Each user writes the number in m digits and sends each of them by generalised randomized response (GRR).

    Parameters
    ----------
    precisions : tuple of int
        p_1, ..., p_m: what the number is multiplied by for each digit; all >= 2, the last one >= 1. See `Digits`.
    gammas : tuple of float
        Probabilities, in (0, 1), that a digit is replaced by a uniform one; one for each digit.
    low, high : float
        Range of the numbers.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: numbers in [low, high], shape (n,).
    Source: Balle, Bell, Gascon, Nissim, "Private summation in the multi-message shuffle model", CCS 2020 (recursive
    protocol).

    Digit j has K_j = p_j values, the last one K_m = p_m + 1, because it is rounded at random. It is sent with its place j by GRR
    with e^eps_j = 1 + (1 - gamma_j) K_j/gamma_j. With q_j = p_1...p_j, S_j the sum of the digits received, and u = (x - low)/
    (high - low),

        est u = sum_j (S_j/n - gamma_j (K_j - 1)/2) / ((1 - gamma_j) q_j),
        n^2 Var = sum_j sum_i [gamma_j (K_j^2 - 1)/12 + gamma_j (1 - gamma_j) E (z_ij - (K_j - 1)/2)^2] / ((1 - gamma_j) q_j)^2
                  + sum_i rho_i (1 - rho_i)/q_m^2,

    z_ij being user i's digits and rho_i the probability that the last one is rounded up. Privacy: the digits are independent
    given the data, each a GRR among n users, and a neighbour may change all of them: the bound composes them.

    Examples
    --------
    >>> RecursiveSum(precisions=(4, 10), gammas=(0.1, 0.4)).declarations
    (VariationRatio(p=37, beta=0.9, q=37, q_star=1), VariationRatio(p=17.5, beta=0.6, q=17.5, q_star=1))
    """

    precisions: tuple[int, ...]
    gammas: tuple[float, ...]
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        domain = Digits(self.precisions, self.low, self.high)
        if sum(domain.precisions) >= ALPHABET_MAX:
            raise ValueError(f"precisions must have a sum below {ALPHABET_MAX}, got {sum(domain.precisions)}")
        if not isinstance(self.gammas, (tuple, list)) or len(self.gammas) != len(domain.precisions):
            raise ValueError(f"gammas must be {len(domain.precisions)} numbers, one for each digit, got {self.gammas!r}")
        gammas = tuple(check_number("gammas", g, "numbers in (0, 1)", low=0.0, high=GAMMA_MAX) for g in self.gammas)
        for name in ("precisions", "low", "high"):
            object.__setattr__(self, name, getattr(domain, name))
        object.__setattr__(self, "gammas", gammas)
        for gamma, size in zip(gammas, self.sizes, strict=True):
            if not gamma > 0 or math.log1p((1 - gamma) * size / gamma) > EPSILON_MAX:
                raise ValueError(
                    f"gammas must be in (0, 1) and at least K e^-{EPSILON_MAX:g} for digits of K values, got {gamma!r}"
                )

    @property
    def domain(self) -> Digits:
        """Numbers in [low, high]."""
        return Digits(self.precisions, self.low, self.high)

    @property
    def sizes(self) -> tuple[int, ...]:
        """K_1, ..., K_m: how many values each digit has."""
        return (*self.precisions[:-1], self.precisions[-1] + 1)

    @cached_property
    def digits(self) -> tuple[GRR, ...]:
        """What each digit goes through."""
        pairs = zip(self.gammas, self.sizes, strict=True)
        return tuple(GRR(epsilon=math.log1p((1 - gamma) * size / gamma), d=size) for gamma, size in pairs)

    @property
    def local_epsilon(self) -> float:
        """Sum of the digits'."""
        return math.fsum(digit.epsilon for digit in self.digits)

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        """The digits'."""
        return tuple(digit.amplification for digit in self.digits)

    @property
    def alphabet(self) -> int:
        """All values of all digits: the code of value z of digit j is K_1 + ... + K_(j-1) + z."""
        return sum(self.sizes)

    @property
    def width(self) -> int:
        """A message a digit."""
        return len(self.precisions)

    @property
    def messages_per_user(self) -> float:
        """One message a digit: m."""
        return float(len(self.precisions))

    @property
    def bits_per_message(self) -> float:
        """The digit's place and, on average, its value; each rounded up."""
        return math.ceil(math.log2(len(self.sizes))) + sum(digit.bits for digit in self.digits) / len(self.sizes)

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The composition of the digits, and the largest lower bound of a single one."""
        if len(self.digits) > 1:
            crowd.refuse_sampling(self)
        lowers = [claim for digit in self.digits for claim in digit.law_claims(crowd)]
        tables = [x.three_outcome_table() for x in self.declarations]
        return composed_claims(self.declarations, tables, lowers, [digit.epsilon for digit in self.digits], crowd)

    def encode(self, values: Array, rng: np.random.Generator) -> Encoded:
        """All digits of a user, user by user."""
        codes = self.domain.digits(values, rng)
        for j, (digit, start) in enumerate(zip(self.digits, self._starts, strict=True)):
            codes[:, j] = start + digit.randomize(codes[:, j], rng)
        messages = codes.astype(np.min_scalar_type(self.alphabet - 1), copy=False).ravel()
        return Encoded(messages, np.full(len(codes), len(self.sizes)))

    def aggregate(self, messages: Array) -> Array:
        """How often each value of each digit came, shape (K_1 + ... + K_m,)."""
        return np.bincount(messages, minlength=self.alphabet)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """The mean, shape (1,)."""
        scaled = math.fsum(
            place * (float(np.arange(d.d, dtype=float) @ counts) / n - (1 - d.truthful) * (d.d - 1) / 2) / d.truthful
            for d, place, counts in self._received(aggregate)
        )
        return self.domain.unscaled(np.array([2 * scaled - 1]))

    def variance(self, total: Array, n: int) -> Array:
        """Of the estimated mean, shape (1,)."""
        first, second, rounding = self.domain.digit_sums(total)
        return self._variance(first[:, 0], second[:, 0], float(rounding[0]), n)

    def estimated_variance(self, aggregate: Array, n: int) -> Array:
        """The same with the digits' moments as received, and the most that rounding can add."""
        moments = []
        for digit, _, counts in self._received(aggregate):
            z, top, noise = np.arange(digit.d, dtype=float), digit.d - 1, 1 - digit.truthful
            first = np.clip((z @ counts - n * noise * top / 2) / digit.truthful, 0, n * top)
            second = (z * z @ counts - n * noise * top * (2 * top + 1) / 6) / digit.truthful
            moments.append((first, np.clip(second, first * first / n, first * top)))
        first, second = np.array(moments).T
        return self._variance(first, second, n / 4, n)

    def _variance(self, first: Array, second: Array, rounding: float, n: int) -> Array:
        """From the sums of E z_j, of E z_j^2, and of the variances of the rounding."""
        size, truthful = np.array(self.sizes, dtype=float), np.array([digit.truthful for digit in self.digits])
        spread = second - (size - 1) * first + n * (size - 1) ** 2 / 4
        noise = (1 - truthful) * (n * (size * size - 1) / 12 + truthful * spread)
        places = self.domain.places
        summed = float((noise * (places / truthful) ** 2).sum()) + rounding * float(places[-1]) ** 2
        return np.array([summed * (2 * self.domain.half / n) ** 2])

    def messages_in(self, aggregate: Array, n: int) -> float:
        """All digits that came."""
        return float(aggregate.sum())

    def sample_groups(self, values: Array, counts: Array, rng: np.random.Generator) -> Array:
        """Digit by digit: they meet in the data alone, and their noise is independent."""
        found, fraction = self.domain.expand(values)
        up = rng.binomial(counts, fraction)
        drawn = []
        for j, digit in enumerate(self.digits):
            held = np.zeros(digit.d, dtype=np.int64)
            last = j == len(self.digits) - 1
            np.add.at(held, found[:, j], counts - up if last else counts)
            if last:
                np.add.at(held, found[up > 0, j] + 1, up[up > 0])
            drawn.append(digit.sample_aggregate(held, rng))
        return np.concatenate(drawn)

    @property
    def _starts(self) -> Array:
        """Code of the value 0 of each digit."""
        return np.cumsum(self.sizes) - self.sizes

    def _received(self, aggregate: Array) -> Iterator[tuple[GRR, float, Array]]:
        """Each digit, what a unit of it is worth, and how often each of its values came."""
        return zip(self.digits, self.domain.places.tolist(), np.split(aggregate, self._starts[1:]), strict=True)

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int, *, m: int | None = None, low: float = 0.0, high: float = 1.0) -> Self:
        """The paper's calibration: epsilon/m and delta/m for each digit, by the closed bound of the privacy blanket.

        Parameters
        ----------
        epsilon, delta, n
            The target, eps <= m, and the number of users.
        m : int, optional
            Number of digits; round(log_3 log_2 n), at least 1, by default.
        low, high : float
            Range of the numbers.

        Raises
        ------
        ValueError
            Where the bound does not apply, or n is too small for it; the message says which n is enough.

        Notes
        -----
        With eps_j = epsilon/m, delta_j = delta/m and C = max(14 ln(2/delta_j)/eps_j^2, 27/eps_j), gamma_j = C K_j/(n - 1) < 1
        (Balle, Bell, Gascon, Nissim, CRYPTO 2019), and p_j = ceil(a^(3^j)) as far as that allows, with
        a = ((3^m - 1) n epsilon^2/m^3)^(3^-(m+1)). The last digit has K_m = p_m + 1.
        """
        epsilon, delta, n = check_target(epsilon, delta, n)
        default = 1 if n < 3 else max(1, round(math.log(math.log2(n), 3)))
        m = default if m is None else check_integer("m", m, low=1, high=DIGITS_MAX)
        if epsilon > m:
            raise ValueError(f"epsilon must be at most m = {m}, where the blanket's closed bound holds, got {epsilon!r}")
        share = max(epsilon / m, EPSILON_TINY)
        cost = max(14 * (math.log(2 * m) - math.log(delta)) / share / share, 27 / share)
        # The last digit has at least 3 values.
        if 3 * cost >= n - 1:
            enough = f"at least {math.floor(3 * cost) + 2:,}" if 3 * cost < USERS_MAX else f"beyond {USERS_MAX:.0e}"
            raise ValueError(f"n must be {enough} for gammas below 1 with m = {m}, got {n}")
        log_a = math.log((3**m - 1) * n * epsilon**2 / m**3) / 3 ** (m + 1)
        most = math.ceil((n - 1) / cost) - 1
        wanted = [math.ceil(math.exp(min(log_a * 3**j, math.log(ALPHABET_MAX)))) for j in range(1, m + 1)]
        precisions = [max(2, min(p, most - (j == m - 1))) for j, p in enumerate(wanted)]
        sizes = [*precisions[:-1], precisions[-1] + 1]
        return cls(tuple(precisions), tuple(cost * size / (n - 1) for size in sizes), low, high)

    @classmethod
    def for_target(
        cls, epsilon: float, delta: float, n: int, *, precisions: Sequence[int], low: float = 0.0, high: float = 1.0
    ) -> Self:
        """The least noise, shared among given digits, whose sound central eps is at most epsilon for n honest users.

        Parameters
        ----------
        epsilon, delta, n
            The target and the number of users.
        precisions, low, high
            As in the constructor.

        Raises
        ------
        ValueError
            If a parameter is out of its range.

        Notes
        -----
        gamma_j/(1 - gamma_j) = c sqrt(K_j) p_1...p_(j-1): where gammas are small, digit j adds about gamma_j/(p_1...p_(j-1))^2 to
        the variance and K_j/gamma_j to the square of eps, and this is the least variance for a given sum of the latter.
        c is found to a thousandth.
        """
        epsilon, delta, n = check_target(epsilon, delta, n)
        domain = Digits(precisions, low, high)  # type: ignore[arg-type]
        sizes = np.array([*domain.precisions[:-1], domain.precisions[-1] + 1], dtype=float)
        odds = np.sqrt(sizes) * np.append(1.0, np.cumprod(sizes[:-1]))
        # Where the largest local eps is just within range, and where the sum of all of them meets the target.
        least = float((sizes / odds).max()) * math.exp(-EPSILON_MAX * (1 - 1e-12))
        enough = least
        while math.fsum(np.log1p(sizes / (enough * odds))) > epsilon * (1 - 1e-9):
            enough *= 2
        return approach(
            lambda scale: cls(domain.precisions, _shares(scale * odds), low, high),
            *(epsilon, delta, n),
            good=enough,
            bad=least,
            slope=-0.5,
        )

    def retargeted(self, epsilon: float, delta: float, n: int) -> Self:
        """The same digits."""
        return self.for_target(epsilon, delta, n, precisions=self.precisions, low=self.low, high=self.high)

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny, extreme."""
        yield cls(precisions=(4, 10), gammas=(0.1, 0.4))
        yield cls(precisions=(1,), gammas=(0.3,), low=-1, high=3)
        yield cls(precisions=(2, 500), gammas=(1e-6, 0.9))


def _shares(odds: Array) -> tuple[float, ...]:
    """gamma from gamma/(1 - gamma), below 1."""
    return tuple(np.minimum(odds / (1 + odds), GAMMA_MAX).tolist())
