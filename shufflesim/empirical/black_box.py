"""A lower confidence bound on a divergence from runs alone: encode, shuffle, analyze, and try to tell two data sets apart.

For any event E of the released view, D_eps >= P(E) - e^eps Q(E). An event is chosen on one half of the runs, as a threshold on a
statistic, and its probabilities are bounded on the other half by Clopper and Pearson (Biometrika 1934): whatever chose the event,
the bound holds with the stated confidence. Source of the approach: Jagielski, Ullman, Oprea, "Auditing differentially private
machine learning", NeurIPS 2020; Ding et al., "Detecting violations of differential privacy", CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from .._checks import check_integer, check_number
from ..domains import Array
from ..protocol import Protocol
from ..shuffler import Encoded, Shuffler

# Messages whose entries are part of the view: the first ones as released, and the smallest ones; entries of each.
SHOWN, ENTRIES = 4, 16
# Sums of the analyzer that are looked at; beyond it those that differ most in the mean.
SUMS = 64
# Messages of several runs encoded at once.
BLOCK_MESSAGES = 2**20
# Thresholds of the statistic that are tried.
THRESHOLDS = 200

Statistic = Callable[[Array], Array]


@dataclass(frozen=True)
class Bound:
    """What the runs show about D_eps of one pair of data sets, the larger of both directions.

    Attributes
    ----------
    delta : float
        P(E) - e^eps Q(E) of the chosen event on the fresh half of the runs; may be negative.
    low, high : float
        Confidence interval for that event; `low` is a lower confidence bound on D_eps.
    trials : int
        Runs with each data set.
    """

    delta: float
    low: float
    high: float
    trials: int


def black_box(
    protocol: Protocol,
    first: Any,
    second: Any,
    eps: float,
    rng: np.random.Generator,
    *,
    trials: int = 10_000,
    confidence: float = 0.95,
    statistic: Statistic | None = None,
    shuffler: Shuffler | None = None,
) -> Bound:
    """Run a protocol on two data sets and bound the divergence of what is released from below.

    Parameters
    ----------
    protocol : Protocol
        Only its `encode` and `aggregate` are used.
    first, second : array_like
        Two data sets of the protocol's domain, of one length.
    eps : float
        In nats, >= 0.
    rng : numpy.random.Generator
        Source of all runs.
    trials : int
        Runs with each data set, >= 100; half of them choose the event.
    confidence : float
        Of the interval, in (0, 1).
    statistic : callable, optional
        From the sums of the analyzer, shape (runs, k), to numbers that are large where the first data set is likelier. Without
        it a classifier of scikit-learn learns one from the whole view: those sums, the first messages as released, and the
        smallest messages.
    shuffler : Shuffler, optional
        Another one than the trusted shuffler, to be looked at with the rest.

    Returns
    -------
    Bound

    Raises
    ------
    ImportError
        Without scikit-learn (extra `audit`), if there is no statistic.
    """
    trials = check_integer("trials", trials, low=100)
    eps = check_number("eps", eps, "a finite number >= 0", low=0.0)
    confidence = check_number("confidence", confidence, "in (0, 1)", low=math.nextafter(0, 1), high=math.nextafter(1, 0))
    data = [protocol.domain.validate(d) for d in (first, second)]
    if data[0].shape != data[1].shape:
        raise ValueError(f"first and second must be as long as each other, got {len(data[0])} and {len(data[1])} users")
    views = [_views(protocol, d, trials, rng, shuffler or Shuffler()) for d in data]
    half = trials // 2
    if statistic is None:
        scores = _learned([v[:half] for v, _ in views], [v for v, _ in views])
    else:
        scores = [np.asarray(statistic(sums), dtype=float) for _, sums in views]
    # Two directions, two probabilities each: a share of the error for each.
    share = (1 - confidence) / 4
    found = [
        _bound(scores[0], scores[1], half, eps, share),
        _bound(-scores[1], -scores[0], half, eps, share),
    ]
    best = max(found, key=lambda f: f[1])
    return Bound(*best, trials)


def _views(protocol: Protocol, data: Array, trials: int, rng: np.random.Generator, shuffler: Shuffler) -> tuple[Array, Array]:
    """Views of all runs as numbers, and the sums alone, first axis runs."""
    n = data.shape[0]
    per_block = max(1, int(BLOCK_MESSAGES / (n * max(protocol.messages_per_user, 1.0))))
    views, sums = [], []
    for start in range(0, trials, per_block):
        runs = min(per_block, trials - start)
        encoded = protocol.encode(np.tile(data, (runs, *(1,) * (data.ndim - 1))), rng)
        sizes = np.ones(runs * n, dtype=np.int64) if encoded.sizes is None else np.asarray(encoded.sizes)
        ends = np.cumsum(sizes.reshape(runs, n).sum(axis=1))
        for begin, end, own in zip(ends - np.diff(ends, prepend=0), ends, sizes.reshape(runs, n), strict=True):
            released = shuffler.shuffle(Encoded(encoded.messages[begin:end], own), rng)
            total = np.asarray(protocol.aggregate(released), dtype=float).ravel()
            sums.append(total)
            views.append(np.concatenate([total, [released.shape[0]], _shown(released)]))
    return np.array(views), np.array(sums)


def _shown(released: Array) -> Array:
    """Entries of the first messages as released, and of the smallest ones; NaN where there are fewer."""
    flat = released.reshape(released.shape[0], -1)[:, :ENTRIES].astype(float)
    smallest = flat[np.lexsort(flat.T[::-1])[:SHOWN]] if flat.shape[0] else flat
    shown = np.full((2, SHOWN, flat.shape[1]), -1.0)
    shown[0, : min(SHOWN, len(flat))] = flat[:SHOWN]
    shown[1, : len(smallest)] = smallest
    return shown.ravel()


def _learned(train: list[Array], views: list[Array]) -> list[Array]:
    """Log-odds of the first data set, from a classifier that saw `train` only."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise ImportError("a statistic that is learned needs scikit-learn: pip install 'shufflesim[audit]'") from None
    gap = np.abs(train[0].mean(axis=0) - train[1].mean(axis=0)) / (train[0].std(axis=0) + train[1].std(axis=0) + 1e-12)
    kept = np.sort(np.argsort(-gap, kind="stable")[:SUMS])
    x, y = np.concatenate(train)[:, kept], np.repeat([1, 0], [len(t) for t in train])
    middle, scale = x.mean(axis=0), x.std(axis=0) + 1e-12
    # Linear in the sums, as log-likelihood ratios nearly are; trees for what is not.
    linear = LogisticRegression(max_iter=500).fit((x - middle) / scale, y)
    trees = HistGradientBoostingClassifier(max_iter=60, max_depth=4, random_state=0, early_stopping=False).fit(x, y)
    return [linear.decision_function((v[:, kept] - middle) / scale) + trees.decision_function(v[:, kept]) for v in views]


