"""Read one column of a file: strictly, and without loading the others."""

from __future__ import annotations

import csv
import datetime
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .output import progress
from .shell import refusing

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".csv.gz", ".parquet")
# Characters of a foreign error message, and columns of a file, that are worth a user's line.
MESSAGE_MAX = 200
COLUMNS_SHOWN = 10
# How Arrow speaks of a column, and of a cell that is no number.
COLUMN_NUMBER = re.compile(r"In CSV column #\d+: ")
NO_NUMBER = re.compile(r"Row #(\d+): CSV conversion error to double: invalid value '(.*)'", re.DOTALL)
# Bytes of a file that are looked at together.
CHUNK = 2**20


def read(path: Path, column: str, *, numbers: bool, dropna: bool, notes: list[str]) -> pd.Series[Any]:
    """One column of a csv or parquet file, with the original row as index.

    Parameters
    ----------
    path : Path
        Ends in one of `SUFFIXES`.
    column : str
        Its name.
    numbers : bool
        Whether a csv column is parsed as numbers; otherwise it stays the text of the file, where 01 and 1 differ.
    dropna : bool
        Drop rows with missing values, with a note; otherwise they are refused.
    notes : list of str
        What the user must be told is appended.

    Returns
    -------
    pandas.Series
        Without missing values; a csv column of labels comes as a categorical of text.
    """
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise click.UsageError(f"--data must end in {', '.join(SUFFIXES)}, got {str(path)!r}")
    with _readable(path), progress(f"reading {path.name}"):
        with path.open("rb") as file:
            if not file.read(1):
                raise click.UsageError(f"--data must hold a table, got the empty file {str(path)!r}")
        cells = _from_parquet(path, column) if name.endswith(".parquet") else _from_csv(path, column, numbers)
        return without_missing(cells, column, dropna=dropna, notes=notes)


def without_missing(cells: Any, column: str, *, dropna: bool, notes: list[str]) -> pd.Series[Any]:
    """A pandas Series of an Arrow column, missing values (NaN, null, empty) refused or dropped."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    total = len(cells)
    if total == 0:
        raise click.UsageError(f"column {column!r} must have at least one row, got none")
    if pa.types.is_dictionary(cells.type):
        missing = cells.to_pandas().isna().to_numpy()
    else:
        missing = pc.is_null(cells, nan_is_null=True).to_numpy()
    index: Any = pd.RangeIndex(total)
    if missing.any():
        count, first = int(missing.sum()), int(missing.argmax()) + 1
        if not dropna:
            raise click.UsageError(
                f"column {column!r} must have no missing values, got {count:,} in {total:,} rows, "
                f"the first in row {first} (--dropna leaves such rows out)"
            )
        if count == total:
            raise click.UsageError(f"column {column!r} must have at least one value, got {total:,} missing ones")
        notes.append(f"--dropna left out {count:,} of {total:,} rows, whose {column!r} is missing")
        # Filtered before pandas sees it: integers beside a missing value would become floats.
        cells, index = cells.filter(pa.array(~missing)), np.flatnonzero(~missing)
    return cells.to_pandas().set_axis(index)


def encode(values: pd.Series[Any], column: str, domain: Path | None, *, spelled: bool, notes: list[str]) -> pd.Series[Any]:
    """Labels of any type as a pandas categorical.

    Parameters
    ----------
    values : pandas.Series
        As `read` gives them.
    column : str
        Its name, for messages.
    domain : Path, optional
        A text file with one label a line; without it the categories are those that occur.
    spelled : bool
        Whether the values are the text of a csv file, where a number is known by its spelling only.
    notes : list of str
        What the user must be told is appended.
    """
    from shufflesim import categorical
    from shufflesim._csv import plain_numbers

    typed: list[Any] | None
    labels: list[Any] | None
    if spelled:
        labels = _lines(domain, str) if domain is not None else sorted(values.unique())
        typed = plain_numbers(labels)
        if domain is None:
            order = sorted(range(len(labels)), key=typed.__getitem__)
            labels, typed = [labels[i] for i in order], [typed[i] for i in order]
    else:
        labels = typed = None if domain is None else _lines(domain, _converter(values))
    if labels is not None:
        _inside(values, column, labels)
    with refusing():
        encoded = categorical(values, labels)
    if domain is None:
        notes.append(public(len(encoded.cat.categories), column))
    if labels is not None:
        # Not left to the conversion, which keeps another order of the same labels: what follows goes by position.
        encoded = encoded.cat.set_categories(labels)
    return encoded if typed is None else encoded.cat.rename_categories(typed)


def public(number: int, column: str) -> str:
    """What is said where the data give the domain."""
    found = f"the domain is the {number:,} values that occur in {column!r}"
    return f"{found}: this set is thereby treated as public (give --domain if it is not)"


def domain_labels(domain: Path, example: pd.Series[Any] | None) -> list[Any]:
    """Labels of a domain file, of the type of a column; without an example as in a csv file."""
    from shufflesim._csv import plain_numbers

    return plain_numbers(_lines(domain, str)) if example is None else _lines(domain, _converter(example))


def named(column: str, known: list[str]) -> None:
    """Refuse a column that is not there, or is there twice."""
    from difflib import get_close_matches

    if known.count(column) == 1:
        return
    if column in known:
        raise click.UsageError(f"--column must name one column, got {column!r}, which is there {known.count(column)} times")
    close = get_close_matches(column, known, n=1)
    shown = ", ".join(map(repr, known[:COLUMNS_SHOWN])) + (", ..." if len(known) > COLUMNS_SHOWN else "")
    hint = f"did you mean {close[0]!r}?" if close else f"the columns are {shown}"
    raise click.UsageError(f"--column must name a column of the data, got {column!r}; {hint}")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Whatever a reader says about a bad file, as one line with the file's name."""
    import pyarrow as pa

    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
    except (pa.ArrowException, csv.Error, zlib.error, EOFError) as error:
        reason = str(error)
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text: {error.reason} at byte {error.start}"
    else:
        return
    reason = " ".join(reason.split())
    if len(reason) > MESSAGE_MAX:
        reason = reason[:MESSAGE_MAX] + "..."
    raise click.UsageError(f"cannot read {str(path)!r}: {reason}")


