"""PrivKV: one key is drawn, whether the user has it and the sign of her value are perturbed.

Source: Ye, Hu, Meng, Zheng, "PrivKV: key-value data collection with local differential privacy", IEEE S&P 2019 (one round).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import EPSILON_MAX, check_epsilon
from shufflesim._sampling import bernoulli
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array, KeyValues
from shufflesim.randomizer import Randomizer

# Inputs times outcomes up to which the law is handed out as a matrix.
ENUMERABLE = 4096
# Pairs per user up to which the law is grouped: one table for each number of common keys.
GROUPED = 32
# Halvings of an interval of factors down to the last digit.
STEPS = 100


@dataclass(frozen=True)
class PrivKV(Randomizer):
    """Draw one of the d keys; report it as absent, or as present with a sign.

    Parameters
    ----------
    epsilon1 : float
        Budget of presence in nats; in (0, 700].
    epsilon2 : float
        Budget of the value's sign in nats; in (0, 700].
    d : int
        Number of keys; >= 1.
    s : int
        Pairs of every user, exactly; in [1, d].

    Raises
    ------
    ValueError
        If a parameter is out of its range, or `epsilon` is beyond 700.

    Notes
    -----
    Data: pairs (key, value), float, shape (n, s, 2); keys 0..d-1, values in [-1, 1]; a DataFrame for labelled keys.
    Source: Ye, Hu, Meng, Zheng, "PrivKV: key-value data collection", IEEE S&P 2019 (one round).

    With E1, E2 = e^epsilon1, e^epsilon2: a value v becomes +1 with probability (1+v)/2, else -1, and the sign is kept with
    probability E2/(E2+1); a key that the user has is reported as present with probability E1/(E1+1), one that she has not with
    1/(E1+1) and a fair sign. With A = E1/(E1+1), B = 1 - A, g = (E2-1)/(E2+1) and counts N+, N-, N0 of a key's reports, the
    estimates are d (N+ + N- - B (N+ + N- + N0))/(A - B) users and d (N+ - N-)/(A g) as the sum of their values.

    Its local budget is not epsilon1 + epsilon2, as in the source: `epsilon` is the true one.

    Examples
    --------
    >>> mechanism = PrivKV(epsilon1=math.log(3), epsilon2=math.log(2), d=4, s=1)
    >>> mechanism.amplification
    VariationRatio(p=4, beta=0.25, q=4)
    >>> round(mechanism.epsilon, 6), round(math.log(6), 6)
    (1.386294, 1.791759)
    """

    epsilon1: float
    epsilon2: float
    d: int
    s: int

    def __post_init__(self) -> None:
        for name in ("epsilon1", "epsilon2"):
            object.__setattr__(self, name, check_epsilon(getattr(self, name), name))
        domain = KeyValues(self.d, self.s)
        object.__setattr__(self, "d", domain.d)
        object.__setattr__(self, "s", domain.s)
        if self.epsilon > EPSILON_MAX:
            raise ValueError(
                f"the local budget of epsilon1 and epsilon2 must be at most {EPSILON_MAX:g}, "
                f"got {self.epsilon:.6g} for epsilon1={self.epsilon1!r}"
            )

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """log p = max(epsilon2, epsilon1 + log(2 E2/(E2+1))): one sign against the other, or against absence.

        epsilon2 where s = d: every key is present. Less than epsilon1 + epsilon2.
        """
        return self._budget(1.0)

    def _budget(self, factor: float) -> float:
        """`epsilon` of both budgets times a factor."""
        first, second = factor * self.epsilon1, factor * self.epsilon2
        return second if self.s == self.d else max(second, first - math.log1p(math.expm1(-second) / 2))

    def with_epsilon(self, epsilon: float) -> PrivKV:
        """Both budgets scaled by one factor, so that the local budget is the given one, or a rounding below."""
        target = check_epsilon(epsilon)

        # epsilon grows with the factor, and is at least epsilon2 times it.
        low, high = 0.0, 2 * target / self.epsilon2
        for _ in range(STEPS):
            middle = (low + high) / 2
            fits = middle * max(self.epsilon1, self.epsilon2) <= EPSILON_MAX and self._budget(middle) <= target
            low, high = (middle, high) if fits else (low, middle)
        return PrivKV(low * self.epsilon1, low * self.epsilon2, self.d, self.s)

    @property
    def domain(self) -> KeyValues:
        """Exactly s pairs out of d keys."""
        return KeyValues(self.d, self.s)

    @property
    def presence(self) -> tuple[float, float]:
        """(A, B) = (E1, 1)/(E1+1)."""
        small = math.exp(-self.epsilon1)
        return 1 / (1 + small), small / (1 + small)

    @property
    def states(self) -> dict[str, Array]:
        """Law of (absent, +, -) given the key, for a user who has it not, or with the value 1, -1, or 0."""
        (a, b), small = self.presence, math.exp(-self.epsilon2)
        keep, flip = a / (1 + small), a * small / (1 + small)
        return {
            "none": np.array([a, b / 2, b / 2]),
            "+": np.array([b, keep, flip]),
            "-": np.array([b, flip, keep]),
            "0": np.array([b, a / 2, a / 2]),
        }

    @property
    def amplification(self) -> VariationRatio:
        """beta = max over c in {max(0, 2s-d), s} of [2 (s-c) t_in + c t_vv]/d, for c common keys with values 1 and -1.

        t_in = max((E1-1)/(E1+1), (E1 E2/(E2+1) - 1/2)/(E1+1)) is the distance of a pair to absence, t_vv = E1 g/(E1+1) that of
        two values. Reports of other keys are alike; distance is convex in the values, hence they are 1 or -1.
        """
        law = self.states
        t_in = max(math.tanh(self.epsilon1 / 2), float(law["+"][1] - law["none"][1]))
        t_vv = self.presence[0] * math.tanh(self.epsilon2 / 2)
        beta = max((2 * (self.s - c) * t_in + c * t_vv) / self.d for c in (max(0, 2 * self.s - self.d), self.s))
        return VariationRatio.ldp(self.epsilon, beta)

    @property
    def published_beta(self) -> float:
        """s/d times the larger of 2 (A-B) + B g and 2 A g, the value in print (Wang et al. 2024).

        An upper bound, which can exceed 1 for 2s > d.
        """
        (a, b), sign = self.presence, math.tanh(self.epsilon2 / 2)
        return self.s / self.d * max(2 * math.tanh(self.epsilon1 / 2) + b * sign, 2 * a * sign)

    @property
    def bits(self) -> float:
        """log2 3d, rounded up."""
        return float(math.ceil(math.log2(3 * self.d)))

    @property
    def width(self) -> int:  # type: ignore[override]
        """Numbers compared or drawn per user."""
        return self.s + 4

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Pairs, shape (n, s, 2) -> 3 key + (0 absent, 1 for +, 2 for -), shape (n,), smallest unsigned dtype."""
        n, (a, b) = values.shape[0], self.presence
        small = math.exp(-self.epsilon2)
        key = rng.integers(0, self.d, n)
        held = values[:, :, 0] == key[:, None]
        has = held.any(axis=1)
        value = np.where(held, values[:, :, 1], 0.0).sum(axis=1)
        minus = (2 * rng.random(n) >= 1 + value) ^ bernoulli(rng, small / (1 + small), n)
        present = np.where(has, bernoulli(rng, a, n), bernoulli(rng, b, n))
        return (3 * key + np.where(present, 1 + minus, 0)).astype(np.min_scalar_type(3 * self.d - 1))

    def aggregate(self, reports: Array) -> Array:
        """Counts of reports, shape (3d,)."""
        return np.bincount(reports, minlength=3 * self.d)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Users per key, then sums of values per key, shape (2d,)."""
        a, b = self.presence
        absent, plus, minus = np.asarray(aggregate).reshape(self.d, 3).T
        users = self.d * (a * (plus + minus) - b * absent) / math.tanh(self.epsilon1 / 2)
        return np.append(users, self.d * (plus - minus) / (a * math.tanh(self.epsilon2 / 2)))

    def variance(self, total: Array, n: int) -> Array:
        """Of each estimate, from users c, sums and sums of squares v2 per key.

        Users: a user who has the key adds d (A^3 + B^3)/(A-B)^2 - 1, another d A B/(A-B)^2. Sums: d A/(A g)^2 - v^2 and
        d B/(A g)^2.
        """
        (a, b), (users, _, squares) = self.presence, total
        gap, sign = math.tanh(self.epsilon1 / 2), math.tanh(self.epsilon2 / 2)
        counts = users * (self.d * (a**3 + b**3) / gap**2 - 1) + (n - users) * (self.d * a * b / gap**2)
        return np.append(counts, self.d * (users * a + (n - users) * b) / (a * sign) ** 2 - squares)

    def inputs(self) -> Array:
        """All sets of s keys with values 1, -1 and 0, shape (C(d, s) 3^s, s, 2)."""
        return np.array(
            [
                list(zip(keys, held, strict=True))
                for keys in itertools.combinations(range(self.d), self.s)
                for held in itertools.product((1.0, -1.0, 0.0), repeat=self.s)
            ]
        )

    def log_channel(self) -> Array | None:
        """The law on 3d reports for tiny instances."""
        if math.comb(self.d, self.s) * 3**self.s * 3 * self.d > ENUMERABLE:
            return None
        names = {1.0: "+", -1.0: "-", 0.0: "0"}
        law = self.states
        rows = np.tile(law["none"], (math.comb(self.d, self.s) * 3**self.s, self.d, 1))
        for row, pairs in zip(rows, self.inputs(), strict=True):
            for key, value in pairs:
                row[int(key)] = law[names[value]]
        with np.errstate(divide="ignore"):
            return np.log(rows.reshape(len(rows), -1) / self.d)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """By the states of the drawn key in x0, x1, x*, and the report; one pair of inputs for each number c of common keys.

        Extreme values are the worst since D is convex in the pair's laws, and a key in the same state in both inputs is better
        turned into different ones: two values, or, with a key that both have not, one in each. In all these the sum of
        X = (R0 - t R1)/floor over two reports with equal floors stays, and the ends move apart. How many keys are then best
        in common depends on n, hence all c are given.
        """
        if self.s > GROUPED:
            return ()
        least, found = max(0, 2 * self.s - self.d), []
        for c in range(least, self.s + 1):
            only, neither = self.s - c, self.d - 2 * self.s + c
            free = min(self.s, neither)
            shared = min(self.s - free, c)
            left = self.s - free - shared
            # Number of keys, their state in x0 and x1, and in inputs of the others: x0, x1, one away from both.
            kinds = [
                (left, "+", "none", "+"),
                (only - left, "+", "none", "none"),
                (only, "none", "+", "none"),
                (shared, "+", "-", "0"),
                (c - shared, "+", "-", "none"),
                (free, "none", "none", "+"),
                (neither - free, "none", "none", "none"),
            ]
            names = [f"others hold {x}, {c} common keys" for x in ("x0", "x1", "pairs away from both")]
            found += self._grouped(kinds, names if c in (least, self.s) else names[:1])
        return tuple(found)

    def _grouped(self, kinds: list[tuple[int, str, str, str]], names: list[str]) -> list[OutcomeGroups]:
        law = self.states
        possible = [law["+"], law["-"], *([law["none"]] if self.s < self.d else [])]
        floor = np.min(possible, axis=0)
        kinds = [kind for kind in kinds if kind[0] > 0]
        masses = [np.concatenate([kind[0] / self.d * law[str(kind[i])] for kind in kinds]) for i in (1, 2, 3)]
        floors = np.concatenate([kind[0] / self.d * floor for kind in kinds])
        return [OutcomeGroups(masses[0], masses[1], masses[i], floors, name) for i, name in enumerate(names)]

    @classmethod
    def examples(cls) -> Iterator[PrivKV]:
        """Typical, tiny, all keys held, extreme."""
        yield cls(epsilon1=1.0, epsilon2=1.5, d=10, s=3)
        yield cls(epsilon1=0.25, epsilon2=1.75, d=2, s=1)
        yield cls(epsilon1=math.log(9), epsilon2=math.log(1.5), d=2, s=1)
        yield cls(epsilon1=1.0, epsilon2=1.0, d=1, s=1)
        yield cls(epsilon1=1e-9, epsilon2=1e-9, d=2, s=1)
        yield cls(epsilon1=300.0, epsilon2=600.0, d=3, s=1)
