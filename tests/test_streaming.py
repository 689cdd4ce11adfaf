"""Data larger than memory: the same result however they are cut, bounded memory, and bad input named where it is."""

import itertools
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

import shufflesim as ss
from shufflesim import simulation
from shufflesim.domains import Histogram
from shufflesim.mechanisms import GRR, Duchi, Laplace, LocalHash, PrivKV, PrivSet
from shufflesim.protocols import RecursiveSum

from .cli_helpers import ok, refused

BLOCK, USERS = 64, 500
SETTINGS = {"delta": 1e-6, "seed": 3}
LETTERS = list("edcba")
# Files of 0, 1 and many users, whose ends are no ends of blocks.
CUTS = [0, 130, 131, 131, 300, USERS]
COMMAND = ["run", "grr", "-p", "epsilon=1", "--delta", "1e-6", "--seed", "3", "--column"]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr(simulation, "BLOCK", BLOCK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, USERS).astype(np.int16)
    x, y = rng.uniform(-1, 1, (2, USERS))
    other = (codes + rng.integers(1, 5, USERS)) % 5
    return pd.DataFrame({"code": codes, "label": np.array(LETTERS)[codes], "other": np.array(LETTERS)[other], "x": x, "y": y})


@pytest.fixture
def folder(table):
    """Of Parquet files; csv files with the same rows are beside it."""
    Path("parts").mkdir()
    for number, part in enumerate(parts(table)):
        part.to_parquet(f"parts/{number}.parquet", row_group_size=50)
        part.to_csv(f"{number}.csv" + (".gz" if number == 1 else ""), index=False)
    return "parts"


def parts(table):
    return [table.iloc[start:stop] for start, stop in itertools.pairwise(CUTS)]


def csv_files():
    return sorted(str(path) for path in Path().glob("[0-9].csv*"))


def cut(data, size):
    """An iterator of pieces."""
    return (data[start : start + size] for start in range(0, len(data), size))


