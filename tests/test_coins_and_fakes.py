"""Biased coins, uniform coins and fake users: laws by enumeration, the accountant of two counts, samplers, calibrations."""

import itertools
import math
import time
from collections import defaultdict
from functools import cache, partial

import mpmath
import numpy as np
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import Crowd, Swapped, UnreachableError, swapped
from shufflesim.domains import Counts
from shufflesim.population import Population
from shufflesim.protocols import BiasedCoin, FakeUsers, UniformCoins
from tests import oracles

DATA = oracles.load("protocols")
EXAMPLES = [x for cls in (BiasedCoin, UniformCoins, FakeUsers) for x in cls.examples()]
# Probability that a correct sampler fails one comparison.
FALSE_ALARM = 1e-9


# --- The law of one user's messages and of shuffled multisets, from the definitions of the protocols alone. ---


def coin_law(c, d, x):
    """Counts per message that one user sends."""
    if d is None:
        return {(x,): 1 - c, (x + 1,): c}
    found = defaultdict(float)
    for z in itertools.product((0, 1), repeat=d):
        counts = tuple(z[j] + (j == x) for j in range(d))
        found[counts] += math.prod(c if b else 1 - c for b in z)
    return found


def uniform_law(k, x):
    return {(k - z + (x == 0), z + (x == 1)): math.comb(k, z) / 2**k for z in range(k + 1)}


def fake_law(d, f, k, x):
    """Messages are numbered by their bits."""
    vectors = list(itertools.product((0, 1), repeat=d))

    def message(own):
        return {
            tuple(int(v == w) for w in vectors): math.prod(1 - f if v[j] == (j == own) else f for j in range(d)) for v in vectors
        }

    total = message(x)
    for _ in range(k):
        total = added(total, message(None))
    return total


def added(first, second):
    """Law of a sum of independent count vectors."""
    found = defaultdict(float)
    for (a, p), (b, q) in itertools.product(first.items(), second.items()):
        found[tuple(i + j for i, j in zip(a, b, strict=True))] += p * q
    return found


def worst(law_of, inputs, n, eps, present=1.0):
    """Largest divergence over data sets, pairs and directions; another user is there with probability `present`."""
    laws = [law_of(x) for x in range(inputs)]
    zero = tuple(0 for _ in next(iter(laws[0])))
    maybe = [defaultdict(float, {v: present * p for v, p in law.items()}) for law in laws]
    for law in maybe:
        law[zero] += 1 - present
    result = 0.0
    for others in itertools.combinations_with_replacement(range(inputs), n - 1):
        base = {zero: 1.0}
        for x in others:
            base = added(base, maybe[x])
        views = [added(base, law) for law in laws]
        for a, b in itertools.permutations(views, 2):
            result = max(result, sum(max(0.0, p - math.exp(eps) * b.get(v, 0.0)) for v, p in a.items()))
    return result


def law_of(x):
    if isinstance(x, BiasedCoin):
        return partial(coin_law, x.coin, x.d)
    return partial(uniform_law, x.coins) if isinstance(x, UniformCoins) else partial(fake_law, x.d, x.flip, x.fakes)


# --- Bounds against enumeration and against stored values. ---

EXACT = [
    (BiasedCoin(0.7), (1, 2, 4)),
    (BiasedCoin(0.5), (1, 3)),
    (BiasedCoin(0.99), (2, 3)),
    (BiasedCoin(0.2), (3,)),
    (BiasedCoin(0.7, 2), (1, 2, 3)),
    (BiasedCoin(0.55, 3), (1, 2)),
    (BiasedCoin(0.1, 2), (3,)),
    (UniformCoins(1), (1, 2, 4)),
    (UniformCoins(3), (1, 3)),
]


@pytest.mark.parametrize(("protocol", "sizes"), EXACT, ids=lambda v: str(v))
def test_coins_are_exact_for_tiny_crowds(protocol, sizes):
    """Sound bound = lower bound = truth, over all data of the others."""
    for n in sizes:
        for eps in (0.0, 0.4, 1.0, 3.0):
            truth = worst(law_of(protocol), protocol.domain.d, n, eps)
            upper, lower = ss.delta(protocol, n, eps), ss.delta(protocol, n, eps, bound="lower")
            assert upper.upper >= truth * (1 - 1e-12) >= truth - 1e-11 >= lower.lower - 2e-11
            assert upper.upper == pytest.approx(truth, rel=1e-9, abs=1e-15)
            assert lower.lower == pytest.approx(truth, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("protocol", "n"),
    [(FakeUsers(2, 0.3), 1), (FakeUsers(2, 0.3), 3), (FakeUsers(2, 0.1, 2), 2), (FakeUsers(3, 0.2), 2)],
    ids=str,
)
def test_fake_users_enclose_the_truth_of_tiny_crowds(protocol, n):
    for eps in (0.0, 0.3, 1.0, 2.0):
        truth = worst(law_of(protocol), protocol.d, n, eps)
        assert ss.delta(protocol, n, eps).upper >= truth - 1e-14
        if n == 1:
            assert ss.delta(protocol, n, eps).upper == pytest.approx(truth, rel=1e-9)
        if protocol.d > 2:
            assert ss.delta(protocol, n, eps, bound="lower").lower <= truth + 1e-14


