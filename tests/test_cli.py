"""The command line: every command, every message about bad input, streams and exit statuses."""

import contextlib
import csv
import datetime
import gzip
import io
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import shufflesim as ss
from shufflesim import catalogue
from shufflesim.cli import main
from shufflesim.cli.output import number, printable
from shufflesim.mechanisms import GRR, Laplace
from shufflesim.protocols import BallsIntoBins

PROGRAM = [sys.executable, "-c", "from shufflesim.cli import main; main()"]
GRR_BOUND = ["bound", "grr", "-p", "epsilon=1", "-p", "d=3", "-n", "100"]
SETTINGS = ["--delta", "1e-6", "--seed", "7"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Each test runs in an empty folder, at a fixed width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def no_picture(monkeypatch):
    """Pictures take most of the time of a small run."""
    monkeypatch.setattr(ss.Simulation, "_write_picture", lambda self, path: path.touch())


def call(*args):
    result = CliRunner().invoke(main, [str(a) for a in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ok(*args):
    result = call(*args)
    assert result.exit_code == 0, result.stderr
    return result


def refused(*args):
    """The one line that a mistake gives."""
    result = call(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("shufflesim: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def run_on(labels, suffix, *args, name="grr"):
    """Simulate on a column of labels in a file of that type; the estimates as they are saved."""
    frame = pd.DataFrame({"other": range(len(labels)), "c": labels})
    path = f"data{suffix}"
    frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
    result = ok("run", name, "-p", "epsilon=2", "--data", path, "--column", "c", "--out", "out", *SETTINGS, *args)
    return pd.read_parquet("out/estimates.parquet"), result


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


def test_labels_cannot_steer_the_terminal():
    assert printable("a\x1b[31m\n") == "a\\x1b[31m\\n"
    assert printable("Zürich") == "Zürich"


# list


def test_list_names_everything_installed():
    rows = {row["name"]: row for row in json.loads(ok("list", "--json").stdout)}
    assert set(rows) == {*catalogue.mechanisms(), *catalogue.protocols()}
    assert rows["local-hash"]["parameters"] == [
        {"name": "epsilon", "required": True},
        {"name": "d", "required": True},
        {"name": "l", "required": False, "default": None},
    ]
    assert rows["grr"]["kind"] == "mechanism"
    assert rows["balls-into-bins"]["kind"] == "protocol"
    assert rows["grr"]["summary"].startswith("GRR on d categories")
    assert rows["laplace"]["domain"] == "Real numbers in [low, high]"
    assert rows["rr"]["domain"].endswith("(d = 2)")
    table = ok("list").stdout
    assert all(name in table for name in rows)
    assert "low=0.0" in table


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


def test_bound_prints_each_number_on_its_side_and_marks_what_is_not_proved():
    expected = ss.bound_table(GRR(1.0, 3), 100, 1e-6)
    text = ok(*GRR_BOUND, "--delta", "1e-6").stdout
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
    assert [row["bound"] for row in rows] == ["sound", *(claim.bound for claim in x.claims(100))]
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


def test_unknown_names_get_the_nearest():
    assert "got 'local_hash'; did you mean 'local-hash'?" in refused("bound", "local_hash", "-n", 10, "--delta", 0.1)
    assert "did you mean 'grr'?" in refused("run", "gr", "--data", "x.csv", "--column", "c", "--delta", 0.1)
    assert "No such command 'lst'. Did you mean 'list'?" in refused("lst")


# run: labels of every type


DAYS = [datetime.date(2024, 2, 29), datetime.date(1999, 12, 31), datetime.date(2024, 2, 29)]


@pytest.mark.usefixtures("no_picture")
@pytest.mark.parametrize(
    ("labels", "suffix", "expected"),
    [
        (["b", "a", "b"], ".csv", ["a", "b"]),
        (["b", "a", "b"], ".csv.gz", ["a", "b"]),
        (["b", "a", "b"], ".parquet", ["a", "b"]),
        ([10, 9, 10], ".csv", [9, 10]),
        ([-(2**63), 2**62 + 1, -(2**63)], ".csv", [-(2**63), 2**62 + 1]),
        ([-(2**63), 2**62 + 1, -(2**63)], ".parquet", [-(2**63), 2**62 + 1]),
        ([str(2**63), "-1", str(2**63)], ".csv", ["-1", str(2**63)]),
        ([1.5, 0.1 + 0.2, 1.5], ".csv", [0.1 + 0.2, 1.5]),
        ([1.5, 0.1 + 0.2, 1.5], ".parquet", [0.1 + 0.2, 1.5]),
        (["01", "1", "01"], ".csv", ["01", "1"]),
        (["10", "9", "010"], ".parquet", ["010", "10", "9"]),
        (["1", "a", "1"], ".csv", ["1", "a"]),
        (["1.50", "1.5", "2"], ".csv", ["1.5", "1.50", "2"]),
        ([True, False, True], ".csv", ["False", "True"]),
        ([True, False, True], ".parquet", [False, True]),
        (["2024-02-29", "1999-12-31", "2024-02-29"], ".csv", ["1999-12-31", "2024-02-29"]),
        (DAYS, ".parquet", DAYS[1::-1]),
        (pd.to_datetime(DAYS), ".parquet", list(pd.to_datetime(DAYS[1::-1]))),
        (pd.Categorical(["b", "a", "b"], categories=["b", "c", "a"]), ".parquet", None),
        ([" a", "a", "a "], ".csv", [" a", "a", "a "]),
        (["two\nlines", 'a "quote"', "comma, too"], ".csv", ['a "quote"', "comma, too", "two\nlines"]),
        (["[bold]x[/bold]", "Zürich", ":smile:"], ".csv", [":smile:", "Zürich", "[bold]x[/bold]"]),
    ],
)
def test_labels_come_back_as_they_were(labels, suffix, expected):
    estimates, _ = run_on(labels, suffix)
    occurring = [value for value, truth in zip(estimates["value"], estimates["truth"], strict=True) if truth > 0]
    if expected is None:
        assert sorted(occurring) == ["a", "b"]
    else:
        assert estimates["value"].tolist() == expected
        assert [type(v) for v in estimates["value"].tolist()] == [type(v) for v in expected]
    assert estimates["truth"].sum() == 3
    first = (str if suffix != ".parquet" and isinstance(labels[0], bool) else lambda x: x)(labels[0])
    assert estimates.set_index("value")["truth"][first] == list(labels).count(labels[0])


@pytest.mark.usefixtures("no_picture")
def test_parquet_categories_that_do_not_occur_stay_if_the_file_keeps_them():
    frame = pd.DataFrame({"c": pd.Categorical(["b", "a", "b"], categories=["b", "c", "a"])})
    frame.to_parquet("data.parquet")
    kept = list(pq.read_table("data.parquet")["c"].to_pandas().cat.categories)
    ok("run", "grr", "-p", "epsilon=2", "--data", "data.parquet", "--column", "c", "--out", "out", *SETTINGS)
    assert pd.read_parquet("out/estimates.parquet")["value"].tolist() == kept


@pytest.mark.usefixtures("no_picture")
@pytest.mark.parametrize(
    ("labels", "suffix", "lines", "expected"),
    [
        (["b", "a"], ".csv", ["c", "b", "a"], ["c", "b", "a"]),
        ([3, 1], ".csv", ["3", "2", "1"], [3, 2, 1]),
        ([3, 1], ".csv", ["3", "other", "1"], ["3", "other", "1"]),
        ([3, -1], ".parquet", ["3", "2", "-1"], [3, 2, -1]),
        ([0.5, 1.5], ".parquet", ["0.50", "1", "1.5"], [0.5, 1.0, 1.5]),
        ([True, True], ".parquet", ["true", "False"], [True, False]),
        (DAYS[:2], ".parquet", ["1999-12-31", "2024-02-29"], DAYS[1::-1]),
        (pd.to_datetime(DAYS[:2]), ".parquet", ["1999-12-31", "2024-02-29"], list(pd.to_datetime(DAYS[1::-1]))),
        (pd.Categorical(["b", "a"]), ".parquet", ["c", "b", "a"], ["c", "b", "a"]),
        ([Decimal("0.10"), Decimal("2.00")], ".parquet", ["0.10", "2.00"], [Decimal("0.10"), Decimal("2.00")]),
    ],
)
def test_domain_file_gives_the_categories_in_its_order(labels, suffix, lines, expected):
    Path("domain.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    estimates, result = run_on(labels, suffix, "--domain", "domain.txt")
    assert estimates["value"].tolist() == expected
    assert result.stderr == ""


@pytest.mark.usefixtures("no_picture")
def test_domain_from_the_data_is_said_to_be_public():
    _, result = run_on(["b", "a", "b"], ".csv")
    assert result.stderr == (
        "shufflesim: note: the domain is the 2 values that occur in 'c': this set is thereby treated as public "
        "(give --domain if it is not)\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b\n\na\n", "line 2: must hold a label, got a blank line"),
        ("b\na\nb\n", "line 3: must not repeat a label, got 'b', which is on line 1 too"),
        ("a\nc\n", "column 'c' must hold values of --domain only, got 'b' in row 1"),
        ("", "got the empty file 'domain.txt'"),
    ],
)
def test_domain_file_is_refused(text, message):
    Path("data.csv").write_text("c\nb\na\n")
    Path("domain.txt").write_text(text)
    command = [
        "run",
        "grr",
        "-p",
        "epsilon=2",
        "--data",
        "data.csv",
        "--column",
        "c",
        "--domain",
        "domain.txt",
        *SETTINGS,
    ]
    assert message in refused(*command)


@pytest.mark.parametrize(
    ("labels", "line", "message"),
    [
        ([1, 2], "x", "line 2: must be a label of the column's type, got 'x'"),
        ([1, 2], "01", "line 2: must not repeat a label, got '01'"),
        ([True, False], "0", "got '0': it must be true or false"),
        (DAYS, "yesterday", "must be a label of the column's type, got 'yesterday'"),
        ([b"a", b"b"], "x", "--domain must go with labels that a line of text can hold, got bytes"),
    ],
)
def test_domain_labels_must_have_the_type_of_the_column(labels, line, message):
    pd.DataFrame({"c": labels}).to_parquet("data.parquet")
    Path("domain.txt").write_text(f"{'1' if labels[0] in (1, b'a') and labels[0] is not True else 'true'}\n{line}\n")
    if isinstance(labels[0], datetime.date):
        Path("domain.txt").write_text(f"1999-12-31\n{line}\n")
    command = ["run", "grr", "-p", "epsilon=2", "--data", "data.parquet", "--column", "c", "--domain", "domain.txt"]
    assert message in refused(*command, *SETTINGS)


# run: data that is refused


GOOD = b"city,age\nA,1\nB,2\nA,3\n"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "x.csv",
            b"city,age\nA,1\n,2\nNaN,3\n",
            "column 'city' must have no missing values, got 2 in 3 rows, the first in row 2",
        ),
        ("x.csv", b"city\nA\n\nB\n", "got 1 in 3 rows, the first in row 2"),
        ("x.csv", b"", "got the empty file 'x.csv'"),
        ("x.parquet", b"", "got the empty file 'x.parquet'"),
        ("x.csv.gz", gzip.compress(b"", mtime=0), "must start with the names of its columns, got an empty line in 'x.csv.gz'"),
        ("x.csv", b"city,age\n", "column 'city' must have at least one row, got none"),
        ("x.csv", b"town,age\nA,1\n", "must name a column of the data, got 'city'; the columns are 'town', 'age'"),
        ("x.csv", b"citi,age\nA,1\n", "must name a column of the data, got 'city'; did you mean 'citi'?"),
        ("x.csv", b"city,city\nA,1\n", "must name one column, got 'city', which is there 2 times"),
        ("x.csv", b"city,age\nA,1\nNew York, NY,2\n", "Row #3: Expected 2 columns, got 3"),
        ("x.csv", b"city,age\n\xff\xfe\x00,1\n", "cannot read 'x.csv'"),
        ("x.csv", bytes(range(128, 256)) * 20, "cannot read 'x.csv': not UTF-8 text"),
        ("x.parquet", bytes(range(256)) * 20, "cannot read 'x.parquet': Parquet magic bytes not found"),
        ("x.csv.gz", GOOD, "cannot read 'x.csv.gz': Not a gzipped file"),
        ("x.csv.gz", gzip.compress(GOOD * 9, mtime=0)[:25], "cannot read 'x.csv.gz'"),
        (
            "x.csv",
            b"city,age\n" + b"A," * 500 + b"\n",
            "cannot read 'x.csv': CSV parse error: Row #2: Expected 2 columns, got",
        ),
        ("x.txt", GOOD, "--data must end in .csv, .csv.gz, .parquet, got 'x.txt'"),
        ("x.csv", b"city,age\nA,1\nA,3\n", "the domain must have at least 2 categories, got ['A']"),
    ],
)
def test_data_file_is_refused(file, content, message):
    Path(file).write_bytes(content)
    assert message in refused("run", "grr", "-p", "epsilon=2", "--data", file, "--column", "city", *SETTINGS)


def test_truncated_parquet_is_refused():
    pd.DataFrame({"city": ["A", "B"] * 500}).to_parquet("x.parquet")
    content = Path("x.parquet").read_bytes()
    Path("x.parquet").write_bytes(content[:20] + bytes(40) + content[60:])
    assert "cannot read 'x.parquet'" in refused(
        "run", "grr", "-p", "epsilon=2", "--data", "x.parquet", "--column", "city", *SETTINGS
    )


def test_missing_file_and_folder_are_refused():
    Path("folder.csv").mkdir()
    command = ["run", "grr", "-p", "epsilon=2", "--column", "city", *SETTINGS, "--data"]
    assert "cannot read 'nowhere.csv': No such file or directory" in refused(*command, "nowhere.csv")
    assert "cannot read 'folder.csv': Is a directory" in refused(*command, "folder.csv")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_refused():
    Path("x.csv").write_bytes(GOOD)
    Path("x.csv").chmod(0)
    assert "Permission denied" in refused("run", "grr", "-p", "epsilon=2", "--data", "x.csv", "--column", "city", *SETTINGS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, math.nan, 2.0], "got 1 in 3 rows, the first in row 2"),
        (["a", None, "b"], "got 1 in 3 rows, the first in row 2"),
        (pd.Categorical(["a", "b", None]), "got 1 in 3 rows, the first in row 3"),
        (pd.array([2**60, None, 1], dtype="Int64"), "got 1 in 3 rows, the first in row 2"),
        ([[1], [2]], "column 'c' must hold one value a row, got list"),
    ],
)
def test_parquet_column_is_refused(labels, message):
    pd.DataFrame({"c": labels}).to_parquet("x.parquet")
    assert message in refused("run", "grr", "-p", "epsilon=2", "--data", "x.parquet", "--column", "c", *SETTINGS)


