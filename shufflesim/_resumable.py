"""Many independent tasks, in processes, whose rows are on disk as soon as they are there.

What a task finds is appended to a file under a hash of all that it depends on, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ._checks import check_integer

ROWS_FILE = "rows.jsonl"
Rows = list[dict[str, Any]]


class WorkerLostError(RuntimeError):
    """A process has ended before its task was done; what others have done is kept."""


class Task(Protocol):
    """A piece of work that can be pickled."""

    @property
    def key(self) -> str:
        """Names the task and all that its rows depend on."""

    def rows(self) -> Rows:
        """Do it: rows that JSON can hold."""


def resume(
    plan: Sequence[Task], folder: Path, *, workers: int = 1, progress: Callable[[int], None] | None = None
) -> Iterator[Rows]:
    """Do what is not in the folder yet; the rows of each task, in the order of the plan.

    Parameters
    ----------
    plan : sequence of Task
        Tasks of one key are done once.
    folder : Path
        An existing folder; rows are appended to `rows.jsonl` in it.
    workers : int
        Processes, at most as many as there are processors; the result is the same for any number.
    progress : callable, optional
        Is called with the number of tasks that are done.

    Raises
    ------
    ValueError
        If `workers` is no integer >= 1.
    OSError
        If the file cannot be read or written.
    WorkerLostError
        If a process was killed.
    """
    workers = check_integer("workers", workers, low=1)
    keys = [task.key for task in plan]
    path = folder / ROWS_FILE
    known = dict(_read(path))
    missing = {key: task for key, task in zip(keys, plan, strict=True) if key not in known}
    done = len(plan) - len(missing)
    if progress is not None:
        progress(done)
    # Closed at once, also when it is interrupted here: its processes end then.
    with closing(_done(missing, workers)) as results:
        for key, (found, seconds) in results:
            _append(path, {"key": key, "seconds": round(seconds, 3), "rows": found, "check": digest(key, found)})
            known[key] = found
            done += 1
            if progress is not None:
                progress(done)
    return iter([known[key] for key in keys])


def digest(*said: Any) -> str:
    """Hash of what JSON can hold."""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def identity(value: Any) -> Any:
    """What a value is made of, exactly, in JSON: numbers, texts, arrays, and dataclasses and sequences of these.

    Raises
    ------
    ValueError
        For anything else, such as a function.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, (tuple, list)):
        return [identity(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: identity(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return [type(value).__module__, type(value).__qualname__, parts]
    raise ValueError(f"what is kept must be made of numbers, texts, arrays and dataclasses of them, got {value!r}")


def source_of(x: Any) -> list[Path]:
    """The file of its class, if there is one."""
    try:
        own = inspect.getsourcefile(type(x))
    except TypeError:
        return []
    return [Path(own).resolve()] if own and Path(own).exists() else []


@lru_cache
def library_code(*others: Path) -> str:
    """Hash of the library's source, its randomizers and protocols included, and of other files."""
    root = Path(__file__).parent
    folders = [root, *((root / name).resolve() for name in ("mechanisms", "protocols"))]
    files = {path for folder in folders for path in folder.rglob("*.py")}
    found = hashlib.sha256()
    for path in sorted(files | set(others)):
        found.update(path.read_bytes())
    return found.hexdigest()


def _done(missing: dict[str, Task], workers: int) -> Generator[tuple[str, tuple[Rows, float]]]:
    """Rows as they are done, in any order."""
    if workers == 1 or len(missing) <= 1:
        for key, task in missing.items():
            yield key, _timed(task)
        return
    for task in missing.values():
        try:
            pickle.dumps(task)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ValueError(f"workers must be 1 for what cannot be sent to a process, got {workers} ({error})") from None
    # A fresh interpreter: no locks of threads are copied.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(missing), os.cpu_count() or 1), mp_context=context, initializer=_start) as pool:
        futures = {pool.submit(_timed, task): key for key, task in missing.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenExecutor:
            why = "it was killed, or could not import what it was sent (a class of a notebook, say, for which workers must be 1)"
            raise WorkerLostError(f"a process of the {workers} workers has ended: {why}") from None
        except BaseException:
            # Nobody waits for tasks that are under way.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _timed(task: Task) -> tuple[Rows, float]:
    started = time.perf_counter()
    return task.rows(), time.perf_counter() - started


def _start() -> None:
    """In a worker: one thread, and no life of its own when the parent is gone; it alone hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _read(path: Path) -> Iterator[tuple[str, Rows]]:
    """Rows that are as they were written; a line that was cut off by an end of the process, or changed, is none."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            found = json.loads(line)
            if digest(found["key"], found["rows"]) == found["check"]:
                yield found["key"], found["rows"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue


def _append(path: Path, found: dict[str, Any]) -> None:
    """One line in one write, after whatever a cut-off line has left."""
    line = json.dumps(found) + "\n"
    with path.open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else "\n" + line
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
