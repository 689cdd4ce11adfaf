"""The engine against exact values and against many digits."""

import math

import mpmath
import numpy as np
import pytest

import shufflesim as ss
from shufflesim import precision
from shufflesim.bounds import MessageCount, Table, contour
from shufflesim.bounds.evaluate import Divergence
from shufflesim.mechanisms import GRR, RAPPOR, Laplace, LocalHash, RandomizedResponse
from shufflesim.protocols import BallsIntoBins

from .oracles import close, load, untraced

PUBLISHED = load("delta")["published"]
THREE_OUTCOME = load("delta")["three_outcome"]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda r: f"{r['tag']} n={r['n']} eps={r['eps'][:6]}")
def test_published_delta_to_nine_digits(row):
    x = ss.VariationRatio(float(row["p"]), float(row["beta"]), float(row["q0"]), float(row["q1"]))
    bracket = ss.delta(x, row["n"], float(row["eps"]), bound="published")
    truth = max(row["delta_PQ"], row["delta_QP"], key=float)
    assert bracket.lower <= float(truth) <= bracket.upper
    if float(truth) > 0:
        assert close(bracket.lower, truth, 1e-9)
        assert close(bracket.upper, truth, 1e-9)
    else:
        assert bracket.upper < 1e-30


@pytest.mark.parametrize("row", THREE_OUTCOME, ids=lambda r: f"{r['tag']} n={r['n']}")
def test_three_outcome_delta_to_nine_digits(row):
    x = ss.VariationRatio(float(row["p"]), float(row["beta"]), float(row["q"]))
    bracket = ss.delta(x, row["n"], float(row["eps"]))
    assert bracket.lower <= float(row["delta_corrected"]) <= bracket.upper
    assert close(bracket.lower, row["delta_corrected"], 1e-9)
    assert close(bracket.upper, row["delta_corrected"], 1e-9)


def test_counterexample_to_the_published_bound():
    """GRR, d = 3, e^eps0 = 3, n = 3, others hold (0, 2): truth 2/25 at e^eps = 2, published 9/125 (theory of soundness)."""
    grr = GRR(epsilon=math.log(3), d=3)
    law = grr.channel()
    shuffled = [_shuffled_law(law, (x, 0, 2)) for x in (0, 1)]
    truth = sum(max(0.0, shuffled[0][y] - 2 * shuffled[1].get(y, 0.0)) for y in shuffled[0])
    assert truth == pytest.approx(2 / 25, rel=1e-12)
    published = ss.delta(grr, 3, math.log(2), bound="published")
    assert published.lower <= 9 / 125 * (1 + 1e-9)
    assert published.upper == pytest.approx(9 / 125, rel=1e-9)
    assert published.upper < truth
    assert ss.delta(grr, 3, math.log(2)).upper >= truth
    table = ss.bound_table(grr, 3, 0.05).set_index("bound")
    assert not table.loc["published", "sound"]
    assert "omega" in table.loc["published", "note"]


def _shuffled_law(law, inputs):
    """Law of the sorted reports, by enumeration."""
    states = {(): 1.0}
    for x in inputs:
        grown = {}
        for reports, weight in states.items():
            for y, probability in enumerate(law[x]):
                key = tuple(sorted((*reports, y)))
                grown[key] = grown.get(key, 0.0) + weight * probability
        states = grown
    return states