@pytest.mark.parametrize("protocol", [BiasedCoin(0.6), BiasedCoin(0.6, 2), UniformCoins(1), FakeUsers(3, 0.2)], ids=str)
def test_absent_users(protocol):
    """Enumerated with a share of the others missing: between the lower bound, where there is one, and the sound one."""
    for eps in (0.0, 0.5, 1.5):
        truth = worst(law_of(protocol), protocol.domain.d, 2 if isinstance(protocol, FakeUsers) else 3, eps, present=0.7)
        crowd = {"n": 2 if isinstance(protocol, FakeUsers) else 3, "eps": eps, "dropout": 0.3}
        assert ss.delta(protocol, **crowd).upper >= truth - 1e-14
        if not isinstance(protocol, BiasedCoin):
            assert ss.delta(protocol, bound="lower", **crowd).lower <= truth + 1e-14
    with pytest.raises(ValueError, match="sampling must be 1 for"):
        ss.delta(protocol, 3, 0.1, sampling=0.5)


def test_lower_bounds_where_they_are_attained():
    names = {x: [c.bound for c in x.claims(Crowd(5, dropout=0.1))] for x in EXAMPLES}
    assert not any("lower" in names[x] for x in EXAMPLES if isinstance(x, BiasedCoin))
    assert all("lower" in names[x] for x in EXAMPLES if isinstance(x, UniformCoins))
    assert all(("lower" in names[x]) == (x.d > 2) for x in EXAMPLES if isinstance(x, FakeUsers))
    assert all("lower" in [c.bound for c in x.claims(Crowd(5))] for x in EXAMPLES if isinstance(x, BiasedCoin))


def _row_id(row):
    return f"{row['protocol']} n={row['n']} eps={row['eps']}"


ROWS = [row for row in DATA["rows"] if row["protocol"].startswith(("B1", "B3"))]


@pytest.mark.parametrize("row", ROWS, ids=_row_id)
def test_stored_rows(row):
    p, n, eps = row["params"], row["n"], row["eps"]
    if row["protocol"].startswith("B1"):
        protocol = BiasedCoin(p["c"], p.get("d"))
    else:
        # User 1 alone with all the fakes is what is stored as victim + N fakes.
        protocol = FakeUsers(p.get("d", 2), p["f"], p.get("fakes_per_user", row["blankets"]))
    sound = ss.delta(protocol, n, eps)
    assert sound.upper >= row["exact_delta"] * (1 - 1e-12)
    if row["tight"] or "victim" in row["protocol"]:
        assert sound.upper == pytest.approx(row["exact_delta"], rel=1e-9)
    if "exact_given_only_fakes" in row:
        assert sound.upper == pytest.approx(row["exact_given_only_fakes"], rel=1e-9)
    if row["bound_kind"] == "variation-ratio":
        assert float(ss.delta(protocol, n, eps, bound="published")) == pytest.approx(row["bound_delta"], rel=1e-9)
        first, *_ = row["declaration"]
        made = protocol.declarations[0]
        assert (made.p, made.beta, made.q, made.second_q) == pytest.approx(
            (float(first["p"]), first["beta"], first["q0"], first["q1"]), rel=1e-12
        )
    if isinstance(protocol, FakeUsers):
        three = ss.delta(protocol, n, eps, bound="three-outcome")
        assert float(three) == pytest.approx(row["corrected_bound_delta"], rel=1e-9)
    assert len(protocol.declarations) == len(row["declaration"])


