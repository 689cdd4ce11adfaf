"""The run command: its options, and what it prints and saves."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import shufflesim as ss
from shufflesim.cli.output import number
from shufflesim.mechanisms import GRR

from .cli_helpers import FLIGHTS, GOOD, SETTINGS, ok, refused, run_on

pytestmark = pytest.mark.usefixtures("elsewhere")


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
        (["--out", ""], "'--out': must be the name of a folder, got ''"),
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


# Drop-outs and attacks


def test_absent_and_faulty_users_are_reported():
    attack = ["--dropout", 0.1, "--faulty", 0.02, "--attack", "maximal-gain", "--target", "HNL"]
    run = ["run", "grr", "-p", "epsilon=2", "--dataset", "flights", "--column", "dest", *SETTINGS]
    result = ok(*run, *attack)
    assert re.search(r"absent, faulty users +33,\d{3}, 6,\d{3}; 0 messages rejected", result.output)
    assert re.search(r"gain at the target +\d{5}", result.output)
    record = json.loads(ok(*run, *attack, "--json").stdout)
    assert record["damage"]["honest"] == record["damage"]["users"] - record["damage"]["absent"] - record["damage"]["faulty"]
    assert record["population"]["attack"] == "maximal-gain"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--faulty", 0.1], "attack must be given exactly if faulty > 0"),
        (["--dropout", 1], "dropout must be in [0, 1), got 1.0"),
        (
            ["--faulty", 0.1, "--attack", "maximal-gain", "--target", "Rom"],
            "--target must be one of the categories, got 'Rom'; did",
        ),
        (["--faulty", 0.1, "--attack", "sabotage"], "attack must be one of target-item, maximal-gain"),
        (["--minimum-batch", 100], "minimum_batch must be reached before anything is released, 100, got"),
        (["--dropout", 0.1, "--method", "counts"], "population must be a Population and method 'users'"),
    ],
)
def test_populations_that_make_no_sense(args, message):
    Path("data.csv").write_text("city\nRoma\nOslo\nRoma\n")
    assert message in refused("run", "grr", "-p", "epsilon=2", "--data", "data.csv", "--column", "city", "--delta", 1e-6, *args)


# Results


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
