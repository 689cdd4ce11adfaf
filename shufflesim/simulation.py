"""Run a protocol end to end on data: encode, shuffle, analyze - in blocks, reproducibly."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from scipy import special

from ._checks import SIZE_MAX, check_delta, check_integer, check_number
from ._cluster import check_client, completed
from ._processes import called
from ._sampling import child, seed_root
from .domains import Array, Blocks, Categories, Counts, Stream
from .parts import Method, Run, summed
from .population import Population, Received, Senders
from .protocol import Protocol
from .protocols import SingleMessage
from .randomizer import Randomizer
from .repeats import Repeats
from .results import Simulation
from .shuffler import Shuffler

# Users whose randomness comes from one child seed. Part of what a seed means: changing it changes every result.
BLOCK = 65_536
# Random numbers drawn at once; wide reports get smaller blocks, by a rule that depends on the protocol alone.
BLOCK_DRAWS = 2**22
# The most of one user, who cannot be divided: 2 GB.
USER_DRAWS_MAX = 2**28
# The child seed for what all faulty users have in common; no block has this number.
COMMON = 2**32 - 1
# More runs than anybody waits for.
REPEATS_MOST = 10**6


Seed = int | np.random.SeedSequence | None


@overload
def simulate(
    protocol: Protocol | Randomizer,
    data: Any,
    *,
    delta: float,
    seed: Seed = ...,
    method: Method = ...,
    chunk_size: int | None = ...,
    confidence: float = ...,
    population: Population | None = ...,
    minimum_batch: int = ...,
    repeats: None = ...,
    workers: int = ...,
    client: Any = ...,
    folder: str | os.PathLike[str] | None = ...,
    progress: Callable[[int], None] | None = ...,
) -> Simulation: ...


@overload
def simulate(
    protocol: Protocol | Randomizer,
    data: Any,
    *,
    delta: float,
    seed: Seed = ...,
    method: Method = ...,
    chunk_size: int | None = ...,
    confidence: float = ...,
    population: Population | None = ...,
    minimum_batch: int = ...,
    repeats: int,
    workers: int = ...,
    client: Any = ...,
    folder: str | os.PathLike[str] | None = ...,
    progress: Callable[[int], None] | None = ...,
) -> Repeats: ...


def simulate(
    protocol: Protocol | Randomizer,
    data: Any,
    *,
    delta: float,
    seed: Seed = None,
    method: Method = "users",
    chunk_size: int | None = None,
    confidence: float = 0.95,
    population: Population | None = None,
    minimum_batch: int = 1,
    repeats: int | None = None,
    workers: int = 1,
    client: Any = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Simulation | Repeats:
    """Encode every user's value, shuffle all messages, and analyze what comes out.

    Parameters
    ----------
    protocol : Protocol or Randomizer
        A randomizer counts as the protocol in which everybody sends one report.
    data : array_like, shape (n, ...), or Stream, or what it takes, or Counts
        One value per user, in the protocol's domain: codes, numbers, or rows of `domain.shape`. Pandas objects keep their labels
        in the result. Data larger than memory: a folder of Parquet files, a list of files, an Arrow dataset, an iterator of
        batches; `Stream` chooses columns. For method "counts" also the histogram of any number of users, as `Counts`.
    delta : float
        Probability, in (0, 1), for the privacy table.
    seed : int or numpy.random.SeedSequence, optional
        Fixes the result. Without it, fresh entropy is drawn and recorded in the result.
    method : {"users", "counts"}
        "users" runs every user's randomizer and shuffles the messages; "counts" draws the aggregate of all messages directly
        from the histogram of the data, with the same distribution, where the protocol has such a sampler.
    chunk_size : int, optional
        Users between two progress calls; rounded up to whole blocks, or to whole parts. The result does not depend on it.
    confidence : float
        Level of the confidence intervals, in (0, 1).
    population : Population, optional
        Users who drop out, and users who attack; for method "users". `Simulation.damage` then says what they did, and the privacy
        table is for the honest users who are left.
    minimum_batch : int
        The shuffler releases nothing if fewer users than that have sent messages.
    repeats : int, optional
        Number of independent runs on the same data, which an iterator does not give twice; run r has child r of the seed.
    workers : int
        Processes that share the users, or the runs, at most as many as there are processors; the result does not depend on it.
        Users are shared in parts of 32 blocks.
    client : dask.distributed.Client, optional
        A cluster that does the work instead; the result is the same. Parquet files are read by the workers, who must find them
        under the same path; other data are sent to them.
    folder : path, optional
        An existing folder in which the sums of each part are kept as soon as they are there, under a hash of the run, the code
        and the part's data (of Parquet files: path, rows, size and time of change): another call with this seed goes on from
        there, say after a damaged file has been replaced. For a single run.
    progress : callable, optional
        Called with the number of users done so far; of runs, if there are several.

    Returns
    -------
    Simulation or Repeats
        Estimates, privacy, cost and summary as pandas objects; with `repeats`, bias, mean squared error and coverage instead.

    Raises
    ------
    ValueError
        If a value is outside the protocol's domain, an argument is out of range, or a file is damaged; the message names it. What
        an iterator raises passes through.
    RuntimeError
        If a process was killed, or all workers of a cluster, or its scheduler.
    OSError
        If the folder cannot be written to.

    Notes
    -----
    Users are processed in blocks (65,536 users; fewer where reports are wide). Block k draws from child k of the seed, as
    `SeedSequence.spawn` numbers them, and sums of numbers are taken over the blocks in a fixed tree, so that the result depends
    on the seed and the values alone, in one array or in any batches, in one process or in many. Memory, of each process: the
    data (one batch of a stream), one block's messages, and the additive aggregate.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> result = simulate(GRR(epsilon=2.0, d=3), [0, 1, 2, 2] * 1000, delta=1e-6, seed=1)
    >>> result.estimates["truth"].tolist()
    [1000.0, 1000.0, 2000.0]
    """
    if isinstance(protocol, Randomizer):
        protocol = SingleMessage(protocol)
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be a Protocol or a Randomizer, got {protocol!r}")
    delta = check_delta(delta)
    rule = "strictly between 0 and 1"
    confidence = check_number("confidence", confidence, rule, low=math.nextafter(0, 1), high=math.nextafter(1, 0))
    if not isinstance(method, str) or method not in ("users", "counts"):
        raise ValueError(f"method must be 'users' or 'counts', got {method!r}")
    if population is not None and not (isinstance(population, Population) and method == "users"):
        raise ValueError(f"population must be a Population and method 'users', got {population!r} and {method!r}")
    if method == "users" and protocol.width > USER_DRAWS_MAX:
        rule = f"'counts' for {protocol.name}, of which one user needs {protocol.width:.3g} numbers (at most 2^28 fit)"
        raise ValueError(f"method must be {rule}, got {method!r}")
    shuffler = Shuffler(minimum_batch)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable, got {progress!r}")
    root = seed_root(seed)
    workers = check_integer("workers", workers, low=1)
    check_client(client, workers)
    place = None if folder is None else Path(folder)
    if place is not None and (repeats is not None or not str(folder) or not place.is_dir()):
        rule = "an existing folder, and for a single run"
        raise ValueError(f"folder must be {rule}, got {str(folder)!r}{'' if repeats is None else f' and repeats={repeats!r}'}")
    chunk = BLOCK if chunk_size is None else check_integer("chunk_size", chunk_size, low=1)
    data = Stream.of(data)
    if repeats is not None:
        if isinstance(data, Stream):
            data.refuse_once("for repeats")
        options = {"delta": delta, "method": method, "confidence": confidence, "population": population}
        options["minimum_batch"] = minimum_batch
        repeats = check_integer("repeats", repeats, low=1, high=REPEATS_MOST)
        return _repeated(_Repetition(protocol, root, options), data, repeats, workers, client, progress)
    block = max(1, min(BLOCK, BLOCK_DRAWS // protocol.width))

    started = time.perf_counter()
    senders = None if population is None else Senders(population, protocol, np.random.default_rng(child(root, COMMON)))
    if isinstance(data, Counts):
        if method != "counts":
            raise ValueError(f"method must be 'counts' for data given as Counts, got {method!r}")
        groups = data.groups(protocol.domain)
        n, total, labels = data.n, protocol.domain.grouped_total(*groups), protocol.domain.labels
        crowd = Received()
    else:
        run, told = Run(protocol, root, block, method, senders), _Told(chunk, progress)
        if workers == 1 and client is None and place is None:
            blocks = Blocks(data, protocol.domain, block)
            sums, labels = run.sums(told.after(blocks)), blocks.labels
        else:
            sums, labels = summed(run, data, workers=workers, client=client, folder=place, done=told)
        told.last(sums.users)
        n, total, aggregate, messages, crowd = sums.users, sums.total.value, sums.aggregate.value, sums.messages, sums.crowd
        if method == "counts":
            groups = (np.arange(len(total)), total) if isinstance(protocol.domain, Categories) else sums.histogram.groups()
    if method == "counts":
        aggregate, messages = _draw_counts(protocol, groups, n, root)
    if population is None:
        crowd = Received(n, 0, 0)
    shuffler.admit(crowd.users)
    counted = crowd.users - round(crowd.rejected / protocol.messages_per_user)
    if counted < 1:
        raise ValueError(f"population must leave at least one user with valid messages, got {population!r} for {n} users")
    return Simulation(
        protocol=protocol,
        n=n,
        delta=delta,
        confidence=confidence,
        labels=labels,
        truth=protocol.domain.truth(total, n),
        estimate=protocol.estimate(aggregate, counted),
        variance=protocol.variance(total, n),
        estimated_variance=protocol.estimated_variance(aggregate, counted),
        aggregate=aggregate,
        messages=messages,
        entropy=root.entropy,
        spawn_key=root.spawn_key,
        method=method,
        seconds=time.perf_counter() - started,
        population=population,
        received=crowd,
    )


@dataclass(frozen=True)
class _Repetition:
    """One of many runs."""

    protocol: Protocol
    root: np.random.SeedSequence
    options: dict[str, Any]
    number: int = 0

    def __call__(self, data: Any) -> tuple[Simulation | None, Array, Array]:
        """Result of the first run; errors, and which intervals hold the truth."""
        result = simulate(self.protocol, data, seed=child(self.root, self.number), **self.options)
        error = result.estimate - result.truth
        z = float(special.ndtri(0.5 + result.confidence / 2))
        inside = np.abs(error) <= z * np.sqrt(result.estimated_variance)
        return (result if self.number == 0 else None), error, inside


def _repeated(
    run: _Repetition, data: Any, repeats: int, workers: int, client: Any, progress: Callable[[int], None] | None
) -> Repeats:
    """Independent runs, summed up in their order whoever made them."""
    runs = (replace(run, number=number) for number in range(repeats))
    first: Simulation | None = None
    sums: list[Any] = [0, 0, 0]
    rmses = np.empty(repeats)
    with closing(_made(runs, data, min(workers, repeats), client)) as made:
        for number, (result, error, inside) in enumerate(made):
            first = result or first
            square = error * error
            sums = [total + part for total, part in zip(sums, (error, square, inside), strict=True)]
            rmses[number] = math.sqrt(float(square.mean()))
            if progress is not None:
                progress(number + 1)
    assert first is not None  # run 0 brings it
    about = first.protocol, first.n, first.delta, first.confidence, first.labels, first.truth, first.variance
    return Repeats(*about, sums[0], sums[1], sums[2], rmses, run.root.entropy, run.root.spawn_key)


def _made(runs: Iterable[_Repetition], data: Any, workers: int, client: Any) -> Generator[tuple[Simulation | None, Array, Array]]:
    """What runs give, in their order."""
    calls = ((run.number, run) for run in runs)
    sent = data.anywhere() if client is not None and isinstance(data, Stream) else data
    with closing(called(calls, workers, sent) if client is None else completed(client, calls, sent, in_order=True)) as results:
        for _, found in results:
            yield found


class _Told:
    """Calls of `progress`, at least a chunk of users apart."""

    def __init__(self, chunk: int, progress: Callable[[int], None] | None) -> None:
        self._chunk, self._progress = chunk, progress
        self._reported = 0

    def __call__(self, users: int) -> None:
        if self._progress is not None and users - self._reported >= self._chunk:
            self._reported = users
            self._progress(users)

    def after(self, blocks: Blocks) -> Iterator[Array]:
        """The same blocks, each counted when it has been worked on."""
        for block in blocks:
            yield block
            self(blocks.n)

    def last(self, users: int) -> None:
        """All users are done."""
        if self._progress is not None and users > self._reported:
            self._progress(users)


def _draw_counts(protocol: Protocol, groups: tuple[Array, Array], n: int, root: np.random.SeedSequence) -> tuple[Array, float]:
    if n * protocol.messages_per_user > SIZE_MAX:
        raise ValueError(f"n must be such that there are at most 2^62 messages, got {n} users for {protocol.name}")
    drawn = protocol.sample_groups(*groups, np.random.default_rng(child(root, 0)))
    if drawn is None:
        raise ValueError(f"method='counts' needs a protocol with an exact sampler of its aggregate, got {protocol.name}")
    return drawn, protocol.messages_in(drawn, n)
