r"""Monte-Carlo estimates of a divergence however small, by exponential tilting in count space.

For a table of likelihood ratios (weight w, X = g0 - e^eps g1) and m messages,

    D = (1/m) E_W[max(0, S)],    S = sum of m independent X.

Under the law tilted by theta > 0, w_theta = w e^(theta X)/M(theta), the same mean is

    D = (M(theta)^m / m) E_theta[e^(-theta S) max(0, S)],

exact for every theta. At the saddle point, m K'(theta) = 2/theta, the sums lie about where the integrand is large: its variance
is a small multiple of its squared mean, whatever D is. S depends on the counts of the rows alone, a multinomial. If m is random,
its law is tilted by M(theta)^m, each part by itself, and E[M^m] takes the place of M^m.

Source of the technique: Bucklew, "Introduction to Rare Event Simulation", Springer 2004, chapter 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._checks import TRIALS_MOST, check_integer, check_number
from ..bounds import MessageCount, Table, contour
from ..domains import Array

# Draws handled at once: times rows, integers of 8 bytes.
BLOCK_CELLS = 2**22
# Half width of the interval, relative to the estimate, from which on there is a warning.
WIDE = 0.5


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo estimate of a divergence.

    Attributes
    ----------
    delta : float
        Unbiased estimate.
    low, high : float
        Confidence interval, for any number of draws.
    confidence : float
        Its level.
    trials : int
        Number of draws.
    effective : float
        Effective sample size (sum of terms)^2 / (sum of squared terms): the number of equal terms with the same relative error.
    warning : str
        Why the interval is wide; empty if it is not.
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
        Number of draws, 100 to 10^8.
    confidence : float
        Level of the interval, in (0, 1).

    Returns
    -------
    Estimate
        `warning` says when the draws do not tell much.

    Notes
    -----
    All terms lie in [0, 1] of a known unit, so that the empirical Bernstein bound holds for every number of draws: with variance
    V of the terms and L = log(4/(1 - confidence)), the mean is off by at most sqrt(2 V L/trials) + 7 L/(3 (trials - 1)) (Maurer,
    Pontil, "Empirical Bernstein bounds and sample-variance penalization", COLT 2009, Theorem 4, used on both sides). What the
    last digits of the table may hide is added.

    Cost: trials times rows, whatever the number of messages; memory is bounded by blocks of draws.

    Examples
    --------
    >>> from shufflesim import VariationRatio
    >>> table = VariationRatio(3.0, 0.5, 3.0).published_table()
    >>> found = tilted_estimate(table, MessageCount(10**6), 0.01, np.random.default_rng(0))
    >>> found.low < 1.489e-16 < found.high, found.high / found.low < 1.05
    (True, True)
    """
    for name, value, kind in (("table", table, Table), ("count", count, MessageCount), ("rng", rng, np.random.Generator)):
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be a {kind.__name__}, got {value!r}")
    trials = check_integer("trials", trials, low=100, high=TRIALS_MOST)
    confidence = check_number("confidence", confidence, "in (0, 1)", low=math.nextafter(0, 1), high=math.nextafter(1, 0))
    eps = check_number("eps", eps, "a finite number >= 0", low=0.0)
    s = contour.saddle(table, count, eps)
    if s is None:
        return Estimate(0.0, 0.0, 0.0, confidence, trials, float(trials), "")
    total = square = 0.0
    block = max(1, BLOCK_CELLS // table.size)
    for start in range(0, trials, block):
        terms = _terms(s, count, min(block, trials - start), rng)
        total, square = total + float(terms.sum()), square + float(terms @ terms)
    mean = total / trials
    variance = max(square - total * mean, 0.0) / (trials - 1)
    log_share = math.log(4 / (1 - confidence))
    off = math.sqrt(2 * variance * log_share / trials) + 7 * log_share / (3 * (trials - 1))
    # The unit of the terms: E[M^m] / (e theta s.crowd), and that of X.
    log_unit = s.log_scale + float(count.log_pgf(np.asarray(s.log_moment))) - math.log(s.theta * s.crowd) - 1
    unit, rounding = math.exp(log_unit), s.accuracy(count.mean)
    effective = total * total / square if square > 0 else 0.0
    warning = "" if off < WIDE * mean else f"wide interval: {trials} draws are worth only {effective:.0f} equal ones"
    return Estimate(
        min(1.0, unit * mean),
        unit * max(0.0, mean - off) * max(0.0, 1 - rounding),
        # What is too small for a double is not 0.
        max(math.nextafter(0, 1), min(1.0, unit * min(1.0, mean + off) * (1 + rounding))),
        confidence,
        trials,
        effective,
        warning,
    )


def _terms(s: contour.Saddle, count: MessageCount, trials: int, rng: np.random.Generator) -> Array:
    """min(1, crowd/m) e theta S e^(-theta S) where S > 0, else 0. The number m of messages has its law tilted by M^m.

    Fewer than `crowd` messages have a share of D that is far below the rounding.
    """
    m = np.full(trials, count.fixed)
    for part in count.parts:
        sizes = np.array([0, *part.sizes])
        with np.errstate(divide="ignore"):
            logs = np.log([part.none, *part.probabilities]) + sizes * s.log_moment
        law = np.exp(logs - logs.max())
        m += rng.multinomial(part.trials, law / law.sum(), size=trials) @ sizes
    exponent = s.theta * (rng.multinomial(m, s.tilted / s.tilted.sum()) @ s.x)
    return np.where(exponent > 0, np.minimum(1.0, s.crowd / m) * exponent * np.exp(1 - np.maximum(exponent, 0.0)), 0.0)
