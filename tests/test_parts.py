"""One run by several processes, or by a cluster: the same result, also if a worker is killed or a run is cut off."""

import importlib
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster
from pyarrow import dataset, parquet
from threadpoolctl import threadpool_limits

import shufflesim as ss
from shufflesim import _cluster, _processes, parts, simulation, sums
from shufflesim._resumable import resume
from shufflesim.cli import main
from shufflesim.empirical import survey
from shufflesim.mechanisms import GRR, Laplace, Piecewise, WitchHat
from shufflesim.paper import PIECES
from shufflesim.paper.piece import Case
from shufflesim.population import Received
from shufflesim.protocols import RecursiveSum, SingleMessage

from .cli_helpers import ok, refused

BLOCK, USERS = 64, 30_000
# Other clusters may run on this machine.
QUIET = {"dashboard_address": ":0"}
SETTINGS = {"delta": 1e-6, "seed": 3}
COMMAND = ["run", "grr", "-p", "epsilon=1", "--delta", "1e-6", "--column", "code", "--data", "data"]
EXPERIMENT = {
    "seed": 1,
    "n": 500,
    "delta": 1e-6,
    "repeats": 2,
    "data": [{"generator": "zipf", "d": 4}],
    "protocol": [{"name": "grr", "epsilon": [1.0, 2.0]}],
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr(simulation, "BLOCK", BLOCK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(_cluster, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(_cluster, "LOOK_SECONDS", 0.1)


@pytest.fixture
def table(tmp_path):
    """In files whose ends, and whose row groups, are no ends of blocks."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, USERS).astype(np.int8)
    found = pd.DataFrame({"code": codes, "label": np.array(list("edcba"))[codes], "x": rng.uniform(-1, 1, USERS)})
    (tmp_path / "data").mkdir()
    ends = [0, 7001, 7001, 20_000, USERS]
    for number, (start, stop) in enumerate(itertools.pairwise(ends)):
        found.iloc[start:stop].to_parquet(tmp_path / f"data/{number}.parquet", row_group_size=999)
    return found


@pytest.fixture(scope="module")
def cluster():
    """Two workers of one thread in this process, behind an address."""
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", **QUIET) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster, set_as_default=False) as made:
        yield made


def same(first, second):
    """Bit for bit."""
    for name in ("truth", "estimate", "variance", "estimated_variance", "aggregate"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
    assert (first.n, first.messages, vars(first.received)) == (second.n, second.messages, vars(second.received))
    pd.testing.assert_frame_equal(first.estimates, second.estimates, check_exact=True)


def sources(table):
    table[["x"]].to_csv("x.csv", index=False)
    return [
        (Laplace(1.0, -1.0, 1.0), table["x"]),
        (Laplace(1.0, -1.0, 1.0), ss.Stream("data", "x")),
        (Laplace(1.0, -1.0, 1.0), ss.Stream(["x.csv"])),
        (Laplace(1.0, -1.0, 1.0), ss.Stream(dataset.dataset("data"), "x")),
        (Laplace(1.0, -1.0, 1.0), ss.Stream(dataset.dataset("data").filter(dataset.field("code") >= 0), "x")),
        (Laplace(1.0, -1.0, 1.0), ss.Stream("data", "x", dropna=True)),
        (GRR(1.0, 5), ss.categorical(ss.Stream("data", "label"), list("abcde"))),
        (GRR(1.0, 5), ss.categorical(ss.Stream(dataset.dataset("data"), "label"))),
    ]


# Sums


@pytest.mark.parametrize("number", [1, 2, 5, 8, 31, 64, 77])
def test_a_sum_does_not_depend_on_who_has_taken_which_part(number):
    values = np.random.default_rng(number).lognormal(0, 9, (number, 3))
    whole, shared = sums.Tree(), sums.Tree()
    for value in values:
        whole.add(value)
    for start in range(0, number, 8):
        part = sums.Tree()
        for value in values[start : start + 8]:
            part.add(value)
        for level, value in part.nodes:
            shared.add(value, level)
    assert shared.value.tobytes() == whole.value.tobytes()
    assert whole.value == pytest.approx(values.sum(axis=0), rel=1e-12)


def test_integers_are_summed_at_once():
    tree = sums.Tree()
    for value in range(77):
        tree.add(np.array([value]))
    assert len(tree.nodes) == 1
    assert tree.value.tolist() == [76 * 77 // 2]


def test_sums_are_kept_exactly(tmp_path):
    made = sums.Sums(users=7, messages=2.0**40 + 1, crowd=Received(6, 2, 1))
    for value in (0.1, 0.2, 0.3):
        made.total.add(np.array([value, -value]))
    made.aggregate.add(np.array(2**62))
    made.histogram.add(np.array([0.5, 0.5, 2.0]))
    made.save(tmp_path, "a")
    found = sums.Sums.load(tmp_path, "a")
    assert [level for level, _ in found.total.nodes] == [1, 0]
    assert found.total.value.tobytes() == made.total.value.tobytes()
    assert int(found.aggregate.value) == 2**62
    assert [x.tolist() for x in found.histogram.groups()] == [[0.5, 2.0], [2, 1]]
    assert (found.users, found.messages, vars(found.crowd)) == (made.users, made.messages, vars(made.crowd))
    whole = (tmp_path / "part-a.npz").read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        (tmp_path / "part-a.npz").write_bytes(whole[:cut])
        assert sums.Sums.load(tmp_path, "a") is None
    changed = whole.replace(np.array([0.5, 2.0]).tobytes(), np.array([0.5, 3.0]).tobytes())
    assert changed != whole
    (tmp_path / "part-a.npz").write_bytes(changed)
    assert sums.Sums.load(tmp_path, "a") is None
    (tmp_path / "part-a.npz").write_bytes(whole)
    assert sums.Sums.load(tmp_path, "a") is not None
    (tmp_path / "part-b.npz").write_bytes(whole)
    assert sums.Sums.load(tmp_path, "b") is None


@pytest.mark.parametrize("protocol", [Piecewise(1.0), WitchHat(1.0), RecursiveSum((4, 10), (0.1, 0.4), -1.0, 1.0)])
def test_threads_of_blas_do_not_change_a_sum(protocol):
    protocol = protocol if isinstance(protocol, ss.Protocol) else SingleMessage(protocol)
    values = protocol.domain.validate(protocol.domain.example(60_000, np.random.default_rng(1)))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            run = parts.Run(protocol, np.random.SeedSequence(1), len(values), "users", None).sums([values])
            groups = protocol.domain.grouped_total(values, np.full(len(values), 3))
            found.append([array.tobytes() for array in (run.total.value, run.aggregate.value, groups)])
    assert found[0] == found[1]


# Processes


def test_processes_give_the_same_result(table):
    for protocol, data in sources(table)[:2]:
        same(ss.simulate(protocol, data, **SETTINGS), ss.simulate(protocol, data, workers=2, **SETTINGS))


def test_an_error_in_a_process_is_that_of_the_run(table):
    table.assign(code=np.where(np.arange(USERS) == 25_000, 9, table["code"])).to_parquet("bad.parquet", row_group_size=999)
    said = []
    for workers in (1, 2):
        with pytest.raises(ValueError, match=r"got 9 at position 25000") as caught:
            ss.simulate(GRR(1.0, 5), ss.Stream("bad.parquet", "code"), workers=workers, **SETTINGS)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_what_cannot_be_sent(client):
    made = Opaque(1.0, 5, threading.Lock())
    for options in ({}, {"repeats": 3}):
        with pytest.raises(ValueError, match="workers must be 1 for what cannot be sent to a process, got 2 "):
            ss.simulate(made, [0, 1], workers=2, **options, **SETTINGS)
        with pytest.raises(ValueError, match=r"what is sent to a cluster must be .* pickled, got cannot pickle '_thread\.lock'"):
            ss.simulate(made, [0, 1], client=client, **options, **SETTINGS)


def test_there_are_no_more_processes_than_processors(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert [*_processes.called(((name, os.getpid) for name in "ab"), 10**9)] == [("a", os.getpid()), ("b", os.getpid())]


def test_processes_end_with_the_one_that_started_them(tmp_path):
    """Also if it is killed."""
    Path("own.py").write_text(
        "def say(file):\n    import os, time\n    open(file, 'a').write(f'{os.getpid()} ')\n    time.sleep(60)\n"
    )
    code = """
        from functools import partial
        from own import say
        from shufflesim._processes import called
        print([*called(((k, partial(say, "pids")) for k in range(2)), 2)])
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=environment) as process:
        wait_for(lambda: os.path.exists("pids") and Path("pids").read_text())
        process.kill()
    pid = int(Path("pids").read_text().split()[0])
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text())


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# A cluster


def test_a_cluster_gives_the_same_result(table, client):
    seen = []
    for protocol, data in sources(table):
        whole = ss.simulate(protocol, data, **SETTINGS)
        same(whole, ss.simulate(protocol, data, client=client, progress=seen.append, **SETTINGS))
        assert seen[-1] == USERS
        assert seen == sorted(seen)
        seen.clear()


def test_numbers_that_are_counted(table, client):
    table.assign(x=table["x"].round(1)).to_parquet("rounded.parquet", row_group_size=999)
    protocol, data = RecursiveSum((4, 10), (0.1, 0.4), -1.0, 1.0), ss.Stream("rounded.parquet", "x")
    settings = {**SETTINGS, "method": "counts"}
    same(ss.simulate(protocol, data, **settings), ss.simulate(protocol, data, client=client, **settings))


def test_a_client_stays_connected(table, cluster, client, monkeypatch, caplog):
    """Also if what sums of sums are made from is given up, which a scheduler has forgotten in part."""
    monkeypatch.setattr(simulation, "BLOCK", 8)

    def stop(users):
        if users > USERS / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ss.simulate(GRR(1.0, 5), ss.Stream("data", "code"), client=client, progress=stop, **SETTINGS)
    wait_for(lambda: not cluster.scheduler.tasks)
    assert client.status == "running"
    # A client that was dropped connects again: only the log tells.
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_nothing_stays_on_a_cluster(table, cluster, client):
    def held():
        return [*cluster.scheduler.tasks]

    bad = table["code"].to_numpy().copy()
    bad[[9000, 20_000]] = 9
    with pytest.raises(ValueError, match=r"got 9 at position 9000$"):
        ss.simulate(GRR(1.0, 5), iter(np.array_split(bad, 7)), client=client, **SETTINGS)
    table.assign(code=bad).to_parquet("bad.parquet", row_group_size=999)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"got 9 at position 9000$") as caught:
            ss.simulate(GRR(1.0, 5), ss.Stream("bad.parquet", "code"), client=client, **SETTINGS)
    wait_for(lambda: not held())
    assert caught
    most = []
    ss.simulate(GRR(1.0, 5), table["code"], client=client, progress=lambda _: most.append(len(held())), **SETTINGS)
    # The scheduler keeps the values of what is under way, and no others.
    assert max(most) <= 2 * _cluster.AHEAD + 1
    wait_for(lambda: not held())


