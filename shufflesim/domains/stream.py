"""Data that are larger than memory: batches of files or of an iterator, of which one is held at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .labels import distinct, encode, in_order, refuse_missing_labels

if TYPE_CHECKING:
    import pandas as pd

    from ..tables import Tables

# Different labels that are looked for; more are no categories.
LABELS_MOST = 2**22


@dataclass(eq=False)
class Stream:
    """Data in batches, for `simulate` and `compare`, which hold one batch at a time.

    Parameters
    ----------
    source : path, list of paths, pyarrow.dataset.Dataset, pyarrow.RecordBatchReader or iterator
        A Parquet or csv file (`.csv`, `.csv.gz`); a folder of `*.parquet` files, taken in the order of their names; a list of
        files of one kind; or an iterator of DataFrames, Series, arrays or Arrow batches, which can be read only once, such as
        ``pandas.read_csv(..., chunksize=...)``. Without further arguments, `simulate` takes these as they are.
    columns : str or sequence of str, optional
        The column of the values; several for sets, vectors and points. By default all.
    categories : array_like, optional
        The public list of what columns of labels hold; `categorical` sets it too. Columns are numbers or codes otherwise.
    labels : sequence of str, optional
        The columns of labels, if only some of them are: the keys of key-value pairs.
    dropna : bool
        Leave out rows with a missing value; for tables, not for arrays.

    Attributes
    ----------
    dropped : int
        Rows that the last reading left out.

    Raises
    ------
    ValueError
        If an argument is none of these. Files are looked at when data are first needed: a missing column, different schemas and
        a truncated Parquet file are refused before the first user is run, damage inside a file when it is reached. Parquet finds
        every damage in files that were written with ``write_page_checksum=True``, in others only what cannot be decoded.

    Notes
    -----
    Memory: a batch of at most 262,144 rows (2 MiB of a csv file), a row group of a dataset (whose reader is Arrow's own), or what
    an iterator gives at once. Categories are looked up in a list that is held.

    Examples
    --------
    >>> import shufflesim as ss
    >>> chunks = (np.arange(1000) % 3 for _ in range(4))
    >>> ss.simulate(ss.mechanisms.GRR(2.0, 3), ss.Stream(chunks), delta=1e-6, seed=1).estimates["truth"].tolist()
    [1336.0, 1332.0, 1332.0]
    """

    source: Any
    columns: str | Sequence[str] | None = None
    categories: Any = None
    labels: Sequence[str] | None = None
    dropna: bool = False
    dropped: int = field(default=0, init=False)
    _first: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        from ..tables import is_stream

        if not is_stream(self.source):
            rule = "a path, a list of paths, an Arrow dataset or reader, or an iterator of batches"
            raise ValueError(f"source must be {rule}, got {type(self.source).__name__}")
        if isinstance(self.columns, str):
            self.columns = (self.columns,)
        for name, given in (("columns", self.columns), ("labels", self.labels)):
            if given is None:
                continue
            listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
            if not listed or not all(isinstance(item, str) for item in listed) or len(set(listed)) < len(listed):
                raise ValueError(f"{name} must be names of columns, each once, got {given!r}")
        if self.categories is not None:
            self.categories = distinct(self.categories)

    @classmethod
    def of(cls, data: Any) -> Any:
        """A stream of what can be one; other data as they are."""
        # Without the import of Arrow.
        if isinstance(data, (cls, np.ndarray)):
            return data
        from ..tables import is_stream

        return cls(data) if is_stream(data) else data

    @cached_property
    def tables(self) -> Tables:
        """What is read; files have been checked."""
        from ..tables import opened

        return opened(self.source, self.columns)

    @cached_property
    def users(self) -> int:
        """Number of users, read from the data where nothing else tells; refused for an iterator."""
        self.refuse_once("where the number of users is needed beforehand")
        if self.tables.exact and not self.dropna:
            return int(self.tables.rows or 0)
        return sum(len(frame) for frame in self._read(labelled=True))

    @property
    def once(self) -> bool:
        """Whether it can be read only once."""
        return isinstance(self.source, Iterator)

    def refuse_once(self, why: str) -> None:
        """An iterator where data are read more than once."""
        if self.once:
            raise ValueError(f"data must be files or a dataset {why}, got an iterator, which can be read only once")

    @property
    def divisible(self) -> bool:
        """Whether any rows can be read without those before them: of Parquet files, if all rows count."""
        return bool(self.tables.divisible) and not self.dropna

    def part(self, start: int, stop: int) -> Stream:
        """Its rows [start, stop), for any process that can read the files; of what is `divisible`."""
        found = copy(self)
        # In place of the source, which can be large.
        found.source = found.__dict__["tables"] = self.tables.part(start, stop)  # type: ignore[union-attr]
        found._first = start
        return found

    def anywhere(self) -> Stream:
        """The same for any process that can read the files."""
        found = copy(self)
        found.source = found.__dict__["tables"] = self.tables.anywhere()
        return found

    def encoded(self, categories: Any) -> Stream:
        """The same with a list of categories; files are not looked at again."""
        found = replace(self, categories=categories)
        found.__dict__.update({name: self.__dict__[name] for name in ("tables",) if name in self.__dict__})
        return found

    def occurring(self) -> Any:
        """The labels that occur, sorted; those of categoricals in their order, if it is the same in all batches."""
        import pandas as pd

        from .._csv import plain_numbers

        self.refuse_once("if `categorical` gets no public list as second argument")
        spelled = self.tables.spelled
        found: set[Any] = set()
        lists: set[tuple[Any, ...] | None] = set()
        rows = 0
        for frame in self._read(labelled=spelled):
            for name in self._labels(frame):
                column = frame[name]
                refuse_missing_labels(column, rows)
                encoded = isinstance(column.dtype, pd.CategoricalDtype)
                labels = column.cat.categories if encoded else column.unique()
                found.update(labels)
                if len(lists) < 2:
                    lists.add(tuple(labels) if encoded and not spelled else None)
            rows += len(frame)
            if len(found) > LABELS_MOST:
                raise ValueError(f"the column must have at most {LABELS_MOST:,} different labels, got {len(found):,}")
        if not rows:
            raise ValueError("the column must have at least one value, got none")
        only = lists.pop() if len(lists) == 1 else None
        return only or in_order(plain_numbers(sorted(found)) if spelled else found)

    def example(self, name: str) -> pd.Series[Any]:
        """Values of a column from the first batch that has any."""
        for frame in self._read(labelled=True):
            found: pd.Series[Any] = frame[name].dropna()
            if len(found):
                return found
        raise ValueError(f"column {name!r} must have at least one value, got none")

    def batches(self, single: bool) -> Iterator[Any]:
        """What `Domain.collect` takes, piece by piece, none of them empty; one column as a Series if values are `single`."""
        import pandas as pd

        rows = self._first
        for batch in self._read(labelled=self.categories is not None):
            if len(batch) == 0:
                continue
            if self.categories is not None:
                batch = self._encoded(pd.DataFrame(batch), rows)
            yield batch.iloc[:, 0] if single and isinstance(batch, pd.DataFrame) and batch.shape[1] == 1 else batch
            rows += len(batch)

    def _encoded(self, frame: pd.DataFrame, offset: int) -> pd.DataFrame:
        """With categoricals for labels; what a csv file has for one is its spelling."""
        for name in self._labels(frame):
            if self.tables.spelled:
                column = encode(frame[name], self._spellings, offset).cat.rename_categories(self.categories)
            else:
                column = encode(frame[name], self.categories, offset)
            frame[name] = column
        return frame

    @cached_property
    def _spellings(self) -> pd.Index[Any]:
        return distinct([str(label) for label in self.categories])

    def _labels(self, frame: pd.DataFrame) -> Sequence[Any]:
        return list(frame.columns) if self.labels is None else self.labels

    def _read(self, labelled: bool) -> Iterator[Any]:
        """Batches as DataFrames, or arrays of an iterator; columns of labels are left as they are written if `labelled`."""
        import pandas as pd

        self.dropped = 0
        labels = () if not labelled else self.labels or self.tables.columns or ()
        for item in self.tables.read(labels):
            if isinstance(item, np.ndarray):
                if self.dropna:
                    raise ValueError("dropna must go with tables, got an array")
                yield item
                continue
            frame = _frame(item)
            missing = frame.isna().any(axis=1).to_numpy() if self.dropna else np.zeros(1, dtype=bool)
            if missing.any():
                self.dropped += int(missing.sum())
                # Filtered before pandas sees it: integers beside a missing value would become floats.
                frame = frame[~missing] if isinstance(item, pd.DataFrame) else _frame(item.filter(~missing))
            yield frame


def _frame(item: Any) -> pd.DataFrame:
    """Of an Arrow table or batch; the metadata could make a column an index."""
    frame: pd.DataFrame = item.to_pandas(ignore_metadata=True) if hasattr(item, "to_pandas") else item
    return frame
