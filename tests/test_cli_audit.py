"""`shufflesim audit`: one claim, and surveys of the catalogue that go on after an interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shufflesim as ss
from shufflesim import catalogue
from shufflesim._resumable import ROWS_FILE
from shufflesim.empirical.survey import Task, survey, tasks
from shufflesim.empirical.survey_page import save
from shufflesim.mechanisms import GRR

from .cli_helpers import call, ok, refused

pytestmark = pytest.mark.usefixtures("elsewhere")

ONE = ["audit", "grr", "-p", "epsilon=1", "-p", "d=3", "-n", "3", "--trials", "100"]
OWN = """
from dataclasses import dataclass
import numpy as np
from shufflesim import ChannelRandomizer

@dataclass(frozen=True)
class Stay(ChannelRandomizer):
    epsilon: float
    def channel(self):
        e = np.exp(self.epsilon)
        return np.array([[e, 1, 1], [1, e, 1], [1, 1, e]]) / (e + 2)

@dataclass(frozen=True)
class Two(Stay):
    @classmethod
    def examples(cls):
        yield cls(0.5)
        yield cls(1.0)

@dataclass(frozen=True)
class Liar(Stay):
    def randomize(self, values, rng):
        return values.astype(int)

@dataclass(frozen=True)
class Crash(Stay):
    def channel(self):
        raise ZeroDivisionError("no luck")
