"""Brackets contain the truth: 50-digit sums up to n = 5000, integrals at 40 digits up to n = 1e12.

The sums are stored (tests/data/make_engine_cases.py says how to regenerate them). The integrals are taken here by the trapezoid
rule in multiple precision: on one period of a lattice where the table has two rows, which is exact, and on the central peak
otherwise, where the peaks that are left out are bounded.
"""

import math

import mpmath
import numpy as np
import pytest

import shufflesim as ss
from shufflesim.bounds import MessageCount, Table, contour
from shufflesim.bounds.evaluate import Divergence

from .oracles import load

CASES = load("engine_cases")
KINDS = ("symmetric", "asymmetric", "three-outcome", "inf", "homogeneous")
# Standard deviations up to which the central peak is integrated: e^-112 is left. And log of the trapezoid rule's error.
REACH, RULE = 15, 80


@pytest.mark.parametrize("kind", KINDS)
def test_delta_contains_fifty_digits(kind):
    cases = [c for c in CASES if c["kind"] == kind]
    assert len(cases) >= 300
    wide = 0
    for c in cases:
        table = Table(*(np.array([float(v) for v in c[name]]) for name in ("weight", "g0", "g1")))
        low, high, method = Divergence(table, MessageCount(c["n"])).log_enclosure(float(c["eps"]))
        with mpmath.workdps(50):
            truth = mpmath.log(mpmath.mpf(c["delta"]))
            assert low <= truth <= high, (c, method)
        # Near the local eps and in far tails, delta hangs on the last digits of the table; else it is as narrow as asked.
        reachable = contour.saddle(table, MessageCount(c["n"]), float(c["eps"])).accuracy(c["n"])
        wide += high - low > 4 * (1e-9 + reachable)
    # The rest: two parts of a sum that cancel, where a far tail begins just above S = 0.
    assert wide <= 0.03 * len(cases)


@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_brackets_the_root(kind):
    """At the exact delta of an eps, the bracket contains that eps."""
    for c in [c for c in CASES if c["kind"] == kind and float(c["eps"]) > 0][::10]:
        table = Table(*(np.array([float(v) for v in c[name]]) for name in ("weight", "g0", "g1")))
        lower, upper, method = Divergence(table, MessageCount(c["n"])).epsilon(math.log(float(c["delta"])))
        # The double nearest to delta moves the root by about this much.
        shift = 4e-16 * float(c["eps"]) + 1e-14
        assert lower - shift <= float(c["eps"]) <= upper + shift, (c, method)


def _central(table, n, eps, theta, kernel, exponent):
    """(1/pi) sum over the right half of the trapezoid rule of Re[E e^{z x}^n e^{-exponent z} kernel(z)]."""
    x, w = table
    total = sum(w)
    spread = mpmath.sqrt(n * (sum(a * b * b for a, b in zip(w, x, strict=True)) / total))
    step = 2 * mpmath.pi * theta / RULE
    value = mpmath.mpf(0)
    for j in range(int(REACH / (spread * step)) + 1):
        z = mpmath.mpc(theta, j * step)
        moment = sum(a * mpmath.exp(z * b) for a, b in zip(w, x, strict=True)) / total
        value += (mpmath.exp(n * mpmath.log(moment) - z * exponent) * kernel(z)).real * (0.5 if j == 0 else 1)
    return value * step / mpmath.pi


def _saddle(w, x, n):
    """theta > 0 with n K'(theta) = 2 / theta, by bisection in doubles on the logarithm; any theta is exact."""
    w, x = np.array([float(v) for v in w]), np.array([float(v) for v in x])
    x = x / np.abs(x).max()
    low, high = -60.0, 5.0
    for _ in range(100):
        t = math.exp(0.5 * (low + high))
        tilted = w * np.exp(t * (x - x.max()))
        low, high = (low, 0.5 * (low + high)) if n * (tilted @ x) / tilted.sum() * t > 2 else (0.5 * (low + high), high)
    return math.exp(low)


def _rows(table, eps):
    growth = mpmath.exp(mpmath.mpf(eps))
    w = [mpmath.mpf(float(v)) for v in table.weight]
    return w, [mpmath.mpf(float(a)) - growth * mpmath.mpf(float(b)) for a, b in zip(table.g0, table.g1, strict=True)]


def _two_rows(table, n, eps):
    """E max(0, S)/n for S = gap (a - tau), a ~ Bin(n, rho): all lattice peaks at once,
    sum over j >= 0 of (j + g) e^{-z j} = g/(1 - e^-z) + e^-z/(1 - e^-z)^2 with g = k - tau, k = floor(tau) + 1."""
    w, x = _rows(table, eps)
    if x[0] < x[1]:
        w, x = w[::-1], x[::-1]
    gap, tau = x[0] - x[1], -n * x[1] / (x[0] - x[1])
    k = mpmath.floor(tau) + 1
    centred = (w, [1 - tau / n, -tau / n])
    theta = mpmath.mpf(_saddle(w, centred[1], n)) / max(abs(v) for v in centred[1])

    def kernel(z):
        q = mpmath.exp(-z)
        return (k - tau) / (1 - q) + q / (1 - q) ** 2

    return gap * _central((centred[1], w), n, eps, theta, kernel, k - tau) / n


@pytest.mark.parametrize("n", [10**4, 10**6, 10**8, 10**10, 10**12])
def test_two_rows_at_any_n(n):
    rng = np.random.default_rng([31, int(math.log10(n))])
    for _ in range(6):
        other = rng.uniform(0.1, 0.9)
        first = min(0.95, other * math.exp(rng.uniform(0.1, 1.5)))
        second = max(0.05, other * math.exp(-rng.uniform(0.1, 1.5)))
        weight = np.array([other, 1 - other])
        table = Table(weight, np.array([first, 1 - first]) / weight, np.array([second, 1 - second]) / weight)
        divergence = Divergence(table, MessageCount(n))
        eps = divergence.epsilon(-rng.uniform(2, 30) * math.log(10), 1e-3)[1]
        low, high, method = divergence.log_enclosure(eps)
        with mpmath.workdps(40):
            truth = mpmath.log(_two_rows(table, n, eps))
            assert low <= truth <= high, (n, eps, method)


@pytest.mark.parametrize("n", [10**10, 10**11, 10**12])
def test_more_rows_at_large_n(n):
    """3 and 4 rows; the peaks beyond the central one are below (theta Delta)^2 / 6 of D in all, Delta the largest distance."""
    rng = np.random.default_rng([32, int(math.log10(n))])
    for k in range(11):
        e = math.exp(rng.uniform(0.2, 2.5))
        x = ss.VariationRatio(e, (e - 1) / (e + 1) * (1.0 if k % 4 == 0 else rng.uniform(0.05, 1)), e)
        table = x.published_table() if k % 2 else x.three_outcome_table()
        divergence = Divergence(table, MessageCount(n))
        eps = divergence.epsilon(-rng.uniform(3, 30) * math.log(10), 1e-3)[1]
        if eps == 0:
            continue
        low, high, method = divergence.log_enclosure(eps)
        with mpmath.workdps(40):
            w, rows = _rows(table, eps)
            theta = mpmath.mpf(_saddle(w, rows, n)) / max(abs(v) for v in rows)
            truth = mpmath.log(_central((rows, w), n, eps, theta, lambda z: 1 / z**2, 0) / n)
            left = (theta * (max(rows) - min(rows))) ** 2 / 6
            assert left < 1e-7
            assert low - left <= truth <= high + left, (n, eps, method)
