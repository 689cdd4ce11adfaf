"""Tables of planar Laplace noise, density e^{-|u - v|}/(2 pi) around v: the two-dimensional part of `continuous`.

In polar coordinates (r, phi) around the centre of the others, with x_b at distance a and angle 0, and s = |u - x_b|,

    log g_b = radius + D,      D = r - s = a (2 r cos phi - a)/(r + s).

dD/dr = 1 - (r - a cos phi)/s >= 0 and D falls in |phi|: so D is monotone along the sides of every polar cell that no line
phi = 0 or pi crosses, and its range over the cell is attained at two opposite corners. No sampling is needed for `upper`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from .continuous import Enclosure, ratio_steps, subdivide
from .table import Array, Table

# Cells of the quadrature between the centre and each input, beyond it, and per quarter turn, before the widths are capped.
FINE = 96
# Lines g0 - g1 = const on either side of 0 on which `upper` puts its mass, and intervals of min(g0, g1) on each line.
LINES, STEPS = 48, 2

# Gauss-Legendre points per cell and direction. With the caps on widths below, sum(weight * g) was seen to be 1 to 1e-12
# (5e-12 for inputs 1e-3 apart, away from the centre).
POINTS = 5
# The same for the cells that have an input for a corner, where |u - x_b| has a kink.
CORNER_POINTS = 12
# Error of g0 and g1 in the mean, with a margin: 1e-11 was the most seen in delta, for pairs next to each other.
ACCURACY = 1e-10
RADIAL_MAX = 0.5
ANGULAR_MAX = 0.1
# The last cell begins this far beyond the farther input, with e^{-20} of the mass.
OUTER = 20.0

# Largest radius + |x - centre|, in scales of the noise: what the grid was tested for.
REACH_MAX = 40.0

Point = tuple[float, float]


@lru_cache(maxsize=64)
def planar_tables(x0: Point, x1: Point, centre: Point = (0.0, 0.0), radius: float = 0.0) -> Enclosure:
    """Planar Laplace noise on x0 or x1, hidden by a part e^{-radius} of the same noise on `centre`.

    Parameters
    ----------
    x0, x1 : (float, float)
        User 1's two inputs, in units of the scale of the noise.
    centre, radius : (float, float), float
        Inputs of the others: all in this disc (privacy blanket: by the triangle inequality their smallest density is
        e^{-radius} times the one around the centre, and the rest is revealed), or all at the centre (radius 0: the exact
        divergence of that data set). The disc need not be the smallest one.

    Raises
    ------
    ValueError
        If a number is not finite, `radius` < 0, or an input is too far from the centre (`REACH_MAX`).

    Notes
    -----
    Where only distances are known, d01 within the pair and at most d_max from any input to either: the others are in the disc
    of radius sqrt(d_max^2 - d01^2/4) around the pair's middle (parallelogram law), so (-d01/2, 0), (d01/2, 0) and that radius
    give an upper bound for every such pair.

    Pairs exactly opposite each other at the same distance from the centre, best written around (0, 0), take a quarter of the
    work and give symmetric tables; pairs on a line through the centre take half. Pairs that are close together, away from the
    centre, are enclosed loosely: a cell keeps the ranges of g0 and of g1, not that of their difference.

    Examples
    --------
    >>> lower, upper = planar_tables((-1.0, 0.0), (1.0, 0.0), radius=1.0)
    >>> upper.symmetric, upper.size, round(upper.log_max_ratio, 6)
    (True, 292, 2.0)
    """
    p0, p1 = (np.array(x, dtype=float) - np.array(centre, dtype=float) for x in (x0, x1))
    a = (float(np.hypot(*p0)), float(np.hypot(*p1)))
    if not (radius >= 0 and radius + a[0] <= REACH_MAX and radius + a[1] <= REACH_MAX):
        raise ValueError(
            f"radius must be >= 0 and radius + |x - centre| <= {REACH_MAX:g} scales of the noise for both inputs, "
            f"got x0={x0!r}, x1={x1!r}, centre={centre!r}, radius={radius!r}"
        )
    angle = abs(math.atan2(p0[0] * p1[1] - p0[1] * p1[0], p0 @ p1)) if min(a) > 0 else 0.0
    mirrored = a[0] == a[1] > 0 and angle == math.pi
    span = math.pi / 2 if mirrored else math.pi if angle in (0.0, math.pi) else 2 * math.pi
    angles = (0.0, angle)
    r = _radial_edges(a)
    phi = _angular_edges(a, angles, span)
    mass, means, ends = _cells(r, phi, a, angles)
    mass = mass * (math.exp(-radius) / mass.sum())
    low, high = np.exp(radius + ends[0]), np.exp(radius + ends[1])
    # Rounding only: the nodes lie inside the cell.
    means = np.clip(np.exp(radius) * means, low, high)
    bottom, top = float(low.min()), float(high.max())
    lower = _grouped(mass, means, mirrored, bottom, top)
    upper = _on_lines(*_corners(mass, means, low, high), mirrored, bottom, top)
    rest = np.array([[-math.expm1(-radius)], [0.0], [0.0]])
    return Enclosure(*(Table(*np.hstack([rows, rest])) for rows in (lower, upper)))


def _radial_edges(a: tuple[float, float]) -> Array:
    """0, the distances of the inputs, cells between that are finest next to these, and infinity.

    Inside, D = 2r - a towards the input, so cells equal in e^r; outside, D settles at a rate like 1/z^2 in units of min(a, 1).
    """
    steps = np.arange(FINE) / FINE
    edges = [np.array([0.0, max(a) + OUTER])]
    for distance in {d for d in a if d > 0}:
        # Beyond a distance of 37, e^{-distance} is below the last digit of 1, and the innermost edge falls to 0 all the same.
        inside = distance + np.log1p(max(math.expm1(-distance), -1 + 2**-53) * (1 - steps))
        edges += [np.maximum(inside, 0.0), distance + min(distance, 1.0) * steps / (1 - steps)]
    r = np.unique(np.concatenate(edges))
    return np.append(subdivide(r[r <= max(a) + OUTER], RADIAL_MAX), math.inf)


def _angular_edges(a: tuple[float, float], angles: tuple[float, float], span: float) -> Array:
    """0..span, with the directions towards and away from the inputs among the edges; next to the former equal in e^{-a phi/2}."""
    cap = min(ANGULAR_MAX, 1 / max(*a, 1.0))
    steps = np.arange(1, FINE + 1) / FINE
    edges = [np.array([0.0, span])]
    for distance, angle in zip(a, angles, strict=True):
        if distance > 0:
            quarter = -2 / distance * np.log1p(math.expm1(-distance * math.pi / 4) * steps[:-1])
            away = np.concatenate([[0.0], quarter, [math.pi / 2, math.pi]])
            edges += [np.mod(angle + away, 2 * math.pi), np.mod(angle - away, 2 * math.pi)]
    phi = np.unique(np.concatenate(edges))
    phi = phi[phi <= span]
    return subdivide(phi, cap)


def _excess(r: Array, phi: Array, a: float) -> Array:
    """D = r - |u - x_b| without cancellation; its limit a cos phi where r is infinite."""
    finite = np.where(np.isfinite(r), r, 1.0)
    s = np.sqrt((finite - a) ** 2 + 4 * a * finite * np.sin(phi / 2) ** 2)
    cos = np.cos(phi)
    return np.where(np.isfinite(r), a * (2 * finite * cos - a) / np.maximum(finite + s, 1e-300), a * cos)


def _wrapped(phi: Array) -> Array:
    """Angle from a direction, in [0, pi]."""
    return np.abs(np.remainder(phi + math.pi, 2 * math.pi) - math.pi)


def _cells(r: Array, phi: Array, a: tuple[float, float], angles: tuple[float, float]) -> tuple[Array, Array, Array]:
    """(mass, means of e^D, [least D, largest D]) of all polar cells; the mass up to a common factor."""
    x, w = np.polynomial.legendre.leggauss(POINTS)
    half_r, half_phi = np.diff(r[:-1]) / 2, np.diff(phi) / 2
    nodes_r = (r[:-2] + half_r)[:, None] + half_r[:, None] * x
    weight_r = half_r[:, None] * w * nodes_r * np.exp(-nodes_r)
    tail, tail_w = np.polynomial.laguerre.laggauss(POINTS)
    nodes_r = np.vstack([nodes_r, r[-2] + tail])
    weight_r = np.vstack([weight_r, math.exp(-r[-2]) * tail_w * (r[-2] + tail)])
    nodes_phi = (phi[:-1] + half_phi)[:, None] + half_phi[:, None] * x
    mass = np.outer(weight_r.sum(axis=1), 2 * half_phi)
    share_r, share_phi = weight_r / weight_r.sum(axis=1, keepdims=True), w / 2
    means, least, largest = [], [], []
    for distance, angle in zip(a, angles, strict=True):
        growth = np.exp(_excess(nodes_r.reshape(-1, 1), nodes_phi.ravel() - angle, distance))
        mean = np.einsum("ikjl,ik,l->ij", growth.reshape(*nodes_r.shape, *nodes_phi.shape), share_r, share_phi)
        turn = _wrapped(phi - angle)
        i = int(np.searchsorted(r, distance))
        if distance > 0:
            for j in range(phi.size - 1):
                for k, corner in ((j, phi[j]), (j + 1, phi[j + 1])):
                    if turn[k] < 1e-12:
                        for row, far in ((i - 1, r[i - 1]), (i, r[i + 1])):
                            mean[row, j] = _corner_mean(distance, far - distance, phi[2 * j + 1 - k] - corner)
        means.append(mean)
        near, away = np.minimum(turn[1:], turn[:-1]), np.maximum(turn[1:], turn[:-1])
        least.append(_excess(r[:-1, None], away, distance))
        largest.append(_excess(r[1:, None], near, distance))
    return mass, np.array(means), np.array([least, largest])


def _corner_mean(a: float, width: float, turn: float) -> float:
    """Mean of e^D over the cell between (a, 0) and (a + width, turn): two triangles at x_b, on which D is analytic."""
    x, w = np.polynomial.legendre.leggauss(CORNER_POINTS)
    x, w = (x + 1) / 2, w / 2
    out, across = x[:, None], x[:, None] * x
    weight = w[:, None] * w * out
    total = norm = 0.0
    for u, v in ((np.broadcast_to(out, across.shape), across), (across, np.broadcast_to(out, across.shape))):
        r = a + width * u
        density = weight * r * np.exp(-r)
        total += float((density * np.exp(_excess(r, turn * v, a))).sum())
        norm += float(density.sum())
    return total / norm


def _corners(mass: Array, means: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Rows (weight, g0, g1) at the corners of each cell's rectangle, with the cell's means, high g0 with low g1.

    The most spread for X = g0 - e g1, whatever e > 0 is. For any d, (X - K)+ <= (g0 - d)+ + (-e g1 - (K - d))+; each mean on the
    right is largest when its variable sits at the two ends of its range; and for the coupling below, d can be chosen such
    that there is equality, as g0 and -e g1 then rise together.
    """
    width = high - low
    p0, p1 = np.where(width > 0, (means - low) / np.where(width > 0, width, 1.0), 0.0)
    weights = np.minimum(p0, 1 - p1), np.maximum(0.0, p0 + p1 - 1), np.maximum(0.0, 1 - p0 - p1), np.minimum(1 - p0, p1)
    rows = [mass * p for p in weights], (high[0], high[0], low[0], low[0]), (low[1], high[1], low[1], high[1])
    weight, g0, g1 = (np.concatenate([part.ravel() for part in parts]) for parts in rows)
    return weight, g0, g1


