"""Arithmetic of small finite fields in tables, and the transform of functions on their vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shufflesim.domains import Array

# Largest field with tables; elements fit a byte.
ORDER_MAX = 256


@dataclass(frozen=True, eq=False)
class Field:
    """The field with l = p^r elements, numbered by their coefficients in base p.

    Attributes
    ----------
    add, multiply : ndarray, shape (l, l), uint8
        Sums and products of two elements.
    inverse : ndarray, shape (l,)
        1/u; 0 for u = 0.
    kernel : ndarray, shape (l, l)
        Characters w^{Tr(u v)}, w = e^{2 pi i/p}: real for p = 2. Its rows are orthogonal.
    """

    add: Array
    multiply: Array
    inverse: Array
    kernel: Array

    @property
    def order(self) -> int:
        """l."""
        return len(self.inverse)

    def transform(self, values: Array) -> Array:
        """Sum over a in F^m of values(a) w^{Tr <a, x>} for every x, both numbered in base l; shape (l^m,)."""
        count = round(math.log(values.size, self.order))
        for _ in range(count):
            # The last digit is transformed and becomes the first one.
            values = (values.reshape(-1, self.order) @ self.kernel).T.reshape(-1)
        return values


def prime_power(l: int) -> tuple[int, int]:  # noqa: E741
    """(p, r) with l = p^r; r = 0 if there is none, and then p is the smallest prime factor.

    Examples
    --------
    >>> prime_power(9), prime_power(7), prime_power(12)
    ((3, 2), (7, 1), (2, 0))
    """
    p = next((q for q in range(2, math.isqrt(l) + 1) if l % q == 0), l)
    r = round(math.log(l, p))
    return p, r if p**r == l else 0


@lru_cache(maxsize=16)
def field(l: int) -> Field:  # noqa: E741
    """The field with l elements, a prime power up to `ORDER_MAX`.

    Examples
    --------
    >>> field(4).multiply[2].tolist()
    [0, 2, 3, 1]
    """
    p, r = prime_power(l)
    place = p ** np.arange(r)
    digits = np.arange(l)[:, None] // place % p
    add = (digits[:, None] + digits) % p @ place
    powers = _powers(p, r)
    log = np.empty(l, dtype=np.int64)
    log[powers] = np.arange(l - 1)
    multiply = powers[(log[:, None] + log) % (l - 1)]
    multiply[0], multiply[:, 0] = 0, 0
    inverse = powers[-log % (l - 1)]
    inverse[0] = 0
    # Tr(z) = z + z^p + ... + z^{p^(r-1)} lies in the prime field, the elements 0..p-1.
    trace = np.zeros(l, dtype=np.int64)
    for i in range(r):
        trace[1:] = add[trace[1:], powers[log[1:] * p**i % (l - 1)]]
    angles = 2 * np.pi / p * trace[multiply]
    kernel = np.rint(np.cos(angles)) if p == 2 else np.exp(1j * angles)
    return Field(add.astype(np.uint8), multiply.astype(np.uint8), inverse, kernel)


def _powers(p: int, r: int) -> Array:
    """Powers 0..l-2 of a generator: the root of the first monic polynomial of degree r whose root generates all l - 1 units.

    For r = 1 the root is a number g itself. In general t^r = c, a polynomial of lower degree, reduces a product by t.
    """
    top = p ** (r - 1)
    place = p ** np.arange(r)
    for c in range(1, p**r):
        reduced = c // place % p
        found, element = [1], 1
        while True:
            over, low = divmod(element, top)
            element = int((low * p // place + over * reduced) % p @ place)
            if element in (0, 1):
                break
            found.append(element)
            if len(found) >= p**r:
                break
        if element == 1 and len(found) == p**r - 1:
            return np.array(found)
    raise AssertionError(f"no primitive polynomial of degree {r} over {p}")