@pytest.mark.parametrize(
    "row", [r for r in DATA["large_scale"] if r["case"] == "CZ"], ids=lambda r: f"{r['n_fakes']}-{r['eps_orig']}"
)
def test_fake_users_at_scale(row):
    n, delta = row["n_fakes"], row["delta"]
    protocol = FakeUsers.original(row["eps_orig"], delta, n, d=10)
    assert protocol.flip == pytest.approx(row["f"], rel=1e-11)
    table = ss.bound_table(protocol, n, delta).set_index("bound")
    assert table.loc["sound", "epsilon"] == pytest.approx(row["eps_exact"], rel=1e-6)
    assert table.loc["published", "epsilon"] == pytest.approx(row["eps_VR"], rel=1e-6)
    assert not table.loc["published", "sound"]
    if "eps_corrected" in row:
        # The stored one comes from blocks, rounded up.
        assert table.loc["sound", "epsilon"] < table.loc["three-outcome", "epsilon"] <= row["eps_corrected"] * (1 + 1e-6)
    ratio = FakeUsers.extra_amplification_ratio(row["eps_orig"], delta, n, d=10)
    assert ratio == pytest.approx(row["ratio_exact"], rel=1e-6)


@pytest.mark.parametrize(
    "row", [r for r in DATA["large_scale"] if r["case"] == "CZ small N"], ids=lambda r: f"{r['N']}-{r['delta']}"
)
def test_fake_users_at_small_scale(row):
    assert float(ss.epsilon(FakeUsers(2, row["f"]), row["N"], row["delta"])) == pytest.approx(row["eps_exact"], rel=1e-6)


@pytest.mark.parametrize(
    "row", [r for r in DATA["large_scale"] if r["case"].startswith("BC")], ids=lambda r: f"{r['case']}-{r['eps_orig']}"
)
def test_coins_at_scale(row):
    n, delta, target = row["n"], row["delta"], row["eps_orig"]
    if "c" in row:
        protocol = BiasedCoin.original(target, delta, n)
        assert protocol.coin == pytest.approx(row["c"], rel=1e-14)
        assert float(ss.epsilon(protocol, n, delta)) == pytest.approx(row["eps_exact_asym"], rel=1e-6)
        assert BiasedCoin.extra_amplification_ratio(target, delta, n) == pytest.approx(row["ratio_exact"], rel=1e-6)
    else:
        protocol = UniformCoins.original(target, delta, n)
        assert protocol.coins == row["k"]
        assert float(ss.epsilon(protocol, n, delta)) == pytest.approx(row["eps_exact_at_k"], rel=1e-6)
        needed = ss.epsilon(UniformCoins(1), math.floor(row["coins_needed_total"]), delta)
        assert float(needed) == pytest.approx(row["eps_exact_at_needed"], rel=1e-6)


@pytest.mark.parametrize(
    ("cls", "delta", "n", "rows"),
    [
        (BiasedCoin, 1e-8, 10**6, ((0.3, "0.04381", "6.85"), (0.5, "0.07537", "6.63"), (1.0, "0.16001", "6.25"))),
        (UniformCoins, 1e-8, None, ((0.3, "0.06884", "4.36"), (0.5, "0.11593", "4.31"), (1.0, "0.22568", "4.43"))),
        (FakeUsers, 1e-6, 10**4, ((0.5, "0.07058", "7.08"), (1.0, "0.22613", "4.42"), (2.0, "0.42013", "4.76"))),
        (FakeUsers, 1e-7, 10**5, ((0.3, "0.07074", "4.24"), (0.5, "0.12994", "3.85"), (1.0, "0.26318", "3.80"))),
        (FakeUsers, 1e-8, 10**6, ((0.1, "0.02364", "4.23"), (0.5, "0.14092", "3.55"), (1.0, "0.27614", "3.62"))),
    ],
    ids=str,
)
def test_what_the_papers_own_calibrations_leave(cls, delta, n, rows):
    """The printed digits."""
    parameters = {"d": 5} if cls is FakeUsers else {}
    for target, central, ratio in rows:
        # Uniform coins: as many users as there are coins, the number rounded down.
        users = n or math.floor(20 * math.log(2 / delta) / math.tanh(target / 2) ** 2)
        made = cls.original(target, delta, users, **parameters) if n else UniformCoins(1)
        found = float(ss.epsilon(made, users, delta))
        assert f"{found:.5f}" == central
        assert f"{target / found:.2f}" == ratio


# --- The accountant of two counts. ---


@cache
def _weights(n, c):
    with mpmath.workdps(60):
        c = mpmath.mpf(c)
        weights = [(1 - c) ** n]
        for k in range(n):
            weights.append(weights[-1] * (n - k) / (k + 1) * c / (1 - c))
        return weights


