"""Categories of which only a few are of interest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._checks import check_integer
from .base import Array, Domain, Target, is_categorical
from .categories import Categories


@dataclass(frozen=True)
class Queries(Domain):
    """Codes 0..d-1, of which the counts of some are estimated; users hold any of them.

    Parameters
    ----------
    d : int
        Number of categories; >= 2.
    codes : tuple of int
        The codes in question; distinct, at least one, in any order.

    Examples
    --------
    >>> domain = Queries(2**30, (7, 2**20))
    >>> domain.total(domain.validate([7, 8, 2**20, 7])).tolist()
    [2, 1]
    """

    d: int
    codes: tuple[int, ...]
    target: ClassVar[Target] = "count"

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", Categories(self.d).d)
        if not isinstance(self.codes, (tuple, list)) or not self.codes:
            raise ValueError(f"queries must be one or more codes, got {self.codes!r}")
        codes = tuple(check_integer("queries", code, low=0, high=self.d - 1) for code in self.codes)
        if len(set(codes)) < len(codes):
            twice = next(code for code in codes if codes.count(code) > 1)
            raise ValueError(f"queries must be distinct, got {twice} twice")
        object.__setattr__(self, "codes", codes)

    @property
    def categories(self) -> Categories:
        """All codes."""
        return Categories(self.d)

    @property
    def labels(self) -> Array:
        """The codes in question."""
        return np.array(self.codes)

    def labels_of(self, data: Any) -> Array:
        """The codes in question, or the categories of a pandas categorical in their places."""
        return np.asarray(data.dtype.categories)[self.labels] if is_categorical(data) else self.labels

    def validate(self, values: Any, offset: int = 0) -> Array:
        """As `Categories` does."""
        return self.categories.validate(values, offset)

    def collect(self, data: Any, offset: int = 0) -> Any:
        """As `Categories` does."""
        return self.categories.collect(data, offset)

    def total(self, values: Array) -> Array:
        """Users per code in question."""
        return self.grouped_total(values, np.ones(values.shape[0], dtype=np.int64))

    def grouped_total(self, values: Array, counts: Array) -> Array:
        """The same of counts[i] users who hold values[i]."""
        order = np.argsort(self.labels)
        place = np.minimum(np.searchsorted(self.labels[order], values), len(self.codes) - 1)
        asked = self.labels[order][place] == values
        total = np.zeros(len(self.codes), dtype=np.int64)
        np.add.at(total, order[place[asked]], counts[asked])
        return total

    def truth(self, total: Array, n: int) -> Array:
        """Users per code in question."""
        return total.astype(float)

    def plausible(self, estimate: Array, n: int) -> Array:
        """Between none and all of the users."""
        return self.categories.plausible(estimate, n)

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Codes in question and any others, in equal parts."""
        values = rng.integers(0, self.d, n)
        asked = rng.random(n) < 0.5
        values[asked] = rng.choice(self.labels, int(asked.sum()))
        return self.validate(values)

    def refused(self) -> Iterator[Any]:
        """As for `Categories`."""
        yield from self.categories.refused()
