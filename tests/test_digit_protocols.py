"""RecursiveSum and BinaryExpansionMean: laws by enumeration, composed bounds, calibration, count-space sampling."""

import itertools
import math
import time
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import Composed, MessageCount, Pairs, Round, UnreachableError, VariationRatio, compose, composition
from shufflesim.bounds import composed as composed_module
from shufflesim.protocols import BinaryExpansionMean, RecursiveSum

from .oracles import load, untraced

# Of each comparison of a sampler with its law; there are fewer than 20.
FALSE_ALARM = 1e-10
DRAWS = 2000


def budget_of(flip, sampled=1):
    """v of a single level whose bits are flipped with this probability."""
    return 2 * sampled * math.sinh(0.5 * math.log((1 - flip) / flip))


# Tiny instances, with a few values that need all their digits, and numbers of users that can be enumerated.
TINY = [
    (RecursiveSum((2, 2), (0.5, 0.6)), [0.0, 0.3, 0.75, 1.0], 3),
    (RecursiveSum((2, 1), (0.3, 0.4), low=-1, high=3), [-1.0, 0.5, 3.0], 3),
    (RecursiveSum((3,), (0.4,)), [0.0, 0.5, 1.0], 3),
    (BinaryExpansionMean(3.0, 2), [0.0, 0.6, 1.0], 3),
    (BinaryExpansionMean(budget_of(0.2), 1, dim=2, sampled=1), [[0.0, 0.0], [1.0, 0.3], [1.0, 1.0]], 3),
    (BinaryExpansionMean(budget_of(0.3, 2), 1, dim=2), [[0.0, 0.0], [0.6, 0.0], [1.0, 1.0]], 3),
    (BinaryExpansionMean(budget_of(0.3, 3), 1, dim=3), [[0.0, 0.0, 0.0], [1.0, 1.0, 0.2], [1.0, 1.0, 1.0]], 2),
    (BinaryExpansionMean(4.0, 2, dim=3, sampled=2), [[0.0, 0.0, 0.0], [0.1, 1.0, 0.7]], 2),
]


def grr_law(truth, size, gamma):
    return [(1 - gamma) * (z == truth) + gamma / size for z in range(size)]


def product(laws):
    """Law of tuples of independent codes: laws are mappings from tuples of codes to probabilities."""
    total = {(): 1.0}
    for law in laws:
        found = Counter()
        for (codes, p), (more, q) in itertools.product(total.items(), law.items()):
            found[tuple(sorted(codes + more))] += p * q
        total = found
    return total


def user_law(protocol, x):
    """Law of the sorted codes that one user sends, from the definition of the protocol."""
    scaled = [(v - protocol.low) / (protocol.high - protocol.low) for v in np.atleast_1d(x)]
    if isinstance(protocol, RecursiveSum):
        *whole, last = protocol.precisions
        left, laws, start = scaled[0], [], 0
        for p, gamma in zip(whole, protocol.gammas, strict=False):
            z = min(math.floor(left * p), p - 1)
            left = left * p - z
            laws.append({(start + y,): q for y, q in enumerate(grr_law(z, p, gamma))})
            start += p
        up, floor = math.modf(left * last)
        law = Counter()
        for z, weight in ((int(floor), 1 - up), (int(floor) + 1, up)):
            for y, q in enumerate(grr_law(z, last + 1, protocol.gammas[-1])):
                law[start + y,] += weight * q
        return product([*laws, law])
    m, length, chosen = protocol.levels, protocol.length, protocol.chosen
    shares = [4 ** (-min(k, m - 1) / 3) for k in range(1, m + 1)]
    laws = []
    for k in range(m):
        v = protocol.budget * shares[k] / sum(shares) / chosen
        flip = 0.5 * (1 - v / math.sqrt(v * v + 4))
        ones = []
        for u in scaled:
            for _ in range(k):
                u = 2 * u - min(math.floor(2 * u), 1)
            ones.append(u if k == m - 1 else min(math.floor(2 * u), 1))
        level = Counter()
        subsets = list(itertools.combinations(range(length), chosen))
        for subset in subsets:
            bits = [
                {(2 * (length * k + j) + y,): abs(1 - y - p) for y in (0, 1)} for j in subset if (p := _seen(ones[j], flip)) >= 0
            ]
            for codes, p in product(bits).items():
                level[codes] += p / len(subsets)
        laws.append(level)
    return product(laws)


