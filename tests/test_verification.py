"""Brackets against the second computation: digits that agree, planted errors that do not."""

import json
import math

import mpmath
import pytest

import shufflesim as ss
from shufflesim import precision, verification
from shufflesim.bounds import Bracket, Crowd, MessageCount, Pairs, Table
from shufflesim.mechanisms import GRR, RAPPOR, Laplace, RandomizedResponse
from shufflesim.protocols import BallsIntoBins

from .cli_helpers import ok, refused


@pytest.mark.parametrize(
    ("x", "n", "delta", "bound"),
    [
        (RandomizedResponse(1.0), 30, 1e-3, "sound"),
        (RandomizedResponse(2.0), 3000, 1e-9, "published"),
        (GRR(2.0, 4), 12, 1e-2, "lower"),
        (BallsIntoBins(8, 1), 500, 1e-6, "sound"),
        (ss.VariationRatio(math.inf, 1.0, 5.0, 1.25), 400, 1e-6, "sound"),
        (RandomizedResponse(1.0), 200_000, 1e-8, "sound"),
    ],
    ids=str,
)
def test_brackets_hold_in_more_digits(x, n, delta, bound):
    found = ss.verify(x, n, delta, bound=bound)
    assert found.holds
    assert 5.5 < found.digits < 12
    assert found.bracket.lower <= found.epsilon <= found.bracket.upper
    assert "contains" in str(found)


def test_the_recomputed_eps_is_the_root():
    found = ss.verify(RandomizedResponse(1.0), 50, 1e-3)
    claim = next(c for c in RandomizedResponse(1.0).claims(Crowd(50)) if c.bound == found.bound)
    table = claim.value.tables[0]
    with mpmath.workdps(60):
        worst = max(precision.delta(t, 50, found.epsilon) for t in (table, table.swapped()))
        assert abs(worst / mpmath.mpf(1e-3) - 1) < mpmath.mpf("1e-45")


def test_wrong_brackets_are_refuted(monkeypatch):
    right = ss.epsilon(RandomizedResponse(1.0), 50, 1e-3)
    for wrong in (
        Bracket(right.lower * 0.99, right.lower * 0.995, "upper", ""),
        Bracket(right.upper * 1.001, right.upper * 1.01, "upper", ""),
    ):
        monkeypatch.setattr(verification, "epsilon_at", lambda *a, wrong=wrong, **k: wrong)
        found = ss.verify(RandomizedResponse(1.0), 50, 1e-3, bound="three-outcome")
        assert not found.holds
        assert "DOES NOT CONTAIN" in str(found)
    monkeypatch.undo()
    assert ss.verify(RandomizedResponse(1.0), 50, 1e-3, bound="three-outcome").holds


def test_the_contour_agrees_with_the_sum():
    """Four rows, where the sum is still affordable."""
    grr = GRR(1.0, 5)
    table = ss.VariationRatio.ldp(1.0, grr.truthful, q_star=1.0).three_outcome_table()
    for n, eps in ((300, 0.1), (2000, 0.05)):
        value, error = verification.contour_delta(table, n, eps)
        low, high, _ = Pairs((table,), MessageCount(n)).delta(eps, 1e-9)
        assert low - error <= value <= high + error
        assert error < 1e-2 * value


def test_tables_with_accurate_differences():
    tiny = 1e-9
    table = Table([0.5, 0.5], [1 + tiny, 1 - tiny], [1 - tiny, 1 + tiny], [2 * tiny, -2 * tiny])
    value, _ = verification.contour_delta(table, 1000, 1e-12)
    exact = precision.delta(table, 1000, 1e-12)
    assert abs(value / exact - 1) < 0.05
    assert verification.contour_delta(table, 1000, 1.0) == (0, 0)


@pytest.mark.parametrize(
    ("x", "n", "message"),
    [
        (Laplace(1.0), 100, "bound must be given by finite tables"),
        (BallsIntoBins(8, 5.5), 100, "a fixed number of messages"),
        (RAPPOR(1e-9, 4), 10**9, "eps must be positive and finite"),
        (RandomizedResponse(1.0), 0, "n must be an integer >= 1"),
    ],
)
def test_what_cannot_be_recomputed_is_refused(x, n, message):
    with pytest.raises(ValueError, match=message):
        ss.verify(x, n, 1e-3)
    with pytest.raises(ValueError, match="digits must be an integer in"):
        ss.verify(RandomizedResponse(1.0), 10, 1e-3, digits=5)


def test_on_the_command_line():
    arguments = ["bound", "rr", "-p", "epsilon=2", "-n", "100", "--delta", "1e-4", "--verify"]
    assert "digits agree (exact sum, 50 digits)" in ok(*arguments).output
    document = json.loads(ok(*arguments, "--json").stdout)
    assert document["verification"]["holds"] is True
    assert "--verify must go with --delta and a complete crowd" in refused(*arguments, "--dropout", "0.1")


def test_the_local_eps_is_no_matter_of_tables():
    """Rounded tables leave 1e-16 there, more than delta: the bracket was said not to contain nan."""
    with pytest.raises(ValueError, match=r"eps must be below the local eps 1.0 for a second computation, got 1.0"):
        ss.verify(GRR(1.0, 3), 3, 1e-300)
