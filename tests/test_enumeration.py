"""The exact law of a shuffled multiset: against exact rationals, an independent enumeration, and its own curve."""

import ast
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import shufflesim as ss
from shufflesim.empirical import Enumeration
from shufflesim.mechanisms import GRR

from .exact import Shuffled
from .oracles import load, untraced

EXACT = {"RR", "GRR", "k-subset", "RAPPOR"}


def rational_law(mechanism, params):
    """From integer weights: the definition, not the class."""
    e, d = Fraction(params["E"]), params.get("d", 2)
    if mechanism in ("RR", "GRR"):
        weights = [[e if x == y else Fraction(1) for y in range(d)] for x in range(d)]
    elif mechanism == "k-subset":
        weights = [[e if x in y else Fraction(1) for y in itertools.combinations(range(d), params["k"])] for x in range(d)]
    else:
        root = Fraction(math.isqrt(int(e)))
        bits = list(itertools.product((0, 1), repeat=d))
        weights = [[math.prod(root if (x == j) == b else Fraction(1) for j, b in enumerate(y)) for y in bits] for x in range(d)]
    return [[w / sum(row) for w in row] for row in weights]


def divergence(first, second, growth):
    return sum((p - growth * q for p, q in zip(first, second, strict=True) if p > growth * q), start=0 * growth)


@pytest.mark.parametrize(
    "row",
    [r for r in load("exact_shuffle") if r["mechanism"] in EXACT],
    ids=lambda r: f"{r['mechanism']} {r['params']} n={r['n']} {r['others']} {r['eps']}",
)
@untraced
def test_every_row_to_thirty_digits(row):
    with mpmath.workdps(45):
        growth = Fraction(mpmath.nstr(mpmath.exp(mpmath.mpf(row["eps"])), 40))
    law, others = rational_law(row["mechanism"], row["params"]), ast.literal_eval(row["others"])
    views = Enumeration(law, row["n"]).views(others)
    first, second = views[int(row["x0"])], views[int(row["x1"])]
    found = {"delta_01": divergence(first, second, growth), "delta_10": divergence(second, first, growth)}
    for direction, exact in found.items():
        assert abs(exact - Fraction(row[direction])) <= Fraction(row[direction]) / 10**28
    in_floats = Enumeration(np.array(law, dtype=float), row["n"]).worst(float(row["eps"]), others=others)
    exactly = Enumeration(law, row["n"]).worst(growth=growth, others=others)
    assert abs(in_floats.delta - float(exactly.delta)) <= in_floats.error + 1e-15 * float(exactly.delta)
    assert exactly.delta >= max(found.values())
    assert exactly.error == 0
    assert 0 < in_floats.error < 1e-11


@pytest.mark.parametrize(
    "row",
    [r for r in load("counterexamples")["enumerated"] if r["mechanism"] in EXACT and r["n"] <= 4],
    ids=lambda r: f"{r['mechanism']} {r['params']} n={r['n']}",
)
def test_counterexamples_in_exact_rationals(row):
    found = Enumeration(rational_law(row["mechanism"], row["params"]), row["n"])
    views, growth = found.views(ast.literal_eval(row["others"])), Fraction(row["at_e_eps"])
    first, second = (views[int(row[x])] for x in ("x0", "x1"))
    if row["direction"] == "10":
        first, second = second, first
    assert divergence(first, second, growth) == Fraction(row["true_delta"])
    assert found.worst(growth=growth).delta >= Fraction(row["true_delta"])
    assert len(list(found.data_sets())) == row["datasets_checked"]


