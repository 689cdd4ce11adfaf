"""The public questions about bounds: order, inverses, extremes, and what is refused."""

import math
import warnings

import mpmath
import numpy as np
import pytest

import shufflesim as ss
from shufflesim import precision
from shufflesim.bounds import Claim, Table
from shufflesim.mechanisms import GRR, OUE, RAPPOR, Laplace, LocalHash
from shufflesim.protocols import BallsIntoBins


def test_bounds_are_ordered():
    for randomizer in (GRR(1.0, 10), GRR(3.0, 100), RAPPOR(2.0, 16), LocalHash(2.0, 50), Laplace(2.0)):
        for n in (10, 1000, 10**6):
            table = ss.bound_table(randomizer, n, 1e-6).set_index("bound")
            assert table.loc["lower", "epsilon"] <= table.loc["sound", "epsilon"] <= randomizer.epsilon * (1 + 1e-9)
            assert table.loc["sound", "epsilon"] <= table.loc["three-outcome", "epsilon"]
            assert (table["amplification_ratio"] >= 1 - 1e-9).all()


def test_epsilon_and_delta_are_inverse_on_the_safe_side():
    for randomizer in (GRR(1.0, 4), GRR(4.0, 1000), BallsIntoBins(16, 2)):
        for n in (5, 500, 50_000):
            bracket = ss.epsilon(randomizer, n, 1e-5)
            if bracket.upper < math.inf:
                assert ss.delta(randomizer, n, bracket.upper).upper <= 1e-5 * (1 + 1e-12)
            if 0 < bracket.lower < math.inf:
                assert ss.delta(randomizer, n, bracket.lower * (1 - 1e-12)).upper >= 1e-5


def test_monotone_in_beta_q_and_q_star():
    """theory of the three-outcome pair: a more cautious declaration never gives a smaller delta."""
    base = {"p": 5.0, "beta": 0.4, "q": 6.0, "q_star": 3.0}
    for n, eps in ((3, 0.2), (40, 0.3), (5000, 0.1)):
        start = ss.delta(ss.VariationRatio(**base), n, eps).upper
        for change in ({"beta": 0.5}, {"q": 8.0}, {"q_star": 6.0}):
            assert ss.delta(ss.VariationRatio(**{**base, **change}), n, eps).upper >= start * (1 - 1e-9)
        assert ss.delta(ss.VariationRatio(5.0, 4 / 6, 6.0), n, eps, bound="published").upper >= start * (1 - 1e-9)


@pytest.mark.parametrize("eps0", [1e-9, 50.0, 700.0])
@pytest.mark.parametrize("n", [1, 2, 1000, 10**6, 10**12, 10**15])
@pytest.mark.parametrize("delta", [1e-2, 1e-12, 1e-300])
def test_extremes_give_honest_numbers(eps0, n, delta):
    """No NaN, no warning, no error: eps between 0 and the local budget, lower <= upper."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (GRR(eps0, 3), GRR(eps0, 2**40), ss.VariationRatio(math.inf, 0.5, 4)):
            bracket = ss.epsilon(x, n, delta)
            assert 0 <= bracket.lower <= bracket.upper <= x.local_epsilon
            if eps0 == 700 and isinstance(x, GRR):
                assert bracket.lower > 690  # n r is below 1e-280: no clones, nothing is amplified


@pytest.mark.parametrize(
    ("grr", "n", "eps"),
    [
        (GRR(2.0, 2**34), 2, 1.8),
        (GRR(2.0, 2**34), 5, 1.98),
        (GRR(2.0, 2**34), 30, 1.98),
        (GRR(2.0, 2**26), 30, 1.98),
        (GRR(2.0, 10**4), 30, 1.98),
        (GRR(1e-3, 2**20), 2, 0.9e-3),
        (GRR(1e-3, 2**20), 30, 0.99e-3),
    ],
    ids=str,
)
def test_a_tiny_revealed_mass_counts(grr, n, eps):
    """Where 1 - 2r - s is far below 1e-9 but decides: rows from the mechanism's exact law, 30 digits."""
    with mpmath.workdps(60):
        e = mpmath.exp(mpmath.mpf(grr.epsilon))
        z = e + grr.d - 1
        rows = [(1 / z, e, 1), (1 / z, 1, e), ((grr.d - 2) / z, 1, 1), ((e - 1) / z, 0, 0)]
        exact = precision.delta(rows, n, eps, digits=30)
        for bound in ("sound", "three-outcome", "blanket"):
            bracket = ss.delta(grr, n, eps, bound=bound)
            assert bracket.upper >= exact * (1 - mpmath.mpf("1e-16"))
            assert bracket.upper <= exact * (1 + mpmath.mpf("1e-6"))
        assert ss.delta(grr, n, eps, bound="lower").lower <= exact


