"""The public questions: delta at eps, eps at delta, and the table of all bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._checks import check_delta, check_users, nearest
from .bracket import Bracket, Side, exp_down, exp_up
from .claim import Claim
from .table import MessageCount, Table

if TYPE_CHECKING:
    import pandas as pd

    from .evaluate import Divergence

# Every name that `bound=` understands; which of them apply depends on what is known about the object.
BOUNDS = ("sound", "published", "three-outcome", "blanket", "lower")

# Covers the four roundings of 1 - e^eps + e^eps D for negative eps.
SUM_ROUNDING = 1e-15


class Bounded(Protocol):
    """Anything that the engine can bound: it states its claims and its local eps."""

    @property
    def local_epsilon(self) -> float:
        """What holds without shuffling; may be inf."""

    def claims(self, n: int) -> list[Claim]:
        """Bounds that apply at n users."""


def delta(x: Bounded, n: int, eps: Any, *, bound: str = "sound") -> Bracket:
    """Hockey-stick divergence (delta) of a shuffled protocol at given eps, as bounded by `bound`.

    Parameters
    ----------
    x : VariationRatio, Randomizer or Protocol
        What is bounded. For a bare VariationRatio, n - 1 is the number of independent blanket messages.
    n : int
        Number of users, >= 1.
    eps : float or array_like
        In nats, finite; negative values are allowed, as in a privacy curve.
    bound : str
        One of `BOUNDS`; "sound" is the smallest proved upper bound.

    Returns
    -------
    Bracket
        `lower <= exact value of that bound <= upper`, the larger of both directions; arrays if eps is an array.

    Raises
    ------
    ValueError
        For an n, eps or bound that is out of range or does not apply.

    Examples
    --------
    The smallest counterexample to the published bound: 3 users, 3 options, e^eps0 = 3, and e^eps = 2.

    >>> from shufflesim import VariationRatio
    >>> x = VariationRatio(p=3, beta=0.4, q=3, q_star=1)
    >>> round(float(delta(x, 3, math.log(2), bound="published")), 9), round(float(delta(x, 3, math.log(2))), 9)
    (0.072, 0.08)
    """
    n = check_users(n)
    values = np.asarray(eps)
    if values.dtype.kind not in "fiu" or not np.all(np.isfinite(values)):
        raise ValueError(f"eps must be finite numbers, got {eps!r}")
    candidates = _select(x, n, bound)
    if values.ndim == 0:
        return _delta_of(candidates, float(values), x.local_epsilon)
    cells = [_delta_of(candidates, float(e), x.local_epsilon) for e in values.ravel()]
    lower, upper = (np.array([getattr(c, end) for c in cells]).reshape(values.shape) for end in ("lower", "upper"))
    return Bracket(lower, upper, candidates[0].side, ", ".join(sorted({c.method for c in cells})))


def epsilon(x: Bounded, n: int, delta: float, *, bound: str = "sound") -> Bracket:
    """Central eps at given delta, as bounded by `bound`.

    Parameters
    ----------
    x : VariationRatio, Randomizer or Protocol
        What is bounded.
    n : int
        Number of users, >= 1.
    delta : float
        Probability, in (0, 1).
    bound : str
        One of `BOUNDS`; "sound" is the smallest proved upper bound.

    Returns
    -------
    Bracket
        `lower <= exact value of that bound <= upper`; inf where no eps reaches this delta.

    Raises
    ------
    ValueError
        For an n, delta or bound that is out of range or does not apply.

    Notes
    -----
    The cost does not grow with n: some 5 to 30 ms for most tables, more where the slack of one method makes way for another.

    Examples
    --------
    >>> from shufflesim import VariationRatio
    >>> float(epsilon(VariationRatio(p=math.e, beta=0.3, q=math.e), 10_000, 1e-6)) < 0.05
    True
    """
    n = check_users(n)
    delta = check_delta(delta)
    return _epsilon_of(_select(x, n, bound), delta, x.local_epsilon, {})


def bound_table(x: Bounded, n: int, delta: float) -> pd.DataFrame:
    """Every bound that applies, side by side.

    Parameters
    ----------
    x : VariationRatio, Randomizer or Protocol
        What is bounded.
    n : int
        Number of users, >= 1.
    delta : float
        Probability, in (0, 1).

    Returns
    -------
    pandas.DataFrame
        Columns bound, side, sound, epsilon (the safe side), amplification_ratio (local eps / epsilon), source, note. The
        first row is "sound", the smallest proved upper bound, and its note names the bound that gives it.

    Raises
    ------
    ValueError
        For an n or delta that is out of range.

    Examples
    --------
    >>> from shufflesim import VariationRatio
    >>> bound_table(VariationRatio(p=3, beta=0.4, q=3, q_star=1), 1000, 1e-6)["bound"].tolist()
    ['sound', 'published', 'three-outcome']
    """
    import pandas as pd

    n = check_users(n)
    delta = check_delta(delta)
    solved: Solved = {}
    rows = [(claim, float(_epsilon_of([claim], delta, x.local_epsilon, solved))) for claim in _claims(x, n)]
    uppers = [(value, claim) for claim, value in rows if claim.side == "upper" and claim.sound]
    if uppers:
        value, best = min(uppers, key=lambda pair: pair[0])
        rows.insert(0, (_renamed(best), value))
    return pd.DataFrame(
        {
            "bound": [c.bound for c, _ in rows],
            "side": [c.side for c, _ in rows],
            "sound": [c.sound for c, _ in rows],
            "epsilon": [v for _, v in rows],
            "amplification_ratio": [_ratio(x.local_epsilon, v) for _, v in rows],
            "source": [c.source for c, _ in rows],
            "note": [c.note for c, _ in rows],
        }
    )


def _renamed(claim: Claim) -> Claim:
    note = f"smallest sound upper bound: {claim.bound}"
    return Claim("sound", claim.side, True, claim.source, note, claim.tables, claim.count)


def _ratio(local: float, central: float) -> float:
    if central == 0 or (local == math.inf and central < math.inf):
        return math.inf
    return math.nan if central == math.inf and local == math.inf else local / central


def _claims(x: Bounded, n: int) -> list[Claim]:
    if isinstance(x, type) or not hasattr(x, "claims"):
        raise ValueError(f"x must be a VariationRatio, a Randomizer or a Protocol, got {x!r}")
    return x.claims(n)


def _select(x: Bounded, n: int, bound: str) -> list[Claim]:
    claims = _claims(x, n)
    if isinstance(bound, str) and bound == "sound":
        chosen = [c for c in claims if c.side == "upper" and c.sound]
    elif isinstance(bound, str) and bound in BOUNDS:
        chosen = [c for c in claims if c.bound == bound]
    else:
        raise ValueError(f"bound must be one of {', '.join(BOUNDS)}, got {bound!r}; {nearest(str(bound), BOUNDS)}")
    if not chosen:
        known = ", ".join(["sound", *(c.bound for c in claims)])
        raise ValueError(f"bound={bound!r} does not apply to {x!r}; what applies: {known}")
    return chosen


def _directions(claim: Claim) -> list[tuple[Table, Table]]:
    """The tables of both directions, each with its reverse; one where they agree."""
    pairs = []
    for table in claim.tables:
        swapped = table.swapped()
        pairs.append((table, swapped))
        if not table.symmetric:
            pairs.append((swapped, table))
    return pairs


def _smallest(brackets: list[Bracket], side: Side) -> Bracket:
    """Several valid bounds of one quantity: the exact minimum lies between the minima of the ends."""
    best = min(brackets, key=lambda b: b.upper)
    return Bracket(min(b.lower for b in brackets), best.upper, side, best.method)


def _largest(brackets: list[Bracket], side: Side) -> Bracket:
    """Worst case over directions and pairs."""
    worst = max(brackets, key=lambda b: b.upper)
    return Bracket(max(b.lower for b in brackets), worst.upper, side, worst.method)


def _delta_of(claims: list[Claim], eps: float, local: float) -> Bracket:
    """Smallest over the claims; 0 from the local eps on, whatever the rounding of the tables."""
    side = claims[0].side
    if eps >= local:
        return Bracket(0.0, 0.0, side, "local eps")
    return _smallest(
        [_largest([_one_delta(table, swapped, claim, eps) for table, swapped in _directions(claim)], side) for claim in claims],
        side,
    )


def _divergence(table: Table, claim: Claim) -> Divergence:
    """The evaluator, imported on first use: SciPy's special functions take longer to load than all the rest."""
    from .evaluate import Divergence

    return Divergence(table, claim.count)


