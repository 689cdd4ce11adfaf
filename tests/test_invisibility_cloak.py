"""The invisibility cloak: the noise of a random number of users, both guarantees, samplers, calibration."""

import math

import numpy as np
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import CompoundLaplace, PolyaDifference, UnreachableError, compound, log_distance
from shufflesim.bounds.compound import OneLaplace, ShownNumber
from shufflesim.protocols import InvisibilityCloak

# Probability with which each comparison of samples fails on correct code.
FALSE_ALARM = 1e-9


def noise_law(budget, shift, n, probability, reach=90):
    """Law of the total noise on -n size..n size, by convolution."""
    a, size = math.exp(-budget / shift), int(reach * shift / budget)
    one = probability * (1 - a) / (1 + a) * a ** np.abs(np.arange(-size, size + 1.0))
    one[size] += 1 - probability
    total = one
    for _ in range(n - 1):
        total = np.convolve(total, one)
    return total


def hockey_stick(total, shift, eps):
    return float(np.maximum(0, np.pad(total, (0, shift)) - math.exp(eps) * np.pad(total, (shift, 0))).sum())


@pytest.mark.parametrize(
    ("budget", "shift", "n", "probability"),
    [(1.0, 1, 5, 0.4), (1.0, 4, 6, 0.9), (0.5, 3, 4, 1.0), (3.0, 2, 8, 0.2), (2.0, 5, 1, 0.3)],
)
def test_noise_of_some_users_against_convolutions(budget, shift, n, probability):
    total = noise_law(budget, shift, n, probability)
    for eps in (0.0, 0.1, 0.5, 0.9 * budget, 1.3 * budget, 3.0):
        exact = hockey_stick(total, shift, eps)
        low, high = compound(budget, shift, n, probability).forth(eps)
        assert low - 1e-14 <= exact <= high + 1e-14
        assert high - low <= 1e-6 * high + 2e-30
        for step in range(2, shift + 1):
            assert exact <= ShownNumber(budget, shift, n, probability, step).forth(eps)[1] + 1e-14
        assert exact <= OneLaplace(budget, shift, n, probability).forth(eps)[1] + 1e-14
        assert max(hockey_stick(total, smaller, eps) for smaller in range(1, shift + 1)) == exact
    centre = (total.size - 1) // 2
    ceiling = CompoundLaplace(budget, shift, n, probability, 1).ceiling
    assert math.log(total[centre] / total[centre + shift]) <= ceiling * (1 + 1e-9)


