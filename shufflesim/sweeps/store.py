"""The folder of a sweep: a parquet data set in which no file is ever half written and no task counts twice.

Files have one schema, so that any tool reads the folder as one table. A file is written under another name, synced and renamed.
Its name is a hash of the tasks in it: files of two machines can be copied into one folder.
"""

from __future__ import annotations

import io
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from .._identity import digest
from .._resumable import Rows

# Seconds of work that may be finished and not on disk: a longer task is stored at once, short ones together.
UNSAVED_SECONDS = 0.25
# Files that a process writes before it makes one of them.
FILES_EACH = 64
# Rows that are held until then, at most.
ROWS_HELD = 200_000
# Files that are being written, and after how long nobody is writing them any more.
PARTIAL, ABANDONED_SECONDS = ".partial", 3600.0

# Columns, and what they hold.
KINDS = {
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
COLUMNS = tuple(KINDS)


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
    ValueError
        If another sweep is writing to it: tasks would be done twice.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._handle = _locked(folder)
        try:
            self._prepare()
        except BaseException:
            self._unlock()
            raise

    def _prepare(self) -> None:
        folder = self.folder
        self._waiting: Rows = []
        self._seconds = 0.0
        # What this process has stored in small files, which it may replace by one.
        self._files: list[Path] = []
        self._rows: Rows = []
        # Before the work and not after it: a folder that cannot be written to.
        write(folder, b"", None)
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
        try:
            # Not after a failed write, which would fail again.
            if not isinstance(error, OSError):
                self.flush()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _locked(folder: Path) -> int | None:
    """The folder, open and locked until it is closed or the process ends in any way; None where there are no such locks."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        rule = "no other sweep writes to (wait for it, or copy the files of two folders together afterwards)"
        raise ValueError(f"folder must be one that {rule}, got {str(folder)!r}") from None
    except OSError:
        os.close(handle)
        return None
    return handle


def _store(folder: Path, rows: Rows) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    buffer = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema())
    # With checksums: a damaged page must not be read as other results.
    parquet.write_table(table, buffer, compression="zstd", write_statistics=False, write_page_checksum=True)
    path = folder / f"{digest(sorted({row['task'] for row in rows}))}.parquet"
    write(folder, buffer.getvalue(), path)
    return path


def schema() -> Any:
    """Of every file."""
    import pyarrow as pa

    types = {"text": pa.string(), "integer": pa.int64(), "real": pa.float64()}
    return pa.schema([(name, types[kind]) for name, kind in KINDS.items()])


def write(folder: Path, content: bytes, path: Path | None) -> None:
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
