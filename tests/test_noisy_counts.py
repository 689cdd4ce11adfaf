"""Protocols that count with negative binomial noise: exact privacy against sums of probabilities, samplers, calibration."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import Flooded, NoisyCount, UnreachableError, flooded
from shufflesim.bounds.flooded import FloodedAtMost
from shufflesim.bounds.negative_binomial import pmf
from shufflesim.protocols import CorrelatedCount, NegativeBinomialCount
from tests.oracles import load, untraced

# Probability with which each comparison of samples fails on correct code.
FALSE_ALARM = 1e-9
ROWS = [row for row in load("protocols")["rows"] if row["protocol"].startswith("D Ghazi")]


def law(r, p, size):
    """NB(r, p) on 0..size-1, by the ratio of neighbours."""
    k = np.arange(1, size)
    steps = np.concatenate([[r * math.log1p(-p)], np.log(p) + np.log1p((r - 1) / k)])
    return np.exp(np.cumsum(steps))


def hockey_stick(first, second, eps):
    return float(np.maximum(0, first - math.exp(eps) * second).sum())


def both_ways(first, second, eps):
    return max(hockey_stick(first, second, eps), hockey_stick(second, first, eps))


@untraced
def exact_pmf(k, r, p):
    with mpmath.workdps(50):
        k, r, p = mpmath.mpf(k), mpmath.mpf(r), mpmath.mpf(p)
        power = r * mpmath.log(1 - p) + k * mpmath.log(p)
        return mpmath.exp(mpmath.loggamma(k + r) - mpmath.loggamma(r) - mpmath.loggamma(k + 1) + power)


@untraced
def exact_tail(a, b, x):
    with mpmath.workdps(50):
        return mpmath.betainc(a, b, 0, x, regularized=True)


@pytest.mark.parametrize("r", [1e-9, 0.3, 1.0, 44.6, 2100.0, 1e6])
@pytest.mark.parametrize("p", [1e-12, 0.3, 0.9, 1 - 2e-10])
def test_probabilities_are_as_accurate_as_they_say(r, p):
    mean = r * p / (1 - p)
    spread = math.sqrt(mean / (1 - p))
    for z in (-12, -1, 0, 3, 12, 40):
        k = max(0, math.floor(mean + z * spread))
        value, error = pmf(k, r, p)
        exact = exact_pmf(k, r, p)
        assert exact < 1e-300 or abs(float(value) / exact - 1) <= float(error) < 1e-6


@pytest.mark.parametrize("r", [0.3, 1.0, 2.5, 44.6, 400.0])
@pytest.mark.parametrize("p", [0.05, 0.6, 0.9, 0.995])
def test_divergence_of_noise_and_shifted_noise(r, p):
    size = int(r * p / (1 - p) + 60 * (1 + math.sqrt(r)) / (1 - p)) + 200
    noise = law(r, p, size)
    first, second = np.append(noise, 0), np.insert(noise, 0, 0)
    for eps in (0.0, 1e-3, 0.1, -math.log(p), 0.7, 2.0, 5.0, 30.0):
        low, high, _ = NoisyCount(r, p).delta(eps, 1e-9)
        exact = both_ways(first, second, eps)
        assert low <= exact * (1 + 1e-10) + 1e-14
        assert high >= exact * (1 - 1e-10) - 1e-14
        assert high - low <= 1e-9 * high + 1e-14
    for eps in (-0.1, -3.0):
        assert NoisyCount(r, p).delta(eps, 1e-9)[1] == pytest.approx(both_ways(first, second, eps), rel=1e-10)


@pytest.mark.parametrize(("r", "p", "eps"), [(44.6, 1 - 2e-10, 1e-9), (86.0, 1 - 1e-6, 2e-6), (2000.0, 0.9, 0.03)])
def test_far_tails_and_wide_noise_to_many_digits(r, p, eps):
    """Where no sum is possible: D = Pr[t] - (e^eps - 1) F(t - 1) for the best t, with 50 digits."""
    t = math.ceil(p * (r - 1) / (math.expm1(eps) + (1 - p))) - 1
    with mpmath.workdps(50):
        exact = exact_pmf(t, r, p) - mpmath.expm1(eps) * exact_tail(r, t, 1 - mpmath.mpf(p))
    low, high = NoisyCount(r, p).forth(eps)
    assert low <= exact <= high
    assert high - low <= 1e-6 * exact


@pytest.mark.parametrize("row", [row for row in ROWS if "NB" in row["protocol"]], ids=lambda row: f"{row['params']['r']:.3g}")
def test_enumerated_rows_of_the_plain_count(row):
    protocol = NegativeBinomialCount(row["params"]["r"], row["params"]["p_nb"], row["n"])
    found = ss.delta(protocol, row["n"], row["eps"])
    assert found.upper == pytest.approx(row["exact_delta"], rel=1e-6)
    assert found.upper <= row["bound_delta"]
    original = NegativeBinomialCount.original(row["eps"], row["params"]["target_delta"], row["n"])
    assert (original.r, original.p) == pytest.approx((protocol.r, protocol.p), rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "expected", "ratio"), [(1, 1e-6, 0.1765, 5.66), (0.5, 1e-6, 0.0816, 6.13), (0.25, 1e-8, 0.0456, 5.48)]
)
def test_the_paper_is_loose_by_a_factor_of_5(epsilon, delta, expected, ratio):
    protocol = NegativeBinomialCount.original(epsilon, delta, 10**6)
    found = ss.epsilon(protocol, 10**6, delta)
    assert float(found) == pytest.approx(expected, abs=5e-5)
    assert ss.epsilon(protocol, 10**6, delta, bound="lower").lower == pytest.approx(float(found), rel=1e-8)
    assert NegativeBinomialCount.extra_amplification_ratio(epsilon, delta, 10**6) == pytest.approx(ratio, abs=5e-3)


def test_other_users_values_do_not_matter():
    """All data of three users: the number of messages is the sum of values and noise."""
    protocol = NegativeBinomialCount(r=2.0, p=0.6, users=3)
    share = law(2 / 3, 0.6, 200)
    total = np.convolve(np.convolve(share, share), share)
    for ones in range(3):
        first, second = np.zeros(700), np.zeros(700)
        first[ones : ones + total.size] = total
        second[ones + 1 : ones + 1 + total.size] = total
        for eps in (0.0, 0.4, 1.5):
            assert ss.delta(protocol, 3, eps).upper == pytest.approx(both_ways(first, second, eps), rel=1e-9)


def test_only_honest_and_present_users_hide():
    protocol = NegativeBinomialCount(r=40.0, p=0.9, users=1000)
    half = ss.epsilon(protocol, 1000, 1e-6, n_honest=500).upper
    assert half == ss.epsilon(NegativeBinomialCount(20.0, 0.9, 1000), 1000, 1e-6).upper > ss.epsilon(protocol, 1000, 1e-6).upper
    absent = ss.epsilon(protocol, 1000, 1e-6, dropout=0.5).upper
    assert half < absent < 1.3 * half
    assert ss.epsilon(protocol, 1000, 1e-6, n_honest=1).upper == math.inf
    with pytest.raises(ValueError, match="sampling must be 1"):
        ss.epsilon(protocol, 1000, 1e-6, sampling=0.5)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.3, 2.0, 20.0, 700.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-6, 0.1])
def test_targets_are_met_and_no_noise_is_wasted(epsilon, delta):
    found = NegativeBinomialCount.for_target(epsilon, delta, 1000)
    assert float(ss.epsilon(found, 1000, delta)) <= epsilon
    less = NegativeBinomialCount(found.r, math.exp(math.log(found.p) * (1 + 1e-4)), 1000)
    assert found.p == math.exp(-600) or float(ss.epsilon(less, 1000, delta)) > epsilon
    assert found.retargeted(epsilon, delta, 1000) == found


def test_targets_out_of_reach_and_out_of_range():
    assert NegativeBinomialCount.for_target(1.0, 1e-6, 100, r=1000.0).variance(np.array([100, 0]), 100)[0] < 36
    with pytest.raises(UnreachableError, match=r"n = 10 users at delta = 1e-13, got 0\.1"):
        NegativeBinomialCount.for_target(0.1, 1e-13, 10, r=1.0)
    with pytest.raises(ValueError, match=r"epsilon must be a number in \(0, 1\] in the paper's theorem, got 1.5"):
        NegativeBinomialCount.original(1.5, 1e-6, 10)
    with pytest.raises(ValueError, match="p must be a number"):
        NegativeBinomialCount.original(1e-13, 1e-6, 10)


@pytest.mark.parametrize("protocol", [*NegativeBinomialCount.examples(), *CorrelatedCount.examples()])
def test_conformance(protocol):
    report = ss.check_protocol(protocol)
    assert report.passed, report


def test_samplers_have_the_law_of_the_noise():
    """Per-user path and counts against NB(r n/users, p) by chi-square."""
    protocol, rng, repeats = NegativeBinomialCount(r=5.0, p=0.7, users=40), np.random.default_rng(1), 5000
    values = (np.arange(30) < 7).astype(np.uint8)
    sent = [protocol.encode(values, rng).messages.shape[0] - 7 for _ in range(repeats)]
    drawn = [protocol.sample_aggregate(np.array([23, 7]), rng)[0] - 7 for _ in range(repeats)]
    expected = stats.nbinom(5.0 * 30 / 40, 0.3).pmf(np.arange(30)) * repeats
    expected[-1] += repeats - expected.sum()
    for sample in (sent, drawn):
        observed = np.bincount(np.minimum(sample, 29), minlength=30)
        assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM


def test_a_billion_users():
    counts = ss.Counts([600_000_000, 400_000_000])
    protocol = NegativeBinomialCount.for_target(1.0, 1e-9, 10**9)
    for one in (protocol, CorrelatedCount.for_target(1.0, 1e-9, 10**9)):
        result = ss.simulate(one, counts, delta=1e-9, seed=3, method="counts")
        assert abs(result.estimates["estimate"].iloc[1] - 4e8) < 8 * math.sqrt(one.variance(np.array([0, 1]), 10**9)[0])


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, True, "2", None])
def test_bad_parameters(bad):
    for parameters in ({"r": bad}, {"p": bad}, {"users": bad}):
        with pytest.raises(ValueError, match=rf"^{next(iter(parameters))} must be"):
            NegativeBinomialCount(**{"r": 5.0, "p": 0.5, "users": 10, **parameters})
    with pytest.raises(ValueError, match="p must be"):
        NegativeBinomialCount(5.0, 1.0, 10)


def flooded_law(epsilon_star, s, r, p, size):
    """Law of (Z1 + F, Z2 + F), shape (size, size), by summation over F."""
    z, flood = law(s, math.exp(-epsilon_star), size), law(r, p, size)
    total = np.zeros((size, size))
    for k in range(size):
        total[k:, k:] += flood[k] * np.outer(z[: size - k], z[: size - k])
    return total


def flooded_delta(total, eps):
    """Against the same law with one more +1."""
    first, second = np.pad(total, ((0, 1), (0, 0))), np.pad(total, ((1, 0), (0, 0)))
    return hockey_stick(first, second, eps), hockey_stick(second, first, eps)


@pytest.mark.parametrize(("epsilon_star", "r", "p"), [(0.7, 3.0, 0.5), (1.5, 0.5, 0.6), (0.7, 16.8, 0.5), (0.5, 1.0, 0.1)])
def test_both_numbers_of_messages(epsilon_star, r, p):
    """One dimension against the sum over both, and the bound for less noise."""
    total = flooded_law(epsilon_star, 1.0, r, p, 160)
    less = flooded_law(epsilon_star, 0.4, r, p, 160)
    for eps in (0.0, 0.3, 0.7, 1.0, 2.0):
        forth, back = flooded_delta(total, eps)
        exact = Flooded(epsilon_star, r, p)
        for found, truth in ((exact.forth(eps), forth), (exact.back(eps), back)):
            assert found[0] - 1e-13 <= truth <= found[1] + 1e-13
            assert found[1] - found[0] <= 1e-9 * found[1]
        assert max(forth, back) <= FloodedAtMost(epsilon_star, r, p).worst(eps)[1] * (1 + 1e-12)
        assert max(flooded_delta(less, eps)) <= flooded(epsilon_star, 0.4, r, p).delta(eps, 0)[1] * (1 + 1e-12)


def test_log_concave_and_direct_sums_agree():
    """A shape just below 1 is summed term by term, one just above by intervals."""
    below, above = Flooded(0.3, 1 - 1e-13, 0.9), Flooded(0.3, 1 + 1e-13, 0.9)
    for eps in (0.0, 0.1, 0.31, 1.0):
        assert below.delta(eps, 0)[1] == pytest.approx(above.delta(eps, 0)[1], rel=1e-9)


@pytest.mark.parametrize("row", [row for row in ROWS if "correlated" in row["protocol"]])
def test_enumerated_row_of_the_correlated_count(row):
    p = row["params"]
    protocol = CorrelatedCount(p["eps_star"], p["r"], p["p_flood"], row["n"])
    found = ss.delta(protocol, row["n"], row["eps"])
    assert found.upper == pytest.approx(row["exact_delta"], rel=1e-6)
    assert found.upper <= row["bound_delta"]
    original = CorrelatedCount.original(1.0, p["target_delta"], row["n"], flood=0.3)
    assert (original.epsilon_star, original.r, original.p) == pytest.approx((0.7, p["r"], p["p_flood"]), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-6), (0.1, 1e-12), (1.0, 1e-6), (20.0, 1e-300), (700.0, 1e-12)])
def test_the_smallest_flood_meets_the_target(epsilon, delta):
    found = CorrelatedCount.for_target(epsilon, delta, 1000)
    assert float(ss.epsilon(found, 1000, delta)) <= epsilon
    less = CorrelatedCount(found.epsilon_star, found.r, math.exp(math.log(found.p) * (1 + 1e-4)), 1000)
    assert float(ss.epsilon(less, 1000, delta)) > epsilon
    variance = 2 * math.exp(-0.9 * epsilon) / math.expm1(-0.9 * epsilon) ** 2
    assert found.variance(np.array([0, 1]), 1000)[0] == pytest.approx(variance, rel=1e-9)


def test_parts_of_the_correlated_crowd():
    protocol = CorrelatedCount.for_target(1.0, 1e-6, 1000)
    whole, part = (ss.epsilon(protocol, 1000, 1e-6, n_honest=n).upper for n in (1000, 900))
    assert ss.epsilon(protocol, 1000, 1e-6, bound="lower").lower == pytest.approx(whole, rel=1e-8)
    assert ss.epsilon(protocol, 1000, 1e-6, n_honest=900, bound="lower").lower <= part < whole - math.log(0.9) + 0.05
    assert whole < ss.epsilon(protocol, 1000, 1e-6, dropout=0.1).upper < whole + 0.25
    assert CorrelatedCount.extra_amplification_ratio(1.0, 1e-6, 1000) == pytest.approx(1.0954, abs=1e-4)
    with pytest.raises(ValueError, match=r"epsilon must be at most 10 for flood = 0\.1, got 11"):
        CorrelatedCount.original(11.0, 1e-6, 1000)
    for bad in (0.0, 1.0, math.nan, "0.1"):
        with pytest.raises(ValueError, match="flood must be strictly between 0 and 1"):
            CorrelatedCount.for_target(1.0, 1e-6, 1000, flood=bad)
    with pytest.raises(ValueError, match="epsilon_star must be"):
        CorrelatedCount(0.0, 5.0, 0.5, 10)


def test_samplers_of_both_kinds():
    """Both numbers of messages, per user and by counts, against the law of the sums over F."""
    protocol, rng, repeats = CorrelatedCount(1.0, 1.5, 0.4, 20), np.random.default_rng(2), 5000
    values = (np.arange(20) < 4).astype(np.uint8)
    total = flooded_law(1.0, 1.0, 1.5, 0.4, 60)
    expected = np.append(total[:4, :4].ravel(), 1 - total[:4, :4].sum()) * repeats
    sent = [protocol.aggregate(protocol.encode(values, rng).messages) for _ in range(repeats)]
    drawn = [protocol.sample_aggregate(np.array([16, 4]), rng) for _ in range(repeats)]
    for sample in (sent, drawn):
        minus, plus = np.array(sample).T
        code = np.where((plus < 8) & (minus < 4), 4 * (plus - 4) + minus, 16)
        assert stats.chisquare(np.bincount(code, minlength=17), expected).pvalue > FALSE_ALARM