@oracles.untraced
def two_counts(n, c, eps):
    """The definition summed in multiple precision, with distribution functions carried along."""
    with mpmath.workdps(60 if n < 100 else 230):
        p, e = _weights(n, c), mpmath.exp(mpmath.mpf(eps))
        below = [mpmath.mpf(0), *itertools.accumulate(p)]
        total = mpmath.mpf(0)
        for a in range(1, n + 2):
            odds = mpmath.mpf(a) / (n + 1 - a) if a <= n else mpmath.inf
            v = n if a > n else min(n, int(mpmath.ceil((n + 1) * odds / (e + odds))) - 1)
            total += p[a - 1] * below[v + 1] - (e * p[a] * below[v] if a <= n else 0)
        return total


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17, 60, 300])
def test_two_counts_against_multiple_precision(n):
    """At ties of the two ratios too: eps = log 2, log 3 and the largest finite one; negative eps; coins next to 0 and 1."""
    for c in (0.5, 0.7, 0.999, 1e-9, 1 - 1e-9, 1e-30):
        for eps in (0.0, 1e-9, 0.1, math.log(2), math.log(3), 2.5, 2 * math.log(n), 100.0):
            exact = two_counts(n, c, eps)
            low, high, _ = Swapped(n, c).delta(eps, 1e-9)
            assert low <= exact <= high, (c, eps)
            assert high - low <= 2e-10 * exact + 1e-300, (c, eps)
            if n < 100 and eps < 3:
                back = 1 - mpmath.exp(-mpmath.mpf(eps)) + mpmath.exp(-mpmath.mpf(eps)) * exact
                low, high, _ = Swapped(n, c).delta(-eps, 1e-9)
                assert low <= back <= high, (c, eps)


@pytest.mark.parametrize(
    ("n", "c", "eps"), [(10**5, 0.5, 0.0), (10**5, 0.5, 0.05), (10**6, 0.9, 0.03), (10**6, 0.5, 0.1), (10**7, 0.999, 0.2)]
)
def test_cells_enclose_single_counts(monkeypatch, n, c, eps):
    """Few cells give wide ends around those of the exact sum, and the width falls with the square of their number."""
    monkeypatch.setattr(swapped, "CELLS", 2**19)
    low, high, method = Swapped(n, c).delta(eps, 1e-9)
    assert method == "exact sum"
    widths = []
    for cells in (2**8, 2**9, 2**10, 2**11):
        monkeypatch.setattr(swapped, "CELLS", cells)
        monkeypatch.setattr(swapped, "CELLS_MAX", cells)
        around = Swapped(n, c).log_enclosure(eps, 1e-9)
        assert "cells" in around[2]
        assert around[0] <= math.log(high)
        assert around[1] >= math.log(low)
        widths.append(around[1] - around[0])
    assert widths[-1] < widths[0] / 16


@pytest.mark.parametrize("floor", [-4.0, -8.0, -16.0])
def test_what_is_outside_of_a_window_is_charged(monkeypatch, floor):
    """A window that is too narrow gives wide ends, not wrong ones."""
    monkeypatch.setattr(swapped, "LOG_FLOORS", (floor,))
    for eps in (0.0, 0.3, 1.0):
        exact = two_counts(300, 0.8, eps)
        low, high, _ = Swapped(300, 0.8).delta(eps, 1e-9)
        assert low <= exact <= high
        assert high >= low + 0.5 * math.exp(floor) or high == 1


@pytest.mark.parametrize("c", [0.5, 1 - 1e-6, 1e-12])
@pytest.mark.parametrize("n", [1, 2, 1000, 10**6, 10**9, 10**18])
def test_two_counts_at_any_size(n, c):
    """Ends in order, as narrow as asked, and delta at the upper end is small enough."""
    for delta in (0.3, 1e-12, 1e-300):
        value = Swapped(n, c)
        low, high, _ = value.epsilon(delta, 1e-5)
        assert 0 <= low <= high
        if 0 < high < math.inf:
            assert high - low <= 3e-5 * high
            assert value.delta(high, 1e-3)[0] <= delta
            assert value.delta(low * (1 - 1e-12), 1e-3)[1] >= delta
        if high == math.inf:
            assert value.limits()[1] >= delta


def test_two_counts_are_one_as_one_falls():
    """More coins hide more, a coin and its reverse hide alike, and a normal law is the limit."""
    deltas = [Swapped(n, 0.8).delta(0.2, 1e-9) for n in (1, 2, 10, 100, 10**3, 10**4, 10**5)]
    assert all(a[0] >= b[1] for a, b in itertools.pairwise(deltas))
    assert Swapped(500, 0.25).delta(0.3, 1e-9) == Swapped(500, 0.75).delta(0.3, 1e-9)
    for eps in (0.0, 2e-4, 4e-4):
        # The log ratio is normal with variance s^2 = 2/(npq) and mean s^2/2.
        s = math.sqrt(2 / (10**9 * 0.25))
        normal = stats.norm.cdf(s / 2 - eps / s) - math.exp(eps) * stats.norm.cdf(-s / 2 - eps / s)
        assert Swapped(10**9, 0.5).delta(eps, 1e-6)[1] == pytest.approx(normal, rel=1e-5)


