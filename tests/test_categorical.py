"""Categorical randomizers: k-subset, Hadamard response, local hashing over fields, packed bits."""

import itertools
import math

import numpy as np
import pytest
from scipy import special
from scipy.linalg import hadamard

import shufflesim as ss
from shufflesim._sampling import bit_sums, packed_bernoulli
from shufflesim.bounds import MessageCount
from shufflesim.bounds.evaluate import Divergence
from shufflesim.bounds.groups import enumerate_groups
from shufflesim.empirical.law import law_checks, true_parameters
from shufflesim.mechanisms import GRR, HadamardResponse, KSubset, LocalHash
from shufflesim.mechanisms._field import field, prime_power
from shufflesim.mechanisms.hadamard import walsh_hadamard
from shufflesim.mechanisms.ksubset import best_size

from .oracles import close, load, log_formula

# Enumerated with few enough inputs that all triples are compared.
TINY = [
    KSubset(math.log(3), 5, 2),
    KSubset(1.5, 5, 4),
    KSubset(1.0, 4, 1),
    KSubset(0.7, 3, 2),
    KSubset(2.0, 2, 1),
    HadamardResponse(1.0, 2),
    HadamardResponse(1.0, 3),
    HadamardResponse(1.3, 4),
    HadamardResponse(1.3, 5, K=16),
    HadamardResponse(1.0, 2, B=2),
    HadamardResponse(1.0, 3, B=2),
    HadamardResponse(1.7, 5, B=2),
    HadamardResponse(1.7, 7, K=16, B=2),
    HadamardResponse(0.8, 5, B=4),
    HadamardResponse(2.5, 6, B=8),
]

