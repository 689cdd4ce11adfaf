"""`shufflesim compare`, and `run` on several columns: sets, vectors, points, key-value pairs."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from shufflesim.cli.output import number
from shufflesim.plots import shortened

from .cli_helpers import ok, refused

PAIRS = {f"{what} {key}" for what in ("users", "sum") for key in range(3)}
LABELLED_PAIRS = {f"{what} {key}" for what in ("users", "sum") for key in "uvwxy"}


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "people.csv"
    pd.DataFrame(
        {
            "city": rng.choice(list("abcd"), 400),
            "first": rng.choice(["x", "y"], 400),
            "second": rng.choice(["u", "v", "w"], 400),
            "height": rng.uniform(0, 1, 400),
            "weight": rng.uniform(0, 1, 400),
            "lat": rng.uniform(40, 41, 400),
            "lon": rng.uniform(-74, -73, 400),
            "key": rng.integers(0, 3, 400),
            "value": rng.uniform(-1, 1, 400),
        }
    ).to_csv(path, index=False)
    return str(path)


def test_compare_ranks_on_a_column(table, tmp_path):
    out = tmp_path / "out"
    arguments = ["compare", "--epsilon", "0.5", "--delta", "1e-6", "--data", table, "--column", "city", "--seed", "1"]
    result = ok(*arguments, "grr", "k-subset:k=2", "--json", "--out", str(out))
    found = json.loads(result.stdout)
    assert found["n"] == 400
    assert found["rows"][0]["relative_rmse"] == 1
    assert all(row["epsilon"] <= 0.5 for row in found["rows"])
    assert sorted(p.name for p in out.iterdir()) == ["compare.csv", "compare.png"]
    assert (out / "compare.png").read_bytes()[:4] == b"\x89PNG"
    text = ok(*arguments, "grr").stdout
    assert "epsilon=" in text
    assert "observed" in text


@pytest.mark.parametrize("columns", [80, 120])
def test_compare_breaks_neither_numbers_nor_parameters(table, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    arguments = ["compare", "--epsilon", "0.5", "--delta", "1e-6", "--data", table, "--column", "city", "--seed", "1"]
    names = ["grr", "hadamard-response", "hierarchical-grr"]
    rows = json.loads(ok(*arguments, *names, "--json").stdout)["rows"]
    text = ok(*arguments, *names).stdout
    assert max(map(len, text.splitlines())) <= columns
    for row in rows:
        name, _, parameters = shortened(row["protocol"]).removesuffix(")").partition("(")
        numbers = next(line for line in text.splitlines() if line.startswith(name))
        assert number(row["local_epsilon"], "upper") in numbers.split()
        assert number(row["observed_rmse"], digits=5) == numbers.split()[-1]
        assert parameters in text


def test_compare_takes_numbers_too(table):
    result = ok(
        *["compare", "--epsilon", "0.5", "--delta", "1e-6", "--data", table, "--column", "height", "--json"],
        *["laplace", "piecewise:low=0,high=1", "witch-hat:low=0,high=1"],
    )
    rows = json.loads(result.stdout)["rows"]
    assert {row["protocol"].partition("(")[0] for row in rows} == {"Laplace", "Piecewise", "WitchHat"}


def test_what_does_not_fit_is_left_out_if_nothing_was_asked_for(tmp_path):
    path = tmp_path / "five.csv"
    path.write_text("city\n" + "\n".join("abcdea") + "\n")
    result = ok("compare", "--epsilon", "1", "--delta", "1e-3", "--data", str(path), "--column", "city", "--seed", "1")
    assert "left out hierarchical-grr: d must be a power of two, got 5" in result.stderr
    assert "GRR " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "mechanism must be a known name, got 'nosuch'"),
        (["grr:epsilon=1"], "with keys other than epsilon"),
        (["grr:d"], "NAME must be name or name:key=value"),
        (["balls-into-bins:dummies=1"], "parameter 'dummies' is unknown to balls-into-bins"),
        (["grr", "oue", "grr"], "NAMEs must stand for different mechanisms, got 'grr' and 'grr'"),
        (["grr", "grr:d=4"], "NAMEs must stand for different mechanisms, got 'grr' and 'grr:d=4'"),
        (["grr", "--out", ""], "'--out': must be the name of a folder, got ''"),
        (["grr", "laplace"], "column 'city' must hold numbers, got '[abcd]' in row 1"),
    ],
)
def test_bad_candidates_are_refused(table, arguments, message):
    line = refused("compare", "--epsilon", "0.5", "--delta", "1e-6", "--data", table, "--column", "city", *arguments)
    assert re.search(message, line)


@pytest.mark.parametrize(
    ("name", "parameters", "columns", "labels"),
    [
        ("priv-set", ["epsilon=2"], ["first", "second"], {"u", "v", "w", "x", "y"}),
        ("collision", ["epsilon=2"], ["first", "second"], {"u", "v", "w", "x", "y"}),
        ("harmony", ["epsilon=2", "low=0"], ["height", "weight"], {"height", "weight"}),
        ("duchi", ["epsilon=2", "low=0"], ["height", "weight"], {"height", "weight"}),
        ("duchi", ["epsilon=2"], ["height"], {"mean"}),
        ("planar-laplace", ["epsilon=0.1", "region=map:40:41:-74:-73:km"], ["lat", "lon"], {"latitude", "longitude"}),
        ("planar-laplace", ["epsilon=1", "region=plane:0:1:0:1"], ["height", "weight"], {"x", "y"}),
        ("priv-kv", ["epsilon1=1", "epsilon2=1", "d=3"], ["key", "value"], PAIRS),
        ("pckv-grr", ["epsilon=1"], ["key", "value"], PAIRS),
        ("priv-kv", ["epsilon1=1", "epsilon2=1"], ["first", "value", "second", "height"], LABELLED_PAIRS),
    ],
)
def test_run_takes_several_columns(table, name, parameters, columns, labels):
    options = [part for p in parameters for part in ("-p", p)] + [part for c in columns for part in ("--column", c)]
    result = ok("run", name, *options, "--data", table, "--delta", "1e-6", "--seed", "2", "--out", table + ".out", "--json")
    assert json.loads(result.stdout)["n"] == 400
    estimates = pd.read_csv(table + ".out/estimates.csv")
    assert set(estimates["value"]) == labels


def test_run_prints_the_errors_of_users_and_of_sums(table):
    command = ["run", "pckv-grr", "-p", "epsilon=1", "--data", table, "--column", "city", "--column", "value", "--delta", "1e-6"]
    users, sums = json.loads(ok(*command, "--seed", "2", "--json").stdout)["errors"]
    text = ok(*command, "--seed", "2").stdout
    assert re.search(rf"\nRMSE of users +{number(users['rmse'])} users\n", text)
    assert re.search(rf"\nexpected RMSE of users +{number(users['expected_rmse'])}\n", text)
    assert re.search(rf"\nRMSE of sums +{number(sums['rmse'])}\n", text)
    assert all(re.search(rf"\n{what} {city} ", text) for what in ("users", "sum") for city in "abcd")


def test_labelled_keys_are_those_of_the_domain(tmp_path):
    """Estimates and truths of the same run with codes in place of labels; a key that nobody holds counts too."""
    codes = pd.DataFrame({"k": [0, 3, 1, 0], "v": [0.5, 1.0, -1.0, 0.25]})
    codes.to_csv(tmp_path / "codes.csv", index=False)
    codes.assign(k=[list("xyzw")[k] for k in codes["k"]]).to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "keys.txt").write_text("x\ny\nz\nw\n")
    command = ["run", "pckv-grr", "-p", "epsilon=1", "--column", "k", "--column", "v", "--delta", "1e-3", "--seed", "3"]
    ok(*command, "-p", "d=4", "--data", tmp_path / "codes.csv", "--out", tmp_path / "a")
    ok(*command, "--domain", tmp_path / "keys.txt", "--data", tmp_path / "labels.csv", "--out", tmp_path / "b")
    plain, labelled = (pd.read_csv(tmp_path / folder / "estimates.csv") for folder in "ab")
    pd.testing.assert_frame_equal(plain.drop(columns="value"), labelled.drop(columns="value"))
    assert labelled["value"].tolist() == [f"{what} {key}" for what in ("users", "sum") for key in "xyzw"]


@pytest.mark.parametrize(
    ("name", "parameters", "columns", "message"),
    [
        ("grr", ["epsilon=1"], ["city", "first"], "--column must be given 1 times for GRR"),
        ("harmony", ["epsilon=1", "dim=3"], ["height", "weight"], "--column must be given 3 times for Harmony"),
        ("priv-set", ["epsilon=1", "s=3"], ["first", "second"], "--column must be given 3 times for PrivSet"),
        ("priv-kv", ["epsilon1=1", "epsilon2=1", "d=3", "s=1"], ["key"], "--column must be given 2 times for PrivKV"),
        ("pckv-grr", ["epsilon=1", "d=3"], ["city", "value"], "column 'city' must hold numbers, got '[abcd]' in row 1"),
        ("pckv-grr", ["epsilon=1"], ["city", "value", "first"], "--column must be given 2 times for PCKVGRR.*, got 3"),
        ("pckv-grr", ["epsilon=1"], ["city"], "--column must be given 2 times for PCKVGRR.*, got 1"),
        (
            "pckv-grr",
            ["epsilon=1"],
            ["first", "value", "first2", "height"],
            "--column must name a column of the data, got 'first2'",
        ),
        ("planar-laplace", ["epsilon=1", "region=earth"], ["lat", "lon"], "region must be plane:X0:X1:Y0:Y1 or map:"),
        (
            "planar-laplace",
            ["epsilon=1", "region=map:40:41:-74:-73:mile"],
            ["lat", "lon"],
            "unit must be 'm' or 'km', got 'mile'",
        ),
        ("planar-laplace", ["epsilon=0.1", "region=map:40:40.5:-74:-73:km"], ["lat", "lon"], r"latitude in \[40, 40.5\]"),
        ("harmony", ["epsilon=1"], ["height", "height"], "--column must name different columns, got 'height' twice"),
        ("harmony", ["epsilon=1"], ["height", "nosuch"], "--column must name a column of the data, got 'nosuch'"),
        ("priv-set", ["epsilon=1"], ["city", "city2"], "--column must name a column of the data, got 'city2'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(table, name, parameters, columns, message):
    options = [part for p in parameters for part in ("-p", p)] + [part for c in columns for part in ("--column", c)]
    line = refused("run", name, *options, "--data", table, "--delta", "1e-6")
    assert re.search(message, line)
