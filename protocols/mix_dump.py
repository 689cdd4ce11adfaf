"""mixDUMP: a value perturbed a little, and the same number of uniform dummies from every user.

Source: Li et al., "Privacy enhancement via dummy points in the shuffle model", IEEE TDSC 2023; its bound is from memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from shufflesim._checks import EPSILON_MAX, EPSILON_TINY, check_number
from shufflesim._sampling import bernoulli
from shufflesim.bounds import Claim, Crowd, MessageCount, Pairs, Part, Table, VariationRatio, declared_claims_for
from shufflesim.domains import Array, Categories
from shufflesim.protocol import meet

from ._dummies import DUMMIES_MAX, LabelledDummies, check_target
from .pure_dump import DumpForm, check_dump_target, check_whole_dummies

# Relative margin of a flip that a closed form is solved for, above the roundings of its evaluation.
FLIP_MARGIN = 1e-12


@dataclass(frozen=True)
class MixDUMP(LabelledDummies):
    """Each user sends the value, or with probability `flip` another label, and `dummies` labels uniform on all d.

    Parameters
    ----------
    d : int
        Number of categories; >= 2.
    flip : float
        Probability f that the report is not the value; below (d-1)/d, where nothing would be left of it, and so large that the
        local eps, log((1-f)(d-1)/f), is at most 700.
    dummies : int
        Dummies per user, sigma; in [1, 1e6].

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    The report is the value with probability kappa = 1 - gamma, gamma = f d/(d-1), else uniform on all d. With g = f/(d-1)

        est_j = (N_j - n g - n sigma/d)/kappa,
        Var_j = (c_j f(1-f) + (n - c_j) g(1-g) + n sigma (1/d)(1-1/d))/kappa^2.

    p = (1-f)/g, beta = 1-f-g, q = (1-f) d. Among dummies the neutral part is a clone of the other d-2 labels (q* = gamma), so
    that the published pair is exact for user 1 among the dummies. The uniform ones among the others' reports hide user 1 too:
    Bin(n-1, gamma) further messages, which is the bound "accountant". Its proof: reveal the others' reports that are their
    values, and remove them.

    Examples
    --------
    >>> MixDUMP(d=3, flip=0.25, dummies=1).amplification
    VariationRatio(p=6, beta=0.625, q=2.25, q_star=0.375)
    >>> round(MixDUMP.original(0.5, 1e-8, 15_000, d=16, dummies=1).flip, 3)
    0.304
    >>> round(MixDUMP.for_target(0.125, 1e-8, 15_000, d=16, dummies=1).flip, 3)
    0.308
    """

    d: int
    flip: float
    dummies: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", Categories(self.d).d)
        least, top = _flip_of(EPSILON_MAX, self.d), 1 - 1 / self.d
        rule = f"a number in [{least:.3g}, {top:.6g})"
        flip = check_number("flip", self.flip, rule, low=least, high=1.0)
        if not Fraction(flip) < 1 - Fraction(1, self.d):
            raise ValueError(f"flip must be {rule}, got {self.flip!r}: nothing would be left of the value")
        object.__setattr__(self, "flip", flip)
        object.__setattr__(self, "dummies", check_whole_dummies(self.dummies))

    @property
    def exact_law(self) -> tuple[Fraction, Fraction, Fraction]:
        """(1-f, g, gamma), the flip being taken as exact, so that nothing cancels."""
        flip = Fraction(self.flip)
        g = flip / (self.d - 1)
        return 1 - flip, g, g * self.d

    @property
    def truthful(self) -> float:
        """Probability kappa that the report depends on the value."""
        return float(1 - self.exact_law[2])

    @property
    def local_epsilon(self) -> float:
        """log((1-f)/g), rounded up; the user's own dummies do not lower it."""
        own, other, _ = self.exact_law
        return math.nextafter(math.log1p(float(own / other - 1)) * (1 + 4e-16), math.inf)

    @property
    def amplification(self) -> VariationRatio:
        """((1-f)/g, 1-f-g, (1-f) d, q* = gamma).

        All are rounded up. A p that is too large by a relative e leaves some of the neutral part on the two labels; a q that is
        too large by more than e makes up for it.
        """
        own, other, gamma = self.exact_law
        p = _up(own / other)
        beta = (p - 1) / (p + 1) if self.d == 2 else _up(own - other)
        return VariationRatio(p, beta, _up(own * self.d) * (1 + 8e-16), q_star=_up(gamma))

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The declaration's bounds for the dummies alone; with the others' uniform reports; and what all of these would give.

        Where the others' values are uniform, so are all their reports. A mixture over the others' data cannot exceed the worst of
        them (joint convexity), so that n - 1 more messages give a lower bound.
        """
        own, other, gamma = self.exact_law
        weight = np.array([1 / self.d, 1 / self.d, 1 - 2 / self.d])
        hit, miss, gap = float(own * self.d), float(gamma), float((own - other) * self.d)
        rows = np.array([[hit, miss, gap], [miss, hit, -gap], [miss, miss, 0.0]])
        table = Table(weight, *rows.T)
        alone, why = Pairs((table,), self.blanket(crowd)), "V2: exact for user 1 among the dummies"
        claims = [
            replace(c, sound=True, note=why, value=alone) if c.bound in ("published", "three-outcome") else c
            for c in declared_claims_for(self.amplification, self.blanket(crowd))
        ]
        if crowd.complete:
            total = crowd.n * self.dummies
            claims.append(DumpForm(self.local_epsilon, self.d, total, float(gamma) * (crowd.n - 1), 4).claim)
        source = "user 1 among the dummies and the others' uniform reports"
        more, most = (Pairs((table,), self._hidden_by(crowd, uniform)) for uniform in (float(gamma), 1.0))
        return [
            *claims,
            Claim("accountant", "upper", True, source, "the others' values are revealed", more),
            Claim("lower", "lower", True, source, "the others' values are uniform at random", most),
        ]

    def _hidden_by(self, crowd: Crowd, uniform: float) -> MessageCount:
        """The blanket, and of each other user who is there a further message with probability `uniform`."""
        sizes = (self.dummies, self.dummies + 1)
        if crowd.complete:
            return MessageCount(1 + crowd.n * self.dummies, Part(crowd.n - 1, (1,), (uniform,)))
        sent = (crowd.present * (1 - uniform), crowd.present * uniform)
        return MessageCount(1 + self.dummies, Part(crowd.n - 1, sizes, sent))

    def report(self, values: Array, blank: Array, rng: np.random.Generator) -> Array:
        """The value with probability kappa, else a uniform label."""
        return np.where(bernoulli(rng, self.truthful, values.shape[0]), values, blank)

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Counts: messages per label minus what comes from other values and from dummies, over kappa."""
        uniform = float(self.exact_law[1]) + self.dummies / self.d
        return (aggregate - n * uniform) / self.truthful

    def variance(self, total: Array, n: int) -> Array:
        """Of the reports of users with and without that value, and of the dummies."""
        own, other, _ = self.exact_law
        holders, others = float(own * (1 - own)), float(other * (1 - other))
        dummies = n * self.dummies * (1 / self.d) * (1 - 1 / self.d)
        return (total * holders + (n - total) * others + dummies) / self.truthful**2

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array:
        """Values that are kept are binomial, all other messages one multinomial."""
        return self.spread(rng.binomial(totals, self.truthful), int(totals.sum()), rng)

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int, *, d: int, dummies: int = 1) -> Self:
        """As in the paper: the smallest flip whose bound is at most epsilon.

        Parameters
        ----------
        epsilon, delta : float
            The target: eps in (0, 1], delta in (0, 0.2907].
        n : int
            Number of users, all honest.
        d : int
            Number of categories.
        dummies : int
            Dummies per user.

        Notes
        -----
        eps <= sqrt(14 d ln(4/delta)/(M-1)) + 27 d/(M-1) with M = m + n sigma - sqrt(2 m ln(2/delta)), m = gamma (n-1). Both
        are quadratic, in 1/sqrt(M-1) and in sqrt(m). Where the dummies alone are enough the flip is the smallest there is.
        """
        epsilon, delta, n = check_dump_target(epsilon, delta, n)
        d, dummies = Categories(d).d, check_whole_dummies(dummies)
        linear = math.sqrt(14 * d * (math.log(4) - math.log(delta)))
        needed = 1 + ((linear + math.sqrt(linear * linear + 108 * d * epsilon)) / (2 * max(epsilon, EPSILON_TINY))) ** 2
        loss = 2 * (math.log(2) - math.log(delta))
        if n * dummies > needed:
            return cls(d, _flip_of(EPSILON_MAX, d), dummies)
        root = (math.sqrt(loss) + math.sqrt(loss + 4 * (needed - n * dummies))) / 2
        gamma = root * root / (n - 1) * (1 + FLIP_MARGIN) if n > 1 else math.inf
        if gamma >= 1:
            # M > needed as gamma approaches 1.
            least = (needed - (n - 1) + math.sqrt((n - 1) * loss)) / n
            enough = f"{math.floor(least) + 1:,} would be enough" if least < DUMMIES_MAX else "no number is enough"
            rule = f"dummies must be enough for epsilon={epsilon!r}, delta={delta!r}, n={n}"
            raise ValueError(f"{rule}, got {dummies}; {enough}")
        return cls(d, gamma * (1 - 1 / d), dummies)

    @classmethod
    def for_target(cls, epsilon: float, delta: float, n: int, *, d: int, dummies: int = 1) -> Self:
        """The smallest flip whose sound eps is at most epsilon; arguments as in `original`, any eps > 0.

        Such a flip exists, as the central eps does not exceed the local one.
        """
        epsilon, delta, n = check_target(epsilon, delta, n)
        d = Categories(d).d
        within = (min(epsilon, EPSILON_MAX) * (1 - 1e-9), EPSILON_MAX)
        return meet(lambda local: cls(d, _flip_of(local, d), dummies), epsilon, delta, n, find="largest", within=within)

    def retargeted(self, epsilon: float, delta: float, n: int) -> Self:
        """`for_target` for the same d and dummies."""
        return self.for_target(epsilon, delta, n, d=self.d, dummies=self.dummies)

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny, hardly perturbed, hardly anything left."""
        yield cls(d=16, flip=0.3, dummies=2)
        yield cls(d=2, flip=0.2, dummies=1)
        yield cls(d=3, flip=1e-12, dummies=1)
        yield cls(d=300, flip=0.9, dummies=3)


def _flip_of(local: float, d: int) -> float:
    """(d-1)/(e^local + d-1), rounded up: a local eps of at most `local`."""
    return _up((d - 1) / (Fraction(math.expm1(local)) + d))


def _up(value: Fraction) -> float:
    return math.nextafter(float(value), math.inf)
