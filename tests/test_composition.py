"""Several rounds together, and Renyi divergences: against enumeration of small pairs, against one round, and at the extremes."""

import itertools
import math
import sys

import numpy as np
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import Crowd, composition
from shufflesim.bounds.profile import Sampler, knots, sound_claims
from shufflesim.mechanisms import GRR, RandomizedResponse

from .oracles import load

TERNARY = ss.VariationRatio(3, 0.4, 3, q_star=1)
BINARY = ss.VariationRatio(3, 0.5, 3)
INFINITE = ss.VariationRatio(math.inf, 1, 4)
LOPSIDED = ss.VariationRatio(4, 0.3, 2, q1=5)
# The same with the roles of the two inputs exchanged: here the other direction is the larger one.
MIRRORED = ss.VariationRatio(4, 0.3, 5, q1=2)


def pair_law(x, n):
    """P and Q of the table's pair over multisets of n messages: a multiset's ratio is the mean of its rows' ratios."""
    table = sound_claims(x, Crowd(n))[0].value.tables[0]
    rows = [i for i in range(table.size) if table.weight[i] > 0]
    p, q = [], []
    for bag in itertools.combinations_with_replacement(rows, n):
        counts = [bag.count(i) for i in rows]
        mass = stats.multinomial.pmf(counts, n, table.weight[rows] / table.weight[rows].sum())
        p.append(mass * np.mean(table.g0[list(bag)]))
        q.append(mass * np.mean(table.g1[list(bag)]))
    p, q = np.array(p), np.array(q)
    return p[p + q > 0], q[p + q > 0]


def product(*laws):
    """The same for independent rounds."""
    p, q = laws[0]
    for p1, q1 in laws[1:]:
        p, q = np.outer(p, p1).ravel(), np.outer(q, q1).ravel()
    return p, q


def divergence(law, eps):
    return np.maximum(law[0] - math.exp(eps) * law[1], 0).sum()


@pytest.mark.parametrize(("x", "n"), [(TERNARY, 3), (BINARY, 4), (INFINITE, 4), (INFINITE, 2)])
@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("eps", [0.0, 0.7, 1.5])
def test_delta_of_symmetric_pairs_is_enclosed(x, n, times, eps):
    exact = divergence(product(*[pair_law(x, n)] * times), eps)
    bracket = ss.compose(ss.Round(x, n, times), eps=eps)
    assert bracket.lower <= exact * (1 + 1e-9) + 1e-15
    assert exact * (1 - 1e-9) <= bracket.upper <= 1.03 * exact + 1e-4


@pytest.mark.parametrize("delta", [1e-1, 0.6])
@pytest.mark.parametrize(("x", "n"), [(TERNARY, 3), (BINARY, 2), (INFINITE, 4)])
def test_epsilon_of_symmetric_pairs_is_enclosed(x, n, delta):
    law = product(*[pair_law(x, n)] * 2)
    bracket = ss.compose(ss.Round(x, n, 2), delta=delta)
    if bracket.upper < math.inf:
        assert divergence(law, bracket.upper) <= delta * (1 + 1e-9)
    else:
        assert law[0][law[1] == 0].sum() > delta
    if 0 < bracket.lower < math.inf:
        assert divergence(law, bracket.lower) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("x", [LOPSIDED, MIRRORED])
@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0])
def test_both_directions_and_different_rounds_are_dominated(x, eps):
    one, other = pair_law(x, 3), pair_law(BINARY, 2)
    upper = ss.compose([ss.Round(x, 3, 2), ss.Round(BINARY, 2)], eps=eps).upper
    for first, second in itertools.product((one, one[::-1]), repeat=2):
        assert divergence(product(first, second, other), eps) <= upper * (1 + 1e-9)


@pytest.mark.parametrize(("n", "eps"), [(2, 0.0), (3, 0.2), (4, 0.2), (4, 0.9)])
def test_histograms_of_two_rounds_of_randomized_response_are_dominated(n, eps):
    """The others' inputs may change between the rounds."""
    flip = 1 / (1 + math.e)

    def law(value, ones):
        counts = np.ones(1)
        for bit in [value] + [1] * ones + [0] * (n - 1 - ones):
            p = 1 - flip if bit else flip
            counts = np.convolve(counts, [1 - p, p])
        return counts

    rounds = [(law(a, ones), law(1 - a, ones)) for ones in range(n) for a in (0, 1)]
    worst = max(divergence(product(first, second), eps) for first in rounds for second in rounds)
    upper = ss.compose(ss.Round(RandomizedResponse(1.0), n, 2), eps=eps).upper
    assert worst * (1 - 1e-9) <= upper