def _seen(one, flip):
    """Probability that a bit that is 1 with probability `one` arrives as 1."""
    return one * (1 - flip) + (1 - one) * flip


def shuffled_law(protocol, data):
    return product([user_law(protocol, x) for x in data])


def divergence(first, second, eps):
    return sum(max(0.0, p - math.exp(eps) * second.get(y, 0.0)) for y, p in first.items())


def histogram(protocol, codes):
    return np.bincount(codes, minlength=protocol.alphabet)


@pytest.mark.parametrize("protocol", [*RecursiveSum.examples(), *BinaryExpansionMean.examples()], ids=repr)
def test_conformance(protocol):
    assert ss.check_protocol(protocol).passed


def _of_row(row):
    p = row["params"]
    if "k1" in p:
        return RecursiveSum((p["k1"], p["k2"] - 1), (p["gamma1"], p["gamma2"]))
    if "v" in p:
        protocol = BinaryExpansionMean(p["v"], p["m"])
        assert [bit.support[1] for bit in protocol.bits] == pytest.approx(p["flips"], rel=1e-12)
        return protocol
    return BinaryExpansionMean(budget_of(p["f"], p["s"]), 1, dim=p["d"], sampled=p["s"])


ROWS = [row for row in load("protocols")["rows"] if row["protocol"].startswith(("A1", "A2"))]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['protocol'][:12]} n={r['n']} eps={r['eps']}")
def test_oracle_rows(row):
    protocol, n, eps = _of_row(row), row["n"], row["eps"]
    found = ss.delta(protocol, n, eps)
    assert found.upper == pytest.approx(row["corrected_bound_delta"], rel=1e-9)
    assert found.upper >= row["exact_delta"] * (1 - 1e-12)
    assert float(ss.delta(protocol, n, eps, bound="published")) == pytest.approx(row["bound_delta"], rel=1e-9)
    assert ss.delta(protocol, n, eps, bound="lower").lower <= row["exact_delta"] * (1 + 1e-12)
    if row["tight"]:
        assert found.upper == pytest.approx(row["exact_delta"], rel=1e-9)
    for x, stated in zip(protocol.declarations, row["declaration"], strict=True):
        assert (x.p, x.beta, x.q) == pytest.approx((stated["p"], stated["beta"], stated["q0"]), rel=1e-12)


def test_there_are_oracle_rows():
    assert len(ROWS) == 8


@pytest.mark.parametrize(("protocol", "values", "n"), TINY, ids=str)
def test_bounds_enclose_the_true_multiset(protocol, values, n):
    laws = [user_law(protocol, x) for x in values]
    for eps in (0.0, 0.4, 1.0):
        worst = 0.0
        for others in itertools.combinations_with_replacement(range(len(values)), n - 1):
            views = [product([law, *(laws[k] for k in others)]) for law in laws]
            worst = max(worst, *(divergence(a, b, eps) for a, b in itertools.permutations(views, 2)))
        assert worst > 0
        assert worst <= ss.delta(protocol, n, eps).upper * (1 + 1e-12)
        if protocol.messages_per_user == 1 or isinstance(protocol, BinaryExpansionMean):
            # The values hold all bits 0 and all bits 1, which is what the lower bound needs on a single level.
            assert protocol.messages_per_user > 1 or ss.delta(protocol, n, eps, bound="lower").lower <= worst * (1 + 1e-12)


@pytest.mark.parametrize(("protocol", "values", "n"), TINY, ids=str)
def test_moments_from_the_law(protocol, values, n):
    data = protocol.domain.validate(np.array(values))[[0, 1, -1][:n]]
    total = protocol.domain.total(data)
    law = shuffled_law(protocol, data)
    p = np.array(list(law.values()))
    found = [(protocol.estimate(a, n), protocol.estimated_variance(a, n)) for a in (histogram(protocol, c) for c in law)]
    estimates, claimed = (np.array(column) for column in zip(*found, strict=True))
    assert p.sum() == pytest.approx(1, rel=1e-12)
    mean = p @ estimates
    assert mean == pytest.approx(protocol.domain.truth(total, n), rel=1e-9, abs=1e-12)
    assert mean == pytest.approx(data.mean(axis=0).ravel(), rel=1e-9, abs=1e-12)
    assert p @ (estimates - mean) ** 2 == pytest.approx(protocol.variance(total, n), rel=1e-9)
    assert np.all(p @ claimed >= 0.8 * protocol.variance(total, n))


