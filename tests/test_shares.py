"""Sums of shares: the distance from the sum, the noise, privacy of small cases by enumeration, samplers, calibration."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import PolyaDifference, Simulated, log_distance
from shufflesim.bounds.shares import bounded_excess, exact_excess
from shufflesim.protocols import InvisibilityCloak, SplitAndMix
from tests.oracles import load

# Probability with which each comparison of samples fails on correct code.
FALSE_ALARM = 1e-9
ROWS = [row for row in load("protocols")["rows"] if row["protocol"].startswith("C IKOS")]


def polya(s, a, size):
    """Polya(s, a) on 0..size-1, by the ratio of neighbours."""
    k = np.arange(1, size)
    return np.exp(np.cumsum(np.concatenate([[s * math.log1p(-a)], math.log(a) + np.log((k - 1 + s) / k)])))


def hockey_stick(first, second, eps):
    return float(np.maximum(0, first - math.exp(eps) * second).sum())


def distance(*arguments):
    return math.exp(log_distance(*arguments)[1])


def orbits(permutations, n):
    label = list(range(n))
    for permutation in permutations:
        for i, j in enumerate(permutation):
            old, new = label[i], label[j]
            label = [new if x == old else x for x in label]
    return len(set(label))


@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (3, 3), (4, 2)])
def test_orbits_by_enumeration(n, k):
    """E[q^C] over all tuples of permutations."""
    tuples = list(itertools.product(itertools.permutations(range(n)), repeat=k))
    for q in (2, 3, 7):
        mean = Fraction(sum(q ** orbits(t, n) for t in tuples), len(tuples))
        assert exact_excess(n, k, q) == mean / q - 1


@pytest.mark.parametrize("n", [9, 12, 23, 40, 60])
def test_the_bound_for_many_users_encloses_the_exact_value(n):
    for shares, q in itertools.product((3, 4, 6, 9, 14, 40), (2, 5, 4096, 2**20, 2**45)):
        exact = exact_excess(n, shares - 1, q)
        log_exact = math.log(exact.numerator) - math.log(exact.denominator)
        low, high = bounded_excess(n, shares - 1, q)
        assert low - 1e-10 <= log_exact <= high + 1e-10
        # From here on it stands in for the exact value: tight wherever few pairs of views collide.
        assert n < 60 or q > 2**20 or log_exact > -8 or high - low < 0.01


def test_the_stated_examples():
    assert distance(40, 6, 4096) == pytest.approx(0.0200065, abs=5e-8)
    # n = 10^4, 32 bits, 12 messages, 2^-40.
    assert distance(10**4, 12, 2**32) < 2**-40 < distance(10**4, 9, 2**32)
    assert distance(10**9, 7, 2**60) < 2**-40 < distance(10**9, 6, 2**60)
    assert distance(1, 3, 100) == 0
    for n in (10**3, 10**6, 10**9):
        low, high = log_distance(n, 10, 2**45)
        assert low <= high < low + 0.05 or math.exp(low) > 1e-3


@pytest.mark.parametrize(
    "row", [r for r in ROWS if "TV" in r["protocol"] and "end" not in r["protocol"]], ids=lambda r: str(r["n"])
)
def test_enumerated_distances(row):
    factor = 2 if row["bound_kind"].startswith("2*") else 1
    tau = factor * distance(row["n"], row["params"]["m"], row["params"]["q"])
    assert tau == pytest.approx(row["bound_delta"], rel=1e-9)
    assert row["exact_delta"] <= tau


@pytest.mark.parametrize("row", [r for r in ROWS if "end-to-end" in r["protocol"]])
def test_enumerated_rows_end_to_end(row):
    p, n = row["params"], row["n"]
    logs = (math.log(p["tv"]),) * 2 if "tv" in p else log_distance(n, p["m"], p["q"])
    noise = PolyaDifference(p["eps_central"], 1)
    at = noise.delta(row["eps"], 0)[1] + (1 + math.exp(row["eps"])) * math.exp(logs[1])
    # The row takes the noise modulo q, which is a little less.
    assert row["bound_delta"] <= at * (1 + 1e-9)
    assert row["exact_delta"] <= Simulated(noise, logs).delta(row["eps"], 0)[1] <= min(1, at * (1 + 1e-12))


def shuffled_views(noise, data, shares, q):
    """Law of the multiset of all shares of users who hold `data`, each with the given law of noise modulo q."""
    total = Counter({(): 1.0})
    for x in data:
        user = Counter()
        for free in itertools.product(range(q), repeat=shares - 1):
            for k, probability in enumerate(noise):
                user[tuple(sorted((*free, (x + k - sum(free)) % q)))] += probability / q ** (shares - 1)
        grown = Counter()
        for (seen, first), (own, second) in itertools.product(total.items(), user.items()):
            grown[tuple(sorted(seen + own))] += first * second
        total = grown
    return total


def test_bounds_enclose_two_users_by_enumeration():
    """Bits, three shares, q = 7: both bounds against the divergence of the true multisets."""
    epsilon, q, shares, n = 1.5, 7, 3, 2
    a = math.exp(-epsilon)
    z = polya(1 / n, a, 120)
    difference = np.correlate(z, z, "full")
    noise = np.bincount(np.arange(-119, 120) % q, weights=difference, minlength=q)
    upper = Simulated(PolyaDifference(epsilon, 1), log_distance(n, shares, q))
    wrapped = math.log(PolyaDifference(epsilon, 1).beyond((q - 2) // 2))
    lower = Simulated(PolyaDifference(epsilon, 1), (wrapped, wrapped), True)
    for other in (0, 1):
        first, second = (shuffled_views(noise, (x, other), shares, q) for x in (0, 1))
        for eps in (0.0, 0.3, 1.0):
            exact = max(
                sum(max(0.0, one[v] - math.exp(eps) * two[v]) for v in one) for one, two in ((first, second), (second, first))
            )
            assert lower.delta(eps, 0)[1] <= exact <= upper.delta(eps, 0)[1]


@pytest.mark.parametrize("s", [0.05, 0.3, 0.7, 0.95, 1.0])
@pytest.mark.parametrize(("budget", "shift"), [(1.0, 1), (0.5, 10), (2.0, 7), (0.3, 4)])
def test_noise_against_sums(s, budget, shift):
    z = polya(s, math.exp(-budget / shift), int(60 * shift / budget))
    law = np.correlate(z, z, "full")
    for step in (1, shift):
        first, second = np.pad(law, (0, step)), np.pad(law, (step, 0))
        for eps in budget * np.array([0, 0.1, 0.5, 0.9, 1, 1.05, 1.3, 2]):
            exact = hockey_stick(first, second, eps)
            low, high, _ = PolyaDifference(budget, shift, s).delta(eps, 0)
            assert exact <= high + 1e-13
            if step == shift:
                assert low - 1e-13 <= exact
                assert high - low <= 1e-11
    if s < 1:
        top = PolyaDifference(budget, shift, s).ceiling
        assert top == pytest.approx(math.log(law[z.size - 1] / law[z.size - 1 + shift]), rel=1e-9)


@pytest.mark.parametrize("s", [1e-9, 0.4, 1 - 1e-9])
def test_quadrature(s):
    """P(0) = (1-a)^2s 2F1(s, s; 1; a^2) by its series, and the whole mass."""
    a = math.exp(-0.01)
    noise = PolyaDifference(1.0, 100, s)
    terms = np.cumprod(np.concatenate([[1.0], (a * (np.arange(20_000) + s) / (np.arange(20_000) + 1)) ** 2]))
    assert noise.probability(0) == pytest.approx((1 - a) ** (2 * s) * terms.sum(), rel=2e-13)
    mass = noise._integral(lambda log_b: -(1 + np.exp(log_b)) / np.expm1(log_b))
    assert mass == pytest.approx(1, rel=2e-13)


def test_many_levels_and_many_users():
    """The noise of half of the users for a million levels, as for a thousand: the lattice is fine enough not to matter."""
    coarse, fine = (PolyaDifference(0.5, shift, 0.5).delta(0.8, 0)[1] for shift in (10**5, 10**7))
    assert fine == pytest.approx(coarse, rel=0.2)
    protocol = SplitAndMix.for_target(0.1, 1e-12, 10**9)
    assert (protocol.shares, protocol.precision, protocol.bits_per_message) == (7, 31623, 45)


def test_only_honest_and_present_users_hide():
    protocol = SplitAndMix(1.0, 1000, 20, 32)
    table = [ss.epsilon(protocol, 1000, 1e-6, n_honest=n).upper for n in (1000, 900, 500)]
    assert table == sorted(table)
    assert table[0] == pytest.approx(1, rel=1e-5)
    low = ss.epsilon(protocol, 1000, 1e-6, n_honest=500, bound="lower").lower
    assert low == pytest.approx(table[2], rel=1e-6)
    assert 1 < ss.epsilon(protocol, 1000, 1e-6, dropout=0.1).upper < table[2]
    assert ss.epsilon(protocol, 1000, 1e-6, n_honest=1).upper <= protocol.local_epsilon
    with pytest.raises(ValueError, match="sampling must be 1"):
        ss.epsilon(protocol, 1000, 1e-6, sampling=0.5)


@pytest.mark.parametrize(("epsilon", "delta", "n"), [(1, 1e-8, 10**4), (0.1, 1e-12, 10**9), (20, 1e-300, 1000), (1, 0.1, 2)])
def test_targets_are_met_and_nothing_is_wasted(epsilon, delta, n):
    found = SplitAndMix.for_target(epsilon, delta, n)
    assert float(ss.epsilon(found, n, delta)) <= epsilon
    fewer = SplitAndMix(epsilon, n, found.shares - 1, found.precision)
    assert float(ss.epsilon(fewer, n, delta)) > epsilon
    less = SplitAndMix(found.epsilon + 3 * delta + 2e-6 * epsilon, n, found.shares, found.precision)
    assert float(ss.epsilon(less, n, delta)) > epsilon
    assert found.retargeted(epsilon, delta, n) == found


def test_extreme_targets():
    assert SplitAndMix.for_target(700.0, 1e-12, 1000).epsilon == 700
    assert SplitAndMix.for_target(1.0, 1e-6, 1).shares == 3
    assert float(ss.epsilon(SplitAndMix.for_target(1e-9, 1e-6, 10**6), 10**6, 1e-6)) <= 1e-9
    with pytest.raises(ValueError, match=r"epsilon must be at least 1e-18 a level of precision, for noise below 2\^52"):
        SplitAndMix(1e-9, 10**9, 5, 2**40)


def test_the_papers_number_of_shares():
    original = SplitAndMix.original(1.0, 1e-8, 10**4)
    sigma = math.log2((1 + math.e) / 1e-8)
    assert original.shares == math.ceil((2 * sigma + math.log2(original.modulus)) / (math.log2(10**4) - math.log2(math.e)) + 2)
    assert SplitAndMix.extra_amplification_ratio(1.0, 1e-8, 10**4) == pytest.approx(1, rel=1e-6)
    with pytest.raises(ValueError, match="n must be at least 19 for the paper's number of shares, got 18"):
        SplitAndMix.original(1.0, 1e-8, 18)


@pytest.mark.parametrize("protocol", [*SplitAndMix.examples()], ids=lambda protocol: f"precision {protocol.precision}")
def test_conformance(protocol):
    report = ss.check_protocol(protocol)
    assert report.passed, report


def test_shares_sum_to_the_noisy_number_and_are_uniform():
    protocol, rng = SplitAndMix(700.0, 4, 5, 8, modulus=2**52), np.random.default_rng(5)
    values = np.repeat([0.0, 0.25, 0.5, 1.0], 2000)
    shares = protocol.encode(values, rng).messages.reshape(-1, 5)
    assert [sum(row) % 2**52 for row in shares.tolist()] == np.repeat([0, 2, 4, 8], 2000).tolist()
    for column in shares.T:
        assert stats.chisquare(np.bincount(column >> 48, minlength=16)).pvalue > FALSE_ALARM


def test_samplers_have_the_law_of_the_noise():
    """Per-user path and counts: rounded sum plus the difference of two Polya variables of shape n/users."""
    protocol, rng, repeats = SplitAndMix(2.0, 30, 3, 2), np.random.default_rng(6), 3000
    values = np.repeat([0.0, 0.3, 1.0], [9, 5, 6])
    held, counts = np.unique(values, return_counts=True)
    z = polya(20 / 30, math.exp(-1.0), 60)
    law = np.convolve(np.correlate(z, z, "full"), stats.binom(5, 0.6).pmf(np.arange(6)))
    centre = 59 - 12
    expected = law[centre - 0 : centre + 30] * repeats
    expected[0] = law[: centre + 1].sum() * repeats
    expected[-1] = repeats - expected[:-1].sum()

    def level(aggregate):
        return round(float(protocol.estimate(aggregate, 20)[0]) * 40)

    sent = [level(protocol.aggregate(protocol.encode(values, rng).messages)) for _ in range(repeats)]
    drawn = [level(protocol.sample_groups(held, counts, rng)) for _ in range(repeats)]
    for sample in (sent, drawn):
        observed = np.bincount(np.clip(sample, 0, 29), minlength=30)
        keep = expected > 5
        pooled = [np.append(x[keep], x[~keep].sum()) for x in (observed, expected)]
        assert stats.chisquare(*pooled).pvalue > FALSE_ALARM


def test_a_billion_users_and_sums_of_halves():
    protocol = SplitAndMix.for_target(1.0, 1e-8, 10**9)
    data = ss.Counts([3 * 10**8, 7 * 10**8], values=[0.25, 0.71])
    result = ss.simulate(protocol, data, delta=1e-8, seed=1, method="counts")
    row = result.estimates.iloc[0]
    assert abs(row["estimate"] - row["truth"]) < 8 * math.sqrt(result.variance[0])
    largest = np.full(1000, protocol.modulus - 1)
    sums = protocol.aggregate(largest)
    assert int(sums[0]) + (int(sums[1]) << 26) == 1000 * (protocol.modulus - 1)
    assert (2**26 - 1) * 12 * 10**9 < 2**63


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "2", None])
def test_bad_parameters(bad):
    good = {"epsilon": 1.0, "users": 100, "shares": 5, "precision": 10}
    for name in good:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            SplitAndMix(**{**good, name: bad})
    with pytest.raises(ValueError, match="shares must be an integer in"):
        SplitAndMix(1.0, 100, 2, 10)
    with pytest.raises(ValueError, match="modulus must be at least"):
        SplitAndMix(1.0, 100, 5, 10, modulus=1000)
    for make in (lambda e: SplitAndMix(e, 10, 5, 2**40), lambda e: InvisibilityCloak(e, 0.1, 10, 5, 2**40)):
        for epsilon in (5e-324, 1e-300, 1e-160, 1e-10):
            with pytest.raises(
                ValueError, match=r"epsilon must be at least 1e-18 a level of precision, .* got .* for 1099511627776"
            ):
                make(epsilon)
        with pytest.raises(ValueError, match=r"modulus must be at most 2\^52, got"):
            make(2e-6)
    with pytest.raises(ValueError, match="modulus must be at least"):
        ss.simulate(SplitAndMix(1.0, 100, 5, 10), np.zeros(300), delta=1e-6, seed=1)