@pytest.mark.usefixtures("no_picture")
def test_dropna_is_explicit_says_what_it_did_and_keeps_integers_exact():
    estimates, result = run_on(pd.array([2**60 + 1, None, 1, None], dtype="Int64"), ".parquet", "--dropna")
    assert "note: --dropna left out 2 of 4 rows, whose 'c' is missing\n" in result.stderr
    assert estimates["value"].tolist() == [1, 2**60 + 1]
    assert estimates["truth"].tolist() == [1, 1]
    Path("domain.txt").write_text("1\n2\n")
    command = [
        "run",
        "grr",
        "-p",
        "epsilon=2",
        "--data",
        "data.parquet",
        "--column",
        "c",
        "--dropna",
        "--domain",
        "domain.txt",
    ]
    assert f"got {2**60 + 1}" in refused(*command, *SETTINGS)
    Path("gap.csv").write_text("c,x\n,1\nz,2\n")
    assert "got 'z' in row 2" in refused(*command, *SETTINGS, "--data", "gap.csv")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-p", "d=5"], "must have the d = 5 categories of GRR(epsilon=2.0, d=5), got 2"),
        (["--seed", "-1"], "seed must be an integer >= 0, got -1"),
        (["--seed", "1.5"], "'1.5' is not a valid integer"),
        (["--confidence", "1"], "confidence must be strictly between 0 and 1, got 1.0"),
        (["--chunk-size", "0"], "chunk_size must be an integer >= 1, got 0"),
        (["--method", "count"], "'count' is not one of 'users', 'counts'"),
        (["--delta", "1"], "delta must be in (0, 1), got 1.0"),
        (["--out", "data.csv"], "--out must be a writable folder, got 'data.csv': File exists"),
        (["--out", "data.csv/sub"], "--out must be a writable folder"),
        (["--dataset", "flights"], "exactly one of --data and --dataset must be given, got both"),
    ],
)
def test_run_refuses(args, message):
    Path("data.csv").write_bytes(GOOD)
    assert message in refused("run", "grr", "-p", "epsilon=2", "--data", "data.csv", "--column", "city", "--delta", 1e-6, *args)


