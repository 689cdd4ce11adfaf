"""Columns of csv files, batch by batch: strictly, and what is wrong is said in one line with the place."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from ._checks import nearest
from .sources import MESSAGE_MAX, reason

# What stands for a missing value, beside what Arrow knows.
NULLS = ("None", "<NA>")
# Bytes of a file that are looked at together, and of a batch.
CHUNK = 2**20
BATCH_BYTES = 2**21
# Cells that tell what a column holds.
FEW = 64
# How Arrow speaks of a row; the header is row 1.
ROW = re.compile(r"CSV parse error: Row #(\d+): ")


def is_csv(path: Path) -> bool:
    """Whether its name is that of a csv file, compressed or not."""
    return path.name.lower().endswith((".csv", ".csv.gz"))


def scanned(path: Path) -> tuple[int, int]:
    """Number of quotes and of lines of a csv file; a line end between two chunks can count twice."""
    quotes = lines = 0
    last = b"\n"
    with _opened(path)(path, "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            quotes, last = quotes + chunk.count(b'"'), chunk[-1:]
            lines += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n")
    return quotes, lines + (last not in (b"\n", b"\r"))


def header(path: Path) -> list[str]:
    """Names of the columns of a csv file."""
    return _begin(path)[0]


def _begin(path: Path) -> tuple[list[str], bool]:
    """Names of the columns, and whether a row follows."""
    with _opened(path)(path, "rt", encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        return next(rows, []), next(rows, None) is not None


def plain_numbers(labels: list[str]) -> list[Any]:
    """Labels as integers, or else as floats, if every one is spelled the way Python prints it: nothing may be lost."""
    for kind in (int, float):
        try:
            numbers = [kind(label) for label in labels]
        except ValueError:
            continue
        exact = [str(number) for number in numbers] == labels
        if exact and (kind is float or all(-(2**63) <= number < 2**63 for number in numbers)):
            return numbers
    return list(labels)


def check_csv(paths: list[Path], columns: Sequence[str] | None) -> tuple[tuple[str, ...], list[int]]:
    first: list[str] = []
    rows = []
    for path in paths:
        with _reading_csv(path):
            names = header(path)
            quotes, lines = scanned(path)
        if not names:
            raise ValueError(f"source must start with the names of its columns, got an empty line in {str(path)!r}")
        if quotes % 2:
            # One that is never closed would swallow the rest of the file as one cell; inside a cell they come in pairs.
            raise ValueError(f"source must close every quote, got {quotes} quote characters in {str(path)!r}")
        chosen = named(names if columns is None else columns, names, path)
        first = first or chosen
        if chosen != first:
            raise ValueError(f"source must have one schema, got {first} in {str(paths[0])!r} and {chosen} in {str(path)!r}")
        rows.append(lines - 1)
    return tuple(first), rows


def named(columns: Sequence[str], known: list[str], path: Path) -> list[str]:
    for name in columns:
        times = known.count(name)
        if times == 0:
            raise ValueError(f"columns must name columns of every file, got {name!r} for {str(path)!r}; {nearest(name, known)}")
        if times > 1:
            raise ValueError(f"columns must be there once, got {name!r} {times} times in {str(path)!r}")
    return list(columns)


def read_csv(path: Path, columns: Sequence[str], labels: Collection[str]) -> Iterator[Any]:
    """Cells as text, and columns that hold no labels as numbers."""
    kinds = {name: pa.dictionary(pa.int32(), pa.string()) if name in labels else pa.string() for name in columns}
    with _reading_csv(path):
        names, filled = _begin(path)
    if not filled:
        # Arrow wants a line end after the header.
        return
    # In a file of one column an empty line is a missing value, not the absence of a row.
    parse = arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    nulls = [*arrow_csv.ConvertOptions().null_values, *NULLS]
    convert = arrow_csv.ConvertOptions(
        include_columns=list(columns), column_types=kinds, null_values=nulls, strings_can_be_null=True
    )
    # One thread: only then does an error name the row.
    options = arrow_csv.ReadOptions(use_threads=False, block_size=BATCH_BYTES)
    first = 0
    with _reading_csv(path):
        reader = arrow_csv.open_csv(str(path), read_options=options, parse_options=parse, convert_options=convert)
    while True:
        with _reading_csv(path):
            batch = next(reader, None)
        if batch is None:
            return
        table = pa.Table.from_batches([batch])
        for index, name in enumerate(columns):
            if name not in labels:
                table = table.set_column(index, name, _numbers(table.column(index), f"{str(path)!r}", name, first))
        first += table.num_rows
        yield table


def _numbers(cells: Any, where: str, name: str, first: int) -> Any:
    """Text as integers, or else as floats."""
    for kind in (pa.int64(), pa.float64()):
        try:
            # Arrow goes through all cells before it says that none of them is a number: look at a few first.
            cells.slice(0, FEW).cast(kind)
            numbers = cells.cast(kind)
            if kind == pa.float64() or not _hexadecimal(cells):
                return numbers
        except pa.ArrowInvalid:
            pass
        cells = pc.utf8_trim_whitespace(cells)
    for row, cell in enumerate(cells.to_pylist(), start=first + 1):
        try:
            pa.scalar(cell, pa.string()).cast(pa.float64())
        except pa.ArrowInvalid:
            hint = "labels are encoded with shufflesim.categorical"
            raise ValueError(
                f"column {name!r} must hold numbers, got {cell[:MESSAGE_MAX]!r} in row {row} of {where} ({hint})"
            ) from None
    raise AssertionError("a cell that is no number must be found")


def _hexadecimal(cells: Any) -> bool:
    """Whether a cell is written like 0xF: Arrow takes it for an integer, and 0xFFFFFFFFFFFFFFFF for -1."""
    written = (chunk.buffers()[2] for chunk in cells.chunks)
    return any(mark in text.to_pybytes() for text in written if text is not None for mark in (b"0x", b"0X"))


@contextmanager
def _reading_csv(path: Path) -> Iterator[None]:
    """Whatever a reader says about a bad csv file, as one line that says where."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot read {str(path)!r}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except (OSError, EOFError, pa.ArrowException, csv.Error, zlib.error) as error:
        text = str(error)
        found = ROW.match(text)
        if found is None:
            raise ValueError(f"cannot read {str(path)!r}: {reason(error)}") from error
        # Without quotes no cell has several lines.
        place = "row (the header is row 1)" if scanned(path)[0] else "line"
        said = " ".join(text[found.end() :].split())[:MESSAGE_MAX]
        raise ValueError(f"cannot read {str(path)!r}, {place} {found[1]}: {said}") from error


def _opened(path: Path) -> Callable[..., Any]:
    return gzip.open if path.name.lower().endswith(".gz") else open
