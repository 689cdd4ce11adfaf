"""Data of a sweep: bundled tables, files and generators; n users' values from a seed."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from .. import datasets
from .._checks import nearest
from .._csv import plain_numbers
from ..domains import categorical
from ..domains.base import Array

Users = Literal["sample", "first"]
GENERATORS = tuple(sorted({*datasets.__all__} - {"load"}))
SUFFIXES = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class Generated:
    """A synthetic column of `shufflesim.datasets`.

    Attributes
    ----------
    generator : str
        Name of the function.
    arguments : tuple of (str, value)
        Without n and seed.
    """

    generator: str
    arguments: tuple[tuple[str, Any], ...]

    def __post_init__(self) -> None:
        if self.generator not in GENERATORS:
            raise ValueError(
                f"generator must be a known name, got {self.generator!r}; {nearest(str(self.generator), GENERATORS)}"
            )
        takes = {name: p for name, p in inspect.signature(self._make).parameters.items() if name not in ("n", "seed")}
        given = dict(self.arguments)
        for key in given:
            if key not in takes:
                raise ValueError(f"{key!r} is unknown to {self.generator}; {nearest(key, takes)}")
        missing = [key for key, p in takes.items() if p.default is inspect.Parameter.empty and key not in given]
        if missing:
            raise ValueError(f"{self.generator} needs {missing[0]!r}, which was not given")
        self.draw(1, 0, numbers=False)

    @property
    def _make(self) -> Any:
        return getattr(datasets, self.generator)

    @property
    def width(self) -> int:
        """Columns: one."""
        return 1

    @property
    def said(self) -> dict[str, Any]:
        """What the values depend on besides n and the seed."""
        return {"generator": self.generator, **dict(self.arguments)}

    @property
    def label(self) -> str:
        """For tables and pictures."""
        return f"{self.generator}({', '.join(f'{key}={canonical(value)}' for key, value in self.arguments)})"

    @property
    def categories(self) -> int | None:
        """How many codes there are; None for numbers."""
        return dict(self.arguments).get("d")

    def draw(self, n: int, seed: int, *, numbers: bool) -> Any:
        """Values of n users; codes can serve as numbers."""
        return self._make(n, **dict(self.arguments), seed=seed)

    def extremes(self, n: int, *, numbers: bool) -> Any:
        """Values between which all others are."""
        if self.categories is not None:
            return np.array([0, self.categories - 1])
        known = inspect.signature(self._make).parameters
        return np.array([float(dict(self.arguments).get(end, known[end].default)) for end in ("low", "high")])


@dataclass(frozen=True)
class Table:
    """Columns of a bundled table or of a file.

    Attributes
    ----------
    name : str
        Of the bundled table, or of the file without its folder: so that the same file elsewhere is the same data.
    columns : tuple of str
        One, or those that together hold a user's value.
    users : {"sample", "first"}
        n rows with replacement, or the first n rows.
    path, sha256 : str, optional
        Of the file, and of its bytes: other bytes are other data.
    """

    name: str
    columns: tuple[str, ...]
    users: Users = "sample"
    path: str | None = None
    sha256: str = ""

    def __post_init__(self) -> None:
        if self.users not in get_args(Users):
            raise ValueError(
                f"users must be 'sample' (n rows with replacement) or 'first' (the first n rows), got {self.users!r}"
            )
        texts = [column for column in self.columns if not isinstance(column, str)]
        if texts or not self.columns:
            raise ValueError(f"column must be the name of a column, or a list of lists of names, got {[*self.columns]!r}")
        if len({*self.columns}) < len(self.columns):
            raise ValueError(f"column must name different columns, got {[*self.columns]!r}")

    @property
    def width(self) -> int:
        """Columns that hold a user's value."""
        return len(self.columns)

    @property
    def said(self) -> dict[str, Any]:
        """What the values depend on besides n and the seed: of a file its bytes."""
        source = {"dataset": self.name} if self.path is None else {"file": self.name, "sha256": self.sha256}
        return {**source, "column": "+".join(self.columns), "users": self.users}

    @property
    def spelled(self) -> bool:
        """Whether it is a csv file, where a label is its text."""
        return self.path is not None and not self.path.lower().endswith(".parquet")

    @property
    def label(self) -> str:
        """For tables and pictures."""
        return f"{self.name}:{'+'.join(self.columns)}"

    @property
    def categories(self) -> int:
        """How many labels occur."""
        values = _read(self, numbers=False)
        return len((values if self.width == 1 else values.iloc[:, 0]).cat.categories)

    def draw(self, n: int, seed: int, *, numbers: bool) -> Any:
        """Values of n users."""
        held = _read(self, numbers=numbers)
        if self.users == "first":
            chosen: Any = slice(0, self._enough(n, len(held)))
        else:
            chosen = np.random.default_rng(seed).integers(0, len(held), n)
        return held[chosen] if isinstance(held, np.ndarray) else held.iloc[chosen].reset_index(drop=True)

    def extremes(self, n: int, *, numbers: bool) -> Any:
        """Values that hold all others: the whole column, or its first n."""
        held = _read(self, numbers=numbers)
        return held[: self._enough(n, len(held))] if self.users == "first" else held

    def _enough(self, n: int, rows: int) -> int:
        if n > rows:
            raise ValueError(f"n must be at most the {rows:,} rows of {self.name} where users = 'first', got {n:,}")
        return n


