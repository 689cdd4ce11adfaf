"""The run command: what is read from a column of a file, and what is refused."""

import datetime
import gzip
import math
import os
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import shufflesim as ss
from shufflesim.mechanisms import Laplace

from .cli_helpers import GOOD, SETTINGS, ok, refused, run_on

pytestmark = pytest.mark.usefixtures("elsewhere")
DAYS = [datetime.date(2024, 2, 29), datetime.date(1999, 12, 31), datetime.date(2024, 2, 29)]


# Labels of every type


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


# Data that is refused


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
        (
            "x.csv",
            b"age,city\n" + b"1,A\n" * 9999 + b"2,\xff\n",
            "cannot read 'x.csv': column 'city': Row #10001: CSV conversion error",
        ),
        ("x.csv", bytes(range(128, 256)) * 20, "cannot read 'x.csv': not UTF-8 text"),
        ("x.parquet", bytes(range(256)) * 20, "cannot read 'x.parquet': Parquet magic bytes not found"),
        ("x.csv.gz", GOOD, "cannot read 'x.csv.gz': Not a gzipped file"),
        ("x.csv", b'city\nA\n"B\nC\n', "must close every quote, got 1 quote characters in 'x.csv'"),
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
    assert "source must be a folder with *.parquet files, got none in 'folder.csv'" in refused(*command, "folder.csv")


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
    command[command.index("data.parquet")] = "gap.csv"
    assert "got 'z' in row 2" in refused(*command, *SETTINGS)


# Numbers


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
        ("1\nx\n", [], "column 'x' must hold numbers, got 'x' in row 2"),
        ('1\n"two\nlines"\n', [], r"column 'x' must hold numbers, got 'two\nlines' in row 2"),
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


@pytest.mark.usefixtures("no_picture")
def test_only_the_column_is_read_from_parquet(monkeypatch):
    read = []
    original = pq.ParquetFile.read
    monkeypatch.setattr(pq.ParquetFile, "read", lambda self, columns: read.append(columns) or original(self, columns=columns))
    run_on(["b", "a"], ".parquet")
    assert read == [["c"]]
