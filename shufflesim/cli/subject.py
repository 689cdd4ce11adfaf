"""From the columns of a table and a name with parameters to data and the protocol that fits them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .column import encode, named, read, without_missing
from .shell import refusing

if TYPE_CHECKING:
    import pandas as pd

    from shufflesim import Protocol, Randomizer


@dataclass(frozen=True)
class Source:
    """Where the values of users come from, as the options say it; read once.

    Attributes
    ----------
    data, dataset : Path or None, str or None
        A file, or the name of a bundled table; one of them.
    columns : tuple of str
        One column, or the columns that together hold a user's value.
    domain : Path or None
        Text file with the public categories.
    dropna : bool
        Leave out rows with a missing value.
    notes : list of str
        What the user must be told is appended.
    """

    data: Path | None
    dataset: str | None
    columns: tuple[str, ...]
    domain: Path | None
    dropna: bool
    notes: list[str]

    def __post_init__(self) -> None:
        if self.data is not None and self.dataset is None and not self.data.exists() and str(self.data) in _bundled():
            object.__setattr__(self, "dataset", str(self.data))
            object.__setattr__(self, "data", None)
        if (self.data is None) == (self.dataset is None):
            given = "both" if self.data else "none"
            raise click.UsageError(f"exactly one of --data and --dataset must be given, got {given}")
        repeated = [c for c in self.columns if self.columns.count(c) > 1]
        if repeated:
            raise click.UsageError(f"--column must name different columns, got {repeated[0]!r} twice")

    def numbers(self, name: str) -> pd.DataFrame:
        """The columns as numbers, which the named mechanism takes."""
        if self.domain is not None:
            raise click.UsageError(f"--domain must go with categories, got {name}, which takes numbers")
        return self._numbers

    @cached_property
    def _numbers(self) -> pd.DataFrame:
        return self._frame(numbers=self.columns)

    @cached_property
    def categories(self) -> pd.DataFrame:
        """The columns as pandas categoricals that share their categories."""
        import pandas as pd

        return pd.DataFrame(self._encoded(self._frame(numbers=()), self.columns))

    @cached_property
    def key_values(self) -> pd.DataFrame:
        """The columns as key, value, key, value: keys as pandas categoricals that share their categories, values as numbers."""
        import pandas as pd

        frame = self._frame(numbers=self.columns[1::2])
        encoded = self._encoded(frame, self.columns[::2])
        return pd.DataFrame({column: encoded.get(column, frame[column].array) for column in self.columns})

    def _encoded(self, frame: pd.DataFrame, columns: tuple[str, ...]) -> dict[str, Any]:
        """Columns as categoricals that share their categories."""
        import pandas as pd

        stacked = pd.concat([frame[column] for column in columns]) if len(columns) > 1 else frame[columns[0]]
        spelled = self.data is not None and self.data.suffix.lower() != ".parquet"
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
        if self.data is not None:
            return read(self.data, column, numbers=numbers, dropna=self.dropna, notes=self.notes)
        import pyarrow as pa

        from shufflesim import datasets

        with refusing():
            frame = datasets.load(str(self.dataset))
        named(column, list(frame.columns))
        cells = pa.chunked_array([pa.Array.from_pandas(frame[column])])
        return without_missing(cells, column, dropna=self.dropna, notes=self.notes)


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
        parameters = {"users": len(source.categories if counted else source.numbers(name)), **parameters}
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
        shape = protocol.domain.shape
        _count_columns(protocol, width)
        if integers:
            return protocol, source.numbers(name).to_numpy().reshape(-1, *shape)
        if protocol.domain.target == "mean":
            frame = source.numbers(name)
            return protocol, frame if shape else frame[source.columns[0]]
    frame = source.key_values if pairs else source.categories
    labels = len(frame.dtypes.iloc[0].categories)
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
    return protocol, frame if protocol.domain.shape else frame[source.columns[0]]


def _count_columns(protocol: Protocol | Randomizer, given: int) -> None:
    needed = math.prod(protocol.domain.shape)
    if needed != given:
        raise click.UsageError(f"--column must be given {needed} times for {protocol!r}, got {given}")
