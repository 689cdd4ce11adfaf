"""Sums that are hidden by negative binomial noise: exact divergence between the noise and its shift by one.

NB(r, p) has the law Pr[k] = Gamma(k + r)/(Gamma(r) k!) (1-p)^r p^k on k = 0, 1, ..., with mean rp/(1-p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from .directions import Directions

Array = np.ndarray[Any, np.dtype[Any]]

_MACHINE = float(np.finfo(float).eps)
# Relative error of `pmf` in units of eps_machine times (1 + the size of its exponent + r): measured below 5.
PMF_ULPS = 32.0
# Relative error of the incomplete beta function here, and what each unit of r adds: measured below a tenth of this.
TAIL_ACCURACY = (4e-13, 4e-15)
# Terms up to which a sum is taken term by term.
FEW = 1000


def pmf(k: Any, r: float, p: float) -> tuple[Array, Array]:
    """Probabilities of k >= 0 under NB(r, p) and bounds on their relative errors.

    NB(r, p) at k is r/(r + k) times the binomial probability of r successes in r + k trials, which is written with deviances as
    in Loader, "Fast and accurate computation of binomial probabilities", 2000: nothing large cancels.
    """
    k = np.asarray(k, dtype=float)
    q = 1 - p
    safe = np.where(k > 0, k, 1.0)
    n = safe + r
    gap = r * p - safe * q
    exponent = _deviance(r, n * q, gap) + _deviance(safe, n * p, -gap)
    series = _stirling(n) - _stirling(np.asarray(float(r))) - _stirling(safe)
    log_pmf = np.log(r / n) + 0.5 * np.log(n / (2 * math.pi * r * safe)) + series - exponent
    log_pmf = np.where(k > 0, log_pmf, r * math.log1p(-p))
    return np.exp(log_pmf), PMF_ULPS * _MACHINE * (1 + np.abs(log_pmf) + exponent + r)


def _deviance(x: Any, mean: Any, gap: Any) -> Array:
    """x log(x/mean) + mean - x, where gap = x - mean is known accurately."""
    x, mean, gap = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (x, mean, gap)))
    v = gap / (x + mean)
    near = np.abs(v) < 0.1
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        far = x * (np.log(x) - np.log(mean)) - gap
    square = np.where(near, v, 0.0) ** 2
    tail = sum(square**j / (2 * j + 1) for j in range(1, 9))
    return np.where(near, gap * v + 2 * x * v * tail, far)


def _stirling(x: Array) -> Array:
    """log Gamma(x + 1) - ((x + 1/2) log x - x + log(2 pi)/2)."""
    large = np.maximum(x, 15.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * large**2)) / large**2) / large**2) / large**2) / large
    small = np.minimum(x, 15.0)
    direct = special.gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * math.log(2 * math.pi)
    return np.where(x >= 15, series, direct)


@dataclass(frozen=True)
class NoisyCount(Directions):
    """P = NB(r, p) against Q = NB(r, p) + 1.

    Parameters
    ----------
    r : float
        Shape, > 0.
    p : float
        In (0, 1).

    Notes
    -----
    P/Q at k >= 1 is p(1 + (r-1)/k), and infinite at k = 0. It falls from pr to p if r >= 1 and rises from pr to p otherwise, so
    that each divergence is a sum over an interval, written with the distribution function F and one probability, such as

        D_eps(P||Q) = Pr[t] - (e^eps - 1) F(t - 1),   t the last k with P > e^eps Q.
    """

    r: float
    p: float

    @cached_property
    def _log_p(self) -> float:
        return math.log1p(-(1 - self.p)) if self.p > 0.5 else math.log(self.p)

    @property
    def ceiling(self) -> float:
        """The largest of `|log(pr)|` and `|log p|`, a little more."""
        return (abs(math.log(self.r)) + abs(self._log_p)) * (1 + 1e-14) + 1e-300

    def limits(self) -> tuple[float, float]:
        """(1-p)^r: no noise."""
        return self._at(0)

    def _at(self, k: float) -> tuple[float, float]:
        value, error = pmf(k, self.r, self.p)
        return max(0.0, float(value * (1 - error))), float(value * (1 + error)) + 5e-324

    def _below(self, k: float) -> float:
        """Pr[noise <= k]."""
        return 0.0 if k < 0 else float(special.betainc(self.r, k + 1.0, 1 - self.p))

    def _difference(self, one: tuple[float, float], growth: float, tail: float) -> tuple[float, float]:
        """one - growth * tail, where the tail is known to `TAIL_ACCURACY`."""
        taken = growth * tail
        error = taken * (TAIL_ACCURACY[0] + TAIL_ACCURACY[1] * self.r) + 4 * _MACHINE * (one[1] + taken)
        return max(0.0, one[0] - taken - error), max(0.0, one[1] - taken + error)

    def forth(self, eps: float) -> tuple[float, float]:
        """P||Q: the noise is small."""
        growth = math.expm1(eps)
        t = max(0, math.ceil(self.p * (self.r - 1) / (growth + (1 - self.p))) - 1)
        return self._difference(self._at(t), growth, self._below(t - 1))

    def back(self, eps: float) -> tuple[float, float]:
        """Q||P: the noise is large, or below a limit if r < 1."""
        growth, room = math.expm1(eps), -math.expm1(eps + self._log_p)
        if room > 0:
            # k (1 - p e^eps) > p e^eps (r - 1).
            t = max(1, math.floor((1 - room) * (self.r - 1) / room) + 1)
            return self._difference(self._at(t - 1), growth, float(special.betainc(float(t), self.r, self.p)))
        if self.r >= 1:
            return 0.0, 0.0
        limit = (1 - room) * (1 - self.r) / -room if room < 0 else math.inf
        last = math.ceil(limit) - 1 if limit < math.inf else math.inf
        if last <= FEW:
            value, error = pmf(np.arange(max(0, last) + 1), self.r, self.p)
            terms = value[:-1] - (1 + growth) * value[1:]
            slack = float(((value * error)[:-1] + (1 + growth) * (value * error)[1:]).sum()) + FEW * _MACHINE * float(value.sum())
            return max(0.0, float(terms.sum()) - slack), max(0.0, float(terms.sum()) + slack)
        # F(t-1) - e^eps (F(t) - Pr[0]) over 1..t.
        first = self._at(0)
        final = self._at(last) if last < math.inf else (0.0, 0.0)
        gain = (1 + growth) * (first[0] - final[1]), (1 + growth) * (first[1] - final[0])
        return self._difference(gain, growth, self._below(last - 1) if last < math.inf else 1.0)
