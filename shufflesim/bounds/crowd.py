"""Who takes part: user 1 and the users that hide her."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import check_integer, check_number, check_users
from .count import MessageCount, Part
from .table import Table


@dataclass(frozen=True)
class Crowd:
    """User 1 among n users who follow the protocol, some of whom may be absent.

    Parameters
    ----------
    n : int
        Users, user 1 included; >= 1.
    dropout : float
        Probability, in [0, 1), that a user other than user 1 sends nothing, independently of all others.
    sampling : float
        Probability, in (0, 1], that a user, user 1 included, is asked at all, independently of all others.

    Notes
    -----
    The receiver sees how many messages came; nobody sees who was absent.

    Examples
    --------
    >>> Crowd(1000, dropout=0.1).present
    0.9
    """

    n: int
    dropout: float = 0.0
    sampling: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_users(self.n))
        dropout = check_number("dropout", self.dropout, "in [0, 1)", low=0.0, high=np.nextafter(1.0, 0.0))
        sampling = check_number("sampling", self.sampling, "in (0, 1]", low=np.nextafter(0.0, 1.0), high=1.0)
        object.__setattr__(self, "dropout", dropout)
        object.__setattr__(self, "sampling", sampling)

    @classmethod
    def of(cls, n: Any, n_honest: Any, dropout: Any, sampling: Any) -> Crowd:
        """From the arguments of `delta` and `epsilon`: only the honest ones of n users hide anybody."""
        n = check_users(n)
        if n_honest is not None:
            whole = isinstance(n_honest, (float, np.floating)) and float(n_honest).is_integer()
            n_honest = check_integer("n_honest", int(n_honest) if whole else n_honest, low=1, high=n)
        return cls(n if n_honest is None else n_honest, dropout, sampling)

    @property
    def complete(self) -> bool:
        """Whether everybody takes part."""
        return self.dropout == 0 and self.sampling == 1

    @property
    def present(self) -> float:
        """Probability that a user other than user 1 sends her messages."""
        return self.sampling * (1 - self.dropout)

    def refuse_sampling(self, protocol: object) -> None:
        """For protocols whose users send several messages: whether user 1 takes part shows in their number."""
        if self.sampling < 1:
            raise ValueError(f"sampling must be 1 for {protocol!r}, whose users send several messages, got {self.sampling!r}")

    def blanket(self, sizes: Mapping[int, float]) -> MessageCount:
        """User 1's message and the blanket messages of all users, user 1's own included.

        Parameters
        ----------
        sizes : mapping of int to float
            Probability of each number of blanket messages of one user; sums to 1.
        """
        fixed = min(sizes)
        more = {size - fixed: p for size, p in sizes.items() if size > fixed and p > 0}
        if self.complete:
            return MessageCount(1 + self.n * fixed, Part(self.n, tuple(more), tuple(more.values())))
        sent = {size: self.present * p for size, p in sizes.items() if size > 0 and p > 0}
        others = Part(self.n - 1, tuple(sent), tuple(sent.values()))
        return MessageCount(1 + fixed, Part(1, tuple(more), tuple(more.values())), others)

    def spread(self, table: Table) -> Table:
        """The table for one message per user, where a user who is absent counts as sending an empty message.

        Others send a message of law W with probability k = `present`, user 1 sends hers with probability s = `sampling`; the
        number of empty messages is n minus the number that came, so that nothing else is revealed. Rows (w; g0; g1) become
        (k w; s g0/k; s g1/k), and (1-k; (1-s)/(1-k), the same) stands for the empty message.
        """
        if self.complete:
            return table
        k, s = self.present, self.sampling
        empty = (1 - s) / (1 - k)
        return Table(
            np.append(k * table.weight, 1 - k),
            np.append((s / k) * table.g0, empty),
            np.append((s / k) * table.g1, empty),
            None if table.gap is None else np.append((s / k) * table.gap, 0.0),
        )
