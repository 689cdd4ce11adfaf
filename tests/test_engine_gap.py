"""The column g0 - g1: what it buys at a tiny local eps, and that it never contradicts the exact value."""

import math

import mpmath
import numpy as np
import pytest

import shufflesim as ss
from shufflesim import precision
from shufflesim.bounds import MessageCount, Table
from shufflesim.bounds.evaluate import Divergence


def _tables(eps0, bound):
    x = ss.VariationRatio.ldp(eps0, 0.5 * math.tanh(eps0 / 2))
    rows = precision.rows_of(x, bound)
    with mpmath.workdps(60):
        columns = [np.array([float(row[i]) for row in rows]) for i in range(3)]
        gap = np.array([float(g0 - g1) for _, g0, g1 in rows])
    return rows, Table(*columns), Table(*columns, gap)


@pytest.mark.parametrize("bound", ["published", "three-outcome"])
@pytest.mark.parametrize("eps0", [1e-12, 1e-9, 1e-6, 1e-3, 1.0])
def test_tiny_local_eps_against_many_digits(eps0, bound):
    rows, plain, with_gap = _tables(eps0, bound)
    for n in (3, 40):
        for share in (0.0, 0.1, 0.5):
            with mpmath.workdps(60):
                truth = mpmath.log(precision.delta(rows, n, share * eps0))
            count = MessageCount(n)
            low, high, _ = Divergence(with_gap, count).log_enclosure(share * eps0)
            assert low <= truth <= high
            # 1e-9 is what is asked for; a far tail at n = 40 takes a few of the table's digits.
            assert high - low < 1e-7
            low, high, _ = Divergence(plain, count).log_enclosure(share * eps0)
            assert low <= truth <= high


def test_bracket_at_a_tiny_local_eps_and_many_messages():
    _, plain, with_gap = _tables(1e-6, "published")
    lower, upper, _ = Divergence(with_gap, MessageCount(10**9)).epsilon(math.log(1e-12))
    assert 0 < upper - lower <= 1e-6 * upper
    other = Divergence(plain, MessageCount(10**9)).epsilon(math.log(1e-12))
    assert other[0] <= upper
    assert lower <= other[1]


def test_the_column_survives_swaps_and_is_part_of_the_key():
    _, plain, with_gap = _tables(1e-6, "published")
    assert with_gap.key != plain.key
    assert np.array_equal(with_gap.swapped().swapped().gap, with_gap.gap)
    assert with_gap.symmetric
    assert with_gap.swapped().difference @ with_gap.weight == pytest.approx(0, abs=1e-20)


def test_a_wrong_column_is_refused():
    with pytest.raises(ValueError, match="gap must be g0 - g1"):
        Table([0.5, 0.5], [1.5, 0.5], [0.5, 1.5], [1.0, 1.0])
    with pytest.raises(ValueError, match="gap must have the shape"):
        Table([0.5, 0.5], [1.5, 0.5], [0.5, 1.5], [1.0])
