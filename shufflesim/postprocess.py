"""Estimated counts brought into shape: by choice and by name, since each of these trades unbiasedness for something.

The unbiased estimate of a count can be negative, and the estimates need not add up to n. What helps rare values hurts sums over
many values, so that none of it is done unless asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._checks import USERS_MAX, check_integer, check_number, check_users, plain
from .domains import Array

# Largest relative excess of the likelihood equations at which the iteration for maximum likelihood stops, and its most steps.
TOLERANCE = 1e-6
STEPS = 20_000
# The least share of a count that an extrapolation may leave of it: 0 would stay 0.
SHRINK = 1e-3


def clip(estimate: Any, n: int) -> Array:
    """Each count brought into [0, n] on its own; they need not add up to n.

    Parameters
    ----------
    estimate : array_like, shape (d,)
        Estimated counts.
    n : int
        Number of users.

    Returns
    -------
    ndarray, shape (d,)

    Raises
    ------
    ValueError
        If an estimate is not a finite number, or n < 1.

    Examples
    --------
    >>> clip([-2.0, 7.0, 11.0], 10).tolist()
    [0.0, 7.0, 10.0]
    """
    return np.clip(_counts(estimate), 0.0, check_users(n))


def normalise(estimate: Any, n: int) -> Array:
    """Negative counts to 0, all others multiplied by one factor so that they add up to n; uniform if none is positive.

    Parameters
    ----------
    estimate, n
        As in `clip`.

    Examples
    --------
    >>> normalise([-2.0, 5.0, 15.0], 10).tolist()
    [0.0, 2.5, 7.5]
    """
    positive, n = np.maximum(_counts(estimate), 0.0), check_users(n)
    # Divided by the largest first: the sum of huge estimates must not overflow.
    largest = positive.max()
    if largest == 0:
        return np.full(positive.shape, n / positive.size)
    share = positive / largest
    return share * (n / share.sum())


def simplex(estimate: Any, n: int) -> Array:
    """The nearest non-negative counts that add up to n (Euclidean projection): max(0, estimate - t) for one t.

    Norm-Sub (Wang et al., "Locally differentially private frequency estimation with consistency", NDSS 2020) is this t as well,
    and the maximum-likelihood estimate for normal errors of equal variance.

    Parameters
    ----------
    estimate, n
        As in `clip`.

    Examples
    --------
    >>> simplex([-2.0, 6.0, 8.0], 10).tolist()
    [0.0, 4.0, 6.0]
    >>> simplex([-2.0, -1.0], 1).tolist()
    [0.0, 1.0]
    """
    values, n = _counts(estimate), check_users(n)
    # Shifted so that the largest is 0: nothing is lost beside a huge estimate, and t is at least -n.
    values = values - values.max()
    falling = np.sort(values)[::-1]
    shifts = (np.cumsum(falling) - n) / np.arange(1, values.size + 1)
    kept = int(np.flatnonzero(falling > shifts)[-1])
    return np.maximum(values - shifts[kept], 0.0)


def maximum_likelihood(histogram: Any, law: Any, *, tolerance: float = TOLERANCE, steps: int = STEPS) -> Array:
    """Non-negative counts that make the observed reports most likely, by expectation maximisation.

    Parameters
    ----------
    histogram : array_like, shape (outcomes,)
        Number of reports per outcome; n in all.
    law : array_like, shape (d, outcomes)
        Row x is the law of a report of a user who holds x.
    tolerance : float
        Stops as soon as no change of the counts can raise the mean log-likelihood of a report by more than this.
    steps : int
        Most steps.

    Returns
    -------
    ndarray, shape (d,)
        Adds up to n.

    Raises
    ------
    ValueError
        If the shapes do not fit, an observed outcome is impossible, or the tolerance is not met after all steps.

    Notes
    -----
    With c the counts, m = c law the expected histogram and g_x = sum_y h_y law_xy / m_y, a step is c_x <- c_x g_x; two steps are
    extrapolated where that is likelier. The log-likelihood is concave in c, and its distance to the maximum, per report, is at
    most max_x g_x - 1. Memory: the matrix.

    Examples
    --------
    >>> maximum_likelihood([70, 30], [[0.75, 0.25], [0.25, 0.75]]).round(2).tolist()
    [90.0, 10.0]
    """
    counts, matrix = _counts(histogram), np.asarray(law)
    tolerance = check_number("tolerance", tolerance, "a number in (0, 1]", low=1e-15, high=1.0)
    steps = check_integer("steps", steps, low=1)
    if matrix.ndim != 2 or matrix.shape[1] != counts.size or not matrix.size or matrix.dtype.kind not in "iuf":
        rule = "law must be a matrix of numbers with one column per entry of the histogram"
        raise ValueError(f"{rule}, got {matrix.dtype} of shape {matrix.shape} for {counts.shape}")
    if counts.max() > USERS_MAX:
        raise ValueError(f"histogram must hold at most {USERS_MAX:.0e} users, got {plain(counts.max())!r}")
    if counts.min() < 0 or counts.sum() == 0 or not np.all(np.isfinite(matrix)) or matrix.min() < 0:
        raise ValueError("histogram and law must be non-negative, the histogram not all 0, got other entries")
    seen = counts > 0
    counts, matrix = counts[seen], matrix[:, seen]
    if matrix.max(axis=0).min() == 0:
        raise ValueError("histogram must have outcomes only that some input can produce, got an impossible one")
    n = counts.sum()

    def growth(found: Array) -> Array:
        return matrix @ (counts / (found @ matrix))

    def likelihood(found: Array) -> float:
        return float(counts @ np.log(found @ matrix))

    found = np.full(len(matrix), n / len(matrix))
    for _ in range(steps):
        factor = growth(found)
        if factor.max() <= 1 + tolerance:
            return found
        once = found * factor
        twice = once * growth(once)
        # Squared extrapolation (Varadhan and Roland, Scand. J. Statist. 2008), if it is likelier than the two steps.
        step, bend = once - found, twice - 2 * once + found
        length = max(1.0, float(np.linalg.norm(step)) / max(float(np.linalg.norm(bend)), 1e-300))
        leap = np.maximum(found + 2 * length * step + length**2 * bend, SHRINK * twice)
        leap *= n / leap.sum()
        found = leap if likelihood(leap) >= likelihood(twice) else twice
    raise ValueError(f"steps must be enough to reach the tolerance {tolerance!r}, got {steps}")


def _counts(estimate: Any) -> Array:
    values = np.asarray(estimate)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf" or not np.all(np.isfinite(values)):
        raise ValueError(f"counts must be a vector of finite numbers, got {values.dtype} of shape {values.shape}")
    return values.astype(float)


METHODS = {"clip": clip, "normalise": normalise, "simplex": simplex, "norm-sub": simplex}
