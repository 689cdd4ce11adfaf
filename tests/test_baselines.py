"""The bounds of the literature: their formulas, their order, where they stop being upper bounds."""

import math
from itertools import pairwise

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.bounds import Crowd, claims_of
from shufflesim.mechanisms import GRR, RAPPOR, HadamardResponse, KSubset, LocalHash, RandomizedResponse
from shufflesim.protocols import BallsIntoBins

CLOSED = ("analytic", "asymptotic")
GENERAL = ("stronger-clone-closed", "clone-closed", "blanket-hoeffding-generic", "blanket-bennett-generic", "efmrtt19")


def test_closed_forms_are_the_published_formulas():
    eps0, n, delta = 1.0, 100_000, 1e-8
    e, log_term = math.exp(eps0), math.log(4e8)
    grr = GRR(eps0, 10)
    beta = (e - 1) / (e + 9)
    r = beta / (e - 1)
    c = 4 * (1 - 3 * r) / (9 * (1 - 2 * r))
    noise = math.sqrt(32 * log_term / (r * (n - 1))) + 4 / (r * (n - 1))
    expected = math.log1p(beta / ((1 - c) * beta * (e + 1) / (e - 1) + c) * noise)
    assert float(ss.epsilon(grr, n, delta, bound="asymptotic")) == pytest.approx(expected, rel=1e-12)
    for bound, r in (("stronger-clone-closed", 1 / (e + 1)), ("clone-closed", math.exp(-eps0) / 2)):
        noise = math.sqrt(32 * log_term / (r * (n - 1))) + 4 / (r * (n - 1))
        expected = math.log1p((e - 1) / (e + 1) * noise)
        assert float(ss.epsilon(grr, n, delta, bound=bound)) == pytest.approx(expected, rel=1e-12)
    small = GRR(0.25, 10)
    expected = 12 * 0.25 * math.sqrt(math.log(1e8) / n)
    assert float(ss.epsilon(small, n, delta, bound="efmrtt19")) == pytest.approx(expected, rel=1e-12)


def test_analytic_is_theorem_4_2_where_there_is_no_neutral_part():
    eps0, n, delta = 2.0, 50_000, 1e-7
    e, log_term = math.exp(eps0), math.log(4 / delta)
    beta, r = (e - 1) / (e + 1), 1 / (e + 1)
    alpha, messages = beta / (e - 1), n - 1
    omega = 2 * r * messages - math.sqrt(min(6 * r, 0.5) * messages * log_term)
    spread = math.sqrt(omega * log_term / 2)
    expected = math.log1p(beta * (2 * spread + 1) / (alpha * omega + beta * (omega / 2 - spread)))
    found = ss.epsilon(RandomizedResponse(eps0), n, delta, bound="analytic")
    assert float(found) == pytest.approx(expected, rel=1e-12)
    assert found.lower < found.upper <= math.nextafter(math.nextafter(found.lower, 9), 9)


def test_condition_of_theorem_4_2_as_printed_is_not_enough():
    """The printed condition holds here (its right side is negative), but f(Omega) is a seventh of the published bound."""
    p, beta, n, delta = 1.0473211680009813, 0.003951419408963244, 469, 2.5434389688512103e-11
    x = ss.VariationRatio(p, beta, p)
    alpha = beta / (p - 1)
    r, neutral_mass = alpha, 1 - alpha - p * alpha
    log_term, messages = math.log(4 / delta), n - 1
    omega = 2 * r * messages - math.sqrt(min(6 * r, 0.5) * messages * log_term)
    printed = (2 * p * (beta + 1 + (beta - 1) * p) * messages + beta) / (p + p * (beta - 1 + (beta + 1) * p) - p * p)
    neutral = neutral_mass * r / (1 - 2 * r)
    assert omega > 0
    assert omega >= printed
    assert (p + 1) * alpha / 2 >= neutral
    spread = math.sqrt(omega * log_term / 2)
    below = alpha * omega + beta * (omega / 2 - spread) + neutral * (messages - omega)
    at_omega = math.log1p(beta * (2 * spread + 1) / below)
    published = ss.epsilon(x, n, delta, bound="published")
    assert at_omega < 0.14 * published.lower
    assert float(ss.epsilon(x, n, delta, bound="analytic")) >= published.upper


def random_declarations(count, seed):
    rng = np.random.default_rng([50, seed])
    while count:
        eps0 = math.exp(rng.uniform(math.log(0.01), math.log(8)))
        p = math.exp(eps0) if rng.random() < 0.85 else math.inf
        top = 1.0 if p == math.inf else (p - 1) / (p + 1)
        beta = top if rng.random() < 0.2 else top * rng.uniform(0.01, 1)
        clone = beta if p == math.inf else p * beta / (p - 1)
        q = p if p < math.inf and rng.random() < 0.6 else max(2 * clone, 1) * math.exp(rng.uniform(0, 4))
        try:
            x = ss.VariationRatio(p, beta, q)
        except ValueError:
            continue
        count -= 1
        yield x, int(10 ** rng.uniform(1, 8)), 10 ** rng.uniform(-12, -1)