@pytest.mark.parametrize(("protocol", "values", "n"), TINY, ids=str)
def test_samplers_have_the_law(protocol, values, n):
    rng = np.random.default_rng(5)
    data = protocol.domain.validate(np.array(values))[[0, 1, 1][:n]]
    held, counts = np.unique(data, axis=0, return_counts=True)
    law = shuffled_law(protocol, data)
    index = {histogram(protocol, codes).tobytes(): i for i, codes in enumerate(law)}
    expected = DRAWS * np.array(list(law.values()))
    # Groups of outcomes of about a sixteenth of all draws, or single ones that are more.
    order = np.argsort(-expected)
    group = np.empty(len(index), dtype=int)
    group[order] = np.cumsum(expected[order]) // (1.0001 * DRAWS / 16)
    _, group = np.unique(group, return_inverse=True)

    def check(aggregates):
        seen = [group[index[a.tobytes()]] for a in aggregates]
        assert (
            stats.chisquare(np.bincount(seen, minlength=group.max() + 1), np.bincount(group, weights=expected)).pvalue
            > FALSE_ALARM
        )

    many = protocol.encode(np.concatenate([data] * DRAWS), rng)
    assert many.messages.dtype.kind == "u"
    assert protocol.valid(many.messages).all()
    assert np.all(many.sizes == protocol.messages_per_user)
    check([histogram(protocol, m) for m in many.messages.reshape(DRAWS, -1)])
    if protocol.sample_groups(held, counts, rng) is not None:
        check([protocol.sample_groups(held, counts, rng) for _ in range(DRAWS)])


def test_users_who_sample_several_coordinates_are_not_counted():
    protocol = BinaryExpansionMean(4.0, 2, dim=3, sampled=2)
    with pytest.raises(ValueError, match="exact sampler"):
        ss.simulate(protocol, np.zeros((4, 3)), delta=1e-6, method="counts")


@untraced
def exact_composition(declarations, n, eps):
    """Delta of the product of three-outcome pairs, all outcomes listed, in 40 digits."""
    with mpmath.workdps(40):
        total = [(mpmath.mpf(1), mpmath.mpf(1))]
        for x in declarations:
            table = x.three_outcome_table()
            rows = [[mpmath.mpf(float(v)) for v in row] for row in zip(table.weight, table.g0, table.g1, strict=True)]
            part = []
            for counts in itertools.product(range(n + 1), repeat=len(rows)):
                if sum(counts) != n:
                    continue
                mass = mpmath.factorial(n)
                for c, (weight, _, _) in zip(counts, rows, strict=True):
                    mass *= weight**c / mpmath.factorial(c)
                part.append(tuple(mass * sum(c * row[b] for c, row in zip(counts, rows, strict=True)) / n for b in (1, 2)))
            total = [(p * a, q * b) for p, q in total for a, b in part]
        growth = mpmath.exp(mpmath.mpf(eps))
        return sum((max(mpmath.mpf(0), p - growth * q) for p, q in total), mpmath.mpf(0))


@pytest.mark.parametrize(
    ("protocol", "n", "eps"),
    [
        (RecursiveSum((2, 2), (0.5, 0.6)), 6, 0.7),
        (RecursiveSum((2, 2), (0.5, 0.6)), 6, -0.7),
        (RecursiveSum((5, 1), (1e-6, 1e-3)), 5, 17.0),
        (RecursiveSum((2, 1), (1e-200, 1e-9)), 4, 475.0),
        (BinaryExpansionMean(1.5, 3), 4, 1.1),
        (BinaryExpansionMean(1e-7, 2), 5, 0.3e-7),
    ],
    ids=str,
)
def test_enumeration_encloses_the_composition(protocol, n, eps):
    exact = exact_composition(protocol.declarations, n, eps)
    assert exact > 0
    found = ss.delta(protocol, n, eps)
    assert found.lower <= exact <= found.upper
    assert found.slack <= (1e-7 if protocol.local_epsilon > 1e-6 else 1e-3) * found.upper
    if 0 < eps < 10:
        bracket = ss.epsilon(protocol, n, float(exact))
        assert bracket.lower <= eps * (1 + 1e-9)
        assert bracket.upper >= eps * (1 - 1e-9)
        assert bracket.slack <= (1e-5 if protocol.local_epsilon > 1e-6 else 1e-3) * bracket.upper