def _random_case(rng):
    """A declaration, one of its tables, n and eps with delta between 1e-2 and 1e-30."""
    eps0 = math.exp(rng.uniform(math.log(1e-4), math.log(30)))
    p = math.inf if rng.random() < 0.15 else math.exp(eps0)
    top = 1.0 if p == math.inf else (p - 1) / (p + 1)
    q = math.exp(eps0) if rng.random() < 0.6 else math.exp(rng.uniform(0.2, 4))
    q1 = None if rng.random() < 0.7 else q * math.exp(rng.uniform(-0.5, 1))
    beta = top * (1.0 if rng.random() < 0.3 else rng.uniform(0.01, 1))
    try:
        x = ss.VariationRatio(p, beta, q, q1)
    except ValueError:
        return _random_case(rng)
    rest = 1 - x.r0 - x.r1
    if x.omega > 0 and rest > 0 and rng.random() < 0.2:
        x = ss.VariationRatio(p, beta, q, q1, q_star=x.omega / rest)  # s = 1 - r0 - r1
    table = x.published_table() if rng.random() < 0.5 else x.three_outcome_table()
    n = int(math.exp(rng.uniform(0, math.log(1500 if table.size < 4 else 100))))
    target = -rng.uniform(2, 30) * math.log(10)
    divergence = Divergence(table, MessageCount(n))
    if divergence.log_enclosure(0.0)[1] > target and rng.random() < 0.8:
        eps = divergence._root(target, table.log_max_ratio)
    else:
        eps = rng.uniform(0, min(eps0, 3))
    return table, n, eps


@pytest.mark.parametrize("seed", range(6))
def test_enclosures_contain_the_exact_value(seed):
    """60 random tables a seed: the exact sum and the contour integral against 30 digits, relative 1e-14 for the comparison."""
    rng = np.random.default_rng([20, seed])
    for _ in range(60):
        table, n, eps = _random_case(rng)
        exact = precision.delta(table, n, eps, digits=30)
        count = MessageCount(n)
        enclosures = [Divergence(table, count).log_enclosure(eps)[:2]]
        if table.edge(eps, count) is None:
            saddle = contour.saddle(table, count, eps)
            enclosures.append(contour.enclose(table, count, saddle, rtol=1e-9, max_nodes=20_000))
        for low, high in enclosures:
            with mpmath.workdps(40):
                assert low == -math.inf or mpmath.exp(low) <= exact * (1 + mpmath.mpf("1e-14"))
                assert exact == 0 or mpmath.exp(high) >= exact * (1 - mpmath.mpf("1e-14"))


@pytest.mark.parametrize("seed", range(4))
def test_rare_clones_among_any_number_of_messages(seed):
    """One row holds nearly all the weight, n up to 1e12: 60-digit sums over the counts of the two rare rows."""
    rng = np.random.default_rng([30, seed])
    for _ in range(12):
        n = int(10 ** rng.uniform(3, 12))
        rare = np.exp(rng.uniform(math.log(1e-4), math.log(3), 2)) / n
        inside = rng.uniform(0.05, 0.95, (2, 3))  # shares of each law's mass
        inside /= inside.sum(axis=1, keepdims=True)
        weight = np.array([*rare, 1 - rare.sum()])
        table = Table(weight, inside[0] / weight, inside[1] / weight)
        eps = rng.choice([0.0, 0.3, 0.9]) * min(table.log_max_ratio, 5)
        low, high, _ = Divergence(table, MessageCount(n)).log_enclosure(eps)
        exact = _rare_sum(table, n, eps)
        with mpmath.workdps(40):
            assert low == -math.inf or mpmath.exp(low) <= exact * (1 + mpmath.mpf("1e-15"))
            assert mpmath.exp(high) >= exact * (1 - mpmath.mpf("1e-15"))


@untraced
def _rare_sum(table, n, eps):
    """Sum over the counts of all rows but the heaviest; its weight is taken as what the others leave."""
    with mpmath.workdps(60):
        growth = mpmath.exp(mpmath.mpf(eps))
        order = np.argsort(table.weight)
        w = [mpmath.mpf(float(table.weight[i])) for i in order]
        x = [mpmath.mpf(float(table.g0[i])) - growth * mpmath.mpf(float(table.g1[i])) for i in order]
        rest = 1 - w[0] - w[1]
        total, first = mpmath.mpf(0), mpmath.exp(n * mpmath.log(rest))
        for i in range(60):
            term = first
            for j in range(60 - i):
                total += term * max(mpmath.mpf(0), i * x[0] + j * x[1] + (n - i - j) * x[2])
                term *= mpmath.mpf(n - i - j) / (j + 1) * w[1] / rest
            first *= mpmath.mpf(n - i) / (i + 1) * w[0] / rest
        return total / n


