"""Tables of continuous noise: enclosures against independent quadrature, and the numbers that a metric declares."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import integrate

from shufflesim.bounds import MessageCount
from shufflesim.bounds.continuous import (
    clone_probabilities,
    laplace_beta,
    laplace_blanket,
    laplace_tables,
    planar_beta,
    ratio_steps,
)
from shufflesim.bounds.evaluate import Divergence
from shufflesim.bounds.planar import planar_tables

from .oracles import load

# (x0, x1, centre, radius): blankets of an interval, all others in one place, between and outside the pair.
LINES = [
    (0.0, 2.0, 1.0, 1.0),
    (0.3, 1.1, 1.5, 1.5),
    (2.5, 0.2, 1.5, 1.5),
    (2.0, 3.0, 1.5, 1.5),
    (0.0, 2.0, 0.0, 0.0),
    (0.0, 2.0, 0.5, 0.0),
    (0.0, 1.0, 4.0, 0.0),
]
# The same in the plane: opposite, on a line with the centre, anywhere.
PLANES = [
    ((-1.0, 0.0), (1.0, 0.0), (0.0, 0.0), 1.0),
    ((-0.6, 0.8), (0.6, -0.8), (0.0, 0.0), 2.0),
    ((0.0, 0.0), (2.0, 0.0), (0.0, 0.0), 0.0),
    ((0.0, 0.0), (1.0, 0.0), (3.0, 0.0), 0.0),
    ((0.2, 1.0), (-1.0, 0.5), (0.1, 0.3), 1.5),
]


def hinge(table, e, k):
    """E (X - K)+ of a table."""
    return float(table.weight @ np.maximum(table.g0 - e * table.g1 - k, 0))


def line_densities(y, x0, x1, centre, radius):
    """Densities of user 1's two laws and of the blanket, from the definition."""
    return (0.5 * np.exp(-np.abs(y - x)) for x in (x0, x1)), 0.5 * np.exp(-radius - np.abs(y - centre))


def line_hinge(x0, x1, centre, radius, e, k):
    """E (X - K)+ by adaptive quadrature, between the kinks of the densities and of the maximum."""

    def value(y):
        (f0, f1), w = line_densities(y, x0, x1, centre, radius)
        return f0 - e * f1 - k * w

    kinks = sorted({x0, x1, centre})
    grid = np.unique(np.concatenate([np.linspace(kinks[0] - 45, kinks[-1] + 45, 4001), kinks]))
    signs = np.sign([value(y) for y in grid])
    ends = [grid[0], *kinks, grid[-1]]
    for i in np.flatnonzero(signs[1:] * signs[:-1] < 0):
        low, high, sign = grid[i], grid[i + 1], signs[i]
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if np.sign(value(middle)) == sign else (low, middle)
        ends.append(low)
    ends = sorted(ends)
    parts = (integrate.quad(lambda y: max(value(y), 0), a, b, epsabs=1e-13)[0] for a, b in pairwise(ends))
    return sum(parts) + -math.expm1(-radius) * max(-k, 0)


def plane_law(x0, x1, centre, radius, cells=400):
    """Rows (weight, g0, g1) by a midpoint rule in elliptic coordinates around x0 and x1: another grid than the tables'.

    u = middle + a (cosh s cos t, sinh s sin t), area |u - x0| |u - x1| ds dt.
    """
    x0, x1, centre = (np.array(x) for x in (x0, x1, centre))
    axis = (x1 - x0) / 2
    a = float(np.hypot(*axis))
    top = math.acosh(1 + 40 / a)
    s = (np.arange(cells) + 0.5)[:, None] * top / cells
    t = (np.arange(2 * cells) + 0.5) * math.pi / cells
    along, across = np.cosh(s) * np.cos(t), np.sinh(s) * np.sin(t)
    u = (x0 + x1) / 2 + along[..., None] * axis + across[..., None] * np.array([-axis[1], axis[0]])
    d0, d1, r = (np.hypot(*np.moveaxis(u - x, -1, 0)) for x in (x0, x1, centre))
    w = np.exp(-radius - r) / (2 * math.pi) * d0 * d1 * (top / cells) * (math.pi / cells)
    weight = np.append(w.ravel(), -math.expm1(-radius))
    return weight, *(np.append(np.exp(radius + r - d).ravel(), 0.0) for d in (d0, d1))


@pytest.mark.parametrize("case", LINES)
def test_line_tables_enclose_every_hinge(case):
    """lower <= exact <= upper for E (X - K)+, whatever e^eps and K: what the convex order means."""
    lower, upper = laplace_tables(*case, cells=24)
    rng = np.random.default_rng(1)
    for e in (1.0, 1.3, 4.0):
        rows = np.concatenate([t.g0 - e * t.g1 for t in (lower, upper)])
        scale = 1 + e
        for k in rng.uniform(rows.min(), rows.max(), 6):
            exact = line_hinge(*case, e, k)
            low, high = hinge(lower, e, k), hinge(upper, e, k)
            assert low <= exact + 1e-10 * scale
            assert exact <= high + 1e-10 * scale
            assert high - low <= 0.01 * scale