def _from_parquet(path: Path, column: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        named(column, file.schema_arrow.names)
        kind = file.schema_arrow.field(column).type
        if pa.types.is_nested(kind):
            raise click.UsageError(f"column {column!r} must hold one value a row, got {kind}")
        return file.read(columns=[column]).column(column)


def _from_csv(path: Path, column: str, numbers: bool) -> Any:
    """Through Arrow, which refuses rows with a wrong number of cells instead of shifting them."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    opened: Callable[..., Any] = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    if not header:
        raise click.UsageError(f"--data must start with the names of its columns, got an empty line in {str(path)!r}")
    named(column, header)
    _refuse_open_quote(path, opened)
    kind = pa.float64() if numbers else pa.dictionary(pa.int32(), pa.string())
    nulls = [*arrow_csv.ConvertOptions().null_values, "None", "<NA>"]
    # In a file of one column an empty line is a missing value, not the absence of a row.
    parse = arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(header) > 1)
    convert = arrow_csv.ConvertOptions(
        include_columns=[column], column_types={column: kind}, null_values=nulls, strings_can_be_null=True
    )
    # One thread: only then does an error name the row.
    options = arrow_csv.ReadOptions(use_threads=False)
    try:
        return arrow_csv.read_csv(str(path), read_options=options, parse_options=parse, convert_options=convert).column(0)
    except pa.ArrowInvalid as error:
        found = NO_NUMBER.search(str(error))
        if found is None:
            raise pa.ArrowInvalid(COLUMN_NUMBER.sub(f"column {column!r}: ", str(error))) from None
        # Arrow counts the header as a row.
        row, cell = int(found[1]) - 1, found[2][:MESSAGE_MAX]
        raise click.UsageError(f"column {column!r} must hold numbers, got {cell!r} in row {row}") from error


def _refuse_open_quote(path: Path, opened: Callable[..., Any]) -> None:
    """A quote that is never closed would swallow the rest of the file as one label; inside a label quotes come in pairs."""
    with opened(path, "rb") as file:
        quotes = sum(chunk.count(b'"') for chunk in iter(lambda: file.read(CHUNK), b""))
    if quotes % 2:
        raise click.UsageError(f"--data must close every quote, got {quotes} quote characters in {str(path)!r}")


def _lines(path: Path, convert: Callable[[str], Any]) -> list[Any]:
    """Labels of a domain file, one a line."""
    with _readable(path):
        text = path.read_text(encoding="utf-8-sig")
    if not text:
        raise click.UsageError(f"--domain must list the labels, one a line, got the empty file {str(path)!r}")
    seen: dict[Any, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        where = f"--domain {str(path)!r}, line {number}:"
        if not line.strip():
            raise click.UsageError(f"{where} must hold a label, got a blank line")
        try:
            label = convert(line)
        except (ValueError, ArithmeticError) as error:
            raise click.UsageError(f"{where} must be a label of the column's type, got {line!r}: {error}") from error
        if label in seen:
            raise click.UsageError(f"{where} must not repeat a label, got {line!r}, which is on line {seen[label]} too")
        seen[label] = number
    return list(seen)


def _truth_value(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text.lower() == "true"


def _converter(values: pd.Series[Any]) -> Callable[[str], Any]:
    """How a line of text becomes a label like those of a typed column."""
    import numpy as np
    import pandas as pd

    example = values.iloc[0]
    known: dict[Any, Callable[[str], Any]] = {
        (bool, np.bool_): _truth_value,
        (int, np.integer): int,
        (float, np.floating): float,
        str: str,
        pd.Timestamp: pd.Timestamp,
        datetime.date: datetime.date.fromisoformat,
        Decimal: Decimal,
    }
    for kinds, convert in known.items():
        if isinstance(example, kinds):
            return convert
    raise click.UsageError(f"--domain must go with labels that a line of text can hold, got {type(example).__name__}")


def _inside(values: pd.Series[Any], column: str, labels: list[Any]) -> None:
    allowed = set(labels)
    outside = [value for value in values.unique() if value not in allowed]
    if outside:
        first = int(values.isin(outside).to_numpy().argmax())
        value, row = values.iloc[[first]].tolist()[0], values.index[first] + 1
        raise click.UsageError(f"column {column!r} must hold values of --domain only, got {value!r} in row {row}")
