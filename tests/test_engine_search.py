"""eps at given delta: the gap that was asked for, proven ends, and agreement between gaps."""

import math

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.bounds import MessageCount, search
from shufflesim.bounds.evaluate import Divergence
from shufflesim.mechanisms import GRR, RAPPOR, LocalHash

E = math.exp(2)
TABLES = {
    "maximal": ss.VariationRatio(E, (E - 1) / (E + 1), E).published_table(),
    "grr": ss.VariationRatio(E, (E - 1) / (E + 9), E, q_star=1).three_outcome_table(),
    "inf": ss.VariationRatio(math.inf, 1.0, 20).published_table(),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(("n", "rtols"), [(1000, (1e-3, 1e-6, 1e-10)), (10**8, (1e-3, 1e-6, 1e-9)), (10**12, (1e-3, 1e-6))])
def test_the_gap_that_was_asked_for(kind, n, rtols):
    found = []
    for rtol in rtols:
        lower, upper, _ = Divergence(TABLES[kind], MessageCount(n)).epsilon(math.log(1e-8), rtol)
        assert 0 < upper - lower <= rtol * upper
        found.append((lower, upper))
    assert max(low for low, _ in found) <= min(high for _, high in found)


def test_default_gap():
    lower, upper, _ = Divergence(TABLES["grr"], MessageCount(20_000)).epsilon(math.log(1e-6))
    assert upper - lower <= 1e-6 * upper


def _noisy(slack):
    """log D = -eps^2 with enclosures that are never better than `slack`."""
    return lambda eps, asked: (-(eps**2) - max(slack, asked), -(eps**2) + max(slack, asked), "made up")


@pytest.mark.parametrize("start", [1e-3, 1.0, 2.999, 3.0, 50.0])
@pytest.mark.parametrize("slope", [0.06, 6.0, 600.0])
@pytest.mark.parametrize("ceiling", [60.0, math.inf])
def test_search_from_any_start(start, slope, ceiling):
    for slack in (0.0, 1e-8, 1e-3):
        lower, upper, _ = search.bracket(_noisy(slack), -9.0, start, slope, ceiling, 1e-6)
        assert lower**2 + slack <= 9 <= upper**2 - slack
        # Either as asked, or not far from what the enclosures can show: half a bracket is slack / slope at least.
        assert upper - lower <= max(1e-6 * upper, 2 * 1.5 * slack / 6)


def test_search_without_information_keeps_the_ends():
    lower, upper, _ = search.bracket(lambda eps, slack: (-math.inf, 0.0, ""), -9.0, 1.0, 1.0, 5.0, 1e-6)
    assert (lower, upper) == (0.0, 5.0)


@pytest.mark.parametrize("seed", range(6))
def test_brackets_are_narrow_at_any_number_of_users(seed):
    """Random declarations and randomizers, n from 1e3 to 1e12: a relative gap of 1e-6 by default."""
    rng = np.random.default_rng([60, seed])
    for _ in range(12):
        eps0 = float(np.exp(rng.uniform(math.log(0.1), math.log(12))))
        n, delta = int(10 ** rng.uniform(3, 12)), 10 ** rng.uniform(-30, -2)
        e = math.exp(eps0)
        beta = (e - 1) / (e + 1) * rng.uniform(0.05, 1)
        x, bound = [
            (ss.VariationRatio(e, beta, e), "three-outcome"),
            (ss.VariationRatio(e, beta, e), "published"),
            (GRR(eps0, int(rng.integers(2, 1000))), "blanket"),
            (LocalHash(eps0, 100, 7), "lower"),
            (RAPPOR(eps0, 16), "blanket"),
            (ss.VariationRatio(math.inf, rng.uniform(0.2, 1), 2 + 20 * rng.random()), "sound"),
        ][int(rng.integers(6))]
        bracket = ss.epsilon(x, n, delta, bound=bound)
        if bracket.upper < math.inf:
            assert bracket.slack <= 1e-6 * bracket.upper, (x, n, delta, bound)