def test_enumeration_and_privacy_losses_agree(monkeypatch):
    protocol, n = RecursiveSum((4, 6), (0.3, 0.5)), 30
    listed = [ss.epsilon(protocol, n, 1e-3), *(ss.delta(protocol, n, eps) for eps in (0.1, 1.0))]
    assert "enumeration" in listed[0].method
    monkeypatch.setattr(composed_module, "OUTCOMES_MAX", 1)
    composed = [ss.epsilon(protocol, n, 1e-3), *(ss.delta(protocol, n, eps) for eps in (0.1, 1.0))]
    assert "privacy loss" in composed[0].method
    for exact, wider in zip(listed, composed, strict=True):
        assert wider.lower <= exact.upper
        assert wider.upper >= exact.lower
        assert wider.upper <= 1.02 * exact.upper


def test_many_users_are_composed():
    protocol, n = RecursiveSum((4, 6), (0.1, 0.2)), 10_000
    found = ss.epsilon(protocol, n, 1e-6)
    rounds = compose([Round(digit, n) for digit in protocol.digits], delta=1e-6)
    assert (found.lower, found.upper) == pytest.approx((rounds.lower, rounds.upper), rel=1e-4)
    singles = [float(ss.epsilon(digit, n, 1e-6)) for digit in protocol.digits]
    assert max(singles) < found.upper < sum(singles)
    assert ss.epsilon(protocol, n, 1e-6, bound="lower").lower >= max(
        ss.epsilon(digit, n, 1e-6, bound="lower").lower for digit in protocol.digits
    ) * (1 - 1e-5)


def test_without_the_package_that_composes(monkeypatch):
    protocol, n = BinaryExpansionMean(2.0, 3), 10_000
    composed = ss.epsilon(protocol, n, 1e-6)

    def missing():
        raise ImportError

    monkeypatch.setattr(composition, "_dp_accounting", missing)
    found = ss.epsilon(protocol, n, 1e-6)
    assert found.upper > composed.upper
    assert found.upper == pytest.approx(sum(float(ss.epsilon(x, n, 1e-6 / 3)) for x in protocol.declarations), rel=1e-5)
    assert "sum of the parts (composing them needs dp-accounting)" in found.method
    shared = ss.delta(protocol, n, 0.3)
    assert shared.upper == pytest.approx(sum(float(ss.delta(x, n, 0.1)) for x in protocol.declarations), rel=1e-6)
    assert "dp-accounting" in shared.method


def test_a_bundle_is_no_worse_than_its_declaration():
    """For more than two bits the rows of all numbers of ones are less than the three outcomes with q* = q."""
    for sampled, n in ((2, 5), (3, 5), (3, 200), (5, 50)):
        protocol = BinaryExpansionMean(1.3 * sampled, 1, dim=5, sampled=sampled)
        for eps in (0.05, 0.3, 1.0):
            ours, declared = ss.delta(protocol, n, eps).upper, ss.delta(protocol.declarations[0], n, eps).upper
            assert ours <= declared * (1 + 1e-9)
            if sampled == 2:
                assert ours == pytest.approx(declared, rel=1e-9)


def test_bundles_declare_the_total_variation():
    for flip, s in ((0.3, 2), (0.3, 3), (0.01, 4), (0.499, 6)):
        protocol = BinaryExpansionMean(budget_of(flip, s), 1, dim=s)
        t = Fraction(flip)
        law = [math.comb(s, h) * (1 - t) ** h * t ** (s - h) for h in range(s + 1)]
        exact = sum(max(Fraction(0), a - b) for a, b in zip(law, law[::-1], strict=True))
        assert protocol.declarations[0].beta == pytest.approx(float(exact), rel=1e-9)
        assert protocol.declarations[0].beta >= float(exact) * (1 - 1e-12)


