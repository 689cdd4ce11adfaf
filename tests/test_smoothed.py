"""The smoothed contour integral against exact laws of sums, the other evaluations, and itself."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import optimize

from shufflesim import precision
from shufflesim.bounds import MessageCount, Table, contour, smoothed
from shufflesim.bounds.continuous import laplace_blanket

# Enclosures hold the last digits of log D on either side.
ULPS = 1e-14


def enclosure(table, count, eps, rtol=1e-7, max_cells=4_000_000):
    s = contour.saddle(table, count, eps)
    return smoothed.enclose(table, count, s, rtol=rtol, max_cells=max_cells)


def lattice_table(seed, rows=24):
    """Many rows with g0 - 2 g1 on a lattice of 1/16, so that sums have an exact law by convolution."""
    rng = np.random.default_rng(seed)
    g1 = rng.integers(0, 49, rows) / 16
    x = rng.integers(-48, 33, rows) / 16
    g0, g1 = np.append(np.maximum(x + 2 * g1, 0), 0), np.append(g1, 0)
    # Some weight anywhere, the rest where it makes all three sums 1.
    sums = np.array([np.ones(rows + 1), g0, g1])
    weight = 0.2 * rng.dirichlet(np.ones(rows + 1))
    return Table(weight + optimize.nnls(sums, 1 - sums @ weight)[0], g0, g1)


def lattice_divergence(table, n):
    x = np.rint(16 * (table.g0 - 2 * table.g1)).astype(int)
    one = np.bincount(x - x.min(), table.weight)
    law, power, squares = np.ones(1), one, n
    while squares:
        if squares & 1:
            law = np.convolve(law, power)
        squares >>= 1
        if squares:
            power = np.convolve(power, power)
    values = (np.arange(law.size) + n * x.min()) / 16
    return float(law @ np.maximum(values, 0)) / n


@pytest.mark.parametrize("n", [2, 10, 100, 300])
@pytest.mark.parametrize("seed", [1, 3, 5])
def test_many_rows_against_the_exact_law_of_the_sum(seed, n):
    table = lattice_table(seed)
    low, high = enclosure(table, MessageCount(n), math.log(2))
    exact = math.log(lattice_divergence(table, n))
    # Convolution in doubles: the sum's relative error.
    assert low <= exact + 1e-11
    assert exact <= high + 1e-11
    if n >= 100:
        assert high - low <= 1e-6 * (1 - exact)


@pytest.mark.parametrize(("n", "eps"), [(20, 0.3), (200, 0.2), (600, 0.1), (600, 0.5)])
def test_three_rows_against_fifty_digits(n, eps):
    rows = [(0.125, 4, 1), (0.125, 1, 4), (0.75, 0.5, 0.5)]
    low, high = enclosure(Table(*zip(*rows, strict=True)), MessageCount(n), eps, max_cells=1_000_000)
    with mpmath.workdps(60):
        value = precision.delta([tuple(mpmath.mpf(x) for x in row) for row in rows], n, mpmath.mpf(eps))
        exact = float(mpmath.log(value))
    assert low <= exact + ULPS * abs(exact)
    assert exact <= high + ULPS * abs(exact)
    assert high - low <= 1e-4


@pytest.mark.parametrize(
    "count",
    [MessageCount(10_000), MessageCount(10**8), MessageCount.binomial(1, 20_000, 0.5), MessageCount.binomial(500, 500, 0.1)],
)
def test_both_contour_integrals_agree(count):
    rng = np.random.default_rng(4)
    for rows in (4, 40):
        first, second = rng.dirichlet(np.ones(rows), 2)
        floor = np.minimum(first, second) / 2
        table = Table(np.append(floor, 1 - floor.sum()), np.append(first / floor, 0), np.append(second / floor, 0))
        eps = 5 * math.sqrt(float(table.weight @ (table.g0 - table.g1) ** 2) / count.mean)
        s = contour.saddle(table, count, eps)
        low, high = smoothed.enclose(table, count, s, rtol=1e-6, max_cells=1_000_000)
        other = contour.enclose(table, count, s, rtol=1e-6, max_nodes=1000)
        assert low <= high
        assert max(low, other[0]) <= min(high, other[1])


def test_nodes_narrow_the_enclosure():
    """Four times the nodes, a sixteenth of the width; down to the aim."""
    table, count = laplace_blanket(3.0).upper, MessageCount(1000)
    cells = [200_000, 800_000, 3_200_000]
    widths = [high - low for low, high in (enclosure(table, count, 0.6, rtol=1e-12, max_cells=c) for c in cells)]
    assert widths[0] < 0.02
    for wide, narrow in pairwise(widths):
        assert narrow == pytest.approx(wide / 16, rel=0.1)
    low, high = enclosure(table, count, 0.6, rtol=1e-3)
    assert high - low <= 2e-3


def test_too_few_nodes_fall_back_on_what_needs_none():
    table = laplace_blanket(3.0).upper
    s = contour.saddle(table, MessageCount(10**9), 1.5)
    low, high = smoothed.enclose(table, MessageCount(10**9), s, rtol=1e-6, max_cells=1)
    trivial = contour.trivial(table, MessageCount(10**9), s)
    assert low <= s.log_scale + trivial[0] < s.log_scale + trivial[1] <= high
