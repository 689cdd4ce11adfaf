"""The work of a run in parts that any process can do; what comes out does not depend on who does which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ._cluster import completed, here, tree
from ._identity import digest, identity, library_code, source_of
from ._processes import called
from ._sampling import child
from .domains import Array, Blocks, Categories, Stream
from .population import Senders
from .protocol import Protocol
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
        root = [self.root.entropy, self.root.spawn_key, self.root.pool_size]
        crowd = None if self.senders is None else identity(self.senders.population)
        return [
            identity(self.protocol),
            identity(root),
            self.block,
            self.method,
            crowd,
            library_code(*source_of(self.protocol)),
            here(),
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
    labels : ndarray or None
        What the data must bring along; None means those of the domain, which need not be sent.
    """

    run: Run
    data: Stream | Array
    first: int
    users: int
    labels: Array | None

    def __call__(self) -> Sums:
        """Do it."""
        run, size = self.run, self.run.block
        if isinstance(self.data, Stream):
            labels = run.protocol.domain.labels if self.labels is None else self.labels
            blocks: Any = Blocks(self.data, run.protocol.domain, size, self.first * size, labels)
        else:
            blocks = (self.data[start : start + size] for start in range(0, self.users, size))
        found = run.sums(blocks, self.first)
        if found.users != self.users:
            raise ValueError(f"data must not change during a run, got {found.users:,} of {self.users:,} users of a part")
        return found

    @cached_property
    def key(self) -> str:
        """Names the part and all that its sums depend on; files as they are when it is asked for first."""
        labels = None if self.labels is None else [repr(label) for label in self.labels]
        return digest(self.run.identity, self.first, self.users, labels, _identity(self.data))


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
    places : bool
        Whether parts are places to read.
    """

    def __init__(self, run: Run, data: Any, *, kept: bool) -> None:
        self._run, self._data = run, data
        self.labels: Array = np.empty(0)
        self.places = isinstance(data, Stream) and data.divisible and (data.tables.stamped or not kept)

    def __iter__(self) -> Iterator[Part]:
        return self._places() if self.places else self._values()

    def _places(self) -> Iterator[Part]:
        data, domain, n = self._data, self._run.protocol.domain, self._data.users
        # Also refuses data without users.
        first = Blocks(data.part(0, min(n, 1)) if n else data, domain, 1)
        next(iter(first))
        self.labels = first.labels
        labels = None if np.array_equal(first.labels, domain.labels) else first.labels
        size = PART_BLOCKS * self._run.block
        for start in range(0, n, size):
            stop = min(n, start + size)
            yield Part(self._run, data.part(start, stop), start // self._run.block, stop - start, labels)

    def _values(self) -> Iterator[Part]:
        blocks = Blocks(self._data, self._run.protocol.domain, self._run.block)
        held: list[Array] = []
        first, most = 0, 1

        def part() -> Part:
            values = np.concatenate(held) if len(held) > 1 else held[0]
            return Part(self._run, values, first, len(values), None)

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
    whole = Sums()
    if folder is None:
        if client is not None and parts.places:
            return tree(client, ((part.users, part) for part in parts), combined, done), parts.labels
        calls = ((part.first, part) for part in parts)
        # A scheduler keeps what a sum was made from until the sum is fetched: no place for values.
        with closing(called(calls, workers) if client is None else completed(client, calls, in_order=True)) as results:
            for _, found in results:
                whole.add(found)
                done(whole.users)
        return whole, parts.labels
    users = 0
    keys: list[str] = []

    def missing() -> Iterator[tuple[str, Part]]:
        nonlocal users
        for part in parts:
            keys.append(part.key)
            known = Sums.load(folder, keys[-1])
            if known is None:
                yield keys[-1], part
            else:
                users += known.users
                done(users)

    with closing(called(missing(), workers) if client is None else completed(client, missing())) as kept:
        for key, sums in kept:
            sums.save(folder, key)
            users += sums.users
            done(users)
    for key in keys:
        known = Sums.load(folder, key)
        if known is None:
            raise ValueError(f"folder must keep what is written to it, got no sums of part {key} in {str(folder)!r}")
        whole.add(known)
    return whole, parts.labels


def _identity(data: Stream | Array) -> Any:
    """What a part's values are: themselves, or files as the file system knows them, and how they are read."""
    if isinstance(data, Stream):
        categories = None if data.categories is None else [repr(label) for label in data.categories]
        return [data.tables.identity, list(data.labels or ()), categories]  # type: ignore[union-attr]
    return identity(data)