def test_some_row_groups_of_a_file(table, client):
    whole = dataset.dataset("data/3.parquet")
    chosen = [fragment.subset(row_group_ids=[0, 2, 5]) for fragment in whole.get_fragments()]
    some = dataset.FileSystemDataset(chosen, whole.schema, whole.format, whole.filesystem)
    data = ss.Stream(some, "code")
    assert data.users == 3 * 999
    same(ss.simulate(GRR(1.0, 5), data, **SETTINGS), ss.simulate(GRR(1.0, 5), data, client=client, **SETTINGS))


def test_a_population(table, client):
    population = ss.Population(dropout=0.1, faulty=0.05, attack="maximal-gain", target=2)
    data = ss.Stream("data", "code")
    options = {**SETTINGS, "population": population}
    first, second = ss.simulate(GRR(1.0, 5), data, **options), ss.simulate(GRR(1.0, 5), data, client=client, **options)
    assert first.damage.equals(second.damage)
    assert first.aggregate.tobytes() == second.aggregate.tobytes()


def test_the_same_door(table, client, tmp_path):
    """Repeats, comparisons, sweeps, audits and figures."""
    data = ss.Stream("data", "code")
    for values in (table["code"].to_numpy(), data):
        alone = ss.simulate(GRR(1.0, 5), values, repeats=5, **SETTINGS)
        assert alone.table.equals(ss.simulate(GRR(1.0, 5), values, repeats=5, client=client, **SETTINGS).table)
    made = [GRR(1.0, 5), ss.mechanisms.OUE(1.0, 5)]
    ranked = [ss.compare(made, None, 1e-6, 0.1, data=data, seed=1, client=who) for who in (None, client)]
    assert ranked[0].equals(ranked[1])
    swept = [ss.sweep(EXPERIMENT, tmp_path / name, client=who) for name, who in (("a", None), ("b", client))]
    assert swept[0].equals(swept[1])
    plan = [*survey.tasks(("rr",), trials=100)[:2], *(Case(PIECES["fig3"], case) for case in PIECES["fig3"].cases[:3])]
    done = []
    for name, who in (("one", None), ("cluster", client)):
        (tmp_path / name).mkdir()
        done.append([*resume(plan, tmp_path / name, client=who)])
        assert [*resume(plan, tmp_path / name)] == done[-1]
    assert json.dumps(done[0]) == json.dumps(done[1])