def test_nothing_is_left_at_the_local_budget():
    for randomizer in (GRR(1.0, 3), GRR(36.0, 5), GRR(50.0, 5), RAPPOR(50.0, 5), OUE(700.0, 2), Laplace(700.0)):
        for bound in ("sound", "published", "three-outcome"):
            assert ss.delta(randomizer, 10**6, randomizer.epsilon, bound=bound).upper == 0
            assert ss.delta(randomizer, 10**6, 1e6, bound=bound).upper == 0


def test_almost_neutral_is_not_v2():
    x = ss.VariationRatio(3, 0.2, 3)
    rest = 1 - x.r0 - x.r1
    y = ss.VariationRatio(3, 0.2, 3, q_star=x.omega / (rest * (1 - 9e-10)))
    assert not y.published_soundness()[0]
    assert ss.delta(y, 3, 1.0).upper == ss.delta(y, 3, 1.0, bound="three-outcome").upper


@pytest.mark.parametrize("thing", [None, "grr", 3, [], GRR], ids=repr)
def test_what_cannot_be_bounded_is_refused(thing):
    for ask in (lambda: ss.delta(thing, 3, 0.1), lambda: ss.epsilon(thing, 3, 0.1), lambda: ss.bound_table(thing, 3, 0.1)):
        with pytest.raises(ValueError, match="x must be a VariationRatio, a Randomizer or a Protocol, got"):
            ask()


def test_more_users_than_there_are():
    for n in (10**19, 10**400, 1e300):
        with pytest.raises(ValueError, match=r"n must be at most 1e\+18, got"):
            ss.epsilon(GRR(1.0, 3), n, 1e-6)


def test_no_clones_means_no_amplification():
    assert ss.epsilon(GRR(40.0, 10), 1000, 1e-6).lower == pytest.approx(40.0, rel=1e-3)
    bracket = ss.epsilon(BallsIntoBins(16, 0.01), 100, 1e-6)
    assert (bracket.lower, bracket.upper) == (math.inf, math.inf)
    assert float(ss.epsilon(BallsIntoBins(2, 5), 10, 1e-6)) < math.inf


def test_one_user_has_the_local_divergence():
    grr = GRR(1.0, 4)
    a, b = grr.support
    for eps in (0.0, 0.3, 0.9):
        assert float(ss.delta(grr, 1, eps)) == pytest.approx(a - math.exp(eps) * b, rel=1e-12)
    assert ss.delta(grr, 1, 1.5).upper == 0


