"""Key-value pairs, of which users per key and sums of values per key are estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._checks import check_integer, check_size, plain
from .base import Array, Domain, Target, as_array, refuse_missing
from .categories import categorical_columns, shared_categories


@dataclass(frozen=True)
class KeyValues(Domain):
    """s pairs of a key in 0..d-1 and a value in [-1, 1] per user, with distinct keys: data of shape (n, s, 2).

    Estimated are, for each key, the number of users who have it and the sum of their values; the mean is the ratio of both.
    A DataFrame of columns key, value, key, value, ... may have categoricals for keys, whose labels come back in the results.

    Parameters
    ----------
    d : int
        Number of keys; >= 1.
    s : int
        Pairs of one user; 1 <= s <= d.
    fewer : bool
        Whether a user may have fewer pairs: rows (nan, nan) stand for no pair.

    Examples
    --------
    >>> KeyValues(3, 2).validate([[[0, 0.5], [2, -1.0]]]).shape
    (1, 2, 2)
    >>> KeyValues(3, 2).validate([[[0, 0.5], [0, -1.0]]])
    Traceback (most recent call last):
    ...
    ValueError: values must have distinct keys per user, got [0, 0] at position 0
    """

    d: int
    s: int
    fewer: bool = False
    target: ClassVar[Target] = "count"

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", check_size("d", self.d, low=1))
        object.__setattr__(self, "s", check_integer("s", self.s, low=1, high=self.d))
        if not isinstance(self.fewer, bool):
            raise ValueError(f"fewer must be True or False, got {self.fewer!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """(s, 2)."""
        return (self.s, 2)

    @property
    def labels(self) -> Array:
        """Users per key, then sums of values per key."""
        return np.array([f"{what} {k}" for what in ("users", "sum") for k in range(self.d)])

    @property
    def kinds(self) -> dict[str, slice]:
        """Users per key, and sums of values per key."""
        return {"users": slice(0, self.d), "sums": slice(self.d, None)}

    def labels_of(self, data: Any) -> Array:
        """The same with the categories of a DataFrame's keys."""
        if not _labelled(data):
            return self.labels
        return np.array([f"{what} {label}" for what in ("users", "sum") for label in shared_categories(data.iloc[:, ::2])])

    def collect(self, data: Any, offset: int = 0) -> Any:
        """Pairs, or a DataFrame of columns key, value, key, value, ..., with keys that are codes or categoricals of one list.

        A missing key is nan, which stands for no pair beside a missing value.
        """
        if not _labelled(data):
            pairs = hasattr(data, "iloc") and data.ndim == 2 and data.shape[1] == 2 * self.s
            return super().collect(data.to_numpy().reshape(-1, *self.shape) if pairs else data, offset)
        labels, width = shared_categories(data.iloc[:, ::2]), data.shape[1]
        if len(labels) != self.d:
            raise ValueError(f"d must be the number of categories of the data, {len(labels)}, got {self.d}")
        if width != 2 * self.s:
            raise ValueError(f"data must have {2 * self.s} columns key, value, ..., got {width}")
        columns = [data.iloc[:, j] for j in range(width)]
        wrong = next((column.dtype for column in columns[1::2] if column.dtype.kind not in "iuf"), None)
        if wrong is not None:
            raise ValueError(f"data must have numbers in every second column, got {wrong}")
        keys = [np.where(column.cat.codes < 0, np.nan, column.cat.codes) for column in columns[::2]]
        stacked: Array = super().collect(np.stack([np.column_stack(keys), np.column_stack(columns[1::2])], axis=2), offset)
        # Here already: `validate` sees codes, and the user knows labels.
        self._refuse_repeated(stacked[..., 0], offset, labels)
        return stacked

    def validate(self, values: Any, offset: int = 0) -> Array:
        """Pairs -> float64, shape (n, s, 2); see `Domain.validate`."""
        array = as_array(values, self.shape)
        if array.dtype.kind not in "iuf":
            refuse_missing(array, offset)
            raise ValueError(f"values must be numbers (key, value), got {array.dtype}")
        array = array.astype(float, copy=False)
        key, value = array[..., 0], array[..., 1]
        absent = np.isnan(key) & np.isnan(value) & self.fewer
        rules = (
            (f"keys in 0..{self.d - 1}", absent | ((key >= 0) & (key < self.d) & (key == np.floor(key))), key),
            ("values in [-1, 1]", absent | ((value >= -1) & (value <= 1)), value),
        )
        for rule, holds, shown in rules:
            if not holds.all():
                user, pair = np.unravel_index(int(np.argmin(holds)), holds.shape)
                got = shown[user, pair].item()
                raise ValueError(f"values must have {rule}, got {got!r} at position {offset + int(user)}")
        self._refuse_repeated(key, offset)
        return array

    def _refuse_repeated(self, key: Array, offset: int, labels: list[Any] | None = None) -> None:
        """A row with a key twice; absent pairs count as keys below 0 that differ."""
        ordered = np.sort(np.where(np.isnan(key), -1.0 - np.arange(self.s), key), axis=1)
        distinct = (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
        if not distinct.all():
            bad = int(np.argmin(distinct))
            codes = [int(k) for k in key[bad] if not np.isnan(k)]
            got = codes if labels is None else [plain(labels[code]) for code in codes]
            raise ValueError(f"values must have distinct keys per user, got {got} at position {offset + bad}")

    def total(self, values: Array) -> Array:
        """Users, sum of values and sum of squared values per key, shape (3, d)."""
        present = ~np.isnan(values[..., 0])
        key, value = values[present, 0].astype(np.intp), values[present, 1]
        return np.array([np.bincount(key, weights=value**power, minlength=self.d) for power in (0, 1, 2)])

    def truth(self, total: Array, n: int) -> Array:
        """Users per key, then sums per key, shape (2d,)."""
        return total[:2].ravel()

    def plausible(self, estimate: Array, n: int) -> Array:
        """Users in [0, n], sums within plus and minus the users, all of one key with the same value."""
        users = np.clip(estimate[: self.d], 0, n)
        sums = np.clip(estimate[self.d :], -users, users)
        return np.array([users, sums, sums**2 / np.maximum(users, 1e-300)])

    def plug_in(self, variance: Callable[[Array], Array], estimate: Array, n: int) -> Array:
        """With users as estimated, where a variance linear in them has no bias; at least that of clipped ones."""
        clipped = self.plausible(estimate, n)
        raw = np.array([estimate[: self.d], *clipped[1:]])
        return np.maximum(variance(raw), variance(clipped))

    def example(self, n: int, rng: np.random.Generator) -> Array:
        """Neighbouring keys, early ones more often; values drift with the key; some pairs absent where allowed."""
        first = np.minimum(rng.geometric(min(0.5, 4 / self.d), n) - 1, self.d - 1)
        keys = rng.permuted((first[:, None] + np.arange(self.s)) % self.d, axis=1)
        values = np.clip(rng.uniform(-1, 1, keys.shape) + 0.5 - keys / self.d, -1, 1)
        pairs = np.stack([keys.astype(float), values], axis=2)
        if self.fewer:
            pairs[rng.random(keys.shape) < 0.25] = np.nan
        return pairs

    def refused(self) -> Iterator[Any]:
        """Wrong shapes and types, keys and values outside, keys that repeat, half a pair."""
        good = np.stack([np.arange(self.s, dtype=float), np.zeros(self.s)], axis=1)[None].repeat(2, axis=0)
        for column, bad in ((0, -1.0), (0, float(self.d)), (0, 0.5), (0, np.nan), (1, np.nan), (1, 1.5), (1, np.inf)):
            values = good.copy()
            values[1, 0, column] = bad
            yield values
        yield from (good[:0], good[0], good[..., 0], good.astype(str))
        if self.s > 1:
            yield np.zeros_like(good)
        if not self.fewer:
            yield np.full_like(good, np.nan)


def _labelled(data: Any) -> bool:
    """Whether it is a DataFrame whose first, third, ... columns are categoricals."""
    return hasattr(data, "iloc") and data.ndim == 2 and categorical_columns(data.iloc[:, ::2])