def test_run_needs_data_and_delta():
    assert "got none" in refused("run", "grr", "-p", "epsilon=2", "--column", "c", "--delta", 0.1)
    assert "Missing option '--delta'" in refused("run", "grr", "-p", "epsilon=2", "--column", "c")
    assert "did you mean 'flights'?" in refused("run", "grr", "--dataset", "fligths", "--column", "dest", "--delta", 0.1)
    assert "did you mean 'dest'?" in refused("run", "grr", "--dataset", "flights", "--column", "dst", "--delta", 0.1)


@pytest.mark.usefixtures("no_picture")
def test_a_bit_has_two_categories():
    Path("data.csv").write_text("c\nyes\nno\nyes\nmaybe\n")
    message = refused("run", "rr", "-p", "epsilon=2", "--data", "data.csv", "--column", "c", *SETTINGS)
    assert "must have the d = 2 categories of RandomizedResponse(epsilon=2.0), got 3" in message
    estimates, _ = run_on(["yes", "no", "yes"], ".csv", name="rr")
    assert estimates["value"].tolist() == ["no", "yes"]


# run: numbers


@pytest.mark.usefixtures("no_picture")
def test_numbers_are_taken_as_they_are():
    Path("data.csv").write_text("x,y\n0.5,a\n-1,b\n1e0,c\n")
    result = ok(
        "run",
        "laplace",
        "-p",
        "epsilon=2",
        "-p",
        "low=-1",
        "--data",
        "data.csv",
        "--column",
        "x",
        "--out",
        "out",
        *SETTINGS,
    )
    assert result.stderr == ""
    row = pd.read_csv("out/estimates.csv").iloc[0]
    assert row["value"] == "mean"
    assert row["truth"] == pytest.approx(0.5 / 3)
    expected = ss.simulate(Laplace(2.0, -1.0, 1.0), [0.5, -1.0, 1.0], delta=1e-6, seed=7)
    assert row["estimate"] == expected.estimate[0]