def _lines(bottom: float, top: float) -> Array:
    """Values of |g0 - g1|: steps of g0 at the smallest g1, as in one dimension."""
    lines = bottom * np.expm1(2 * ratio_steps(math.log(top / bottom) / 2, LINES))
    lines[-1] = top - bottom
    return lines


def _on_lines(weight: Array, g0: Array, g1: Array, mirrored: bool, bottom: float, top: float) -> Array:
    """Spread rows over few points: along g0 - g1 to the two lines around it, then along each line to the points around it.

    With t = |g0 - g1| and the smaller ratio k, (g0, g1) is linear in (t, k) on either side of t = 0, and all lines lie on one
    side: both steps are mean-preserving spreads.
    """
    lines = _lines(bottom, top)
    count = lines.size
    t, k = np.abs(g0 - g1), np.minimum(g0, g1)
    side = np.zeros(t.size, dtype=int) if mirrored else (g1 > g0).astype(int)
    i = np.clip(np.searchsorted(lines, t, side="right") - 1, 0, count - 2)
    up = np.clip((t - lines[i]) / (lines[i + 1] - lines[i]), 0.0, 1.0)
    line = np.concatenate([i, i + 1]) + count * np.concatenate([side, side])
    weight, k = np.concatenate([weight * (1 - up), weight * up]), np.concatenate([k, k])
    least, most = np.full(2 * count, np.inf), np.full(2 * count, -np.inf)
    used = weight > 0
    np.minimum.at(least, line[used], k[used])
    np.maximum.at(most, line[used], k[used])
    least, most = np.where(most >= least, least, 0.0), np.where(most >= least, most, 0.0)
    grid = (np.sqrt(least)[:, None] + (np.sqrt(most) - np.sqrt(least))[:, None] * np.arange(STEPS + 1) / STEPS) ** 2
    grid[:, 0], grid[:, -1] = least, most
    j = np.clip((k[:, None] >= grid[line]).sum(axis=1) - 1, 0, STEPS - 1)
    span = grid[line, j + 1] - grid[line, j]
    up = np.clip(np.where(span > 0, (k - grid[line, j]) / np.where(span > 0, span, 1.0), 0.0), 0.0, 1.0)
    at = line * (STEPS + 1) + j
    total = np.bincount(at, weight * (1 - up), grid.size) + np.bincount(at + 1, weight * up, grid.size)
    small = grid.ravel()
    large = small + np.tile(np.repeat(lines, STEPS + 1), 2)
    return _both_sides(total, small, large, np.arange(grid.size) >= grid.size // 2, mirrored)


def _grouped(mass: Array, means: Array, mirrored: bool, bottom: float, top: float) -> Array:
    """Means of the cells between neighbouring lines, in groups by the smaller ratio."""
    lines = _lines(bottom, top)
    strips = lines.size - 1
    weight, small, large = mass.ravel(), means.min(axis=0).ravel(), means.max(axis=0).ravel()
    side = np.zeros(weight.size, dtype=int) if mirrored else (means[1] > means[0]).ravel().astype(int)
    i = np.clip(np.searchsorted(lines, large - small, side="right") - 1, 0, strips - 1) + strips * side
    least, most = np.full(2 * strips, np.inf), np.full(2 * strips, -np.inf)
    np.minimum.at(least, i, small)
    np.maximum.at(most, i, small)
    share = (np.sqrt(small) - np.sqrt(least[i])) / np.maximum(np.sqrt(most[i]) - np.sqrt(least[i]), 1e-300)
    at = i * STEPS + np.clip((STEPS * share).astype(int), 0, STEPS - 1)
    total = np.bincount(at, weight, 2 * strips * STEPS)
    some = total > 0
    small, large = (np.bincount(at, weight * g, 2 * strips * STEPS)[some] / total[some] for g in (small, large))
    return _both_sides(total[some], small, large, np.flatnonzero(some) >= strips * STEPS, mirrored)


def _both_sides(weight: Array, small: Array, large: Array, swapped: Array, mirrored: bool) -> Array:
    """Rows (weight, g0, g1) from the smaller and the larger ratio; a mirrored pair has each of them twice."""
    if mirrored:
        return np.array([np.tile(weight / 2, 2), np.append(large, small), np.append(small, large)])
    return np.array([weight, np.where(swapped, small, large), np.where(swapped, large, small)])