@pytest.mark.parametrize("case", LINES)
def test_line_masses_and_means_by_quadrature(case):
    """Each row of the lower table is a cell: its three masses against adaptive quadrature."""
    x0, x1, centre, _ = case
    lower = laplace_tables(*case, cells=3).lower
    ends = {centre, *(centre + math.copysign(d, x - centre) for x in (x0, x1) for d in ratio_steps(abs(x - centre), 3))}
    ends = [centre - 60, *sorted(ends), centre + 60]
    cells = {}
    for a, b in pairwise(ends):
        parts = [
            integrate.quad(lambda y, i=i: [*line_densities(y, *case)[0], line_densities(y, *case)[1]][i], a, b, epsabs=1e-15)[0]
            for i in range(3)
        ]
        key = (round(parts[0] / parts[2], 9), round(parts[1] / parts[2], 9))
        cells[key] = cells.get(key, 0.0) + parts[2]
    found = {(round(g0, 9), round(g1, 9)): w for w, g0, g1 in zip(lower.weight, lower.g0, lower.g1, strict=True) if g0 > 0}
    assert len(found) == len(cells)
    for (a, wa), (b, wb) in zip(sorted(found.items()), sorted(cells.items()), strict=True):
        assert a == pytest.approx(b, rel=1e-7)
        assert wa == pytest.approx(wb, rel=1e-7)


@pytest.mark.parametrize("case", LINES)
def test_the_curve_of_ratios_is_piecewise_straight(case):
    """Three points between neighbouring kinks: no area."""
    kinks = [-20.0, *sorted({*case[:3]}), 20.0]
    for a, b in pairwise(kinks):
        y = a + (b - a) * np.array([0.1, 0.4, 0.8])
        f, w = line_densities(y, *case)
        g0, g1 = (part / w for part in f)
        area = (g0[1] - g0[0]) * (g1[2] - g1[0]) - (g0[2] - g0[0]) * (g1[1] - g1[0])
        assert abs(area) <= 1e-12 * (1 + np.ptp(g0)) * (1 + np.ptp(g1))


@pytest.mark.parametrize("length", [1e-9, 1e-4, 0.1, 1.0, 5.0, 40.0, 350.0, 700.0])
def test_line_tables_at_all_lengths(length):
    """Masses sum to one within the last digits of e^length; the worst pair is symmetric."""
    for table in laplace_blanket(length):
        for g in (1.0, table.g0, table.g1):
            assert abs(float((table.weight * g).sum()) - 1) <= 1e-14 * (1 + length)
        assert table.symmetric
        assert table.log_max_ratio == pytest.approx(length, rel=0.1)
    assert laplace_blanket(length).upper.log_max_ratio == pytest.approx(length, rel=1e-6)


def test_the_ends_of_the_interval_are_the_worst_pair():
    """docs/soundness.md, Laplace noise: no pair has a larger E (X - K)+, in either order."""
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(200):
        length = float(rng.choice([0.2, 1.0, 3.0, 8.0]))
        x0, x1 = rng.uniform(0, length, 2) if rng.random() < 0.7 else rng.choice([0.0, length / 2, length], 2, replace=False)
        y = np.linspace(-40, length + 40, 20_001)
        e = math.exp(rng.uniform(-length, length))
        pairs = []
        for pair in ((x0, x1), (0.0, length)):
            f, w = line_densities(y, *pair, length / 2, length / 2)
            pairs.append((*f, w))
        k = rng.uniform(-e * math.exp(length), math.exp(length)) * rng.random() ** 4
        inner, outer = (integrate.trapezoid(np.maximum(f0 - e * f1 - k * w, 0), y) for f0, f1, w in pairs)
        worst = max(worst, (inner - outer) / max(outer, 1e-3 * (1 + e)))
    # The trapezoid rule's error with steps of 0.004.
    assert worst <= 1e-5


