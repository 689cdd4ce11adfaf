"""Data of any kind as blocks of validated values, however they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from .base import Array, Domain
from .stream import Stream

# Different values of a histogram: 256 MB of numbers with their counts, and some copies.
DIFFERENT_MOST = 2**24


class Blocks:
    """Data in blocks of `size` users, the last one smaller; blocks depend on the values alone, not on how data are cut.

    Parameters
    ----------
    data : array_like or Stream
        An array is a stream of one batch.
    domain : Domain
        Of the values.
    size : int
        Users of a block.
    first : int
        Users before these, for messages; whole blocks.
    labels : ndarray, optional
        What the data must bring along.

    Attributes
    ----------
    n : int
        Users of the blocks so far.
    labels : ndarray
        What the data bring along for `Domain.labels`; known when the first block is.

    Examples
    --------
    >>> from shufflesim.domains import Categories
    >>> [block.tolist() for block in Blocks(Stream(iter([np.array([0, 1, 1]), np.array([2, 0])])), Categories(3), 2)]
    [[0, 1], [1, 2], [0]]
    """

    def __init__(self, data: Any, domain: Domain, size: int, first: int = 0, labels: Array | None = None) -> None:
        self._data, self._domain, self._size, self._first = data, domain, size, first
        self._known = labels is not None
        self.labels: Array = np.empty(0) if labels is None else labels
        self.n = 0

    def __iter__(self) -> Iterator[Array]:
        """Validated values, shape (size, ...), in C order, so that sums over them are always taken in the same way."""
        held: list[Array] = []
        rows = 0
        for part in self._parts():
            held.append(part)
            rows += len(part)
            if rows == self._size:
                self.n += rows
                yield _joined(held)
                held, rows = [], 0
        if held:
            self.n += rows
            yield _joined(held)
        if not self.n:
            once = " (an iterator can be read only once)" if isinstance(self._data, Stream) and self._data.once else ""
            raise ValueError(f"data must hold at least one user, got none{once}")

    def _parts(self) -> Iterator[Array]:
        """Validated values, cut where batches end and where blocks end."""
        first = self._first
        for batch in self._batches():
            values = self._domain.collect(batch, first)
            ends = [*range(self._size - first % self._size, len(values), self._size), len(values)]
            for start, stop in pairwise([0, *ends]):
                yield self._domain.validate(values[start:stop], first + start)
            first += len(values)

    def _batches(self) -> Iterator[Any]:
        """The data in pieces whose labels are those of the first one."""
        if not isinstance(self._data, Stream):
            self.labels = self._domain.labels_of(self._data)
            yield self._data
            return
        for batch in self._data.batches(self._domain.shape == ()):
            labels = self._domain.labels_of(batch)
            if not self._known:
                self._known, self.labels = True, labels
            elif not np.array_equal(labels, self.labels):
                got = f"{self.labels[:5].tolist()} and {labels[:5].tolist()}"
                rule = "the same columns and categories in all batches (shufflesim.categorical with a public list gives them)"
                raise ValueError(f"data must have {rule}, got {got}")
            yield batch


class Histogram:
    """How many users hold which value, for data that come in blocks; memory grows with the number of different values."""

    def __init__(self) -> None:
        self._groups: list[tuple[Array, Array]] = []
        self._waiting = 0

    def add(self, values: Array) -> None:
        """The users of one more block."""
        self._groups.append(np.unique(values, axis=0, return_counts=True))
        self._waiting += len(self._groups[-1][1])
        # As many new ones as old ones, so that merging takes n log n in all.
        if self._waiting > len(self._groups[0][1]):
            self._merge()

    def put(self, values: Array, counts: Array) -> None:
        """Different values in their order, with numbers of users."""
        self._groups.append((values, counts))
        self._waiting += len(counts)

    def merge(self, other: Histogram) -> None:
        """All users of another one."""
        if other:
            self.put(*other.groups())
            self._merge()

    def __bool__(self) -> bool:
        """Whether there are any users."""
        return bool(self._groups)

    def groups(self) -> tuple[Array, Array]:
        """Different values in their order, and the number of users who hold each."""
        self._merge()
        return self._groups[0]

    def _merge(self) -> None:
        values, place = np.unique(np.concatenate([v for v, _ in self._groups]), axis=0, return_inverse=True)
        if len(values) > DIFFERENT_MOST:
            raise ValueError(f"data must have at most 2^24 different values for method 'counts', got {len(values):,}")
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, place.ravel(), np.concatenate([c for _, c in self._groups]))
        self._groups, self._waiting = [(values, counts)], 0


def _joined(parts: list[Array]) -> Array:
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts))
