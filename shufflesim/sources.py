"""What can be shuffled: a Parquet file, a folder of them, or Arrow batches - read piece by piece, and refused in one line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ._checks import SIZE_MAX, nearest

# Rows of a batch read from a file.
BATCH_ROWS = 2**13
# Bytes that the reader of a column holds; by default it holds the column of a whole row group.
READ_BYTES = 2**18
# Characters of a foreign error message that are worth a user's line.
MESSAGE_MAX = 200


@dataclass(frozen=True)
class Source:
    """Tables of one schema.

    Attributes
    ----------
    schema : pyarrow.Schema
        Without metadata.
    tables : iterator of pyarrow.Table
        To be read once.
    rows, size : int or None
        Number of rows and of bytes, where they are known beforehand; the bytes of text are a guess.
    """

    schema: Any
    tables: Iterator[Any]
    rows: int | None = None
    size: int | None = None

    @classmethod
    def of(cls, given: Any, columns: Iterable[str] | None, batch_bytes: int) -> Source:
        """What a user gave: a path, or an iterable of Arrow batches or tables."""
        if isinstance(given, (str, os.PathLike)):
            return _from_files(files(Path(given)), columns, batch_bytes)
        if isinstance(given, (pa.Table, pa.RecordBatch)):
            given = [given]
        if not isinstance(given, Iterable):
            raise ValueError(f"source must be a path or an iterable of Arrow batches or tables, got {given!r}")
        return _from_batches(given, columns)


def files(path: Path) -> list[Path]:
    """A file, or the Parquet files of a folder in the order of their names; no other data may be beside them."""
    if not path.is_dir():
        if ".csv" in path.suffixes:
            raise ValueError(f"source must be a Parquet file or a folder of them, got {str(path)!r}")
        return [path]
    found = sorted(path.glob("*.parquet"))
    hint = "several files can be listed, and pyarrow.dataset.dataset reads folders in folders"
    if not found:
        raise ValueError(f"source must be a folder with *.parquet files, got none in {str(path)!r} ({hint})")
    for other in sorted(path.rglob("*")):
        # By convention what begins so is no data.
        hidden = any(part.startswith((".", "_")) for part in other.relative_to(path).parts)
        endings = (".parquet", ".csv", ".csv.gz") if other.parent == path else (".parquet",)
        if other not in found and not hidden and other.name.lower().endswith(endings):
            raise ValueError(f"source must be a folder with *.parquet files and no other data, got {str(other)!r} ({hint})")
    return found


def stored_rows(path: str | os.PathLike[str]) -> int:
    """Number of rows of a Parquet file or a folder of them, from their footers."""
    return sum(footer(file)[1].num_rows for file in files(Path(path)))


def described(schema: Any) -> str:
    """A schema in one line."""
    return "(" + ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema) + ")"


def reason(error: BaseException) -> str:
    """What a foreign error says, in one short line."""
    number = getattr(error, "errno", None)
    text = " ".join((os.strerror(number) if number else str(error)).split())
    return text if len(text) <= MESSAGE_MAX else text[:MESSAGE_MAX] + "..."


def _from_batches(batches: Iterable[Any], columns: Iterable[str] | None) -> Source:
    tables = _same_schema(batches)
    first = next(tables, None)
    if first is None:
        raise ValueError("source must have at least one batch, got none")
    chosen = _chosen(first.schema, columns)

    def every() -> Iterator[Any]:
        yield first.select(chosen)
        for table in tables:
            yield table.select(chosen)

    return Source(_bare(first.select(chosen).schema), every())


def _same_schema(batches: Iterable[Any]) -> Iterator[Any]:
    schema = None
    for index, batch in enumerate(batches):
        if not isinstance(batch, (pa.Table, pa.RecordBatch)):
            raise ValueError(f"source must give Arrow batches or tables, got {type(batch).__name__} as item {index}")
        schema = batch.schema if schema is None else schema
        agree(schema, "item 0", batch.schema, f"item {index}")
        yield pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch


def _from_files(paths: list[Path], columns: Iterable[str] | None, batch_bytes: int) -> Source:
    whole, _ = footer(paths[0])
    rows = size = 0
    for path in paths:
        schema, metadata = footer(path)
        agree(whole, repr(str(paths[0])), schema, repr(str(path)))
        rows += metadata.num_rows
        size += sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    chosen = _chosen(whole, columns)
    names = None if columns is None else chosen
    schema = _bare([whole.field(i if columns is None else whole.get_field_index(i)) for i in chosen])
    # Encoded values can be smaller than decoded ones.
    size = max(size, rows * sum(_width(field.type) for field in schema))
    batch = max(1, min(BATCH_ROWS, batch_bytes * rows // max(1, size)))
    return Source(schema, (table for path in paths for table in read(path, names, batch)), rows, size)


def footer(path: Path) -> tuple[Any, Any]:
    """Schema and metadata."""
    with reading(str(path)), parquet.ParquetFile(path) as file:
        return file.schema_arrow, file.metadata


def read(
    path: Path,
    columns: list[str] | None,
    batch_rows: int,
    labels: Iterable[str] | None = None,
    rows: tuple[int, int] | None = None,
) -> Iterator[Any]:
    """One file, a row group after the other, so that a damaged one can be named; with `rows` the rows [start, stop).

    With `labels` (names of columns) text is checked, and comes as dictionaries in these columns.
    """
    start, stop = (0, SIZE_MAX) if rows is None else rows
    with reading(str(path)):
        texts = list(labels or ()) or None
        file = parquet.ParquetFile(path, read_dictionary=texts, buffer_size=READ_BYTES, page_checksum_verification=True)
    with file:
        after = 0
        for group in range(file.metadata.num_row_groups):
            where, stated, found = f"{path}, row group {group}", file.metadata.row_group(group).num_rows, 0
            first, after = after, after + stated
            if after <= start or first >= stop:
                continue
            with reading(where):
                batches = file.iter_batches(batch_rows, row_groups=[group], columns=columns)
            while True:
                with reading(where):
                    batch = next(batches, None)
                    if batch is not None and labels is not None:
                        batch.validate(full=True)
                if batch is None:
                    break
                table = cut(pa.Table.from_batches([batch]), start - first - found, stop - first - found)
                found += batch.num_rows
                if table.num_rows:
                    yield table if columns is None else table.select(columns)
                if first + found >= stop:
                    break
            if found != stated and first + found < stop:
                raise ValueError(f"cannot read {where!r}: it must have {stated:,} rows, got {found:,}")


def cut(table: Any, start: int, stop: int) -> Any:
    """Its rows [start, stop), as far as there are any; both can be beyond its ends."""
    start = max(0, start)
    return table.slice(start, max(0, min(stop, table.num_rows) - start))


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Whatever a reader says about a bad file, as one line that says where."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"cannot read {where!r}: {reason(error)}") from error


def _chosen(schema: Any, columns: Iterable[str] | None) -> list[Any]:
    """What to select: names, or the positions of all columns."""
    if columns is None:
        if not schema.names:
            raise ValueError("source must have at least one column, got none")
        return list(range(len(schema.names)))
    names = list(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else []
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"columns must be names of columns, each once, got {columns!r}")
    for name in names:
        times = schema.names.count(name)
        if times == 0:
            raise ValueError(f"columns must name columns of the source, got {name!r}; {nearest(name, schema.names)}")
        if times > 1:
            raise ValueError(f"columns must name single columns of the source, got {name!r}, which is there {times} times")
    return names


def agree(schema: Any, first: str, other: Any, second: str) -> None:
    """Refuse two schemas that differ."""
    if not schema.equals(other, check_metadata=False):
        raise ValueError(f"source must have one schema, got {described(schema)} in {first} and {described(other)} in {second}")


def _bare(fields: Iterable[Any]) -> Any:
    return pa.schema([field.remove_metadata() for field in fields])


def _width(kind: Any) -> int:
    """Bytes of a value if all have as many, else 0."""
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return 0
