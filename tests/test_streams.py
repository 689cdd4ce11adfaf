"""The shuffler's threshold, and the shuffler on disk: uniform, reproducible, bounded in memory, and nothing left behind."""

import errno
import itertools
import os
import signal
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import stats

import shufflesim as ss
from shufflesim import streams
from shufflesim.shuffler import Encoded
from shufflesim.simulation import child

# Of each chi-square test.
FALSE_ALARM = 1e-9
BEFORE = b"what was there before"


@pytest.fixture
def target(tmp_path):
    """A file that exists already, in a folder with nothing else."""
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "shuffled.parquet"
    path.write_bytes(BEFORE)
    return path


def untouched(target):
    return target.read_bytes() == BEFORE and list(target.parent.iterdir()) == [target]


def numbers(rows, first=0):
    return pa.table({"m": np.arange(first, first + rows)})


def shuffled(source, target, column="m", **options):
    assert ss.shuffle_stream(source, target, **{"seed": 1, **options}) == parquet.read_metadata(target).num_rows
    assert list(target.parent.iterdir()) == [target]
    return parquet.read_table(target)[column].to_numpy()


def refused(source, target, **options):
    with pytest.raises(ValueError) as caught:
        ss.shuffle_stream(source, target, **{"seed": 1, **options})
    message = str(caught.value)
    assert "\n" not in message
    assert untouched(target)
    return message


# The threshold


def test_a_batch_is_released_from_the_threshold_on():
    rng = np.random.default_rng(0)
    shuffler = ss.Shuffler(minimum_batch=3)
    assert sorted(shuffler.shuffle(Encoded(np.arange(3)), rng)) == [0, 1, 2]
    with pytest.raises(ValueError, match="minimum_batch must be reached before anything is released, 3, got 2 users"):
        shuffler.shuffle(Encoded(np.arange(2)), rng)


def test_users_count_and_not_their_messages():
    rng = np.random.default_rng(0)
    shuffler = ss.Shuffler(minimum_batch=3)
    assert shuffler.shuffle(Encoded(np.arange(2), np.array([2, 0, 0])), rng).size == 2
    with pytest.raises(ValueError, match="got 2 users"):
        shuffler.shuffle(Encoded(np.arange(9), np.array([4, 5])), rng)
    assert shuffler.permute(np.arange(0), rng).size == 0


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None, "2", float("nan"), 2**63])
def test_bad_thresholds(bad, target):
    with pytest.raises(ValueError, match="minimum_batch must be "):
        ss.Shuffler(bad)
    assert "minimum_batch must be " in refused(numbers(3), target, minimum_batch=bad)


@pytest.mark.parametrize("as_file", [True, False])
def test_the_threshold_of_streams_counts_rows(as_file, tmp_path, target):
    source = tmp_path / "a.parquet"
    parquet.write_table(numbers(10), source)
    source = source if as_file else numbers(10)
    assert "minimum_batch must be reached before anything is released, 1001, got 10 rows" in refused(
        source, target, minimum_batch=1001
    )
    assert shuffled(source, target, minimum_batch=10).size == 10


def test_nothing_is_not_a_batch(tmp_path, target):
    parquet.write_table(numbers(0), tmp_path / "a.parquet")
    assert "before anything is released, 1, got 0 rows" in refused(tmp_path / "a.parquet", target)
    assert "before anything is released, 1, got 0 rows" in refused([numbers(0)], target)
    assert "must have at least one batch, got none" in refused(iter([]), target)


# Uniform


THRESHOLD = stats.chi2.isf(FALSE_ALARM, 23)


def orders_statistic(counts):
    """Chi-square statistic of how often each of the 24 orders of 4 rows was seen."""
    return stats.chisquare([counts[order] for order in itertools.permutations(range(4))]).statistic


