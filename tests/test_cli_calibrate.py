"""`shufflesim calibrate`, and the options of `bound` that say who takes part."""

import json

import pytest

import shufflesim as ss
from shufflesim.mechanisms import GRR
from shufflesim.protocols import BallsIntoBins, FakeUsers

from .cli_helpers import ok, refused

GRR_TARGET = ("calibrate", "grr", "-p", "d=20", "--delta", 1e-6, "--epsilon", 0.1)


def test_budget_dummies_and_users_as_in_python():
    found = json.loads(ok(*GRR_TARGET, "--find", "epsilon", "-n", "1e5", "--json").stdout)
    expected = ss.calibrate(lambda e: GRR(e, 20), 10**5, 1e-6, 0.1)
    assert found["value"] == expected.parameter
    assert found["epsilon"] == {"lower": expected.epsilon.lower, "upper": expected.epsilon.upper}
    assert found["target"] == {"epsilon": 0.1, "delta": 1e-6}
    text = ok(*GRR_TARGET, "--find", "epsilon", "-n", "1e5").stdout
    assert repr(expected.parameter) in text

    target = ("--delta", 1e-6, "--epsilon", 0.3)
    found = json.loads(
        ok(
            "calibrate",
            "balls-into-bins",
            "-p",
            "d=16",
            "--find",
            "dummies",
            "--smallest",
            "--within",
            1,
            1000,
            "-n",
            1000,
            *target,
            "--json",
        ).stdout
    )
    dummies = ss.calibrate(lambda k: BallsIntoBins(16, k), 1000, 1e-6, 0.3, find="smallest", within=(1, 1000))
    assert found["value"] == dummies.parameter

    found = json.loads(
        ok("calibrate", "grr", "-p", "d=20", "-p", "epsilon=2", "--find", "n", *target, "--dropout", 0.5, "--json").stdout
    )
    assert found["value"] == ss.calibrate(GRR(2, 20), None, 1e-6, 0.3, dropout=0.5).n


def test_a_protocol_beside_its_papers_calibration():
    target = ("calibrate", "fake-users", "-p", "d=16", "--delta", 1e-6, "--epsilon", 0.5)
    found = json.loads(ok(*target, "-n", 1e5, "--json").stdout)
    assert found["subject"] == repr(FakeUsers.for_target(0.5, 1e-6, 10**5, d=16))
    assert found["original"] == repr(FakeUsers.original(0.5, 1e-6, 10**5, d=16))
    assert found["extra_amplification_ratio"] == FakeUsers.extra_amplification_ratio(0.5, 1e-6, 10**5, d=16)
    assert found["epsilon"]["upper"] <= 0.5
    text = ok(*target, "-n", 1e5).stdout
    assert "extra amplification ratio" in text
    refusal = ok("calibrate", "fake-users", "-p", "d=16", "--delta", 1e-6, "--epsilon", 0.5, "-n", 100).stdout
    assert "refused:" in refusal
    assert "extra amplification ratio" not in refusal
    digits = json.loads(
        ok("calibrate", "recursive-sum", "-p", "precisions=2,3", "--delta", 1e-3, "--epsilon", 2, "-n", 60, "--json").stdout
    )
    assert digits["original"] is None
    assert digits["original_refused"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("calibrate", "grr", "-p", "d=4", "--delta", 0.1, "--epsilon", 1, "-n", 10),
            "--find must be given for the mechanism 'grr'",
        ),
        (("calibrate", "fake-users", "-p", "d=4", "--delta", 0.1, "--epsilon", 1), "n must be an integer"),
        (("calibrate", "fake-users", "--delta", 0.1, "--epsilon", 1, "-n", 10), "needs the parameter 'd'"),
        (
            ("calibrate", "fake-users", "-p", "d=4", "--delta", 0.1, "--epsilon", 1, "-n", 9, "--smallest"),
            "--find must be given with",
        ),
        ((*GRR_TARGET, "--find", "n", "-n", 10), "-n must be given exactly if --find is not n"),
        ((*GRR_TARGET, "--find", "epsilon"), "-n must be given exactly if --find is not n"),
        ((*GRR_TARGET, "--find", "d", "-n", 10), "-p must not fix what --find searches for, got -p d=20"),
        ((*GRR_TARGET, "--find", "eps", "-n", 10), "did you mean 'epsilon'"),
        ((*GRR_TARGET, "--find", "epsilon", "-n", 10, "--within", "a", 1), "--within must be two numbers, got 'a'"),
        ((*GRR_TARGET, "--find", "epsilon", "-n", 10, "--within", 5, 1), "low < high"),
        ((*GRR_TARGET, "--find", "epsilon", "-n", 10, "--within", 5, 9), "must be reached at the low end of [5, 9]"),
        ((*GRR_TARGET, "-p", "epsilon=1", "--find", "n", "--smallest"), "must be left out for --find n"),
        ((*GRR_TARGET, "--find", "epsilon", "-n", 10, "--dropout", 2), "dropout must be in [0, 1), got 2.0"),
        (("calibrate", "grrr", "--find", "epsilon", "-n", 10, "--delta", 0.1, "--epsilon", 1), "did you mean 'grr'"),
    ],
)
def test_bad_searches_are_refused(arguments, message):
    assert message in refused(*arguments)


def test_bounds_say_who_is_missing():
    arguments = ("bound", "grr", "-p", "epsilon=1", "-p", "d=5", "-n", 1000, "--delta", 1e-6)
    document = json.loads(ok(*arguments, "--dropout", 0.2, "--sampling", 0.5, "--n-honest", 800, "--json").stdout)
    assert (document["dropout"], document["sampling"], document["n_honest"]) == (0.2, 0.5, 800)
    expected = ss.bound_table(GRR(1.0, 5), 1000, 1e-6, dropout=0.2, sampling=0.5, n_honest=800)
    assert [row["epsilon"] for row in document["bounds"]] == expected["epsilon"].tolist()
    assert "dropout = 0.2" in ok(*arguments, "--dropout", 0.2).stdout
    assert "dropout" not in ok(*arguments).stdout
    at_eps = json.loads(ok(*arguments[:-2], "--eps", 0.1, "--dropout", 0.2, "--json").stdout)
    assert at_eps["bounds"][0]["delta"] == ss.delta(GRR(1.0, 5), 1000, 0.1, dropout=0.2).upper
    bins = ("bound", "balls-into-bins", "-p", "d=3", "-p", "dummies=1", "-n", 9, "--delta", 0.1)
    assert "sampling must be 1 for" in refused(*bins, "--sampling", 0.5)
