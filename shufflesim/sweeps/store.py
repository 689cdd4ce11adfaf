"""The folder of a sweep: a parquet data set in which no file is ever half written and no task counts twice.

Files have one schema, so that any tool reads the folder as one table. A file is written under another name, synced and renamed.
Its name is a hash of the tasks in it: files of two machines can be copied into one folder.
"""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._checks import nearest
from .._identity import digest
from .._resumable import Rows

if TYPE_CHECKING:
    import pandas as pd

# Seconds of work that may be finished and not on disk: a longer task is stored at once, short ones together.
UNSAVED_SECONDS = 0.25
# Files that a process writes before it makes one of them.
FILES_EACH = 64
# Rows that are held until then, at most.
ROWS_HELD = 200_000
# Files that are being written, and after how long nobody is writing them any more.
PARTIAL, ABANDONED_SECONDS = ".partial", 3600.0
# Readings of a folder that changes meanwhile.
TRIES = 10

_KINDS = {
    "task": "text",
    "protocol": "text",
    "subject": "text",
    "parameters": "text",
    "data": "text",
    "data_parameters": "text",
    "n": "integer",
    "delta": "real",
    "method": "text",
    "repeat": "integer",
    "local_epsilon": "real",
    "epsilon_upper": "real",
    "upper_bound": "text",
    "epsilon_lower": "real",
    "messages_per_user": "real",
    "bits_per_user": "real",
    "rmse": "real",
    "expected_rmse": "real",
    "value": "text",
    "truth": "real",
    "estimate": "real",
    "stderr": "real",
    "ci_low": "real",
    "ci_high": "real",
    "seed": "integer",
    "run_seed": "integer",
    "data_seed": "integer",
    "version": "text",
    "code": "text",
    "seconds": "real",
}
COLUMNS = tuple(_KINDS)
# By what rows are ordered, parameters after the first; the rows of a task keep their order.
ORDER = ("protocol", "data", "n", "delta", "method", "repeat", "seed", "task")


class Writer:
    """Stores tasks in a folder, a few in a file; a context that stores the rest at its end.

    Parameters
    ----------
    folder : Path
        Is made if it does not exist.

    Raises
    ------
    OSError
        If the folder cannot be written to; what is in it already is never touched.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._waiting: Rows = []
        self._seconds = 0.0
        # What this process has stored in small files, which it may replace by one.
        self._files: list[Path] = []
        self._rows: Rows = []
        # Before the work and not after it: a folder that cannot be written to.
        _write(folder, b"", None)
        for path in folder.glob(f".*{PARTIAL}"):
            # What a killed process has left, and not what another one is about to rename, or has just renamed.
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()

    def add(self, key: str, code: str, rows: Rows, seconds: float) -> None:
        """A task that is done."""
        self._waiting += [{**row, "task": key, "code": code[:12]} for row in rows]
        self._seconds += seconds
        if self._seconds >= UNSAVED_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Store what is waiting."""
        if not self._waiting:
            return
        self._files.append(_store(self.folder, self._waiting))
        self._rows += self._waiting
        self._waiting, self._seconds = [], 0.0
        if len(self._files) >= FILES_EACH or len(self._rows) > ROWS_HELD:
            # Between these two every row is there twice, which readers ignore.
            whole = _store(self.folder, self._rows)
            for path in self._files:
                if path != whole:
                    path.unlink(missing_ok=True)
            self._files, self._rows = [], []

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Not after a failed write, which would fail again.
        if not isinstance(error, OSError):
            self.flush()


def _store(folder: Path, rows: Rows) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    types = {"text": pa.string(), "integer": pa.int64(), "real": pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in _KINDS.items()])
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema), buffer, compression="zstd", write_statistics=False)
    path = folder / f"{digest(sorted({row['task'] for row in rows}))}.parquet"
    _write(folder, buffer.getvalue(), path)
    return path


def _write(folder: Path, content: bytes, path: Path | None) -> None:
    """A file that is there whole or not at all; only tried without a path."""
    partial = folder / f".{uuid.uuid4().hex}{PARTIAL}"
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path is not None:
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    if path is not None and hasattr(os, "O_DIRECTORY"):
        # The name is on disk too.
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def stored(folder: Path) -> pd.DataFrame:
    """What is needed of each stored task to go on: task, protocol, n, seconds."""
    return _load(folder, ["task", "protocol", "n", "seconds"]).drop_duplicates("task", ignore_index=True)