def test_the_data_sets_above_the_published_bound_are_counted_right():
    """Inputs 0 and 1 of user 1 in each data set against the published bound."""
    for row in load("counterexamples")["enumerated"]:
        if row["mechanism"] != "GRR" or row["n"] > 4:
            continue
        grr = GRR(math.log(float(row["params"]["E"])), row["params"]["d"])
        enumeration, violating = Enumeration(grr.channel(), row["n"]), 0
        eps = np.linspace(0, grr.epsilon, 150)[:-1]
        published = ss.delta(grr, row["n"], eps, bound="published").upper
        for others in enumeration.data_sets():
            kinks, largest = enumeration.curve(others)
            first, second = enumeration.views(others)[:2]
            one, two = (np.maximum(0, p - np.exp(eps)[:, None] * q).sum(axis=1) for p, q in ((first, second), (second, first)))
            assert np.all(np.maximum(one, two) <= np.interp(np.exp(eps), np.exp(kinks), largest) * (1 + 1e-9) + 1e-13)
            violating += bool(np.any(np.maximum(one, two) > published * (1 + 1e-9) + 1e-13))
        assert violating == row["datasets_violating_paper_bound"]


def test_the_hand_checkable_one():
    case = load("counterexamples")["hand_checkable"]
    found = Enumeration(rational_law("GRR", {"d": 3, "E": "3"}), 2).worst(growth=Fraction(5, 2))
    assert found.delta == Fraction(case["true_delta"])
    assert found.others in [(0,), (1,), (2,)]


@pytest.mark.parametrize("seed", range(12))
def test_against_an_independent_enumeration(seed):
    rng = np.random.default_rng([60, seed])
    law = rng.dirichlet(np.full(rng.integers(2, 5), 0.7), size=rng.integers(2, 4))
    law = np.where(law < 0.05, 0.0, law) if seed % 3 == 0 else law
    law /= law.sum(axis=1, keepdims=True)
    n = int(rng.integers(1, 5))
    enumeration, other = Enumeration(law, n), Shuffled(law, n)
    for eps in (0.0, 0.3, 1.1, -0.4):
        found = enumeration.worst(eps)
        assert found.delta == pytest.approx(float(other.delta([eps])[0]), rel=1e-11, abs=1e-14)
        alone = enumeration.worst(eps, others=found.others)
        assert (alone.delta, alone.others) == (found.delta, found.others)


@pytest.mark.parametrize("seed", range(6))
def test_the_curve_at_its_kinks_and_between(seed):
    rng = np.random.default_rng([61, seed])
    law = rng.dirichlet(np.full(3, 1.0), size=2 + seed % 2)
    law[0, 0], law[0, 1] = (0.0, law[0, 0] + law[0, 1]) if seed == 5 else law[0, :2]
    n = 1 + seed % 4
    enumeration, other = Enumeration(law, n), Shuffled(law, n)
    eps, delta = enumeration.curve()
    assert 0 in eps
    assert np.all(np.diff(eps) > 0)
    every = other.kinks(rng, 10**6)
    assert np.abs(eps[None] - every[:, None]).min(axis=1).max() < 1e-10
    assert np.abs(eps[None] + every[:, None]).min(axis=1).max() < 1e-10
    assert delta == pytest.approx(other.delta(eps), rel=1e-9, abs=1e-12)
    growth = np.exp(eps)
    middle = (growth[1:] + growth[:-1]) / 2
    between = other.delta(np.log(middle))
    assert np.all(between <= (delta[1:] + delta[:-1]) / 2 * (1 + 1e-9) + 1e-12)
    assert other.delta([eps[-1] + 1.0]) == pytest.approx(delta[-1] - (0 if seed == 5 else delta[-1]), abs=1e-9)
    for k in rng.choice(eps.size, min(8, eps.size), replace=False):
        assert enumeration.worst(eps[k]).delta == pytest.approx(delta[k], rel=1e-9, abs=1e-12)


def test_extreme_ratios():
    law = np.array([[1 - 1e-300, 1e-300], [1e-300, 1 - 1e-300]])
    assert Enumeration(law, 2).worst(600.0).delta == pytest.approx(1.0)
    eps, delta = Enumeration(law, 2).curve()
    assert np.abs(eps).max() <= 700
    assert np.all(np.isfinite(delta))
    assert Enumeration([[1, 0], [0, 1]], 1).worst(growth=5).delta == 1


