"""Importance-sampled divergences: intervals that cover the exact value, tiny deltas, and the warning."""

import math

import numpy as np
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import Crowd, MessageCount, Pairs, Part, Table, claims_of
from shufflesim.bounds.evaluate import Divergence
from shufflesim.empirical import tilted_estimate
from shufflesim.mechanisms import GRR, RAPPOR, KSubset
from shufflesim.protocols import BallsIntoBins

SEEDS = 500
# Of one test case.
FALSE_ALARM = 1e-9


def lower_pair(x, n):
    """The first homogeneous table of x, in its larger direction at the eps where delta is about 1e-5, and that eps."""
    value = next(c.value for c in claims_of(x, Crowd(n)) if c.bound == "lower")
    eps = ss.epsilon(x, n, 1e-5, bound="lower").lower
    tables = [t for table in value.tables for t in (table, table.swapped())]
    worst = max(tables, key=lambda t: Divergence(t, value.count).log_enclosure(eps)[0])
    return worst, value.count, eps


def exact(table, count, eps):
    low, high, _ = Divergence(table, count).log_enclosure(eps, 1e-10)
    return math.exp(low), math.exp(high)


SUBJECTS = [
    (GRR(1.0, 10), 50),
    (GRR(math.log(3), 3), 3000),
    (KSubset(2.0, 12), 10**5),
    (RAPPOR(2.0, 16), 400),
    (BallsIntoBins(4, 2), 60),
    (BallsIntoBins(4, 1.5), 60),
    (BallsIntoBins(16, 0.25), 10**7),
]


@pytest.mark.parametrize(("x", "n"), SUBJECTS, ids=repr)
def test_intervals_cover_the_exact_value(x, n):
    """At most the binomial quantile of misses in 500 intervals of 95%, and one of a million draws at 1 - 1e-9."""
    table, count, eps = lower_pair(x, n)
    low, high = exact(table, count, eps)
    covered, widths = 0, []
    for seed in range(SEEDS):
        found = tilted_estimate(table, count, eps, np.random.default_rng([70, seed]), trials=2000)
        assert found.warning == ""
        assert found.low <= found.delta <= found.high
        covered += found.low <= high and low <= found.high
        widths.append((found.high - found.low) / low)
    assert covered >= stats.binom.ppf(FALSE_ALARM, SEEDS, 0.95)
    assert np.mean(widths) < 0.5
    found = tilted_estimate(table, count, eps, np.random.default_rng(71), trials=10**6, confidence=1 - FALSE_ALARM)
    assert found.low <= high
    assert low <= found.high
    assert found.high / found.low < 1.04


def test_the_largest_of_both_directions_is_what_pairs_say():
    table, count, eps = lower_pair(KSubset(2.0, 12), 10**4)
    found = tilted_estimate(table, count, eps, np.random.default_rng(3), confidence=1 - FALSE_ALARM)
    low, high, _ = Pairs((table,), count).delta(eps, 1e-9)
    assert found.low <= high
    assert low <= found.high


def test_a_trillionth_at_a_million_users():
    x, n = GRR(1.0, 16), 10**6
    value = next(c.value for c in claims_of(x, Crowd(n)) if c.bound == "lower")
    eps = ss.epsilon(x, n, 1e-12, bound="lower").lower
    table = max(
        (t for table in value.tables for t in (table, table.swapped())),
        key=lambda t: Divergence(t, value.count).log_enclosure(eps)[0],
    )
    found = tilted_estimate(table, value.count, eps, np.random.default_rng(4), confidence=1 - FALSE_ALARM)
    assert found.low <= 1e-12 <= found.high
    assert found.high / found.low < 1.15


def test_random_numbers_of_several_sizes():
    """Parts of their own sizes, one of them certain, against the engine."""
    table = Table([0.2, 0.3, 0.5], [2.5, 1.0, 0.4], [0.5, 1.0, 1.2])
    count = MessageCount(2, Part(40, (1, 3), (0.3, 0.2)), Part(7, (2,), (0.9,)))
    for eps in (0.0, 0.2, 0.5):
        low, high = exact(table, count, eps)
        found = tilted_estimate(table, count, eps, np.random.default_rng(5), trials=200_000, confidence=1 - FALSE_ALARM)
        assert found.low <= high
        assert low <= found.high
        assert found.high / found.low < 1.1


def test_a_warning_where_two_events_compete():
    """A rare outcome with a huge ratio beside common ones: no single tilt makes both of them likely, and the end still holds."""
    rare, ratio, common = 1e-9, 1e4, 0.25
    rest, left = 1 - rare - 2 * common, 1 - rare * ratio
    table = Table(
        [rare, common, common, rest],
        [ratio, 2 * left, 0.5 * left, left * (1 - 2.5 * common) / rest],
        [0.0, 0.5, 2.0, (1 - 2.5 * common) / rest],
    )
    low, high = exact(table, MessageCount(1000), 0.1)
    missed = 0
    for seed in range(20):
        found = tilted_estimate(table, MessageCount(1000), 0.1, np.random.default_rng([72, seed]), trials=2000)
        assert found.warning.startswith("wide interval: 2000 draws are worth only ")
        missed += not (found.low <= high and low <= found.high)
    assert missed <= stats.binom.ppf(1 - FALSE_ALARM, 20, 0.05)


def test_nothing_beyond_the_local_budget():
    table, count, _ = lower_pair(GRR(1.0, 10), 50)
    found = tilted_estimate(table, count, 1.5, np.random.default_rng(0))
    assert (found.delta, found.low, found.high, found.warning) == (0.0, 0.0, 0.0, "")


def test_the_seed_is_the_result():
    table, count, eps = lower_pair(BallsIntoBins(4, 1.5), 60)
    one, two = (tilted_estimate(table, count, eps, np.random.default_rng(9), trials=500) for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eps": -0.1}, "eps must be a finite number >= 0, got -0.1"),
        ({"eps": math.inf}, "eps must be a finite number >= 0, got inf"),
        ({"trials": 99}, "trials must be an integer >= 100, got 99"),
        ({"trials": True}, "trials must be an integer >= 100, got True"),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\), got 1.0"),
        ({"rng": 5}, "rng must be a Generator, got 5"),
        ({"table": "t"}, "table must be a Table, got 't'"),
        ({"count": 100}, "count must be a MessageCount, got 100"),
        ({"confidence": math.nan}, r"confidence must be in \(0, 1\), got nan"),
    ],
)
def test_bad_arguments(arguments, message):
    table, count, _ = lower_pair(GRR(1.0, 10), 50)
    with pytest.raises(ValueError, match=message):
        tilted_estimate(**{"table": table, "count": count, "eps": 0.1, "rng": np.random.default_rng(0), **arguments})