def test_arrays_and_negative_eps():
    x = ss.VariationRatio(3, 0.4, 3)
    curve = ss.delta(x, 20, [-0.5, 0.0, 0.5])
    assert curve.upper.shape == (3,)
    assert np.all(np.diff(curve.upper) < 0)
    assert curve.lower[0] >= 1 - math.exp(-0.5)
    assert np.all(curve.slack >= 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 0.5, "beta": 0.1, "q": 2}, "p must be >= 1, got 0.5"),
        ({"p": math.nan, "beta": 0.1, "q": 2}, "p must be a number, got nan"),
        ({"p": None, "beta": 0.1, "q": 2}, "p must be a number, got None"),
        ({"p": 3, "beta": None, "q": 2}, "beta must be a number, got None"),
        ({"p": 3, "beta": 0.6, "q": 3}, r"beta must be in \[0, \(p-1\)/\(p\+1\)\] = \[0, 0.5\], got 0.6"),
        ({"p": 3, "beta": -0.1, "q": 3}, "beta must be in"),
        ({"p": 3, "beta": math.nan, "q": 3}, "beta must be a number, got nan"),
        ({"p": 3, "beta": 0.4, "q": 0}, "q must be positive and finite, got 0.0"),
        ({"p": 3, "beta": 0.4, "q": math.inf}, "q must be positive and finite, got inf"),
        ({"p": 3, "beta": 0.4, "q": "3"}, "q must be a number, got '3'"),
        ({"p": 3, "beta": 0.4, "q": 0.6}, r"q and q1 must make r0 \+ r1"),
        ({"p": 3, "beta": 0.4, "q": 3, "q_star": 0.1}, "q_star must make"),
    ],
)
def test_impossible_declarations_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.VariationRatio(**arguments)


@pytest.mark.parametrize("n", [0, -1, 1.5, math.nan, math.inf, "3", None, True])
def test_bad_n(n):
    with pytest.raises(ValueError, match="n must be an integer >= 1, got"):
        ss.epsilon(GRR(1.0, 3), n, 1e-6)


@pytest.mark.parametrize("delta", [0, 1, 2, -1e-6, math.nan, "1e-6", None])
def test_bad_delta(delta):
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got"):
        ss.epsilon(GRR(1.0, 3), 10, delta)


@pytest.mark.parametrize("eps", [math.nan, math.inf, "1", None])
def test_bad_eps(eps):
    with pytest.raises(ValueError, match="eps must be finite numbers, got"):
        ss.delta(GRR(1.0, 3), 10, eps)


def test_bad_bound():
    with pytest.raises(ValueError, match="did you mean 'sound'"):
        ss.epsilon(GRR(1.0, 3), 10, 1e-6, bound="sond")
    with pytest.raises(ValueError, match="does not apply"):
        ss.epsilon(ss.VariationRatio(3, 0.4, 3), 10, 1e-6, bound="lower")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (([0.5, 0.4], [1, 1], [1, 1]), "the sum of weight"),
        (([0.5, 0.5], [1, 2], [1, 1]), "the sum of weight \\* g0"),
        (([0.5, 0.5], [1, math.nan], [1, 1]), "finite and >= 0"),
        (([1.5, -0.5], [1, 1], [1, 1]), "finite and >= 0"),
        (([], [], []), "length >= 1"),
    ],
)
def test_tables_must_be_laws(rows, message):
    with pytest.raises(ValueError, match=message):
        Table(*rows)


def test_bracket_is_the_safe_side():
    grr = GRR(1.0, 5)
    upper, lower = ss.epsilon(grr, 100, 1e-4), ss.epsilon(grr, 100, 1e-4, bound="lower")
    assert float(upper) == upper.upper
    assert float(lower) == lower.lower
    assert upper.slack == upper.upper - upper.lower


def test_a_claim_with_a_name_of_its_own():
    """A protocol may have an accountant that no other has; it counts for "sound" like any other."""

    class Own:
        local_epsilon = 1.0

        def claims(self, crowd):
            known = GRR(1.0, 4).claims(crowd)
            value = next(c.value for c in known if c.bound == "blanket")
            return [Claim("accountant", "upper", True, "a proof", "exact", value), *known]

    table = ss.bound_table(Own(), 1000, 1e-6)
    assert table["bound"].iloc[-1] == "accountant"
    assert ss.epsilon(Own(), 1000, 1e-6, bound="accountant") == ss.epsilon(GRR(1.0, 4), 1000, 1e-6, bound="blanket")
    with pytest.raises(ValueError, match="bound must be one of"):
        ss.epsilon(GRR(1.0, 4), 1000, 1e-6, bound="accountant")