def test_a_worker_is_killed(table):
    expected = ss.simulate(Laplace(1.0, -1.0, 1.0), ss.Stream("data", "x"), **SETTINGS)
    killed = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **QUIET) as made,
        Client(made, set_as_default=False) as client,
    ):
        pids = client.run(os.getpid)

        def kill(users):
            if not killed:
                killed.append(users)
                os.kill(min(pids.values()), signal.SIGKILL)

        found = ss.simulate(Laplace(1.0, -1.0, 1.0), ss.Stream("data", "x"), client=client, progress=kill, **SETTINGS)
        same(found, expected)
        assert killed[0] < USERS / 2

        another_version(client)


def another_version(client):
    """Here, than on the workers."""
    there = _cluster.here()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_cluster, "__version__", "9.9")
        _cluster.here.cache_clear()
        with pytest.raises(ValueError, match=r"the versions of this process, shufflesim 9\.9 ") as caught:
            ss.simulate(GRR(1.0, 5), ss.Stream("data", "code"), client=client, **SETTINGS)
    _cluster.here.cache_clear()
    assert f"got {there} at tcp://" in str(caught.value)


# Bad input of a cluster


def test_bad_clients(client, impatient):
    for bad in ("tcp://127.0.0.1:8786", object(), 5):
        with pytest.raises(ValueError, match=r"client must be a dask\.distributed\.Client that is not asynchronous, got "):
            ss.simulate(GRR(1.0, 5), [0, 1], client=bad, **SETTINGS)
    with pytest.raises(ValueError, match="workers must be 1 with a client, whose cluster has its own, got 2"):
        ss.simulate(GRR(1.0, 5), [0, 1], client=client, workers=2, **SETTINGS)
    with LocalCluster(n_workers=0, processes=False, **QUIET) as empty, Client(empty, set_as_default=False) as idle:
        with pytest.raises(ValueError, match=r"the scheduler must have a worker within 0\.5 s, got none at "):
            ss.simulate(GRR(1.0, 5), [0, 1], client=idle, **SETTINGS)
        with pytest.raises(ValueError, match=r"the scheduler must have a worker within 0\.5 s"):
            ss.sweep(EXPERIMENT, "results", client=idle)
        assert not os.path.exists("results")
    with pytest.raises(ValueError, match="client must be connected to a scheduler, got one that is closed"):
        ss.simulate(GRR(1.0, 5), [0, 1], client=idle, **SETTINGS)