THIRDS = [[Fraction(2, 3), Fraction(1, 3)], [Fraction(1, 3), Fraction(2, 3)]]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Enumeration(np.full((8, 8), 1 / 8), 12), r"at most 50,000,000 multisets in all data sets, coded in 62 bits"),
        (lambda: Enumeration(np.full((2, 40), 1 / 40), 3), "of 40 outcomes for n = 3"),
        (lambda: Enumeration([[0.5, 0.6], [0.5, 0.5]], 2), r"law must be a matrix of probabilities .* got sums \[1.1, 1.0\]"),
        (lambda: Enumeration([[1.5, -0.5], [0.5, 0.5]], 2), "a smallest entry -0.5"),
        (lambda: Enumeration([[math.nan, 1.0], [0.5, 0.5]], 2), "law must be a matrix of probabilities"),
        (lambda: Enumeration([[0.5, 0.5], [1.0]], 2), "law must be a matrix of probabilities"),
        (lambda: Enumeration([["a", "b"]], 2), "law must be a matrix of probabilities"),
        (lambda: Enumeration([], 2), "law must be a matrix of probabilities"),
        (lambda: Enumeration(THIRDS, 0), "n must be an integer >= 1, got 0"),
        (lambda: Enumeration(THIRDS, 2).worst(), "exactly one of eps and growth must be given"),
        (lambda: Enumeration(THIRDS, 2).worst(math.nan), "eps must be a number <= 700, got nan"),
        (lambda: Enumeration(THIRDS, 2).worst(800.0), "eps must be a number <= 700, got 800.0"),
        (lambda: Enumeration(THIRDS, 2).worst(growth=Fraction(0)), "growth must be a number > 0"),
        (lambda: Enumeration(THIRDS, 2).worst(growth=10**400), r"growth must be a number > 0, at most e\^700, got 1000"),
        (lambda: Enumeration(THIRDS, 2).worst(1.0, others=1), "others must be 1 inputs, got 1"),
        (lambda: Enumeration(np.full((50, 50_000), 1 / 50_000), 10**9), "got 50 inputs, each of 50000 outcomes"),
        (lambda: Enumeration(THIRDS, 2).worst(1.0, others=(0, 1)), r"others must be 1 inputs, got \(0, 1\)"),
        (lambda: Enumeration(THIRDS, 2).worst(1.0, others=(-1,)), r"others must be an integer in \[0, 1\], got -1"),
        (lambda: Enumeration(THIRDS, 3).views((0,)), r"others must be 2 inputs, got \(0,\)"),
        (lambda: Enumeration(THIRDS, 3).views("01"), "others must be 2 inputs, got '01'"),
        (lambda: Enumeration(THIRDS, 3).views((0, 5)), r"others must be an integer in \[0, 1\], got 5"),
        (lambda: Enumeration([[0.5, 0.5]], 2).worst(1.0), "law must have at least two inputs, got 1"),
        (
            lambda: Enumeration(np.random.default_rng(0).dirichlet(np.ones(5), size=5), 6).curve(),
            "at most 50,000,000 kinks times",
        ),
    ],
)
def test_too_much_and_bad_input_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_probabilities_too_small_for_a_double_accuse_nobody():
    """The product of three e^-300 is no double: an honest class had a delta of 1e-260 beyond eps0, and no error."""
    found = ss.audit(GRR(300.0, 2), 3, 600.0, ways=("enumeration",))
    assert (found.claimed, found.verdict, found.ways[0].low) == (0.0, "consistent", 0.0)
    assert found.ways[0].high < 1e-60


def test_a_float_growth_of_a_rational_law_has_its_rounding():
    assert Enumeration(THIRDS, 2).worst(math.log(1.5)).error > 0
    assert Enumeration(THIRDS, 2).worst(growth=Fraction(3, 2)).error == 0
