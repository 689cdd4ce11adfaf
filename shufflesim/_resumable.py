"""Many independent tasks, in processes or on a cluster, whose rows are on disk as soon as they are there.

What a task finds is appended to a file under a hash of all that it depends on, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from ._checks import check_integer
from ._cluster import WorkerLostError, check_client, completed
from ._identity import digest
from ._processes import LOST

ROWS_FILE = "rows.jsonl"
# Tasks that wait in the pool, for each process: so that the results of thousands are not all held at once.
WAITING = 4
_TURN = threading.Lock()
Rows = list[dict[str, Any]]


class Task(Protocol):
    """A piece of work that can be pickled."""

    @property
    def key(self) -> str:
        """Names the task and all that its rows depend on."""

    def rows(self) -> Rows:
        """Do it: rows that JSON can hold."""


def resume(
    plan: Sequence[Task],
    folder: Path,
    *,
    workers: int = 1,
    client: Any = None,
    progress: Callable[[int], None] | None = None,
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
    client : dask.distributed.Client, optional
        A cluster that does the tasks; the file stays here.
    progress : callable, optional
        Is called with the number of tasks that are done.

    Raises
    ------
    ValueError
        If `workers` is no integer >= 1, or the client has no cluster.
    OSError
        If the file cannot be read or written.
    WorkerLostError
        If a process was killed, or all of a cluster is gone.
    """
    workers = check_integer("workers", workers, low=1)
    check_client(client, workers)
    keys = [task.key for task in plan]
    path = folder / ROWS_FILE
    known = dict(_read(path))
    missing = {key: task for key, task in zip(keys, plan, strict=True) if key not in known}
    done = len(plan) - len(missing)
    if progress is not None:
        progress(done)
    # Closed at once, also when it is interrupted here: its processes end then.
    with closing(run(missing, workers, client)) as results:
        for key, (found, seconds) in results:
            _append(path, {"key": key, "seconds": round(seconds, 3), "rows": found, "check": digest(key, found)})
            known[key] = found
            done += 1
            if progress is not None:
                progress(done)
    return iter([known[key] for key in keys])


def run(missing: Mapping[str, Task], workers: int, client: Any = None) -> Generator[tuple[str, tuple[Rows, float]]]:
    """Key, rows and seconds of each task as it is done, in any order; to be closed, which ends its processes."""
    if client is not None:
        yield from completed(client, ((key, partial(_timed, task)) for key, task in missing.items()))
        return
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
        queue = iter(missing.items())
        futures: dict[Future[tuple[Rows, float]], str] = {}
        try:
            while True:
                for key, task in islice(queue, WAITING * workers - len(futures)):
                    futures[pool.submit(_timed, task)] = key
                if not futures:
                    return
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    yield futures.pop(future), future.result()
        except BrokenExecutor:
            why = f"{LOST} (a class of a notebook, say, for which workers must be 1)"
            raise WorkerLostError(f"a process of the {workers} workers has ended: {why}") from None
        except BaseException:
            # Nobody waits for tasks that are under way.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _timed(task: Task) -> tuple[Rows, float]:
    # The threads of a process take turns: mpmath's precision is that of all of them.
    with _TURN:
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