def laplace_divergence(case, eps, n):
    """The divergence of the continuous law itself: the contour integral with Gaussian quadrature between the kinks."""
    x0, x1, centre, radius = case
    x, v = np.polynomial.legendre.leggauss(80)
    kinks = sorted({x0, x1, centre})
    y, weight = [], []
    for a, b in zip([kinks[0] - 40, *kinks], [*kinks, kinks[-1] + 40], strict=True):
        for i in range(8):
            start, width = a + (b - a) * i / 8, (b - a) / 8
            y.append(start + width * (x + 1) / 2)
            weight.append(width * v / 2)
    y, weight = np.concatenate(y), np.concatenate(weight)
    f, w = line_densities(y, *case)
    f0, f1 = f
    X = np.append((f0 - math.exp(eps) * f1) / w, 0.0)
    mass = np.append(weight * w, -math.expm1(-radius))
    mean, second = mass @ X, mass @ X**2
    # Any theta > 0 is exact; this is the saddle point of the quadratic approximation.
    theta = (-n * mean + math.sqrt(n * n * mean * mean + 8 * n * second)) / (2 * n * second)
    for _ in range(50):
        tilted = mass * np.exp(theta * X)
        tilted /= tilted.sum()
        gap, curve = n * (tilted @ X) - 2 / theta, n * (tilted @ X**2 - (tilted @ X) ** 2) + 2 / theta**2
        theta = max(theta - gap / curve, theta / 2)
    spread = math.sqrt(n * (tilted @ X**2 - (tilted @ X) ** 2))
    step = min(0.1 / spread, theta / 8)
    z = theta + 1j * step * np.arange(0, int(14 / spread / step))
    moment = np.array([mass @ np.expm1(zi * X) for zi in z])
    integrand = (np.exp(n * np.log1p(moment)) / z**2).real
    return step * (2 * integrand.sum() - integrand[0]) / (2 * math.pi * n)


def end(table, side, n, delta):
    """One end of the enclosure of eps, the larger of the two directions."""
    tables = [table] if table.symmetric else [table, table.swapped()]
    return max(Divergence(t, MessageCount(n)).epsilon(math.log(delta))[side] for t in tables)


@pytest.mark.parametrize("row", [r for r in load("epsilon")["specific"] if r["mechanism"] == "Laplace"])
def test_laplace_against_independent_numbers(row):
    """The stored values hold about 6 digits after the point, from a grid of their own."""
    eps0, n, delta = row["eps0"], row["n"], row["delta"]
    for key, case in (
        ("blanket_upper", (0.0, eps0, eps0 / 2, eps0 / 2)),
        ("lower_fixed_dataset", (0.0, eps0, 0.0, 0.0)),
    ):
        lower, upper = laplace_tables(*case)
        low, high = end(lower, 0, n, delta), end(upper, 1, n, delta)
        assert high <= low * (1 + 2e-4)
        assert low == pytest.approx(row[key], rel=2e-4)
        if key == "blanket_upper":
            middle = (low + high) / 2
            assert laplace_divergence(case, low, n) >= delta >= laplace_divergence(case, high, n)
            assert laplace_divergence(case, middle, n) == pytest.approx(delta, rel=5e-3)


def test_laplace_at_five():
    """n = 1e4, delta = 1e-6, eps0 = 5: the blanket gives 0.578."""
    lower, upper = laplace_blanket(5.0)
    low, high = end(lower, 0, 10_000, 1e-6), end(upper, 1, 10_000, 1e-6)
    assert 0.5775 < low < high < 0.5781
    case = (0.0, 5.0, 2.5, 2.5)
    assert laplace_divergence(case, low, 10_000) >= 1e-6 >= laplace_divergence(case, high, 10_000)


@pytest.mark.parametrize("case", PLANES)
def test_plane_tables_enclose_every_hinge(case):
    lower, upper = planar_tables(*case)
    weight, g0, g1 = plane_law(*case)
    # The midpoint rule reproduces the three masses to this; its hinges are about as good.
    assert abs(weight.sum() - 1) + abs(weight @ g0 - 1) + abs(weight @ g1 - 1) < 2e-5
    rng = np.random.default_rng(3)
    for e in (1.0, 1.3, 4.0):
        x = g0 - e * g1
        scale = 1 + e
        for k in rng.uniform(x.min(), x.max(), 4):
            exact = float(weight @ np.maximum(x - k, 0))
            low, high = hinge(lower, e, k), hinge(upper, e, k)
            assert low <= exact + 2e-5 * scale
            assert exact <= high + 2e-5 * scale
        assert hinge(upper, e, 0.0) - hinge(lower, e, 0.0) <= 0.01 * scale


@pytest.mark.parametrize(
    "case", [*PLANES, ((-10.0, 0.0), (10.0, 0.0), (0.0, 0.0), 10.0), ((-1e-6, 0.0), (1e-6, 0.0), (0.0, 0.0), 1e-6)]
)
def test_plane_tables_are_pairs_of_laws(case):
    for table in planar_tables(*case):
        for g in (1.0, table.g0, table.g1):
            assert abs(float((table.weight * g).sum()) - 1) <= 2e-12
        assert table.size <= 500
        assert table.symmetric == (case[0] == tuple(-x for x in case[1]) and case[2] == (0.0, 0.0))


