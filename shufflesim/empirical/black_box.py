"""A lower confidence bound on a divergence from runs alone: encode, shuffle, analyze, and try to tell two data sets apart.

For any event E of the released view, D_eps >= P(E) - e^eps Q(E). A statistic is learned on a quarter of the runs, a threshold on
it is chosen on another, and the probabilities of that event are bounded on the other half by Clopper and Pearson (Biometrika
1934): whatever chose the event, the bound holds with the stated confidence.

Source of the approach: Jagielski, Ullman, Oprea, "Auditing differentially private machine learning", NeurIPS 2020; Ding et al.,
"Detecting violations of differential privacy", CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from .._checks import EPSILON_MAX, TRIALS_MOST, check_integer, check_number
from ..domains import Array
from ..protocol import Protocol
from ..shuffler import Shuffler

# Messages whose entries are part of the view: at places as released, from the first to the last, and the smallest and largest
# ones, sorted by their first and by their last entry; entries of each.
PLACES, SHOWN, ENTRIES = 32, 4, 16
# Numbers of the view that a classifier sees; where there are more, those whose means differ most in so many first runs.
COLUMNS, PILOT = 64, 100
# Events of the same statistic that are tried: from all runs down to a few.
THRESHOLDS = 200

Statistic = Callable[[Array], Array]


@dataclass(frozen=True)
class Bound:
    """What the runs show about D_eps of one pair of data sets, the larger of both directions.

    Attributes
    ----------
    delta : float
        P(E) - e^eps Q(E) of the chosen event on the fresh half of the runs; 0 where that is negative.
    low : float
        A lower confidence bound on D_eps. There is no upper one: another event may tell more.
    trials : int
        Runs with each data set.
    """

    delta: float
    low: float
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
        Runs with each data set, 100 to 10^8; half of them choose the event.
    confidence : float
        Of the lower bound, in (0, 1).
    statistic : callable, optional
        From the sums of the analyzer, shape (runs, k), to numbers that are large where the first data set is likelier. Another
        one is learned by classifiers of scikit-learn, if that is installed, from the whole view: those sums, messages at fixed
        places of the released order, and the smallest and largest messages. The better one counts.
    shuffler : Shuffler, optional
        Another one than the trusted shuffler, to be looked at with the rest.

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        For an argument out of its range, data sets that are not neighbours, or a statistic that is no number.
    ImportError
        Without scikit-learn (extra `audit`), if there is no statistic.
    """
    for name, value, kind in (("protocol", protocol, Protocol), ("rng", rng, np.random.Generator)):
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be a {kind.__name__}, got {value!r}")
    if not (statistic is None or callable(statistic)) or not (shuffler is None or isinstance(shuffler, Shuffler)):
        raise ValueError(f"statistic must be callable and shuffler a Shuffler, got {statistic!r} and {shuffler!r}")
    trials = check_integer("trials", trials, low=100, high=TRIALS_MOST)
    eps = check_number("eps", eps, "a finite number >= 0", low=0.0)
    confidence = check_number("confidence", confidence, "in (0, 1)", low=math.nextafter(0, 1), high=math.nextafter(1, 0))
    data = [protocol.domain.validate(d) for d in (first, second)]
    if data[0].shape != data[1].shape:
        raise ValueError(f"first and second must be as long as each other, got {len(data[0])} and {len(data[1])} users")
    changed = int((data[0] != data[1]).reshape(len(data[0]), -1).any(axis=1).sum())
    if changed > 1:
        raise ValueError(f"first and second must differ in one user's value at most, got {changed}")
    views = _views(protocol, data, trials, rng, shuffler or Shuffler(), statistic)
    scores = _scores(views, trials // 4, statistic is None)
    # Either direction can be the one that is reported; each needs two probabilities.
    share = (1 - confidence) / 4
    found = [_bound(s, trials // 4, trials // 2, eps, share) for s in (scores, [(-q, -p) for p, q in scores])]
    delta, low = max(found, key=lambda f: f[::-1])
    return Bound(delta, low, trials)


def _views(
    protocol: Protocol, data: list[Array], trials: int, rng: np.random.Generator, shuffler: Shuffler, statistic: Statistic | None
) -> list[tuple[Array, Array | None]]:
    """For each data set its views as numbers, first axis runs, without columns that say little; and the statistic of all runs."""

    shapes: set[tuple[int, ...]] = set()

    def views(values: Array, runs: int, kept: Array | slice) -> tuple[Array, list[Array]]:
        shown, scores = [], []
        for _ in range(runs):
            # One run at a time: what a faulty class makes of several users may depend on all of them.
            sent = protocol.encode(values, rng)
            if sent.sizes is None and len(sent.messages) != len(values):
                raise ValueError(f"encode must give one message a user, {len(values)}, or say how many, got {len(sent.messages)}")
            released = shuffler.shuffle(sent, rng)
            sums = np.asarray(protocol.aggregate(released), dtype=float).ravel()
            shapes.add(sums.shape)
            if len(shapes) > 1:
                raise ValueError(f"aggregate must give equally many sums in every run, got {sorted(s[0] for s in shapes)}")
            shown.append(np.concatenate([sums, [released.shape[0]], _shown(released)])[kept])
            if statistic is not None:
                scores.append(_one_number(statistic(sums[None])))
        return np.array(shown), scores

    first_runs = min(PILOT, trials // 4)
    pilot = [views(values, first_runs, slice(None)) for values in data]
    first, second = (v for v, _ in pilot)
    gap = np.abs(first.mean(axis=0) - second.mean(axis=0)) / (first.std(axis=0) + second.std(axis=0) + 1e-12)
    kept = np.sort(np.argsort(-gap, kind="stable")[:COLUMNS])
    found: list[tuple[Array, Array | None]] = []
    for values, (shown, scores) in zip(data, pilot, strict=True):
        rest, more = views(values, trials - first_runs, kept)
        found.append((np.concatenate([shown[:, kept], rest]), None if statistic is None else np.concatenate(scores + more)))
    return found


def _one_number(given: Any) -> Array:
    """What a statistic says of one run."""
    rule = "statistic must give one number a run, not NaN"
    try:
        found = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{rule}, got {given!r}") from None
    if found.shape != (1,) or np.isnan(found).any():
        raise ValueError(f"{rule}, got {given!r}")
    return found


def _scores(views: list[tuple[Array, Array | None]], learn: int, needed: bool) -> list[tuple[Array, Array]]:
    """Pairs of scores of all runs with the first and the second data set: the given statistic's, and a learned one's."""
    (first, known), (second, other) = views
    scores = [] if known is None or other is None else [(known, other)]
    try:
        scores.append(_learned(first[:learn], second[:learn], first, second))
    except ImportError:
        if needed:
            raise
    return scores


def _shown(released: Array) -> Array:
    """Entries of messages at fixed places as released, and of the smallest and the largest ones; -1 where there are none."""
    flat = released.reshape(released.shape[0], math.prod(released.shape[1:]))[:, :ENTRIES].astype(float)
    if not len(flat):
        return np.full((PLACES + 4 * SHOWN) * flat.shape[1], -1.0)
    places = np.linspace(0, len(flat) - 1, min(PLACES, len(flat))).round().astype(int)
    parts = [(flat[places], PLACES)]
    for order in (np.lexsort(flat.T[::-1]), np.lexsort(flat.T)):
        parts += [(flat[order[:SHOWN]], SHOWN), (flat[order[::-1][:SHOWN]], SHOWN)]
    shown = [np.concatenate([part, np.full((size - len(part), flat.shape[1]), -1.0)]) for part, size in parts]
    return np.concatenate(shown).ravel()


def _learned(first: Array, second: Array, *views: Array) -> tuple[Array, Array]:
    """Log-odds of the first data set for each view, from classifiers that saw `first` and `second` only."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise ImportError("a statistic that is learned needs scikit-learn: pip install 'shufflesim[audit]'") from None
    x, y = np.concatenate([first, second]), np.repeat([1, 0], [len(first), len(second)])
    middle, scale = x.mean(axis=0), x.std(axis=0) + 1e-12
    # Linear in the sums, as log-likelihood ratios nearly are; trees for what is not.
    linear = LogisticRegression(max_iter=500).fit((x - middle) / scale, y)
    trees = HistGradientBoostingClassifier(max_iter=60, max_depth=4, random_state=0, early_stopping=False).fit(x, y)
    one, two = (linear.decision_function((v - middle) / scale) + trees.decision_function(v) for v in views)
    return one, two


def _bound(scores: list[tuple[Array, Array]], start: int, stop: int, eps: float, share: float) -> tuple[float, float]:
    """The event {score > t}; the score and t are chosen on runs start..stop by the lower bound there, judged on those beyond."""
    growth = math.exp(min(eps, EPSILON_MAX))
    size = stop - start
    shares = np.concatenate([np.linspace(0, 1, THRESHOLDS), np.geomspace(1 / size, 1, THRESHOLDS)])
    best, event = -math.inf, (0, 0)
    for first, second in scores:
        chosen = [np.sort(s[start:stop]) for s in (first, second)]
        # Below all of them: the sure event.
        levels = np.append(np.unique(np.quantile(np.concatenate(chosen), 1 - shares)), -np.inf)
        hits = [size - np.searchsorted(s, levels, side="right") for s in chosen]
        guess = _clopper(hits[0], size, share)[0] - growth * _clopper(hits[1], size, share)[1]
        level = levels[int(np.argmax(guess))]
        if guess.max() > best:
            best, event = float(guess.max()), (int((first[stop:] > level).sum()), int((second[stop:] > level).sum()))
    fresh = len(scores[0][0]) - stop
    (p_low, _), (_, q_high) = (_clopper(np.array(hits), fresh, share) for hits in event)
    return max(0.0, (event[0] - growth * event[1]) / fresh), max(0.0, float(p_low - growth * q_high))


def _clopper(hits: Array, trials: int, share: float) -> tuple[Array, Array]:
    """Bounds on a probability, each wrong with probability at most `share`."""
    hits = np.asarray(hits, dtype=float)
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), trials - hits + 1, share), 0.0)
    high = np.where(hits < trials, special.betaincinv(hits + 1, np.maximum(trials - hits, 1), 1 - share), 1.0)
    return low, high