@pytest.mark.parametrize(
    ("cells", "args", "message"),
    [
        ("1\nx\n", [], "Row #3: CSV conversion error to double: invalid value 'x'"),
        ("1\n2\n", [], "values must be in [0, 1], got 2.0 at position 1"),
        ("1\ninf\n", [], "values must be in [0, 1], got inf at position 1"),
        ("1\nNaN\n", [], "must have no missing values, got 1 in 2 rows, the first in row 2"),
        ("NaN\nNaN\n", ["--dropna"], "must have at least one value, got 2 missing ones"),
        ("1\n0\n", ["--domain", "domain.txt"], "--domain must go with categories, got laplace, which takes numbers"),
    ],
)
def test_numbers_are_refused(cells, args, message):
    Path("data.csv").write_text("x\n" + cells)
    assert message in refused("run", "laplace", "-p", "epsilon=2", "--data", "data.csv", "--column", "x", *SETTINGS, *args)


def test_a_text_column_is_no_number():
    pd.DataFrame({"x": ["a", "b"]}).to_parquet("data.parquet")
    message = refused("run", "laplace", "-p", "epsilon=2", "--data", "data.parquet", "--column", "x", *SETTINGS)
    assert "values must be numbers in [0, 1]" in message


# run: results


FLIGHTS = ["run", "grr", "-p", "epsilon=2", "--dataset", "flights", "--column", "carrier", "--delta", "1e-8"]


