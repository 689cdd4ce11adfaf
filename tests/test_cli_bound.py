"""The bound command, and the numbers that all commands print."""

import io
import json
import math
from decimal import Decimal

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shufflesim as ss
from shufflesim import catalogue
from shufflesim.bounds import Crowd, claims_of
from shufflesim.cli.output import number
from shufflesim.mechanisms import GRR
from shufflesim.protocols import BallsIntoBins

from .cli_helpers import GRR_BOUND, ok, refused

pytestmark = pytest.mark.usefixtures("elsewhere")


# Numbers


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 17))
def test_a_printed_bound_stays_on_its_side(value, digits):
    up, down, near = (Decimal(number(value, side, digits)) for side in ("upper", "lower", None))
    assert down <= Decimal(value) <= up
    assert down <= near <= up
    unit = Decimal(1).scaleb(Decimal(value).adjusted() - digits + 1) if value else 0
    assert up - down <= unit


@pytest.mark.parametrize(
    ("value", "side", "text"),
    [
        (0.0059195999, "upper", "0.00591960"),
        (0.0059195999, "lower", "0.00591959"),
        (2.0, "upper", "2"),
        (1e-9, "upper", "1.00001e-9"),
        (1e-9, "lower", "1.00000e-9"),
        (123456789.0, "lower", "123456000"),
        (5e-324, "lower", "4.94065e-324"),
        (math.inf, "upper", "inf"),
        (math.nan, None, "nan"),
        (0.0, "lower", "0"),
    ],
)
def test_numbers_are_written_like_this(value, side, text):
    assert number(value, side) == text


# bound


@pytest.mark.parametrize("name", ["grr", "balls-into-bins"])
def test_bound_json_and_csv_are_the_table_of_the_library(name):
    arguments = {"epsilon": 1, "d": 3} if name == "grr" else {"d": 3, "dummies": 2}
    pairs = [part for key, value in arguments.items() for part in ("-p", f"{key}={value}")]
    expected = ss.bound_table(catalogue.build(name, arguments), 1000, 1e-6)
    command = ["bound", name, *pairs, "-n", "1e3", "--delta", "1e-6"]
    document = json.loads(ok(*command, "--json").stdout)
    assert document["n"] == 1000
    assert document["delta"] == 1e-6
    assert [row["epsilon"] for row in document["bounds"]] == expected["epsilon"].tolist()
    assert [row["sound"] for row in document["bounds"]] == expected["sound"].tolist()
    read = pd.read_csv(io.StringIO(ok(*command, "--csv").stdout))
    pd.testing.assert_frame_equal(read, expected, check_exact=True)


@pytest.mark.parametrize(("columns", "most"), [(80, 45), (120, 35)])
def test_bound_prints_each_number_on_its_side_and_marks_what_is_not_proved(monkeypatch, columns, most):
    monkeypatch.setenv("COLUMNS", str(columns))
    expected = ss.bound_table(GRR(1.0, 3), 100, 1e-6)
    text = ok(*GRR_BOUND, "--delta", "1e-6").stdout
    assert max(map(len, text.splitlines())) <= columns
    assert len(text.splitlines()) <= most
    words = " ".join(text.split())
    assert f"smallest sound upper bound: {expected['note'][0].rpartition(': ')[2]}" in words
    assert words.count("may lie below the truth") == (~expected["sound"]).sum()
    for row in expected.to_dict("records"):
        line = next(line for line in text.splitlines() if line.startswith(f"{row['bound']} "))
        _, side, sound, eps, ratio = line.split()[:5]
        assert (side, sound) == (row["side"], "yes" if row["sound"] else "NO")
        above = Decimal(eps) - Decimal(row["epsilon"])
        assert (above >= 0) if side == "upper" else (above <= 0)
        gap = Decimal(ratio) - Decimal(row["amplification_ratio"])
        assert (gap <= 0) if side == "upper" else (gap >= 0)
    assert "sound = NO: not proved" in text
    assert "sound = NO" not in ok("bound", "balls-into-bins", "-p", "d=3", "-p", "dummies=1", "-n", 9, "--delta", 0.1).stdout


@pytest.mark.parametrize("eps", [0.0, 0.1, -0.5])
def test_bound_at_eps_gives_delta_of_every_claim(eps):
    x = GRR(1.0, 3)
    rows = json.loads(ok(*GRR_BOUND, "--eps", eps, "--json").stdout)["bounds"]
    assert [row["bound"] for row in rows] == ["sound", *(claim.bound for claim in claims_of(x, Crowd(100)))]
    for row in rows:
        bracket = ss.delta(x, 100, eps, bound=row["bound"])
        assert row["delta"] == float(bracket)
        assert (row["enclosure_low"], row["enclosure_high"]) == (bracket.lower, bracket.upper) or row["bound"] == "sound"
    assert {row["side"] for row in rows} == {"upper", "lower"}
    assert "delta" in ok(*GRR_BOUND, "--eps", eps).stdout


def test_bound_of_a_declaration():
    command = ["bound", "--p", "3", "--beta", "0.4", "--q", "3", "--q1", "4", "--q-star", "5", "-n", "1000"]
    rows = json.loads(ok(*command, "--delta", "1e-6", "--json").stdout)["bounds"]
    expected = ss.bound_table(ss.VariationRatio(3, 0.4, 3, 4, 5), 1000, 1e-6)
    assert [row["epsilon"] for row in rows] == expected["epsilon"].tolist()


