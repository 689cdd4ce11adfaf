"""Sweeps: the file and what is wrong in it, seeds, the folder that survives interruption, pictures."""

import errno
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shufflesim as ss
from shufflesim import sweeps
from shufflesim.sweeps import store

from .cli_helpers import call, ok, refused

pytestmark = pytest.mark.usefixtures("elsewhere")

BALLS = {"name": "balls-into-bins", "dummies": [0.5, 1.0]}
CODES = {"generator": "zipf", "d": 8, "exponent": [1.0, 2.0]}
SAID = {"seed": 1, "n": [50, 500], "delta": 1e-3, "repeats": 2, "protocol": [BALLS], "data": [CODES]}
FILE = """seed = 1
n = [50, 500]  # users
delta = 1e-3
repeats = 2

[[protocol]]
name = "balls-into-bins"
dummies = [0.5, 1]

[[data]]
generator = "zipf"
d = 8
exponent = [1.0, 2]
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a sweep that was not interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    ss.sweep(SAID, folder)
    return folder


def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_every_combination_is_a_row(whole):
    table = sweeps.read(whole)
    identity = ["dummies", "data_exponent", "n", "repeat"]
    assert len(table) == 16 == len(table[identity].drop_duplicates()) == table["task"].nunique()
    assert table["dummies"].tolist() == [0.5] * 8 + [1.0] * 8
    assert set(table["version"]) == {ss.__version__}
    assert set(table["seed"]) == {1}
    assert "seconds" not in table
    # Any tool reads the folder.
    assert len(pd.read_parquet(whole)) == 16


def test_a_row_says_how_to_run_it_again(whole):
    row = sweeps.read(whole).iloc[11]
    values = ss.datasets.zipf(int(row["n"]), int(row["data_d"]), float(row["data_exponent"]), seed=int(row["data_seed"]))
    protocol = ss.protocols.BallsIntoBins(d=int(row["d"]), dummies=float(row["dummies"]))
    summary = ss.simulate(protocol, values, delta=row["delta"], seed=int(row["run_seed"])).summary.iloc[0]
    assert row["subject"] == summary["protocol"]
    names = ["n", "local_epsilon", "epsilon_upper", "upper_bound", "epsilon_lower", "messages_per_user", "rmse", "expected_rmse"]
    assert row[names].tolist() == summary[names].tolist()


def test_the_file_and_the_mapping_are_one_experiment(whole):
    Path("e.toml").write_text(FILE)
    keys = {task.key for task in sweeps.plan("e.toml")}
    assert keys == {*sweeps.read(whole)["task"]}
    # The same number in another spelling, and the same task twice.
    assert {t.key for t in sweeps.plan(SAID | {"n": [50.0, 500, 50], "protocol": [BALLS, {**BALLS, "dummies": 1}]})} == keys


def test_other_protocols_do_not_change_results_and_all_see_the_same_data(whole, tmp_path):
    more = SAID | {"protocol": [{"name": "grr", "epsilon": 1}, BALLS], "n": 50, "delta": [1e-3, 1e-4]}
    table = ss.sweep(more, tmp_path)
    before = sweeps.read(whole)
    same = table[table["task"].isin(before["task"])]
    assert len(same) == 8
    expected = before[before["n"] == 50].reset_index(drop=True)
    pd.testing.assert_frame_equal(same[expected.columns].reset_index(drop=True), expected)
    assert len(table[["data", "repeat", "data_seed"]].drop_duplicates()) == table["data_seed"].nunique() == 4
    assert table["run_seed"].nunique() == len(table) == 24


def test_keys_tell_everything_apart():
    others = [{"seed": 2}, {"n": 60}, {"delta": 1e-4}, {"repeats": 3}, {"method": "counts"}, {"rows": "estimates"}]
    others += [{"protocol": [{**BALLS, "dummies": 2.0}]}, {"data": [{**CODES, "exponent": 1.5}]}]
    one = SAID | {"n": 50, "repeats": 1, "protocol": [{**BALLS, "dummies": 0.5}], "data": [{**CODES, "exponent": 1.0}]}
    keys = [sweeps.plan(one | other)[-1].key for other in ({}, *others)]
    assert len({*keys}) == len(keys)


def test_estimates(tmp_path):
    table = ss.sweep(SAID | {"n": 50, "repeats": 1, "rows": "estimates"}, tmp_path)
    assert len(table) == 2 * 2 * 8
    assert table["value"].tolist() == [str(k) for k in range(8)] * 4
    assert (table.groupby("task")["truth"].sum() == 50).all()
    assert (table["ci_low"] < table["estimate"]).all()
    assert "rmse" not in table


# Children of one process that has imported everything; each is killed at a random moment after it has stored something.
KILLED = """
import os, random, sys, time
from pathlib import Path
from shufflesim import sweeps
from shufflesim.sweeps import reading, store
from shufflesim.sweeps.task import Task