def test_absent_users():
    protocol = RecursiveSum((2, 2), (0.5, 0.6))
    alone, two = (ss.delta(protocol, n, 0.5).upper for n in (1, 2))
    mean = 0.7 * two + 0.3 * alone
    found = ss.delta(protocol, 2, 0.5, dropout=0.3)
    assert found.lower <= mean * (1 + 1e-9)
    assert found.upper >= mean * (1 - 1e-9)
    assert ss.delta(protocol, 2, 0.5, dropout=0.3, bound="lower").lower <= mean * (1 + 1e-9)
    many = [float(ss.epsilon(protocol, 500, 1e-4, dropout=dropout)) for dropout in (0.0, 0.1)]
    assert many[0] < many[1] < 1.15 * many[0]


def test_sampling_needs_a_single_message():
    single = BinaryExpansionMean(2.0, 1)
    assert float(ss.epsilon(single, 100, 1e-4, sampling=0.5)) == pytest.approx(
        float(ss.epsilon(single.bits[0], 100, 1e-4, sampling=0.5)), rel=1e-6
    )
    for several in (RecursiveSum((2, 2), (0.5, 0.6)), BinaryExpansionMean(2.0, 2), BinaryExpansionMean(2.0, 1, dim=2)):
        with pytest.raises(ValueError, match="sampling must be 1"):
            ss.epsilon(several, 100, 1e-4, sampling=0.5)


@pytest.mark.parametrize(
    ("protocol", "value"),
    [
        (RecursiveSum((6, 40), (1e-4, 1e-3)), [0.25, 0.7]),
        (BinaryExpansionMean(2000.0, 4, dim=3, sampled=1), [[0, 0, 1], [0.3, 1, 0.8]]),
    ],
    ids=str,
)
def test_a_billion_users(protocol, value):
    started = time.perf_counter()
    groups = protocol.domain.validate(np.array(value, dtype=float)), np.array([600_000_000, 400_000_000])
    aggregate = protocol.sample_groups(*groups, np.random.default_rng(3))
    assert time.perf_counter() - started < 1
    total = protocol.domain.grouped_total(*groups)
    error = protocol.estimate(aggregate, 10**9) - protocol.domain.truth(total, 10**9)
    assert np.all(np.abs(error) <= 7 * np.sqrt(protocol.variance(total, 10**9)))
    assert aggregate.sum() == protocol.messages_per_user * 10**9


def test_counts_and_users_by_the_runner():
    protocol = RecursiveSum((5, 8), (0.1, 0.2), low=10, high=20)
    data = np.repeat([11.0, 19.5], [300, 700])
    users = ss.simulate(protocol, data, delta=1e-3, seed=1)
    counts = ss.simulate(protocol, ss.Counts([300, 700], values=[11.0, 19.5]), delta=1e-3, seed=1, method="counts")
    for result in (users, counts):
        row = result.estimates.iloc[0]
        assert row["truth"] == pytest.approx(16.95)
        assert abs(row["estimate"] - row["truth"]) <= 7 * row["stderr"]
    assert users.estimates["stderr"].iloc[0] == pytest.approx(counts.estimates["stderr"].iloc[0], rel=0.3)


def test_messages_and_bits():
    sums = RecursiveSum((4, 10, 6), (0.1, 0.2, 0.3))
    assert (sums.messages_per_user, sums.bits_per_message, sums.alphabet) == (3, 2 + (2 + 4 + 3) / 3, 4 + 10 + 7)
    means = BinaryExpansionMean(3.0, 3, dim=6, sampled=2)
    assert (means.messages_per_user, means.bits_per_message, means.alphabet) == (6, 2 + 3 + 1, 36)
    assert means.local_epsilon == pytest.approx(2 * sum(bit.epsilon for bit in means.bits), rel=1e-12)
    assert means.local_epsilon < 3.0
    assert sum(means.budgets) == pytest.approx(3.0, rel=1e-12)


@pytest.mark.parametrize(
    ("target", "delta", "n"),
    [(1e-9, 1e-6, 1), (700.0, 1e-6, 1), (1.0, 1e-300, 2), (0.3, 1e-8, 10**5)],
)
def test_targets_are_met_and_not_wasted(target, delta, n):
    sums = RecursiveSum.for_target(target, delta, n, precisions=[3, 10])
    means = BinaryExpansionMean.for_target(target, delta, n, levels=2)
    for protocol in (sums, means):
        assert float(ss.epsilon(protocol, n, delta)) <= target
    assert sums.precisions == (3, 10)
    odds = np.array([g / (1 - g) for g in sums.gammas])
    # Its own search has an accuracy of a thousandth.
    louder = RecursiveSum((3, 10), tuple(odds * 0.99 / (1 + odds * 0.99))) if target > 1e-6 else None
    assert louder is None or float(ss.epsilon(louder, n, delta)) > target or target == 700
    if target < 700:
        assert float(ss.epsilon(BinaryExpansionMean(means.budget * 1.01, 2), n, delta)) > target