"""


@pytest.mark.parametrize("columns", [80, 160])
def test_a_violated_claim(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = call(*ONE, "--eps", "0.8", "--bound", "published")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert " ".join(lines[:2]).startswith("GRR(epsilon=1.0, d=3), n = 3, eps = 0.800000: published claims delta <= ")
    assert lines[-1] == "published: violated"
    assert sum("violated" in line for line in lines) == 4  # three ways, and the verdict
    assert ok(*ONE, "--eps", "0.8").stdout.rstrip().endswith("trials)")


def test_json_and_files():
    result = ok(*ONE, "--delta", "0.05", "--json", "--out", "out")
    found = json.loads(result.stdout)
    assert found["verdict"] == "consistent"
    assert found["claimed"] == pytest.approx(0.05, rel=1e-3)
    assert [way["way"] for way in found["ways"]] == ["enumeration", "homogeneous", "importance sampling", "runs"]
    assert found["files"] == ["out/audit.csv", "out/audit.png"]
    table = pd.read_csv("out/audit.csv")
    assert table["low"].tolist() == [way["low"] for way in found["ways"]]
    assert set(table["subject"]) == {"GRR(epsilon=1.0, d=3)"}
    assert Path("out/audit.png").read_bytes()[:4] == b"\x89PNG"


def test_others_and_large_n():
    sets = ["audit", "priv-set", "-p", "epsilon=1", "-p", "d=4", "-p", "s=2", "-n", "3", "--eps", "0.3", "--trials", "100"]
    assert "the others 2 x [0, 1]" in ok(*sets, "--others", "0,1").stdout.replace("\n", " ").replace("  ", " ")
    text = ok("audit", "balls-into-bins", "-p", "d=16", "-p", "dummies=1.5", "-n", "1e6", "--delta", "1e-12").stdout
    assert "not done: enumeration" in text
    assert "not done: runs" in text
    assert text.endswith("sound: consistent (as far as the stated law goes; the sampler was not run)\n")
    endless = " ".join(ok(*ONE[:6], "-n", "1e15", "--delta", "1e-6").stdout.split())
    assert "not done: runs: more than 100,000,000 numbers in 10,000 runs of 1,000,000,000,000,000 users" in endless


def test_own_classes():
    Path("mine.py").write_text(OWN)
    asked = ["-p", "epsilon=1", "-n", "3", "--eps", "0.3", "--trials", "1000"]
    assert ok("audit", "mine.py:Stay", *asked).stdout.startswith("Stay(epsilon=1)")
    liar = call("audit", "mine.py:Liar", *asked)
    assert liar.exit_code == 1
    assert "runs " in liar.stdout
    assert "mine.py:Crash cannot be audited: ZeroDivisionError: no luck (" in refused("audit", "mine.py:Crash", *asked)
    every = ok(
        "audit", "shufflesim.protocols:BallsIntoBins", "-n", "4", "--eps", "2", "--trials", "100", "--out", "out", "--json"
    )
    assert [one["subject"] for one in json.loads(every.stdout)] == [repr(x) for x in catalogue.find("balls-into-bins").examples()]
    assert sorted(p.name for p in Path("out").glob("*.png")) == ["audit-1.png", "audit-2.png", "audit-3.png"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["audit"], "one NAME or MODULE:CLASS must be given, or --all, got none"),
        (["audit", "grr", "rr"], "one NAME or MODULE:CLASS must be given, or --all, got grr, rr"),
        (["audit", "grr", "--eps", "1"], "-n, the number of users, must be given, got none"),
        ([*ONE], "exactly one of --eps and --delta must be given, got none"),
        ([*ONE, "--eps", "1", "--delta", "0.1"], "exactly one of --eps and --delta must be given, got both"),
        ([*ONE, "--eps", "-1"], "eps must be a finite number >= 0, got -1.0"),
        ([*ONE, "--delta", "2"], "delta must be in (0, 1), got 2.0"),
        ([*ONE, "--eps", "1", "--bound", "lower"], "bound must be an upper bound, got 'lower'"),
        ([*ONE, "--eps", "1", "--others", "7"], "others must be 'worst' or a value of Categories(d=3), got 7"),
        ([*ONE, "--eps", "1", "--trials", "0"], "trials must be an integer in [100, 100000000], got 0"),
        ([*ONE, "--eps", "1", "--confidence", "1"], "confidence must be in (0, 1), got 1.0"),
        ([*ONE, "--eps", "1", "--seed", "-1"], "seed must be an integer >= 0, got -1"),
        ([*ONE, "--eps", "1", "--workers", "2"], "--workers must come with --all, got 2"),
        ([*ONE, "--eps", "1", "--out", ""], "must be the name of a folder, got ''"),
        (["audit", "gr", "-n", "3", "--eps", "1"], "mechanism must be a known name, got 'gr'; did you mean 'grr'?"),
        (["audit", "mine.py:Stay", "-n", "3", "--eps", "1"], "must name a file that exists, got 'mine.py'"),
        (["audit", "--all"], "--all must come with --out, the folder for the results, got none"),
        (["audit", "--all", "-n", "3", "--out", "out"], "--all must come without -n, got both"),
        (["audit", "--all", "--bound", "published", "--out", "out"], "--all must come without --bound, got both"),
        (["audit", "--all", "gr", "--out", "out"], "names must be in the catalogue, got 'gr'; did you mean 'grr'?"),
        (["audit", "--all", "rr", "--delta", "0", "--out", "out"], "delta must be in (0, 1), got 0.0"),
        (["audit", "--all", "rr", "--trials", "0", "--out", "out"], "trials must be an integer >= 100, got 0"),
        (["audit", "--all", "rr", "--workers", "0", "--out", "out"], "workers must be an integer >= 1, got 0"),
    ],
)
def test_refusals(args, message):
    assert message in refused(*args)


def test_a_task_gives_a_row_a_bound():
    plan = tasks(["grr"])
    assert {task.n for task in plan} == {3, *(10**k for k in range(1, 9))}
    few = next(task for task in plan if task.index == 1 and task.n == 3)
    sound, published = few.rows()
    assert (sound["bound"], sound["verdict"], sound["way"]) == ("sound", "consistent", "enumeration")
    assert (published["bound"], published["verdict"]) == ("published", "violated")
    assert published["low"] > published["claimed"]
    assert published["eps_ratio"] == pytest.approx(published["eps"] / published["eps_claimed"])
    assert float(ss.epsilon(GRR(np.log(3), 3), 3, published["low"], bound="published")) == published["eps_claimed"]
    (compared,) = next(task for task in plan if task.n == 1000).rows()
    assert compared["sound"] >= compared["lower"] > 0
    many = next(task for task in plan if task.index == 0 and task.n == 10**4).rows()
    assert [row["verdict"] for row in many[:2]] == ["consistent", "violated"]
    assert 1 < many[1]["eps_ratio"] < 1.001


def test_the_beta_in_print_has_a_row():
    plan = [task for task in tasks(["sampling-rappor"]) if task.index == 0 and task.n == 10**4]
    found = {row["bound"]: row for row in plan[0].rows()}
    assert found["sound"]["verdict"] == "consistent"
    assert found["published beta"]["verdict"] == "violated"
    assert found["published beta"]["eps_ratio"] > 1.1
    assert not any("published beta" in task.bounds for task in tasks(["grr"]))


def test_what_is_there_is_not_done_again(tmp_path):
    plan = [task for task in tasks(["uniform-coins"]) if task.index == 0]
    steps: list[int] = []
    first = survey(plan, tmp_path, progress=steps.append)
    assert steps == list(range(len(plan) + 1))
    again: list[int] = []
    assert survey(plan, tmp_path, progress=again.append) == first
    assert again == [len(plan)]
    path = tmp_path / ROWS_FILE
    lines = path.read_text().splitlines()
    # A line that was cut off is done again, and the next one does not stick to it.
    path.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    assert survey(plan, tmp_path) == first
    assert len(path.read_text().splitlines()) == len(lines) + 1
    assert len({task.key for task in plan}) == len(plan)
    assert Task(**{**plan[0].__dict__, "seed": 1}).key != plan[0].key


def start(out, *names, **streams):
    # A process in the background may have been started with interrupts ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from shufflesim.cli import main; main()"
    command = [sys.executable, "-c", code, "audit", "--all", *(names or ["uniform-coins"])]
    command += ["--workers", "2", "--trials", "100", "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True, **streams)


def test_an_interrupted_survey_ends_at_once_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "out"
    process = start(out, "local-hash", "k-subset", stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while not (out / ROWS_FILE).exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # As a terminal does it: all processes of the group.
    os.killpg(process.pid, signal.SIGINT)
    message = process.communicate(timeout=300)[1].decode()
    assert process.returncode == 130
    assert message == f"shufflesim: interrupted; the same command goes on from what is in {str(out)!r}\n"


def test_a_killed_survey_goes_on_where_it_was_with_any_number_of_workers(tmp_path):
    out, whole = tmp_path / "out", tmp_path / "whole"
    process = start(out)
    deadline = time.monotonic() + 300
    while not (out / ROWS_FILE).exists() or len((out / ROWS_FILE).read_text().splitlines()) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = (out / ROWS_FILE).read_text()
    assert not (out / "audit.csv").exists()
    assert start(out).wait() == 0
    assert (out / ROWS_FILE).read_text().startswith(kept)
    plan = tasks(["uniform-coins"], trials=100)
    assert len((out / ROWS_FILE).read_text().splitlines()) in (len(plan), len(plan) + 1)
    whole.mkdir()
    save(survey(plan, whole), whole)
    for name in ("audit.csv", "looseness.csv", "audit.html"):
        assert (out / name).read_text() == (whole / name).read_text()
    table = pd.read_csv(out / "audit.csv")
    assert not table[["name", "subject", "n", "bound"]].duplicated().any()
    assert len(table) == 3 * 4 * 2
    assert pd.read_csv(out / "looseness.csv")["n"].tolist() == [10**k for k in range(1, 9)]
    page = (out / "audit.html").read_text()
    assert "data:image/png;base64," in page
    assert "UniformCoins(coins=1)" in page
    assert "http" not in page


@dataclass(frozen=True)
class Bold(GRR):
    """Declares less than is true, and has no law that says so."""

    @property
    def amplification(self):
        return ss.VariationRatio.ldp(self.epsilon, 0.1 * super().amplification.beta)

    def groups(self):
        return ()

    @classmethod
    def examples(cls):
        yield cls(1.0, 3)


@dataclass(frozen=True)
class Broken(GRR):
    def claims(self, crowd):
        raise RuntimeError("no luck")

    @classmethod
    def examples(cls):
        yield cls(1.0, 3)


@pytest.mark.parametrize(("cls", "verdict"), [(Bold, "violated"), (Broken, "error")])
def test_a_sound_claim_that_is_violated_is_a_failure(monkeypatch, cls, verdict):
    monkeypatch.setattr(catalogue, "mechanisms", lambda: {"mine": cls})
    monkeypatch.setattr(catalogue, "protocols", dict)
    result = call("audit", "--all", "--trials", "100", "--out", "out")
    assert result.exit_code == 1
    assert f"{cls.__name__}(epsilon=1.0, d=3), n = 3, sound: {verdict}" in result.stderr
    assert verdict in result.stdout
    assert f'<td class="bad">{verdict}' in Path("out/audit.html").read_text()