store.UNSAVED_SECONDS, store.FILES_EACH = 0.0, 4
out, tasks, chance, rows = Path("out"), sweeps.plan("e.toml"), random.Random(3), Task.rows
# All imports and hashes that the children would have to make anew.
tasks[0].rows(), sweeps.read(sys.argv[1]), {task.key for task in tasks}
for _ in range(20):
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        known = {*reading.stored(out)["task"]}
        def checked(task):
            if task.key in known:
                Path("twice").write_text(task.key)
            return rows(task)
        Task.rows = checked
        sweeps.sweep(tasks, out, progress=lambda done: os.write(told, b"."))
        os._exit(0)
    os.close(told)
    for _ in range(3):
        os.read(heard, 1)
    time.sleep(chance.uniform(0, 0.02))
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(heard)
    print(len(list(out.glob("[!.]*.parquet"))))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_twenty_kills_leave_the_table_of_an_uninterrupted_run(whole):
    Path("e.toml").write_text(FILE.replace("repeats = 2", "repeats = 13"))
    done = subprocess.run([sys.executable, "-c", KILLED, whole], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not Path("twice").exists()
    partly = sweeps.read("out")
    assert 20 <= len(partly) <= 104
    again: list[int] = []
    table = ss.sweep("e.toml", "out", progress=again.append)
    assert again[0] == len(partly)
    assert again[-1] == len(table) == 104
    pd.testing.assert_frame_equal(table, ss.sweep("e.toml", "undisturbed"))
    # Without making one file of several there would be one a task.
    assert len(files("out")) < 80


def test_workers_do_not_matter_and_nothing_is_done_twice(whole, monkeypatch):
    Path("e.toml").write_text(FILE)
    text = ok("sweep", "e.toml", "--out", "out", "--workers", "2").stdout
    assert text == "16 tasks, 0 of them stored before; 16 rows in out\n"
    pd.testing.assert_frame_equal(sweeps.read("out"), sweeps.read(whole))
    monkeypatch.setattr(sweeps.Task, "rows", lambda task: pytest.fail("done twice"))
    before = files("out")
    assert ok("sweep", "e.toml", "--out", "out").stdout == "16 tasks, 16 of them stored before; 16 rows in out\n"
    assert files("out") == before


def test_folders_of_two_machines_are_one(whole, tmp_path):
    ss.sweep(SAID | {"n": 50}, "one")
    ss.sweep(SAID | {"protocol": [{**BALLS, "dummies": 1.0}]}, "two")
    for path in Path("two").iterdir():
        shutil.copy(path, "one")
    assert len(pd.read_parquet("one")) == 8 + 8
    merged = sweeps.read("one")
    assert len(merged) == 12
    pd.testing.assert_frame_equal(ss.sweep(SAID, "one"), sweeps.read(whole))


def test_the_table_does_not_depend_on_the_order_of_tasks():
    protocols = [BALLS, {"name": "mix-dump", "flip": 0.1, "dummies": 1}]
    data = [CODES, {"generator": "geometric", "ratio": 0.5, "d": 8}]
    table = ss.sweep(SAID | {"n": 50, "protocol": protocols, "data": data}, "out")
    forth = pd.read_parquet("out").sort_values("task")
    for folder, rows in (("forth", forth), ("back", forth[::-1])):
        Path(folder).mkdir()
        rows.to_parquet(f"{folder}/a.parquet", index=False)
        pd.testing.assert_frame_equal(sweeps.read(folder), table)


def test_small_files_become_one(monkeypatch, whole):
    monkeypatch.setattr(store, "UNSAVED_SECONDS", 0.0)
    monkeypatch.setattr(store, "FILES_EACH", 5)
    ss.sweep(SAID, "out")
    assert len(files("out")) == 4  # three of five tasks, one of one
    pd.testing.assert_frame_equal(sweeps.read("out"), sweeps.read(whole))


def test_a_full_disk_harms_nothing(monkeypatch):
    Path("e.toml").write_text(FILE)
    ss.sweep(SAID | {"n": 50}, "out")
    before = files("out")
    sync = os.fsync

    def full(handle):
        if os.fstat(handle).st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    assert "--out must be a writable folder, got 'out': No space left on device" in refused("sweep", "e.toml", "--out", "out")
    assert files("out") == before


def test_folders_that_are_none():
    Path("e.toml").write_text(FILE)
    Path("file").touch()
    assert "--out must be a writable folder, got 'file': File exists" in refused("sweep", "e.toml", "--out", "file")
    Path("bare").mkdir()
    assert "results of sweeps, got none in 'bare'" in refused("plot", "bare", "--x", "n", "--y", "rmse", "--out", "p.png")
    assert "got 'nowhere', which is no folder" in refused("plot", "nowhere", "--x", "n", "--y", "rmse", "--out", "p.png")
    Path("out").mkdir()
    Path("out/a.parquet").write_bytes(b"PAR1")
    assert "'out/a.parquet' must be a result of a sweep: " in refused("sweep", "e.toml", "--out", "out")
    pd.DataFrame({"x": [1]}).to_parquet("out/a.parquet")
    assert "must be a result of a sweep: no column 'task'" in refused("sweep", "e.toml", "--out", "out", "--dry-run")


def test_damage_is_refused_wherever_it_is(whole):
    """Any byte: in the pages, whose checksums are compared, or in what describes them."""
    name = min(files(whole))
    content, table = (whole / name).read_bytes(), sweeps.read(whole)
    shutil.copytree(whole, "out")
    refusals = 0
    for place in range(5, len(content), len(content) // 60):
        (Path("out") / name).write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        try:
            pd.testing.assert_frame_equal(sweeps.read("out"), table)
        except ValueError as error:
            refusals += 1
            assert re.fullmatch(rf"'out/{name}' must be a result of a sweep: .+; move it away", str(error))  # noqa: PT017
    assert refusals > 30


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("n", 50.5, "Float value 50.50* was truncated"),
        ("rmse", "x", "Failed to parse string: 'x'"),
        ("parameters", None, "a row without 'parameters'"),
        ("parameters", "[1]", "'parameters' must hold JSON objects, got '\\[1\\]'"),
        ("data_parameters", "{", "Expecting property name"),
    ],
)
def test_files_that_others_have_written(column, value, message, whole):
    """Types of one meaning are read; what has none is refused before anything runs."""
    Path("e.toml").write_text(FILE)
    shutil.copytree(whole, "out")
    rows = pd.read_parquet(whole)
    alike = rows.astype({"n": float, "delta": str, "protocol": "category"}).assign(note="mine")
    pd.concat([alike, alike]).to_parquet("out/a.parquet")
    pd.testing.assert_frame_equal(sweeps.read("out"), sweeps.read(whole))
    rows.assign(**{column: value}).to_parquet("out/a.parquet")
    assert re.search(f"'out/a.parquet' must be a result of a sweep: .*{message}", refused("sweep", "e.toml", "--out", "out"))


