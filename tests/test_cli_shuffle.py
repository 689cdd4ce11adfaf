"""The shuffle command: its options, and what it prints, writes and refuses."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import shufflesim as ss

from .cli_helpers import ok, refused

pytestmark = pytest.mark.usefixtures("elsewhere")
ROWS = 3_000


@pytest.fixture(autouse=True)
def _source(elsewhere):
    parquet.write_table(pa.table({"user": np.arange(ROWS), "message": np.arange(ROWS) % 7}), "a.parquet")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["none.parquet", "b.parquet"], "cannot read 'none.parquet': No such file or directory"),
        (["a.parquet", "none/b.parquet"], "target must be in a folder that exists, got 'none/b.parquet'"),
        (["a.parquet", "."], "target must be a file, got the folder '.'"),
        (["a.parquet", "a.parquet"], "target must be outside of the source, got 'a.parquet'"),
        (["a.parquet", "b.parquet", "--seed", "-1"], "seed must be an integer >= 0, got -1"),
        (["a.parquet", "b.parquet", "--minimum-batch", "0"], "minimum_batch must be an integer >= 1, got 0"),
        (["a.parquet", "b.parquet", "--minimum-batch", ROWS + 1], "before anything is released, 3001, got 3000 rows"),
        (["a.parquet", "b.parquet", "--column", "mesage"], "got 'mesage'; did you mean 'message'?"),
        (["a.parquet", "b.parquet", "--memory", "-1"], "must be a size such as 256MB or 2GiB, got '-1'"),
        (["a.parquet", "b.parquet", "--memory", "1XB"], "must be a size such as 256MB or 2GiB, got '1XB'"),
        (["a.parquet", "b.parquet", "--memory", "0.1kB"], "memory must be at least 8 times the largest row"),
        (["a.parquet"], "Missing argument 'TARGET'"),
    ],
)
def test_shuffle_refuses(args, message):
    assert message in refused("shuffle", *args)
    assert [path.name for path in Path().iterdir()] == ["a.parquet"]


def test_damaged_files_are_refused():
    Path("a.parquet").write_bytes(Path("a.parquet").read_bytes()[:-20])
    assert "cannot read 'a.parquet': " in refused("shuffle", "a.parquet", "b.parquet")


def test_the_shuffle_is_the_library_s():
    result = ok("shuffle", "a.parquet", "b.parquet", "--column", "message", "--seed", 7, "--memory", "64 KiB")
    assert result.stdout == "rows  3,000\nseed  7\n\nsaved b.parquet\n"
    ss.shuffle_stream("a.parquet", "c.parquet", seed=7, columns=["message"])
    assert parquet.read_table("b.parquet").equals(parquet.read_table("c.parquet"))
    assert parquet.read_schema("b.parquet").names == ["message"]
    assert sorted(path.name for path in Path().iterdir()) == ["a.parquet", "b.parquet", "c.parquet"]


def test_a_folder_of_files():
    Path("parts").mkdir()
    for name in "ab":
        Path(f"parts/{name}.parquet").write_bytes(Path("a.parquet").read_bytes())
    assert json.loads(ok("shuffle", "parts", "b.parquet", "--seed", 7, "--json").stdout) == {
        "rows": 2 * ROWS,
        "seed": 7,
        "file": "b.parquet",
    }


def test_without_a_seed_the_entropy_is_printed_and_repeats_the_order():
    entropy = re.search(r"seed +(\d+)\n", ok("shuffle", "a.parquet", "b.parquet").stdout)[1]
    ok("shuffle", "a.parquet", "c.parquet", "--seed", entropy)
    first, again = (parquet.read_table(name)["user"].to_numpy() for name in ("b.parquet", "c.parquet"))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, np.arange(ROWS))


@pytest.mark.parametrize(
    ("text", "size"),
    [("4000", 4000), ("4000B", 4000), ("4kB", 4000), ("4 KiB", 4096), ("0.5MB", 500_000), ("2GiB", 2**31), ("1t", 10**12)],
)
def test_sizes(text, size, monkeypatch):
    seen = {}
    monkeypatch.setattr("shufflesim.streams.shuffle_stream", lambda *args, **options: seen.update(options) or 1)
    ok("shuffle", "a.parquet", "b.parquet", "--memory", text)
    assert seen["memory"] == size