def test_far_tail_against_fifty_digits():
    x = ss.VariationRatio(math.e, 0.3, math.e)
    for n, eps in ((300, 0.6), (1000, 0.5)):
        exact = precision.delta(x.published_table(), n, eps)
        assert exact < mpmath.mpf("1e-30")
        bracket = ss.delta(x, n, eps, bound="published")
        assert bracket.lower <= exact <= bracket.upper
        assert bracket.slack < 1e-8 * bracket.upper


@pytest.mark.parametrize("n", [30_000, 1_000_000])
@pytest.mark.parametrize("kind", ["maximal", "grr", "inf"])
def test_contour_agrees_with_exact_sum_where_the_methods_switch(n, kind):
    e = math.exp(2)
    x = {
        "maximal": ss.VariationRatio(e, (e - 1) / (e + 1), e),
        "grr": ss.VariationRatio(e, (e - 1) / (e + 2), e, q_star=1),
        "inf": ss.VariationRatio(math.inf, 1.0, 20),
    }[kind]
    table, count = x.published_table(), MessageCount(n)
    divergence = Divergence(table, count)
    eps = divergence._root(math.log(1e-9), table.log_max_ratio)
    saddle = contour.saddle(table, count, eps)
    by_sum = divergence._sum(saddle, 2_000_000)
    by_contour = contour.enclose(table, count, saddle, rtol=1e-9, max_nodes=30_000)
    assert by_sum[0] <= by_contour[1]
    assert by_contour[0] <= by_sum[1]
    assert sum(by_contour) / 2 == pytest.approx(sum(by_sum) / 2, abs=1e-8)


def test_large_n_against_the_integral_in_multiple_precision():
    """n = 1e8 and 1e12: mpmath's own quadrature of the same contour at 40 digits."""
    e = math.exp(3)
    x = ss.VariationRatio(e, (e - 1) / (e + 1), e)
    table = x.published_table()
    for n in (10**8, 10**12):
        bracket = ss.epsilon(x, n, 1e-10)
        for eps, side in ((bracket.lower, 1), (bracket.upper, -1)):
            assert side * (_integral(table, n, eps) - mpmath.mpf("1e-10")) >= 0
        assert bracket.slack <= 1e-6 * bracket.upper


def _integral(table, n, eps):
    with mpmath.workdps(40):
        growth = mpmath.exp(mpmath.mpf(eps))
        w = [mpmath.mpf(v) for v in table.weight]
        x = [mpmath.mpf(a) - growth * mpmath.mpf(b) for a, b in zip(table.g0, table.g1, strict=True)]
        theta = mpmath.mpf(contour.saddle(table, MessageCount(n), eps).theta)
        theta /= mpmath.mpf(table.excess(eps, n)[2])
        spread = mpmath.sqrt(n * sum(a * b * b for a, b in zip(w, x, strict=True)))

        def integrand(y):
            z = mpmath.mpc(theta, y)
            moment = sum(a * mpmath.exp(z * b) for a, b in zip(w, x, strict=True)) / sum(w)
            return (mpmath.exp(n * mpmath.log(moment)) / z**2).real

        # Beyond 12 standard deviations the integrand is below 1e-30 of its peak until lattice peaks far out, which are smaller
        # than 1e-8 relative here and far inside the bracket's slack.
        parts = [k * 3 / spread for k in range(5)]
        return 2 * mpmath.quad(integrand, parts) / (2 * mpmath.pi * n)


def test_random_number_of_messages_is_averaged():
    """fixed + Binomial messages: average of exact values over the number of messages, small and large."""
    table = ss.VariationRatio(math.inf, 1.0, 5).published_table()
    for fixed, trials, probability in ((1, 9, 0.3), (7, 6, 0.5), (61, 60, 0.25)):
        count, average = MessageCount.binomial(fixed, trials, probability), mpmath.mpf(0)
        for k in range(trials + 1):
            weight = mpmath.binomial(trials, k) * mpmath.mpf(probability) ** k
            weight *= (1 - mpmath.mpf(probability)) ** (trials - k)
            average += weight * precision.delta(table, fixed + k, 0.4, digits=20)
        low, high, _ = Divergence(table, count).log_enclosure(0.4)
        assert math.exp(low) <= average * (1 + 1e-14)
        assert math.exp(high) >= average * (1 - 1e-14)
        assert high - low < 1e-6