def test_results_that_contradict_each_other_are_refused(whole):
    shutil.copytree(whole, "out")
    rows = pd.read_parquet(whole)
    rows.assign(rmse=rows["rmse"] * (1 + 1e-12)).to_parquet("out/a.parquet")
    assert len(sweeps.read("out")) == 16
    rows.loc[3, "rmse"] *= 1.001
    rows.to_parquet("out/a.parquet")
    with pytest.raises(ValueError, match=r"must have the same results of a task, got others in 'out/.*' than in 'out/.*parquet'"):
        ss.sweep(SAID, "out")
    ss.sweep(SAID | {"rows": "estimates", "n": 50}, "each")
    pd.read_parquet("each").iloc[:-1].to_parquet("each/a.parquet")
    with pytest.raises(ValueError, match="must have the same results of a task"):
        sweeps.read("each")


@pytest.mark.skipif(os.name == "nt", reason="needs locks of folders")
def test_a_folder_is_written_to_by_one_sweep(whole, tmp_path):
    Path("e.toml").write_text(FILE)
    with store.Writer(tmp_path / "out"):
        assert "must be one that no other sweep writes to" in refused("sweep", "e.toml", "--out", tmp_path / "out")
        assert sweeps.read(tmp_path / "out").empty
    ok("sweep", "e.toml", "--out", tmp_path / "out")
    pd.testing.assert_frame_equal(sweeps.read(tmp_path / "out"), sweeps.read(whole))


