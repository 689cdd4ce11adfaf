"""What the randomizers of sets share: their domain, and how uniform sets meet given ones."""

from __future__ import annotations

import math

import numpy as np

from shufflesim._checks import check_integer
from shufflesim.domains import Array, Sets
from shufflesim.randomizer import CategoricalRandomizer


class SetRandomizer(CategoricalRandomizer):
    """A randomizer of sets of s out of d items that estimates users per item from supports.

    A report supports each of the user's own items with probability a and every other with probability b, whatever the others
    are; users are independent, so that the estimate and its variance are those of single items.
    """

    s: int

    def __post_init__(self) -> None:
        super().__post_init__()
        # With s = d there is one set only, and nothing to say.
        object.__setattr__(self, "s", check_integer("s", self.s, low=1, high=self.d - 1))

    @property
    def domain(self) -> Sets:
        """Sets of s out of d items."""
        return Sets(self.d, self.s)

    def inputs(self) -> Array:
        """All sets, in the order of the rows of `channel`."""
        return self.domain.subsets()

    @property
    def common(self) -> int:
        """Items that two sets share at least, max(0, 2s - d)."""
        return max(0, 2 * self.s - self.d)


def log_miss(d: int, u: int, k: int) -> float:
    """Log-probability C(d-u, k)/C(d, k) that a uniform set of k out of d items holds none of u given ones.

    Examples
    --------
    >>> round(math.exp(log_miss(5, 2, 1)), 12), log_miss(5, 3, 3)
    (0.6, -inf)
    """
    if u + k > d:
        return -math.inf
    few, many = sorted((u, k))
    return float(np.log1p(-many / (d - np.arange(few))).sum())


def log_hits(d: int, s: int, k: int) -> Array:
    """Log-probabilities that a uniform set of k <= d - s out of d items holds 0, 1, ..., min(s, k) of s given ones.

    Examples
    --------
    >>> np.exp(log_hits(5, 2, 2)).round(12).tolist()
    [0.3, 0.6, 0.1]
    """
    i = np.arange(min(s, k))
    steps = np.log((s - i) * (k - i)) - np.log((i + 1.0) * (d - s - k + i + 1))
    return log_miss(d, s, k) + np.append(0.0, np.cumsum(steps))


def others(values: Array, d: int, rng: np.random.Generator) -> Array:
    """One uniform item outside of each row of own items, sorted ascending, shape (n, s) -> (n,), same dtype."""
    n, s = values.shape
    items = rng.integers(0, d - s, n, dtype=np.min_scalar_type(max(256, d - 1))).astype(values.dtype, copy=False)
    for own in values.T:
        items += items >= own
    return items
