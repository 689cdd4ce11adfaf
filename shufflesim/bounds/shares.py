r"""How far the shuffled additive shares of n users are from what their sum alone shows.

Each user splits a number into m shares, uniform on Z_q but for their sum. Source of the method: Balle, Bell, Gascon, Nissim,
"Private summation in the multi-message shuffle model", CCS 2020. With a simulator that sees the sum only and runs the protocol
on uniformly random inputs with that sum, the total variation distance is, for all inputs, at most

    tau = 1/2 sqrt(E[q^C]/q - 1),   C = number of orbits of k = m - 1 independent uniform permutations of the n users.

Proof. Let the shares of each index be shuffled separately, which shows more, and show the first share of everybody: the other k
shares are those of uniformly random inputs. By Cauchy-Schwarz the mean distance is at most 1/2 sqrt(q^(nk-1) Pr[two views
collide] - 1). Two views collide if the second is made of the first by k permutations; the sums of the users agree on a subgroup
of index q^(n-C), so that the probability is q^(-n(k-1)) E[q^(C-n)].
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import cache

_MACHINE = sys.float_info.epsilon
# Users up to which E[q^C] is a quotient of integers, and the users times permutations up to which these stay short.
EXACT_USERS = 60
EXACT_SIZE = 2_000
# Up to here the integers are always used: the bound for large n has too little room.
FEW_USERS = 8
# Terms of a sum that are added one by one; the largest number of users outside the largest orbit that is treated accurately.
TERMS = 64
OUTSIDE_MAX = 2_000
# Exponents c of the Chernoff parameter e^(c(k-1)) that are tried; above 1 - log 2.
CHERNOFF = tuple(0.32 + 0.03 * step for step in range(22))


def log_distance(n: int, shares: int, modulus: int) -> tuple[float, float]:
    """Enclosure of log tau.

    Parameters
    ----------
    n : int
        Users who split honestly; >= 1. The sum of a single user shows all there is: tau = 0.
    shares : int
        m >= 3.
    modulus : int
        q >= 2.
    """
    if n == 1:
        return -math.inf, -math.inf
    low, high = log_excess(n, shares - 1, modulus)
    return 0.5 * low - math.log(2) - _MACHINE, 0.5 * high - math.log(2) + _MACHINE


@cache
def log_excess(n: int, k: int, q: int) -> tuple[float, float]:
    """Enclosure of log(E[q^C]/q - 1) for n >= 2."""
    if n <= FEW_USERS or (n <= EXACT_USERS and n * k <= EXACT_SIZE):
        value = exact_excess(n, k, q)
        above, below = math.log(value.numerator), math.log(value.denominator)
        margin = 4 * _MACHINE * (1 + above + below)
        return above - below - margin, above - below + margin
    return bounded_excess(n, k, q)


def exact_excess(n: int, k: int, q: int) -> Fraction:
    """E[q^C]/q - 1 = [z^n] A(z)^q n!/(n!^k q) - 1, A(z) = sum_j j!^(k-1) z^j, by the recursion for powers of a series."""
    a = [math.factorial(j) ** (k - 1) for j in range(n + 1)]
    b = [1]
    for i in range(1, n + 1):
        b.append(sum((j * (q + 1) - i) * a[j] * b[i - j] for j in range(1, i + 1)) // i)
    return Fraction(b[n], a[n] * q) - 1


def bounded_excess(n: int, k: int, q: int) -> tuple[float, float]:
    """Enclosure of the logarithm for any n > 8.

    Notes
    -----
    q^C counts the colourings of the users with q colours that no permutation changes. A colouring with parts of sizes j_1..j_q
    is one of them with probability 1/multinomial(n; j)^k, and there are multinomial(n; j) of these, so that with e = k - 1

        E[q^C] = sum over j_1 + ... + j_q = n of multinomial(n; j)^-e.

    The q terms of one colour are the 1 in E[q^C]/q - 1. If one part has n - i > n/2 users, the others are coloured with q - 1
    colours: term_i = (n-i)!^e/n!^e [z^i] A(z)^(q-1).

    1. i = 1: (q-1) n^-e; this alone is the lower end.
    2. 2 <= i <= I: (n-i)!/n! <= (n-I+1)^-i =: y^(i/e), hence the sum is at most A_I(y)^(q-1) - 1 - (q-1) y, where A_I is A up
       to z^I.
    3. I < i < n/2: the same with y = (n/2)^-e and Chernoff's t > 1: at most t^-(I+1) A_(n/2)(ty)^(q-1).
    4. No part above n/2: n!^-e [z^n] A_(n/2)(z)^q <= n!^-e (ty)^-n A_(n/2)(ty)^q, where n! >= (n/e)^n.

    With t = e^(ce), c > 1 - log 2, the last two fall exponentially in I and in n. The terms of A_I(y) are log-convex: those in
    the middle are at most the larger of the two at the ends.
    """
    e, rest = k - 1, math.log(q - 1)
    lead = rest - e * math.log(n)
    outside = min((n - 1) // 2, max(24, min(OUTSIDE_MAX, math.isqrt(n))))
    first, more = _series(e, math.log(n - outside + 1), outside)
    parts = [lead, rest + more, _second_order(rest + _add(first, more))]
    far = []
    for c in CHERNOFF:
        series = _add(*_series(e, math.log(n / 2) - c, n // 2))
        middle = _exp(rest + series) - c * e * (outside + 1)
        none = _exp(math.log(q) + series) - math.log(q) - e * n * (c - 1 + math.log(2))
        far.append(_add(middle, none))
    high = _add(*parts, min(far))
    margin = 1e-14 * (100 + e * math.log(n))
    return lead - margin, high + margin


def _series(e: int, log_unit: float, last: int) -> tuple[float, float]:
    """Of sum_{j=1..last} (j! exp(-j log_unit))^e: log of the first term, and of an upper bound on all others."""

    def term(j: int) -> float:
        return e * (math.lgamma(j + 1) - j * log_unit)

    terms = [term(j) for j in range(2, min(last, TERMS) + 1)]
    if last > TERMS:
        terms.append(math.log(last - TERMS) + max(term(TERMS + 1), term(last)))
    return term(1), _add(*terms)


def _add(*logs: float) -> float:
    """log of a sum."""
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs)) if abs(top) < math.inf else top


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _second_order(log_x: float) -> float:
    """log of an upper bound on e^x - 1 - x."""
    if log_x < math.log(1e-3):
        return 2 * log_x - math.log(2) + math.exp(log_x)
    x = _exp(log_x)
    return math.log(math.expm1(x) - x) if x < 700 else x