def same(first, second):
    """Bit for bit."""
    assert first.n == second.n
    assert first.messages == second.messages
    for name in ("truth", "estimate", "variance", "estimated_variance", "aggregate", "labels"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes() or name == "labels"
    pd.testing.assert_frame_equal(first.estimates, second.estimates, check_exact=True)


def message(protocol, data, **options):
    with pytest.raises(ValueError) as caught:
        ss.simulate(protocol, data, **{**SETTINGS, **options})
    text = str(caught.value)
    assert "\n" not in text
    return text


# The same result


@pytest.mark.parametrize("size", [1, 63, 64, 65, 499, 1000])
@pytest.mark.parametrize("method", ["users", "counts"])
def test_the_result_does_not_depend_on_the_size_of_batches(size, method, table):
    codes = table["code"].to_numpy()
    whole = ss.simulate(GRR(1.0, 5), codes, method=method, **SETTINGS)
    same(whole, ss.simulate(GRR(1.0, 5), cut(codes, size), method=method, **SETTINGS))


def test_all_kinds_of_sources_give_the_same_result(folder, table):
    whole = ss.simulate(LocalHash(1.0, 5), table["code"].to_numpy(), **SETTINGS)
    arrow = pa.Table.from_pandas(table[["code"]])
    table.to_parquet("one.parquet", row_group_size=77)
    table.to_csv("one.csv", index=False)
    for source in (
        ss.Stream(folder, "code"),
        ss.Stream(Path("one.parquet"), "code"),
        ss.Stream(sorted(Path(folder).iterdir()), "code"),
        ss.Stream(csv_files(), "code"),
        ss.Stream("one.csv", ["code"]),
        ss.Stream(dataset.dataset(folder), "code"),
        ss.Stream(pd.read_csv("one.csv", chunksize=33), "code"),
        ss.Stream(cut(table, 70), "code"),
        cut(table["code"], 70),
        iter(arrow.to_batches(max_chunksize=70)),
        arrow.to_reader(max_chunksize=70),
        [Path("one.parquet")],
    ):
        one = ss.Stream(source, "code") if isinstance(source, list) else source
        same(whole, ss.simulate(LocalHash(1.0, 5), one, **SETTINGS))


def test_a_folder_of_one_column_is_taken_as_it_is(folder, table):
    Path("column").mkdir()
    for number, part in enumerate(parts(table)):
        part[["code"]].to_parquet(f"column/{number}.parquet", index=False)
    same(ss.simulate(GRR(1.0, 5), table["code"], **SETTINGS), ss.simulate(GRR(1.0, 5), "column", **SETTINGS))


@pytest.mark.parametrize("domain", [LETTERS, [*"xedcba"], None])
def test_labels(domain, folder, table):
    d = 5 if domain is None else len(domain)
    whole = ss.simulate(GRR(1.0, d), ss.categorical(table["label"], domain), **SETTINGS)
    chunks = iter(parts(table.assign(label=table["label"].astype("category"))))
    for source in (folder, csv_files(), dataset.dataset(folder), *([chunks] if domain else [])):
        same(whole, ss.simulate(GRR(1.0, d), ss.categorical(ss.Stream(source, "label"), domain), **SETTINGS))


@pytest.mark.parametrize("kind", [int, float, str])
def test_numbers_as_labels_are_found_in_their_order(kind, table):
    labels = (table["code"] * 5 - 5).astype(kind)
    labels.to_frame("c").to_csv("c.csv", index=False)
    labels.to_frame("c").to_parquet("c.parquet")
    assert ss.categorical(ss.Stream("c.csv")).categories.tolist() == [kind(k) for k in (-5, 0, 5, 10, 15)] or kind is str
    whole = ss.categorical(labels)
    same(
        ss.simulate(GRR(1.0, 5), whole, **SETTINGS), ss.simulate(GRR(1.0, 5), ss.categorical(ss.Stream("c.parquet")), **SETTINGS)
    )


def test_categories_of_a_file_keep_their_order(table):
    kept = pd.DataFrame({"c": pd.Categorical(table["label"], categories=["c", "e", "z", "a", "b", "d"])})
    kept.to_parquet("c.parquet", row_group_size=50)
    whole = ss.simulate(GRR(1.0, 6), kept["c"], **SETTINGS)
    same(whole, ss.simulate(GRR(1.0, 6), "c.parquet", **SETTINGS))
    same(whole, ss.simulate(GRR(1.0, 6), ss.categorical(ss.Stream("c.parquet")), **SETTINGS))


def test_vectors_sets_and_key_value_pairs(folder, table):
    vectors = table[["x", "y"]]
    same(ss.simulate(Duchi(1.0, 2), vectors, **SETTINGS), ss.simulate(Duchi(1.0, 2), ss.Stream(folder, ["x", "y"]), **SETTINGS))
    encoded = {name: ss.categorical(table[name], LETTERS) for name in ("label", "other")}
    sets = ss.categorical(ss.Stream(csv_files(), ["label", "other"]), LETTERS)
    same(ss.simulate(PrivSet(1.0, 5, 2), pd.DataFrame(encoded), **SETTINGS), ss.simulate(PrivSet(1.0, 5, 2), sets, **SETTINGS))
    pairs = pd.DataFrame({"label": encoded["label"], "x": table["x"]})
    stream = ss.Stream(folder, ["label", "x"], labels=["label"], categories=LETTERS)
    same(ss.simulate(PrivKV(1, 1, 5, 1), pairs, **SETTINGS), ss.simulate(PrivKV(1, 1, 5, 1), stream, **SETTINGS))
    numbers = table[["code", "y"]].to_numpy().reshape(-1, 1, 2)
    stream = ss.Stream(csv_files(), ["code", "y"])
    same(ss.simulate(PrivKV(1, 1, 5, 1), numbers, **SETTINGS), ss.simulate(PrivKV(1, 1, 5, 1), stream, **SETTINGS))


def test_columns_that_are_views_are_summed_in_the_same_order(table):
    """A DataFrame's rows are not contiguous."""
    whole = ss.simulate(Duchi(1.0, 2), np.ascontiguousarray(table[["x", "y"]].to_numpy()), **SETTINGS)
    assert ss.simulate(Duchi(1.0, 2), table[["x", "y"]], **SETTINGS).truth.tobytes() == whole.truth.tobytes()


def test_population_minimum_batch_and_progress(folder, table):
    options = {"population": ss.Population(0.2, 0.1, "maximal-gain", 2), "minimum_batch": 300, "chunk_size": 100, **SETTINGS}
    seen, known = [], []
    whole = ss.simulate(GRR(1.0, 5), table["code"], progress=known.append, **options)
    same(whole, ss.simulate(GRR(1.0, 5), ss.Stream(folder, "code"), progress=seen.append, **options))
    assert seen == known
    assert seen[-1] == USERS
    assert "before anything is released, 501, got 500 users" in message(GRR(1.0, 5), ss.Stream(folder, "code"), minimum_batch=501)


def test_files_are_read_again_for_repeats_and_compare(folder, table):
    codes, stream = table["code"].to_numpy(), ss.Stream(folder, "code")
    one, two = (ss.simulate(GRR(1.0, 5), data, repeats=3, **SETTINGS).summary for data in (codes, stream))
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    candidates = [GRR(1.0, 5), lambda eps, delta, n: ss.protocols.PureDUMP.for_target(eps, delta, n, d=5)]
    one, two = (ss.compare(candidates, None, 1e-6, 2.0, data=data, seed=1) for data in (codes, stream))
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    assert pickle.loads(pickle.dumps(stream)).users == USERS


@pytest.mark.parametrize("source", [csv_files, lambda: "parts"])
def test_rows_with_missing_values_can_be_left_out(source, folder, table):
    holes = table.assign(code=table["code"].astype("Int16").where(table["x"] > 0))
    for number, part in enumerate(parts(holes)):
        part.to_parquet(f"parts/{number}.parquet", row_group_size=50)
        part.to_csv(f"{number}.csv" + (".gz" if number == 1 else ""), index=False)
    stream = ss.Stream(source(), ["code"], dropna=True)
    same(ss.simulate(GRR(1.0, 5), table["code"][table["x"] > 0], **SETTINGS), ss.simulate(GRR(1.0, 5), stream, **SETTINGS))
    assert stream.dropped == (table["x"] <= 0).sum() == USERS - stream.users


def test_other_functions_take_a_stream_or_refuse_it(folder, table):
    stream, options = ss.Stream(folder, "code"), {"attack": "maximal-gain", "target": 3, "delta": 1e-6, "seed": 1}
    one, two = (ss.robustness([GRR(1.0, 5)], data, [0, 0.1], **options) for data in (table["code"], stream))
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    with pytest.raises(ValueError, match="data must be an array, of which users are drawn, got Stream"):
        ss.error_grid([GRR(1.0, 5)], [100], [1.0], delta=1e-6, data=stream)


# Histograms of what is no category


@pytest.mark.parametrize("shape", [(300,), (300, 2)])
def test_a_histogram_does_not_depend_on_blocks(shape):
    values = np.random.default_rng(1).integers(0, 9, shape) / 4
    histogram = Histogram()
    for block in np.array_split(values, 17):
        histogram.add(block)
    for found, expected in zip(histogram.groups(), np.unique(values, axis=0, return_counts=True), strict=True):
        assert np.array_equal(found, expected)


def test_counts_of_numbers_come_from_the_histogram(monkeypatch):
    protocol = next(RecursiveSum.examples())
    values = np.round(protocol.domain.example(USERS, np.random.default_rng(0)), 2)
    options = {"method": "counts", **SETTINGS}
    same(ss.simulate(protocol, values, **options), ss.simulate(protocol, cut(values, 33), **options))
    monkeypatch.setattr("shufflesim.domains.blocks.DIFFERENT_MOST", 20)
    assert "at most 2^24 different values for method 'counts', got" in message(protocol, cut(values, 33), method="counts")


# Memory


def test_memory_is_that_of_a_batch(monkeypatch):
    """A column of 16 MB, of which at most half is held, beside text that is not read."""
    monkeypatch.setattr(simulation, "BLOCK", 2**16)
    rows = 2**18
    codes = np.random.default_rng(0).integers(0, 5, rows)
    text = pa.array(np.array([letter * 30 for letter in LETTERS])[codes])
    Path("big").mkdir()
    for number in range(8):
        parquet.write_table(pa.table({"c": codes, "text": text}), f"big/{number}.parquet", row_group_size=2**15)
    ss.simulate(GRR(1.0, 5), [0, 1], **SETTINGS)
    held = pa.total_allocated_bytes()
    peaks = []

    def look(users):
        peaks.append(pa.total_allocated_bytes() - held)

    tracemalloc.start()
    try:
        result = ss.simulate(GRR(1.0, 5), ss.Stream("big", "c"), progress=look, **SETTINGS)
        _, python = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.n == 8 * rows
    assert python + max(peaks) < 8 * 8 * rows / 2


# Bad input


def test_bad_sources(table, folder):
    assert "source must be a folder with *.parquet files, got none in" in message(GRR(1.0, 5), str(Path.cwd()))
    assert "cannot read 'no.parquet': No such file or directory" in message(GRR(1.0, 5), "no.parquet")
    assert "cannot read 'no.csv': No such file or directory" in message(GRR(1.0, 5), ["no.csv"])
    assert "that end in .csv, .csv.gz, .parquet, or a folder, got 'no.txt'" in message(GRR(1.0, 5), "no.txt")
    assert "one folder or several files, not both, got 'parts' among 2 paths" in message(
        GRR(1.0, 5), [Path("0.csv"), Path("parts")]
    )
    assert refused(*COMMAND, "code", "--data", "no").endswith("a folder that exists, or one of airports, flights, got 'no'\n")
    assert "files of one kind, got '0.csv' and 'parts/0.parquet'" in message(GRR(1.0, 5), ["0.csv", "parts/0.parquet"])
    assert "(encode a column with shufflesim.categorical)" in message(GRR(1.0, 5), ["a", "b"])
    with pytest.raises(ValueError, match=r"source must be a path, a list of paths, .* iterator of batches, got list"):
        ss.Stream([0, 1])
    for columns in ([], ["a", "a"], [1], 5):
        with pytest.raises(ValueError, match="columns must be names of columns, each once, got "):
            ss.Stream(folder, columns)


def test_bad_batches(table):
    assert "must give DataFrames, Series or Arrow batches, or arrays, got int as item 0" in message(GRR(1.0, 5), iter([1, 2]))
    given = iter([table["code"], ["a"]])
    assert "got list as item 1" in message(GRR(1.0, 5), given)
    assert "which have columns, got ndarray as item 0" in message(GRR(1.0, 5), ss.Stream(iter([np.zeros(3)]), "code"))
    given = iter([table[["code"]], table[["x"]]])
    assert "the columns ['code'] in every batch, got ['x'] in item 1" in message(GRR(1.0, 5), given)
    given = ss.Stream(iter([table, table[["x"]]]), "code")
    assert "the columns ['code'] in every batch, got ['x'] in item 1" in message(GRR(1.0, 5), given)
    assert "dropna must go with tables" in message(GRR(1.0, 5), ss.Stream(iter([np.zeros(3)]), dropna=True))
    given = iter([table["x"].abs().to_numpy(), table["label"].to_numpy()])
    assert "values must be numbers in [0, 1], got object" in message(Laplace(1.0), given)


def test_batches_with_different_categories(table):
    """Their codes would mean different things."""
    given = iter([pd.Series(list("ab"), dtype="category"), pd.Series(list("bc"), dtype="category")])
    said = message(GRR(1.0, 2), given)
    assert "the same columns and categories in all batches" in said
    assert said.endswith("got ['a', 'b'] and ['b', 'c']")


@pytest.mark.parametrize("data", [iter([]), iter([np.array([], dtype=int)]), iter([pd.DataFrame({"c": []})])])
def test_empty_streams(data):
    assert message(GRR(1.0, 5), data) == "data must hold at least one user, got none (an iterator can be read only once)"


def test_empty_files():
    Path("e.csv").write_text("c\n")
    pd.DataFrame({"c": pd.array([], dtype="int8")}).to_parquet("e.parquet")
    Path("nothing.csv").touch()
    for source in ("e.csv", "e.parquet"):
        assert message(GRR(1.0, 5), source) == "data must hold at least one user, got none"
        with pytest.raises(ValueError, match="the column must have at least one value, got none"):
            ss.categorical(ss.Stream(source))
    assert "must start with the names of its columns, got an empty line in 'nothing.csv'" in message(GRR(1.0, 5), "nothing.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv_files_without_rows_or_last_line_ends(end, table):
    """In any way in which lines end, the number of rows is at most what is said beforehand."""
    for name, cells in {"a": table["code"][:200], "b": [], "c": table["code"][200:]}.items():
        Path(f"{name}.csv").write_text(end.join(map(str, ["code", *cells])), newline="")
    stream = ss.Stream(["a.csv", "b.csv", "c.csv"], "code")
    same(ss.simulate(GRR(1.0, 5), stream, **SETTINGS), ss.simulate(GRR(1.0, 5), table["code"], **SETTINGS))
    assert stream.tables.rows == stream.users == USERS
    labels = ss.categorical(ss.Stream(["b.csv", "a.csv"], "code"), [4, 3, 2, 1, 0])
    assert ss.simulate(GRR(1.0, 5), labels, **SETTINGS).n == 200


def test_iterators_are_read_once(table):
    assert "for repeats, got an iterator, which can be read only once" in message(GRR(1.0, 5), cut(table["code"], 9), repeats=2)
    with pytest.raises(ValueError, match=r"for compare, .* got an iterator, which can be read only once"):
        ss.compare([GRR(1.0, 5)], None, 1e-6, 2.0, data=cut(table["code"], 9))
    with pytest.raises(ValueError, match="no public list as second argument, got an iterator, which can be read only once"):
        ss.categorical(ss.Stream(cut(table["label"], 9)))


def test_an_error_of_the_iterator_passes_through(table):
    def given():
        yield table["code"]
        raise RuntimeError("the database is gone")

    with pytest.raises(RuntimeError, match="the database is gone"):
        ss.simulate(GRR(1.0, 5), given(), **SETTINGS)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_that_differ_are_refused_before_anything_is_run(suffix, table, folder):
    def save(frame):
        frame.to_csv("4.csv", index=False)
        frame.to_parquet("parts/4.parquet", index=False)

    def said(columns):
        done = []
        text = message(GRR(1.0, 5), ss.Stream(source, columns), progress=done.append)
        assert not done
        return text

    source, last = (csv_files(), "'4.csv'") if suffix == "csv" else ("parts", "'parts/4.parquet'")
    save(table.rename(columns={"code": "codes"}))
    assert f"columns must name columns of every file, got 'code' for {last}; did you mean 'codes'?" in said("code")
    assert "source must have one schema, got " in said(None)
    assert last in said(None)
    save(table.astype({"code": str}))
    if suffix == "csv":
        assert said("label").startswith(f"column 'label' must hold numbers, got {table['label'][0]!r} in row 1 of '0.csv'")
    else:
        assert "source must have one schema, got (code: int16) in 'parts/0.parquet' and (code: " in said("code")


def damaged(path, group):
    """Overwrite the pages of a row group."""
    about = parquet.ParquetFile(path).metadata.row_group(group).column(0)
    content = bytearray(Path(path).read_bytes())
    start = about.dictionary_page_offset or about.data_page_offset
    content[start : start + about.total_compressed_size] = b"\xff" * about.total_compressed_size
    Path(path).write_bytes(content)


def test_a_damaged_file_is_named_with_its_row_group(folder, table):
    damaged("parts/4.parquet", 2)
    done = []
    said = message(GRR(1.0, 5), ss.Stream(folder, "code"), progress=done.append)
    assert "cannot read 'parts/4.parquet, row group 2': " in said
    assert done[-1] == 384
    said = message(GRR(1.0, 5), ss.Stream(dataset.dataset(folder), "code"))
    assert "cannot read 'parts/4.parquet, row group 2': " in said
    Path("4.csv").write_text("code\n1\n1,2\n")
    said = message(GRR(1.0, 5), ss.Stream(dataset.dataset(csv_files(), format="csv"), "code"))
    assert "cannot read '4.csv': " in said


@pytest.mark.parametrize("domain", [["a", "b"], None])
def test_text_that_is_none_is_named_with_its_row_group(domain):
    """Bytes that are no UTF-8, which Arrow itself does not look at."""
    offsets, content = pa.py_buffer(np.array([0, 1, 2, 3], dtype=np.int32)), pa.py_buffer(b"ab\xff")
    bad = pa.table({"c": pa.StringArray.from_buffers(3, offsets, content)})
    parquet.write_table(bad, "bad.parquet", row_group_size=1)
    with pytest.raises(ValueError, match=r"cannot read 'bad.parquet, row group 2': .*UTF8"):
        ss.simulate(GRR(1.0, 2), ss.categorical(ss.Stream("bad.parquet"), domain), **SETTINGS)


def test_a_truncated_file_is_refused_before_anything_is_run(folder):
    done = []
    path = Path("parts/3.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert "cannot read 'parts/3.parquet': " in message(GRR(1.0, 5), ss.Stream(folder, "code"), progress=done.append)
    assert not done


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["1,2", "1,2,3"], "cannot read 'bad.csv', line 203: Expected 2 columns, got 3: 1,2,3"),
        (['"1",2', "1"], "cannot read 'bad.csv', row (the header is row 1) 203: Expected 2 columns, got 1: 1"),
        (['1,"2'], "must close every quote, got 1 quote characters in 'bad.csv'"),
        (["1,x"], "column 'code' must hold numbers, got 'x' in row 201 of 'bad.csv' (labels are encoded with shufflesim.categ"),
        (["1,0x2"], "column 'code' must hold numbers, got '0x2' in row 201 of 'bad.csv'"),
        (["1,0XFFFFFFFFFFFFFFFF"], "column 'code' must hold numbers, got '0XFFFFFFFFFFFFFFFF' in row 201"),
        (["1,"], "values must not be missing, got a missing value at position 700"),
        (["1,5"], "values must be codes in 0..4, got 5 at position 700"),
    ],
)
def test_a_bad_line_of_a_csv_file_is_named(lines, said, folder):
    Path("bad.csv").write_text("\n".join(["a,code", *["1,2"] * 200, *lines]) + "\n")
    assert said in message(GRR(1.0, 5), ss.Stream([*csv_files()[:5], "bad.csv"], "code"))