def read(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """All results in a folder as one tidy table.

    Parameters
    ----------
    folder : path
        Of a sweep, or of several whose files were copied together: a task that is there twice counts once.

    Returns
    -------
    pandas.DataFrame
        One row a run, or an estimate if the experiment asked for estimates: protocol and its parameters (a column each), data and
        what describes them (`data_...`), n, delta, repeat, results, seeds (`seed` of the file, `run_seed` and `data_seed` of the
        task), `version` and `code` (a hash) of the library, `task` (the hash of all that the row depends on). Columns without any
        value are left out, and so are times: the order and the content do not depend on when and where tasks were done.

    Raises
    ------
    ValueError
        If it is no folder, or a parquet file in it is no result of a sweep.

    Examples
    --------
    >>> import tempfile
    >>> import shufflesim as ss
    >>> experiment = {"seed": 1, "n": [100, 1000], "delta": 1e-6, "data": [{"generator": "uniform", "d": 4}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = ss.sweep(experiment | {"protocol": [{"name": "grr", "epsilon": [1.0, 2.0]}]}, folder)
    ...     table.equals(read(folder)), table[["protocol", "epsilon", "n"]].values.tolist()
    (True, [['grr', 1, 100], ['grr', 1, 1000], ['grr', 2, 100], ['grr', 2, 1000]])
    """
    import pandas as pd

    place = Path(folder)
    if not place.is_dir():
        raise ValueError(f"folder must be one with results of sweeps, got {str(place)!r}, which is no folder")
    table = _load(place, [*COLUMNS[:-1]]).dropna(axis="columns", how="all")
    if table.empty:
        return table
    parameters, about = _expanded(table, "parameters", ""), _expanded(table, "data_parameters", "data_")
    order = [*ORDER[:1], *parameters.columns, *ORDER[1:]]
    made = pd.concat([table.drop(columns=["parameters", "data_parameters"]), parameters, about], axis=1)
    made = made.sort_values(order, key=_sortable, kind="stable", ignore_index=True)
    return made[_beside([*table.columns], {"parameters": [*parameters.columns], "data_parameters": [*about.columns]})]


def _expanded(table: pd.DataFrame, column: str, prefix: str) -> pd.DataFrame:
    """A column for each name in a column of JSON objects."""
    import pandas as pd

    # Sorted: which file comes first depends on how a sweep was interrupted.
    kinds = {text: json.loads(text) for text in sorted(table[column].unique())}
    found = {}
    for name in dict.fromkeys(name for kind in kinds.values() for name in kind):
        # A parameter that has the name of a column is kept apart.
        shown = f"{prefix}{name}" if f"{prefix}{name}" not in COLUMNS else f"parameter_{name}"
        values = {text: _cell(kind.get(name)) for text, kind in kinds.items()}
        found[shown] = pd.Series([values[text] for text in table[column]], index=table.index)
    return pd.DataFrame(found, index=table.index)


def _beside(names: list[str], instead: dict[str, list[str]]) -> list[str]:
    return [one for name in names for one in instead.get(name, [name])]


def _sortable(column: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    return column if pd.api.types.is_numeric_dtype(column) else column.astype(str)


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _load(folder: Path, columns: list[str]) -> pd.DataFrame:
    """Rows of each task once, from the first file that has it."""
    import pandas as pd
    import pyarrow as pa

    for left in reversed(range(TRIES)):
        try:
            tables = [_table(path, columns) for path in sorted(folder.glob("[!.]*.parquet"))]
            break
        except FileNotFoundError:
            # A sweep under way has made one file of several.
            if not left:
                raise
    if not tables:
        return pd.DataFrame({name: [] for name in columns})
    files = [number for number, table in enumerate(tables) for _ in range(table.num_rows)]
    found = pa.concat_tables(tables).to_pandas()
    first = pd.Series(files).groupby(found["task"].to_numpy()).transform("min")
    return found[first == files].reset_index(drop=True)


def _table(path: Path, columns: list[str]) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            missing = {*columns} - {*file.schema_arrow.names}
            if not missing:
                return file.read(columns=columns, use_threads=False).select(columns)
        reason = f"no column {sorted(missing)[0]!r}"
    except pa.ArrowInvalid as error:
        reason = " ".join(str(error).split())
    raise ValueError(f"{str(path)!r} must be a result of a sweep: {reason}; move it away")


def numeric(table: pd.DataFrame, name: str, option: str) -> str:
    """A column of numbers.

    Raises
    ------
    ValueError
        For any other name; the message has the nearest.
    """
    import pandas as pd

    known = [str(column) for column in table.columns if pd.api.types.is_numeric_dtype(table[column])]
    if name not in known:
        raise ValueError(f"{option} must name a column of numbers, got {name!r}; {nearest(name, known)}")
    return name


def keys(table: pd.DataFrame, wanted: Iterable[str]) -> pd.DataFrame:
    """Rows of some tasks."""
    return table[table["task"].isin({*wanted})].reset_index(drop=True)
