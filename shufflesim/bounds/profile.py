"""A bound's whole privacy curve from few evaluations: piecewise linear enclosures that are curves of pairs themselves.

The curve of a pair (P, Q) is h(t) = D_{log t}(P||Q), t > 0. It is convex, non-increasing, h(0) = 1 and h(t) >= max(0, 1 - t), and
any function like that is the curve of some pair. A pair whose curve is nowhere smaller dominates, also in adaptive composition
(Zhu, Dong, Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS 2022).

Here h is the larger one of both directions. It inherits these properties, so that one pair dominates both directions of every
round, and it is symmetric: h(1/t) = 1 - 1/t + h(t)/t. The right half t >= 1 therefore says everything. x = t - 1 is stored
instead of t, so that losses of 1e-9 keep their digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .api import Bounded, claims_of
from .claim import Claim, Value
from .crowd import Crowd
from .table import Array

# Losses beyond this count as infinite where the local eps is: e^eps has to stay far from overflow.
LOSS_MAX = 300.0
# Where the local eps is inf: how near to the limit the last knot has to be.
LIMIT_SHARE = 1e-3
# Points of a piecewise linear curve keep this distance, in units of the distance of the knots.
NEAR = 1e-3
# delta(0) of a Gaussian pair is about 0.4 times the deviation of its loss.
DEVIATIONS = 2.5


@dataclass(frozen=True)
class Pair:
    """A pair by its privacy loss: probabilities under P; those under Q follow from the losses.

    Parameters
    ----------
    losses, masses : ndarray of float64, shape (k,)
        log(P/Q), and the probability of it under P.
    infinite : float
        Probability under P of outcomes that Q never has.
    """

    losses: Array
    masses: Array
    infinite: float


@dataclass(frozen=True)
class Curve:
    """Enclosures of a bound's curve at some eps >= 0.

    Parameters
    ----------
    losses : ndarray of float64, shape (k,)
        Increasing, from 0.
    lower, upper : ndarray of float64, shape (k,)
        lower <= h <= upper, both non-increasing.
    limit : float
        Lower end of what h tends to.
    local : float
        From this eps on h is 0.
    """

    losses: Array
    lower: Array
    upper: Array
    limit: float
    local: float

    def above(self) -> Pair:
        """A pair that dominates: the chords of the greatest convex curve below the upper values.

        The exact curve is convex and nowhere above the upper values, so its own chords lie below this curve, and it lies below
        its chords. A value that breaks convexity carries slack, and dropping it is safe. With the flat end after the last value
        this is the pessimistic discretisation of Doroshenko et al., "Connect the dots" (PoPETs 2022), on uneven losses.
        """
        return _pair(np.expm1(self.losses), self.upper)

    def below(self) -> Pair:
        """A pair that is dominated: between two knots a convex curve lies above its neighbouring chords, prolonged.

        The greatest convex curve below these lines and the lower values is the curve of a pair.
        """
        inside = self.losses < self.local
        x, low, high = np.expm1(self.losses[inside]), self.lower[inside], self.upper[inside]
        if len(x) < 2:
            return Pair(np.zeros(1), np.ones(1), 0.0)
        step = np.diff(x)
        # The steepest way in which the curve may reach a knot, the first from its mirror image; the flattest to leave it.
        mirrored = (low[0] - _mirrored_value(x[1], high[1])) / (x[1] / (1 + x[1]))
        enters = np.append(mirrored, (low[1:] - high[:-1]) / step)
        leaves = np.append((high[1:] - low[:-1]) / step, 0.0)
        bend = leaves[1:] - enters[:-1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            way = (low[:-1] - low[1:] + leaves[1:] * step) / bend / step
        # Where the two lines do not meet in the cell, the chord of the lower values is below one of them. Where they meet next
        # to a knot, one of them alone is used, down to that knot: points that are too close have no slope.
        ys = low.copy()
        early, late = (bend > 0) & (way > 0) & (way < NEAR), (bend > 0) & (way > 1 - NEAR) & (way < 1)
        ys[:-1][early] = np.minimum(ys[:-1], low[1:] - leaves[1:] * step)[early]
        ys[1:][late] = np.minimum(ys[1:], low[:-1] + enters[:-1] * step)[late]
        meet = (bend > 0) & (way >= NEAR) & (way <= 1 - NEAR)
        xs = np.concatenate([x, (x[:-1] + way * step)[meet]])
        ys = np.concatenate([ys, (low[:-1] + enters[:-1] * way * step)[meet]])
        # After the last knot down to the limit along the last chord, or faster.
        fall = (low[-1] - self.limit) / -enters[-1] if enters[-1] < 0 else 0.0
        end = x[-1] + (min(fall, 1 + x[-1]) if fall >= NEAR * step[-1] else 0.0)
        order = np.argsort(np.append(xs, end), kind="stable")
        return _pair(np.append(xs, end)[order], np.append(ys, self.limit)[order])


def sound_claims(x: Bounded, crowd: Crowd) -> list[Claim]:
    """The proved upper bounds of x that are no looser forms of another, each value once."""
    found: dict[Value, Claim] = {}
    for claim in claims_of(x, crowd):
        if claim.side == "upper" and claim.sound and not claim.baseline:
            found.setdefault(claim.value, claim)
    return list(found.values())


class Sampler:
    """Enclosures of one claim's curve, the larger one of both directions."""

    def __init__(self, claim: Claim, local: float, rtol: float) -> None:
        self.value, self.local, self.rtol = claim.value, local, rtol

    def __call__(self, eps: float) -> tuple[float, float]:
        """(lower, upper) at eps >= 0."""
        if eps >= self.local:
            return 0.0, 0.0
        low, high, _ = self.value.delta(eps, self.rtol)
        return low, high

    @property
    def unbounded(self) -> bool:
        """Whether P has outcomes that Q never has."""
        return self.local == math.inf and self.value.limits()[1] > 0

    def limits(self) -> tuple[float, float]:
        """(lower, upper) of what h tends to."""
        return (0.0, 0.0) if self.local < math.inf else self.value.limits()

    def tail(self, mass: float, start: float) -> float:
        """An eps >= start from where on h is at most `mass` above its limit; local or LOSS_MAX where that is too much to ask."""
        top = min(self.local, LOSS_MAX)
        target = self.limits()[1] * (1 + LIMIT_SHARE) + mass
        low, high = 0.0, min(start, top)
        while high < top and self(high)[1] > target:
            low, high = high, min(2 * high, top)
        # To a tenth: what matters is that neither many knots nor much mass lie beyond.
        while low > 0 and high - low > 0.1 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self(middle)[1] <= target else (middle, high)
        return high

    def curve(self, losses: Array) -> Curve:
        """The curve at given eps, increasing from 0."""
        ends = np.array([self(float(eps)) for eps in losses])
        lower = np.maximum.accumulate(ends[::-1, 0])[::-1]
        return Curve(losses, lower, np.minimum.accumulate(ends[:, 1]), min(self.limits()[0], float(lower[-1])), self.local)