def test_what_a_killed_process_was_writing_is_cleared_away_later(tmp_path):
    old, new = tmp_path / ".a.partial", tmp_path / ".b.partial"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    with store.Writer(tmp_path):
        assert [*files(tmp_path)] == [".b.partial"]


def test_dry_run(whole):
    Path("e.toml").write_text(FILE)
    text = ok("sweep", "e.toml", "--out", "out", "--dry-run").stdout
    assert text.startswith("16 tasks, 0 of them stored; the rest takes about ")
    assert text.endswith(" (from a trial of 2 of the tasks)\n")
    assert not Path("out").exists()
    more = FILE.replace("repeats = 2", "repeats = 3").replace("500]", "500, 5000]")
    Path("e.toml").write_text(more)
    text = ok("sweep", "e.toml", "--out", whole, "--dry-run").stdout
    assert text.startswith("36 tasks, 16 of them stored; the rest takes about ")
    assert text.endswith(" (from the times of 16 stored tasks)\n")


@pytest.mark.parametrize(("seconds", "said"), [(0.123, "0.12 s"), (99.6, "100 s"), (119, "120 s"), (121, "2 min"), (9000, "2 h")])
def test_times_are_said_without_exponents(seconds, said, monkeypatch):
    Path("e.toml").write_text(FILE)
    monkeypatch.setattr(sweeps, "outlook", lambda *given, **options: sweeps.Outlook(2, 1, seconds, "guessed"))
    assert f"the rest takes about {said} (guessed)" in ok("sweep", "e.toml", "--out", "out", "--dry-run").stdout


