"""Sequential composition: several rounds of shuffling that the same user takes part in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._checks import check_delta, check_integer, check_number, plain
from .api import Bounded, claims_of
from .api import delta as delta_at
from .api import epsilon as epsilon_at
from .bracket import Bracket
from .crowd import Crowd
from .profile import DEVIATIONS, Pair, Sampler, knots, sound_claims

# Knots per deviation of a round's loss. Chords of that step raise the variance of the loss by 1 / (6 FINENESS^2).
FINENESS = 12
# Relative slack that is asked of each value of a curve.
CURVE_RTOL = 1e-4
# Part of delta that may go to losses beyond the last knots of all rounds.
TAIL_SHARE = 1e-3
# Below this, transforms have no digits left; only the sum of the rounds' own eps is then reported.
DELTA_MIN = 1e-13
# Cells of a composed distribution, about.
CELLS = 2**20
# Transforms of more rounds take too much memory, and too few digits are left.
TIMES_MAX = 10**6
# What rounding down may shift the composed loss by, in deviations.
SHIFT = 0.005
# Probability that dp-accounting cuts off per kind of round.
TRUNCATION = 1e-15
# Rounding of transforms and sums, in units in the last place per round: 4 are allowed. Against transforms of tilted losses, which
# keep the digits of small probabilities, 0.5 was the most seen (2 to 20,000 rounds, deltas from 1e-3 to 1e-11).
TRANSFORM_ULPS = 4.0


@dataclass(frozen=True)
class Round:
    """One protocol run by n users, `times` times with fresh randomness.

    Parameters
    ----------
    x : VariationRatio, Randomizer or Protocol
        What is run.
    n : int
        Number of users, >= 1.
    times : int
        Number of repetitions, from 1 to `TIMES_MAX`, a million.
    n_honest, dropout, sampling
        Who takes part in each repetition, drawn afresh; see `delta`.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> from shufflesim import VariationRatio
    >>> Round(VariationRatio(p=3, beta=0.5, q=3), n=1000, times=10)
    Round(x=VariationRatio(p=3, beta=0.5, q=3), n=1000, times=10, n_honest=None, dropout=0.0, sampling=1.0)
    """

    x: Bounded
    n: int
    times: int = 1
    n_honest: int | None = None
    dropout: float = 0.0
    sampling: float = 1.0

    def __post_init__(self) -> None:
        claims_of(self.x, self.crowd)
        object.__setattr__(self, "times", check_integer("times", self.times, low=1, high=TIMES_MAX))

    @property
    def crowd(self) -> Crowd:
        """Who takes part."""
        return Crowd.of(self.n, self.n_honest, self.dropout, self.sampling)

    @property
    def _arguments(self) -> dict[str, Any]:
        return {"n_honest": self.n_honest, "dropout": self.dropout, "sampling": self.sampling}

    def epsilon(self, delta: float, bound: str = "sound") -> Bracket:
        """Central eps of one repetition."""
        return epsilon_at(self.x, self.n, delta, bound=bound, **self._arguments)

    def delta(self, eps: float) -> Bracket:
        """Delta of one repetition."""
        return delta_at(self.x, self.n, eps, **self._arguments)


def compose(rounds: Round | Iterable[Round], *, delta: float | None = None, eps: float | None = None) -> Bracket:
    """Sound bound on several rounds together: eps at given delta, or delta at given eps.

    Parameters
    ----------
    rounds : Round or sequence of Round
        What is run, one after another; a later round may be chosen in view of the earlier outputs as long as it keeps its claim.
    delta : float, optional
        Probability, in (0, 1); the result is then eps.
    eps : float, optional
        In nats, finite, >= 0; the result is then delta.

    Returns
    -------
    Bracket
        An upper bound. `upper` holds for the protocols; `lower` is at most what the exact composition of the bounds' own pairs
        gives, so that `slack` is what discretisation costs. inf where no eps reaches this delta.

    Raises
    ------
    ValueError
        Unless exactly one of delta and eps is given, in its range, and rounds are one or more Round.
    ImportError
        Without the extra `composition`, if there is more than one round.

    Notes
    -----
    Each round is bounded by its sound claim of smallest eps. That claim's curve, the larger of both directions, is the curve of
    one symmetric pair (`shufflesim/bounds/profile.py`), which dominates the round in either direction; the composition of these
    pairs dominates the composition of the rounds, adaptive or not (Zhu, Dong, Wang, AISTATS 2022). The upper end composes pairs
    that lie above the curves, the lower end pairs that lie below, with losses rounded down to a grid. The privacy loss
    distributions are composed by the dp-accounting package; an allowance for the rounding of its transforms is in both ends. For
    a delta below that allowance, about 1e-15 times the number of rounds, the sum of the rounds' eps at delta / rounds is
    returned, as it is wherever it is smaller.

    Cost: about a hundred values of each round's curve, 0.1 to 5 s, whatever n is; transforms of a few million numbers. `slack` is
    below 1% up to 1,000 rounds where something is amplified; from 100,000 on the lower end is weak, since rounding down adds up.

    Examples
    --------
    >>> from shufflesim import VariationRatio, epsilon
    >>> x = VariationRatio(p=3, beta=0.5, q=3)
    >>> hundred = compose(Round(x, n=10**6, times=100), delta=1e-6)
    >>> round(float(hundred) / float(epsilon(x, 10**6, 1e-6)), 1)
    12.3
    >>> hundred.slack < 0.01 * hundred.upper
    True
    """
    parts = _checked(rounds)
    if (delta is None) == (eps is None):
        raise ValueError(f"exactly one of delta and eps must be given, got delta={plain(delta)!r}, eps={plain(eps)!r}")
    total = sum(r.times for r in parts)
    if delta is not None:
        delta = check_delta(delta)
        if total == 1:
            return parts[0].epsilon(delta)
        return _epsilon(parts, total, delta)
    eps = check_number("eps", eps, "a finite number >= 0", low=0.0)
    if total == 1:
        return parts[0].delta(eps)
    return DeltaCurve(parts).at(eps)


def _checked(rounds: Any) -> list[Round]:
    if isinstance(rounds, Round):
        return [rounds]
    parts = list(rounds) if isinstance(rounds, Iterable) else [rounds]
    if not parts:
        raise ValueError(f"rounds must be one or more Round, got {rounds!r}")
    for part in parts:
        if not isinstance(part, Round):
            raise ValueError(f"rounds must be one or more Round, got {part!r}")
    return parts


def _epsilon(rounds: list[Round], total: int, delta: float) -> Bracket:
    share = delta / total  # may be too small for a float
    singles = [r.epsilon(share).upper if share > 0 else r.x.local_epsilon for r in rounds]
    basic = math.fsum(r.times * e for r, e in zip(rounds, singles, strict=True)) * (1 + 4e-16)
    if basic == 0:
        return Bracket(0.0, 0.0, "upper", "sum of the rounds")
    above, below, method = _composed([_part(r, max(delta, DELTA_MIN) / total) for r in rounds])
    composed = above.epsilon(delta)
    upper = min(composed, basic)
    return Bracket(min(below.epsilon(delta), upper), upper, "upper", method if composed < basic else "sum of the rounds")


class DeltaCurve:
    """Delta of several rounds together at any eps; what does not depend on eps is computed once."""

    def __init__(self, rounds: list[Round]) -> None:
        self.total = sum(r.times for r in rounds)
        self.local = math.fsum(r.times * r.x.local_epsilon for r in rounds)
        self._parts = [_part(r, DELTA_MIN / self.total) for r in rounds]

    @cached_property
    def _composition(self) -> tuple[_Composed, _Composed, str]:
        return _composed(self._parts)

    def at(self, eps: float) -> Bracket:
        """At eps >= 0."""
        if eps >= self.local:
            return Bracket(0.0, 0.0, "upper", "local eps")
        basic = math.fsum(p.times * p.sampler(eps / self.total)[1] for p in self._parts) * (1 + 4e-16)
        if basic == 0:
            return Bracket(0.0, 0.0, "upper", "sum of the rounds")
        above, below, method = self._composition
        composed = above.delta(eps)
        upper = min(composed, basic)
        return Bracket(min(below.delta(eps), upper), upper, "upper", method if composed < basic else "sum of the rounds")


@dataclass(frozen=True)
class _Part:
    """A round's curve before it is sampled: the deviation of its loss and the eps beyond which little is left."""

    times: int
    sampler: Sampler
    deviation: float
    end: float


