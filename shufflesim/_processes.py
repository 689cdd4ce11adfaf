"""Calls in processes of this machine, with the results of one process, and their order."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pickle import PicklingError
from typing import Any, TypeVar

from ._cluster import WorkerLostError

K = TypeVar("K")
T = TypeVar("T")

# How often a process looks for its parent.
FOLLOW_SECONDS = 0.5
LOST = "it was killed, or could not import what it was sent"


def called(calls: Iterable[tuple[K, Callable[..., T]]], workers: int, *shared: Any) -> Generator[tuple[K, T]]:
    """Name and result of each call in their order; calls take what is shared.

    Parameters
    ----------
    calls : iterable of (name, callable)
        Few of them are taken ahead.
    workers : int
        Processes, at most as many as there are processors.

    Raises
    ------
    ValueError
        That of the first call that has one, or for what cannot be sent.
    WorkerLostError
        If a process was killed.
    """
    if workers == 1:
        for name, call in calls:
            yield name, call(*shared)
        return
    from joblib import Parallel, delayed

    names: deque[K] = deque()

    def sent() -> Iterator[Any]:
        for name, call in calls:
            names.append(name)
            yield delayed(_tried)(call, *shared)

    # What is in a call goes through a pipe: it is not worth a file.
    files: Any = {} if shared else {"max_nbytes": None}
    pool = Parallel(min(workers, os.cpu_count() or 1), return_as="generator", batch_size=1, **files)
    try:
        with _quietly_closing(pool(sent())) as results:
            for found in results:
                if isinstance(found, _Refused):
                    raise found.error
                yield names.popleft(), found
    except BrokenExecutor:
        raise WorkerLostError(f"a process of the {workers} workers has ended: {LOST}") from None
    except PicklingError as error:
        raise ValueError(f"workers must be 1 for what cannot be sent to a process, got {workers} ({error})") from None


@contextmanager
def _quietly_closing(results: Any) -> Iterator[Any]:
    """Ends calls that nobody waits for; joblib would warn of them."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            results.close()


@lru_cache
def _follow_parent() -> None:
    """In a process: no life of its own when its parent is gone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def follow() -> None:
        # joblib has no pipe whose end would tell.
        while os.getppid() == parent.pid:
            time.sleep(FOLLOW_SECONDS)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@dataclass(frozen=True)
class _Refused:
    """An error as a result: others before it may be under way."""

    error: ValueError


def _tried(call: Callable[..., T], *shared: Any) -> T | _Refused:
    _follow_parent()
    try:
        return call(*shared)
    except ValueError as error:
        return _Refused(error)
