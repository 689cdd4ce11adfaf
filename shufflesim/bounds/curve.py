"""Bounds along a grid of budgets, of crowds or of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_delta, nearest
from .api import Bounded, amplification_ratio, claims_of, epsilon
from .claim import BOUNDS
from .crowd import Crowd

if TYPE_CHECKING:
    import pandas as pd


def bound_curve(x: Bounded | Sequence[Bounded], n: Any, delta: Any, *, bounds: Sequence[str] | None = None) -> pd.DataFrame:
    """Central eps by every bound, for several randomizers or several numbers of users.

    Parameters
    ----------
    x : VariationRatio, Randomizer or Protocol, or a sequence of them
        What is bounded, for instance ``[GRR(eps0, 100) for eps0 in grid]``.
    n : int or sequence of int
        Numbers of users.
    delta : float or sequence of float
        Probabilities. `x`, `n` and `delta` that are sequences must have one common length; the others are repeated.
    bounds : sequence of str, optional
        Names from `BOUNDS`; all that apply by default. Where one does not apply there is no row.

    Returns
    -------
    pandas.DataFrame
        One row a point and bound: point, local_epsilon, n, delta, bound, side, sound, epsilon (the safe side),
        amplification_ratio.

    Raises
    ------
    ValueError
        For an argument that is out of range, or lengths that differ.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> curve = bound_curve([GRR(eps0, 16) for eps0 in (1.0, 2.0)], 10**5, 1e-7, bounds=["sound", "lower"])
    >>> curve[["local_epsilon", "bound", "side"]].values.tolist()[:3]
    [[1.0, 'sound', 'upper'], [1.0, 'lower', 'lower'], [2.0, 'sound', 'upper']]
    """
    import pandas as pd

    if bounds is not None:
        bounds = list(bounds) if isinstance(bounds, Iterable) and not isinstance(bounds, (str, bytes)) else [bounds]
        if not bounds:
            raise ValueError("bounds must hold at least one name of a bound, got none")
    for name in bounds or ():
        if not isinstance(name, str) or name not in BOUNDS:
            raise ValueError(f"bounds must hold names of bounds, got {name!r}; {nearest(str(name), BOUNDS)}")
    rows = []
    for point, (one, users, probability) in enumerate(_points(x, n, delta)):
        crowd, probability = Crowd(users), check_delta(probability)
        claims = {claim.bound: claim for claim in claims_of(one, crowd)}
        for name in bounds or ("sound", *claims):
            if name != "sound" and name not in claims:
                continue
            value = float(epsilon(one, crowd.n, probability, bound=name))
            side, sound = ("upper", True) if name == "sound" else (claims[name].side, claims[name].sound)
            local = one.local_epsilon
            rows.append((point, local, crowd.n, probability, name, side, sound, value, amplification_ratio(local, value)))
    columns = ["point", "local_epsilon", "n", "delta", "bound", "side", "sound", "epsilon", "amplification_ratio"]
    return pd.DataFrame(rows, columns=columns)


def _points(x: Any, n: Any, delta: Any) -> list[tuple[Any, Any, Any]]:
    columns = [list(v) if is_series(v) else None for v in (x, n, delta)]
    lengths = {len(c) for c in columns if c is not None} or {1}
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(f"x, n and delta must be single or of one common length >= 1, got lengths {sorted(lengths)}")
    length = lengths.pop()
    filled = [[v] * length if c is None else c for c, v in zip(columns, (x, n, delta), strict=True)]
    return list(zip(*filled, strict=True))


def is_series(value: Any) -> bool:
    """Whether it is a list, tuple or array of values, not a single one."""
    return (isinstance(value, Sequence) and not isinstance(value, (str, bytes))) or (
        isinstance(value, np.ndarray) and value.ndim > 0
    )
