"""What a law given as a matrix declares: the true (p, beta, q) and the smallest q_star that its decomposition allows."""

from __future__ import annotations

import itertools
import math

import numpy as np

from .._checks import EPSILON_MAX
from .ratio import VariationRatio
from .table import Array

# Below this, exp gives a denormal number or 0.
LOG_TINY = -745.0
# Rounding of a sum of absolute differences, per outcome; and how close to the largest beta counts as the largest.
BETA_SLACK = 4e-16
SNAP = 1e-12
# Neutral mass of an outcome, relative to its larger probability, that is left of two numbers that cancel.
CANCELLED = 1e-9
# Rounding of a ratio of such differences: relative to what is left of 1 and p, beside what `CANCELLED` lets pass.
NEUTRAL_SLACK, NEUTRAL_ROUNDING = 1e-9, 4e-15


def log_ratio(log_law: Array) -> float:
    """Largest log-ratio of two inputs' probabilities of one outcome; inf if an outcome is possible for some inputs only.

    Parameters
    ----------
    log_law : ndarray, shape (inputs, outcomes)
        Logs of the probabilities.
    """
    possible = log_law[:, log_law.max(axis=0) > -np.inf]
    return float((possible.max(axis=0) - possible.min(axis=0)).max())


def total_variations(law: Array) -> dict[tuple[int, int], float]:
    """Total variation of every pair of inputs of a law, shape (inputs, outcomes)."""
    found = {}
    for i in range(len(law)):
        distances = 0.5 * np.abs(law[i + 1 :] - law[i]).sum(axis=1)
        found.update({(i, i + 1 + k): float(distance) for k, distance in enumerate(distances)})
    return found


def neutral_ratio(law: Array, p: float, q: float) -> float:
    """Smallest q_star that is right for every pair of inputs of a law with ratios at most p, clones at rate 1/q; at most q.

    Notes
    -----
    For a pair with laws R0, R1 the parts that tell the inputs apart are (R0 - R1)_+/beta and (R1 - R0)_+/beta, and the rest,
    omega Q*, has mass (p min - max)/(p - 1) on each outcome (min and max of R0, R1). Every input's law holds a clone of these
    with weight p |R0 - R1|/((p - 1) q), and therefore one of the latter with weight 1/q_star if q_star is at least

        omega Q*(y) / (min_x R_x(y) - |R0(y) - R1(y)| / ((1 - 1/p) q))    for all outcomes y.

    A larger beta than the pair's own is right as well: for e^eps in [1, p] its outcomes are a mean-preserving spread.
    """
    floor, worst = law.min(axis=0), 0.0
    for first, second in itertools.combinations(law, 2):
        small, large = np.minimum(first, second), np.maximum(first, second)
        neutral = (small - large / p) / (1 - 1 / p)
        clones = (large - small) / ((1 - 1 / p) * q)
        room = floor - clones
        counted = neutral > 0
        certain = counted & (neutral > CANCELLED * large) & (room > CANCELLED * floor)
        if np.any(counted & ~certain & (neutral > SNAP * large)):
            return q
        worst = max(worst, float((neutral[certain] / room[certain]).max(initial=0.0)))
    slack = NEUTRAL_SLACK + NEUTRAL_ROUNDING / (1 - 1 / p)
    return min(q, worst * (1 + slack)) if worst > 0 else q


def declaration_of(law: Array) -> VariationRatio:
    """The declaration of a law given as a matrix, rounded to the safe side.

    Parameters
    ----------
    law : ndarray, shape (inputs, outcomes)
        Rows sum to 1.

    Raises
    ------
    ValueError
        If an outcome is possible for some inputs only.

    Examples
    --------
    >>> declaration_of(np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]))
    VariationRatio(p=3, beta=0.4, q=3, q_star=1)
    """
    possible = law[:, law.max(axis=0) > 0]
    if log_ratio(np.log(np.maximum(possible, np.finfo(float).smallest_subnormal))) > EPSILON_MAX or possible.min() <= 0:
        raise ValueError(
            f"channel must not have an outcome that only some inputs produce, got one: eps is infinite (or > {EPSILON_MAX:g})"
        )
    p = math.nextafter(float((possible.max(axis=0) / possible.min(axis=0)).max()) * (1 + 4e-16), math.inf)
    top = (p - 1) / (p + 1)
    beta = max(total_variations(law).values()) + BETA_SLACK * law.shape[1]
    beta = top if beta >= top * (1 - SNAP) else beta
    try:
        return VariationRatio(p, beta, p, q_star=neutral_ratio(law, p, p))
    except ValueError:
        return VariationRatio(p, beta, p)
