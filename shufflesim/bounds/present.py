"""A bound that is known for any number of users, for users who may be absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from scipy import special

from .claim import Ends, Value
from .crowd import Crowd

# Share of delta that goes to crowds smaller than the one that is evaluated.
TAIL_SHARE = 1e-3
# Smallest tail that is asked for.
TAIL_MIN = 1e-290
# Relative accuracy of the incomplete beta function here: 5e-17 per user beyond a few digits (see `exact.TAIL_ACCURACY`).
TAIL_ROUNDING = (1e-12, 1e-16)


def present(crowd: Crowd, value_of: Callable[[int], Value]) -> Value:
    """`value_of(n)` for a complete crowd of n users; otherwise averaged over the number of users who are there.

    `value_of` must not grow with the number of users.
    """
    return value_of(crowd.n) if crowd.complete else Present(crowd, value_of)


@dataclass(frozen=True)
class Present:
    """User 1 and Binomial(n - 1, `crowd.present`) others; everybody sees how many they are.

    Revealing who is absent, D is the mean of D_N over the number N of users. D_N does not grow with N, so that for any m

        D_n <= D <= D_m + Pr[N < m].
    """

    crowd: Crowd
    value_of: Callable[[int], Value]

    @cached_property
    def whole(self) -> Value:
        """With everybody there."""
        return self.value_of(self.crowd.n)

    def least(self, tail: float) -> tuple[int, float]:
        """(m, an upper bound on Pr[N < m] that is at most `tail`) for the largest m that bisection finds; m >= 1."""
        others = self.crowd.n - 1
        rounding = 1 + TAIL_ROUNDING[0] + TAIL_ROUNDING[1] * others

        def below(m: int) -> float:
            # Pr[Bin(others, present) < m - 1] = Pr[Bin <= m - 2].
            if m <= 1:
                return 0.0
            return float(special.betainc(others - m + 2.0, m - 1.0, 1 - self.crowd.present)) * rounding

        good, bad = 1, others + 2
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if below(middle) <= tail else (good, middle)
        return good, below(good)

    def delta(self, eps: float, rtol: float) -> Ends:
        """Between everybody there and the quantile with its tail; the tail is a small share of what is found at the mean."""
        low, _, _ = self.whole.delta(eps, rtol)
        mean = 1 + int((self.crowd.n - 1) * self.crowd.present)
        near = self.value_of(mean).delta(eps, rtol)[1]
        m, tail = self.least(max(TAIL_SHARE * near, TAIL_MIN))
        high, method = self.value_of(m).delta(eps, rtol)[1:]
        return low, min(1.0, (high + tail) * (1 + 1e-15)), f"{method}, {m} users at least"

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """The quantile at delta less its tail."""
        low, _, _ = self.whole.epsilon(delta, rtol)
        m, tail = self.least(TAIL_SHARE * delta)
        high, method = self.value_of(m).epsilon((delta - tail) * (1 - 1e-15), rtol)[1:]
        return low, high, f"{method}, {m} users at least"

    def limits(self) -> tuple[float, float]:
        """From everybody there up to nobody but user 1."""
        return self.whole.limits()[0], self.value_of(1).limits()[1]

    def remark(self, delta: float) -> str:
        """How absent users enter."""
        return "absent users: a quantile of their number and its tail"