def test_looser_forms_are_above_what_they_stand_for():
    """120 random declarations: closed forms above the published and the sound value, general bounds above the stronger clone."""
    tried = dict.fromkeys((*CLOSED, *GENERAL), 0)
    for x, n, delta in random_declarations(120, 1):
        have = {claim.bound for claim in claims_of(x, Crowd(n))}
        tight = {
            "sound": ss.epsilon(x, n, delta).lower,
            "published": ss.epsilon(x, n, delta, bound="published").lower,
            "stronger-clone": ss.epsilon(x, n, delta, bound="stronger-clone").lower if "stronger-clone" in have else 0.0,
        }
        for bound in have & set(tried):
            value = ss.epsilon(x, n, delta, bound=bound).upper
            if value < x.local_epsilon:
                tried[bound] += 1
                assert value >= max(tight.values() if bound in GENERAL else (tight["sound"], tight["published"])), (bound, x, n)
    assert min(tried.values()) >= 15


@pytest.mark.parametrize("randomizer", [GRR(1.0, 10), RAPPOR(2.0, 8), LocalHash(3.0, 100), RandomizedResponse(0.5)], ids=repr)
def test_order_of_the_table(randomizer):
    for n, delta in ((30, 1e-3), (3000, 1e-6), (10**7, 1e-9)):
        table = ss.bound_table(randomizer, n, delta).set_index("bound")
        eps = table["epsilon"]
        assert eps["lower-5.1"] <= eps["lower"] * (1 + 1e-6)
        assert eps["lower"] <= eps["sound"] * (1 + 1e-6)
        chain = ("sound", "three-outcome", "stronger-clone", "clone")
        assert all(eps[a] <= eps[b] * (1 + 1e-6) for a, b in pairwise(chain))
        assert eps["blanket"] <= eps["blanket-bennett"] * (1 + 1e-6)
        assert eps["blanket"] <= eps["blanket-hoeffding"] * (1 + 1e-6)
        assert (eps <= randomizer.local_epsilon).all()
        assert table.loc["sound", "note"].startswith("smallest sound upper bound: ")


def test_every_row_says_side_soundness_source_and_note():
    table = ss.bound_table(GRR(1.0, 10), 100, 1e-6).set_index("bound")
    assert not table.loc[["published", "analytic", "asymptotic"], "sound"].any()
    assert table.drop(index=["published", "analytic", "asymptotic"])["sound"].all()
    assert table["source"].str.len().min() > 10
    assert table["note"].str.len().min() > 5
    assert "omega = 0.6827 > 0" in table.loc["published", "note"]
    assert "falls back to the local eps: needs n > " in table.loc["asymptotic", "note"]
    assert (
        table.loc["asymptotic", "epsilon"] == GRR(1.0, 10).amplification.local_epsilon or table.loc["asymptotic", "epsilon"] == 1
    )
    sides = table["side"].to_dict()
    assert {name for name, side in sides.items() if side == "lower"} == {"lower", "lower-5.1"}
    binary = ss.bound_table(RandomizedResponse(0.3), 1000, 1e-6).set_index("bound")
    assert binary["sound"].all()
    assert "V1" in binary.loc["published", "note"]


@pytest.mark.parametrize("eps0", [1e-6, 1e-3, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 20.0, 300.0, 700.0])
def test_binary_randomized_response_is_v1_for_every_budget(eps0):
    assert RandomizedResponse(eps0).amplification.published_soundness() == (True, "V1: omega = 0")


def test_delta_inverts_every_bound():
    grr, n = GRR(0.4, 3), 20_000
    for claim in claims_of(grr, Crowd(n)):
        bracket = ss.epsilon(grr, n, 1e-6, bound=claim.bound)
        if 0 < bracket.upper < 0.4:
            assert ss.delta(grr, n, bracket.upper, bound=claim.bound).lower <= 1e-6 * (1 + 1e-9)
            assert ss.delta(grr, n, bracket.lower, bound=claim.bound).upper >= 1e-6 * (1 - 1e-9)
        assert ss.delta(grr, n, 0.41, bound=claim.bound).upper == 0


def test_multi_message_protocols_have_closed_forms_too():
    table = ss.bound_table(BallsIntoBins(16, 2), 10**4, 1e-8).set_index("bound")
    assert table["sound"].all()
    eps = table["epsilon"]
    assert eps["three-outcome"] < eps["analytic"] < eps["asymptotic"]
    assert "asymptotic" not in set(ss.bound_table(BallsIntoBins(16, 1.5), 10**4, 1e-8)["bound"])


def test_rtol_buys_a_narrower_bracket():
    x, n = GRR(1.0, 10), 10**5
    wide, narrow = (ss.epsilon(x, n, 1e-8, bound="three-outcome", rtol=rtol) for rtol in (1e-3, 1e-9))
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper
    assert narrow.slack <= 1e-9 * narrow.upper
    coarse, fine = (ss.delta(x, n, 0.01, bound="three-outcome", rtol=rtol) for rtol in (1e-3, 1e-11))
    assert fine.slack <= coarse.slack


@pytest.mark.parametrize(
    "randomizer", [HadamardResponse(100.0, 8, K=16), GRR(150.0, 5), KSubset(200.0, 6, 2), GRR(400.0, 5)], ids=repr
)
def test_every_bound_is_a_probability_at_large_budgets(randomizer):
    for n in (1, 40):
        for claim in claims_of(randomizer, Crowd(n)):
            for eps in (0.0, 0.1, 50.0, 0.9 * randomizer.local_epsilon):
                found = ss.delta(randomizer, n, eps, bound=claim.bound)
                assert 0 <= found.lower <= found.upper <= 1
