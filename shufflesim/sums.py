"""What users add up to: sums that are the same whoever has taken which part of them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from .domains import Array, Histogram
from .population import Received

# Letters of a key, which is hexadecimal, and bytes at the end of a file that tell whether it is as it was written.
KEY_LETTERS = 32
CHECK_BYTES = 32


class Tree:
    """The sum of arrays in their order: integers at once, other numbers in pairs and pairs of pairs.

    Sums of floats depend on the order in which they are taken; this one depends on the number of arrays alone, and the sum of
    a power of two of them, at a multiple of that power, is a sum that the whole has.

    Examples
    --------
    >>> tree = Tree()
    >>> for value in (0.1, 0.2, 0.3):
    ...     tree.add(np.array(value))
    >>> float(tree.value) == (0.1 + 0.2) + 0.3
    True
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[int, Array]] = []

    def add(self, value: Array, level: int = 0) -> None:
        """The sum of the next 2^level arrays."""
        exact = value.dtype.kind in "iub"
        while self.nodes and (exact or self.nodes[-1][0] == level):
            level, value = max(level, self.nodes[-1][0]) + 1, self.nodes.pop()[1] + value
        self.nodes.append((level, value))

    @property
    def value(self) -> Array:
        """The sum of all; 0 of none."""
        found = np.array(0)
        for place, (_, value) in enumerate(reversed(self.nodes)):
            found = value if place == 0 else value + found
        return found


@dataclass(eq=False)
class Sums:
    """What some users add up to.

    Attributes
    ----------
    total, aggregate : Tree
        Summary of the data, and of the messages.
    histogram : Histogram
        Different values, for method "counts" where these are no categories.
    users : int
        Number of users.
    messages : float
        Number of messages.
    crowd : Received
        Who sent something.
    """

    total: Tree = field(default_factory=Tree)
    aggregate: Tree = field(default_factory=Tree)
    histogram: Histogram = field(default_factory=Histogram)
    users: int = 0
    messages: float = 0.0
    crowd: Received = field(default_factory=Received)

    def add(self, others: Sums) -> None:
        """The users that follow."""
        for own, other in ((self.total, others.total), (self.aggregate, others.aggregate)):
            for level, value in other.nodes:
                own.add(value, level)
        self.histogram.merge(others.histogram)
        self.users, self.messages = self.users + others.users, self.messages + others.messages
        self.crowd.add(others.crowd.users, others.crowd.faulty, others.crowd.rejected)

    def save(self, folder: Path, key: str) -> None:
        """Write the file of a key, which is there whole or not at all."""
        crowd = self.crowd
        arrays: dict[str, Any] = {"numbers": np.array([self.users, self.messages, crowd.users, crowd.faulty, crowd.rejected])}
        for name, one in (("total", self.total), ("aggregate", self.aggregate)):
            arrays |= {f"{name}-{place}-{level}": value for place, (level, value) in enumerate(one.nodes)}
        if self.histogram:
            arrays |= dict(zip(("values", "counts"), self.histogram.groups(), strict=True))
        content = io.BytesIO()
        np.savez(content, **arrays)
        data = content.getvalue()
        # A name of its own: several processes may have one folder.
        partial = folder / f"part-{key}.{uuid4().hex}"
        try:
            partial.write_bytes(data + _check(key, data))
            partial.replace(_place(folder, key))
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, folder: Path, key: str) -> Sums | None:
        """What was written for a key; None if there is no file, or one that is not as it was written."""
        try:
            content = _place(folder, key).read_bytes()
        except FileNotFoundError:
            return None
        data = content[:-CHECK_BYTES]
        if content[-CHECK_BYTES:] != _check(key, data):
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = dict(file)
        users, messages, *crowd = arrays.pop("numbers").tolist()
        found = cls(users=int(users), messages=messages, crowd=Received(*map(int, crowd)))
        if "values" in arrays:
            found.histogram.put(arrays.pop("values"), arrays.pop("counts"))
        for name, value in arrays.items():
            kind, _, level = name.split("-")
            getattr(found, kind).nodes.append((int(level), value))
        return found


def kept(folder: Path) -> list[Path]:
    """Files that were written to a folder, unfinished ones included."""
    return [*folder.glob(f"part-{'[0-9a-f]' * KEY_LETTERS}.*")]


def _place(folder: Path, key: str) -> Path:
    return folder / f"part-{key}.npz"


def _check(key: str, data: bytes) -> bytes:
    """Ends a file: another content, or another name, has another one."""
    return hashlib.sha256(key.encode() + data).digest()


def combined(parts: Sequence[Sums]) -> Sums:
    """Of neighbours, in their order."""
    whole = Sums()
    for part in parts:
        whole.add(part)
    return whole