def test_the_estimate_of_the_time(monkeypatch):
    seen = pd.DataFrame(
        {"task": ["a", "b", "c"], "protocol": ["balls-into-bins"] * 3, "n": [50, 50, 200], "seconds": [3.0, 1.0, 4.0]}
    )
    monkeypatch.setattr(sweeps.run, "stored", lambda folder: seen)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    # n = 50: a mean of 2; n = 1000: five times that of 200 users. Shared by two.
    one = SAID | {"n": [50, 1000], "protocol": [{**BALLS, "dummies": 1.0}], "data": [{**CODES, "exponent": 1.0}], "repeats": 3}
    found = sweeps.outlook(one, "out", workers=2)
    assert (found.tasks, found.stored) == (6, 0)
    assert found.seconds == pytest.approx((3 * 2 + 3 * 20) / 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("repeats = 2", "repeat = 2", "e.toml, line 4: 'repeat' is an unknown key; did you mean 'repeats'?"),
        ("repeats = 2", "repeats = 0", "e.toml, line 4: repeats must be an integer in [1, 1000000], got 0"),
        ("repeats = 2", "repeats = 200000", "e.toml: an experiment must have at most 1,000,000 tasks, got 1,600,000"),
        ("seed = 1", "", "e.toml: 'seed' must be given, got none"),
        ("seed = 1", "seed = ", "e.toml: Invalid value (at line 1, column 8)"),
        ("500]", "1.5]", "e.toml, line 2: n must be an integer >= 1, got 1.5"),
        ("[50, 500]", "[]", "e.toml, line 2: n must have at least one value, got an empty list"),
        ("1e-3", "1", "e.toml, line 3: delta must be in (0, 1), got 1"),
        ("1e-3", '1e-3\nmethod = "count"', "e.toml, line 4: method must be one of 'users', 'counts', got 'count'"),
        (
            "balls-",
            "ball-",
            "line 7, [[protocol]] 1: mechanism must be a known name, got 'ball-into-bins'; did you mean 'balls-into",
        ),
        ("dummies", "dummy", "line 8, [[protocol]] 1: parameter 'dummy' is unknown to balls-into-bins; did you mean 'dummies'?"),
        ("0.5, 1]", "0.5, -1]", "e.toml, line 8, [[protocol]] 1: dummies must be a number in (0, 1e+06], got -1"),
        ("0.5, 1]", '0.5, "a"]', "e.toml, line 8, [[protocol]] 1: dummies must be a number in (0, 1e+06], got 'a'"),
        (
            "[[data]]",
            "d = 4\n[[data]]",
            "[[protocol]] 1: values must be codes in 0..3, got 7 at position 1 (data zipf(d=8, exponent=1), n = 50)",
        ),
        ("name", "nam", "e.toml, line 6, [[protocol]] 1: name must be given, a text such as 'grr', got None"),
        ("[[protocol]]", "[protocol]", "e.toml, line 6: protocol must be one or more [[protocol]] tables, got {"),
        ("zipf", "zip", "e.toml, line 11, [[data]] 1: generator must be a known name, got 'zip'; did you mean 'zipf'?"),
        ("exponent", "expo", "e.toml, line 13, [[data]] 1: 'expo' is unknown to zipf; did you mean 'exponent'?"),
        ("d = 8", "", "e.toml, line 10, [[data]] 1: zipf needs 'd', which was not given"),
        ("d = 8", "d = 1", "e.toml, line 12, [[data]] 1: d must be an integer >= 2, got 1"),
        ("generator", "gen", "[[data]] 1: exactly one of 'dataset', 'file' and 'generator' must be given, got none"),
    ],
)
def test_what_is_wrong_in_the_file(old, new, message):
    assert old in FILE
    Path("e.toml").write_text(FILE.replace(old, new))
    assert message in refused("sweep", "e.toml", "--out", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("data", "protocol", "message"),
    [
        ({"dataset": "flights"}, BALLS, "'column' must be given beside 'dataset', got none"),
        ({"dataset": "flights", "column": "dst"}, BALLS, "column must name a column of flights, got 'dst'; did you mean 'dest'?"),
        ({"dataset": "flight", "column": "dest"}, BALLS, "got 'flight'; did you mean 'flights'?"),
        (
            {"dataset": "airports", "column": "faa", "d": 3},
            BALLS,
            "'d' is unknown beside 'dataset'; known: column, dataset, users",
        ),
        (
            {"dataset": "airports", "column": "faa", "users": "last"},
            BALLS,
            "users must be 'sample' (n rows with replacement) or 'first'",
        ),
        (
            {"dataset": "airports", "column": "faa", "users": "first"},
            BALLS,
            "n must be at most the 103 rows of airports where users",
        ),
        ({"dataset": "airports", "column": [["lat", "lat"]]}, BALLS, "column must name different columns, got ['lat', 'lat']"),
        (
            {"dataset": "airports", "column": "faa"},
            {"name": "laplace", "epsilon": 1},
            "columns of airports must hold numbers, got [",
        ),
        (
            {"dataset": "flights", "column": "dep_delay"},
            {"name": "laplace", "epsilon": 1},
            "must have no missing values, got 8,255",
        ),
        ({"file": "no.csv", "column": "a"}, BALLS, "file must be readable, got 'no.csv': No such file or directory"),
        ({"file": "no.txt", "column": "a"}, BALLS, "file must end in .csv, .csv.gz, .parquet, got 'no.txt'"),
        ({"file": "bad.csv", "column": "a"}, BALLS, "bad.csv', line 3: Expected 2 columns, got 1: 3"),
        (CODES, {"name": "local-hash", "epsilon": 1, "d": 8}, "method='counts' needs a protocol with an exact sampler"),
        (CODES, {"name": "parallel"}, "parallel must be built in Python from other randomizers"),
        ({"generator": "gaussian_mixture", "high": 2}, {"name": "laplace", "epsilon": 1}, "values must be in [0, 1], got 2.0"),
    ],
)
def test_what_is_wrong_with_data_and_protocols(data, protocol, message):
    Path("bad.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError) as refusal:
        sweeps.plan(SAID | {"n": 1000, "protocol": [protocol], "data": [data], "method": "counts"})
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_data_from_files():
    Path("there").mkdir()
    pd.DataFrame({"label": ["1", "01", "b", "1"], "x": [0.0, 0.5, 1.0, 0.25]}).to_csv("there/a.csv", index=False)
    pd.DataFrame({"k": [0, 1, 2], "v": [0.5, -1.0, 1.0], "l": [1, 2, 0]}).to_parquet("there/b.parquet")
    text = """seed = 1
n = 3
delta = 0.1
rows = "estimates"
[[protocol]]
name = "{name}"
{more}
[[data]]
file = "{file}"
column = {column}
users = "{users}"
"""

    def estimates(out="out", **asked):
        Path("there/e.toml").write_text(text.format(**asked))
        return ss.sweep("there/e.toml", out)

    labels = estimates(name="grr", more="epsilon = 1", file="a.csv", column='"label"', users="first")
    assert labels[["value", "truth"]].to_numpy().tolist() == [["01", 1], ["1", 1], ["b", 1]]
    assert labels["d"].tolist() == [3] * 3
    mean = estimates(name="laplace", more="epsilon = 1", file="a.csv", column='"x"', users="first")
    assert mean["truth"].tolist() == [0.5]
    pairs = estimates(
        name="priv-kv", more="epsilon1 = 1\nepsilon2 = 1\nd = 3", file="b.parquet", column='[["k", "v"]]', users="first"
    )
    assert pairs["truth"].tolist() == [1, 1, 1, 0.5, -1, 1]
    sets = estimates(name="priv-set", more="epsilon = 1", file="b.parquet", column='[["k", "l"]]', users="first")
    assert sets["truth"].tolist() == [2, 2, 2]
    one = estimates(name="grr", more="epsilon = 1", file="a.csv", column='"label"', users="sample")
    # The file elsewhere is the same data; another content is not.
    shutil.copytree("there", "copy")
    assert [task.key for task in sweeps.plan("copy/e.toml")] == [one["task"].iloc[0]]
    pd.DataFrame({"label": ["01", "1", "b", "b"]}).to_csv("copy/a.csv", index=False)
    assert [task.key for task in sweeps.plan("copy/e.toml")] != [one["task"].iloc[0]]


def test_categories_have_one_order_whatever_the_file_is():
    """That of the labels, or the one that a categorical has: ranges depend on it."""
    frame = pd.DataFrame({"city": list("zzcab") * 3})
    frame.to_parquet("a.parquet", row_group_size=4)
    frame.to_csv("a.csv", index=False)
    frame.set_index("city").assign(x=1).to_parquet("index.parquet")
    pd.DataFrame({"city": pd.Categorical(list("ab"), categories=list("zcba"))}).to_parquet("own.parquet")
    pd.DataFrame({"city": [10, 2, 1, 10]}).to_csv("codes.csv", index=False)
    codes = sweeps.values.data_of({"file": "codes.csv", "column": "city"}, Path()).draw(1, 0, numbers=False)
    assert list(codes.cat.categories) == ["1", "2", "10"]
    for name, order in {"a.parquet": "abcz", "a.csv": "abcz", "index.parquet": "abcz", "own.parquet": "zcba"}.items():
        data = sweeps.values.data_of({"file": name, "column": "city", "users": "first"}, Path())
        drawn = data.draw(2, 0, numbers=False)
        assert list(drawn.cat.categories) == list(order)
        assert drawn.tolist() == list("ab" if name == "own.parquet" else "zz")


def test_files_that_change_under_way_are_refused():
    """Their rows would be stored as those of the file that was checked."""
    pd.DataFrame({"x": [0.25] * 9}).to_csv("a.csv", index=False)
    one = {"protocol": [{"name": "laplace", "epsilon": 1}], "data": [{"file": "a.csv", "column": "x"}], "n": 5}
    tasks = sweeps.plan(SAID | one)
    sweeps.values._read.cache_clear()
    pd.DataFrame({"x": [0.5] * 9}).to_csv("a.csv", index=False)
    with pytest.raises(ValueError, match=r"a\.csv must stay as it is during a sweep"):
        ss.sweep(tasks, "out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "experiment must be a path, a mapping or a sequence of tasks, got None"),
        ([1], r"experiment must be a path, a mapping or a sequence of tasks, got \[1\]"),
        (SAID | {3: 4}, "3 is an unknown key; known: data, "),
        (SAID | {"data": [{**CODES, 3: 4}]}, r"\[\[data\]\] 1: keys must be texts, got 3"),
    ],
)
def test_what_is_no_experiment(given, message):
    with pytest.raises(ValueError, match=message):
        ss.sweep(given, "out")