def test_digits_share_the_noise():
    found = RecursiveSum.for_target(0.5, 1e-5, 3, precisions=(3, 4), low=-1, high=1)
    odds = [g / (1 - g) for g in found.gammas]
    assert odds[1] / odds[0] == pytest.approx(3 * math.sqrt(5 / 3), rel=1e-9)
    assert found.retargeted(0.5, 1e-5, 3) == found
    means = BinaryExpansionMean.for_target(0.5, 1e-5, 2, levels=1, dim=3, sampled=2, low=-1, high=1)
    assert means.retargeted(0.5, 1e-5, 2) == means


def test_the_papers_calibration():
    found = RecursiveSum.original(1.0, 1e-6, 10**6)
    assert len(found.precisions) == 3
    a = (26 * 10**6 / 27) ** (1 / 81)
    assert found.precisions == (math.ceil(a**3), math.ceil(a**9), math.ceil(a**27))
    cost = 14 * math.log(2 * 3e6) * 9 / (10**6 - 1)
    assert found.gammas == pytest.approx([cost * size for size in found.sizes], rel=1e-12)
    assert RecursiveSum.original(1.0, 1e-6, 10**6, m=1).precisions == (math.ceil((2 * 10**6) ** (1 / 3)),)
    ratio = RecursiveSum.extra_amplification_ratio(1.0, 1e-6, 10**6)
    assert ratio == pytest.approx(5.104, abs=0.01)