def test_all_orders_of_four_rows_are_equally_likely(tmp_path, monkeypatch):
    """With room for two rows, and two files to deal to."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    batches, counts = [numbers(1), numbers(3, first=1)], Counter()
    for seed in range(240):
        ss.shuffle_stream(batches, tmp_path / f"{seed}", seed=seed, memory=2**8, buckets=2)
        counts[tuple(parquet.read_table(tmp_path / f"{seed}")["m"].to_pylist())] += 1
    assert orders_statistic(counts) < THRESHOLD


def quadruples(target):
    """The relative orders of rows 0 to 3, of rows 4 to 7 and so on of one shuffle are independent, and uniform if it is."""
    rows = 24_000
    place = np.argsort(shuffled(numbers(rows), target, memory=2**19, buckets=2))
    return orders_statistic(Counter(map(tuple, np.argsort(place.reshape(-1, 4)).tolist())))


def test_rows_that_are_dealt_twice_are_in_a_uniform_order(target):
    assert quadruples(target) < THRESHOLD


@pytest.mark.parametrize("bits", [0, 9])
def test_equal_keys_are_in_a_uniform_order(bits, target, monkeypatch):
    ended, drawn = np.uint64(streams.KEY_BITS - bits), streams._keys
    monkeypatch.setattr(streams, "_keys", lambda rng, rows: drawn(rng, rows) >> ended << ended)
    assert quadruples(target) < THRESHOLD


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        pytest.param("_order", lambda keys, root: np.arange(keys.size), id="buckets are not sorted"),
        pytest.param("_keys", lambda rng, rows: np.sort(rng.integers(0, 2**64 - 1, rows, np.uint64)), id="keys are sorted"),
    ],
)
def test_the_test_sees_faults(function, fault, target, monkeypatch):
    monkeypatch.setattr(streams, function, fault)
    assert quadruples(target) > THRESHOLD


def test_many_rows_lose_their_order(target):
    """Pearson's correlation of rank and row, and that of neighbours, are normal with variance 1/n."""
    rows = 200_000
    out = shuffled(numbers(rows), target, memory=2**20, buckets=16)
    assert np.array_equal(np.sort(out), np.arange(rows))
    far = stats.norm.isf(FALSE_ALARM / 2) / rows**0.5
    assert abs(np.corrcoef(out, np.arange(rows))[0, 1]) < far
    assert abs(np.corrcoef(out[1:], out[:-1])[0, 1]) < far


# Reproducible


def test_the_order_depends_on_seed_and_rows_alone(tmp_path, target):
    rows, cut = 6_000, 777
    whole = numbers(rows)
    expected = shuffled(whole, target)
    parquet.write_table(whole, tmp_path / "whole.parquet", row_group_size=1_000)
    folder = tmp_path / "parts"
    folder.mkdir()
    for k, start in enumerate(range(0, rows, 2_500)):
        parquet.write_table(whole.slice(start, 2_500), folder / f"{k}.parquet")
    (folder / "notes.txt").write_text("not a table")
    tables = [whole.slice(start, cut) for start in range(0, rows, cut)]
    for source, options in (
        (whole, {"buckets": 128}),
        (tmp_path / "whole.parquet", {}),
        (tmp_path / "whole.parquet", {"memory": 2**15}),
        (str(folder), {"memory": 2**16, "buckets": 1}),
        (tables, {"memory": 2**15, "buckets": 8}),
        (iter(tables[0].to_batches() + tables[1:]), {"buckets": 2}),
        (whole, {"buckets": 4, "seed": np.random.SeedSequence(1)}),
    ):
        assert np.array_equal(shuffled(source, target, **options), expected)
    assert not np.array_equal(shuffled(whole, target, buckets=1, seed=2), expected)
    fresh = [shuffled(whole, target, buckets=1, seed=None) for _ in range(2)]
    assert not np.array_equal(*fresh)


def test_the_order_is_not_that_of_the_noise_with_the_same_seed(target):
    """Users who drew small numbers in a simulation with this seed must not come first: correlations are normal."""
    rows = 10_000
    place = np.argsort(shuffled(numbers(rows), target, seed=5, buckets=1))
    root = np.random.SeedSequence(5)
    for source in (root, child(root, 0)):
        noise = np.random.default_rng(source).random(rows)
        assert abs(np.corrcoef(place, noise)[0, 1]) < stats.norm.isf(FALSE_ALARM / 2) / rows**0.5