def test_numbers_of_numpy_are_numbers(whole):
    assert len(ss.sweep(SAID | {"data": [{**CODES, "d": np.int64(8), "exponent": [*np.array([1.0, 2.0])]}]}, whole)) == 16


def test_samples_are_of_the_column_and_repeatable():
    table = sweeps.Table("airports", ("lat", "lon"))
    drawn = table.draw(5000, 3, numbers=True)
    assert drawn.shape == (5000, 2)
    np.testing.assert_array_equal(drawn, table.draw(5000, 3, numbers=True))
    assert not np.array_equal(drawn, table.draw(5000, 4, numbers=True))
    held = ss.datasets.load("airports")[["lat", "lon"]].to_numpy()
    assert {*map(tuple, drawn)} == {*map(tuple, held)}


def test_the_picture(whole):
    ok("plot", whole, "--x", "n", "--y", "rmse", "--hue", "dummies", "--facet", "data", "--out", "p.png")
    assert Path("p.png").read_bytes()[:4] == b"\x89PNG"
    ok("plot", whole, "--x", "n", "--y", "rmse", "--out", "p.svg")
    table = sweeps.read(whole)
    figure = sweeps.plot(table, "n", "rmse", hue="dummies")
    (ax,) = figure.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear" if table["rmse"].max() < 10 * table["rmse"].min() else "log")
    handles, labels = ax.get_legend_handles_labels()
    assert labels == ["0.5", "1"]
    assert len({(h.lines[0].get_color(), h.lines[0].get_marker(), h.lines[0].get_linestyle()) for h in handles}) == 2
    medians = table[table["dummies"] == 1.0].groupby("n")["rmse"].median()
    assert handles[1].lines[0].get_xydata().tolist() == [[n, value] for n, value in medians.items()]
    assert figure.get_supxlabel().split("\n", 1)[1].replace("\n", " ").endswith("of up to 4 rows, which differ in data")
    facets = sweeps.plot(table, "dummies", "epsilon_upper", hue="n", facet="data_exponent").axes
    assert [ax.get_title() for ax in facets] == ["data_exponent = 1", "data_exponent = 2"]