def test_values_far_inside_are_named_by_their_position(folder, table):
    spoiled = {"code": ("code", 7), "label": ("label", "z"), "other": ("label", None), "x": ("x", np.nan)}
    for source in ("parts", "csv"):
        for column, bad in spoiled.values():
            part = table.iloc[CUTS[-2] :].astype({"code": "Int16"}).reset_index(drop=True)
            part.loc[150, column] = bad
            part = part.astype({"code": "int16"})
            part.to_parquet("parts/4.parquet")
            part.to_csv("4.csv", index=False)
            stream = ss.Stream("parts" if source == "parts" else csv_files(), column)
            stream = ss.categorical(stream, LETTERS) if column == "label" else stream
            said = message({"code": GRR(1.0, 5), "label": GRR(1.0, 5), "x": Laplace(1.0, -1, 1)}[column], stream)
            assert said.endswith("position 450")
            assert ("missing" in said) == (bad is None)


def test_sets_are_named_by_their_position(folder, table):
    table.loc[450, "other"] = table.loc[450, "label"]
    table.to_parquet("one.parquet", row_group_size=50)
    stream = ss.categorical(ss.Stream("one.parquet", ["label", "other"]), LETTERS)
    batches = ss.Stream(cut(table, 100), ["label", "other"], categories=LETTERS)
    for given in (stream, batches):
        assert "must hold 2 distinct categories per user, got" in (said := message(PrivSet(1.0, 5, 2), given))
        assert said.endswith("position 450")


