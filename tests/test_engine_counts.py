"""Random numbers of messages: laws, the rule for 1/m, and both methods against averages of exact values."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import shufflesim as ss
from shufflesim import precision
from shufflesim.bounds import MessageCount, Part, contour
from shufflesim.bounds.evaluate import Divergence
from shufflesim.bounds.random_count import RULE_ACCURACY
from shufflesim.bounds.table import thin

E = math.e
TABLES = {
    "inf": ss.VariationRatio(math.inf, 1.0, 5).published_table(),
    "maximal": ss.VariationRatio(E, (E - 1) / (E + 1), E).published_table(),
    "grr": ss.VariationRatio(E, (E - 1) / (E + 3), E, q_star=1).three_outcome_table(),
}
COUNTS = {
    "1 + 3 Bin(30, 0.1)": MessageCount(1, Part(30, (3,), (0.1,))),
    "4 + 3 Bin(100, 0.05)": MessageCount(4, Part(100, (3,), (0.05,))),
    "2 + Bin(400, 0.02)": MessageCount.binomial(2, 400, 0.02),
    "5 + mixture": MessageCount(5, Part(50, (1, 2, 7), (0.2, 0.1, 0.05)), Part(10, (5,), (0.9,))),
    "3 + 2 Bin(300, 0.8)": MessageCount(3, Part(300, (2,), (0.8,))),
}


def test_laws_by_enumeration():
    count = MessageCount(2, Part(3, (1, 4), (0.25, 0.5)), Part(2, (3,), (0.125,)))
    law = np.zeros(count.largest - 1)
    draws = [((0, 0.25), (1, 0.25), (4, 0.5))] * 3 + [((0, 0.875), (3, 0.125))] * 2
    for outcome in itertools.product(*draws):
        law[sum(size for size, _ in outcome)] += math.prod(p for _, p in outcome)
    np.testing.assert_allclose(count.law(), law, rtol=1e-14, atol=0)
    messages = np.arange(2, count.largest + 1)
    assert count.mean == pytest.approx(law @ messages, rel=1e-14)
    assert count.variance == pytest.approx(law @ (messages - count.mean) ** 2, rel=1e-13)
    assert math.exp(count.log_pgf(np.asarray(math.log(0.7)))) == pytest.approx(law @ 0.7**messages, rel=1e-13)


def test_certain_parts_are_fixed():
    assert MessageCount(1, Part(5, (3,), (1.0,)), Part(0, (1,), (0.5,)), Part(4, (2,), (0.0,))) == MessageCount(16)
    assert not MessageCount.binomial(1, 10, 0.0).is_random
    assert thin(TABLES["inf"], MessageCount.binomial(1, 10, 0.5))[1] == MessageCount(11)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MessageCount(0),
        lambda: Part(-1, (1,), (0.5,)),
        lambda: Part(1, (1, 1), (0.5, 0.5)),
        lambda: Part(1, (0,), (0.5,)),
        lambda: Part(1, (1,), (-0.5,)),
        lambda: Part(1, (1,), (math.nan,)),
        lambda: Part(1, (1, 2), (0.75, 0.5)),
        lambda: Part(1, (1,), (0.5, 0.5)),
    ],
)
def test_impossible_counts_are_refused(make):
    with pytest.raises(ValueError, match=r"must|needs"):
        make()


@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("kind", TABLES)
def test_rule_for_the_inverse_number_of_messages(count, kind):
    for eps in (0.0, 0.3, 0.9):
        s = contour.saddle(TABLES[kind], count, eps)
        law = count.law()
        m = np.arange(count.fixed, count.fixed + law.size)
        exact = math.fsum(law * np.exp(np.maximum(m * s.log_moment, -700.0)) / m)
        # Each term of the exact sum has the accuracy of the law.
        allowed = RULE_ACCURACY + 1e-15 * law.size + 4e-16 * count.largest * abs(s.log_moment)
        assert math.exp(contour.log_total(count, s.rule, s.log_moment)[0]) == pytest.approx(exact, rel=allowed)


@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("kind", TABLES)
def test_sum_and_integral_agree(count, kind):
    for eps in (0.1, 0.4):
        divergence = Divergence(TABLES[kind], count)
        s = contour.saddle(divergence.table, divergence.count, eps)
        by_sum = divergence._sum(s, 400_000)
        integral = contour.enclose(divergence.table, divergence.count, s, rtol=1e-6, max_nodes=400)
        if by_sum is not None:
            assert by_sum[1] - by_sum[0] < 1e-9
            assert integral[0] <= by_sum[1]
            assert by_sum[0] <= integral[1]


@pytest.mark.parametrize(
    "count",
    [
        MessageCount(1, Part(6, (3,), (0.2,))),
        MessageCount(2, Part(4, (2, 5), (0.5, 0.25))),
        MessageCount(3, Part(5, (1,), (0.9,)), Part(3, (4,), (0.05,))),
        MessageCount.binomial(7, 6, 0.5),
        MessageCount(1, Part(40, (2,), (0.02,))),
    ],
    ids=str,
)
def test_both_methods_contain_the_average_of_exact_values(count):
    """Relative 1e-13 for the law of the count, which is in doubles here."""
    for table, eps in ((TABLES["inf"], 0.4), (TABLES["maximal"], 0.05), (TABLES["grr"], 0.3)):
        law = count.law()
        exact = sum(
            mpmath.mpf(float(p)) * precision.delta(table, count.fixed + k, eps, digits=20) for k, p in enumerate(law) if p > 1e-30
        )
        s = contour.saddle(table, count, eps)
        for low, high in (
            Divergence(table, count).log_enclosure(eps)[:2],
            contour.enclose(table, count, s, rtol=1e-6, max_nodes=300),
        ):
            assert mpmath.exp(low) <= exact * (1 + mpmath.mpf("1e-13"))
            assert mpmath.exp(high) >= exact * (1 - mpmath.mpf("1e-13"))


@pytest.mark.parametrize("n", [10**5, 10**9, 10**12])
def test_many_users_who_drop_out_with_all_their_messages(n):
    """3 messages each, sent with probability 0.7: between 2.1 n messages for sure and a few deviations either way."""
    table, log_delta = TABLES["grr"], math.log(1e-8)
    lower, upper, _ = Divergence(table, MessageCount(3, Part(n, (3,), (0.7,)))).epsilon(log_delta)
    assert upper - lower <= 1e-6 * upper
    reach = 40 * math.sqrt(n)
    fewer = Divergence(table, MessageCount(int(2.1 * n - reach))).epsilon(log_delta)
    more = Divergence(table, MessageCount(int(2.1 * n + reach))).epsilon(log_delta)
    assert more[0] < lower < upper < fewer[1]
