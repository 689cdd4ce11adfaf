"""Tables of one-dimensional continuous noise, and what a metric declares: numbers in, tables out.

The law of (g0, g1) of `table` is continuous here, so two tables of finitely many rows enclose it. Replacing the rows of a
cell by their mean is a contraction: `lower`. Moving them to the ends of a set that contains them, with the same mean, is a
mean-preserving spread: `upper`. Since D_eps is the mean of a convex function of X = g0 - e^eps g1, for every eps

    D(lower) <= D(continuous law) <= D(upper).

All lengths are in units of the scale of the noise: density e^{-|y - x|}/2 around x.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from .._checks import plain
from .table import Array, Table

# Cells between the centre and each of user 1's inputs. Spreading a cell raises the variance of X, and so eps, in proportion to
# the square of its width: with 64 the tables' own ends of eps were within 1e-4 of each other (n = 1e3 to 1e6, L = 1 to 10).
# More rows only help where the evaluation resolves them: the windows of `contour` do so worse, `smoothed` does not mind.
CELLS = 64

# Widest cell in z: small divergences at a large eps depend on ratios far below the largest.
WIDEST = 0.25

# e^{700} is close to the largest double; ratios beyond it are refused.
EXPONENT_MAX = 700.0

# Beyond this distance 1 - beta is below half a unit in the last place of 1.
FAR = 80.0


class Enclosure(NamedTuple):
    """Two tables whose divergences enclose that of a continuous law, for every eps and every number of messages."""

    lower: Table
    upper: Table


def laplace_tables(x0: float, x1: float, centre: float, radius: float = 0.0, cells: int = CELLS) -> Enclosure:
    """Laplace noise on user 1's inputs x0 or x1, hidden by a part e^{-radius} of Laplace noise on `centre`.

    Parameters
    ----------
    x0, x1 : float
        User 1's two inputs, in units of the scale of the noise.
    centre, radius : float
        Inputs of the others: all in [centre - radius, centre + radius] (privacy blanket: their smallest density is
        e^{-radius} times the density around the centre, and the rest is revealed), or all at the centre (radius 0: the exact
        divergence of that data set, hence a lower bound on the worst case).
    cells : int
        Cells from the centre to each of the inputs, before wide ones are split.

    Raises
    ------
    ValueError
        If a number is not finite, `radius` < 0, or a likelihood ratio would exceed e^700.

    Notes
    -----
    At distance z from the centre on the side s = +1 or -1, log g_b = radius + min(a_b, 2z - a_b) with a_b = s (x_b - centre).
    So each ratio is constant, or proportional to v^2 with v = e^z, and the curve of (g0, g1) is piecewise straight: moving a
    cell's mass to its two ends is a spread along the curve. W has density ~ v^{-2} dv; hence the mean of v^2 over a cell is
    the product of its two values of v, and spreading leaves tanh(h/2) e^{-z}/2 per unit of e^{-radius} at either end z of a
    cell of width h. Cells are equal in v, the finest where the ratios are largest.

    Examples
    --------
    >>> lower, upper = laplace_tables(0.0, 2.0, centre=1.0, radius=1.0)
    >>> lower.size, upper.size, round(upper.log_max_ratio, 6)
    (131, 130, 2.0)
    """
    _check_finite(x0=x0, x1=x1, centre=centre, radius=radius)
    offsets = np.array([x0 - centre, x1 - centre])
    if not (radius >= 0 and radius + np.abs(offsets).max() <= EXPONENT_MAX):
        raise ValueError(
            f"radius must be >= 0 and radius + |x - centre| <= {EXPONENT_MAX:g} scales of the noise for both inputs, "
            f"got x0={x0!r}, x1={x1!r}, centre={centre!r}, radius={radius!r}"
        )
    lower, upper = [_revealed(radius)], [_revealed(radius)]
    for a in (-offsets, offsets):
        z = np.unique(np.concatenate([[0.0], *(ratio_steps(end, cells) for end in a[a > 0])]))
        half = np.tanh(np.diff(z, append=math.inf) / 2)
        level = 0.5 * np.exp(-radius - z)
        at_edges = level * (half + np.append(0.0, half[:-1]))
        upper.append(np.array([at_edges, *(np.exp(radius + np.minimum(a_b, 2 * z - a_b)) for a_b in a)]))
        in_cells = level * np.append(-np.expm1(-np.diff(z)), 1.0)
        both = np.append(z[1:] + z[:-1], 2 * z[-1])  # the ratios are constant beyond the last edge
        lower.append(np.array([in_cells, *(np.exp(radius + np.minimum(a_b, both - a_b)) for a_b in a)]))
    return Enclosure(Table(*np.hstack(lower)), Table(*np.hstack(upper)))


def laplace_blanket(length: float, cells: int = CELLS) -> Enclosure:
    """All users in an interval of this length, user 1 at one end or the other: the worst pair (docs/soundness.md).

    Examples
    --------
    >>> laplace_blanket(5.0).upper.symmetric
    True
    """
    return laplace_tables(-length / 2, length / 2, centre=0.0, radius=length / 2, cells=cells)


def laplace_beta(d01: float) -> float:
    """Total variation of Laplace noise around two points at distance d01.

    Examples
    --------
    >>> round(laplace_beta(2.0), 6)
    0.632121
    """
    _check_distance(d01)
    return -math.expm1(-d01 / 2)


def planar_beta(d01: float) -> float:
    """Total variation of planar Laplace noise, density e^{-|u - v|}/(2 pi), around two points at distance d01.

    Notes
    -----
    The mass of |first coordinate| <= z = d01/2, (2/pi) int_0^z t K1(t) dt = z (K0(z) L1(z) + K1(z) L0(z)): four positive
    factors, so nothing cancels.

    Examples
    --------
    >>> round(planar_beta(1.0), 6)
    0.29596
    """
    _check_distance(d01)
    z = d01 / 2
    if z == 0 or d01 >= FAR:
        return float(z > 0)
    product = special.k0(z) * special.modstruve(1, z) + special.k1(z) * special.modstruve(0, z)
    return min(1.0, float(z * product))


def clone_probabilities(d01: float, d_max: float, beta: float) -> tuple[float, float]:
    """Probability that another user's message hides user 1's, by (p, beta, q) and by the earlier bound without beta.

    Parameters
    ----------
    d01 : float
        Distance of user 1's two inputs, > 0.
    d_max : float
        Largest distance of any input of the others from the farther of the two; >= d01.
    beta : float
        Total variation of user 1's two laws.

    Returns
    -------
    reduction : float
        2 beta p / ((p - 1) q) with p = e^{d01}, q = e^{d_max}.
    generic : float
        2 / max over x of (e^{d(x, x0)} + e^{d(x, x1)}), which is 2 / (e^{d_max} + e^{d_max - d01}) for inputs on a line: the
        sum is convex along it, so the farthest end of the interval decides, and that lies outside the pair. In any other
        metric space the sum is between this value and 2 e^{d_max}, so the earlier bound's is between e^{-d_max} and this one.

    Notes
    -----
    reduction / generic = beta / tanh(d01/2) <= 1: with the largest beta that p allows the two agree. What a smaller beta
    gains is not more clones, but that user 1 needs them less often.

    Examples
    --------
    >>> [round(r, 6) for r in clone_probabilities(math.log(3), math.log(3), 0.5)]
    [0.5, 0.5]
    """
    _check_distance(d01)
    if not (d01 > 0 and d01 <= d_max < math.inf and 0 <= beta <= 1):
        raise ValueError(f"need 0 < d01 <= d_max < inf and 0 <= beta <= 1, got {d01=!r}, {d_max=!r}, {beta=!r}")
    largest = math.exp(-d_max)
    return 2 * beta * largest / -math.expm1(-d01), 2 * largest / (1 + math.exp(-d01))


def ratio_steps(half: float, cells: int) -> Array:
    """0..half in cells equal in e^z, the finest where ratios e^{2z} are largest; none wider than `WIDEST` or half/cells."""
    z = np.log1p(math.expm1(half) * np.arange(cells) / cells)
    return subdivide(np.append(z, half), max(WIDEST, half / cells))


def subdivide(edges: Array, widest: float) -> Array:
    """Split the intervals that are wider than allowed into equal parts."""
    parts = [np.linspace(a, b, max(1, math.ceil((b - a) / widest)), endpoint=False) for a, b in pairwise(edges)]
    return np.append(np.concatenate(parts), edges[-1])


def _revealed(radius: float) -> Array:
    """The part of W that is no blanket."""
    return np.array([[-math.expm1(-radius)], [0.0], [0.0]])


def _check_finite(**numbers: float) -> None:
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {plain(number)!r}")


def _check_distance(d01: float) -> None:
    if not 0 <= d01 < math.inf:
        raise ValueError(f"a distance must be finite and >= 0, got d01={plain(d01)!r}")