def _bound(first: Array, second: Array, half: int, eps: float, share: float) -> tuple[float, float, float]:
    """The event {score > t}, t chosen on the first half by the lower bound there, judged on the second half."""
    growth = math.exp(min(eps, 700.0))
    levels = np.unique(np.quantile(np.concatenate([first[:half], second[:half]]), np.linspace(0, 1, THRESHOLDS)))
    # Above the largest score nothing is left; a level below all of them is the sure event.
    levels = np.concatenate([[-np.inf], levels])
    hits = [(s[:half, None] > levels).sum(axis=0) for s in (first, second)]
    guess = _clopper(hits[0], half, share)[0] - growth * _clopper(hits[1], half, share)[1]
    level = levels[int(np.argmax(guess))]
    fresh = len(first) - half
    p, q = (int((s[half:] > level).sum()) for s in (first, second))
    (p_low, p_high), (q_low, q_high) = _clopper(np.array(p), fresh, share), _clopper(np.array(q), fresh, share)
    delta = p / fresh - growth * q / fresh
    return delta, max(0.0, float(p_low - growth * q_high)), min(1.0, float(p_high - growth * q_low))


def _clopper(hits: Array, trials: int, share: float) -> tuple[Array, Array]:
    """Bounds on a probability, each wrong with probability at most `share`."""
    hits = np.asarray(hits, dtype=float)
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), trials - hits + 1, share), 0.0)
    high = np.where(hits < trials, special.betaincinv(hits + 1, np.maximum(trials - hits, 1), 1 - share), 1.0)
    return low, high
