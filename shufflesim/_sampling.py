"""Seeds and their children, exact samplers that are faster than the obvious ones, and sums of packed bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._checks import check_integer

Array = np.ndarray[Any, np.dtype[Any]]

_STEPS = 2**16
# Binary digits of a probability that are compared for all coins of `packed_bernoulli`; 2^-10 of the coins are still open then.
_DIGITS = 10
# Bytes of packed rows that `bit_sums` handles at once.
_SUM_BYTES = 2**22
_ALL_ONES = 2**64 - 1


def seed_root(seed: int | np.random.SeedSequence | None) -> np.random.SeedSequence:
    """What a user gave as seed; fresh entropy for None."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    return np.random.SeedSequence() if seed is None else np.random.SeedSequence(check_integer("seed", seed, low=0))


def child(root: np.random.SeedSequence, *index: int) -> np.random.SeedSequence:
    """The descendant of a seed that `root.spawn` would return in that place, without spawning the others."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *index), pool_size=root.pool_size)


def bernoulli(rng: np.random.Generator, probability: float, shape: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Independent coins with the given probability of True, from two random bytes each.

    A 16-bit number below floor(2^16 p) is a hit; one that equals it, a tie, is decided by a double against the remaining
    fraction, so that the probability is p to 2^-69.

    Examples
    --------
    >>> bernoulli(np.random.default_rng(0), 1.0, 3).tolist()
    [True, True, True]
    """
    threshold, fraction = divmod(probability * _STEPS, 1.0)
    drawn = rng.integers(0, _STEPS, shape, dtype=np.uint16)
    if threshold >= _STEPS:
        return np.ones(np.shape(drawn), dtype=bool)
    level = np.uint16(threshold)
    hits = drawn < level
    ties = np.flatnonzero(drawn == level)
    hits.flat[ties] = rng.random(ties.size) < fraction
    return hits


def packed_bernoulli(rng: np.random.Generator, probability: float, n: int, d: int) -> Array:
    """n rows of d independent coins, packed as `np.packbits(..., axis=1)` does, shape (n, ceil(d/8)); padding bits are 0.

    Each coin compares a uniform number with p digit by digit, 64 coins in a word: at a digit 1 of p a random 0 is a hit, at a
    digit 0 a random 1 a miss, anything else stays open. What is open after `_DIGITS` digits is decided by a double against the
    remaining fraction, so that the probability is p to 2^-63.

    Examples
    --------
    >>> packed_bernoulli(np.random.default_rng(0), 1.0, 2, 10).tolist()
    [[255, 192], [255, 192]]
    """
    width = -(-d // 8)
    size = -(-n * width // 8)
    hits, still = np.zeros(size, dtype=np.uint64), np.full(size, _ALL_ONES, dtype=np.uint64)
    fraction = probability
    for _ in range(_DIGITS):
        if fraction == 0:
            break
        drawn = rng.integers(0, _ALL_ONES, size, dtype=np.uint64, endpoint=True)
        fraction *= 2
        if fraction >= 1:
            fraction -= 1
            drawn &= still
            hits |= drawn
            still ^= drawn
        else:
            still &= drawn
    if fraction > 0:
        where = np.flatnonzero(still)
        rest = still[where]
        while where.size:
            lowest = rest & -rest
            hits[where] |= np.where(rng.random(where.size) < fraction, lowest, np.uint64(0))
            rest ^= lowest
            where, rest = where[rest > 0], rest[rest > 0]
    packed = hits.view(np.uint8)[: n * width].reshape(n, width)
    packed[:, -1] &= np.uint8(256 - (1 << (-d % 8)))
    return packed


def bit_sums(packed: Array, d: int) -> Array:
    """Ones in each of the d columns of packed rows, shape (d,).

    Three rows of weight w become one row of weight w (their sum modulo 2) and one of weight 2w (the carry), until at most two
    rows of each weight are left to be unpacked.

    Examples
    --------
    >>> bit_sums(np.packbits([[1, 0, 1], [1, 1, 0], [1, 0, 0]], axis=1), 3).tolist()
    [3, 1, 1]
    """
    total = np.zeros(d, dtype=np.int64)
    step = max(64, _SUM_BYTES // packed.shape[1])
    for start in range(0, packed.shape[0], step):
        rows, weight = packed[start : start + step], 1
        while len(rows):
            carries = [rows[:0]]
            while len(rows) > 2:
                m = len(rows) // 3
                first, second, third = rows[:m], rows[m : 2 * m], rows[2 * m : 3 * m]
                odd = first ^ second
                carries.append((first & second) | (odd & third))
                rows = np.concatenate((odd ^ third, rows[3 * m :]))
            total += weight * np.unpackbits(rows, axis=1, count=d).sum(axis=0, dtype=np.int64)
            rows, weight = np.concatenate(carries), 2 * weight
    return total


def uniform_codes(rng: np.random.Generator, d: int, n: int, dtype: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """n codes uniform on 0..d-1 in the given unsigned type; drawn in 16 bits where 8 would do, which NumPy does faster.

    Examples
    --------
    >>> uniform_codes(np.random.default_rng(0), 1, 3, np.uint8).tolist()
    [0, 0, 0]
    """
    wide = np.dtype(dtype) if np.dtype(dtype).itemsize > 1 else np.dtype(np.uint16)
    return rng.integers(0, d, n, dtype=wide).astype(dtype, copy=False)


def negative_binomial(rng: np.random.Generator, r: float, odds: float, n: int) -> Array:
    """n draws with Pr[k] = Gamma(k + r)/(Gamma(r) k!) (1-p)^r p^k for odds = p/(1-p): Poisson with a Gamma mean, any r > 0.

    Examples
    --------
    >>> negative_binomial(np.random.default_rng(0), 1e-12, 10.0, 3).tolist()
    [0, 0, 0]
    """
    return rng.poisson(odds * rng.standard_gamma(r, n))