def test_labels_are_shown_as_they_are():
    """Neither formulas nor hidden ones nor two that look the same."""
    names = ["_mine.csv", r"$\frac{$", "GRR(epsilon=1.23456)", "GRR(epsilon=1.23457)"]
    table = pd.DataFrame({"_n$": [1, 2] * 4, "rmse": 1.0, "data": np.repeat(names, 2)})
    figure = sweeps.plot(table, "_n$", "rmse", hue="data", facet="data")
    figure.savefig(io.BytesIO())
    shown = [text.get_text().replace("\n", "") for text in figure.legends[0].get_texts()]
    assert shown == [r"\$\frac{\$", "GRR(epsilon=1.23456)", "GRR(epsilon=1.23457)", "_mine.csv"]
    assert [ax.get_title() for ax in figure.axes] == [f"data = {name}" for name in shown]


def test_a_full_disk_keeps_the_picture_that_was_there(whole, monkeypatch):
    Path("p.png").write_text("before")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    text = refused("plot", whole, "--x", "n", "--y", "rmse", "--out", "p.png")
    assert "--out must be a writable file, got 'p.png': No space left on device" in text
    assert {name: content for name, content in files(".").items() if "p.png" in name} == {"p.png": b"before"}


def test_rows_that_cannot_be_drawn():
    table = pd.DataFrame({"n": [1.0, 2.0, 3.0], "y": [1.0, np.inf, np.nan], "z": list("abc")})
    assert sweeps.plot(table, "n", "y").get_supxlabel().endswith("2 rows without finite numbers are left out")
    with pytest.raises(ValueError, match="table must have a row with finite n and y, got 2 rows without"):
        sweeps.plot(table[1:], "n", "y")
    with pytest.raises(ValueError, match="hue must have at most 24 values, got 'h' with 30"):
        sweeps.plot(pd.DataFrame({"n": range(30), "y": range(30), "h": range(30)}), "n", "y", hue="h")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--x", "m", "--y", "rmse", "--out", "p.png"], "x must name a column of numbers, got 'm'; "),
        (["--x", "n", "--y", "protocol", "--out", "p.png"], "y must name a column of numbers, got 'protocol'; "),
        (
            ["--x", "n", "--y", "rmse", "--hue", "dummy", "--out", "p.png"],
            "hue must name a column, got 'dummy'; did you mean 'dummies'?",
        ),
        (
            ["--x", "n", "--y", "rmse", "--facet", "dat", "--out", "p.png"],
            "facet must name a column, got 'dat'; did you mean 'data'?",
        ),
        (["--x", "n", "--y", "rmse", "--out", "p.gif"], "--out must end in .png, .pdf, .svg, got 'p.gif'"),
        (
            ["--x", "n", "--y", "rmse", "--out", "no/p.png"],
            "--out must be a writable file, got 'no/p.png': No such file or directory",
        ),
    ],
)
def test_refused_pictures(whole, options, message):
    assert message in refused("plot", whole, *options)


def test_help_has_examples():
    assert "shufflesim sweep experiment.toml --out results/ --dry-run" in call("sweep", "--help").stdout
    assert "--hue protocol --out picture.png" in call("plot", "--help").stdout