def test_far_tails_of_the_law():
    """To 1e-25 with relative accuracy, by convolution of positive terms."""
    total = noise_law(1.0, 3, 8, 0.5, reach=200)
    law, error = CompoundLaplace(1.0, 3, 8, 0.5, 1).law
    right = total[(total.size - 1) // 2 :][: law.size]
    assert np.all(np.abs(law[: right.size] - right) <= error[: right.size] + 1e-15 * right)
    seen = right > 1e-25
    assert np.all(error[: right.size][seen] <= 1e-6 * right[seen])


def test_one_certain_user_is_the_discrete_laplace_law():
    for eps in (0.0, 0.4, 0.99):
        expected = PolyaDifference(1.0, 50).delta(eps, 0)[1]
        assert CompoundLaplace(1.0, 50, 1, 1.0, 1).delta(eps, 0)[1] == pytest.approx(expected, rel=1e-9)


def test_coarse_lattices_lose_little():
    fine, coarse = (CompoundLaplace(2.0, 96, 30, 1.0, step).epsilon(1e-8, 1e-6)[1] for step in (1, 12))
    assert fine <= coarse <= 1.02 * fine
    hidden = CompoundLaplace(0.5, 60, 10_000, 0.0184).epsilon(1e-8, 1e-6)[1]
    assert hidden <= ShownNumber(0.5, 60, 10_000, 0.0184, 4).epsilon(1e-8, 1e-6)[1] <= 1.1 * hidden
    assert 0.0209 < compound(0.1, 10**7, 10**6, 1.84e-4).epsilon(1e-8, 1e-6)[1] < 0.0230
    # The central limit: a shift of 1/sigma standard deviations has delta = Phi(-eps sigma + 1/(2 sigma)) - ... .
    sigma = math.sqrt(2 * 5000) / 0.5
    normal = stats.norm.cdf(-0.02 * sigma + 0.5 / sigma) - math.exp(0.02) * stats.norm.cdf(-0.02 * sigma - 0.5 / sigma)
    assert CompoundLaplace(0.5, 50, 10_000, 0.5).forth(0.02)[1] == pytest.approx(normal, rel=0.05)
    assert compound(0.5, 50, 10_000, 0.5).forth(0.02)[1] <= 1.5 * normal


def test_both_guarantees():
    protocol = InvisibilityCloak(1.0, 0.02, 1000, 12, 32)
    distance = math.exp(log_distance(1000, 12, protocol.modulus)[1])
    assert protocol.sum_preserving_delta(1000) == pytest.approx(2 * distance)
    assert InvisibilityCloak(1.0, 0.02, 2, 3, 32).sum_preserving_delta(2) == 1
    # Nobody adds noise with probability (1 - p)^n: no eps is enough for a smaller delta than that share of the sum shows.
    found = ss.delta(protocol, 1000, 0.5)
    assert ss.delta(protocol, 1000, 0.5, bound="lower").lower <= found.upper
    assert found.upper == pytest.approx(CompoundLaplace(1.0, 32, 1000, 0.02, 1).forth(0.5)[1], rel=1e-3)
    half = ss.epsilon(protocol, 1000, 1e-6, n_honest=500).upper
    assert ss.epsilon(protocol, 1000, 1e-6).upper < ss.epsilon(protocol, 1000, 1e-6, dropout=0.2).upper < half
    with pytest.raises(ValueError, match="sampling must be 1"):
        ss.epsilon(protocol, 1000, 1e-6, sampling=0.5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n"), [(1, 1e-8, 10**4), (0.1, 1e-12, 10**6), (20, 1e-30, 1000), (1e-9, 1e-6, 10**5)]
)
def test_targets_are_met(epsilon, delta, n):
    found = InvisibilityCloak.for_target(epsilon, delta, n)
    assert float(ss.epsilon(found, n, delta)) <= epsilon
    assert found.sum_preserving_delta(n) <= delta
    assert found.noise_probability == pytest.approx(min(1, 10 * math.log(1 / delta) / n))
    more = InvisibilityCloak(found.epsilon * (1 + 1e-4) + 3 * delta, found.noise_probability, n, found.shares, found.precision)
    assert float(ss.epsilon(more, n, delta)) > epsilon


def test_calibration_as_in_the_paper_and_its_limits():
    original = InvisibilityCloak.original(1.0, 1e-8, 10**4)
    assert original.precision == 10**5
    assert math.exp(original.log_a) == pytest.approx(1 - 1e-6, rel=1e-12)
    assert original.modulus % 2 == 1
    assert original.modulus > 3 * 10**9 + 10**9 + 10
    assert InvisibilityCloak.extra_amplification_ratio(1.0, 1e-8, 10**4) == pytest.approx(46.5, abs=2)
    with pytest.raises(ValueError, match="n must be at least 185 for the paper's noise at delta = 1e-08, got 100"):
        InvisibilityCloak.original(1.0, 1e-8, 100)
    with pytest.raises(ValueError, match=r"n must leave the paper's modulus below 2\^52, got 100000000"):
        InvisibilityCloak.original(1.0, 1e-8, 10**8)
    with pytest.raises(UnreachableError, match="would need n"):
        InvisibilityCloak.for_target(1.0, 1e-8, 1000, noise_probability=0.001)


@pytest.mark.parametrize("protocol", [*InvisibilityCloak.examples()], ids=lambda protocol: f"precision {protocol.precision}")
def test_conformance(protocol):
    report = ss.check_protocol(protocol)
    assert report.passed, report


def test_samplers_have_the_law_of_the_noise():
    protocol, rng, repeats = InvisibilityCloak(2.0, 0.15, 12, 3, 2), np.random.default_rng(6), 3000
    values = np.repeat([0.0, 1.0], [9, 3])
    law = noise_law(2.0, 2, 12, 0.15)
    centre = (law.size - 1) // 2
    expected = law[centre - 6 : centre + 7] * repeats
    expected[0], expected[-1] = law[: centre - 5].sum() * repeats, law[centre + 6 :].sum() * repeats

    def level(aggregate):
        return round(float(protocol.estimate(aggregate, 12)[0]) * 24) - 6

    sent = [level(protocol.aggregate(protocol.encode(values, rng).messages)) for _ in range(repeats)]
    drawn = [level(protocol.sample_groups(np.array([0.0, 1.0]), np.array([9, 3]), rng)) for _ in range(repeats)]
    for sample in (sent, drawn):
        observed = np.bincount(np.clip(sample, -6, 6) + 6, minlength=13)
        assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "2", None])
def test_bad_parameters(bad):
    good = {"epsilon": 1.0, "noise_probability": 0.5, "users": 100, "shares": 5, "precision": 10}
    for name in good:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            InvisibilityCloak(**{**good, name: bad})
