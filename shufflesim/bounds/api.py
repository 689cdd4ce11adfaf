"""The public questions: delta at eps, eps at delta, and the table of all bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._checks import check_delta, check_number, nearest, plain
from .bracket import Bracket, Side
from .claim import BOUNDS, Claim, Ends, Value
from .crowd import Crowd

if TYPE_CHECKING:
    import pandas as pd

# Relative width of brackets that is aimed at unless the caller asks for another.
DELTA_RTOL = 1e-9
EPSILON_RTOL = 1e-6
# Relative width of delta that is enough to see that one bound is no better than another.
COMPARE_RTOL = 1e-4


class Bounded(Protocol):
    """Anything that the engine can bound: it states its claims and its local eps."""

    @property
    def local_epsilon(self) -> float:
        """What holds without shuffling; may be inf."""

    def claims(self, crowd: Crowd) -> list[Claim]:
        """Bounds that apply in a crowd."""


def delta(
    x: Bounded,
    n: int,
    eps: Any,
    *,
    bound: str = "sound",
    n_honest: int | None = None,
    dropout: float = 0.0,
    sampling: float = 1.0,
    rtol: float = DELTA_RTOL,
) -> Bracket:
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
    n_honest : int, optional
        How many of the n users, user 1 included, follow the protocol; the others hide nobody. All by default.
    dropout : float
        Probability, in [0, 1), that any other user sends nothing; independent.
    sampling : float
        Probability, in (0, 1], that any user, user 1 included, is asked to take part; independent, and not revealed.
    rtol : float
        Relative width of the bracket to aim at, in (0, 1); what is reached is in the result.

    Returns
    -------
    Bracket
        `lower <= exact value of that bound <= upper`, the larger of both directions; arrays if eps is an array.

    Raises
    ------
    ValueError
        For an argument that is out of range, or a bound that does not apply.

    Examples
    --------
    The smallest counterexample to the published bound: 3 users, 3 options, e^eps0 = 3, and e^eps = 2.

    >>> from shufflesim import VariationRatio
    >>> x = VariationRatio(p=3, beta=0.4, q=3, q_star=1)
    >>> round(float(delta(x, 3, math.log(2), bound="published")), 9), round(float(delta(x, 3, math.log(2))), 9)
    (0.072, 0.08)
    """
    crowd = Crowd.of(n, n_honest, dropout, sampling)
    rtol = _check_rtol(rtol)
    values = np.asarray(eps)
    if values.dtype.kind not in "fiu" or not np.all(np.isfinite(values)):
        raise ValueError(f"eps must be finite numbers, got {plain(eps)!r}")
    candidates = _select(x, crowd, bound)
    if values.ndim == 0:
        return _delta_of(candidates, float(values), x.local_epsilon, rtol)
    cells = [_delta_of(candidates, float(e), x.local_epsilon, rtol) for e in values.ravel()]
    lower, upper = (np.array([getattr(c, end) for c in cells]).reshape(values.shape) for end in ("lower", "upper"))
    return Bracket(lower, upper, candidates[0].side, ", ".join(sorted({c.method for c in cells})))