@pytest.mark.parametrize("bad", [(0, 0.5), (-1, 0.5), (3, 0.0), (3, 1.0), (3, math.nan)])
def test_two_counts_need_coins(bad):
    with pytest.raises(ValueError, match=r"trials must be >= 1 and probability in \(0, 1\), got Swapped"):
        Swapped(*bad)


# --- What users send, and what the analyzer makes of it. ---


@pytest.mark.parametrize("protocol", EXAMPLES, ids=str)
def test_conformance(protocol):
    report = ss.check_protocol(protocol)
    assert report.passed, str(report)


def _follows(samples, law):
    """Chi-square of observed outcomes against their law; cells of fewer than 25 expected ones are pooled."""
    keys, counts = np.unique(samples, axis=0, return_counts=True)
    seen = {tuple(k.tolist()): int(c) for k, c in zip(keys, counts, strict=True)}
    assert set(seen) <= set(law)
    expected = np.array([law[v] * len(samples) for v in law])
    observed = np.array([seen.get(v, 0) for v in law], dtype=float)
    rare = expected < 25
    observed, expected = (np.append(v[~rare], v[rare].sum()) for v in (observed, expected))
    keep = expected > 0
    statistic = float(((observed - expected)[keep] ** 2 / expected[keep]).sum())
    assert stats.chi2.sf(statistic, max(1, int(keep.sum()) - 1)) > FALSE_ALARM


SMALL = [
    BiasedCoin(0.7),
    BiasedCoin(0.3),
    BiasedCoin(0.6, 3),
    UniformCoins(1),
    UniformCoins(3),
    FakeUsers(2, 0.3),
    FakeUsers(3, 0.1, 2),
]


@pytest.mark.parametrize("protocol", SMALL, ids=str)
def test_every_user_and_every_aggregate_follows_the_law(protocol):
    """Messages of one user against their law; aggregates of three users, drawn either way, against theirs."""
    rng, d = np.random.default_rng(5), protocol.domain.d

    def columns(law):
        """What the analyzer sums up: ones per bit of fake users; the counts themselves otherwise."""
        if not isinstance(protocol, FakeUsers):
            return law
        bits = np.array(list(itertools.product((0, 1), repeat=d)))
        found = defaultdict(float)
        for counts, p in law.items():
            found[tuple((np.array(counts) @ bits).tolist())] += p
        return found

    laws = [columns(law_of(protocol)(x)) for x in range(d)]
    runs = 20_000
    for x in range(d):
        encoded = protocol.encode(protocol.domain.validate(np.full(runs, x)), rng)
        _follows(_sums(protocol, encoded, runs), laws[x])
    data = [0, d - 1, d - 1]
    law = added(added(laws[0], laws[d - 1]), laws[d - 1])
    encoded = protocol.encode(protocol.domain.validate(np.tile(data, runs)), rng)
    _follows(_sums(protocol, encoded, 3 * runs).reshape(runs, 3, -1).sum(axis=1), law)
    total = np.bincount(data, minlength=d)
    _follows(np.array([protocol.sample_aggregate(total, rng) for _ in range(5_000)]), law)


def _sums(protocol, encoded, users):
    """The aggregate of each user's messages."""
    owner = np.repeat(np.arange(users), encoded.sizes)
    rows = encoded.messages
    rows = np.unpackbits(rows, axis=1, count=protocol.d) if rows.ndim == 2 else np.eye(protocol.alphabet, dtype=int)[rows]
    sums = np.zeros((users, rows.shape[1]), dtype=int)
    np.add.at(sums, owner, rows)
    return sums


@pytest.mark.parametrize("protocol", SMALL, ids=str)
def test_estimator_and_variance_are_exact(protocol):
    """Mean and variance of the estimate under the enumerated law of two users."""
    d = protocol.domain.d
    bits = np.array(list(itertools.product((0, 1), repeat=d)))
    for data in itertools.combinations_with_replacement(range(d), 2):
        law = added(*(law_of(protocol)(x) for x in data))
        aggregates = [np.array(v) @ bits if isinstance(protocol, FakeUsers) else np.array(v) for v in law]
        estimates, p = np.array([protocol.estimate(a, 2) for a in aggregates]), np.array(list(law.values()))
        total = np.bincount(data, minlength=d)
        mean = p @ estimates
        assert mean == pytest.approx(total, abs=1e-11)
        assert p @ (estimates - mean) ** 2 == pytest.approx(protocol.variance(total, 2), rel=1e-9)
        messages = p @ np.array([sum(v) for v in law])
        assert protocol.expected_messages(total, 2) == pytest.approx(messages, rel=1e-12)


