"""The multiple-precision side on its own: hand-checkable values, decimal strings, bad input."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest

import shufflesim as ss
from shufflesim import _fixed_point, precision

from .oracles import close, load


def test_the_counterexample_in_fifty_digits():
    rows = precision.rows_of(ss.VariationRatio(3, 0.4, 3), "published")
    with mpmath.workdps(60):
        # beta = 0.4 is the float's value; at its exact decimal the divergence is 9/125.
        value = precision.delta(rows, 3, mpmath.log(2))
        assert abs(value - mpmath.mpf(9) / 125) < mpmath.mpf("1e-16")
        fifth = mpmath.mpf(1) / 5
        third = mpmath.mpf(1) / 3
        rows = [(fifth, 3, 1), (fifth, 1, 3), (3 * fifth, third, third)]
        exact = precision.delta(rows, 3, mpmath.log(2))
        assert abs(exact - mpmath.mpf(9) / 125) < mpmath.mpf("1e-50")


def test_binary_tables_by_direct_summation():
    """Two rows, all counts, in rational arithmetic (e^eps = 3/2)."""
    w, g0, g1 = (Fraction(1, 4), Fraction(3, 4)), (Fraction(2), Fraction(2, 3)), (Fraction(1), Fraction(1))
    x = [a - Fraction(3, 2) * b for a, b in zip(g0, g1, strict=True)]
    for n in (1, 2, 5, 12):
        total = sum(
            math.comb(n, k) * w[0] ** k * w[1] ** (n - k) * max(Fraction(0), k * x[0] + (n - k) * x[1]) for k in range(n + 1)
        )
        with mpmath.workdps(60):
            rows = [[mpmath.mpf(v.numerator) / v.denominator for v in row] for row in zip(w, g0, g1, strict=True)]
            value = precision.delta(rows, n, mpmath.log(mpmath.mpf(3) / 2))
            assert abs(value - mpmath.mpf(total.numerator) / total.denominator / n) < mpmath.mpf("1e-50")


@pytest.mark.parametrize("row", load("delta")["three_outcome"], ids=lambda r: f"{r['tag']} n={r['n']}")
def test_thirty_digits_of_the_three_outcome_pair(row):
    with mpmath.workdps(60):
        infinite = row["p"] == "inf"
        p, beta, q = (mpmath.mpf(row[k]) for k in ("p", "beta", "q"))
        alpha = mpmath.mpf(0) if infinite else beta / (p - 1)
        p_alpha = beta if infinite else p * alpha
        inverse = mpmath.mpf(0) if infinite else 1 / p
        r, s = p_alpha / q, (1 - alpha - p_alpha) / q
        rows = [(r, q, q * inverse), (r, q * inverse, q), (s, q, q), (1 - 2 * r - s, 0, 0)]
        assert close(precision.delta(rows, row["n"], mpmath.mpf(row["eps"])), row["delta_corrected"], 1e-30)


def test_nothing_and_everything():
    rows = precision.rows_of(ss.VariationRatio(3, 0.4, 3), "three-outcome")
    assert precision.delta(rows, 20, 1.2) == 0
    assert precision.delta([(1, 1, 1)], 5, 0) == 0
    with mpmath.workdps(40):
        assert abs(precision.delta([(1, 1, 1)], 5, -1) - (1 - mpmath.exp(-1))) < mpmath.mpf("1e-35")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([(1, 1, 1)], 0, 0.1), "n must be an integer >= 1, got 0"),
        (([(1, 1, 1)], 3, math.nan), "eps must be a finite number, got nan"),
        (([(1, 1, 1)], 3, "inf"), "eps must be a finite number, got 'inf'"),
        (([(1, 1, 1)], 3, None), "eps must be a finite number, got None"),
        (([(1, 1, 1)], 3, True), "eps must be a finite number, got True"),
        (([], 3, 0.1), "table must have 1 to 4 rows, got 0"),
        (([(0.2, 1, k) for k in range(5)], 3, 0.1), "table must have 1 to 4 rows, got 5"),
        ((3, 3, 0.1), "table must be a Table or rows"),
        (([(1, "x", 1)], 3, 0.1), "every entry of the table must be a finite number, got 'x'"),
    ],
    ids=str,
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        precision.delta(*arguments)


def test_bad_digits_and_bound():
    with pytest.raises(ValueError, match="digits must be an integer"):
        precision.delta([(1, 1, 1)], 3, 0.1, digits=5)
    with pytest.raises(ValueError, match="bound must be 'published' or 'three-outcome', got 'sound'"):
        precision.rows_of(ss.VariationRatio(3, 0.4, 3), "sound")
    with pytest.raises(ValueError, match="n must be small enough"):
        precision.delta(ss.VariationRatio(3, 0.4, 3).three_outcome_table(), 10**7, 0.01)


def test_four_rows_in_fixed_point_are_the_sum_over_all_counts():
    rows = [("0.3", "1.5", "0.2"), ("0.15", "0.1", "2"), ("0.35", "1.2", "1.1"), ("0.2", "0.575", "1.275")]
    rows = [tuple(mpmath.mpf(v) for v in row) for row in rows]
    n, eps = 6, mpmath.mpf("0.25")
    with mpmath.workdps(60):
        x = [g0 - mpmath.exp(eps) * g1 for _, g0, g1 in rows]
        total = mpmath.mpf(0)
        for counts in itertools.product(range(n + 1), repeat=4):
            if sum(counts) == n:
                weight = mpmath.factorial(n)
                for (w, *_), c in zip(rows, counts, strict=True):
                    weight *= w**c / mpmath.factorial(c)
                total += weight * max(mpmath.mpf(0), mpmath.fsum(c * v for c, v in zip(counts, x, strict=True)))
        assert close(precision.delta(rows, n, eps), total / n, 1e-50)


@pytest.mark.parametrize(("m", "a", "b"), [(0, 1, 1), (1, 1, 10**20), (40, 3, 1), (700, 1, 10**6), (5, 10**25, 1)])
def test_a_row_of_binomial_probabilities(m, a, b):
    with mpmath.workprec(260):
        low, row = _fixed_point.binomial_row(m, mpmath.mpf(a), mpmath.mpf(b), 200)
        assert 0 <= low <= low + len(row) - 1 <= m
        for j, p in enumerate(row, start=low):
            exact = Fraction(math.comb(m, j) * a**j * b ** (m - j), (a + b) ** m)
            assert abs(Fraction(p, 2**200) - exact) <= Fraction(2 * m + 4, 2**200)
        assert 1 - Fraction(sum(row), 2**200) <= Fraction((m + 2) ** 2, 2**200)
