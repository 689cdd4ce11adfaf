r"""G = E[M^m / m] for a random number m of messages, and which numbers of messages matter in it.

1/m = integral over t > 0 of e^{-m t}, hence G = integral of E[(e^{-t} M)^m], an integral of the count's generating function. It
is taken by Gauss-Legendre rules on panels [0, l], [l, 2l], [2l, 4l], ...

Error: e^{-m t} on a panel [a, a + b] is integrated by k nodes to within b (m b)^{2k} e^{-m a} (k!)^4 / ((2k+1) (2k)!^3). With
k = 16, m b <= 12 on the first panel and b = a on the others (largest at m a = 32), that is below 1e-18 of 1/m for each m, and
so is the error of G(z) relative to G(theta) for all z on the line Re z = theta. Beyond the last panel there is e^{-45} of 1/m
for the counts in the range below. The counts outside it have e^{-42} of G(theta); all even derivatives of e^{-m t} are positive,
so that the rule lies between 0 and 1/m for them too.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from .count import Array, MessageCount

# log of the share of G(theta) that the counts outside the range may have: e^-42 = 6e-19.
NEGLIGIBLE = 42.0
NODES = 16
# Bounds for the exponents lam of Chernoff's inequality: e^lam stays finite.
LAM_MAX, VARIANCE_MIN = 699.0, 1e-300
# First panel in units of 1/(largest count in the range); end of the last one in units of 1/(smallest).
PANEL, END = 12.0, 45.0
# Allowance for the rule relative to G(theta): the errors above (1e-18) and the rounding of a sum of a few hundred terms;
# measured: see tests/test_engine_counts.py.
RULE_ACCURACY = 1e-13


def counts_that_matter(count: MessageCount, log_m: float) -> tuple[float, float]:
    """(low, high): counts outside have at most e^-NEGLIGIBLE each side of G = E[M^m / m] for M = e^log_m.

    Chernoff: E[M^m / m; m < c] <= e^{lam c} E[(M e^-lam)^m] / fixed for lam > 0, and E[M^m / m] >= E[M^m] / largest.
    """
    if not count.is_random:
        return float(count.fixed), float(count.fixed)
    need = NEGLIGIBLE + math.log(count.largest / count.fixed)
    # The best lam for a normal law is sqrt(2 need) / deviation; any is allowed. A count that hardly varies has a variance near 0.
    lam = np.minimum(math.sqrt(2 * need / max(count.variance, VARIANCE_MIN)) * np.exp2(np.arange(-6.0, 10.0)), LAM_MAX)
    here = float(count.log_pgf(np.asarray(log_m)))
    with np.errstate(over="ignore", invalid="ignore"):
        low = (here - count.log_pgf(log_m - lam) - need) / lam
        high = (count.log_pgf(log_m + np.minimum(lam, 300.0 / count.step)) - here + need) / np.minimum(lam, 300.0 / count.step)
    return (
        max(float(count.fixed), math.floor(float(np.nanmax(low, initial=0.0)))),
        min(float(count.largest), math.ceil(float(np.nanmin(high, initial=math.inf)))),
    )


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return 0.5 * (nodes + 1), 0.5 * weights


def rule(low: float, high: float) -> tuple[Array, Array]:
    """Nodes t and weights for the counts low..high."""
    edges = [0.0, PANEL / high]
    while edges[-1] < END / low:
        edges.append(2 * edges[-1])
    start, length = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    nodes, weights = _legendre()
    return (start + length * nodes).ravel(), (length * weights).ravel()