def test_estimates_of_a_billion_users():
    """By counts: within 7 standard errors of the truth (false alarm below 1e-10 in all), in no time, with their messages."""
    for protocol in (BiasedCoin(0.999), BiasedCoin(0.99, 4), UniformCoins(2), FakeUsers(4, 1e-3, 2)):
        counts = Counts([600_000_000, 400_000_000, *[0] * (protocol.domain.d - 2)])
        started = time.perf_counter()
        aggregate = protocol.sample_aggregate(counts.counts, np.random.default_rng(1))
        assert time.perf_counter() - started < 1
        error = protocol.estimate(aggregate, 10**9) - counts.counts
        assert np.all(np.abs(error) <= 7 * np.sqrt(protocol.variance(counts.counts, 10**9)))
        expected = protocol.expected_messages(counts.counts, 10**9)
        assert protocol.messages_in(aggregate, 10**9) == pytest.approx(expected, rel=1e-3)


def test_nothing_held_is_nothing_estimated():
    """The paper's estimator of biased coins: exactly 0 for all-zero data, the unbiased one where more than n messages came."""
    rng = np.random.default_rng(2)
    for protocol, data in ((BiasedCoin(0.9), np.zeros(300, dtype=int)), (BiasedCoin(0.9, 3), np.full(300, 1))):
        values = protocol.domain.validate(data)
        absent, noise = [1] if protocol.d is None else [0, 2], 0.0
        for _ in range(50):
            aggregate = protocol.aggregate(protocol.encode(values, rng).messages)
            estimate = protocol.zero_preserving_estimate(aggregate, 300)
            assert np.all(estimate[absent] == 0)
            noise += float(np.abs(protocol.estimate(aggregate, 300)[absent]).sum())
            if protocol.d is not None:
                assert estimate[1] == protocol.estimate(aggregate, 300)[1]
        assert noise > 0
    assert BiasedCoin(0.9).zero_preserving_estimate(np.array([11]), 10).tolist() == [8.0, 2.0]
    assert BiasedCoin(0.9).zero_preserving_estimate(np.array([10]), 10).tolist() == [10.0, 0.0]


def test_users_who_send_nothing():
    protocol = BiasedCoin(0.5)
    encoded = protocol.encode(protocol.domain.validate(np.zeros(40, dtype=int)), np.random.default_rng(0))
    assert encoded.sizes.min() == 0
    assert encoded.sizes.sum() == len(encoded.messages)
    assert protocol.valid(np.zeros(0, dtype=np.uint8)).shape == (0,)
    silent = [s for s in range(20) if ss.simulate(protocol, [0], delta=0.6, seed=s).messages == 0]
    assert silent
    result = ss.simulate(protocol, [0, 1] * 50, delta=1e-3, seed=0, population=Population(dropout=0.3))
    assert result.received.users < 100


def test_a_wrong_number_of_messages_is_found():
    class Forgets(BiasedCoin):
        """States the number for data without ones."""

        def expected_messages(self, total, n):
            return n * self.coin

    class Understates(BiasedCoin):
        """States less than what users send."""

        @property
        def messages_per_user(self):
            return self.coin

    for fault in (Forgets(0.5), Understates(0.5)):
        failures = ss.check_protocol(fault).failures
        assert [f for f in failures if f.startswith("messages per user as stated")]


def test_costs():
    assert BiasedCoin(0.75).messages_per_user == 1.75
    assert BiasedCoin(0.75).bits_per_message == 1
    assert (BiasedCoin(0.5, 5).messages_per_user, BiasedCoin(0.5, 5).bits_per_message) == (3.5, 3)
    assert (UniformCoins(4).messages_per_user, UniformCoins(4).bits_per_message) == (5, 1)
    fake = FakeUsers(100, 0.01, 2)
    assert (fake.messages_per_user, fake.bits_per_message) == (3, 100)
    # 0.99 + 99 * 0.01 ones of the real vector, 2 * 100 * 0.01 of the fakes, 7 bits each.
    assert fake.sparse_bits_per_user == pytest.approx(7 * (0.99 + 0.99 + 2.0))


# --- Calibrations. ---