MAKERS = {
    "k-subset": lambda q, eps: KSubset(eps, q["d"], q["k"]),
    # Enough categories for two blocks; all rows for one.
    "Hadamard response (K,s,B)": lambda q, eps: HadamardResponse(
        eps, max(2, q["B"] * (q["K"] // q["B"] - 1)), q["K"], q["s"], q["B"]
    ),
}


@pytest.mark.parametrize(
    "row",
    [r for r in load("params") if r["mechanism"] in MAKERS],
    ids=lambda r: f"{r['mechanism'][:8]} {r['parameters']} {r['eps0']}",
)
def test_declared_parameters_are_the_true_ones(row):
    declared = MAKERS[row["mechanism"]](row["parameters"], log_formula(row["eps0"])).amplification
    assert close(declared.p, row["true_p"], 1e-12)
    assert close(declared.beta, row["true_beta"], 1e-12)
    assert close(declared.q, row["true_q"], 1e-12)


@pytest.mark.parametrize("randomizer", TINY, ids=repr)
def test_declaration_is_attained(randomizer):
    log_p, beta, _ = true_parameters(randomizer.log_channel())
    assert randomizer.amplification.beta == pytest.approx(beta, rel=1e-12)
    assert randomizer.epsilon == pytest.approx(log_p, rel=1e-12)


@pytest.mark.parametrize("randomizer", TINY, ids=repr)
def test_grouped_law_is_the_worst_of_all_triples(randomizer):
    """Blanket and homogeneous divergences of the closed form against all pairs and third inputs, both directions."""
    ours, full = randomizer.groups(), enumerate_groups(randomizer.channel())
    for group in ours:
        assert group.first.sum() == pytest.approx(1, abs=1e-14)
        assert group.other.sum() == pytest.approx(1, abs=1e-14)
    for kind in ("blanket_table", "homogeneous_table"):
        short, long = ({t.key: t for t in (getattr(g, kind)() for g in groups)} for groups in (ours, full))
        for n, eps in ((1, 0.0), (1, 0.6 * randomizer.epsilon), (2, 0.3 * randomizer.epsilon), (10, 0.2)):
            found, expected = (
                max(
                    math.exp(Divergence(u, MessageCount(n)).log_enclosure(eps, 1e-6)[1]) for t in tables for u in (t, t.swapped())
                )
                for tables in (short.values(), long.values())
            )
            assert found == pytest.approx(expected, rel=3e-6, abs=1e-15)


@pytest.mark.parametrize("randomizer", [r for r in TINY if r.amplification.q_star == 1], ids=repr)
def test_three_outcome_bound_holds_for_every_pair(randomizer):
    """q_star = 1 is enough: the declared bound is above every homogeneous data set, whichever pair it is."""
    for n, eps in ((1, 0.0), (2, 0.3), (5, 0.2), (20, 0.1)):
        upper = ss.delta(randomizer.amplification, n, eps, bound="three-outcome").upper
        tables = {t.key: t for t in (g.homogeneous_table() for g in enumerate_groups(randomizer.channel()))}
        for table in tables.values():
            assert math.exp(Divergence(table, MessageCount(n)).log_enclosure(eps, 1e-6)[0]) <= upper * (1 + 1e-12)


def test_q_star_of_k_subset_is_needed():
    """For k = 2 the blanket of sets that hold both inputs is at ratio E: q_star = 1 would fall below an exact data set."""
    randomizer, eps = KSubset(math.log(3), 5, 2), 1.0
    honest = randomizer.amplification
    smaller = ss.VariationRatio(honest.p, honest.beta, honest.q, q_star=honest.omega / (1 - honest.r0 - honest.r1))
    exact = ss.delta(randomizer, 2, eps, bound="lower").lower
    assert ss.delta(smaller, 2, eps).upper < exact < ss.delta(honest, 2, eps).upper


@pytest.mark.parametrize("epsilon", [1e-9, 700.0])
@pytest.mark.parametrize(
    "make",
    [
        lambda e: KSubset(e, 9, 4),
        lambda e: KSubset(e, 300, 2),
        lambda e: HadamardResponse(e, 9),
        lambda e: HadamardResponse(e, 9, B=4),
    ],
    ids=["bits", "indices", "one block", "blocks"],
)
def test_extreme_budgets(make, epsilon):
    """Finite everywhere, probabilities that sum to 1, no group lost; the own set always at eps = 700, almost a coin at 1e-9."""
    randomizer, rng = make(epsilon), np.random.default_rng(0)
    assert randomizer.amplification.p == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert 0 < randomizer.amplification.beta <= math.tanh(epsilon / 2) * (1 + 1e-12)
    for group in randomizer.groups():
        for masses in (group.first, group.second, group.other):
            assert np.all(masses > 0)
            assert masses.sum() == pytest.approx(1, abs=1e-14)
        assert np.all(group.floor > 0)
        assert np.all(group.floor <= np.minimum(group.first, group.second) * (1 + 1e-12))
    truth = np.bincount(np.full(2000, 3), minlength=randomizer.d).astype(float)
    reports = randomizer.randomize(np.full(2000, 3, dtype=randomizer.domain.dtype), rng)
    deviation = np.sqrt(randomizer.variance(truth, 2000))
    for aggregate in (randomizer.aggregate(reports), randomizer.sample_aggregate(truth.astype(int), rng)):
        error = randomizer.estimate(aggregate, 2000) - truth
        assert np.all(np.abs(error) <= 7 * deviation + 1e-9)
    law = randomizer.log_channel()
    if law is not None:
        assert np.exp(law).sum(axis=1) == pytest.approx(1, abs=1e-13)
        assert law.max() - law.min() == pytest.approx(epsilon, rel=1e-6)


def row_code(pair, B):
    """Our code of (block, row) in the file's notation."""
    block, row = (int(part) for part in pair.strip("()").split(","))
    return (row - 1) * B + block


@pytest.mark.parametrize(
    "row",
    [r for r in load("exact_shuffle") if r["mechanism"] in ("k-subset", "Hadamard")],
    ids=lambda r: f"{r['mechanism']} {r['params']} n={r['n']} others={r['others']} eps={r['eps']}",
)
def test_sound_is_above_the_exact_shuffle(row):
    q, eps = row["params"], float(row["eps"])
    e0 = math.log(float(q["E"]))
    randomizer = KSubset(e0, q["d"], q["k"]) if "d" in q else HadamardResponse(e0, q["K"] - q["B"], q["K"], q["s"], q["B"])
    exact = float(row["delta"])
    for bound in ("sound", "three-outcome", "blanket"):
        assert ss.delta(randomizer, row["n"], eps, bound=bound).upper >= exact * (1 - 1e-12)
    if row["mechanism"] == "Hadamard":
        # The file's data set, from our channel.
        law = randomizer.channel()
        others = [part.strip("()") for part in row["others"].replace("),)", "))").strip("()").split("), (")]
        codes = {row_code(part, q["B"]) for part in others}
        if len(codes) == 1:
            first, second, third = (law[row_code(x, q["B"])] for x in (row["x0"], row["x1"], others[0]))
            table = next(g for g in enumerate_groups(np.array([first, second, third])) if g.note.endswith("0, 1, others 2"))
            found = [Divergence(t, MessageCount(row["n"])).log_enclosure(eps, 1e-9) for t in both(table.homogeneous_table())]
            assert math.exp(max(high for _, high, *_ in found)) == pytest.approx(exact, rel=1e-8)


def both(table):
    return table, table.swapped()


@pytest.mark.parametrize("row", [r for r in load("epsilon")["specific"] if r["mechanism"] == "KSubset"], ids=str)
def test_blanket_epsilon_of_k_subset(row):
    randomizer = KSubset(row["eps0"], row["parameters"]["d"])
    assert randomizer.k == row["parameters"]["k"]
    blanket = float(ss.epsilon(randomizer, row["n"], row["delta"], bound="blanket"))
    lower = float(ss.epsilon(randomizer, row["n"], row["delta"], bound="lower"))
    assert blanket == pytest.approx(row["blanket_upper"], rel=3e-5)
    assert row["lower_fixed_dataset"] * (1 - 3e-5) <= lower <= blanket


class TestKSubset:
    @pytest.mark.parametrize("epsilon", [1e-9, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 700.0])
    @pytest.mark.parametrize("d", [2, 3, 4, 7, 50, 301])
    def test_default_size_is_the_best(self, epsilon, d):
        """Against the exact variance of a rare item over all k, in rationals of E where E - 1 does not cancel."""
        x = math.exp(-epsilon)
        rare = [(k - 1 + (d - k) * x) * (k + (d - 1 - k) * x) / (k * (d - k)) for k in range(1, d)]
        assert rare[best_size(epsilon, d) - 1] <= min(rare) * (1 + 1e-12)

    @pytest.mark.parametrize(("epsilon", "d", "k"), [(1.0, 6, 2), (0.3, 9, 7), (2.0, 5, 1)])
    def test_support_is_that_of_the_law(self, epsilon, d, k):
        randomizer = KSubset(epsilon, d, k)
        holds = np.array([[x in z for x in range(d)] for z in itertools.combinations(range(d), k)])
        found = randomizer.channel() @ holds
        a, b = randomizer.support
        assert np.allclose(found, np.where(np.eye(d, dtype=bool), a, b), rtol=1e-13, atol=0)

    def test_one_of_d_is_grr(self):
        one, grr = KSubset(1.5, 30, 1), GRR(1.5, 30)
        assert one.support == pytest.approx(grr.support, rel=1e-14)
        assert repr(one.amplification) == repr(grr.amplification)

    @pytest.mark.parametrize(
        ("d", "k"),
        [(2, 1), (3, 1), (3, 2), (9, 4), (64, 20), (65, 64), (100, 99), (100, 1), (1000, 30), (1024, 275), (70_000, 3)],
    )
    def test_reports_are_sets_of_k_items(self, d, k):
        randomizer, rng = KSubset(1.0, d, k), np.random.default_rng(3)
        values = randomizer.domain.validate(rng.integers(0, d, 500))
        reports = randomizer.randomize(values, rng)
        if randomizer.indexed:
            assert reports.shape == (500, k)
            assert np.all(np.diff(reports.astype(int), axis=1) > 0)
            assert reports.dtype == randomizer.domain.dtype
        else:
            assert reports.dtype == np.uint8
            assert np.all(np.unpackbits(reports, axis=1, count=d).sum(axis=1) == k)
            assert not np.unpackbits(reports, axis=1)[:, d:].any()
        assert randomizer.aggregate(reports).sum() == 500 * k

    @pytest.mark.parametrize(("d", "k"), [(300, 5), (80, 30), (80, 70)])
    def test_own_and_other_items_are_in_as_often_as_the_law_says(self, d, k):
        """Own item: an exact binomial tail; others: a chi-square of their counts. False alarm at most 1e-9 each.

        Given the number of reports with the own item in, counts of others are sums of samples of fixed size: with h (1-h) for
        each report and cell, the sum of squares is (d-1)/(d-2) times that and chi-square with d - 2 degrees of freedom.
        """
        randomizer, n, x = KSubset(1.0, d, k), 40_000, 17
        counts = randomizer.aggregate(randomizer.randomize(np.full(n, x, dtype=np.uint16), np.random.default_rng(8)))
        a, _ = randomizer.support
        assert min(special.bdtr(counts[x], n, a), special.bdtrc(counts[x] - 1, n, a)) > 5e-10
        others = np.delete(counts, x)
        inside = counts[x] * (k - 1) / (d - 1) * (d - k) / (d - 1) + (n - counts[x]) * k / (d - 1) * (d - 1 - k) / (d - 1)
        statistic = ((others - others.mean()) ** 2).sum() / (inside * (d - 1) / (d - 2))
        tail = special.chdtrc(d - 2, statistic)
        assert 5e-10 < tail < 1 - 5e-10

    @pytest.mark.parametrize(("d", "k"), [(6, 1), (6, 3), (6, 5), (2, 1)])
    def test_count_space_and_users_agree_in_distribution(self, d, k):
        """Counts of 40 users over 3000 runs each way: Kolmogorov-Smirnov of some sums of items, false alarm 1e-9 each."""
        randomizer, rng, runs = KSubset(1.2, d, k), np.random.default_rng(13), 3000
        totals = np.bincount(np.repeat([0, 1, d - 1], [25, 4, 11]), minlength=d)
        values = np.repeat(np.arange(d, dtype=np.uint8), totals)
        users = np.array([randomizer.aggregate(randomizer.randomize(values, rng)) for _ in range(runs)])
        counts = np.array([randomizer.sample_aggregate(totals, rng) for _ in range(runs)])
        assert np.all(counts.sum(axis=1) == 40 * k)
        limit = math.sqrt(2 * math.log(2 / 1e-9) / runs)
        for signs in ([0], [1], [d - 1], [0, d - 1], [0, 1, d // 2]):
            first, second = (drawn[:, signs].sum(axis=1) for drawn in (users, counts))
            grid = np.arange(122)[:, None]
            assert np.abs((first <= grid).mean(axis=1) - (second <= grid).mean(axis=1)).max() <= limit

    def test_count_space_of_many_users(self):
        """10^9 users: the mean squared error is the variance, within 7 standard errors."""
        randomizer, totals = KSubset(1.0, 200), np.full(200, 5_000_000)
        n = int(totals.sum())
        errors = randomizer.estimate(randomizer.sample_aggregate(totals, np.random.default_rng(2)), n) - totals
        assert abs((errors**2 / randomizer.variance(totals, n)).mean() - 1) < 7 * math.sqrt(2 / 200)
        assert KSubset(1.0, 2**20).sample_aggregate(np.ones(2**20, dtype=int), np.random.default_rng(0)) is None

    def test_largest_size(self):
        randomizer = KSubset(1.0, 2**20)
        values = np.array([0, 2**20 - 1], dtype=np.uint32)
        reports = randomizer.randomize(values, np.random.default_rng(0))
        assert np.all(np.bitwise_count(reports).sum(axis=1, dtype=int) == randomizer.k)
        assert KSubset(1e-9, 2**20).k == 2**19
        assert np.all(np.isfinite(randomizer.variance(np.zeros(3), 10)))
        assert randomizer.bits == 2**20
        assert KSubset(12.0, 2**20, 7).bits == 140

    @pytest.mark.parametrize("bad", [0, 4, -1, 1.5, "2", True])
    def test_bad_size_is_refused(self, bad):
        with pytest.raises(ValueError, match=r"k must be an integer in \[1, 3\], got"):
            KSubset(1.0, 4, bad)


class TestHadamard:
    @pytest.mark.parametrize("randomizer", [r for r in TINY if isinstance(r, HadamardResponse)], ids=repr)
    def test_estimator_and_variance_on_the_channel(self, randomizer):
        """The matrix of the linear estimator against the enumerated law: unbiased, and the variance is the stated one."""
        law = randomizer.channel()
        estimator = np.array([randomizer.estimate(row, 1) for row in np.eye(law.shape[1], dtype=int)])
        assert np.allclose(law @ estimator, np.eye(randomizer.d), atol=1e-13)
        truth = np.arange(randomizer.d) ** 2 + 1.0
        exact = truth @ (law @ estimator**2 - (law @ estimator) ** 2)
        assert np.allclose(randomizer.variance(truth, int(truth.sum())), exact, rtol=1e-12)

    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0, 5.0])
    @pytest.mark.parametrize("d", [2, 3, 5, 9, 30])
    def test_default_blocks_are_the_best(self, epsilon, d):
        """Against the stated variance, averaged over categories that equally many users hold, for all powers of two up to 2d."""
        averages = {}
        for B in (1 << i for i in range((2 * d).bit_length())):
            averages[B] = HadamardResponse(epsilon, d, B=B).variance(np.full(d, 10.0), 10 * d).mean()
        assert averages[HadamardResponse(epsilon, d, B=None).B] == pytest.approx(min(averages.values()), rel=1e-12)

    @pytest.mark.parametrize("width", [2, 8, 32, 64, 2048])
    def test_transform_is_the_matrix(self, width):
        blocks = np.random.default_rng(0).integers(0, 10**6, (3, width))
        assert np.array_equal(walsh_hadamard(blocks), blocks @ hadamard(width))

    @pytest.mark.parametrize("randomizer", [HadamardResponse(1.2, 6), HadamardResponse(1.2, 6, B=2)], ids=repr)
    @pytest.mark.parametrize("totals", [(25, 0, 0, 15, 0, 0), (1, 2, 1, 0, 2, 34)], ids=str)
    def test_count_space_and_users_agree_in_distribution(self, randomizer, totals):
        """Histograms of 40 users over 3000 runs each way: Kolmogorov-Smirnov of some sums of columns, false alarm 1e-9 each."""
        rng, runs = np.random.default_rng(11), 3000
        values = np.repeat(np.arange(6, dtype=np.uint8), totals)
        users = np.array([randomizer.aggregate(randomizer.randomize(values, rng)) for _ in range(runs)])
        counts = np.array([randomizer.sample_aggregate(np.array(totals), rng) for _ in range(runs)])
        assert np.all(counts.sum(axis=1) == 40)
        limit = math.sqrt(2 * math.log(2 / 1e-9) / runs)
        for subset in ([0], [5], [1, 2], [0, 3, 5, 6], [1, 2, 4, 7]):
            first, second = (drawn[:, subset].sum(axis=1) for drawn in (users, counts))
            grid = np.arange(42)[:, None]
            assert np.abs((first <= grid).mean(axis=1) - (second <= grid).mean(axis=1)).max() <= limit

    def test_count_space_draws_positions_and_cells(self):
        """Both ways to spread truthful reports, 10^9 users: the mean squared error is the variance, within 7 standard errors."""
        randomizer, rng = HadamardResponse(1.0, 256), np.random.default_rng(2)
        totals = np.where(np.arange(256) % 2, 50, 8_000_000)
        n = int(totals.sum())
        errors = randomizer.estimate(randomizer.sample_aggregate(totals, rng), n) - totals
        ratio = errors**2 / randomizer.variance(totals, n)
        assert abs(ratio.mean() - 1) < 7 * math.sqrt(2 / 256)

    def test_count_space_refuses_too_much_work(self):
        randomizer = HadamardResponse(1.0, 2**20)
        assert randomizer.sample_aggregate(np.full(2**20, 1000), np.random.default_rng(0)) is None

    def test_largest_size(self):
        randomizer = HadamardResponse(1.0, 2**20)
        values = np.array([0, 2**20 - 1, 12_345] * 1000, dtype=np.uint32)
        reports = randomizer.randomize(values, np.random.default_rng(0))
        assert (randomizer.K, randomizer.bits, reports.dtype) == (2**21, 21, np.uint32)
        error = randomizer.estimate(randomizer.aggregate(reports), 3000) - np.bincount(values, minlength=2**20)
        assert np.mean(error**2) == pytest.approx(randomizer.variance(np.bincount(values, minlength=2**20), 3000).mean(), rel=0.1)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"K": 6}, "K must be a power of two, got 6"),
            ({"B": 3}, "B must be a power of two, got 3"),
            ({"s": 5}, "s must be a power of two, got 5"),
            ({"B": 0}, r"B must be an integer in \[1, 536870912\], got 0"),
            ({"K": True}, r"K must be an integer in \[4, 1073741824\], got True"),
            ({"K": 2.0}, r"K must be an integer in \[4, 1073741824\], got 2.0"),
            ({"K": 8}, r"B \(K/B - 1\) >= d, got K=8, s=None, B=1, d=10"),
            ({"K": 16, "B": 16}, r"got K=16, s=None, B=16, d=10"),
            ({"K": 16, "s": 4}, r"K = 2 s B <= 2\^30 and B \(K/B - 1\) >= d, got K=16, s=4, B=1, d=10"),
            ({"s": 4}, r"got K=None, s=4, B=1, d=10"),
        ],
        ids=str,
    )
    def test_bad_sizes_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            HadamardResponse(1.0, 10, **arguments)

    def test_sizes_fill_in_each_other(self):
        assert HadamardResponse(1.0, 10, K=32, B=None, s=4) == HadamardResponse(1.0, 10, 32, 4, 4)
        assert HadamardResponse(1.0, 10, K=64) == HadamardResponse(1.0, 10, 64, 32, 1)
        assert HadamardResponse(1.0, 10, B=4) == HadamardResponse(1.0, 10, 16, 2, 4)


