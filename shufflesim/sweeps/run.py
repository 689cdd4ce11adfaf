"""Run what is not stored yet, or say how long that will take."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_integer
from .._cluster import check_client
from .._resumable import run
from .experiment import Experiment, plan
from .reading import keys, read, stored
from .store import Writer
from .task import Task

if TYPE_CHECKING:
    import pandas as pd

# A trial ends with the task during which this has passed.
TRIAL_SECONDS = 3.0


def sweep(
    experiment: Experiment | Sequence[Task],
    folder: str | os.PathLike[str],
    *,
    workers: int = 1,
    client: Any = None,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Run every protocol of a grid on all data, store each result as soon as it is there, and go on where it was interrupted.

    Parameters
    ----------
    experiment : path, mapping or sequence of Task
        A TOML file, what is in one, or what `shufflesim.sweeps.plan` made of it.
    folder : path
        Where results are stored; is made if it does not exist. What is there is not computed again. It may hold results of other
        sweeps, and those of other machines can be copied into it.
    workers : int
        Processes, at most as many as there are processors; the result is the same for any number.
    client : dask.distributed.Client, optional
        A cluster that does the tasks instead; it must have files of data under the same path. Results are stored here.
    progress : callable, optional
        Is called with the number of tasks that are done.

    Returns
    -------
    pandas.DataFrame
        The rows of this experiment, as `shufflesim.sweeps.read` gives them.

    Raises
    ------
    ValueError
        For anything wrong in the experiment, before anything runs; for a folder with other parquet files.
    OSError
        If the folder cannot be written to; what is stored already is not harmed.
    RuntimeError
        If one of the processes was killed, or all of a cluster is gone.

    Notes
    -----
    The seed of a run is a hash of the experiment's seed and of what is run: protocol, parameters, data, n, delta, number of the
    repeat. Other protocols in the file do not change it. Data depend on the seed, what they are, n and the number of the repeat:
    all protocols see the same. At most a quarter of a second of finished work is not on disk; what is there survives whatever
    ends the process.

    Examples
    --------
    >>> import tempfile
    >>> experiment = {"seed": 1, "n": 1000, "delta": 1e-6, "repeats": 3, "data": [{"generator": "zipf", "d": 4}]}
    >>> experiment["protocol"] = [{"name": "grr", "epsilon": [1.0, 2.0]}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = sweep(experiment, folder)
    >>> table.groupby("epsilon")["rmse"].count().to_dict()
    {1: 3, 2: 3}
    """
    workers = check_integer("workers", workers, low=1)
    check_client(client, workers)
    tasks = _tasks(experiment)
    place = Path(folder)
    with Writer(place) as writer:
        known = {*stored(place)["task"]}
        missing = {key: task for key, task in tasks.items() if key not in known}
        done = len(tasks) - len(missing)
        if progress is not None:
            progress(done)
        with closing(run(missing, workers, client)) as results:
            for key, (rows, seconds) in results:
                writer.add(key, missing[key].code, rows, seconds)
                done += 1
                if progress is not None:
                    progress(done)
    return keys(read(place), tasks)


@dataclass(frozen=True)
class Outlook:
    """What a sweep would do.

    Attributes
    ----------
    tasks, stored : int
        All, and those that are stored already.
    seconds : float
        What the others will take, about.
    source : str
        What the estimate is from.
    """

    tasks: int
    stored: int
    seconds: float
    source: str


def outlook(experiment: Experiment | Sequence[Task], folder: str | os.PathLike[str], *, workers: int = 1) -> Outlook:
    """How much there is to do; nothing is stored.

    Parameters
    ----------
    experiment, folder, workers
        As of `sweep`.

    Returns
    -------
    Outlook
        The time is estimated from stored tasks of any sweep in the folder, or from a trial of a few seconds if there are none:
        for each protocol linear between numbers of users, and divided by the number of workers.

    Examples
    --------
    >>> experiment = {"seed": 1, "n": 1000, "delta": 1e-6, "repeats": 3, "data": [{"generator": "zipf", "d": 4}]}
    >>> outlook(experiment | {"protocol": [{"name": "grr", "epsilon": [1.0, 2.0]}]}, "nowhere").tasks
    6
    """
    workers = check_integer("workers", workers, low=1)
    tasks = _tasks(experiment)
    there = stored(Path(folder))
    missing = [task for key, task in tasks.items() if key not in {*there["task"]}]
    done = len(tasks) - len(missing)
    if not missing:
        return Outlook(len(tasks), done, 0.0, "nothing is left to do")
    if len(there):
        times = there.groupby(["protocol", "n"], as_index=False)["seconds"].agg(["mean", "min"]).to_dict("records")
        seen = {(row["protocol"], row["n"]): Cost(row["mean"] - row["min"], row["min"]) for row in times}
        source = f"from the times of {len(there):,} stored tasks"
    else:
        seen = _trial(missing)
        source = f"from a trial of {len(seen)} of the tasks"
    seconds = sum(_expected(task, seen) for task in missing)
    return Outlook(len(tasks), done, seconds / min(workers, len(missing), os.cpu_count() or 1), source)


def _tasks(experiment: Experiment | Sequence[Task]) -> dict[str, Task]:
    tasks = plan(experiment) if isinstance(experiment, str | os.PathLike | Mapping) else experiment
    if not isinstance(tasks, Sequence) or not all(isinstance(task, Task) for task in tasks):
        raise ValueError(f"experiment must be a path, a mapping or a sequence of tasks, got {experiment!r}")
    return {task.key: task for task in tasks}


@dataclass(frozen=True, order=True)
class Cost:
    """Seconds of a task: its share of what repeats have in common (bounds), and what grows with the users."""

    fixed: float
    run: float


def _trial(missing: Sequence[Task]) -> dict[tuple[str, int], Cost]:
    """A task of each protocol and n, the fewest users first, while there is time; twice: the second time its bounds are known."""
    cells = len({(task.protocol, task.n, task.delta) for task in missing})
    seen: dict[tuple[str, int], Cost] = {}
    started = time.perf_counter()
    for task in sorted(missing, key=lambda task: task.n):
        left = TRIAL_SECONDS - (time.perf_counter() - started)
        if (task.name, task.n) in seen or (seen and 2 * _expected(task, seen) > left):
            continue
        first, again = _seconds(task), _seconds(task)
        seen[task.name, task.n] = Cost(max(0.0, first - again) * cells / len(missing), again)
    return seen


def _seconds(task: Task) -> float:
    started = time.perf_counter()
    task.rows()
    return time.perf_counter() - started


def _expected(task: Task, seen: Mapping[tuple[str, int], Cost]) -> float:
    """Between two n of the protocol linear in n, beyond the largest in proportion; of an unseen protocol the mean of all."""
    own = sorted((n, cost) for (name, n), cost in seen.items() if name == task.name)
    if not own:
        return statistics.fmean(cost.fixed + cost.run * max(1.0, task.n / n) for (_, n), cost in seen.items())
    sizes, costs = zip(*own, strict=True)
    fixed = statistics.fmean(cost.fixed for cost in costs)
    return fixed + float(np.interp(task.n, sizes, [cost.run for cost in costs])) * max(1.0, task.n / sizes[-1])
