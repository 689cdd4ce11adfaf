"""Sound bounds above and lower bounds below the enumerated truth: random channels, drop-outs, sampling, and all oracle rows."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shufflesim as ss
from shufflesim.mechanisms import GRR, RAPPOR, HierarchicalGRR
from shufflesim.protocols import BallsIntoBins

from .exact import Shuffled
from .oracles import close, load

# Rounding of the enumeration itself.
EXACT_RTOL, EXACT_ATOL = 1e-11, 1e-14


@dataclass(frozen=True)
class Drawn(ss.ChannelRandomizer):
    """A channel given as rows."""

    epsilon: float
    rows: tuple

    def channel(self):
        return np.array(self.rows)


def draw_channel(seed):
    rng = np.random.default_rng([40, seed])
    inputs, outcomes = rng.integers(2, 6, 2)
    kind = rng.integers(0, 3)
    if kind == 0:
        law = rng.dirichlet(np.full(outcomes, rng.choice([0.3, 1.0, 5.0])), size=inputs) + 1e-3
    elif kind == 1:
        # Extremal: every entry one of two levels.
        law = np.where(rng.random((inputs, outcomes)) < 0.5, math.exp(rng.uniform(0.1, 4)), 1.0)
    else:
        law = 1.0 + rng.uniform(0, 0.3, (inputs, outcomes))
    law /= law.sum(axis=1, keepdims=True)
    return Drawn(1.0, tuple(map(tuple, law))), rng


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_sound_is_above_every_data_set_and_lower_below(seed, n):
    randomizer, rng = draw_channel(seed)
    shuffled = Shuffled(randomizer.channel(), n)
    eps = shuffled.kinks(rng, 4)
    exact = shuffled.delta(eps)
    homogeneous = shuffled.delta(eps, homogeneous=True)
    for bound in ("sound", "three-outcome", "blanket", "stronger-clone", "clone"):
        upper = ss.delta(randomizer, n, eps, bound=bound).upper
        assert np.all(upper >= exact * (1 - EXACT_RTOL) - EXACT_ATOL), bound
    lower = ss.delta(randomizer, n, eps, bound="lower")
    assert np.all(lower.lower <= homogeneous * (1 + EXACT_RTOL) + EXACT_ATOL)
    assert np.all(lower.upper >= homogeneous * (1 - EXACT_RTOL) - EXACT_ATOL)
    signs = ss.delta(randomizer, n, eps, bound="lower-5.1").lower
    assert np.all(signs <= homogeneous * (1 + EXACT_RTOL) + EXACT_ATOL)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_rare_outcome_that_tells_everything_apart(n):
    """One ratio of 1e29: next to it the positive X of a common outcome is below the last digit, and is most of delta."""
    law = np.array([[0.45, 0.05, 1e-6, 0.25, 0.25 - 1e-6], [0.4, 1e-20, 0.05, 0.27, 0.28], [0.42, 0.01, 1e-35, 0.28, 0.29]])
    randomizer = Drawn(80.0, tuple(map(tuple, law / law.sum(axis=1, keepdims=True))))
    eps = np.array([0.0, 0.05, 0.3])
    shuffled = Shuffled(randomizer.channel(), n)
    exact, homogeneous = shuffled.delta(eps), shuffled.delta(eps, homogeneous=True)
    assert np.all(ss.delta(randomizer, n, eps).upper >= exact * (1 - EXACT_RTOL))
    assert np.all(ss.delta(randomizer, n, eps, bound="lower").upper >= homogeneous * (1 - EXACT_RTOL))


@pytest.mark.parametrize("randomizer", [GRR(1.0, 3), RAPPOR(2.0, 2), HierarchicalGRR(1.5, 4)], ids=repr)
@pytest.mark.parametrize(("dropout", "sampling"), [(0.3, 1.0), (0.0, 0.4), (0.25, 0.6), (0.95, 1.0)])
def test_absent_users_against_enumeration(randomizer, dropout, sampling):
    n, eps = 3, np.array([0.0, 0.2, 0.7, -0.3])
    shuffled = Shuffled(randomizer.channel(), n, present=sampling * (1 - dropout), sampled=sampling)
    exact, homogeneous = shuffled.delta(eps), shuffled.delta(eps, homogeneous=True)
    crowd = {"dropout": dropout, "sampling": sampling}
    for bound in ("sound", "three-outcome", "blanket", "stronger-clone", "clone"):
        assert np.all(ss.delta(randomizer, n, eps, bound=bound, **crowd).upper >= exact * (1 - EXACT_RTOL))
    lower = ss.delta(randomizer, n, eps, bound="lower", **crowd)
    assert np.all(lower.lower <= homogeneous * (1 + EXACT_RTOL))
    assert np.all(lower.upper >= homogeneous * (1 - EXACT_RTOL))


def test_fewer_honest_users_are_a_smaller_crowd():
    grr = GRR(1.0, 5)
    assert ss.epsilon(grr, 1000, 1e-6, n_honest=400) == ss.epsilon(grr, 400, 1e-6)
    order = [float(ss.epsilon(grr, 1000, 1e-6, **kw)) for kw in ({}, {"dropout": 0.1}, {"n_honest": 700}, {"n_honest": 1})]
    assert order == sorted(order)
    assert order[-1] == pytest.approx(1.0, rel=1e-4)
    assert float(ss.epsilon(grr, 1000, 1e-6, sampling=0.1)) < order[0]


@pytest.mark.parametrize("dummies", [1, 2, 0.5, 1.5])
def test_absent_users_take_their_dummies_along(dummies):
    """Average over who is there and what they send, each case by the table of a fixed number of messages."""
    n, dropout, eps, d = 4, 0.3, 0.4, 3
    whole = math.floor(dummies)
    user = {whole: 1 - (dummies - whole), whole + 1: dummies - whole}
    law = {1 + size: p for size, p in user.items()}
    for _ in range(n - 1):
        other = {0: dropout} if whole else {0: dropout + (1 - dropout) * user[0]}
        other |= {size: (1 - dropout) * p for size, p in user.items() if size}
        added = {}
        for (a, p), (b, q) in itertools.product(law.items(), other.items()):
            added[a + b] = added.get(a + b, 0.0) + p * q
        law = added
    bare = ss.VariationRatio(math.inf, 1.0, d)
    expected = sum(p * ss.delta(bare, m, eps).upper for m, p in law.items() if p > 0)
    protocol = BallsIntoBins(d, dummies)
    assert ss.delta(protocol, n, eps, dropout=dropout).upper == pytest.approx(expected, rel=1e-9)
    table = ss.bound_table(protocol, n, 0.1, dropout=dropout)
    assert ("lower" in set(table["bound"])) == (dummies == whole)
    with pytest.raises(ValueError, match="sampling must be 1 for BallsIntoBins"):
        ss.delta(protocol, n, eps, sampling=0.5)


def test_nobody_missing_is_the_same_table():
    grr = GRR(2.0, 5)
    assert ss.epsilon(grr, 1000, 1e-6, dropout=0.0, sampling=1.0) == ss.epsilon(grr, 1000, 1e-6)
    table = ss.bound_table(grr, 1000, 1e-6, dropout=0.2)
    assert set(table["bound"]) >= {"sound", "published", "three-outcome", "blanket", "lower"}
    assert "efmrtt19" not in set(table["bound"])  # its theorem knows nothing of drop-outs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, "dropout must be in"),
        ({"dropout": math.nan}, "dropout must be in"),
        ({"sampling": 0.0}, r"sampling must be in \(0, 1\], got 0.0"),
        ({"sampling": 1.5}, "sampling must be in"),
        ({"n_honest": 0}, r"n_honest must be an integer in \[1, 10\], got 0"),
        ({"n_honest": 1.5}, "n_honest must be an integer in"),
        ({"n_honest": 11}, r"n_honest must be an integer in \[1, 10\], got 11"),
        ({"rtol": 0.0}, r"rtol must be in \(0, 1\), got 0.0"),
        ({"rtol": "x"}, r"rtol must be in \(0, 1\), got 'x'"),
    ],
)
def test_bad_crowds_are_refused(arguments, message):
    for ask in (ss.epsilon, ss.delta):
        with pytest.raises(ValueError, match=message):
            ask(GRR(1.0, 3), 10, 0.1, **arguments)


def number(text):
    if text == "inf":
        return math.inf
    over, _, under = str(text).partition("/")
    return float(over) / float(under or 1)


@pytest.mark.parametrize(
    "row", load("exact_shuffle"), ids=lambda r: f"{r['mechanism']} {r['params']} n={r['n']} {r['others']} {r['eps']}"
)
def test_every_row_of_the_exact_shuffle(row):
    """The declaration with q* = q: sound above the truth, and both formulas as computed elsewhere."""
    p, beta, q = (number(row[f"bound_{key}"]) for key in ("p", "beta", "q"))
    top = 1.0 if p == math.inf else (p - 1) / (p + 1)
    x = ss.VariationRatio(p, min(beta, top), q)
    n, eps, exact = int(row["n"]), float(row["eps"]), float(row["delta"])
    sound, published = ss.delta(x, n, eps), ss.delta(x, n, eps, bound="published")
    assert sound.upper >= exact * (1 - 1e-12)
    assert close(sound.upper, row["corrected_bound"], 1e-9) or float(row["corrected_bound"]) < 1e-13
    assert close(published.upper, row["bound"], 1e-9) or float(row["bound"]) < 1e-13
    assert (published.upper >= exact * (1 - 1e-9)) == row["le_paper_bound"]


ROWS = [r for r in load("protocols")["rows"] if len(r.get("declaration", ())) == 1 and isinstance(r["blankets"], int)]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['protocol']} {r['params']} n={r['n']} {r['eps']}")
def test_every_single_declaration_of_the_protocols(row):
    said = row["declaration"][0]
    q_star = row.get("q_star", [None])[0]
    p = float(said["p"])
    top = 1.0 if p == math.inf else (p - 1) / (p + 1)
    x = ss.VariationRatio(p, min(said["beta"], top), said["q0"], said["q1"], q_star)
    n = row["blankets"] + 1
    if "claim" in row["protocol"]:
        # A declaration that does not hold for all inputs of the others: no bound can repair it.
        assert ss.delta(x, n, row["eps"], bound="published").upper < row["exact_delta"]
        return
    assert ss.delta(x, n, row["eps"]).upper >= row["exact_delta"] * (1 - 1e-12)
    published = ss.delta(x, n, row["eps"], bound="published").upper
    if row["bound_kind"] == "variation-ratio":
        assert published == pytest.approx(row["bound_delta"], rel=1e-9)
        assert (published >= row["exact_delta"] * (1 - 1e-9)) == row["holds"]
        if row["tight"]:
            assert published == pytest.approx(row["exact_delta"], rel=1e-9)