def test_the_run_is_the_library_s():
    result = ok(*FLIGHTS, "--seed", 7, "--out", "a/b", "--confidence", 0.9)
    carrier = ss.datasets.load("flights")["carrier"]
    expected = ss.simulate(GRR(2.0, 16), carrier, delta=1e-8, seed=7, confidence=0.9)
    pd.testing.assert_frame_equal(pd.read_parquet("a/b/estimates.parquet"), expected.estimates, check_dtype=False)
    assert sorted(path.name for path in Path("a/b").iterdir()) == [f"estimates.{s}" for s in ("csv", "json", "parquet", "png")]
    assert Path("a/b/estimates.png").read_bytes().startswith(b"\x89PNG")
    for path in Path("a/b").iterdir():
        assert f"saved {path}\n" in result.stdout
    assert re.search(r"seed +7\n", result.stdout)
    assert re.search(rf"RMSE +{number(expected.rmse)} users\n", result.stdout)
    assert f"<= {number(expected.summary['epsilon_upper'][0], 'upper')} (" in result.stdout
    assert f">= {number(expected.summary['epsilon_lower'][0], 'lower')}, at delta = 1e-08" in result.stdout
    assert "90% interval" in result.stdout
    assert "the 10 most frequent of 16 values" in result.stdout


def test_same_seed_same_output_whatever_the_chunk_size():
    first = ok(*FLIGHTS, "--seed", 7).stdout
    assert ok(*FLIGHTS, "--seed", 7).stdout == first
    assert ok(*FLIGHTS, "--seed", 7, "--chunk-size", 1000).stdout == first
    assert ok(*FLIGHTS, "--seed", 8).stdout != first


