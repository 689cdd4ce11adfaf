"""Calls on a Dask cluster: the same results as here, also when workers come and go."""

from __future__ import annotations

import concurrent.futures
import ctypes
import logging
import pickle
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, islice
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import scipy

from ._identity import library_code
from ._version import __version__

# How long a connection, and a first worker, is waited for.
WAIT_SECONDS = 10.0
# How often it is asked whether there are workers at all.
LOOK_SECONDS = 2.0
# Calls that are under way, for each thread of the cluster: so that what many need is not all held at once.
AHEAD = 4
# Results that are combined at once.
FAN = 8

# Parameters of glibc's mallopt, and the largest threshold that it chooses by itself.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MMAP_BYTES = 2**25

K = TypeVar("K")
T = TypeVar("T")


class WorkerLostError(RuntimeError):
    """A process has ended before its task was done; what others have done is kept."""


def check_client(client: Any, workers: int) -> None:
    """Refuse what is no connected `dask.distributed.Client`, and a cluster without workers or with another library.

    Raises
    ------
    ValueError
        Also if there is no worker for `WAIT_SECONDS`.
    """
    if client is None:
        return
    if workers != 1:
        raise ValueError(f"workers must be 1 with a client, whose cluster has its own, got {workers}")
    module = sys.modules.get("distributed")
    if module is None or not isinstance(client, module.Client) or client.asynchronous:
        raise ValueError(f"client must be a dask.distributed.Client that is not asynchronous, got {client!r}")
    if client.status != "running":
        raise ValueError(f"client must be connected to a scheduler, got one that is {client.status}")
    try:
        client.wait_for_workers(1, timeout=WAIT_SECONDS)
    except TimeoutError:
        place = client.scheduler.address
        raise ValueError(f"the scheduler must have a worker within {WAIT_SECONDS:g} s, got none at {place}") from None
    try:
        found = client.run(here)
    except Exception as error:
        rule = "workers must have shufflesim installed, in the version of this process"
        raise ValueError(f"{rule}, got {type(error).__name__}: {_line(error)}") from error
    for address, has in found.items():
        if has != here():
            raise ValueError(f"workers must have the versions of this process, {here()}, got {has} at {address}")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address.

    Raises
    ------
    ValueError
        If there is none within `WAIT_SECONDS`, or `distributed` is not installed.
    """
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
    except ImportError:
        raise ValueError(f"a scheduler needs `pip install shufflesim[scale]`, got {address!r} without it") from None
    try:
        # A client that fails for such a reason would wait at its end.
        get_address_host_port(address)
        client = Client(address, timeout=WAIT_SECONDS, set_as_default=False)
    except (OSError, ValueError, OverflowError) as error:
        rule = f"scheduler must be the address of a Dask scheduler that answers within {WAIT_SECONDS:g} s"
        raise ValueError(f"{rule}, such as tcp://host:8786, got {address!r} ({error})") from error
    # What is wrong is said in one line; the logs of Dask say it in many.
    for name in ("distributed.client", "distributed.utils", "distributed.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield client
    finally:
        client.close()


@lru_cache
def here() -> str:
    """What results depend on besides what is asked."""
    return f"shufflesim {__version__} ({library_code()[:12]}) with NumPy {np.__version__} and SciPy {scipy.__version__}"


def completed(
    client: Any, calls: Iterable[tuple[K, Callable[..., T]]], *shared: Any, in_order: bool = False
) -> Generator[tuple[K, T]]:
    """Name and result of each call as it is done, or in the order of the calls; they take what is shared, which is sent once.

    Raises
    ------
    WorkerLostError
        If all workers are gone, or the scheduler.
    """
    waiting: dict[Any, K] = {}
    given: list[Any] = []
    with _watched(waiting, [given]):
        # Results of a call, and not data that are only held: what a worker loses is made once more.
        given += [_submit(client, "data", _Held(value)) for value in shared]
        rest, ahead = iter(calls), _ahead(client)
        while True:
            for name, call in islice(rest, ahead - len(waiting)):
                waiting[_submit(client, "task", call, *given)] = name
            if not waiting:
                return
            for future in _done(client, [*waiting][: 1 if in_order else None]):
                found = future.result()
                yield waiting.pop(future), found


def tree(
    client: Any, calls: Iterable[tuple[int, Callable[[], T]]], combine: Callable[[Sequence[T]], T], done: Callable[[int], None]
) -> T:
    """All results, combined in their order on the workers, `FAN` neighbours at once; only the last one comes here.

    Parameters
    ----------
    calls : iterable of (int, callable)
        At least one; `done` is given the sum of the integers of the calls that are done.
    combine : callable
        Of neighbouring results in their order, associative.
    """
    waiting: dict[Any, int] = {}
    levels: list[list[Any]] = []
    total = 0
    with _watched(waiting, levels):
        rest, ahead = iter(calls), _ahead(client)
        while True:
            for size, call in islice(rest, ahead - len(waiting)):
                future = _submit(client, "part", call)
                waiting[future] = size
                for level in count():
                    if level == len(levels):
                        levels.append([])
                    levels[level].append(future)
                    if len(levels[level]) < FAN:
                        break
                    future, levels[level] = _submit(client, "sum", combine, levels[level]), []
            if not waiting:
                break
            for future in _done(client, [*waiting]):
                if future.status == "error":
                    future.result()
                total += waiting.pop(future)
                done(total)
        last: list[Any] = []
        for group in levels:
            last = [*group, *last]
            last = [_submit(client, "sum", combine, last)] if len(last) > 1 else last
        levels.append(last)
        _done(client, last)
        result: T = last[0].result()
        return result


@dataclass(frozen=True, eq=False)
class _Held:
    """Gives what it was given."""

    value: Any

    def __call__(self) -> Any:
        return self.value


@dataclass(frozen=True, eq=False)
class _Call:
    """What a worker does, if it is like this process: as bytes, so that nobody else has to know the classes in it."""

    function: bytes
    made_by: str

    @classmethod
    def of(cls, function: Callable[..., Any]) -> _Call:
        """Refuses what cannot be sent."""
        import cloudpickle

        try:
            return cls(cloudpickle.dumps(function), here())
        except Exception as error:
            raise ValueError(f"what is sent to a cluster must be something that can be pickled, got {_line(error)}") from error

    def __call__(self, *given: Any) -> Any:
        _keep_memory()
        if here() != self.made_by:
            raise ValueError(f"workers must have the versions of the process that calls, {self.made_by}, got {here()}")
        try:
            function = pickle.loads(self.function)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"workers must be able to import what they are sent, got {_line(error)}") from error
        try:
            return function(*given)
        except ValueError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            from distributed import get_worker

            raise ValueError(f"{error} (on the worker {get_worker().address})") from error


@lru_cache
def _keep_memory() -> None:
    """Memory of arrays stays for the next ones, as glibc has it by itself.

    Dask tells it to give back all, and each temporary array then comes page by page from the system: a run takes twice as long.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, 2 * MMAP_BYTES)