@pytest.mark.parametrize(("epsilon", "delta", "m"), [(1.0, 1e-6, 2), (0.3, 1e-12, 1), (2.9, 1e-3, 3), (1e-3, 1e-6, 4)])
def test_enough_users_are_named(epsilon, delta, m):
    with pytest.raises(ValueError, match=r"n must be at least [\d,]+ for gammas below 1") as caught:
        RecursiveSum.original(epsilon, delta, 50, m=m)
    enough = int(str(caught.value).split("least ")[1].split(" for")[0].replace(",", ""))
    assert max(RecursiveSum.original(epsilon, delta, enough, m=m).gammas) < 1
    with pytest.raises(ValueError, match=f"n must be at least {enough:,} for"):
        RecursiveSum.original(epsilon, delta, enough - 1, m=m)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RecursiveSum((2, 2), (0.5,)), r"gammas must be 2 numbers, one for each digit, got \(0.5,\)"),
        (lambda: RecursiveSum((2, 2), 0.5), "gammas must be 2 numbers, one for each digit, got 0.5"),
        (lambda: RecursiveSum((2, 2), (0.5, 1.0)), r"gammas must be numbers in \(0, 1\), got 1.0"),
        (lambda: RecursiveSum((2, 2), (0.0, 0.5)), r"gammas must be in \(0, 1\) and at least K e\^-700"),
        (lambda: RecursiveSum((2, 2), (1e-305, 0.5)), r"gammas must be in \(0, 1\) and at least K e\^-700"),
        (lambda: RecursiveSum((2, 2), (math.nan, 0.5)), r"gammas must be numbers in \(0, 1\), got nan"),
        (lambda: RecursiveSum((2, 2), (True, 0.5)), r"gammas must be numbers in \(0, 1\), got True"),
        (lambda: RecursiveSum((1, 2), (0.5, 0.5)), "precisions must be an integer >= 2, got 1"),
        (lambda: RecursiveSum("ab", (0.5, 0.5)), "precisions must be one or more integers, got 'ab'"),
        (lambda: RecursiveSum((2**22,), (0.5,)), "precisions must have a sum below 4194304, got 4194304"),
        (lambda: RecursiveSum((2,), (0.5,), low=1, high=0), "low must be < high"),
        (lambda: BinaryExpansionMean(0, 2), "budget must be a number > 0, got 0"),
        (lambda: BinaryExpansionMean("1", 2), "budget must be a number > 0, got '1'"),
        (lambda: BinaryExpansionMean(1e300, 2), r"budget must be at most 2.*e\+152, a local eps of 700 on a level, got 1e\+300"),
        (lambda: BinaryExpansionMean(1.0, 0), r"levels must be an integer in \[1, 41\], got 0"),
        (lambda: BinaryExpansionMean(1.0, 42), r"levels must be an integer in \[1, 41\], got 42"),
        (lambda: BinaryExpansionMean(1.0, 2, sampled=2), r"sampled must be an integer in \[1, 1\], got 2"),
        (lambda: BinaryExpansionMean(1.0, 2, dim=3, sampled=4), r"sampled must be an integer in \[1, 3\], got 4"),
        (lambda: BinaryExpansionMean(1.0, 2, dim=0), "dim must be an integer >= 1, got 0"),
        (lambda: BinaryExpansionMean(1.0, 2, dim=1001), "sampled must be at most 1000, got 1001 of 1001 coordinates"),
        (lambda: BinaryExpansionMean(1.0, 2, low=math.nan), "low must be a finite number, got nan"),
        (lambda: RecursiveSum.original(1.5, 1e-6, 10**6, m=1), "epsilon must be at most m = 1"),
        (lambda: RecursiveSum.original(0, 1e-6, 10**6), "epsilon must be a number > 0"),
        (lambda: RecursiveSum.original(1e-200, 1e-6, 10**6), r"n must be beyond 1e\+18 for gammas below 1"),
        (lambda: RecursiveSum.original(1.0, 1e-6, 10**6, m=0), r"m must be an integer in \[1, 40\], got 0"),
        (lambda: RecursiveSum.original(1.0, 1.0, 10**6), r"delta must be in \(0, 1\), got 1.0"),
        (lambda: RecursiveSum.for_target(math.inf, 1e-6, 10, precisions=(2,)), "epsilon must be a number > 0"),
        (lambda: RecursiveSum.for_target(1.0, 1e-6, 0, precisions=(2,)), "n must be an integer >= 1, got 0"),
        (lambda: RecursiveSum.for_target(1.0, 1e-6, 10, precisions=None), "precisions must be one or more integers, got None"),
        (lambda: BinaryExpansionMean.for_target(1.0, 0, 10, levels=2), r"delta must be in \(0, 1\), got 0"),
        (lambda: BinaryExpansionMean.for_target(True, 1e-6, 10, levels=2), "epsilon must be a number > 0"),
        (lambda: BinaryExpansionMean.original(1.0, 1e-6, 10, levels=2), "has no calibration of its own paper"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_parts_that_cannot_be_composed():
    x = VariationRatio(3, 0.4, 3)
    pair = Pairs((x.three_outcome_table(),), MessageCount(5))
    for pairs, local in (
        ((pair, Pairs((VariationRatio(3, 0.4, 3, q1=4).three_outcome_table(),), MessageCount(5))), (1.1, 1.1)),
        ((pair, pair), (1.1, math.inf)),
        ((pair, Pairs(pair.tables, MessageCount.binomial(1, 5, 0.5))), (1.1, 1.1)),
    ):
        with pytest.raises(ValueError, match="a part needs a symmetric table"):
            Composed(pairs, local)


def test_extremes_give_honest_numbers():
    for protocol in (RecursiveSum((2, 300), (1e-300, 1 - 1e-16)), BinaryExpansionMean(1e-9, 2), BinaryExpansionMean(1e152, 2)):
        for n in (1, 2, 20):
            for delta in (0.1, 1e-300):
                bracket = ss.epsilon(protocol, n, delta)
                assert 0 <= bracket.lower <= bracket.upper <= protocol.local_epsilon


def test_several_numbers_on_the_command_line():
    from shufflesim.cli.arguments import _read_parameters

    found = _read_parameters(None, None, ("precisions=4,10", "gammas=0.1,4e-1", "low=0"))
    assert RecursiveSum(**found) == RecursiveSum((4, 10), (0.1, 0.4))
    assert _read_parameters(None, None, ("precisions=4,",)) == {"precisions": (4,)}


def test_unreachable():
    """A range whose safe end misses the target, as no class has it."""
    from shufflesim.bounds import approach

    with pytest.raises(UnreachableError, match="within reach of n = 3 users"):
        approach(lambda v: BinaryExpansionMean(v, 2), 0.1, 1e-9, 3, good=1.0, bad=5.0, slope=1.0)