Data = Generated | Table


def data_of(said: Mapping[str, Any], folder: Path) -> Data:
    """What one entry of the grid over a [[data]] table stands for.

    Raises
    ------
    ValueError
        For a key or a value that breaks a rule.
    """
    kinds = [kind for kind in ("dataset", "file", "generator") if kind in said]
    if len(kinds) != 1:
        raise ValueError(f"exactly one of 'dataset', 'file' and 'generator' must be given, got {kinds or 'none'}")
    kind, source = kinds[0], said[kinds[0]]
    if kind == "generator":
        return Generated(source, tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in said.items() if k != kind))
    known = [kind, "column", "users"]
    for key in said:
        if key not in known:
            raise ValueError(f"{key!r} is unknown beside {kind!r}; {nearest(key, known)}")
    if "column" not in said:
        raise ValueError(f"'column' must be given beside {kind!r}, got none")
    if not isinstance(source, str):
        raise ValueError(f"{kind} must be a text, got {source!r}")
    columns = tuple(said["column"]) if isinstance(said["column"], list) else (said["column"],)
    options = {"users": said["users"]} if "users" in said else {}
    if kind == "dataset":
        made = Table(source, columns, **options)
    else:
        path = folder / source
        if not path.name.lower().endswith(SUFFIXES):
            raise ValueError(f"file must end in {', '.join(SUFFIXES)}, got {source!r}")
        try:
            sha256 = _sha256(path)
        except OSError as error:
            raise ValueError(f"file must be readable, got {source!r}: {error.strerror}") from None
        made = Table(path.name, columns, path=str(path.resolve()), sha256=sha256, **options)
    _frame(made, numbers=False, check=True)
    return made


def canonical(value: Any) -> Any:
    """1.0 and 1 are one value."""
    if isinstance(value, Mapping):
        return {key: canonical(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(v) for v in value]
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(maxsize=16)
def _read(table: Table, *, numbers: bool) -> Any:
    """A column as categories, several as categories that they share; or all as numbers."""
    import pandas as pd

    frame = _frame(table, numbers=numbers)
    for column in table.columns:
        missing = frame[column].isna().to_numpy()
        if missing.any():
            raise ValueError(
                f"column {column!r} of {table.name} must have no missing values, got {int(missing.sum()):,}, "
                f"the first in row {int(missing.argmax()) + 1}"
            )
    if numbers:
        if not all(pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes):
            raise ValueError(f"columns of {table.name} must hold numbers, got {[str(kind) for kind in frame.dtypes]}")
        array: Array = frame.to_numpy()
        return array[:, 0] if table.width == 1 else array
    if table.width == 1:
        values = frame.iloc[:, 0]
        if not table.spelled:
            return categorical(values)
        # Labels of a csv file come in the order in which they occur; numbers are ordered as such, 2 before 10.
        labels = sorted(values.cat.categories)
        return categorical(values, [label for _, label in sorted(zip(plain_numbers(labels), labels, strict=True))])
    shared = categorical(pd.concat([frame[column].astype(object) for column in table.columns])).cat.categories
    return pd.DataFrame({column: categorical(frame[column], shared) for column in table.columns})


def _frame(table: Table, *, numbers: bool, check: bool = False) -> Any:
    """The columns; with `check` only whether they are there."""
    if table.path is None:
        frame = datasets.load(table.name)
        _named(table, [*frame.columns])
        return frame[[*table.columns]]
    import pyarrow as pa

    from ..tables import Files

    files = Files.of(table.path, table.columns)
    if check:
        return None
    # Labels of a csv file stay its text, where 01 and 1 differ. Those of a Parquet file are not made dictionaries, in which they
    # would be in the order in which they occur; its own dictionaries stay.
    labels = table.columns if table.spelled and not numbers else ()
    parts = [part for part in files.read(labels) if part.num_rows]
    if not parts:
        raise ValueError(f"{table.name} must have at least one row, got none")
    if _sha256(Path(table.path)) != table.sha256:
        raise ValueError(f"{table.name} must stay as it is during a sweep, got other content than at its beginning")
    # The metadata could make a column an index.
    return pa.concat_tables(parts).to_pandas(ignore_metadata=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _named(table: Table, known: list[str]) -> None:
    for column in table.columns:
        if column not in known:
            raise ValueError(f"column must name a column of {table.name}, got {column!r}; {nearest(column, known)}")