def test_progress_comes_to_the_number_of_rows(target):
    seen = []
    shuffled(numbers(10_000), target, memory=2**16, buckets=8, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 10_000
    assert seen[len(seen) // 2] in range(2_000, 8_000)


# Columns


def test_rows_stay_together_and_types_stay_what_they_were(tmp_path, target):
    n = 3_000
    table = pa.table(
        {
            "row": np.arange(n),
            "text": [None if k % 7 == 0 else f"{k}" * (k % 50) for k in range(n)],
            "list": [[k] * (k % 4) for k in range(n)],
            "pair": [{"a": k, "b": str(k)} for k in range(n)],
            "category": pa.chunked_array(
                [pa.array([f"c{k % 5 + first}" for k in range(n // 2)]).dictionary_encode() for first in (0, 3)]
            ),
            "bit": [k % 3 == 0 for k in range(n)],
            "day": pa.array(range(n), pa.date32()),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=n // 2)
    for source in (tmp_path / "a.parquet", table, table.to_batches(max_chunksize=100)):
        order = shuffled(source, target, column="row", memory=2**17, buckets=4)
        assert not np.array_equal(order, np.arange(n))
        out = parquet.read_table(target)
        assert out.schema.equals(table.schema)
        for name in table.column_names:
            assert out[name].to_pylist() == table[name].take(pa.array(order)).to_pylist()


def test_columns_are_chosen_and_the_index_is_not_among_them(tmp_path, target):
    frame = pd.DataFrame({"user": range(100), "m": range(100)}).iloc[[5, 3, 4]]
    frame.to_parquet(tmp_path / "a.parquet")
    assert "__index_level_0__" in parquet.read_schema(tmp_path / "a.parquet").names
    for source in (tmp_path / "a.parquet", parquet.read_table(tmp_path / "a.parquet")):
        shuffled(source, target, columns=["m"])
        schema = parquet.read_schema(target)
        assert schema.names == ["m"]
        assert schema.metadata is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["n"], "columns must name columns of the source, got 'n'; known: m, twice, twice"),
        (["twice"], "got 'twice', which is there 2 times"),
        (["m", "m"], "columns must be names of columns, each once, got ['m', 'm']"),
        ("m", "each once, got 'm'"),
        ([], "each once, got []"),
        ([0], "each once, got [0]"),
        (5, "each once, got 5"),
    ],
)
def test_bad_columns(columns, message, target):
    table = pa.table([[1], [2], [3]], names=["m", "twice", "twice"])
    assert message in refused(table, target, columns=columns)


def test_columns_that_cannot_be_written(target):
    nothing = pa.table({"m": pa.array([{}, {}], pa.struct([]))})
    assert "Parquet can hold, got (m: struct<>)" in refused(nothing, target)
    views = pa.table({"m": pa.array(["a"], pa.string_view())})
    assert "Arrow can reorder and Parquet can hold, got (m: string_view)" in refused(views, target)
    assert "at least one column, got none" in refused(pa.table({}), target)


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"seed": 1.5}, "seed must be an integer >= 0, got 1.5"),
        ({"memory": 0}, "memory must be an integer >= 1, got 0"),
        ({"memory": "256MB"}, "memory must be an integer >= 1, got '256MB'"),
        ({"memory": 127}, "memory must be at least 8 times the largest row with its key (16 bytes), got 127"),
        ({"buckets": 3}, "buckets must be a power of two, got 3"),
        ({"buckets": 0}, "buckets must be an integer in [1, 256], got 0"),
        ({"buckets": 512}, "buckets must be an integer in [1, 256], got 512"),
        ({"progress": 5}, "progress must be callable, got 5"),
    ],
)
def test_bad_options(options, message, target):
    assert message in refused(numbers(10), target, **options)
    if options == {"memory": 127}:
        assert shuffled(numbers(10), target, memory=128).size == 10


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "source must be a path or an iterable of Arrow batches or tables, got None"),
        (pd.DataFrame({"m": [1]}), "source must give Arrow batches or tables, got str as item 0"),
        ([numbers(2), [3]], "got list as item 1"),
        ("none.parquet", "cannot read 'none.parquet': No such file or directory"),
    ],
)
def test_bad_sources(source, message, target):
    assert message in refused(source, target)


def test_mixed_schemas_are_both_named(tmp_path, target):
    other = pa.table({"m": [0.5]})
    both = "source must have one schema, got (m: int64) in {} and (m: double) in {}"
    assert both.format("item 0", "item 2") in refused([numbers(2), numbers(2), other], target)
    folder = tmp_path / "parts"
    folder.mkdir()
    assert f"with *.parquet files, got none in '{folder}'" in refused(folder, target)
    for name, table in (("a", numbers(2)), ("b", other)):
        parquet.write_table(table, folder / f"{name}.parquet")
    assert both.format(f"'{folder}/a.parquet'", f"'{folder}/b.parquet'") in refused(folder, target)


def test_damaged_files_are_named(tmp_path, target):
    path = tmp_path / "a.parquet"
    parquet.write_table(
        numbers(3_000), path, row_group_size=1_000, compression="none", use_dictionary=False, write_page_checksum=True
    )
    good = path.read_bytes()
    path.write_bytes(good[:-100])
    assert f"cannot read '{path}': " in refused(path, target)
    path.write_bytes(b"")
    assert f"cannot read '{path}': " in refused(path, target)
    # A value that only the second row group has.
    path.write_bytes(good.replace((1_500).to_bytes(8, "little"), (1_501).to_bytes(8, "little"), 1))
    assert f"cannot read '{path}, row group 1': " in refused(path, target)
    path.write_bytes(good)
    assert shuffled(path, target).size == 3_000


