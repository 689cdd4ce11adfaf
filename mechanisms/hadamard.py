"""Hadamard response: a column of a Hadamard matrix, likelier where the user's own row has a +1.

Sources: Acharya, Sun, Zhang, "Hadamard response: estimating distributions privately, efficiently, and with little
communication", AISTATS 2019.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shufflesim._checks import check_epsilon, check_integer
from shufflesim._sampling import bernoulli
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array, Categories, Domain
from shufflesim.randomizer import Randomizer

# Largest number of columns: its histogram fills 8 GiB.
K_MAX = 2**30
# Inputs times columns up to which the law is handed out as a matrix.
ENUMERABLE = 4096
# The same for maximum likelihood, which needs the matrix and no more.
LAW_CELLS = 2**24
# Random numbers that the count-space sampler spends on truthful reports (some seconds), and how many of them at once.
COUNT_DRAWS = 2**24
COUNT_BLOCK = 2**20
# Side of the dense Hadamard matrices that the fast transform multiplies with.
RADIX = 32


@dataclass(frozen=True)
class HadamardResponse(Randomizer):
    """Hadamard response with B blocks of a b x b Sylvester matrix, K = B b columns in all.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of categories; >= 2.
    K : int, optional
        Number of columns, a power of two in [4, 2^30] with B (K/B - 1) >= d. By default the smallest.
    s : int, optional
        Columns in a user's set, K/(2B); for those who think in sets.
    B : int, optional
        Number of blocks, a power of two. None: the one with the smallest variance on average, next to (e^eps - 1)/2.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or K, s and B do not fit together or are too small for d.

    Notes
    -----
    Data: integer codes 0..d-1 or a pandas categorical, shape (n,).
    Source: Acharya, Sun, Zhang, "Hadamard response: estimating distributions privately", AISTATS 2019.

    Category x has row 1 + floor(x/B) of block x mod B; row 0 is constant and no category. Its set are the s = b/2 columns of the
    block where that row is +1: column y with an even number of ones in (y and row). With E = e^eps each column of the own set is
    reported with probability E/(sE+K-s), each other with 1/(sE+K-s). Seen otherwise: with probability t = s(E-1)/(sE+K-s) uniform
    on the set, else uniform on all K columns.

    Let W_x be the sum of row x over the histogram of the reports in its block. A user adds +1, -1 or 0 to it: t on average for
    x itself and 0 for any other category, since rows are orthogonal. Hence W_x/t estimates the count c_x without bias. With
    u = 2/(E-1+2B) a user's report lies in the own block with probability t + u and in any other with u; where n_x users hold
    categories of x's block, the variance is (n_x t + n u - c_x t^2)/t^2. All W come from one fast Walsh-Hadamard transform of
    each block, in O(K log b).

    Averaged over categories, for users spread evenly over them, the variance is
    n ((E-1+2B)(2 + (E-1) sum_j (d_j/d)^2)/(E-1)^2 - 1/d), d_j categories in block j; B=None is the power of two that minimises
    it.

    Examples
    --------
    >>> HadamardResponse(epsilon=1.0, d=100)
    HadamardResponse(epsilon=1.0, d=100, K=128, s=64, B=1)
    >>> HadamardResponse(epsilon=4.0, d=100, B=None)
    HadamardResponse(epsilon=4.0, d=100, K=256, s=4, B=32)
    """

    epsilon: float
    d: int
    K: int | None = None
    s: int | None = None
    B: int | None = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "d", Categories(self.d).d)
        for name, low, high in (("K", 4, K_MAX), ("s", 1, K_MAX // 2), ("B", 1, K_MAX // 2)):
            value = getattr(self, name)
            if value is not None:
                value = check_integer(name, value, low=low, high=high)
                if value & (value - 1):
                    raise ValueError(f"{name} must be a power of two, got {value}")
                object.__setattr__(self, name, value)
        # More blocks than categories would be empty.
        sizes = [1 << i for i in range((self.d - 1).bit_length() + 1)] if self.B is None else [self.B]
        found = [(self._spread(blocks), blocks, width) for blocks in sizes if (width := self._width(blocks)) is not None]
        if not found:
            raise ValueError(
                f"K, s, B must satisfy K = 2 s B <= 2^30 and B (K/B - 1) >= d, got K={self.K}, s={self.s}, B={self.B}, d={self.d}"
            )
        _, blocks, width = min(found)
        for name, value in (("K", blocks * width), ("s", width // 2), ("B", blocks)):
            object.__setattr__(self, name, value)

    def _width(self, blocks: int) -> int | None:
        """b for this number of blocks, from K and s or the smallest that fits; None if there is none."""
        rows = -(-self.d // blocks) + 1
        width = 1 << (rows - 1).bit_length()
        if self.K is not None:
            width = self.K // blocks
        if self.s is not None:
            if self.K is not None and width != 2 * self.s:
                return None
            width = 2 * self.s
        return width if width >= rows and width * blocks <= K_MAX else None

    def _spread(self, blocks: int) -> float:
        """Variance averaged over categories, but for factors and terms that do not depend on B."""
        small = math.exp(-self.epsilon)
        full, more = divmod(self.d, blocks)
        squares = (more * (full + 1) ** 2 + (blocks - more) * full**2) / self.d**2
        return (1 + (2 * blocks - 1) * small) * (2 * small + (1 - small) * squares)

    @property
    def shape(self) -> tuple[int, int]:
        """(B, b): blocks and columns of each."""
        return int(self.B or 0), 2 * int(self.s or 0)

    @property
    def domain(self) -> Domain:
        """d categories."""
        return Categories(self.d)

    @property
    def truthful(self) -> float:
        """t = s(E-1)/(sE+K-s) = (E-1)/(E-1+2B): probability that the report depends on the value."""
        small = math.exp(-self.epsilon)
        return -math.expm1(-self.epsilon) / (1 + (2 * self.shape[0] - 1) * small)

    @property
    def blind(self) -> float:
        """u = 2/(E-1+2B) = b/(sE+K-s): probability that it does not, and lies in a given block."""
        small = math.exp(-self.epsilon)
        return 2 * small / (1 + (2 * self.shape[0] - 1) * small)

    @property
    def amplification(self) -> VariationRatio:
        """beta = t/2 for one block, where sets share half of their columns; t for more, where two sets can be disjoint.

        More blocks: q_star = 1. Disjoint sets leave neutral columns outside of both, of the smallest probability. A pair in one
        block is no worse: moving its masses (E, E) and (1, 1) to (E, 1) and (1, E) gives the table of the disjoint pair, and for
        e^eps >= 1 spreads g0 - e^eps g1 with the same mean.
        One block: q_star = q, for columns in the sets of x0 and x1 and not in that of x*. Up to d = 3 there are none: then x* is
        x0, x1 or the sum of their rows, whose set holds what is in both; and q_star = 1.
        """
        if self.B == 1:
            return VariationRatio.ldp(self.epsilon, self.truthful / 2, q_star=1.0 if self.d <= 3 else None)
        return VariationRatio.ldp(self.epsilon, self.truthful, q_star=1.0)

    def with_epsilon(self, epsilon: float) -> HadamardResponse:
        """Another budget; a number of blocks that is the best for this one is chosen anew."""
        best = self == HadamardResponse(self.epsilon, self.d, B=None)
        return HadamardResponse(epsilon, self.d, B=None) if best else super().with_epsilon(epsilon)

    @property
    def bits(self) -> float:
        """log2 K."""
        return float(math.log2(math.prod(self.shape)))

    @property
    def alphabet(self) -> int:
        """K columns."""
        return math.prod(self.shape)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Codes, shape (n,) -> columns, shape (n,), smallest unsigned dtype."""
        blocks, width = self.shape
        kind = np.min_scalar_type(blocks * width - 1)
        reports = random_bits(rng, blocks * width, values.shape[0])
        truthful = np.flatnonzero(bernoulli(rng, self.truthful, values.shape[0]))
        own = values[truthful].astype(kind, copy=False)
        column = even(reports[truthful] & kind.type(width - 1), own // kind.type(blocks) + kind.type(1))
        reports[truthful] = column | (own & kind.type(blocks - 1)) << kind.type(width.bit_length() - 1)
        return reports

    def aggregate(self, reports: Array) -> Array:
        """Histogram of the columns, shape (K,)."""
        return np.bincount(reports, minlength=math.prod(self.shape))

    def estimate(self, aggregate: Array, n: int) -> Array:
        """Unbiased counts, shape (d,): W/t."""
        spectrum = walsh_hadamard(aggregate.reshape(self.shape))
        return spectrum[:, 1:].T.reshape(-1)[: self.d] / self.truthful

    def variance(self, total: Array, n: int) -> Array:
        """(n_x t + n u - c_x t^2)/t^2, for the whole vector of true counts."""
        t = self.truthful
        block = np.arange(self.d) % self.shape[0]
        held = np.bincount(block, weights=total, minlength=self.shape[0])[block]
        return (held * t + n * self.blind - total * t**2) / t**2

    def sample_aggregate(self, totals: Array, rng: np.random.Generator) -> Array | None:
        """Truthful reports uniform on each set, all others uniform on all columns; None for too many distinct draws."""
        blocks, width = self.shape
        kept = rng.binomial(totals, self.truthful)
        if np.minimum(kept, width // 2).sum() > COUNT_DRAWS:
            return None
        found = rng.multinomial(int(totals.sum() - kept.sum()), np.full(blocks * width, 1 / (blocks * width)))
        few = kept < width // 2
        # One draw a report for rare categories, one a column for the others.
        items, counts = np.flatnonzero(few), kept[few]
        cuts = np.searchsorted(np.cumsum(counts), np.arange(COUNT_BLOCK, counts.sum(), COUNT_BLOCK))
        for part in np.split(np.arange(items.size), cuts):
            x = np.repeat(items[part], counts[part])
            column = even(rng.integers(0, width, x.size), x // blocks + 1)
            found += np.bincount(x % blocks * width + column, minlength=found.size)
        items, step = np.flatnonzero(~few), max(1, 2 * COUNT_BLOCK // width)
        pairs = np.arange(width // 2)
        for start in range(0, items.size, step):
            x = items[start : start + step, None]
            row = x // blocks + 1
            below = (row & -row) - 1
            # Column number j of the set: the bits of j with that of the row's lowest one set to the right parity.
            column = even((pairs & ~below) << 1 | (pairs & below), row)
            drawn = rng.multinomial(kept[x[:, 0]], np.full(width // 2, 2 / width))
            found += np.bincount((x % blocks * width + column).ravel(), drawn.ravel(), found.size).astype(np.int64)
        return found

    def log_channel(self) -> Array | None:
        """The d x K law for tiny instances."""
        return self._log_law() if self.d * math.prod(self.shape) <= ENUMERABLE else None

    def histogram_law(self) -> Array | None:
        """The d x K law, whose columns `aggregate` counts, for up to `LAW_CELLS` entries."""
        return np.exp(self._log_law()) if self.d * math.prod(self.shape) <= LAW_CELLS else None

    def _log_law(self) -> Array:
        blocks, width = self.shape
        x, y = np.arange(self.d)[:, None], np.arange(blocks * width)
        own = (y // width == x % blocks) & (np.bitwise_count(y % width & (x // blocks + 1)) % 2 == 0)
        log_own = -math.log(width / 2) - math.log1p((2 * blocks - 1) * math.exp(-self.epsilon))
        return np.where(own, log_own, log_own - self.epsilon)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """Columns by the sets of x0, x1, x* that they are in, for each kind of pair and third category that exists.

        Invertible maps of the rows permute the columns, hence all that matters is which inputs share a block, and whether the
        row of x* is the sum of the other two.
        """
        B = self.shape[0]
        kinds: list[tuple[int, int, int, str]] = [(0, 1, 0, "others hold x0"), (0, 1, 1, "others hold x1")]
        if B == 1:
            kinds += [(0, 1, 2, "others hold the sum of the rows"), (0, 1, 3, "others hold an independent row")]
        else:
            kinds += [(0, 1, B, "others hold a third value in the block of x0")]
            kinds += [(0, 1, 2, "others hold a third value in a third block")] if B > 2 else []
            pair = "pair in one block, others hold"
            kinds += [(0, B, 0, f"{pair} x0"), (0, B, B, f"{pair} x1"), (0, B, 1, f"{pair} a value of another block")]
            kinds += [(0, B, 2 * B, f"{pair} the sum of the rows"), (0, B, 3 * B, f"{pair} an independent row")]
        return tuple(self._group(kind[:3], kind[3]) for kind in kinds if max(kind[:3]) < self.d)

    def _group(self, inputs: tuple[int, int, int], note: str) -> OutcomeGroups:
        blocks, width = self.shape
        cells: Counter[tuple[bool, ...]] = Counter()
        # Rows up to 4 read three bits of a column: each of their patterns stands for equally many columns.
        patterns = min(width, 8)
        tracked = {x % blocks for x in inputs}
        for block in tracked:
            for y in range(patterns):
                inside = [x % blocks == block and (y & (x // blocks + 1)).bit_count() % 2 == 0 for x in inputs]
                cells[(*inside, False)] += width // patterns
        cells[(False,) * 4] += (blocks - len(tracked)) * width
        if blocks == 1:
            # Columns that no row up to d reads are in all sets: their smallest probability is high.
            everywhere = width >> self.d.bit_length()
            cells[(True, True, True, False)] -= everywhere
            cells[(True,) * 4] += everywhere
        high = (self.truthful + self.blind / 2) / (width // 2)
        low = self.blind / width
        columns = np.array([[count * (high if inside else low) for inside in cell] for cell, count in cells.items() if count]).T
        return OutcomeGroups(columns[0], columns[1], columns[2], columns[3], note)

    @classmethod
    def examples(cls) -> Iterator[HadamardResponse]:
        """Typical with one and more blocks, tiny, extreme."""
        yield cls(epsilon=1.0, d=20)
        yield cls(epsilon=3.0, d=20, B=None)
        yield cls(epsilon=1.0, d=2)
        yield cls(epsilon=1.0, d=5)
        yield cls(epsilon=1.0, d=6, K=8, B=2)
        yield cls(epsilon=1.5, d=5, B=4)
        yield cls(epsilon=1e-9, d=3)
        yield cls(epsilon=100.0, d=8)


def even(columns: Array, rows: Array) -> Array:
    """Columns with the bit of the row's lowest one flipped where (column and row) has an odd number of ones.

    Uniform columns become uniform ones of the row's set, two to one.
    """
    odd = np.bitwise_count(columns & rows).astype(columns.dtype) & columns.dtype.type(1)
    return columns ^ (rows & (~rows + rows.dtype.type(1))) * odd


def random_bits(rng: np.random.Generator, size: int, n: int) -> Array:
    """Uniform integers below a power of two, smallest unsigned dtype."""
    kind = np.min_scalar_type(size - 1)
    words = rng.integers(0, 2**64 - 1, -(-n * kind.itemsize // 8), dtype=np.uint64, endpoint=True)
    drawn = words.view(kind)[:n]
    drawn &= kind.type(size - 1)
    return drawn


def walsh_hadamard(blocks: Array) -> Array:
    """Walsh-Hadamard transform of each row (a power of two long); exact for integers whose sum is below 2^53.

    The lowest digits of the index are transformed by a product with a small matrix and moved to the top, until all digits are
    back in their places.
    """
    count, width = blocks.shape
    found, left = blocks.astype(float), width
    while left > 1:
        radix = min(left, RADIX)
        y = np.arange(radix)
        signs = 1.0 - 2.0 * (np.bitwise_count(y & y[:, None]) % 2)
        found = (found.reshape(-1, radix) @ signs).reshape(count, width // radix, radix).swapaxes(1, 2)
        left //= radix
    return found.reshape(count, width)