MADE = [(BiasedCoin, {}), (BiasedCoin, {"d": 8}), (FakeUsers, {"d": 8, "fakes": 2})]
TARGETS = [(0.5, 1e-8, 10**4), (0.2, 1e-6, 10**5)]


@pytest.mark.parametrize(
    ("cls", "parameters", "target", "delta", "n"),
    [
        *((cls, parameters, *t) for cls, parameters in MADE for t in TARGETS),
        (BiasedCoin, {"d": 300}, 0.05, 1e-12, 10**9),
        (FakeUsers, {"d": 300}, 0.05, 1e-12, 10**9),
    ],
    ids=str,
)
def test_for_target_is_met_and_not_wasteful(cls, parameters, target, delta, n):
    made = cls.for_target(target, delta, n, **parameters)
    assert float(ss.epsilon(made, n, delta)) <= target
    if cls is BiasedCoin:
        assert 0.5 <= made.coin < 1
        less = BiasedCoin(1 - (1 - made.coin) * (1 - 1e-5), made.d)
    else:
        less = FakeUsers(made.d, made.flip * (1 - 1e-4), made.fakes)
    assert float(ss.epsilon(less, n, delta)) > target * (1 - 1e-6)
    again = made.retargeted(target, delta, n)
    assert again == made


@pytest.mark.parametrize(("target", "delta", "n"), [(0.5, 1e-8, 100), (1e-3, 1e-6, 10**4), (2.0, 1e-6, 1), (5.0, 1e-12, 10**6)])
def test_fewest_uniform_coins(target, delta, n):
    made = UniformCoins.for_target(target, delta, n)
    assert float(ss.epsilon(made, n, delta)) <= target
    assert made.coins == 1 or float(ss.epsilon(UniformCoins(made.coins - 1), n, delta)) > target
    assert made.retargeted(target, delta, n) == made


@pytest.mark.parametrize("target", [1e-9, 0.1, 700.0])
def test_fake_users_meet_any_target(target):
    """Flips near 1/2 meet it without a crowd."""
    made = FakeUsers.for_target(target, 1e-12, 1, d=2)
    assert float(ss.epsilon(made, 1, 1e-12)) <= target
    assert made.flip < 0.5


def test_targets_out_of_reach():
    with pytest.raises(UnreachableError, match=r"got 0.3; BiasedCoin\(coin=0.5, d=None\) would need n = 683"):
        BiasedCoin.for_target(0.3, 1e-6, 1)
    with pytest.raises(UnreachableError, match=r"got 0.3; BiasedCoin\(coin=0.5, d=4\) would need n = 1,355"):
        BiasedCoin.for_target(0.3, 1e-6, 1, d=4)
    with pytest.raises(UnreachableError, match=r"n must be at least 24 for at most 1,000,000 coins of each user to reach"):
        UniformCoins.for_target(1e-3, 1e-6, 1)
    few, enough = (float(ss.epsilon(UniformCoins(10**6), n, 1e-6)) for n in (23, 24))
    assert enough <= 1e-3 < few


def test_original_calibrations_hold_and_are_loose():
    for target, delta, n in ((1.0, 1e-6, 10**5), (0.2, 1e-8, 10**6)):
        for made in (
            BiasedCoin.original(target, delta, n),
            BiasedCoin.original(target, delta, n, d=6),
            UniformCoins.original(target, delta, n),
            FakeUsers.original(target, delta, n, d=6, fakes=3),
        ):
            assert float(ss.epsilon(made, n, delta)) < 0.5 * target
    labels, part = BiasedCoin.original(0.4, 2e-7, 10**6, d=3), BiasedCoin.original(0.2, 1e-7, 10**6)
    assert labels.coin == part.coin
    assert 1 - part.coin == pytest.approx(50 * math.log(2e7) / (0.04 * 10**6), rel=1e-9)
    coins = UniformCoins.original(0.5, 1e-6, 100).coins
    needed = 20 * ((math.exp(0.5) + 1) / (math.exp(0.5) - 1)) ** 2 * math.log(2e6)
    assert 100 * (coins - 1) < needed <= 100 * coins
    flip = FakeUsers.original(0.5, 1e-6, 10**4, d=3, fakes=2).flip
    wanted = 33 / (5 * 2 * 10**4) * ((math.exp(0.5) + 1) / (math.exp(0.5) - 1)) ** 2 * math.log(4e6)
    assert flip * (1 - flip) == pytest.approx(wanted, rel=1e-12)


