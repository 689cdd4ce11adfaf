"""The demo command."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import shufflesim as ss
from shufflesim.cli import main
from shufflesim.cli.output import number
from shufflesim.mechanisms import GRR

from .cli_helpers import refused

pytestmark = pytest.mark.usefixtures("elsewhere")
NAMES = ["grr", "local-hash", "local-hash-7", "rappor", "oue", "balls-into-bins", "laplace"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(main, ["demo", "--out", str(folder / "out")], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return folder / "out", result


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
    assert "'--out': must be the name of a folder, got ''" in refused("demo", "--out", "")
    assert "'--seed'" in refused("demo", "--seed", "x")