@dataclass(frozen=True)
class _Composed:
    """A composed distribution of losses; `allowance` is the error of its delta, on the side that `above` says."""

    pmf: Any
    allowance: float
    above: bool

    def delta(self, eps: float) -> float:
        """Delta at eps >= 0, on the safe side."""
        if self.pmf is None:
            return 1.0 if self.above else 0.0
        with np.errstate(all="ignore"):
            value = float(self.pmf.get_delta_for_epsilon(eps))
        return min(1.0, value + self.allowance) if self.above else max(0.0, value - self.allowance)

    def epsilon(self, delta: float) -> float:
        """Eps at delta, on the safe side."""
        if self.delta(0.0) <= delta:
            return 0.0
        goal = delta - self.allowance if self.above else delta + self.allowance
        if self.pmf is None or goal <= 0:
            return math.inf
        with np.errstate(all="ignore"):
            return float(self.pmf.get_epsilon_for_delta(goal))


def _composed(parts: list[_Part]) -> tuple[_Composed, _Composed, str]:
    """Compositions above and below the exact one, and how they were made."""
    dp = _dp_accounting()
    # A round whose delta is 0 at eps = 0 reveals nothing.
    parts = [p for p in parts if p.deviation > 0]
    total = sum(part.times for part in parts)
    deviation = math.sqrt(math.fsum(part.times * part.deviation**2 for part in parts))
    # Where the composed loss stays but for 1e-16: Hoeffding's bound, its mean being at most end tanh(end / 2) per round.
    reach = min(
        math.fsum(p.times * p.end for p in parts),
        math.fsum(p.times * p.end * math.tanh(p.end / 2) for p in parts)
        + math.sqrt(2 * math.log(1e16) * math.fsum(p.times * p.end**2 for p in parts)),
    )
    grid = max(min(p.deviation for p in parts) / FINENESS, 2 * reach / CELLS)
    curves = []
    for p in parts:
        steps = np.unique(np.append(np.rint(knots(p.deviation, p.end, FINENESS) / grid), math.ceil(p.end / grid)))
        curves.append((p.times, p.sampler.curve(grid * steps)))
    above = _convolve(dp, [(times, curve.above()) for times, curve in curves], grid, above=True)
    span = 2 * reach if above.pmf is None else grid * above.pmf.size
    fine = max(2 * SHIFT * deviation / total, span / CELLS)
    below = _convolve(dp, [(times, curve.below()) for times, curve in curves], fine, above=False)
    return above, below, f"privacy loss distribution, grid {grid:.3g}"