def test_without_a_seed_the_entropy_is_printed_and_repeats_the_run():
    first = ok(*FLIGHTS).stdout
    entropy = re.search(r"seed +(\d+)\n", first)[1]
    assert ok(*FLIGHTS, "--seed", entropy).stdout == first
    assert ok(*FLIGHTS).stdout != first


def test_nothing_is_written_unless_asked():
    ok(*FLIGHTS, "--seed", 7)
    assert list(Path().iterdir()) == []


def test_json_is_one_document_and_nothing_else():
    document = json.loads(ok(*FLIGHTS, "--seed", 7, "--json", "--out", "out").stdout)
    assert document["seed"]["entropy"] == 7
    assert document["parameters"]["randomizer"] == {"class": "GRR", "epsilon": 2.0, "d": 16}
    assert document["files"] == [f"out/estimates.{s}" for s in ("csv", "parquet", "json", "png")]
    saved = json.loads(Path("out/estimates.json").read_text())
    assert saved == {key: document[key] for key in saved}
    assert document["summary"]["epsilon_upper"] == document["privacy"][0]["epsilon"]


def test_counts_are_drawn_on_request():
    document = json.loads(ok(*FLIGHTS, "--seed", 7, "--json", "--method", "counts").stdout)
    assert document["method"] == "counts"
    carrier = ss.datasets.load("flights")["carrier"]
    expected = ss.simulate(GRR(2.0, 16), carrier, delta=1e-8, seed=7, method="counts")
    assert document["summary"]["rmse"] == expected.rmse


@pytest.mark.usefixtures("no_picture")
def test_only_the_column_is_read_from_parquet(monkeypatch):
    read = []
    original = pq.ParquetFile.read
    monkeypatch.setattr(pq.ParquetFile, "read", lambda self, columns: read.append(columns) or original(self, columns=columns))
    run_on(["b", "a"], ".parquet")
    assert read == [["c"]]