def knots(deviation: float, end: float, fineness: int) -> Array:
    """Losses from 0 to end: `fineness` per deviation up to three of them, from there on in geometric progression."""
    step = min(deviation, end / 6) / fineness
    straight = step * np.arange(3 * fineness)
    start = 3 * fineness * step
    count = max(1, math.ceil(math.log(max(end / start, 1.0)) * 3 * fineness))
    return np.unique(np.concatenate([straight, np.geomspace(start, end, count + 1)[:-1], [end]]))


def _mirrored_value(x: Array, y: Array) -> Array:
    """h at -x/(1+x), which is 1/t - 1, from h at x."""
    value: Array = (x + y) / (1 + x)
    return value


def _pair(x: Array, y: Array) -> Pair:
    """The pair whose symmetric curve is the greatest convex one below the points (x, y), x >= 0, flat after the last."""
    mirror = x > 0
    xs = np.concatenate([(-x / (1 + x))[mirror][::-1], x])
    ys = np.concatenate([_mirrored_value(x, y)[mirror][::-1], y])
    kept = _hull(xs, ys)
    xs, ys = xs[kept], ys[kept]
    slope = np.append(np.diff(ys) / np.diff(xs), 0.0)
    right = np.flatnonzero(xs > 0)
    if xs[first := int(right[0]) - 1] < 0:
        # No kink at 0: the slope across the mirror follows from the symmetry alone.
        slope[first] = (ys[first + 1] - 1) / (2 + xs[first + 1])
    # The slope of h is -Q[loss > log t]: each kink is a probability under Q, and 1 + x times as much under P.
    q = np.maximum(slope[right] - slope[right - 1], 0.0)
    losses, p = np.log1p(xs[right]), q * (1 + xs[right])
    centre = max(0.0, 1 - float(ys[-1]) - math.fsum(p) - math.fsum(q))
    return Pair(
        np.concatenate([-losses[::-1], [0.0], losses]),
        np.concatenate([q[::-1], [centre], p]),
        float(ys[-1]),
    )


def _hull(x: Array, y: Array) -> list[int]:
    """Indices of the lower convex hull of points with increasing x (Andrew's monotone chain)."""
    kept: list[int] = []
    for i in range(len(x)):
        if kept and x[i] <= x[kept[-1]]:
            if y[i] >= y[kept[-1]]:
                continue
            kept.pop()
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) / (x[b] - x[a]) < (y[i] - y[b]) / (x[i] - x[b]):
                break
            kept.pop()
        kept.append(i)
    return kept
