"""Tables that are read batch by batch: files, Arrow datasets, and iterators."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from ._checks import nearest
from ._csv import check_csv, is_csv, named, read_csv
from .sources import agree, cut, files, footer, read, reading, reason

SUFFIXES = (".csv", ".csv.gz", ".parquet")
# Rows of a batch, and numbers in one that has many columns.
BATCH_ROWS = 2**18
BATCH_CELLS = 2**22

T = TypeVar("T")


@dataclass(frozen=True)
class Files:
    """The same columns of files of one kind, which are checked before any of them is read.

    Attributes
    ----------
    paths : tuple of Path
        In the order of their rows.
    columns : tuple of str
        In the order of the tables.
    counts : tuple of int
        Rows of each file; of csv files at most so many, since a cell can have several lines.
    exact : bool
        Whether these are the numbers of rows.
    stamped : bool
        Whether a part of it tells when its data have changed.
    """

    paths: tuple[Path, ...]
    columns: tuple[str, ...]
    counts: tuple[int, ...]
    exact: bool
    stamped = True

    @classmethod
    def of(cls, given: Any, columns: Sequence[str] | None) -> Files:
        """Of a path, a folder of Parquet files, or a list of paths; by default with all columns."""
        paths = _paths(given)
        spelled = is_csv(paths[0])
        found, counts = (check_csv if spelled else _check_parquet)(paths, columns)
        return cls(tuple(paths), found, tuple(counts), exact=not spelled)

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(self.counts)

    @property
    def spelled(self) -> bool:
        """Whether a label is known by its text only."""
        return not self.exact

    def read(self, labels: Collection[str]) -> Iterator[Any]:
        """Arrow tables; columns among `labels` as they are written, other columns of csv files as numbers."""
        for path in self.paths:
            if self.spelled:
                yield from read_csv(path, self.columns, labels)
            else:
                yield from read(path, list(self.columns), _batch_rows(self.columns), labels)

    @property
    def divisible(self) -> bool:
        """Whether rows can be found without reading those before them."""
        return self.exact

    def anywhere(self) -> Files:
        """The same for any process that can read the files."""
        return replace(self, paths=tuple(path.absolute() for path in self.paths))

    def part(self, start: int, stop: int) -> Part:
        """Its rows [start, stop), as `anywhere`."""
        pieces = [(path, *rows) for path, rows in _overlapping(self.anywhere().paths, self.counts, start, stop)]
        return Part(tuple(pieces), self.columns)


@dataclass(frozen=True)
class Part:
    """Some rows of Parquet files, or of row groups of a dataset; attributes as `Files` has them.

    Attributes
    ----------
    pieces : tuple of (Path or pyarrow.dataset.ParquetFileFragment, int, int)
        Where rows are, the first one and the one after the last one.
    schema : pyarrow.Schema, optional
        Of the dataset.
    """

    pieces: tuple[tuple[Any, int, int], ...]
    columns: tuple[str, ...]
    schema: Any = None
    exact = True
    spelled = False
    divisible = False
    stamped = True

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(stop - start for _, start, stop in self.pieces)

    def anywhere(self) -> Part:
        """It is."""
        return self

    @property
    def identity(self) -> list[Any]:
        """What the rows depend on, as far as the file system tells; for files only."""
        found = [(str(path), path.stat(), start, stop) for path, start, stop in self.pieces]
        return [list(self.columns), [[path, stat.st_size, stat.st_mtime_ns, *rows] for path, stat, *rows in found]]

    def read(self, labels: Collection[str]) -> Iterator[Any]:
        """Arrow tables or batches."""
        for place, start, stop in self.pieces:
            if self.schema is None:
                yield from read(place, list(self.columns), _batch_rows(self.columns), labels, (start, stop))
                continue
            found = 0
            with reading(f"{place.path}, row group {place.row_groups[0].id}"):
                for batch in place.to_batches(self.schema, **_options(self.columns)):
                    yield cut(batch, start - found, stop - found)
                    found += batch.num_rows


@dataclass(frozen=True)
class Dataset:
    """Columns of a `pyarrow.dataset.Dataset`; attributes as `Files` has them."""

    source: Any
    columns: tuple[str, ...]
    exact = True
    spelled = False
    stamped = False

    @classmethod
    def of(cls, given: Any, columns: Sequence[str] | None) -> Dataset:
        """By default with all columns."""
        known = given.schema.names
        for name in columns or ():
            if name not in known:
                raise ValueError(f"columns must name columns of the dataset, got {name!r}; {nearest(name, known)}")
        return cls(given, tuple(known if columns is None else columns))

    @property
    def rows(self) -> int:
        """Number of rows; Arrow counts those of whole files, also of a dataset of some of their row groups."""
        if self.divisible:
            return sum(count for _, count in self._groups)
        with reading("the dataset"):
            return int(self.source.count_rows())

    @property
    def divisible(self) -> bool:
        """As of `Files`: of Parquet files without a filter."""
        return bool(self._groups)

    def anywhere(self) -> Dataset | Part:
        """As of `Files`; what is no Parquet file, or filtered, must have paths that are right everywhere."""
        return self.part(0, self.rows) if self.divisible else self

    def part(self, start: int, stop: int) -> Part:
        """As of `Files`."""
        groups, counts = zip(*self._groups, strict=True)
        pieces = [(group, *rows) for group, rows in _overlapping(groups, counts, start, stop)]
        return Part(tuple(pieces), self.columns, self.source.schema)

    @cached_property
    def _groups(self) -> list[tuple[Any, int]]:
        """Row groups with their numbers of rows; none if there are others."""
        import pyarrow.dataset as arrow

        found: list[tuple[Any, int]] = []
        try:
            for fragment in self.source.get_fragments():
                if not isinstance(fragment, arrow.ParquetFileFragment):
                    return []
                with reading(fragment.path):
                    found += [(_absolute(group), group.row_groups[0].num_rows) for group in fragment.split_by_row_group()]
        except ValueError as error:
            # What Arrow says of a filter; a file that cannot be read has a cause.
            if error.__cause__ is not None:
                raise
            return []
        return found

    def read(self, labels: Collection[str]) -> Iterator[Any]:
        """Arrow batches."""
        batches = self.source.to_batches(**_options(self.columns))
        while True:
            try:
                batch = next(batches, None)
            except (OSError, pa.ArrowException) as error:
                raise ValueError(f"cannot read {self._damaged()!r}: {reason(error)}") from error
            if batch is None:
                return
            yield batch

    def _damaged(self) -> str:
        """The first part of the dataset that cannot be read: Arrow does not name it."""
        for fragment in self.source.get_fragments():
            place = getattr(fragment, "path", "a dataset")
            try:
                for part in fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]:
                    groups = getattr(part, "row_groups", None)
                    place = f"{fragment.path}, row group {groups[0].id}" if groups else place
                    for _ in part.to_batches(self.source.schema, **_options(self.columns)):
                        pass
            except (OSError, pa.ArrowException):
                return place
        return "a dataset"


@dataclass(frozen=True)
class Once:
    """Batches of an iterator; an error of its own passes through."""

    source: Iterator[Any]
    columns: tuple[str, ...] | None
    rows = None
    exact = True
    spelled = False
    divisible = False
    stamped = False

    def anywhere(self) -> Once:
        """The same; it cannot be sent."""
        return self

    def read(self, labels: Collection[str]) -> Iterator[Any]:
        """Arrow batches, DataFrames and arrays, all with the same columns."""
        import numpy as np
        import pandas as pd

        names = None if self.columns is None else list(self.columns)
        for index, item in enumerate(self.source):
            if isinstance(item, np.ndarray) and self.columns is None:
                yield item
                continue
            if isinstance(item, pd.Series):
                item = item.to_frame()
            if not isinstance(item, (pd.DataFrame, pa.Table, pa.RecordBatch)):
                rule = "DataFrames, Series or Arrow batches" + (", or arrays" if self.columns is None else ", which have columns")
                raise ValueError(f"an iterator must give {rule}, got {type(item).__name__} as item {index}")
            known = list(item.columns) if isinstance(item, pd.DataFrame) else item.schema.names
            names = known if names is None else names
            if (known != names) if self.columns is None else any(name not in known for name in names):
                raise ValueError(f"an iterator must give the columns {names} in every batch, got {known} in item {index}")
            yield item[names] if isinstance(item, pd.DataFrame) else item.select(names)


Tables = Files | Dataset | Once | Part


def is_stream(given: Any) -> bool:
    """Whether it is read batch by batch: a path, a list of names of files, a dataset or an iterator."""
    return _is_path(given) or _is_paths(given) or _is_dataset(given) or isinstance(given, Iterator)


def opened(source: Any, columns: Sequence[str] | None) -> Tables:
    """What `is_stream`; files are checked."""
    if isinstance(source, Iterator):
        return Once(source, None if columns is None else tuple(columns))
    return (Dataset if _is_dataset(source) else Files).of(source, columns)


def _overlapping(places: Sequence[T], counts: Sequence[int], start: int, stop: int) -> Iterator[tuple[T, tuple[int, int]]]:
    """Those that hold rows of [start, stop), with the rows of theirs."""
    after = 0
    for place, count in zip(places, counts, strict=True):
        first, after = after, after + count
        low, high = max(start - first, 0), min(stop - first, count)
        if low < high:
            yield place, (low, high)


def _absolute(group: Any) -> Any:
    """A row group of a file of this machine under its whole path."""
    from pyarrow.fs import LocalFileSystem

    if not isinstance(group.filesystem, LocalFileSystem):
        return group
    where = {"filesystem": group.filesystem, "partition_expression": group.partition_expression}
    return group.format.make_fragment(os.path.abspath(group.path), row_groups=[group.row_groups[0].id], **where)


def _options(columns: Sequence[str]) -> dict[str, Any]:
    # By default Arrow reads some million rows ahead.
    rows = _batch_rows(columns)
    return {"columns": list(columns), "batch_size": rows, "batch_readahead": 1, "fragment_readahead": 1}


def _batch_rows(columns: Sequence[str]) -> int:
    return max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, len(columns))))


def _is_path(given: Any) -> bool:
    return isinstance(given, (str, os.PathLike))


def _is_paths(given: Any) -> bool:
    """Other lists of texts are labels."""
    listed = isinstance(given, (list, tuple)) and len(given) > 0 and all(map(_is_path, given))
    return listed and any(isinstance(item, os.PathLike) or _has_suffix(Path(item)) for item in given)


def _is_dataset(given: Any) -> bool:
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(given, module.Dataset)


def _has_suffix(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def _paths(given: Any) -> list[Path]:
    if _is_path(given) and Path(given).is_dir():
        return files(Path(given))
    paths = [Path(item) for item in ([given] if _is_path(given) else given)]
    for path in paths:
        if path.is_dir():
            raise ValueError(f"source must be one folder or several files, not both, got {str(path)!r} among {len(paths)} paths")
        if not _has_suffix(path):
            missing = "" if path.exists() else ", which does not exist"
            raise ValueError(f"source must be files that end in {', '.join(SUFFIXES)}, or a folder, got {str(path)!r}{missing}")
        if is_csv(path) != is_csv(paths[0]):
            raise ValueError(f"source must be files of one kind, got {str(paths[0])!r} and {str(path)!r}")
    return paths


def _check_parquet(paths: list[Path], columns: Sequence[str] | None) -> tuple[tuple[str, ...], list[int]]:
    first: Any = None
    rows = []
    for path in paths:
        schema, metadata = footer(path)
        names = named(schema.names if columns is None else columns, schema.names, path)
        chosen = pa.schema([(name, schema.field(name).type) for name in names])
        nested = next((field for field in chosen if pa.types.is_nested(field.type)), None)
        if nested is not None:
            raise ValueError(f"column {nested.name!r} must hold one value a row, got {nested.type} in {str(path)!r}")
        first = chosen if first is None else first
        agree(first, repr(str(paths[0])), chosen, repr(str(path)))
        rows.append(metadata.num_rows)
    return tuple(first.names), rows
