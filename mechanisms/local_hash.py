"""Local hashing: a public random hash function per user, and GRR on the hashed value.

Source: Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017 (OLH).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft

from shufflesim._checks import check_integer
from shufflesim._sampling import bernoulli, uniform_codes
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array
from shufflesim.randomizer import CategoricalRandomizer

from ._field import ORDER_MAX, field, prime_power

# Largest hash range. Beyond it the variance is within 1e-4 of its limit.
L_MAX = 65_536
# Cells of the histogram of (hash function, output) up to which decoding is a Fourier transform; 2^26 cells are 512 MiB.
FOURIER_CELLS = 2**26
# Users times items that the direct decoder handles at once.
DIRECT_CELLS = 2**22
# Entries of the table that hashes several digits at once.
TABLE_CELLS = 2**14
# Outcomes times inputs up to which the law is handed out as a matrix.
ENUMERABLE = 4096
# The same for maximum likelihood, which needs the matrix and no more.
LAW_CELLS = 2**24


@dataclass(frozen=True)
class LocalHash(CategoricalRandomizer):
    """Optimal local hashing with a linear hash family.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    d : int
        Number of categories; >= 2.
    l : int, optional
        Hash range, in [2, 65536]. By default the integer next to e^eps + 1 with the smallest variance
        (E+l-1)^2/((E-1)^2 (l-1)) for rare items, E = e^eps, capped at 65536; between 256 and that, the prime with the smallest:
        at most 0.014% more variance, but shorter reports that are decoded faster.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: integer codes 0..d-1 or a pandas categorical, shape (n,).
    Source: Wang et al., "Locally differentially private protocols for frequency estimation", USENIX Security 2017 (OLH).

    Items are written with m digits in base l, a prime power, and h_a(x) = <a, digits(x)> in the field F_l with a uniform in
    F_l^m. Two items differ in a digit, hence collide with probability exactly 1/l. (A uniform offset, known to the analyzer,
    would cancel.) A report is (a, y), y = GRR_l(h_a(x)); the hash function is fresh for every user. The supports of all items
    come from the histogram of (a, y) by one transform of size l^m, in O(n + l d log d): for l prime, or a prime power up to 256,
    and l^{m+1} up to 2^26.

    For other l the arithmetic is that of Z_l, with digits below the smallest prime factor of l: they differ by units. Every
    report is compared with every item, in O(n d): choose a prime power for large d.

    Examples
    --------
    >>> LocalHash(epsilon=1.0, d=100).l, LocalHash(epsilon=3.0, d=100).l
    (4, 21)
    """

    epsilon: float
    d: int
    l: int | None = None  # noqa: E741 - the paper's name is g, the field says l

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.l is None:
            object.__setattr__(self, "l", best_range(self.epsilon))
        object.__setattr__(self, "l", check_integer("l", self.l, low=2, high=L_MAX))

    @property
    def _range(self) -> int:
        """l, which __post_init__ has made an integer."""
        return int(self.l or 0)

    @cached_property
    def fourier(self) -> bool:
        """Whether a report is one cell of the histogram over (a, y)."""
        l = self._range  # noqa: E741
        _, r = prime_power(l)
        return (r == 1 or (r > 1 and l <= ORDER_MAX)) and l ** (_length(self.d, l) + 1) <= FOURIER_CELLS

    @cached_property
    def base(self) -> int:
        """l, or its smallest prime factor where the arithmetic is that of Z_l: digits below it differ by units."""
        return self._range if self.fourier else prime_power(self._range)[0]

    @cached_property
    def digits(self) -> Array:
        """Digits of every item, shape (m, d), highest first."""
        places = self.base ** np.arange(_length(self.d, self.base))[::-1]
        return (np.arange(self.d) // places[:, None] % self.base).astype(np.min_scalar_type(self.base - 1))

    @cached_property
    def _table(self) -> tuple[int, Array]:
        """(l^g, hashes of all items of g digits by all functions of g coefficients, flat), g digits at once."""
        numbers = field(self._range)
        table, size = numbers.multiply, self._range
        while size**2 * self._range**2 <= TABLE_CELLS:
            parts = numbers.add[table[:, None, :, None], numbers.multiply[None, :, None, :]]
            size *= self._range
            table = parts.reshape(size, size)
        return size, table.reshape(-1)

    def hashed(self, functions: Array, items: Array) -> Array:
        """h_a(x) for functions and items numbered in base l, elementwise; where `fourier` is True."""
        l = self._range  # noqa: E741
        total = np.zeros(np.broadcast(functions, items).shape, dtype=np.min_scalar_type(l - 1))
        a, x = functions.astype(np.int32), items.astype(np.int32)
        if l > ORDER_MAX:
            for _ in range(len(self.digits)):
                total = ((total + (a % l).astype(np.int64) * (x % l)) % l).astype(total.dtype)
                a, x = a // l, x // l
            return total
        size, table = self._table
        sums, first = field(l).add.reshape(-1), True
        for _ in range(-(-len(self.digits) // round(math.log(size, l)))):
            part = table.take(a % size * size + x % size)
            total = part if first else sums.take(total.astype(np.int32) * l + part)
            a, x, first = a // size, x // size, False
        return total

    @property
    def support(self) -> tuple[float, float]:
        """(E/(E+l-1), 1/l)."""
        return 1 / (1 + (self._range - 1) * math.exp(-self.epsilon)), 1 / self._range

    @property
    def amplification(self) -> VariationRatio:
        """beta = (1 - 1/l)(E-1)/(E+l-1): where the two inputs collide the report says nothing. q_star = q (both collide)."""
        a, _ = self.support
        return VariationRatio.ldp(self.epsilon, (1 - 1 / self._range) * a * -math.expm1(-self.epsilon))

    @property
    def published_beta(self) -> float:
        """(E-1)/(E+l-1), for one fixed hash function under which the two inputs differ: larger than the true one, and safe."""
        return self.support[0] * -math.expm1(-self.epsilon)

    @property
    def bits(self) -> float:
        """The hash function's m coefficients and the output."""
        return float(math.ceil((len(self.digits) + 1) * math.log2(self._range)))

    @property
    def alphabet(self) -> int:
        """Cells, or the range of the entries of a row."""
        return self._range ** (len(self.digits) + 1 if self.fourier else 1)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Codes, shape (n,) -> cells a * l + y, shape (n,); or rows (a, y), shape (n, m + 1), where those are too many."""
        l, n, m = self._range, values.shape[0], len(self.digits)  # noqa: E741
        truthful = np.flatnonzero(bernoulli(rng, self.support[0] * -math.expm1(-self.epsilon), n))
        if self.fourier:
            cells = uniform_codes(rng, l ** (m + 1), n, np.min_scalar_type(l ** (m + 1) - 1))
            functions = cells[truthful] // cells.dtype.type(l)
            hashed = self.hashed(functions, values[truthful])
            cells[truthful] = functions * cells.dtype.type(l) + hashed.astype(cells.dtype, copy=False)
            return cells
        reports = uniform_codes(rng, l, n * (m + 1), np.min_scalar_type(l - 1)).reshape(n, m + 1)
        sums = np.zeros(truthful.size, dtype=np.int64)
        for column, digit in enumerate(self.digits):
            sums += reports[truthful, column].astype(np.int64) * digit[values[truthful]]
        reports[truthful, m] = sums % l
        return reports

    def aggregate(self, reports: Array) -> Array:
        """Histogram of (a, y), or the support of each item."""
        if self.fourier:
            return np.bincount(reports, minlength=self._range ** (len(self.digits) + 1))
        supports = np.zeros(self.d, dtype=np.int64)
        digits = self.digits.astype(float)
        step = max(1, DIRECT_CELLS // self.d)
        for start in range(0, reports.shape[0], step):
            part = reports[start : start + step]
            # Integers below m l p < 2^53: the floating-point product is exact.
            hashed = part[:, :-1].astype(float) @ digits
            hashed -= self._range * np.floor(hashed / self._range)
            supports += (hashed == part[:, -1:]).sum(axis=0)
        return supports

    def supports(self, aggregate: Array) -> Array:
        """Number of reports (a, y) with <a, x> = y, for every item x.

        [<a,x> = y] = (1/l) sum_u e(u(<a,x> - y)) over u in F_l, e(z) = w^{Tr z}. The term u = 0 is n/l; for u != 0 substitute
        a = a'/u: then all of them are one transform over a' of B(a') = sum_{u != 0} sum_y H[a'/u, y] e(-u y). For prime l the
        terms of u and -u are conjugate: half of them are enough.
        """
        if not self.fourier:
            return aggregate
        l, m = self._range, len(self.digits)  # noqa: E741
        histogram = aggregate.reshape((l**m, l))
        if prime_power(l)[1] == 1:
            folded = _folded(np.fft.rfft(histogram, axis=1), m, [pow(u, -1, l) * np.arange(l) % l for u in range(1, l // 2 + 1)])
            sums = (1 if l == 2 else 2) * l**m * fft.ifftn(folded.reshape((l,) * m), overwrite_x=True).reshape(-1)
        else:
            numbers = field(l)
            folded = _folded(histogram @ numbers.kernel.conj(), m, numbers.multiply[numbers.inverse[1:]])
            sums = numbers.transform(folded)
        return np.rint((aggregate.sum() + sums[: self.d].real) / l)

    def outcome(self, reports: Array) -> Array:
        """Cell of (a, y), for the tiny instances that have a channel."""
        if self.fourier:
            return reports
        return reports.astype(np.int64) @ self._range ** np.arange(len(self.digits) + 1)[::-1]

    def log_channel(self) -> Array | None:
        """The law on (a, y) for tiny instances."""
        return self._log_law() if self._cells * self.d <= ENUMERABLE else None

    def histogram_law(self) -> Array | None:
        """The law on (a, y) where `aggregate` is a histogram of it, for up to `LAW_CELLS` entries."""
        return np.exp(self._log_law()) if self.fourier and self._cells * self.d <= LAW_CELLS else None

    @property
    def _cells(self) -> int:
        """Number of (a, y)."""
        return int(self._range ** (len(self.digits) + 1))

    def _log_law(self) -> Array:
        l, m = self._range, len(self.digits)  # noqa: E741
        if self.fourier:
            hashed = self.hashed(np.arange(l**m)[:, None], np.arange(self.d))
        else:
            hashed = np.array(list(itertools.product(range(l), repeat=m))) @ self.digits.astype(int) % l
        own = -math.log1p((l - 1) * math.exp(-self.epsilon)) - m * math.log(l)
        return np.where(np.arange(l) == hashed.T[:, :, None], own, own - self.epsilon).reshape(self.d, -1)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """By which of h(x0), h(x1), h(x*) agree, and which of them the output is; the floor is the unlikely output's."""
        own = self.support[0]
        other = own * math.exp(-self.epsilon)
        rows = []
        for probability, cells in self._patterns():
            for cell in range(max(cells) + 1):
                rows.append([probability * (own if c == cell else other) for c in cells] + [probability * other])
            rest = self._range - (max(cells) + 1)
            rows.append([probability * rest * other] * 4)
        columns = np.array(rows).T
        names = ("others hold x0", "others hold x1", "others hold a third value")
        return tuple(OutcomeGroups(columns[0], columns[1], columns[k], columns[3], names[k]) for k in range(min(self.d, 3)))

    def _patterns(self) -> list[tuple[float, tuple[int, int, int]]]:
        """Probability of each pattern of agreement of (h(x0), h(x1), h(x*)).

        With at least two digits there are items 0, 1, base whose differences are independent, so that both hash differences are
        uniform and independent; with one digit all items agree (a = 0) or none do.
        """
        c = 1 / self._range
        if self.d <= self.base:
            return [(c, (0, 0, 0)), (1 - c, (0, 1, 2 if self.d > 2 else 1))]
        return [
            (c * c, (0, 0, 0)),
            (c * (1 - c), (0, 0, 1)),
            (c * (1 - c), (0, 1, 0)),
            (c * (1 - c), (0, 1, 1)),
            ((1 - c) * (1 - 2 * c), (0, 1, 2)),
        ]

    @classmethod
    def examples(cls) -> Iterator[LocalHash]:
        """Typical with each decoder, tiny, extreme."""
        yield cls(epsilon=2.0, d=16, l=7)
        yield cls(epsilon=2.0, d=16)
        yield cls(epsilon=1.5, d=16, l=6)
        yield cls(epsilon=1.0, d=4, l=2)
        yield cls(epsilon=1.0, d=4, l=3)
        yield cls(epsilon=1.0, d=4, l=4)
        yield cls(epsilon=1e-9, d=3)
        yield cls(epsilon=700.0, d=5)