def test_one_round_is_epsilon():
    assert ss.compose(ss.Round(BINARY, 1000), delta=1e-6) == ss.epsilon(BINARY, 1000, 1e-6)
    assert ss.compose([ss.Round(BINARY, 1000)], eps=0.1) == ss.delta(BINARY, 1000, 0.1)


@pytest.mark.parametrize(("x", "n"), [(BINARY, 2000), (INFINITE, 2000), (GRR(2.0, 20), 10**5), (GRR(5.0, 3), 10**9)])
def test_discretisation_alone_costs_little_in_one_round(x, n):
    above, below, _ = composition._composed([composition._part(ss.Round(x, n), 1e-6)])
    exact = ss.epsilon(x, n, 1e-6)
    assert exact.lower <= above.epsilon(1e-6) <= 1.01 * exact.upper
    assert 0.98 * exact.lower <= below.epsilon(1e-6) <= exact.upper


@pytest.mark.parametrize(("x", "n"), [(BINARY, 10**7), (INFINITE, 10**9), (TERNARY, 10**8)])
@pytest.mark.parametrize("times", [2, 1000])
def test_between_gaussian_growth_and_the_sum_of_the_rounds(x, n, times, monkeypatch):
    delta = 1e-8
    bracket = ss.compose(ss.Round(x, n, times), delta=delta)
    assert 0.985 * bracket.upper <= bracket.lower
    assert bracket.upper < times * ss.epsilon(x, n, delta / times).upper
    # A Gaussian pair of the same delta at eps = 0.
    deviation = 2 * stats.norm.ppf((1 + ss.delta(x, n, 0.0).upper) / 2) * math.sqrt(times)
    at = bracket.upper

    def gaussian(eps):
        return stats.norm.cdf(deviation / 2 - eps / deviation) - math.exp(eps) * stats.norm.cdf(-deviation / 2 - eps / deviation)

    assert gaussian(0.95 * at) > delta > gaussian(1.05 * at)
    monkeypatch.setattr(composition, "FINENESS", 2 * composition.FINENESS)
    finer = ss.compose(ss.Round(x, n, times), delta=delta).upper
    assert 0.99 * at <= finer <= at * (1 + 1e-4)


@pytest.mark.parametrize(("x", "n"), [(GRR(1.0, 10), 2), (BINARY, 30), (LOPSIDED, 10**5), (INFINITE, 100)])
@pytest.mark.parametrize("times", [1, 300])
def test_the_lower_end_is_lower_by_itself(x, n, times):
    """`compose` reports no lower end above the upper one; here none has to be hidden."""
    above, below, _ = composition._composed([composition._part(ss.Round(x, n, times), 1e-9)])
    for eps in (0.0, 0.01, 0.3, 2.0):
        assert below.delta(eps) <= above.delta(eps)
    for delta in (1e-8, 1e-4, 0.3):
        assert below.epsilon(delta) <= above.epsilon(delta)


def test_rounds_of_very_different_scale():
    large, small = ss.Round(GRR(1.0, 10), 10**4, 3), ss.Round(GRR(1.0, 10), 10**9, 50)
    alone, both = (ss.compose(r, delta=1e-6) for r in (large, [large, small]))
    assert alone.lower <= both.upper <= 1.01 * alone.upper


def test_repeating_equals_listing():
    listed = ss.compose([ss.Round(BINARY, 10**6)] * 4, delta=1e-6)
    assert listed.upper == pytest.approx(ss.compose(ss.Round(BINARY, 10**6, 4), delta=1e-6).upper, rel=1e-6)


def test_delta_and_epsilon_are_inverse():
    rounds = ss.Round(TERNARY, 10**5, 20)
    eps = ss.compose(rounds, delta=1e-6).upper
    # Two grids: the one for delta reaches further out.
    assert ss.compose(rounds, eps=eps).upper == pytest.approx(1e-6, rel=0.02)