@pytest.mark.parametrize("row", load("epsilon")["general"], ids=lambda r: f"eps0={r['eps0']} n={r['n']}")
def test_maximal_beta_is_the_stronger_clone(row):
    e = math.exp(row["eps0"])
    x = ss.VariationRatio(e, (e - 1) / (e + 1), e)
    assert float(ss.epsilon(x, row["n"], row["delta"])) == pytest.approx(row["stronger_clone"], rel=3e-5)


@pytest.mark.parametrize(
    ("randomizer", "row"),
    [
        (make(row), row)
        for row in load("epsilon")["specific"]
        for make in [
            {
                "GRR": lambda r: GRR(r["eps0"], r["parameters"]["d"]),
                "LocalHash": lambda r: LocalHash(r["eps0"], 100, r["parameters"]["l"]),
            }.get(row["mechanism"])
        ]
        if make
    ],
    ids=repr,
)
def test_blanket_and_homogeneous_epsilon(randomizer, row):
    blanket = ss.epsilon(randomizer, row["n"], row["delta"], bound="blanket")
    assert float(blanket) == pytest.approx(row["blanket_upper"], rel=3e-5)
    # The file's data set has all others at a third value; ours is the worst of three.
    lower = ss.epsilon(randomizer, row["n"], row["delta"], bound="lower")
    assert float(lower) >= row["lower_fixed_dataset"] * (1 - 3e-5)
    assert float(lower) <= float(blanket)


@pytest.mark.parametrize("eps0", [1, 3])
def test_laplace_lower_bound_approaches_the_exact_data_set(eps0):
    row = next(r for r in load("epsilon")["specific"] if r["mechanism"] == "Laplace" and r["eps0"] == eps0)
    lower = float(ss.epsilon(Laplace(eps0), row["n"], row["delta"], bound="lower"))
    assert lower <= row["lower_fixed_dataset"] + 1e-6 or lower <= row["blanket_upper"]
    assert lower >= 0.999 * row["lower_fixed_dataset"]


EXACT = {
    "GRR": lambda q: GRR(math.log(float(q["E"])), q["d"]),
    "RR": lambda q: RandomizedResponse(math.log(float(q["E"]))),
    "RAPPOR": lambda q: RAPPOR(math.log(float(q["E"])), q["d"]),
    "local hash random released": lambda q: LocalHash(math.log(float(q["E"])), q["d"], q["l"]),
}


@pytest.mark.parametrize(
    "row",
    [r for r in load("exact_shuffle") if r["mechanism"] in EXACT],
    ids=lambda r: f"{r['mechanism']} {r['params']} n={r['n']} others={r['others']} eps={r['eps']}",
)
def test_sound_is_above_and_lower_below_the_exact_shuffle(row):
    """The file's local hash is a uniformly random function; ours agrees with it where items are independent (l = 2)."""
    randomizer = EXACT[row["mechanism"]](row["params"])
    n, eps, exact = row["n"], float(row["eps"]), float(row["delta"])
    assert ss.delta(randomizer, n, eps, bound="three-outcome").upper >= exact * (1 - 1e-12)
    if row["params"].get("l", 2) == 2:
        assert ss.delta(randomizer, n, eps).upper >= exact * (1 - 1e-12)
        if len(set(row["others"].strip("(),").replace(" ", "").split(","))) == 1:
            assert ss.delta(randomizer, n, eps, bound="lower").upper >= exact * (1 - 1e-12)


@pytest.mark.parametrize("row", [r for r in load("protocols")["rows"] if r["protocol"].startswith("B4")], ids=str)
def test_balls_into_bins_is_exact(row):
    protocol = BallsIntoBins(row["params"]["d"], row["params"]["rho"])
    for bound in ("sound", "lower", "published"):
        bracket = ss.delta(protocol, row["n"], row["eps"], bound=bound)
        assert float(bracket) == pytest.approx(row["exact_delta"], rel=1e-10)
