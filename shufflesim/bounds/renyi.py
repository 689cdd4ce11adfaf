"""Renyi divergence of the pair that bounds a shuffled protocol, from its privacy curve."""

from __future__ import annotations

import math

import numpy as np

from .._checks import check_number
from .api import Bounded
from .bracket import Bracket
from .crowd import Crowd
from .profile import DEVIATIONS, LOSS_MAX, Pair, Sampler, knots, sound_claims
from .table import Array

# Knots per deviation of the loss, relative slack of each value, and the ratio of the steps beyond what matters.
FINENESS, CURVE_RTOL, STRIDE = 32, 3e-5, 1.2
# What is left to the long steps, in units of the result at order 2.
REST = 1e-6


def renyi(
    x: Bounded, n: int, order: float, *, n_honest: int | None = None, dropout: float = 0.0, sampling: float = 1.0
) -> Bracket:
    """Renyi divergence of a shuffled protocol, as bounded by its sound bound.

    Parameters
    ----------
    x : VariationRatio, Randomizer or Protocol
        What is bounded.
    n : int
        Number of users, >= 1.
    order : float
        Finite, > 1.
    n_honest, dropout, sampling
        Who takes part; see `delta`.

    Returns
    -------
    Bracket
        `lower <= D_order <= upper` in nats, for the symmetric pair whose privacy curve is the larger of both directions; inf
        where one input has outputs that the other never has.

    Raises
    ------
    ValueError
        For an n or order that is out of range.

    Notes
    -----
    With f(t) = t^order, E_Q[(P/Q)^order] = 1 + the integral of f''(t) (h(t) - max(0, 1 - t)) over t > 0, where h is the privacy
    curve. It grows with h; the ends are the divergences of two discrete pairs with piecewise linear curves above and below h
    (`shufflesim/bounds/profile.py`). Several rounds add up. The relative slack is below 1e-3 for
    budgets from 1e-3, as long as order times the local eps stays below 600; beyond, `upper` may be as large as the local eps.

    Cost: some 150 to 350 values of the curve, 0.2 to 2 s; more where the engine sums exactly (n = 100 to 1e4, large orders).

    Examples
    --------
    A shuffled randomized response behaves as a Gaussian mechanism: the divergence is nearly proportional to the order.

    >>> from shufflesim import VariationRatio
    >>> x = VariationRatio(p=3, beta=0.5, q=3)
    >>> two, four = (renyi(x, 10**6, order) for order in (2, 4))
    >>> round(four.upper / two.upper, 3)
    2.0
    >>> two.slack < 1e-3 * two.upper
    True
    """
    crowd = Crowd.of(n, n_honest, dropout, sampling)
    order = check_number("order", order, "a finite number > 1", low=math.nextafter(1.0, 2.0))
    found = [_of_claim(Sampler(claim, x.local_epsilon, CURVE_RTOL), order) for claim in sound_claims(x, crowd)]
    return Bracket(min(b.lower for b in found), min(b.upper for b in found), "upper", found[0].method)


def _of_claim(sampler: Sampler, order: float) -> Bracket:
    deviation = DEVIATIONS * sampler(0.0)[1]
    if deviation == 0:
        return Bracket(0.0, 0.0, "upper", "nothing is revealed")
    if sampler.unbounded:
        return Bracket(math.inf, math.inf, "upper", "infinite losses")
    top, end = min(sampler.local, LOSS_MAX), 3 * deviation
    rest = math.log(REST) + 2 * math.log(deviation)
    while end < top and (high := sampler(end)[1]) > 0 and math.log(high) + STRIDE * (order - 1) * end > rest:
        end *= STRIDE
    end = min(end, top)
    strides = end * STRIDE ** np.arange(1, max(1, math.ceil(math.log(top / end) / math.log(STRIDE))))
    losses = np.unique(np.concatenate([knots(deviation, end, FINENESS), strides[strides < 0.99 * top], [top]]))
    curve = sampler.curve(losses)
    above, below = curve.above(), curve.below()
    upper = _divergence(above, order, +1) if above.infinite == 0 else math.inf
    upper = min(upper, sampler.local)
    return Bracket(min(_divergence(below, order, -1), upper), upper, "upper", f"privacy curve at {len(losses)} points")


def _divergence(pair: Pair, order: float, side: int) -> float:
    """Of a discrete pair; rounded up or down as `side` says."""
    a = order - 1
    losses, masses = pair.losses, pair.masses
    if a * losses[-1] > 600:
        kept = masses > 0
        w = np.log(masses[kept]) + a * losses[kept]
        return float((w.max() + math.log(np.exp(w - w.max()).sum())) / a) * (1 + side * 1e-13)
    # E_P[(P/Q)^(a) - 1], plus a times E_P[Q/P - 1] = 0, so that every term is positive.
    first: Array = np.expm1(a * losses)
    second: Array = a * np.expm1(-losses)
    value = math.fsum(masses * (first + second))
    error = 4 * np.finfo(float).eps * math.fsum(masses * (abs(first) + abs(second)))
    return math.log1p(max(0.0, value + side * error)) / a