def test_where_original_calibrations_end():
    needed = 100 * math.log(2e6) / 0.25
    with pytest.raises(ValueError, match=r"n must be at least 100 ln\(2/delta\)/eps\^2 = 5,804 of each count, got 5,803"):
        BiasedCoin.original(0.5, 1e-6, math.floor(needed))
    assert BiasedCoin.original(0.5, 1e-6, math.ceil(needed)).coin == pytest.approx(0.5, abs=1e-4)
    for bad, parameters in ((1.01, {}), (2.01, {"d": 3}), (0.0, {}), (-1.0, {}), (math.nan, {}), ("1", {}), (True, {})):
        with pytest.raises(ValueError, match=r"epsilon must be in \(0, [12]\], where the paper's calibration applies, got"):
            BiasedCoin.original(bad, 1e-6, 10**6, **parameters)
    with pytest.raises(ValueError, match=r"fakes must be at least 7 for n = 1,000 users, .* got 6"):
        FakeUsers.original(0.5, 1e-6, 1000, d=4, fakes=6)
    assert FakeUsers.original(0.5, 1e-6, 1000, d=4, fakes=7).flip < 0.5
    with pytest.raises(ValueError, match=r"n must be at least .* for at most 1,000,000 coins of each user, got 1"):
        UniformCoins.original(1e-3, 1e-6, 1)
    assert UniformCoins.original(700.0, 1e-12, 10**9).coins == 1


# --- Extremes and bad input. ---


@pytest.mark.parametrize(
    "protocol",
    [
        BiasedCoin(1e-30, 4),
        BiasedCoin(math.nextafter(1, 0), 4),
        BiasedCoin(1 - 1e-8),
        UniformCoins(10**6),
        FakeUsers(3, 1e-6),
        FakeUsers(2**40, 0.25),
        FakeUsers(3, math.nextafter(0.5, 0)),
        FakeUsers(3, 1e-30),
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [1, 10**9])
def test_extremes_give_honest_numbers(protocol, n):
    for delta in (1e-6, 1e-12):
        upper = ss.epsilon(protocol, n, delta)
        assert 0 <= upper.lower <= upper.upper <= protocol.local_epsilon
        lower = ss.epsilon(protocol, n, delta, bound="lower")
        assert lower.lower <= upper.upper
    if protocol == FakeUsers(3, 1e-6) and n == 10**9:
        # Nearly the two counts of biased coins with as many ones on average.
        assert float(upper) == pytest.approx(Swapped(10**9, 1e-6).epsilon(1e-12, 1e-6)[1], rel=1e-4)


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, 1e-31, math.nan, math.inf, "0.5", None, True])
def test_bad_coin(bad):
    with pytest.raises(ValueError, match=r"coin must be a number in \[1e-30, 1\), got"):
        BiasedCoin(bad)


@pytest.mark.parametrize("bad", [1, 0, -2, 2.0, "3", True, math.nan])
def test_bad_number_of_categories(bad):
    for make in (lambda: BiasedCoin(0.5, bad), lambda: FakeUsers(bad, 0.1)):
        with pytest.raises(ValueError, match="d must be an integer >= 2, got"):
            make()


@pytest.mark.parametrize("bad", [0, -1, 1.5, 10**6 + 1, "3", None, True, math.nan, math.inf])
def test_bad_number_of_coins_and_fakes(bad):
    with pytest.raises(ValueError, match=r"coins must be an integer in \[1, 1000000\], got"):
        UniformCoins(bad)
    with pytest.raises(ValueError, match=r"fakes must be an integer in \[1, 1000000\], got"):
        FakeUsers(3, 0.1, bad)


@pytest.mark.parametrize("bad", [0, 0.5, 0.7, -0.1, 1e-31, math.nan, math.inf, "0.1", None, True])
def test_bad_flip(bad):
    with pytest.raises(ValueError, match=r"flip must be a number in \[1e-30, 1/2\), got"):
        FakeUsers(3, bad)


@pytest.mark.parametrize("make", ["for_target", "original"])
@pytest.mark.parametrize("cls", [BiasedCoin, UniformCoins, FakeUsers])
def test_bad_targets(cls, make):
    parameters = {"d": 4} if cls is FakeUsers else {}
    ask = partial(getattr(cls, make), **parameters)
    for bad in (0, -1, math.nan, math.inf, "1", None, True):
        with pytest.raises(ValueError, match="epsilon must be"):
            ask(bad, 1e-6, 10**6)
    for bad in (0, 1, -0.5, math.nan, "1", None, True):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got"):
            ask(0.5, bad, 10**6)
    for bad in (0, -1, 1.5, math.nan, "1", None, True):
        with pytest.raises(ValueError, match="n must be an integer >= 1, got"):
            ask(0.5, 1e-6, bad)
