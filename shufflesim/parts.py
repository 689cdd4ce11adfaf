"""The work of a run in parts that any process can do; what comes out does not depend on who does which."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ._cluster import WorkerLostError, tree, unordered
from ._identity import digest, identity, library_code, source_of
from ._sampling import child
from .domains import Array, Blocks, Categories, Stream
from .population import Senders
from .protocol import Protocol
from .protocols import SingleMessage
from .shuffler import Shuffler
from .sums import Sums, combined

# Blocks of a part whose values a process reads from files itself, and bytes of the values of one that is sent to it. A part
# has a power of two of blocks, so that its sums are sums of the whole.
PART_BLOCKS = 2**5
PART_BYTES = 2**23

Method = Literal["users", "counts"]


@dataclass(frozen=True, eq=False)
class Run:
    """What is done with each block of users.

    Attributes
    ----------
    protocol : Protocol
        What is run.
    root : numpy.random.SeedSequence
        Block k draws from child k.
    block : int
        Users of a block.
    method : {"users", "counts"}
        Whether messages are made, or values counted.
    senders : Senders or None
        Of a population.
    """

    protocol: Protocol
    root: np.random.SeedSequence
    block: int
    method: Method
    senders: Senders | None

    def sums(self, blocks: Iterable[Array], first: int = 0) -> Sums:
        """Of validated blocks, of which the first has that number."""
        found, domain = Sums(), self.protocol.domain
        for index, part in enumerate(blocks, start=first):
            found.users += len(part)
            found.total.add(np.array(0) + domain.total(part))
            if self.method == "users":
                self._send(part, child(self.root, index), found)
            elif not isinstance(domain, Categories):
                found.histogram.add(part)
        return found

    def _send(self, part: Array, seed: np.random.SeedSequence, found: Sums) -> None:
        """Messages of one block of users, shuffled and summed up."""
        rng, protocol, senders = np.random.default_rng(seed), self.protocol, self.senders
        if senders is None:
            shuffled = Shuffler().permute(protocol.encode(part, rng).messages, rng)
            accepted = shuffled
        else:
            sent = senders.encode(part, np.random.default_rng(child(seed, 0)), rng)
            shuffled = Shuffler().permute(sent.encoded.messages, rng)
            accepted = senders.accepted(shuffled)
            found.crowd.add(sent.present, sent.faulty, shuffled.shape[0] - accepted.shape[0])
        found.aggregate.add(np.array(0) + protocol.aggregate(accepted))
        found.messages += shuffled.shape[0]

    @cached_property
    def identity(self) -> list[Any]:
        """All that sums depend on besides the values."""
        inner = self.protocol.randomizer if isinstance(self.protocol, SingleMessage) else self.protocol
        root = [self.root.entropy, self.root.spawn_key, self.root.pool_size]
        crowd = None if self.senders is None else identity(self.senders.population)
        return [
            identity(self.protocol),
            identity(root),
            self.block,
            self.method,
            crowd,
            library_code(*source_of(inner)),
            np.__version__,
        ]


@dataclass(frozen=True, eq=False)
class Part:
    """Neighbouring blocks of users; a call gives their sums.

    Attributes
    ----------
    run : Run
        What is done.
    data : Stream or ndarray
        Where the values are to be read, or validated values.
    first, users : int
        Number of the first block, and of users.
    labels : ndarray
        What the data must bring along.
    """

    run: Run
    data: Stream | Array
    first: int
    users: int
    labels: Array

    def __call__(self) -> Sums:
        """Do it."""
        run, size = self.run, self.run.block
        if isinstance(self.data, Stream):
            blocks: Any = Blocks(self.data, run.protocol.domain, size, self.first * size, self.labels)
        else:
            blocks = (self.data[start : start + size] for start in range(0, self.users, size))
        found = run.sums(blocks, self.first)
        if found.users != self.users:
            raise ValueError(f"data must not change during a run, got {found.users:,} of {self.users:,} users of a part")
        return found

    @property
    def key(self) -> str:
        """Names the part and all that its sums depend on."""
        return digest(self.run.identity, self.first, self.users, _identity(self.data))


class Parts:
    """Data as parts: of files as places to read, of anything else with their values.

    Parameters
    ----------
    run : Run
        What is done with the data.
    data : array_like or Stream
        All values.
    kept : bool
        Whether sums are kept under a key, by which a change of the data must be seen.

    Attributes
    ----------
    labels : ndarray
        What the data bring along for `Domain.labels`; known when the first part is.
    """

    def __init__(self, run: Run, data: Any, *, kept: bool) -> None:
        self._run, self._data, self._kept = run, data, kept
        self.labels: Array = np.empty(0)

    def __iter__(self) -> Iterator[Part]:
        data = self._data
        places = isinstance(data, Stream) and data.divisible and (data.tables.stamped or not self._kept)
        return self._places() if places else self._values()

    def _places(self) -> Iterator[Part]:
        data, domain, n = self._data, self._run.protocol.domain, self._data.users
        # Also refuses data without users.
        first = Blocks(data.part(0, min(n, 1)) if n else data, domain, 1)
        next(iter(first))
        self.labels = first.labels
        size = PART_BLOCKS * self._run.block
        for start in range(0, n, size):
            stop = min(n, start + size)
            yield Part(self._run, data.part(start, stop), start // self._run.block, stop - start, self.labels)

    def _values(self) -> Iterator[Part]:
        blocks = Blocks(self._data, self._run.protocol.domain, self._run.block)
        held: list[Array] = []
        first, most = 0, 1

        def part() -> Part:
            values = np.concatenate(held) if len(held) > 1 else held[0]
            return Part(self._run, values, first, len(values), self.labels)

        for block in blocks:
            if not blocks.n > len(block):
                self.labels = blocks.labels
                most = min(PART_BLOCKS, 1 << (max(1, PART_BYTES // max(1, block.nbytes)).bit_length() - 1))
            held.append(block)
            if len(held) == most:
                yield part()
                first, held = first + most, []
        if held:
            yield part()


def summed(
    run: Run, data: Any, *, workers: int, client: Any, folder: Path | None, done: Callable[[int], None]
) -> tuple[Sums, Array]:
    """Sums of all users, and the labels that the data bring along.

    Parameters
    ----------
    run : Run
        What is done.
    data : array_like or Stream
        All values.
    workers : int
        Processes.
    client : dask.distributed.Client or None
        A cluster instead of them.
    folder : Path or None
        Where the sums of parts are kept.
    done : callable
        Called with the number of users that are done.
    """
    parts = Parts(run, data, kept=folder is not None)
    if folder is None:
        if client is not None:
            return tree(client, ((part.users, part) for part in parts), combined, done), parts.labels
        whole = Sums()
        for _, found in _called(parts, workers, None):
            whole.add(found)
            done(whole.users)
        return whole, parts.labels
    users, paths = 0, []

    def missing() -> Iterator[Part]:
        nonlocal users
        for part in parts:
            paths.append(folder / f"part-{part.key}.npz")
            if Sums.load(paths[-1]) is None:
                yield part
            else:
                users += part.users
                done(users)

    with closing(_called(missing(), workers, client)) as results:
        for part, found in results:
            found.save(folder / f"part-{part.key}.npz")
            users += part.users
            done(users)
    whole = Sums()
    for path in paths:
        kept = Sums.load(path)
        if kept is None:
            raise ValueError(f"folder must keep what is written to it, got no sums in {str(path)!r}")
        whole.add(kept)
    return whole, parts.labels


def _called(parts: Iterable[Part], workers: int, client: Any) -> Generator[tuple[Part, Sums]]:
    """Each part with its sums; in their order, but for those of a cluster."""
    if client is not None:
        yield from unordered(client, ((part, part) for part in parts))
        return
    if workers == 1:
        for part in parts:
            yield part, part()
        return
    from joblib import Parallel, delayed

    sent: list[Part] = []

    def calls() -> Iterator[Any]:
        for part in parts:
            sent.append(part)
            yield delayed(part)()

    # Values go through a pipe: they are not worth a file.
    pool = Parallel(n_jobs=workers, return_as="generator", batch_size=1, max_nbytes=None)
    try:
        for found in pool(calls()):
            yield sent.pop(0), found
    except BrokenExecutor as error:
        raise WorkerLostError(f"a process of the {workers} workers has ended: it was killed ({type(error).__name__})") from None


def _identity(data: Stream | Array) -> Any:
    """What a part's values are: themselves, or files as the file system knows them, and how they are read."""
    if isinstance(data, Stream):
        categories = None if data.categories is None else [repr(label) for label in data.categories]
        return [data.tables.identity, list(data.labels or ()), categories]  # type: ignore[union-attr]
    return identity(data)