def epsilon(
    x: Bounded,
    n: int,
    delta: float,
    *,
    bound: str = "sound",
    n_honest: int | None = None,
    dropout: float = 0.0,
    sampling: float = 1.0,
    rtol: float = EPSILON_RTOL,
) -> Bracket:
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
    n_honest, dropout, sampling
        Who takes part; see `delta`.
    rtol : float
        Relative width of the bracket to aim at, in (0, 1); what is reached is in the result.

    Returns
    -------
    Bracket
        `lower <= exact value of that bound <= upper`; inf where no eps reaches this delta.

    Raises
    ------
    ValueError
        For an argument that is out of range, or a bound that does not apply.

    Notes
    -----
    The cost does not grow with n; `benchmarks/bounds.py` prints it.

    Examples
    --------
    >>> from shufflesim import VariationRatio
    >>> x = VariationRatio(p=math.e, beta=0.3, q=math.e)
    >>> float(epsilon(x, 10_000, 1e-6)) < float(epsilon(x, 10_000, 1e-6, dropout=0.2)) < 0.05
    True
    """
    crowd = Crowd.of(n, n_honest, dropout, sampling)
    delta = check_delta(delta)
    rtol = _check_rtol(rtol)
    return _epsilon_of(_select(x, crowd, bound), delta, x.local_epsilon, rtol, {})


def bound_table(
    x: Bounded,
    n: int,
    delta: float,
    *,
    n_honest: int | None = None,
    dropout: float = 0.0,
    sampling: float = 1.0,
) -> pd.DataFrame:
    """Every bound that applies, side by side.

    Parameters
    ----------
    x : VariationRatio, Randomizer or Protocol
        What is bounded.
    n : int
        Number of users, >= 1.
    delta : float
        Probability, in (0, 1).
    n_honest, dropout, sampling
        Who takes part; see `delta`.

    Returns
    -------
    pandas.DataFrame
        Columns bound, side, sound, epsilon (the safe side), amplification_ratio (local eps / epsilon), source, note. The
        first row is "sound", the smallest proved upper bound, and its note names the bound that gives it.

    Raises
    ------
    ValueError
        For an argument that is out of range.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> table = bound_table(GRR(1.0, 10), 10_000, 1e-6)
    >>> table[["bound", "side", "sound"]].head(3).values.tolist()
    [['sound', 'upper', True], ['published', 'upper', False], ['three-outcome', 'upper', True]]
    """
    import pandas as pd

    crowd = Crowd.of(n, n_honest, dropout, sampling)
    delta = check_delta(delta)
    solved: Solved = {}
    local = x.local_epsilon if hasattr(x, "claims") else math.nan
    rows = []
    for claim in claims_of(x, crowd):
        value = float(_epsilon_of([claim], delta, local, EPSILON_RTOL, solved))
        note = "; ".join(part for part in (claim.note, claim.value.remark(delta)) if part)
        rows.append(
            (claim.bound, claim.side, claim.sound, value, amplification_ratio(local, value), claim.source, note, claim.baseline)
        )
    candidates = [row for row in rows if row[1] == "upper" and row[2] and not row[-1]]
    if candidates:
        best = min(candidates, key=lambda row: row[3])
        rows.insert(0, ("sound", *best[1:6], f"smallest sound upper bound: {best[0]}", False))
    columns = ["bound", "side", "sound", "epsilon", "amplification_ratio", "source", "note"]
    return pd.DataFrame([row[:-1] for row in rows], columns=columns)


def amplification_ratio(local: float, central: float) -> float:
    """Local eps over central eps; inf where nothing is left, NaN where both are inf."""
    if central == 0 or (local == math.inf and central < math.inf):
        return math.inf
    return math.nan if central == math.inf and local == math.inf else local / central


def _check_rtol(rtol: Any) -> float:
    number = check_number("rtol", rtol, "in (0, 1)", low=0.0, high=1.0)
    if number in (0.0, 1.0):
        raise ValueError(f"rtol must be in (0, 1), got {plain(rtol)!r}")
    return number


def claims_of(x: Bounded, crowd: Crowd) -> list[Claim]:
    """Every claim of `x`, in the order of `BOUNDS`; names of its own come last."""
    if isinstance(x, type) or not hasattr(x, "claims"):
        raise ValueError(f"x must be a VariationRatio, a Randomizer or a Protocol, got {x!r}")
    return sorted(x.claims(crowd), key=lambda claim: BOUNDS.index(claim.bound) if claim.bound in BOUNDS else len(BOUNDS))


def _select(x: Bounded, crowd: Crowd, bound: str) -> list[Claim]:
    claims = claims_of(x, crowd)
    if isinstance(bound, str) and bound == "sound":
        chosen = [c for c in claims if c.side == "upper" and c.sound and not c.baseline]
    elif isinstance(bound, str) and (bound in BOUNDS or any(c.bound == bound for c in claims)):
        chosen = [c for c in claims if c.bound == bound]
    else:
        raise ValueError(f"bound must be one of {', '.join(BOUNDS)}, got {bound!r}; {nearest(str(bound), BOUNDS)}")
    if not chosen:
        proved = any(c.side == "upper" and c.sound and not c.baseline for c in claims)
        known = ", ".join([*(["sound"] if proved else []), *(c.bound for c in claims)]) or "nothing"
        why = getattr(x, "undeclared", "")
        raise ValueError(f"bound={bound!r} does not apply to {x!r}; what applies: {known}" + (f" ({why})" if why else ""))
    return chosen


def _smallest(found: list[Ends], side: Side) -> Bracket:
    """Several valid bounds of one quantity: the exact minimum lies between the minima of the ends."""
    best = min(found, key=lambda f: f[1])
    return Bracket(min(f[0] for f in found), best[1], side, best[2])


def _delta_of(claims: list[Claim], eps: float, local: float, rtol: float) -> Bracket:
    """Smallest over the claims; 0 from the local eps on, whatever the rounding of the tables."""
    side = claims[0].side
    if eps >= local:
        return Bracket(0.0, 0.0, side, "local eps")
    return _smallest([claim.value.delta(eps, rtol) for claim in claims], side)


# eps by value: claims often share one, as the published and the sound pair do where omega = 0.
Solved = dict[Value, Ends]


def _epsilon_of(claims: list[Claim], delta: float, local: float, rtol: float, solved: Solved) -> Bracket:
    """Smallest over the claims; no bound exceeds the local eps, whatever the rounding of the tables."""
    found: list[Ends] = []
    for claim in claims:
        best = min((f[1] for f in found), default=math.inf)
        if claim.value not in solved:
            # One that does not reach delta at the best eps so far is no better: one evaluation instead of a search.
            if 0 < best < math.inf and claim.value.delta(best, COMPARE_RTOL)[0] > delta:
                continue
            solved[claim.value] = claim.value.epsilon(delta, rtol)
        low, high, method = solved[claim.value]
        found.append((min(low, local), min(high, local), method))
    return _smallest(found, claims[0].side)