def _submit(client: Any, what: str, function: Callable[..., Any], *given: Any) -> Any:
    """A future, under a name of its own that a dashboard groups by what it is."""
    return client.submit(_Call.of(function), *given, key=f"{what}-{uuid4().hex}")


def _ahead(client: Any) -> int:
    return AHEAD * max(1, sum(client.nthreads().values()))


def _done(client: Any, futures: list[Any]) -> list[Any]:
    """Those of some futures that have ended, at least one, and last the first that has failed, whoever is fast."""
    from distributed import wait

    alone: float | None = None
    while True:
        with suppress(TimeoutError), client.as_current():
            wait(futures, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
            failed = next((place for place, future in enumerate(futures) if future.status == "error"), 0)
            if failed:
                wait(futures[:failed], timeout=LOOK_SECONDS)
            return sorted((future for future in futures if future.done()), key=lambda future: future.status == "error")
        if client.nthreads():
            alone = None
        elif alone is None:
            alone = time.monotonic()
        elif time.monotonic() - alone > WAIT_SECONDS:
            raise WorkerLostError(f"the scheduler has had no worker for {WAIT_SECONDS:g} s")


@contextmanager
def _watched(waiting: dict[Any, Any], others: list[list[Any]]) -> Iterator[None]:
    """Whatever a cluster says when it falls apart, as one line; nothing of it stays on the cluster."""
    from distributed import KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as error:
        why = "workers that took it have been killed, which a limit of their memory does too"
        raise WorkerLostError(f"a task was given up: {why} ({error.last_worker.address} was the last)") from None
    except (concurrent.futures.CancelledError, ClosedClientError, CommClosedError) as error:
        raise WorkerLostError(f"the scheduler is gone, or has forgotten its tasks ({type(error).__name__})") from None
    finally:
        # Released, since a traceback can keep what holds them; not cancelled, since a scheduler drops a client that cancels what
        # forgotten sums are made from.
        for future in {*waiting, *chain.from_iterable(others)}:
            with suppress(Exception):
                future.release()


def _line(error: BaseException) -> str:
    """What a foreign error says, in one line."""
    return " ".join(str(error).split())