# demo


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(main, ["demo", "--out", str(folder / "out")], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return folder / "out", result


NAMES = ["grr", "local-hash", "local-hash-7", "rappor", "oue", "balls-into-bins", "laplace"]


def test_demo_saves_everything_that_it_says(demo):
    folder, result = demo
    expected = {f"{name}.{suffix}" for name in NAMES for suffix in ("csv", "parquet", "json", "png")}
    assert {path.name for path in folder.iterdir()} == expected | {"summary.csv", "summary.json", "overview.png"}
    assert f"saved {folder / 'summary.csv'}, summary.json, overview.png\n" in result.stdout
    assert ", ".join(NAMES) in result.stdout
    assert result.stderr == ""


def test_demo_summary_is_what_the_library_gives(demo):
    folder, _ = demo
    rows = pd.read_csv(folder / "summary.csv").set_index("name")
    assert rows.index.tolist() == NAMES
    dest = ss.datasets.load("flights")["dest"]
    seed = np.random.SeedSequence(7, spawn_key=(0,))
    expected = ss.simulate(GRR(2.0, 105), dest, delta=1e-8, seed=seed)
    assert rows.loc["grr", "rmse"] == expected.rmse
    assert rows.loc["grr", "epsilon_upper"] == expected.summary["epsilon_upper"][0]
    assert (rows["epsilon_lower"] <= rows["epsilon_upper"]).all()
    assert (rows["rmse"] < 4 * rows["expected_rmse"]).all()
    assert rows.loc["laplace", "unit"] == "minutes"
    document = json.loads((folder / "summary.json").read_text())
    assert [row["name"] for row in document["rows"]] == NAMES
    assert document["rows"][1]["seed"] == {"entropy": 7, "spawn_key": [1]}
    assert document["rows"][5]["local_epsilon"] == "inf"
    estimates = pd.read_csv(folder / "oue.csv")
    assert estimates["value"].tolist() == list(dest.cat.categories)


def test_demo_table_fits_and_shows_every_number(demo):
    folder, result = demo
    table = result.stdout.partition("\nsaved")[0]
    assert max(map(len, table.splitlines())) <= 80
    for row in pd.read_csv(folder / "summary.csv").to_dict("records"):
        assert f"<= {number(row['epsilon_upper'], 'upper', 4)}" in table
        assert f">= {number(row['epsilon_lower'], 'lower', 4)}" in table
        assert f"{number(row['rmse'], digits=4)} {row['unit']}" in table
        assert f"({number(row['expected_rmse'], digits=4)})" in table
        assert row["upper_bound"] in table


def test_demo_says_which_folder_cannot_be_written(monkeypatch):
    case = ("grr", GRR(2.0, 3), [0, 1, 2], "users")
    monkeypatch.setattr(sys.modules["shufflesim.cli.demo"], "_cases", lambda dest, minute: [case])
    Path("out/summary.csv").mkdir(parents=True)
    assert "--out must be a writable folder, got 'out': Is a directory" in refused("demo", "--out", "out")


def test_demo_refuses():
    Path("file").write_text("")
    assert "--out must be a writable folder, got 'file': File exists" in refused("demo", "--out", "file")
    assert "'--seed'" in refused("demo", "--seed", "x")


# check


USER_CODE = """
from dataclasses import dataclass
import numpy as np
from shufflesim import ChannelRandomizer, Randomizer

@dataclass(frozen=True)
class Stay(ChannelRandomizer):
    epsilon: float
    def channel(self):
        e = np.exp(self.epsilon)
        return np.array([[e, 1, 1], [1, e, 1], [1, 1, e]]) / (e + 2)

@dataclass(frozen=True)
class Liar(Stay):
    def randomize(self, values, rng):
        return values.astype(int)

@dataclass(frozen=True)
class Preset(Stay):
    epsilon: float = 1.0

@dataclass(frozen=True)
class Own(Stay):
    @classmethod
    def examples(cls):
        yield cls(0.5)
        yield cls(1.0)

@dataclass(frozen=True)
class Crash(Stay):
    def __post_init__(self):
        raise ZeroDivisionError("no luck")

class Unfinished(Randomizer):
    pass

class Unrelated:
    pass
"""


@pytest.fixture
def user_code():
    Path("mine.py").write_text(USER_CODE)
    yield
    for name in ("mine", "_checked_mine"):
        sys.modules.pop(name, None)
    sys.path[:] = [entry for entry in sys.path if entry not in ("", ".")]


@pytest.mark.usefixtures("user_code")
def test_check_passes_a_good_class_in_a_file_built_from_its_defaults():
    result = ok("check", "mine.py:Preset")
    assert result.stdout.startswith("Preset(epsilon=1.0)\n")
    assert re.search(r"sampler follows the law +ok ", result.stdout)
    assert "FAIL" not in result.stdout


@pytest.mark.usefixtures("user_code")
def test_check_takes_every_example_of_a_class_in_a_module():
    result = ok("check", "mine:Own")
    assert "Own(epsilon=0.5)\n" in result.stdout
    assert result.stdout.endswith("2 of 2 instances passed\n")


@pytest.mark.usefixtures("user_code")
def test_check_fails_a_broken_class_with_status_1():
    result = call("check", "mine.py:Liar", "-p", "epsilon=1")
    assert result.exit_code == 1
    assert result.stdout.startswith("Liar(epsilon=1)\n")
    assert re.search(r"sampler follows the law +FAIL ", result.stdout)


def test_check_of_a_protocol_as_json():
    result = ok("check", "shufflesim.protocols:BallsIntoBins", "-p", "d=4", "-p", "dummies=2", "--json")
    (report,) = json.loads(result.stdout)
    expected = ss.check_protocol(BallsIntoBins(4, 2))
    assert report["subject"] == expected.subject
    assert report["passed"] is True
    assert report["checks"] == expected.table.to_dict("records")


@pytest.mark.usefixtures("user_code")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["mine"], "must be module:Class or file.py:Class, got 'mine'"),
        (["nowhere.py:Stay"], "must name a file that exists, got 'nowhere.py'"),
        (["nowhere:Stay"], "cannot import 'nowhere': ModuleNotFoundError"),
        (["mine.py:Stya"], "got nothing of that name; did you mean 'Stay'?"),
        (["mine.py:Unrelated"], "must be a subclass of Randomizer or Protocol, got <class"),
        (["mine.py:Unfinished"], "must define every abstract method, got none for aggregate, amplification"),
        (["mine.py:Stay"], "must get its parameters with -p, or have examples()"),
        (["mine.py:Stay", "-p", "eps=1"], "mine.py:Stay takes epsilon; missing a required argument: 'epsilon'"),
        (
            ["mine.py:Crash", "-p", "epsilon=1"],
            "mine.py:Crash cannot be constructed: ZeroDivisionError: no luck (",
        ),
        (["shufflesim.mechanisms:GRR", "-p", "epsilon=1", "-p", "d=1"], "d must be an integer >= 2, got 1"),
    ],
)
def test_check_refuses(args, message):
    assert message in refused("check", *args)