def _folded(spectrum: Array, m: int, scaled: Iterable[Array]) -> Array:
    """Sum over u = 1, 2, ... of column u of the spectrum at a'/u, for all a' of m digits; `scaled` lists digit/u for each u."""
    folded = np.zeros(len(spectrum), dtype=spectrum.dtype)
    for u, digit in enumerate(scaled, 1):
        where = np.zeros(1, dtype=np.int64)
        for _ in range(m):
            where = (where[:, None] * len(digit) + digit).reshape(-1)
        folded += spectrum[where, u]
    return folded


def _length(d: int, base: int) -> int:
    """Digits of the items 0..d-1."""
    m = 1
    while base**m < d:
        m += 1
    return m


def best_range(epsilon: float) -> int:
    """The integer l >= 2 that minimises (E + l - 1)^2/(l - 1), next to E + 1 for E = e^eps; among primes where it is large."""
    if epsilon > math.log(L_MAX):
        return L_MAX
    e = math.exp(epsilon)
    low, high = (max(2, min(L_MAX, math.floor(e + 1) + k)) for k in (0, 1))
    if high > ORDER_MAX:
        low = next(size for size in range(low, 1, -1) if prime_power(size)[1] == 1)
        high = next((size for size in range(high, L_MAX) if prime_power(size)[1] == 1), low)
    return min((low, high), key=lambda size: (e + size - 1) ** 2 / (size - 1))
