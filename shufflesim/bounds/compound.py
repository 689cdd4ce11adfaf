"""Sums that are hidden by a random number of discrete Laplace variables.

Each of n users adds DLap(a) with probability p. A fixed number b of variables can be put on a lattice coarser by h: a geometric
variable with ratio a is h Q + R with independent Q, geometric with ratio a^h, and R on 0..h-1. Showing every R leaves the same
problem with DLap(a^h) on the multiples of h, of which the shift is one if h divides it; it is rounded up otherwise, as the
divergence grows with the shift of a law that is symmetric and falls on both sides of 0. Where b is random, every R would also say
how many there are, so that b has to be shown as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import special

from .count import _log1p
from .directions import Directions
from .discrete_laplace import PolyaDifference
from .negative_binomial import Array
from .present import TAIL_ROUNDING

_MACHINE = float(np.finfo(float).eps)
# Finest lattice (steps in a shift), and most points of a transform.
STEPS_MAX = 512
POINTS_MAX = 2**17
COARSE_POINTS_MAX = 2**14
# Numbers of noisy users that are told apart, where their number is shown.
GROUPS = 10
# log of the mass that is cut off: 1e-30.
LOG_TAIL = -69.0
# Distance of the means of two tilts, in standard deviations.
SPACING = 3.0
# Error of a transform: in the 2-norm, this many units times log2(points); error of an exponent in units of its size.
FFT_ULPS = 8.0
EXPONENT_ULPS = 32.0
# Tilts and Chernoff parameters, as shares of the largest: close to it and close to 0.
_SHARES = np.unique(np.concatenate([np.geomspace(1e-9, 0.5, 700), 1 - np.geomspace(1e-6, 0.5, 700)]))


def compound(budget: float, shift: int, n: int, probability: float) -> Directions:
    """Exact if the lattice is short enough; on a coarser one if the number of noisy users is shown; with one of them alone."""
    exact = CompoundLaplace(budget, shift, n, probability)
    if exact.points <= POINTS_MAX:
        return exact
    most = min(shift, STEPS_MAX)
    while most >= 1:
        # Of the numbers of steps down to half, the one by which rounding up the shift costs least.
        step = min((-(-shift // steps) for steps in range(most, most // 2, -1)), key=lambda h: (h * -(-shift // h), h))
        found = ShownNumber(budget, shift, n, probability, step)
        if found.points <= COARSE_POINTS_MAX:
            return found
        most //= 2
    return OneLaplace(budget, shift, n, probability)


@dataclass(frozen=True)
class OneLaplace(Directions):
    """An upper bound: nobody adds noise, or one variable hides the sum and all others are shown."""

    budget: float
    shift: int
    n: int
    probability: float
    symmetric: ClassVar[bool] = True

    @property
    def nobody(self) -> float:
        """(1-p)^n."""
        return math.exp(self.n * math.log1p(-self.probability)) * (1 + 1e-12) if self.probability < 1 else 0.0

    @property
    def ceiling(self) -> float:
        """Of one variable."""
        return self.budget

    def limits(self) -> tuple[float, float]:
        """That nobody adds noise."""
        return self.nobody * (1 - 1e-11), self.nobody

    def forth(self, eps: float) -> tuple[float, float]:
        """Their sum."""
        low, high = PolyaDifference(self.budget, self.shift).forth(eps)
        return low + self.nobody * (1 - 1e-11), high + self.nobody

    def back(self, eps: float) -> tuple[float, float]:
        """The same."""
        return self.forth(eps)


@dataclass(frozen=True)
class CompoundLaplace(Directions):
    """P, the sum of Binomial(n, p) variables DLap(a) on a lattice, against P + shift.

    Parameters
    ----------
    budget : float
        log(1/a) = budget/shift.
    shift : int
        Distance of the two sums, >= 1.
    n : int
        Users.
    probability : float
        p in (0, 1].
    step : int
        h; above 1 only for p = 1, where it gives an upper bound.

    Notes
    -----
    With the law psi of DLap, E e^(zX) = (1 - p + p psi(z))^n. P(k) is computed by a discrete Fourier transform of the law tilted
    by e^(tk), for some t such that every k is near the mean of one: each has an absolute error, that of the transform, of its
    input, and of the mass that comes from beyond its ends (Chernoff), times M(t) e^(-tk). Positive parts are summed with these.
    """

    budget: float
    shift: int
    n: int
    probability: float
    step: int = 1
    symmetric: ClassVar[bool] = True

    @property
    def distance(self) -> int:
        """The shift in steps, rounded up."""
        return -(-self.shift // self.step)

    @property
    def log_a(self) -> float:
        """Of one step."""
        return -self.budget * (self.step / self.shift)

    @property
    def ceiling(self) -> float:
        """log(e^b + (1-p)(1+a) e^b/(n p (1-a))), b the budget: e^b bounds every ratio but that of no noise at all."""
        a, b = self.log_a, -self.log_a * self.distance
        nobody = (1 - self.probability) * (1 + math.exp(a)) / (self.n * self.probability * -math.expm1(a))
        return (b + math.log1p(nobody)) * (1 + 1e-12)

    def limits(self) -> tuple[float, float]:
        """0: all ratios are finite."""
        return 0.0, 0.0

    def _excess(self, x: Array) -> Array:
        """p (psi(x) - 1) for real x, where psi(x) = (1-a)^2/((1 - a e^x)(1 - a e^-x)) without cancellation."""
        product = np.expm1(self.log_a + x) * np.expm1(self.log_a - x)
        found: Array = self.probability * 4 * math.exp(self.log_a) * np.sinh(x / 2) ** 2 / product
        return found

    def _turned(self, t: Array, tilt: float) -> Array:
        """p (psi(tilt + it) - psi(tilt))."""
        a = math.exp(self.log_a)
        base = math.expm1(self.log_a + tilt) * math.expm1(self.log_a - tilt)
        turn = 2 * a * (-2 * math.cosh(tilt) * np.sin(t / 2) ** 2 + 1j * math.sinh(tilt) * np.sin(t))
        found: Array = self.probability * math.expm1(self.log_a) ** 2 * turn / (base * (base - turn))
        return found

    def _log_moment(self, tilt: float) -> float:
        return float(self.n * np.log1p(self._excess(np.array(tilt))))

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """(t, log M(t)) on a grid up to the largest t."""
        t = -self.log_a * _SHARES
        return t, self.n * np.log1p(self._excess(t))

    @cached_property
    def reach(self) -> int:
        """W with Pr[X > W] below e^LOG_TAIL."""
        t, log_m = self._moments
        return math.ceil(float(((log_m - LOG_TAIL) / t).min())) + 1

    @property
    def points(self) -> int:
        """Length of the transforms: twice what is looked at."""
        need = 2 * (self.reach + self.distance + 2)
        return 1 << math.ceil(math.log2(need)) if need < 2**60 else 2**60

    @cached_property
    def tilts(self) -> list[float]:
        """0, and as many as it takes to be near every k."""
        t, log_m = self._moments
        mean = np.gradient(log_m, t)
        spread = np.sqrt(np.maximum(np.gradient(mean, t), 0.0))
        found, at = [0.0], SPACING * float(spread[0])
        while at < self.reach + self.distance and mean[-1] > at:
            index = int(np.searchsorted(mean, at))
            found.append(float(t[index]))
            at = max(float(mean[index]), at) + SPACING * max(float(spread[index]), 1.0)
        return found

    @cached_property
    def law(self) -> tuple[Array, Array]:
        """P(k) for k = 0..reach + distance, and bounds on the absolute errors."""
        size, points = self.reach + self.distance + 1, self.points
        k = np.arange(size)
        value, error = np.zeros(size), np.full(size, np.inf)
        for tilt in self.tilts:
            tilted, doubt = self._transform(tilt, points)
            log_m = self._log_moment(tilt)
            factor = np.exp(np.minimum(log_m - tilt * k, 700.0))
            here = factor * tilted[:size]
            bound = (factor * doubt + EXPONENT_ULPS * _MACHINE * (1 + log_m + tilt * k) * np.abs(here)) * (1 + 1e-9)
            value, error = np.where(bound < error, here, value), np.minimum(error, bound)
        return np.maximum(value, 0.0), error + 1e-300

    def _transform(self, tilt: float, points: int) -> tuple[Array, float]:
        """The tilted law modulo `points`, and its error."""
        t = 2 * math.pi / points * np.arange(points // 2 + 1)
        exponent = self.n * _log1p(self._turned(t, tilt) / (1 + float(self._excess(np.array(tilt)))))
        transform = np.exp(exponent)
        law = np.fft.irfft(np.conj(transform), points)
        inner = 2 / points * float((np.abs(transform) * EXPONENT_ULPS * _MACHINE * (1 + np.abs(exponent))).sum())
        outer = FFT_ULPS * _MACHINE * math.log2(points) * math.sqrt(float((law**2).sum()))
        return law, inner + outer + self._alias(tilt, points)

    def _alias(self, tilt: float, points: int) -> float:
        """Tilted mass beyond `points`, and below -(points - reach - distance)."""
        t, log_m = self._moments
        own = self._log_moment(tilt)
        above = float((log_m - own - (t - tilt) * points).min())
        below = float((log_m - own - (t + tilt) * (points - self.reach - self.distance)).min())
        return math.exp(min(above, 0.0)) + math.exp(min(below, 0.0))

    @cached_property
    def _rows(self) -> tuple[Array, Array, Array, Array]:
        """P(x) and P(x - distance) with their errors for x = -reach..distance/2: further right no term is positive."""
        law, error = self.law
        x = np.arange(-self.reach, (self.distance - 1) // 2 + 1)
        here, there = np.abs(x), self.distance - x
        return law[here], error[here], law[there], error[there]

    def forth(self, eps: float) -> tuple[float, float]:
        """A sum over x."""
        growth = math.exp(min(eps, 700.0))
        first, doubt, second, unsure = self._rows
        terms, error = first - growth * second, doubt + growth * unsure + 4 * _MACHINE * (first + growth * second)
        low, high = (float(np.maximum(0.0, terms + side * error).sum()) for side in (-1, 1))
        # One variable alone is a larger bound, but without a floor.
        alone = OneLaplace(self.budget, self.shift, self.n, self.probability).forth(eps)[1]
        return low * (1 - 1e-13), min(alone, high * (1 + 1e-13) + math.exp(LOG_TAIL))

    def back(self, eps: float) -> tuple[float, float]:
        """The same."""
        return self.forth(eps)


@dataclass(frozen=True)
class ShownNumber(Directions):
    """An upper bound: the number of noisy users is shown, in groups of which the smallest number counts.

    With B ~ Binomial(n, p) and D_b the divergence for b noisy users, which falls as b grows,

        D <= Pr[B < b_0] + sum_i Pr[b_i <= B < b_(i+1)] D_(b_i)   for any b_0 < b_1 < ... .
    """

    budget: float
    shift: int
    n: int
    probability: float
    step: int
    symmetric: ClassVar[bool] = True

    @cached_property
    def groups(self) -> list[tuple[int, float]]:
        """(b_i, an upper bound on the group's probability), from the largest b_0 with a tail below e^LOG_TAIL up to the mean."""
        mean = max(1, math.floor(self.n * self.probability))
        good, bad = 0, mean + 1
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._below(middle) <= math.exp(LOG_TAIL) else (good, middle)
        starts = sorted({round(x) for x in np.linspace(good, mean, GROUPS + 1)})
        ends = [self._below(b) for b in starts]
        # Differences of tails: rounded up by what both may be wrong.
        doubt = TAIL_ROUNDING[0] + TAIL_ROUNDING[1] * self.n
        found = [(b, max(0.0, e1 - e0) + doubt * e1) for b, e0, e1 in zip(starts, ends, ends[1:], strict=False)]
        return [(0, ends[0] * (1 + doubt)), *found, (starts[-1], 1 - ends[-1] + doubt)]

    def _below(self, b: int) -> float:
        """Pr[B < b]."""
        if b <= 0 or self.probability == 1:
            return 0.0 if b <= self.n else 1.0
        return float(special.betainc(self.n - b + 1.0, float(b), 1 - self.probability))

    @cached_property
    def parts(self) -> list[tuple[float, CompoundLaplace | None]]:
        """(probability, divergence); None for nobody."""
        return [
            (weight, CompoundLaplace(self.budget, self.shift, b, 1.0, self.step) if b else None)
            for b, weight in self.groups
            if weight > 0
        ]

    @property
    def points(self) -> int:
        """Length of the largest transform."""
        last = self.parts[-1][1]
        return last.points if last else 1

    @property
    def ceiling(self) -> float:
        """Of one variable."""
        return self.budget

    def limits(self) -> tuple[float, float]:
        """That nobody adds noise."""
        nobody = sum(weight for weight, part in self.parts if part is None)
        return 0.0, min(1.0, nobody)

    def forth(self, eps: float) -> tuple[float, float]:
        """The mean over the groups."""
        ends = [(weight, part.forth(eps) if part else (1.0, 1.0)) for weight, part in self.parts]
        low, high = (math.fsum(weight * end[side] for weight, end in ends) for side in (0, 1))
        alone = OneLaplace(self.budget, self.shift, self.n, self.probability).forth(eps)[1]
        return min(low, alone) * (1 - 1e-13), min(alone, high * (1 + 1e-13))

    def back(self, eps: float) -> tuple[float, float]:
        """The same."""
        return self.forth(eps)
