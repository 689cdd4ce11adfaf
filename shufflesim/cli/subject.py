"""From the columns of a table and a name with parameters to data and the protocol that fits them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .column import domain_labels, encode, named, public, read, without_missing
from .output import progress
from .shell import refusing

if TYPE_CHECKING:
    import pandas as pd

    from shufflesim import Protocol, Randomizer, Stream

# Bytes of a file from which on it is read in batches. What is printed does not depend on it, but for how bad input is described.
LARGE = 2**26


@dataclass(frozen=True)
class Source:
    """Where the values of users come from, as the options say it; read once.

    Attributes
    ----------
    data, dataset : tuple of Path, str or None
        Files or a folder, or the name of a bundled table; one of them. Several files and folders are streamed.
    columns : tuple of str
        One column, or the columns that together hold a user's value.
    domain : Path or None
        Text file with the public categories.
    dropna : bool
        Leave out rows with a missing value.
    notes : list of str
        What the user must be told is appended.
    """

    data: tuple[Path, ...]
    dataset: str | None
    columns: tuple[str, ...]
    domain: Path | None
    dropna: bool
    notes: list[str]

    def __post_init__(self) -> None:
        names = [str(path) for path in self.data if not path.exists()]
        if len(self.data) == 1 and self.dataset is None and names and names[0] in _bundled():
            object.__setattr__(self, "dataset", names[0])
            object.__setattr__(self, "data", ())
        for name in names if self.data else ():
            if not Path(name).suffix:
                bundled = ", ".join(_bundled())
                raise click.UsageError(f"--data must be a file or a folder that exists, or one of {bundled}, got {name!r}")
        if (not self.data) == (self.dataset is None):
            given = "both" if self.data else "none"
            raise click.UsageError(f"exactly one of --data and --dataset must be given, got {given}")
        repeated = [c for c in self.columns if self.columns.count(c) > 1]
        if repeated:
            raise click.UsageError(f"--column must name different columns, got {repeated[0]!r} twice")

    def numbers(self, name: str) -> pd.DataFrame | Stream:
        """The columns as numbers, which the named mechanism takes."""
        if self.domain is not None:
            raise click.UsageError(f"--domain must go with categories, got {name}, which takes numbers")
        return self._numbers

    @cached_property
    def _numbers(self) -> pd.DataFrame | Stream:
        return self._stream or self._frame(numbers=self.columns)

    @cached_property
    def categories(self) -> pd.DataFrame | Stream:
        """The columns as categoricals that share their categories."""
        import pandas as pd

        if self._stream is not None:
            return self._categorical(self._stream, self.columns)
        return pd.DataFrame(self._encoded(self._frame(numbers=()), self.columns))

    @cached_property
    def key_values(self) -> pd.DataFrame | Stream:
        """The columns as key, value, key, value: keys as categoricals that share their categories, values as numbers."""
        import pandas as pd

        if self._stream is not None:
            return self._categorical(self._stream, self.columns[::2])
        frame = self._frame(numbers=self.columns[1::2])
        encoded = self._encoded(frame, self.columns[::2])
        return pd.DataFrame({column: encoded.get(column, frame[column].array) for column in self.columns})

    @cached_property
    def _stream(self) -> Stream | None:
        """Several files, folders and large files, as numbers or codes."""
        from shufflesim import Stream

        large = [path for path in self.data if path.is_dir() or (path.is_file() and path.stat().st_size > LARGE)]
        if len(self.data) < 2 and not large:
            return None
        with refusing(), progress("looking at the files"):
            found = Stream(self.data if len(self.data) > 1 else self.data[0], self.columns, dropna=self.dropna)
            _ = found.tables
        return found

    def _categorical(self, stream: Stream, columns: tuple[str, ...]) -> Stream:
        """The stream with categories, those of --domain or those that occur."""
        from shufflesim import categorical

        with refusing(), progress("looking for categories"):
            stream = replace(stream, labels=columns)
            labels = None
            if self.domain is not None:
                example = None if stream.tables.spelled else stream.example(columns[0])
                labels = domain_labels(self.domain, example)
            found = categorical(stream, labels)
        if labels is None:
            self.notes.append(public(len(found.categories), "+".join(columns)))
        return found

    def _encoded(self, frame: pd.DataFrame, columns: tuple[str, ...]) -> dict[str, Any]:
        """Columns as categoricals that share their categories."""
        import pandas as pd

        stacked = pd.concat([frame[column] for column in columns]) if len(columns) > 1 else frame[columns[0]]
        spelled = bool(self.data) and self.data[0].suffix.lower() != ".parquet"
        if spelled and len(columns) > 1:
            # Categoricals of different columns have become text again.
            stacked = stacked.astype("category")
        encoded = encode(stacked, "+".join(columns), self.domain, spelled=spelled, notes=self.notes)
        rows = len(frame)
        return {column: encoded.iloc[k * rows : (k + 1) * rows].array for k, column in enumerate(columns)}

    def _frame(self, *, numbers: tuple[str, ...]) -> pd.DataFrame:
        import pandas as pd

        series = {column: self._column(column, column in numbers) for column in self.columns}
        if len(series) == 1:
            return pd.DataFrame(series)
        return pd.concat(series, axis=1, join="inner")

    def _column(self, column: str, numbers: bool) -> pd.Series[Any]:
        if self.data:
            return read(self.data[0], column, numbers=numbers, dropna=self.dropna, notes=self.notes)
        import pyarrow as pa

        from shufflesim import datasets

        with refusing():
            frame = datasets.load(str(self.dataset))
        named(column, list(frame.columns))
        cells = pa.chunked_array([pa.Array.from_pandas(frame[column])])
        return without_missing(cells, column, dropna=self.dropna, notes=self.notes)


def categories_of(values: pd.DataFrame | Stream) -> list[Any]:
    """The categories that all columns of labels share."""
    return list(values.dtypes.iloc[0].categories if hasattr(values, "dtypes") else values.categories)


def users_of(values: Any) -> int:
    """Number of users; a stream may have to be read for it."""
    with refusing():
        return values.users if hasattr(values, "users") else len(values)


def rows_of(values: Any) -> int | None:
    """Number of users as far as it is known."""
    return values.tables.rows if hasattr(values, "tables") else len(values)


def tell_dropped(values: Any, notes: list[str]) -> None:
    """How many rows of a stream were left out, once it has been read."""
    if getattr(values, "dropped", 0):
        notes.append(f"--dropna left out {values.dropped:,} rows, where a value is missing")


def _bundled() -> list[str]:
    from shufflesim.datasets.bundled import NAMES

    return list(NAMES)


def fitted(name: str, parameters: dict[str, Any], source: Source) -> tuple[Protocol | Randomizer, Any]:
    """The protocol, with what follows from the data (d, s, dim) filled in, and the data in its domain."""
    from shufflesim import catalogue
    from shufflesim.domains import KeyValues, Sets

    with refusing():
        entry = catalogue.find(name)
        known = catalogue.parameters(entry)
    width = len(source.columns)
    if "dim" in known and (width > 1 or known["dim"].default is not None):
        parameters = {"dim": width, **parameters}
    example = next(entry.examples(), None)
    if "users" in known and "users" not in parameters and example is not None:
        counted = example.domain.target == "count"
        parameters = {"users": users_of(source.categories if counted else source.numbers(name)), **parameters}
    if "s" in known and example is not None and isinstance(example.domain, Sets):
        parameters = {"s": width, **parameters}
    pairs = example is not None and isinstance(example.domain, KeyValues)
    # Keys are integers below a stated d, or labels.
    integers = pairs and "d" in parameters and source.domain is None
    if pairs:
        parameters = {"s": max(1, width // 2), **parameters}
    protocol: Protocol | Randomizer | None = None
    with refusing():
        if "d" in parameters or "d" not in known:
            protocol = catalogue.build(name, parameters)
    if protocol is not None:
        _count_columns(protocol, width)
        if integers:
            return protocol, source.numbers(name)
        if protocol.domain.target == "mean":
            return protocol, shaped(source.numbers(name), protocol)
    frame = source.key_values if pairs else source.categories
    labels = len(categories_of(frame))
    if protocol is None:
        with refusing():
            protocol = catalogue.build(name, {**parameters, "d": labels})
        _count_columns(protocol, width)
    d = getattr(protocol.domain, "d", labels)
    if d != labels:
        raise click.UsageError(
            f"the data or --domain must have the d = {d} categories of {protocol!r}, got {labels} "
            "(--domain can list categories that do not occur)"
        )
    return protocol, shaped(frame, protocol)


def shaped(frame: pd.DataFrame | Stream, protocol: Protocol | Randomizer) -> Any:
    """A single column as a Series; a stream is that by itself."""
    return frame if protocol.domain.shape or not hasattr(frame, "iloc") else frame.iloc[:, 0]


def _count_columns(protocol: Protocol | Randomizer, given: int) -> None:
    needed = math.prod(protocol.domain.shape)
    if needed != given:
        raise click.UsageError(f"--column must be given {needed} times for {protocol!r}, got {given}")
