"""Parallel composition and the witch hat: parameters, laws and estimators beyond the conformance suite."""

import math

import numpy as np
import pytest
from scipy import integrate

import shufflesim as ss
from shufflesim.empirical.law import true_parameters
from shufflesim.mechanisms import GRR, OUE, RAPPOR, HierarchicalGRR, Laplace, LocalHash, Parallel, WitchHat

from .oracles import close, load


def test_declaration_is_the_enumerated_one():
    """One pair is the worst for each part: beta is the weighted mean, attained."""
    mine = Parallel((GRR(1.3, 4), RAPPOR(1.3, 4), OUE(1.3, 4)), weights=[0.5, 0.3, 0.2])
    log_p, beta, _ = true_parameters(mine.log_channel())
    assert mine.amplification.beta == pytest.approx(beta, rel=1e-12)
    assert math.log(mine.amplification.p) == pytest.approx(log_p, rel=1e-12)
    assert mine.amplification.beta == pytest.approx(
        0.5 * GRR(1.3, 4).amplification.beta + 0.3 * RAPPOR(1.3, 4).amplification.beta + 0.2 * OUE(1.3, 4).amplification.beta
    )


def test_a_single_part_is_that_part():
    one, part = Parallel((GRR(1.0, 5),)), GRR(1.0, 5)
    counts = np.array([5, 4, 3, 2, 1])
    assert one.variance(counts, 15) == pytest.approx(part.variance(counts, 15))
    assert float(ss.epsilon(one, 1000, 1e-6)) == pytest.approx(float(ss.epsilon(part, 1000, 1e-6)), rel=1e-6)


def test_two_equal_parts_share_the_users_in_both_samplers():
    part = GRR(1.0, 3)
    both = Parallel((part, part))
    rng = np.random.default_rng(0)
    counted = both.sample_aggregate(np.array([5000, 3000, 2000]), rng)
    values = np.repeat(np.arange(3, dtype=np.uint8), [5000, 3000, 2000])
    run = both.aggregate(both.randomize(values, rng))
    # Binomial(10,000, 1/2): 7 standard deviations are 350, a false alarm below 1e-11.
    for aggregate in (counted, run):
        assert abs(aggregate[0] - 5000) < 350
        assert aggregate[[0, 4]].sum() == 10_000


def test_weights_favour_the_better_part():
    """At d = 300 GRR is far noisier than RAPPOR: with both, the error is near that of RAPPOR's half of the users, not GRR's."""
    even = np.full(300, 1000 / 300)
    mixed = Parallel((GRR(1.0, 300), RAPPOR(1.0, 300)))
    best = RAPPOR(1.0, 300).variance(even, 1000).mean()
    assert best < mixed.variance(even, 1000).mean() < 2.1 * best


def test_the_tree_of_grr_is_no_parallel_of_one_domain():
    with pytest.raises(ValueError, match="one domain of categories or sets in common"):
        Parallel((GRR(1.0, 4), GRR(1.0, 8)))
    assert HierarchicalGRR(1.0, 8).amplification.beta == pytest.approx(
        np.mean([GRR(1.0, d).amplification.beta for d in (8, 4, 2)])
    )


def test_another_budget_for_all_parts():
    mine = Parallel((GRR(1.0, 4), LocalHash(1.0, 4)), weights=(0.4, 0.6)).with_epsilon(2.0)
    assert mine == Parallel((GRR(2.0, 4), LocalHash(2.0, 4)), weights=(0.4, 0.6))


@pytest.mark.parametrize(
    ("parts", "weights", "message"),
    [
        ((), None, "randomizers must be a list of at least one Randomizer"),
        (3, None, "randomizers must be a list of at least one Randomizer, got 3"),
        ((GRR(1.0, 3), 3), None, "randomizers must be a list"),
        ((Laplace(1.0),), None, "one domain of categories or sets"),
        ((GRR(1.0, 3),), (0.5, 0.5), "weights must be as many numbers as randomizers, 1"),
        ((GRR(1.0, 3), OUE(1.0, 3)), (0.5, 0.6), "weights must add up to 1, got 1.1"),
        ((GRR(1.0, 3), OUE(1.0, 3)), (0.0, 1.0), r"weights must be numbers in \(0, 1\], got 0.0"),
        ((GRR(1.0, 3), OUE(1.0, 3)), (math.nan, 1.0), r"weights must be numbers in \(0, 1\], got nan"),
    ],
)
def test_bad_parts_and_weights_are_refused(parts, weights, message):
    with pytest.raises(ValueError, match=message):
        Parallel(parts, weights)


@pytest.mark.parametrize(
    "row", [r for r in load("params") if r["mechanism"].startswith("WitchHat")], ids=lambda r: r["parameters"]
)
def test_total_variation_of_two_hats(row):
    given = {key: float(value) for key, value in row["parameters"].items()}
    hat = WitchHat(given["m"], -given["B"], given["B"], slope=2 / given["F"])
    assert close(hat.total_variation(given["abs_x0_minus_x1"]), row["true_beta"], 1e-12)


@pytest.mark.parametrize("hat", [WitchHat(2.0), WitchHat(1.0, 0, 4, slope=0.1), WitchHat(0.01), WitchHat(5.0, -1, 1, slope=30.0)])
def test_density_mean_and_variance_by_quadrature(hat):
    """Mass 1, mean and variance of one report's estimate, total variation of the ends: integrated from the likelihood."""
    reach = hat.epsilon / hat.slope
    ends = hat.low - reach, hat.high + reach
    for x in (hat.low, (hat.low + 2 * hat.high) / 3):
        kinks = [p for p in (x - reach, x, x + reach) if ends[0] < p < ends[1]]

        def density(y, x=x):
            return math.exp(hat.log_likelihood(x, np.array([y]))[0])

        def moment(f, kinks=kinks):
            return integrate.quad(f, *ends, points=kinks, limit=200)[0]

        mass = moment(density)

        def estimate(y):
            return hat.estimate(hat.aggregate(np.array([y])), 1)[0]

        mean = moment(lambda y: density(y) * estimate(y)) / mass
        assert mean == pytest.approx(x, abs=1e-8 * (hat.high - hat.low) / min(1, hat.epsilon))
        total = hat.domain.total(np.array([x]))
        second = moment(lambda y, mean=mean: density(y) * (estimate(y) - mean) ** 2) / mass
        assert hat.variance(total, 1)[0] == pytest.approx(second, rel=1e-7)
        middle = (hat.low + hat.high) / 2
        assert hat.cdf(x, np.array([middle]))[0] == pytest.approx(
            integrate.quad(density, ends[0], middle, points=[p for p in kinks if p < middle] or None, limit=200)[0] / mass
        )


def test_the_best_slope_is_a_minimum():
    for epsilon in (0.1, 1.0, 4.0, 20.0):
        best = WitchHat(epsilon)
        at_ends = np.array([[0.0], [1.0]])
        for factor in (0.9, 1.1):
            other = WitchHat(epsilon, slope=best.slope * factor)
            assert best.variance(at_ends, 1)[0] <= other.variance(at_ends, 1)[0] * (1 + 1e-12)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", True])
def test_bad_slopes_are_refused(bad):
    with pytest.raises(ValueError, match="slope must be a positive number for which epsilon/slope is finite"):
        WitchHat(1.0, slope=bad)