def test_labels_beyond_memory_are_no_categories(folder, monkeypatch):
    monkeypatch.setattr("shufflesim.domains.stream.LABELS_MOST", 4)
    with pytest.raises(ValueError, match="the column must have at most 4 different labels, got 5"):
        ss.categorical(ss.Stream(folder, "label"))


# The command line


def saved(*args):
    result = ok(*args, "--out", "out")
    return pd.read_parquet("out/estimates.parquet"), result


@pytest.mark.usefixtures("no_picture")
@pytest.mark.parametrize("domain", [True, False])
def test_run_on_a_folder_on_several_files_and_on_a_large_one(domain, folder, table, monkeypatch):
    table.to_csv("whole.csv", index=False)
    Path("labels.txt").write_text("\n".join(LETTERS))
    options = ["--domain", "labels.txt"] if domain else []
    one, first = saved(*COMMAND, "label", "--data", "whole.csv", *options)
    monkeypatch.setattr("shufflesim.cli.subject.LARGE", 0)
    several = [text for path in csv_files() for text in ("--data", path)]
    for data in (["--data", folder], several, ["--data", "whole.csv"]):
        two, second = saved(*COMMAND, "label", *data, *options)
        pd.testing.assert_frame_equal(one, two, check_exact=True)
        assert second.stderr == first.stderr