def test_extremes():
    assert ss.compose(ss.Round(INFINITE, 1, 3), delta=0.5).upper == math.inf
    assert ss.compose(ss.Round(INFINITE, 1, 3), eps=9.0).upper == 1
    assert ss.compose(ss.Round(INFINITE, 4, 2), delta=1e-3).upper == math.inf
    assert ss.compose(ss.Round(ss.VariationRatio(3, 0, 3), 10, 7), delta=1e-9).upper == 0
    assert ss.compose(ss.Round(ss.VariationRatio(3, 0, 3), 10, 7), eps=0.0).upper < 1e-13
    assert ss.compose(ss.Round(BINARY, 10, 3), eps=4.0).upper == 0
    assert ss.compose(ss.Round(BINARY, 10**12, 3), delta=0.01) == ss.Bracket(0.0, 0.0, "upper", "sum of the rounds")
    assert ss.compose(ss.Round(GRR(1e-9, 3), 5, 10), delta=1e-12).upper <= 1e-8 * (1 + 1e-9)
    for x in (GRR(700.0, 3), GRR(40.0, 2)):
        bracket = ss.compose(ss.Round(x, 3, 5), delta=1e-9)
        assert 0.5 * x.epsilon < bracket.lower <= bracket.upper <= 5 * x.epsilon * (1 + 1e-9)
    assert ss.compose(ss.Round(BINARY, 10**6, 9), delta=5e-324).upper == pytest.approx(9 * math.log(3))
    many = ss.compose(ss.Round(BINARY, 10**10, 10**4), delta=1e-6)
    assert 0.95 * many.upper < many.lower
    tiny = ss.compose(ss.Round(BINARY, 10**6, 4), delta=1e-200)
    assert 0 < tiny.lower <= tiny.upper == pytest.approx(4 * ss.epsilon(BINARY, 10**6, 1e-200 / 4).upper)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ss.Round(3, 10), "x must be a VariationRatio, a Randomizer or a Protocol, got 3"),
        (lambda: ss.Round(GRR, 10), "x must be a VariationRatio, a Randomizer or a Protocol, got <class"),
        (lambda: ss.Round(BINARY, 0), "n must be an integer >= 1, got 0"),
        (lambda: ss.Round(BINARY, 10, 0), "times must be an integer in [1, 1000000], got 0"),
        (lambda: ss.Round(BINARY, 10, 1.5), "times must be an integer in [1, 1000000], got 1.5"),
        (lambda: ss.compose([], delta=1e-6), "rounds must be one or more Round, got []"),
        (lambda: ss.compose(BINARY, delta=1e-6), "rounds must be one or more Round, got VariationRatio"),
        (lambda: ss.compose([BINARY], delta=1e-6), "rounds must be one or more Round, got VariationRatio"),
        (lambda: ss.compose(ss.Round(BINARY, 10)), "exactly one of delta and eps must be given, got delta=None, eps=None"),
        (
            lambda: ss.compose(ss.Round(BINARY, 10), delta=0.1, eps=1),
            "exactly one of delta and eps must be given, got delta=0.1, eps=1",
        ),
        (lambda: ss.compose(ss.Round(BINARY, 10), delta=1.0), "delta must be in (0, 1), got 1.0"),
        (lambda: ss.compose(ss.Round(BINARY, 10), eps=-0.1), "eps must be a finite number >= 0, got -0.1"),
        (lambda: ss.compose(ss.Round(BINARY, 10), eps=math.inf), "eps must be a finite number >= 0, got inf"),
        (lambda: ss.renyi(BINARY, 0, 2), "n must be an integer >= 1, got 0"),
        (lambda: ss.renyi(BINARY, 10, 1), "order must be a finite number > 1, got 1"),
        (lambda: ss.renyi(BINARY, 10, math.inf), "order must be a finite number > 1, got inf"),
        (lambda: ss.renyi("GRR", 10, 2), "x must be a VariationRatio, a Randomizer or a Protocol, got 'GRR'"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(message)


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ImportError, match=r"pip install 'shufflesim\[composition\]'"):
        ss.compose(ss.Round(BINARY, 10, 2), delta=1e-6)