@pytest.mark.parametrize(
    ("code", "message"),
    [("x = = 1", "SyntaxError"), ("import no_such_thing", "No module named"), ("1 / 0", "mine.py, line 1")],
)
def test_check_refuses_code_that_does_not_import(code, message):
    Path("mine.py").write_text(code)
    line = refused("check", "mine.py:Stay")
    assert "cannot import 'mine.py'" in line
    assert message in line


# Help and streams


def test_version():
    assert ok("--version").stdout == f"shufflesim {ss.__version__}\n"


@pytest.mark.parametrize("command", ["", *main.commands])
def test_help_has_an_example(command):
    assert re.search(r"Examples?:\n +shufflesim ", ok(*command.split(), "--help").stdout)


def test_the_examples_in_the_help_run():
    for command in ("list", "bound", "run"):
        for line in re.findall(r"\n +shufflesim (.*)", ok(command, "--help").stdout):
            if "my.csv" not in line:
                ok(*line.split())


def test_no_command_shows_the_help():
    result = call()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_start_is_light():
    heavy = "('pandas', 'matplotlib', 'rich', 'pyarrow', 'mpmath')"
    code = f"import sys; from shufflesim.cli import main; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_bug_is_not_hidden(monkeypatch):
    def broken(*args, **kwargs):
        raise TypeError("a bug")

    monkeypatch.setattr("shufflesim.catalogue.mechanisms", broken)
    with pytest.raises(TypeError, match="a bug"):
        call("list")


def test_a_closed_pipe_is_quiet():
    command = [*PROGRAM, "bound", "grr", "-p", "epsilon=1", "-p", "d=3", "-n", "9", "--delta", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141


def test_ctrl_c_is_one_line_and_130():
    Path("slow.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [*PROGRAM, "check", "slow.py:Slow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "shufflesim: interrupted\n"
        assert process.wait() == 130


def test_progress_goes_to_a_terminal_on_stderr_and_nowhere_else():
    command = [*PROGRAM, *FLIGHTS, "--seed", "7", "--json"]
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        # Reading the terminal of a process that has ended is an error on Linux, and empty elsewhere.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                shown += part
        json.loads(process.stdout.read())
        assert process.wait() == 0
    os.close(ours)
    assert b"simulating" in shown
    quiet = subprocess.run(command, capture_output=True, text=True, check=True)
    assert quiet.stderr.startswith("shufflesim: note: ")
    assert quiet.stderr.count("\n") == 1


def test_csv_output_has_no_other_lines():
    rows = list(csv.reader(io.StringIO(ok(*GRR_BOUND, "--delta", "1e-6", "--csv").stdout)))
    assert {len(row) for row in rows} == {7}


def test_labels_beyond_the_terminal_s_encoding_are_escaped():
    Path("data.csv").write_text("c\nZürich\n東京\nZürich\n", encoding="utf-8")
    command = [*PROGRAM, "run", "grr", "-p", "epsilon=2", "--data", "data.csv", "--column", "c", *SETTINGS]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "Z\\xfcrich" in result.stdout