def test_plane_second_moment():
    """All others hold x1: E g0^2 is the integral of e^{-2|u - x0| + |u - x1|} / (2 pi), analytic in elliptic coordinates."""
    x, w = np.polynomial.legendre.leggauss(200)
    s, t = 4 * (x + 1)[:, None], math.pi / 2 * (x + 1)
    d0, d1 = 0.5 * (np.cosh(s) + np.cos(t)), 0.5 * (np.cosh(s) - np.cos(t))
    exact = 2 * math.pi * float(w @ (np.exp(d1 - 2 * d0) / math.pi * d0 * d1) @ w)
    lower, upper = planar_tables((0.0, 0.0), (1.0, 0.0), centre=(1.0, 0.0))
    low, high = (float(t.weight @ t.g0**2) for t in (lower, upper))
    assert low <= exact <= high <= low * (1 + 1e-3)


@pytest.mark.parametrize("n", [10_000, 1_000_000])
@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_plane_enclosure_is_narrow(radius, n):
    """At n = 1e4 and radius 3 most of the gap is the engine's."""
    lower, upper = planar_tables((-radius, 0.0), (radius, 0.0), radius=radius)
    low, high = end(lower, 0, n, 1e-6), end(upper, 1, n, 1e-6)
    assert low < high <= low * (1 + (1e-3 if (radius, n) != (3.0, 10_000) else 4e-3))
    assert high < 2 * radius


@pytest.mark.parametrize(("distance", "expected"), load("planar_laplace_beta").items())
def test_planar_beta_against_stored_digits(distance, expected):
    assert planar_beta(float(distance)) == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize("distance", [1e-8, 1e-5, 0.03, 7.0, 30.0, 50.0, 79.9, 80.0, 200.0, 700.0])
def test_planar_beta_against_mpmath(distance):
    with mpmath.workdps(40):
        z = mpmath.mpf(distance) / 2
        k, struve = (mpmath.besselk(0, z), mpmath.besselk(1, z)), (mpmath.struvel(1, z), mpmath.struvel(0, z))
        exact = float(z * (k[0] * struve[0] + k[1] * struve[1]))
    assert planar_beta(distance) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("distance", [1.5, 6.0, 20.0])
def test_planar_beta_is_the_mass_of_a_strip(distance):
    """|first coordinate| <= d01/2: in polar coordinates r cos t <= z, radius of law r e^{-r}."""

    def inside(t):
        r = distance / 2 / math.cos(t)
        return 1 - (1 + r) * math.exp(-r)

    mass = integrate.quad(inside, 0, math.pi / 2 - 1e-9, epsabs=1e-12, limit=200)[0] * 2 / math.pi
    assert planar_beta(distance) == pytest.approx(mass, rel=1e-8)


def test_betas_at_the_ends():
    assert planar_beta(0.0) == laplace_beta(0.0) == 0.0
    assert laplace_beta(1e-12) == pytest.approx(5e-13, rel=1e-12)
    assert laplace_beta(2 * math.log(4)) == pytest.approx(0.75)
    # The plane mixes better than the line at the same distance.
    assert all(planar_beta(d) < laplace_beta(d) for d in (0.1, 1.0, 10.0))


def test_clone_probabilities_by_hand():
    """p = 4, q = 8: reduction 2 beta 4/(3 * 8) = beta/3, generic 2/(8 + 2) on a line."""
    reduction, generic = clone_probabilities(math.log(4), math.log(8), 0.5)
    assert reduction == pytest.approx(1 / 6)
    assert generic == pytest.approx(1 / 5)
    # The largest beta that p allows, (p - 1)/(p + 1) = 3/5: both agree.
    assert clone_probabilities(math.log(4), math.log(8), 0.6) == pytest.approx((1 / 5, 1 / 5))
    # The line really has its largest sum at an end: [0, 3], pair (1, 2).
    x = np.linspace(0, 3, 301)
    assert clone_probabilities(1.0, 2.0, 0.3)[1] == pytest.approx(2 / (np.exp(abs(x - 1)) + np.exp(abs(x - 2))).max())


@pytest.mark.parametrize(
    "call",
    [
        lambda: laplace_tables(0.0, 1.0, 0.5, -1.0),
        lambda: laplace_tables(0.0, math.nan, 0.5),
        lambda: laplace_blanket(701.0),
        lambda: planar_tables((0.0, 0.0), (50.0, 0.0)),
        lambda: planar_tables((0.0, 0.0), (math.nan, 0.0)),
        lambda: planar_tables((0.0, 0.0), (1.0, 0.0), radius=-1.0),
        lambda: laplace_beta(-1.0),
        lambda: planar_beta(math.inf),
        lambda: clone_probabilities(2.0, 1.0, 0.5),
        lambda: clone_probabilities(0.0, 1.0, 0.5),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(ValueError, match=r"must|need"):
        call()
