"""Where numbers vanish: sums that cancel, tails that underflow, weights next to 1, many trials."""

import math

import mpmath
import numpy as np
import pytest

from shufflesim.bounds import MessageCount, Part, Table, contour, smoothed
from shufflesim.bounds.evaluate import Divergence


def test_the_smallest_positive_excess_next_to_a_large_negative_one():
    """Rows of weight 1e-15 and 1e-17: two messages of the common row are most of D, 0.825127872930 by hand."""
    first, second = np.array([0.5, 0.49, 0.01]), np.array([0.1, 0.0, 0.9])
    weight = np.array([1 - 1e-15 - 1e-17, 1e-15, 1e-17])
    low, high, _ = Divergence(Table(weight, first / weight, second / weight), MessageCount(2)).log_enclosure(0.5)
    assert math.exp(low) == pytest.approx(0.825127872930, rel=1e-11)
    assert math.exp(high) == pytest.approx(0.825127872930, rel=1e-11)


@pytest.mark.parametrize("n", [1, 2, 3, 40])
@pytest.mark.parametrize("eps", [0.0, 0.5, 210.0])
def test_a_row_next_to_underflow_is_summed_in_logarithms(n, eps):
    """Randomized response at eps0 = 700 among others who all hold 0: a report of 1 has weight 1e-304. Against 60 digits."""
    table = Table([1 / (1 + math.exp(-700)), 1 / (1 + math.exp(700))], [1.0, 1.0], [math.exp(-700), math.exp(700)])
    with mpmath.workdps(60):
        rare = 1 / (1 + mpmath.exp(700))

        def law(x):
            ones = [mpmath.binomial(n - 1, c) * rare**c * (1 - rare) ** (n - 1 - c) for c in range(n)]
            own = (1 - rare, rare)[::-1] if x else (1 - rare, rare)
            return [(ones[c] * own[0] if c < n else 0) + (ones[c - 1] * own[1] if c else 0) for c in range(n + 1)]

        for forth, x in ((table, 0), (table.swapped(), 1)):
            truth = mpmath.log(mpmath.fsum(max(0, p - mpmath.exp(eps) * q) for p, q in zip(law(x), law(1 - x), strict=True)))
            low, high, _ = Divergence(forth, MessageCount(n)).log_enclosure(eps)
            assert low - 1e-15 <= truth <= high + 1e-15
            assert high - low < 1e-10


def random_table(rng):
    rows = int(rng.integers(2, 9))
    logs = rng.uniform(-500, 0, (3, rows)) if rng.random() < 0.4 else rng.uniform(-30, 0, (3, rows))
    weight, first, second = (np.exp(row - row.max()) for row in logs)
    weight, first, second = (row / row.sum() for row in (np.maximum(weight, 1e-300), first, second))
    try:
        return Table(weight, first / weight, second / weight)
    except (ValueError, FloatingPointError):
        return None


@pytest.mark.parametrize("seed", range(4))
def test_all_ways_overlap(seed):
    """Sums and both integrals enclose the same number, for weights down to 1e-217, n up to 1e9, random counts."""
    rng = np.random.default_rng([70, seed])
    done = 0
    while done < 25:
        table = random_table(rng)
        if table is None or table.log_max_ratio <= 0:
            continue
        n = int(10 ** rng.uniform(0, 9 if rng.random() < 0.5 else 3))
        count = MessageCount(n) if rng.random() < 0.6 else MessageCount(1 + n // 3, Part(max(1, n // 2), (1, 2), (0.2, 0.3)))
        eps = min(table.log_max_ratio, 300.0) * rng.choice([0.0, rng.random(), 1e-3 * rng.random()])
        divergence = Divergence(table, count)
        if divergence.table.edge(eps, divergence.count) is not None:
            continue
        saddle = contour.saddle(divergence.table, divergence.count, eps)
        if saddle is None:
            continue
        done += 1
        ways = [
            divergence.log_enclosure(eps, 1e-5)[:2],
            contour.enclose(divergence.table, divergence.count, saddle, rtol=1e-6, max_nodes=1000),
            smoothed.enclose(divergence.table, divergence.count, saddle, rtol=1e-3, max_cells=100_000),
            divergence._sum(saddle, 5_000) or (-math.inf, math.inf),
        ]
        assert all(low <= high for low, high in ways), (table, count, eps)
        assert max(low for low, _ in ways) <= min(high for _, high in ways), (table, count, eps)
