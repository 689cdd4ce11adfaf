"""Sums over the counts of four kinds of messages, in integers that stand for fixed-point numbers.

Products of integers of some hundred bits take a tenth of the time of floating-point numbers of the same precision. All that is
lost is absolute: each operation drops at most one unit, 2^-bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import mpmath

# Bits beyond those of the working precision, the number of terms and the largest value: a few units are lost in each of them.
SPARE_BITS = 40


def fixed(value: Any, bits: int) -> int:
    """floor(value 2^bits)."""
    return int(mpmath.floor(mpmath.ldexp(value, bits)))


def binomial_row(m: int, a: Any, b: Any, bits: int) -> tuple[int, list[int]]:
    """Pr[Bin(m, a/(a+b)) = j] for j = low, low + 1, ...: all that are not 0 at this resolution, from the mode outwards.

    Parameters
    ----------
    m : int
        Trials, >= 0.
    a, b : mpmath.mpf
        Weights of the two outcomes, > 0.
    bits : int
        Bits after the binary point; the working precision must be at least as large.

    Returns
    -------
    (int, list of int)
        low, and the probabilities times 2^bits.

    Examples
    --------
    >>> low, row = binomial_row(2, mpmath.mpf(1), mpmath.mpf(3), 40)
    >>> low, [round(p / 2**40, 6) for p in row]
    (0, [0.5625, 0.375, 0.0625])
    """
    mode = min(m, int((m + 1) * a / (a + b)))
    centre = fixed(mpmath.binomial(m, mode) * (a / (a + b)) ** mode * (b / (a + b)) ** (m - mode), bits)
    up, down = [], []
    odds, shift = _ratio(a, b, bits)
    p, j = centre, mode
    while j < m and (p := (p * (m - j) * odds >> shift) // (j + 1)):
        up.append(p)
        j += 1
    odds, shift = _ratio(b, a, bits)
    p, j = centre, mode
    while j > 0 and (p := (p * j * odds >> shift) // (m - j + 1)):
        down.append(p)
        j -= 1
    return mode - len(down), [*reversed(down), centre, *up]


def _ratio(above: Any, below: Any, bits: int) -> tuple[int, int]:
    """above/below as an integer with `bits` significant bits or more, and its binary point."""
    ratio = above / below
    shift = bits + max(0, -int(mpmath.floor(mpmath.log(ratio, 2))))
    return fixed(ratio, shift), shift


def four_kinds(rows: Sequence[tuple[Any, Any]], n: int) -> Any:
    """E[max(0, sum of n independent x)] for four values of x.

    Parameters
    ----------
    rows : four pairs (weight, x) of mpmath.mpf
        Weights > 0. For the first two kinds the sum is closed by binomial tails; the first x is at least the second.
    n : int
        Messages.

    Returns
    -------
    mpmath.mpf
        With an absolute error below the resolution of the working precision.

    Notes
    -----
    Given t messages of the first two kinds, c of the third and n - t - c of the fourth, with level L = x_b t + x_c c + x_d d,
    gap = x_a - x_b and rho the share of the first among the first two,

        E[max(0, gap Bin(t, rho) + L)] = gap t rho Pr[Bin(t-1, rho) >= k-1] + L Pr[Bin(t, rho) >= k],   k = floor(-L/gap) + 1.
    """
    (w_a, x_a), (w_b, x_b), (w_c, x_c), (w_d, x_d) = rows
    largest = (max(abs(x) for _, x in rows) + 1) * n
    extra = int(mpmath.ceil(mpmath.log(largest, 2))) + 2 * n.bit_length() + SPARE_BITS
    total = mpmath.mpf(0)
    with mpmath.workprec(mpmath.mp.prec + 2 * extra):
        bits = mpmath.mp.prec - extra
        one, rho, rest = 1 << bits, w_a / (w_a + w_b), fixed(w_b / (w_a + w_b), bits)
        gap, a_gap = fixed(x_a - x_b, bits), fixed((x_a - x_b) * rho, bits)
        across, step, base = fixed(x_b - x_d, bits), fixed(x_c - x_d, bits), fixed(x_d * n, bits)
        least, totals = binomial_row(n, w_a + w_b, w_c + w_d, bits)
        for t, chance in enumerate(totals, start=least):
            first, points = binomial_row(max(t - 1, 0), w_a, w_b, bits)
            above = list(itertools.accumulate(reversed(points)))[::-1]
            c, weights = binomial_row(n - t, w_c, w_d, bits)
            level, found = base + across * t + step * c, 0
            for weight in weights:
                k = -level // gap + 1 if gap else n + 1
                if k <= 0 or (not gap and level > 0):
                    found += weight * (a_gap * t + level)
                elif k <= t:
                    place = k - 1 - first
                    inside = 0 <= place < len(points)
                    tail = above[place] if inside else one if place < 0 else 0
                    # Pr[Bin(t) >= k] = Pr[Bin(t-1) >= k-1] - (1 - rho) Pr[Bin(t-1) = k-1].
                    both = tail - (rest * points[place] >> bits) if inside else tail
                    found += weight * (a_gap * t * tail + level * both) >> bits
                level += step
            total += mpmath.ldexp(mpmath.mpf(chance) * found, -3 * bits)
        # Weights are exact numbers, which may not add up to 1 in their last digits.
        total *= (w_a + w_b + w_c + w_d) ** n
    return total