@pytest.mark.parametrize("end", ["workers", "scheduler"])
def test_a_cluster_that_falls_apart(end, table, impatient):
    made = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **QUIET)
    client = Client(made, set_as_default=False)

    def fall(users):
        made.scale(0) if end == "workers" else made.close()

    with pytest.raises(RuntimeError, match=r"the scheduler (has had no worker for 0\.5 s|is gone, or has forgotten its tasks)"):
        ss.simulate(GRR(1.0, 5), ss.Stream("data", "code"), client=client, progress=fall, **SETTINGS)
    client.close()
    made.close()


def test_what_workers_cannot_read(table, client, monkeypatch):
    stream = ss.Stream("data", "code")
    assert stream.users == USERS
    os.rename("data/3.parquet", "data/elsewhere")
    with pytest.raises(ValueError, match=r"cannot read '.*data/3\.parquet': No such file or directory \(on the worker tcp://"):
        ss.simulate(GRR(1.0, 5), stream, client=client, **SETTINGS)


@pytest.mark.usefixtures("impatient", "no_picture", "table")
def test_command_line(cluster):
    address = cluster.scheduler_address
    ok(*COMMAND, "--seed", 3, "--out", "alone")
    ok(*COMMAND, "--seed", 3, "--out", "together", "--scheduler", address)
    ok(*COMMAND, "--seed", 3, "--out", "two", "--workers", 2)
    alone = pd.read_parquet("alone/estimates.parquet")
    for other in ("together", "two"):
        assert alone.equals(pd.read_parquet(f"{other}/estimates.parquet"))
        assert not os.path.exists(f"{other}/unfinished")
    assert "--workers must be left out with --scheduler" in refused(*COMMAND, "--workers", 2, "--scheduler", address)
    assert "--scheduler must come with --all" in refused(
        "audit", "grr", "-p", "epsilon=1", "-n", 4, "--eps", 1, "--scheduler", address
    )
    for bad, why in (("nonsense", "missing port"), ("http://a:1", "unknown address scheme"), ("tcp://127.0.0.1:9", "")):
        said = refused(*COMMAND, "--scheduler", bad)
        assert f"the address of a Dask scheduler that answers within 0.5 s, such as tcp://host:8786, got {bad!r}" in said
        assert why in said