def test_compare_on_a_folder(folder, table):
    table.to_csv("whole.csv", index=False)
    command = ["compare", "--epsilon", "2", "--delta", "1e-6", "--seed", "1", "--column", "label", "grr", "--json"]
    whole, streamed = (ok(*command, "--data", data).stdout for data in ("whole.csv", folder))
    assert whole == streamed


@pytest.mark.usefixtures("no_picture")
def test_run_leaves_rows_out_and_says_how_many(folder, table):
    table.loc[[3, 450], "x"] = np.nan
    for number, part in enumerate(parts(table)):
        part.to_parquet(f"parts/{number}.parquet", row_group_size=50)
    command = ["run", "laplace", "-p", "epsilon=1", "-p", "low=-1", "-p", "high=1", "--delta", "1e-6", "--column", "x"]
    assert "got nan at position 3" in refused(*command, "--data", folder)
    _, result = saved(*command, "--data", folder, "--dropna")
    assert "--dropna left out 2 rows, where a value is missing" in result.stderr
    assert "498" in result.stdout


def test_run_writes_nothing_if_a_file_is_damaged(folder):
    damaged("parts/4.parquet", 1)
    said = refused(*COMMAND, "code", "--data", folder, "--out", "out")
    assert "cannot read 'parts/4.parquet, row group 1': " in said
    assert not list(Path().glob("out/*"))
    Path("empty").mkdir()
    assert "got none in 'empty'" in refused(*COMMAND, "label", "--data", "empty")
    assert "got 'lable' for" in refused(*COMMAND, "lable", "--data", folder)
