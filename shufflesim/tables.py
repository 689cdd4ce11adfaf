"""Tables that are read batch by batch: files, Arrow datasets, and iterators."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ._checks import nearest
from ._csv import check_csv, is_csv, named, read_csv
from .sources import agree, files, footer, read, reading, reason

SUFFIXES = (".csv", ".csv.gz", ".parquet")
# Rows of a batch, and numbers in one that has many columns.
BATCH_ROWS = 2**18
BATCH_CELLS = 2**22


@dataclass(frozen=True)
class Files:
    """The same columns of files of one kind, which are checked before any of them is read.

    Attributes
    ----------
    paths : tuple of Path
        In the order of their rows.
    columns : tuple of str
        In the order of the tables.
    rows : int
        Of all files; of csv files at most so many, since a cell can have several lines.
    exact : bool
        Whether `rows` is the number of rows.
    """

    paths: tuple[Path, ...]
    columns: tuple[str, ...]
    rows: int
    exact: bool

    @classmethod
    def of(cls, given: Any, columns: Sequence[str] | None) -> Files:
        """Of a path, a folder of Parquet files, or a list of paths; by default with all columns."""
        paths = _paths(given)
        spelled = is_csv(paths[0])
        found, rows = (check_csv if spelled else _check_parquet)(paths, columns)
        return cls(tuple(paths), found, rows, exact=not spelled)

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


@dataclass(frozen=True)
class Dataset:
    """Columns of a `pyarrow.dataset.Dataset`; attributes as `Files` has them."""

    source: Any
    columns: tuple[str, ...]
    exact = True
    spelled = False

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
        """Number of rows."""
        with reading("the dataset"):
            return int(self.source.count_rows())

    @property
    def _options(self) -> dict[str, Any]:
        # By default Arrow reads some million rows ahead.
        rows = _batch_rows(self.columns)
        return {"columns": list(self.columns), "batch_size": rows, "batch_readahead": 1, "fragment_readahead": 1}

    def read(self, labels: Collection[str]) -> Iterator[Any]:
        """Arrow batches."""
        batches = self.source.to_batches(**self._options)
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
                    for _ in part.to_batches(self.source.schema, **self._options):
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


Tables = Files | Dataset | Once


def is_stream(given: Any) -> bool:
    """Whether it is read batch by batch: a path, a list of names of files, a dataset or an iterator."""
    return _is_path(given) or _is_paths(given) or _is_dataset(given) or isinstance(given, Iterator)


def opened(source: Any, columns: Sequence[str] | None) -> Tables:
    """What `is_stream`; files are checked."""
    if isinstance(source, Iterator):
        return Once(source, None if columns is None else tuple(columns))
    return (Dataset if _is_dataset(source) else Files).of(source, columns)


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
        if not _has_suffix(path):
            raise ValueError(f"source must be files that end in {', '.join(SUFFIXES)}, or a folder, got {str(path)!r}")
        if is_csv(path) != is_csv(paths[0]):
            raise ValueError(f"source must be files of one kind, got {str(paths[0])!r} and {str(path)!r}")
    return paths


def _check_parquet(paths: list[Path], columns: Sequence[str] | None) -> tuple[tuple[str, ...], int]:
    first: Any = None
    rows = 0
    for path in paths:
        schema, metadata = footer(path)
        names = named(schema.names if columns is None else columns, schema.names, path)
        chosen = pa.schema([(name, schema.field(name).type) for name in names])
        nested = next((field for field in chosen if pa.types.is_nested(field.type)), None)
        if nested is not None:
            raise ValueError(f"column {nested.name!r} must hold one value a row, got {nested.type} in {str(path)!r}")
        first = chosen if first is None else first
        agree(first, repr(str(paths[0])), chosen, repr(str(path)))
        rows += metadata.num_rows
    return tuple(first.names), rows