def test_bound_accepts_p_inf_and_writes_infinities_as_text():
    document = json.loads(ok("bound", "--p", "inf", "--beta", 1, "--q", 16, "-n", "1e6", "--delta", "1e-8", "--json").stdout)
    assert document["local_epsilon"] == "inf"
    assert document["bounds"][0]["epsilon"] == float(ss.epsilon(BallsIntoBins(16, 1), 999_999, 1e-8))


@pytest.mark.parametrize("epsilon", ["1e-9", "50", "700"])
def test_bound_at_extreme_local_budgets(epsilon):
    rows = json.loads(ok("bound", "grr", "-p", f"epsilon={epsilon}", "-p", "d=3", "-n", 100, "--delta", 1e-3, "--json").stdout)
    for row in rows["bounds"]:
        assert 0 <= row["epsilon"] <= float(epsilon) * (1 + 1e-12)


def test_bound_of_one_user():
    rows = json.loads(ok("bound", "grr", "-p", "epsilon=1", "-p", "d=3", "-n", 1, "--delta", 1e-3, "--json").stdout)["bounds"]
    assert rows[0]["epsilon"] == float(ss.epsilon(GRR(1.0, 3), 1, 1e-3))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-n", "0", "--delta", "1e-6"], "n must be an integer >= 1, got 0"),
        (["-n", "-3", "--delta", "1e-6"], "n must be an integer >= 1, got -3"),
        (["-n", "1.5", "--delta", "1e-6"], "n must be an integer >= 1, got 1.5"),
        (["-n", "nan", "--delta", "1e-6"], "n must be an integer >= 1, got nan"),
        (["-n", "inf", "--delta", "1e-6"], "n must be an integer >= 1, got inf"),
        (["-n", "ten", "--delta", "1e-6"], "'-n' / '--users': must be a number such as 10000 or 1e6, got 'ten'"),
        (["-n", "9", "--delta", "0"], "delta must be in (0, 1), got 0.0"),
        (["-n", "9", "--delta", "1"], "delta must be in (0, 1), got 1.0"),
        (["-n", "9", "--delta", "2"], "delta must be in (0, 1), got 2.0"),
        (["-n", "9", "--delta", "nan"], "delta must be in (0, 1), got nan"),
        (["-n", "9", "--delta", "tiny"], "'tiny' is not a valid float"),
        (["-n", "9", "--eps", "nan"], "eps must be finite numbers, got nan"),
        (["-n", "9"], "exactly one of --delta and --eps must be given, got none"),
        (["-n", "9", "--delta", "0.1", "--eps", "1"], "exactly one of --delta and --eps must be given, got both"),
        (["--delta", "0.1"], "Missing option '-n' / '--users'"),
        (["-n", "9", "--delta", "0.1", "--json", "--csv"], "at most one of --json and --csv must be given, got both"),
        (
            ["-n", "9", "--delta", "0.1", "--beta", "0.1"],
            "either NAME or a declaration must be given, got 'grr' and --beta",
        ),
        (["-n", "9", "--dleta", "0.1"], "No such option '--dleta'"),
    ],
)
def test_bound_refuses(args, message):
    assert message in refused("bound", "grr", "-p", "epsilon=1", "-p", "d=3", *args)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["epsilon=0", "d=3"], "epsilon must be a number in (0, 700] (nats), got 0"),
        (["epsilon=-1", "d=3"], "epsilon must be a number in (0, 700] (nats), got -1"),
        (["epsilon=nan", "d=3"], "epsilon must be a number in (0, 700] (nats), got nan"),
        (["epsilon=inf", "d=3"], "epsilon must be a number in (0, 700] (nats), got inf"),
        (["epsilon=two", "d=3"], "epsilon must be a number in (0, 700] (nats), got 'two'"),
        (["epsilon=1", "d=1"], "d must be an integer >= 2, got 1"),
        (["epsilon=1", "d=2.5"], "d must be an integer >= 2, got 2.5"),
        (["epsilon=1", "d=none"], "d must be an integer >= 2, got None"),
        (["epsilon=1"], "grr needs the parameter 'd'"),
        (["epsilom=1", "d=3"], "parameter 'epsilom' is unknown to grr; did you mean 'epsilon'?"),
        (["epsilon", "d=3"], "must be key=value such as epsilon=2, got 'epsilon'"),
        (["=1", "d=3"], "must be key=value such as epsilon=2, got '=1'"),
        (["epsilon=1", "epsilon=2", "d=3"], "must give each key once, got 'epsilon' twice"),
    ],
)
def test_parameters_are_refused(pairs, message):
    flags = [part for pair in pairs for part in ("-p", pair)]
    assert message in refused("bound", "grr", *flags, "-n", 10, "--delta", 0.1)


@pytest.mark.parametrize("pairs", [[], ["-p", "randomizers=grr"], ["-p", "epsilon=1"]])
def test_what_is_made_of_randomizers_is_left_to_python(pairs):
    message = refused("bound", "parallel", *pairs, "-n", 10, "--delta", 0.1)
    assert "parallel must be built in Python from other randomizers, such as Parallel([GRR(" in message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--p", "3", "--q", "3"], "got no --beta"),
        ([], "got no --p, --beta, --q"),
        (["--p", "3", "--beta", "0.9", "--q", "3"], "beta must be in [0, (p-1)/(p+1)] = [0, 0.5], got 0.9"),
        (["--p", "3", "--beta", "nan", "--q", "3"], "beta must be a number, got nan"),
        (["--p", "0.5", "--beta", "0.1", "--q", "3"], "p must be >= 1, got 0.5"),
        (["--p", "3", "--beta", "0.1", "--q", "3", "-p", "d=3"], "-p must come with NAME"),
    ],
)
def test_declarations_are_refused(args, message):
    assert message in refused("bound", *args, "-n", 10, "--delta", 0.1)
