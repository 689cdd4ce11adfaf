r"""Monte-Carlo estimates of a divergence however small, by exponential tilting in count space.

For a table of likelihood ratios (weight w, X = g0 - e^eps g1) and m messages,

    D = (1/m) E_W[max(0, S)],    S = sum of m independent X.

Under the law tilted by theta > 0, w_theta = w e^(theta X)/M(theta), the same mean is

    D = (M(theta)^m / m) E_theta[e^(-theta S) max(0, S)],

exact for every theta. At the saddle point, m K'(theta) = 2/theta, the sums lie about where the integrand is large: its variance
is a small multiple of its squared mean, whatever D is. S depends on the counts of the rows alone, a multinomial.

Source of the technique: Bucklew, "Introduction to Rare Event Simulation", Springer 2004, chapter 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from .._checks import check_integer, check_number
from ..bounds import MessageCount, Table, contour
from ..domains import Array

# Draws handled at once: times rows, integers of 8 bytes.
BLOCK_CELLS = 2**22
# Effective share of the draws, and number of them with a positive sum, below which the normal interval is not to be trusted.
SHARE_MIN, POSITIVE_MIN = 0.02, 200


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo estimate of a divergence.

    Attributes
    ----------
    delta : float
        Unbiased estimate.
    low, high : float
        Confidence interval.
    confidence : float
        Its level.
    trials : int
        Number of draws.
    effective : float
        Effective sample size (sum of terms)^2 / (sum of squared terms): the number of equal terms with the same relative error.
    warning : str
        Why the interval may be wrong; empty if there is no reason.
    """

    delta: float
    low: float
    high: float
    confidence: float
    trials: int
    effective: float
    warning: str


def tilted_estimate(
    table: Table,
    count: MessageCount,
    eps: float,
    rng: np.random.Generator,
    *,
    trials: int = 100_000,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate D_eps of one direction of a table by importance sampling at the saddle point.

    Parameters
    ----------
    table : Table
        Rows (weight, g0, g1).
    count : MessageCount
        Number of messages, user 1's included; a random number is drawn from its own tilted law.
    eps : float
        In nats, >= 0.
    rng : numpy.random.Generator
        Source of the draws.
    trials : int
        Number of draws, >= 100.
    confidence : float
        Level of the interval, in (0, 1).

    Returns
    -------
    Estimate
        The interval is normal; `warning` says when too few draws count for that.

    Notes
    -----
    Cost: trials times rows, whatever the number of messages; memory is bounded by blocks of draws.

    Examples
    --------
    >>> from shufflesim import VariationRatio
    >>> table = VariationRatio(3.0, 0.5, 3.0).published_table()
    >>> found = tilted_estimate(table, MessageCount(10**6), 0.01, np.random.default_rng(0))
    >>> found.low < 1.489e-16 < found.high, found.high / found.low < 1.05
    (True, True)
    """
    trials = check_integer("trials", trials, low=100)
    confidence = check_number("confidence", confidence, "in (0, 1)", low=math.nextafter(0, 1), high=math.nextafter(1, 0))
    eps = check_number("eps", eps, "a finite number >= 0", low=0.0)
    s = contour.saddle(table, count, eps)
    if s is None:
        return Estimate(0.0, 0.0, 0.0, confidence, trials, float(trials), "")
    sizes, log_law = _sizes(count, s)
    moments = np.zeros(3)  # number of positive terms, their sum, their squared sum
    block = max(1, BLOCK_CELLS // table.size)
    for start in range(0, trials, block):
        terms = _terms(s, sizes, log_law, min(block, trials - start), rng)
        moments += [np.count_nonzero(terms), terms.sum(), (terms * terms).sum()]
    positive, total, square = (float(v) for v in moments)
    mean = total / trials
    spread = math.sqrt(max(square / trials - mean * mean, 0.0) / (trials - 1))
    z = float(special.ndtri(0.5 + confidence / 2))
    effective = total * total / square if square > 0 else 0.0
    # In units of the largest X, of theta^-1 e^-1 and of the total mass of the tilted law.
    unit = math.exp(s.log_scale + s.log_total - math.log(s.theta) - 1)
    warning = ""
    if positive < POSITIVE_MIN or effective < SHARE_MIN * trials:
        warning = f"only {positive:.0f} of {trials} draws count, worth {effective:.0f} equal ones"
    return Estimate(
        unit * mean,
        unit * max(0.0, mean - z * spread),
        min(1.0, unit * (mean + z * spread)),
        confidence,
        trials,
        effective,
        warning,
    )


def _sizes(count: MessageCount, s: contour.Saddle) -> tuple[Array, Array | None]:
    """Possible numbers of messages and their tilted probabilities, proportional to Pr[m] M^m / m."""
    if not count.is_random:
        return np.array([count.fixed]), None
    law = count.law()
    sizes = count.fixed + np.arange(law.size)
    with np.errstate(divide="ignore"):
        logs = np.log(law) + sizes * s.log_moment - np.log(sizes)
    return sizes, np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()


def _terms(s: contour.Saddle, sizes: Array, law: Array | None, trials: int, rng: np.random.Generator) -> Array:
    """e theta S e^(-theta S) where S > 0, else 0: at most 1."""
    m = sizes[0] if law is None else rng.choice(sizes, size=trials, p=law)
    counts = rng.multinomial(m, s.tilted / s.tilted.sum(), size=None if law is not None else trials)
    exponent = s.theta * (counts @ s.x)
    return np.where(exponent > 0, exponent * np.exp(1 - np.maximum(exponent, 0.0)), 0.0)