class TestField:
    @pytest.mark.parametrize("order", [2, 4, 5, 8, 9, 16, 25, 27, 49, 243, 251, 256])
    def test_axioms(self, order):
        numbers = field(order)
        plus, times = numbers.add.astype(int), numbers.multiply.astype(int)
        elements = np.arange(order)
        assert np.array_equal(np.sort(plus, axis=1), np.broadcast_to(elements, (order, order)))
        assert np.array_equal(np.sort(times[1:, 1:], axis=1), np.broadcast_to(elements[1:], (order - 1, order - 1)))
        assert np.array_equal(times, times.T)
        assert np.array_equal(times[1], elements)
        assert np.all(times[elements[1:], numbers.inverse[1:]] == 1)
        for u in elements[:6]:
            assert np.array_equal(times[u][plus], plus[times[u][:, None], times[u]])
            assert np.array_equal(times[times[u]], times[u][times])
        assert np.allclose(numbers.kernel @ numbers.kernel.conj(), order * np.eye(order))

    def test_prime_powers_and_others(self):
        assert [prime_power(order) for order in (2, 4, 6, 7, 8, 9, 15, 65536, 65521)] == [
            (2, 1), (2, 2), (2, 0), (7, 1), (2, 3), (3, 2), (3, 0), (2, 16), (65521, 1),
        ]  # fmt: skip

    @pytest.mark.parametrize(("d", "l"), [(5, 4), (100, 4), (64, 8), (65, 8), (50, 9), (300, 16), (30, 25), (40, 27), (300, 257)])
    def test_transform_counts_what_direct_comparison_counts(self, d, l):  # noqa: E741
        mechanism, rng = LocalHash(1.0, d, l), np.random.default_rng(5)
        assert mechanism.fourier
        reports = mechanism.randomize(mechanism.domain.example(2000, rng), rng)
        hashed = mechanism.hashed((reports // l)[:, None], np.arange(d))
        direct = (hashed == (reports % l)[:, None]).sum(axis=0)
        assert np.array_equal(mechanism.supports(mechanism.aggregate(reports)), direct)

    @pytest.mark.parametrize(("d", "l", "small"), [(6, 4, True), (6, 8, True), (8, 8, False), (9, 9, False)])
    def test_law(self, d, l, small):  # noqa: E741
        """Sampler (false alarm 1e-9) and declaration against the law of a field; two users and groups where it is small."""
        sampler, declaration, users, groups, *_ = law_checks(LocalHash(1.0, d, l), np.random.default_rng(1))
        assert sampler.passed, sampler
        assert declaration.passed, declaration
        for check in (users, groups):
            assert check.passed is (True if small else None), check

    @pytest.mark.parametrize("l", [3, 4])
    def test_many_items(self, l):  # noqa: E741
        """2^20 items: the mean squared error of the rare ones is the variance within 3%, some 10 standard errors."""
        mechanism, n = LocalHash(1.0, 2**20, l), 100_000
        values = np.full(n, 2**20 - 1, dtype=np.uint32)
        found = mechanism.estimate(mechanism.aggregate(mechanism.randomize(values, np.random.default_rng(1))), n)
        assert np.mean(found[:-1] ** 2) == pytest.approx(float(mechanism.variance(np.zeros(1), n)[0]), rel=0.03)
        assert abs(found[-1] - n) < 7 * math.sqrt(float(mechanism.variance(np.array([n]), n)[0]))


class TestPackedBits:
    @pytest.mark.parametrize(("n", "d"), [(0, 5), (1, 1), (2, 9), (1000, 13), (3000, 64), (70, 1000)])
    def test_sums_are_those_of_the_bits(self, n, d):
        packed = packed_bernoulli(np.random.default_rng(0), 0.3, n, d)
        bits = np.unpackbits(packed, axis=1)
        assert packed.shape == (n, -(-d // 8))
        assert np.array_equal(bit_sums(packed, d), bits[:, :d].sum(axis=0))
        assert not bits[:, d:].any()

    def test_sums_of_many_rows_go_in_parts(self, monkeypatch):
        monkeypatch.setattr("shufflesim._sampling._SUM_BYTES", 1000)
        packed = packed_bernoulli(np.random.default_rng(0), 0.7, 5000, 20)
        assert np.array_equal(bit_sums(packed, 20), np.unpackbits(packed, axis=1, count=20).sum(axis=0))

    @pytest.mark.parametrize("probability", [0.0, 1.0, 0.5, 0.75, 0.2689414213699951, 1e-9, 1 - 1e-9, 3e-4, 1 / 3, 5e-324])
    def test_coins_have_their_probability(self, probability):
        """An exact binomial test of 2.5 million coins, both sides, false alarm 1e-9."""
        ones = int(bit_sums(packed_bernoulli(np.random.default_rng(4), probability, 50_000, 50), 50).sum())
        n = 2_500_000
        above = special.bdtrc(ones - 1, n, probability) if ones else 1.0
        assert min(special.bdtr(ones, n, probability), above) >= 5e-10

    def test_coins_are_independent_over_columns_and_rows(self):
        """Covariance of neighbours within 7 standard errors."""
        bits = np.unpackbits(packed_bernoulli(np.random.default_rng(6), 0.3, 20_000, 64), axis=1).astype(float) - 0.3
        for product in (bits[:, 1:] * bits[:, :-1], bits[1:] * bits[:-1], bits[:, 8:] * bits[:, :-8]):
            assert abs(product.mean()) < 7 * 0.21 / math.sqrt(product.size)
