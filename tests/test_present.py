"""Users who may be absent: the quantile with its tail against the exact average over their number."""

import math

import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import Crowd, MessageCount, Pairs, present
from shufflesim.bounds.present import Present
from shufflesim.protocols import BallsIntoBins

TABLE = ss.VariationRatio(math.inf, 1.0, 8).published_table()


def _value(users):
    """Balls into bins with two dummies a user: the exact value for a known number of users."""
    return Pairs((TABLE,), MessageCount(1 + 2 * users))


def test_encloses_the_exact_average():
    protocol = BallsIntoBins(8, 2)
    for n, dropout in ((1, 0.5), (30, 0.3), (1000, 0.1), (10**6, 0.02), (10**9, 0.5)):
        value = present(Crowd(n, dropout=dropout), _value)
        for delta in (0.05, 1e-3, 1e-8):
            exact = ss.epsilon(protocol, n, delta, dropout=dropout)
            low, high, _ = value.epsilon(delta, 1e-6)
            assert low <= exact.upper
            assert high >= exact.lower
            if n > 10**5:
                assert high <= 1.05 * exact.upper
        for eps in (0.0, 0.2, 1.0):
            exact = ss.delta(protocol, n, eps, dropout=dropout)
            low, high, _ = value.delta(eps, 1e-6)
            assert low <= exact.upper * (1 + 1e-9)
            assert high >= exact.lower * (1 - 1e-9)


def test_quantiles():
    for n, dropout, tail in ((1, 0.5, 1e-3), (2, 0.5, 0.6), (100, 0.9, 1e-6), (10**6, 0.1, 1e-12)):
        m, bound = Present(Crowd(n, dropout=dropout), _value).least(tail)
        law = stats.binom(n - 1, 1 - dropout)
        assert law.cdf(m - 2) <= bound * (1 + 1e-9) <= tail * (1 + 1e-9)
        assert m == n + 1 or law.cdf(m - 1) > tail * (1 - 1e-9)


def test_a_complete_crowd_has_nothing_to_average():
    assert present(Crowd(5), _value) == _value(5)


def test_limits_are_between_the_extremes():
    low, high = Present(Crowd(5, dropout=0.3), _value).limits()
    assert low == pytest.approx((7 / 8) ** 10, rel=1e-9)
    assert high == pytest.approx((7 / 8) ** 2, rel=1e-9)