def _part(r: Round, goal: float) -> _Part:
    """The claim of smallest eps at `goal`, with knots out to where much less than `goal` is left."""
    claims = sound_claims(r.x, r.crowd)
    if len(claims) > 1:
        claims = [min(claims, key=lambda c: r.epsilon(goal, c.bound).upper)]
    sampler = Sampler(claims[0], r.x.local_epsilon, CURVE_RTOL)
    deviation = DEVIATIONS * sampler(0.0)[1]
    return _Part(r.times, sampler, deviation, sampler.tail(TAIL_SHARE * goal, 3 * deviation))


def _convolve(dp: Any, pairs: list[tuple[int, Pair]], grid: float, *, above: bool) -> _Composed:
    """Compose pairs on a grid of losses; without `above`, losses are rounded down."""
    composed, rounds, cells = None, 0, 2
    for times, pair in pairs:
        if pair.infinite >= 1:
            return _Composed(None, 0.0, above)
        steps = np.rint(pair.losses / grid) if above else np.floor(pair.losses / grid - 1e-6)
        # Rounding may put several losses into one cell.
        cell, inverse = np.unique(steps.astype(np.int64), return_inverse=True)
        masses = np.bincount(inverse, weights=pair.masses)
        with np.errstate(all="ignore"):
            pmf = dp.create_pmf(dict(zip(cell.tolist(), masses.tolist(), strict=True)), grid, pair.infinite, above)
            pmf = pmf.to_dense_pmf().self_compose(times, TRUNCATION) if times > 1 else pmf
            composed = pmf if composed is None else dp.compose_pmfs(composed, pmf)
        rounds, cells = rounds + times, max(cells, composed.size)
    allowance = len(pairs) * TRUNCATION + TRANSFORM_ULPS * np.finfo(float).eps * (rounds + math.log2(cells))
    return _Composed(composed, float(allowance), above)


def _dp_accounting() -> Any:
    try:
        from dp_accounting.pld import pld_pmf
    except ImportError:
        raise ImportError("composition needs the dp-accounting package: pip install 'shufflesim[composition]'") from None
    return pld_pmf
