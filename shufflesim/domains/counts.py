"""Data of any number of users, given by how many hold what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import USERS_MAX, check_users
from .base import Array, Domain
from .categories import Categories


@dataclass(frozen=True, eq=False)
class Counts:
    """Data of any number of users as a histogram, for simulation by counts.

    Parameters
    ----------
    counts : array_like of int, shape (k,)
        Users per category, or per entry of `values`; >= 0, at least one user.
    values : array_like, shape (k, ...), optional
        Numbers (or vectors) that the users hold; codes 0..k-1 by default.

    Raises
    ------
    ValueError
        If they are no such counts.

    Examples
    --------
    >>> Counts([600_000_000, 400_000_000]).n
    1000000000
    >>> Counts([3, 5], values=[0.25, 1.0]).n
    8
    """

    counts: Any
    values: Any = None

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        least = 2 if self.values is None else 1
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or counts.size < least:
            got = f"{counts.dtype} of shape {counts.shape}"
            raise ValueError(f"counts must be at least {least} integers >= 0 in one dimension, got {got}")
        if counts.min() < 0:
            bad = int(np.argmax(counts < 0))
            raise ValueError(f"counts must be integers >= 0, got {int(counts[bad])} at position {bad}")
        if counts.max() > USERS_MAX:
            bad = int(np.argmax(counts))
            raise ValueError(f"counts must be at most {USERS_MAX:.0e}, got {int(counts[bad])} at position {bad}")
        if self.values is not None and np.shape(self.values)[:1] != counts.shape:
            raise ValueError(f"values must be as many as counts, {counts.size}, got shape {np.shape(self.values)}")
        object.__setattr__(self, "counts", counts.astype(np.int64))
        check_users(self.n)

    @property
    def n(self) -> int:
        """Users in all."""
        return sum(self.counts.tolist())

    def groups(self, domain: Domain) -> tuple[Array, Array]:
        """Validated values and the number of users who hold each."""
        if self.values is not None:
            return domain.validate(domain.collect(self.values)), self.counts
        if not isinstance(domain, Categories) or domain.d != len(self.counts):
            raise ValueError(f"data must have a count for each category of {domain!r}, got {len(self.counts)} counts")
        return np.arange(domain.d), self.counts