def _one_delta(table: Table, swapped: Table, claim: Claim, eps: float) -> Bracket:
    if eps >= 0:
        low, high, method = _divergence(table, claim).log_enclosure(eps)
        return Bracket(min(exp_down(low), 1.0), min(exp_up(high), 1.0), claim.side, method)
    # max(0, s) = s + max(0, -s): D_eps(P||Q) = 1 - e^eps + e^eps D_-eps(Q||P).
    low, high, method = _divergence(swapped, claim).log_enclosure(-eps)
    gap, factor = -math.expm1(eps), math.exp(eps)
    return Bracket(
        max(0.0, (gap + factor * exp_down(low)) * (1 - SUM_ROUNDING)),
        min(1.0, (gap + factor * exp_up(high)) * (1 + SUM_ROUNDING)),
        claim.side,
        method,
    )


# eps by table and number of messages: claims often share a table, as the published and the sound pair do where omega = 0.
Solved = dict[tuple[bytes, MessageCount], tuple[float, float, str]]


def _epsilon_of(claims: list[Claim], delta: float, local: float, solved: Solved) -> Bracket:
    """Smallest over the claims; no bound exceeds the local eps, whatever the rounding of the tables."""
    side, log_delta = claims[0].side, math.log(delta)
    brackets = []
    for claim in claims:
        found = []
        for table, _ in _directions(claim):
            key = (table.key, claim.count)
            if key not in solved:
                solved[key] = _divergence(table, claim).epsilon(log_delta)
            found.append(solved[key])
        brackets.append(_largest([Bracket(min(low, local), min(high, local), side, method) for low, high, method in found], side))
    return _smallest(brackets, side)