def test_bad_targets(tmp_path):
    parquet.write_table(numbers(3), tmp_path / "a.parquet")
    for target, message in {
        tmp_path / "none" / "b.parquet": "target must be in a folder that exists, got '",
        tmp_path / "a.parquet" / "b.parquet": "target must be in a folder that exists, got '",
        tmp_path: "target must be a file, got the folder '",
        tmp_path / "a.parquet": "target must be outside of the source, got '",
        tmp_path / ("b" * 255): "target must be writable, got '",
        5: "target must be a path, got 5",
    }.items():
        with pytest.raises(ValueError, match=message):
            ss.shuffle_stream(tmp_path / "a.parquet", target, seed=1)
        with pytest.raises(ValueError, match="must be outside of the source"):
            ss.shuffle_stream(tmp_path, tmp_path / "b.parquet", seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


# Nothing is left behind


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (streams.parquet.ParquetWriter, "__init__"),
        (streams.pa.ipc.RecordBatchStreamWriter, "write_table"),
        (streams.pa.ipc.RecordBatchStreamWriter, "close"),
        (streams.parquet.ParquetWriter, "write_table"),
        (streams.parquet.ParquetWriter, "close"),
        (os, "fsync"),
    ],
)
def test_a_full_disk_is_one_line(owner, name, target, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, "as Arrow puts it")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, full)
        message = refused(numbers(5_000), target, memory=2**14)
    assert message == f"target must be writable, got '{target}': No space left on device"


def in_a_process(code, target):
    start = f"import shufflesim as ss, numpy as np, pyarrow as pa; target = {str(target)!r}\n"
    return subprocess.Popen([sys.executable, "-c", start + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_write_that_really_fails_is_one_line(target):
    code = """if True:
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
        try:
            ss.shuffle_stream(pa.table({"m": np.arange(10**6)}), target, seed=1)
        except ValueError as error:
            print(error)
    """
    out, err = in_a_process(code, target).communicate()
    assert (out, err) == (f"target must be writable, got '{target}': File too large\n", "")
    assert untouched(target)


@pytest.mark.parametrize("late", [False, True])
def test_what_the_caller_raises_comes_through(late, target):
    def batches():
        yield numbers(5_000)
        if not late:
            raise OSError(errno.ENOSPC, "the caller's own")

    def progress(rows):
        if rows > 4_000:
            raise OSError(errno.ENOSPC, "the caller's own")

    with pytest.raises(OSError, match="the caller's own"):
        ss.shuffle_stream(batches(), target, seed=1, memory=2**14, progress=progress if late else None)
    assert untouched(target)


@pytest.mark.parametrize("late", [False, True])
def test_a_killed_process_leaves_the_target_alone(late, target):
    code = f"""if True:
        import time
        def progress(rows):
            if rows > {4_000 if late else 0}:
                print("there", flush=True)
                time.sleep(60)
        ss.shuffle_stream(pa.table({{"m": np.arange(5_000)}}), target, seed=1, memory=2**14, progress=progress)
    """
    with in_a_process(code, target) as process:
        assert process.stdout.readline() == "there\n"
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert target.read_bytes() == BEFORE
    (left,) = (path for path in target.parent.iterdir() if path != target)
    assert left.name.startswith(".shuffled.parquet.partial-")
    assert ss.shuffle_stream(numbers(10), target, seed=1) == 10


# Memory


@pytest.mark.parametrize(("as_file", "buckets"), [(True, None), (True, 1), (False, None)])
def test_memory_is_bounded(as_file, buckets, tmp_path, target):
    """Peak of Arrow's and NumPy's memory for 16 MB of rows and keys; one bucket of them is too large and dealt once more."""
    rows, memory = 1_000_000, 2**22
    parquet.write_table(numbers(rows), tmp_path / "a.parquet")
    source = tmp_path / "a.parquet" if as_file else (numbers(10_000, first) for first in range(0, rows, 10_000))
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        ss.shuffle_stream(source, target, seed=1, memory=memory, buckets=buckets)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert memory / 8 < pool.max_memory() + peak <= memory
    assert pool.bytes_allocated() == 0
    assert np.array_equal(np.sort(parquet.read_table(target)["m"].to_numpy()), np.arange(rows))