@pytest.mark.parametrize(
    ("x", "n"), [(TERNARY, 3), (BINARY, 4), (LOPSIDED, 3), (INFINITE, 5), (GRR(1.0, 10), 2), (BINARY, 10**6)]
)
def test_pairs_are_pairs(x, n):
    """Probabilities sum to 1, also under Q with its own infinite losses, and the curves lie where they should."""
    sampler = Sampler(sound_claims(x, Crowd(n))[0], x.local_epsilon, 1e-6)
    deviation = 2.5 * sampler(0.0)[1]
    curve = sampler.curve(knots(deviation, min(10 * deviation, x.local_epsilon), 6))
    for pair, side in ((curve.above(), 1), (curve.below(), -1)):
        assert pair.masses.min() >= 0
        assert pair.masses.sum() + pair.infinite == pytest.approx(1, abs=1e-12)
        assert (pair.masses * np.exp(-pair.losses)).sum() + pair.infinite == pytest.approx(1, abs=1e-12)
        for eps in np.linspace(0, 8 * deviation, 30):
            over = pair.losses > eps
            value = pair.infinite + float(pair.masses[over] @ -np.expm1(eps - pair.losses[over]))
            low, high = sampler(eps)
            assert value >= low * (1 - 1e-10) if side > 0 else value <= high * (1 + 1e-10)


@pytest.mark.parametrize(("x", "n"), [(TERNARY, 3), (BINARY, 4), (BINARY, 1)])
@pytest.mark.parametrize("order", [1.01, 2, 60])
def test_renyi_of_small_pairs_is_enclosed(x, n, order):
    p, q = pair_law(x, n)
    exact = math.log((p**order * q ** (1 - order)).sum()) / (order - 1)
    bracket = ss.renyi(x, n, order)
    assert bracket.lower * (1 - 1e-9) <= exact <= bracket.upper * (1 + 1e-9)
    assert bracket.slack <= 1e-3 * bracket.upper


@pytest.mark.parametrize("order", [1.5, 30])
def test_renyi_bounds_both_directions(order):
    p, q = pair_law(LOPSIDED, 4)
    worst = max(math.log((a**order * b ** (1 - order)).sum()) / (order - 1) for a, b in ((p, q), (q, p)))
    assert worst <= ss.renyi(LOPSIDED, 4, order).upper <= 1.1 * worst


@pytest.mark.parametrize(("order", "n"), [(1.5, 10**6), (100, 10**6), (2, 10**10)])
def test_renyi_of_many_users_is_gaussian(n, order):
    bracket = ss.renyi(BINARY, n, order)
    deviation = 2 * stats.norm.ppf((1 + ss.delta(BINARY, n, 0.0).upper) / 2)
    assert bracket.lower * 0.99 <= order * deviation**2 / 2 <= bracket.upper * 1.01
    assert bracket.slack <= 1e-3 * bracket.upper


def test_renyi_extremes():
    assert ss.renyi(INFINITE, 10**6, 1.1).lower == math.inf
    assert ss.renyi(ss.VariationRatio(math.inf, 0, 2), 10, 3).upper < 1e-25
    assert ss.renyi(GRR(700.0, 3), 3, 2).upper <= 700 * (1 + 1e-9)
    large = ss.renyi(BINARY, 10**9, 1e4)
    assert 0 < large.lower <= large.upper <= BINARY.local_epsilon


SEVERAL = [r for r in load("protocols")["rows"] if len(r.get("declaration", ())) > 1 and isinstance(r["blankets"], int)]


@pytest.mark.parametrize("row", SEVERAL, ids=lambda r: f"{r['protocol']} n={r['n']} {r['eps']}")
def test_parts_in_separate_shufflers_are_dominated(row):
    """Digits or levels that are shuffled on their own: enumerated truth below the composition of the sound pairs."""
    rounds = []
    for i, said in enumerate(row["declaration"]):
        p = float(said["p"])
        q_star = row["q_star"][i] if "q_star" in row else None
        top = 1.0 if p == math.inf else (p - 1) / (p + 1)
        rounds.append(ss.Round(ss.VariationRatio(p, min(said["beta"], top), said["q0"], said["q1"], q_star), row["blankets"] + 1))
    assert ss.compose(rounds, eps=row["eps"]).upper >= row["exact_delta"]