# Going on


def damage(path):
    """All columns of a row group in the middle; gives what was there."""
    whole, about = path.read_bytes(), parquet.ParquetFile(path).metadata.row_group(5)
    content = bytearray(whole)
    for column in map(about.column, range(about.num_columns)):
        start = column.dictionary_page_offset or column.data_page_offset
        content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    return whole


@dataclass
class Count:
    """Parts that have been done."""

    done: int = 0


@pytest.fixture
def calls(monkeypatch):
    """Counts the parts that are done in this process."""
    count, do = Count(), parts.Run.sums

    def counted(run, blocks, first=0):
        found = do(run, blocks, first)
        count.done += 1
        return found

    monkeypatch.setattr(parts.Run, "sums", counted)
    return count


@pytest.mark.parametrize("who", ["one", "cluster"])
def test_a_damaged_file_loses_nothing_that_was_computed(who, table, tmp_path, calls, client):
    expected = ss.simulate(Laplace(1.0, -1.0, 1.0), ss.Stream("data", "x"), **SETTINGS)
    every = -(-USERS // (BLOCK * parts.PART_BLOCKS))
    options = {**SETTINGS, "folder": tmp_path / "kept", "client": client if who == "cluster" else None}
    (tmp_path / "kept").mkdir()
    calls.done = 0
    whole = damage(tmp_path / "data/3.parquet")
    with pytest.raises(ValueError, match=r"cannot read '.*data/3\.parquet, row group \d+'"):
        ss.simulate(Laplace(1.0, -1.0, 1.0), ss.Stream("data", "x"), **options)
    kept = len([*(tmp_path / "kept").iterdir()])
    assert 5 <= kept <= calls.done < every
    (tmp_path / "data/3.parquet").write_bytes(whole)
    seen = []
    calls.done = 0
    same(ss.simulate(Laplace(1.0, -1.0, 1.0), ss.Stream("data", "x"), progress=seen.append, **options), expected)
    # Of what was kept nothing is done again but for parts of the file that was replaced, which have another name now.
    assert calls.done < every
    assert len([*(tmp_path / "kept").iterdir()]) == kept + calls.done
    assert seen[-1] == USERS
    calls.done = 0
    same(ss.simulate(Laplace(1.0, -1.0, 1.0), ss.Stream("data", "x"), **options), expected)
    assert calls.done == 0


def test_what_is_kept_is_not_taken_for_another_run(table, tmp_path, calls):
    (tmp_path / "kept").mkdir()
    base = {"protocol": GRR(1.0, 5), "data": ss.Stream("data", "code"), "folder": "kept", **SETTINGS}
    ss.simulate(**base)
    every = -(-USERS // (BLOCK * parts.PART_BLOCKS))
    others = [
        {"protocol": GRR(2.0, 5)},
        {"seed": 4},
        {"seed": np.random.SeedSequence(3, spawn_key=(1,))},
        {"method": "counts"},
        {"population": ss.Population(dropout=0.1)},
        {"data": ss.Stream("data", "x"), "protocol": Laplace(1.0, -1.0, 1.0)},
        {"data": ss.categorical(ss.Stream("data", "label"), list("abcde"))},
        {"data": ss.categorical(ss.Stream("data", "label"), list("edcba"))},
        {"data": table["code"].to_numpy()},
        {"data": table["code"].to_numpy()[::-1]},
        {"data": ss.Stream(dataset.dataset("data"), "code")},
    ]
    for other in others:
        calls.done = 0
        same(ss.simulate(**{**base, **other}), ss.simulate(**{**base, **other, "folder": None}))
        # A dataset and an array of the same values are the same parts.
        if "dataset" not in repr(other):
            assert calls.done > every / 2, other
    calls.done = 0
    same(ss.simulate(**{**base, "delta": 1e-7}), ss.simulate(**{**base, "delta": 1e-7, "folder": None}))
    assert calls.done == 1


def test_what_is_kept_knows_the_order_of_categories(tmp_path):
    (tmp_path / "data").mkdir()
    codes = np.random.default_rng(0).integers(0, 3, 4 * BLOCK * parts.PART_BLOCKS)
    half = len(codes) // 2

    def write(name, codes, order):
        pd.DataFrame({"x": pd.Categorical.from_codes(codes, list(order))}).to_parquet(f"data/{name}.parquet")

    write("a", codes[:half], "abc")
    write("b", codes[half:], "abc")
    (tmp_path / "kept").mkdir()
    ss.simulate(GRR(1.0, 3), ss.Stream("data", "x"), folder="kept", **SETTINGS)
    write("a", codes[:half], "cab")
    for folder in (None, "kept"):
        with pytest.raises(ValueError, match="the same columns and categories in all batches"):
            ss.simulate(GRR(1.0, 3), ss.Stream("data", "x"), folder=folder, **SETTINGS)


OWN = """
from dataclasses import dataclass
from shufflesim.mechanisms import GRR
import {helper}

@dataclass(frozen=True)
class Base(GRR):
    def randomize(self, values, rng):
        return {helper}.changed(super().randomize(values, rng))
"""


def test_what_is_kept_knows_the_code_of_a_class(tmp_path, monkeypatch, calls):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "kept").mkdir()
    Path("a_helper.py").write_text("def changed(x): return x\n")
    Path("a_base.py").write_text(OWN.format(helper="a_helper"))
    Path("a_class.py").write_text("import a_base\nclass Own(a_base.Base): pass\n")

    def run(made):
        calls.done = 0
        ss.simulate(made, [0, 1, 2], folder="kept", **SETTINGS)
        return calls.done

    own = importlib.import_module("a_class").Own
    assert (run(own(1.0, 3)), run(own(1.0, 3)), run(Gift(1.0, own(1.0, 3)))) == (1, 0, 1)
    for file in ("a_helper.py", "a_base.py", "a_class.py"):
        with open(file, "a") as opened:
            opened.write("# Changed.\n")
        assert (run(own(1.0, 3)), run(own(1.0, 3)), run(Gift(1.0, own(1.0, 3)))) == (1, 0, 1)
    given = own(1.0, 3)
    object.__setattr__(given, "more", 1)
    assert run(given) == 1
    space = {"__name__": "__main__"}
    exec(OWN.format(helper="math"), space)  # As a notebook has it.
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(sys.modules["__main__"], "__file__", raising=False)
        with pytest.raises(ValueError, match=r"what is kept must be of a class that is defined in a file, got .* of __main__$"):
            run(space["Base"](1.0, 3))


def test_a_part_that_cannot_be_written_leaves_nothing(table, tmp_path, full_disk):
    (tmp_path / "kept").mkdir()
    with full_disk(), pytest.raises(OSError, match="File too large"):
        ss.simulate(GRR(1.0, 1000), ss.Stream("data", "code"), folder="kept", **SETTINGS)
    assert not [*(tmp_path / "kept").iterdir()]


def test_bad_folders(table, tmp_path):
    for bad in ("nowhere", "", "data/0.parquet"):
        with pytest.raises(ValueError, match="folder must be an existing folder, and for a single run, got "):
            ss.simulate(GRR(1.0, 5), [0, 1], folder=bad, **SETTINGS)
    with pytest.raises(ValueError, match=r"folder must be .* and repeats=2"):
        ss.simulate(GRR(1.0, 5), [0, 1], folder=tmp_path, repeats=2, **SETTINGS)


@dataclass(frozen=True)
class Gift(GRR):
    """Has another one as a parameter."""

    d: int = 3
    inner: GRR | None = None

    def __init__(self, epsilon, inner):
        super().__init__(epsilon, 3)
        object.__setattr__(self, "inner", inner)


@dataclass(frozen=True)
class Opaque(GRR):
    """Has a parameter of which nothing exact can be said."""

    what: object = None


def test_what_cannot_be_kept(tmp_path):
    with pytest.raises(ValueError, match=r"what is kept must be made of .* dataclasses of them, got <function"):
        ss.simulate(Opaque(1.0, 5, lambda: None), [0, 1], folder=tmp_path, **SETTINGS)


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_command_says_how_it_goes_on(command, table, tmp_path):
    name = "compare.csv" if command == "compare" else "estimates.csv"
    command = COMMAND if command == "run" else ["compare", "grr", "oue", "--epsilon", "0.1", *COMMAND[4:]]
    # Damaged later than where categories are looked for: those of the file are public.
    (tmp_path / "domain.txt").write_text("0\n1\n2\n3\n4\n")
    command = [*command, "--domain", "domain.txt", "--out", "out"]
    whole = damage(tmp_path / "data/3.parquet")
    said = refused(*command)
    assert "data/3.parquet, row group" in said
    assert "what was done is kept in 'out/unfinished': the same command with --seed " in said
    seed = said.partition("--seed ")[2].split()[0]
    assert [*(tmp_path / "out/unfinished").iterdir()]
    (tmp_path / "data/3.parquet").write_bytes(whole)
    ok(*command, "--seed", seed)
    assert not (tmp_path / "out/unfinished").exists()
    ok(*command[:-1], "fresh", "--seed", seed)
    assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


def test_an_interrupted_command_says_how_it_goes_on(table, tmp_path, monkeypatch):
    do = parts.Run.sums

    def interrupted(run, blocks, first=0):
        if first > 100:
            raise KeyboardInterrupt
        return do(run, blocks, first)

    with monkeypatch.context() as patch:
        patch.setattr(parts.Run, "sums", interrupted)
        result = CliRunner().invoke(main, [*COMMAND, "--seed", "5", "--out", "out"])
    assert result.exit_code == 130
    assert result.stderr.endswith("in 'out/unfinished': the same command with --seed 5 goes on from there\n")
    before = {path.name for path in (tmp_path / "out/unfinished").iterdir()}
    assert len(before) >= 3
    ok(*COMMAND, "--seed", "5", "--out", "out")
    assert not (tmp_path / "out/unfinished").exists()


# Files


@pytest.fixture
def full_disk():
    """No file can grow beyond a few kilobytes, which pictures do."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    @contextmanager
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.mark.parametrize(
    "command",
    [
        COMMAND,
        ["compare", "grr", "--epsilon", "0.1", *COMMAND[4:]],
        ["audit", "grr", "-p", "epsilon=1", "-p", "d=3", "-n", "3", "--eps", "0.5", "--trials", "100"],
    ],
    ids=["run", "compare", "audit"],
)
def test_a_full_disk_leaves_what_is_there(command, table, tmp_path, full_disk):
    folder = tmp_path / "out"
    ok(*command, "--out", "out", "--seed", 1)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with full_disk():
        said = refused(*command, "--out", "out", "--seed", 2)
    assert "must be" in said
    assert said.endswith("File too large\n")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_with_other_data_is_refused(table):
    def said():
        with pytest.raises(ValueError, match=r"source must be a folder with .* and no other data, got ") as caught:
            ss.simulate(GRR(1.0, 5), ss.Stream("data", "code"), **SETTINGS)
        return str(caught.value)

    for name in ("X.PARQUET", "a.csv", "a.CSV.gz"):
        (path := Path("data") / name).write_text("c\n1\n")
        assert repr(str(path)) in said()
        path.unlink()
    Path("data/y=1").mkdir()
    table.to_parquet("data/y=1/a.parquet")
    assert "'data/y=1/a.parquet' (several files can be listed, and pyarrow.dataset.dataset reads" in said()
    os.rename("data/y=1", "data/_y")
    Path("data/README.md").touch()
    Path("data/.a.csv").touch()
    assert ss.Stream("data", "code").users == USERS


def test_compare_tells_how_many_users_are_done(table):
    seen = []
    ss.compare([GRR(1.0, 5), ss.mechanisms.OUE(1.0, 5)], None, 1e-6, 0.1, data=ss.Stream("data", "code"), progress=seen.append)
    assert seen[-1] == 2 * USERS
    assert USERS in seen
    assert seen == sorted(seen)
