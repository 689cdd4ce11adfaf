"""Bounds along a grid of budgets, of crowds or of both."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_delta, check_integer, nearest
from .._identity import digest, identity, library_code, source_of
from .._resumable import Rows, resume
from .api import Bounded, amplification_ratio, claims_of, epsilon
from .claim import BOUNDS
from .crowd import Crowd

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = ["local_epsilon", "n", "delta", "bound", "side", "sound", "epsilon", "amplification_ratio"]


def bound_curve(
    x: Bounded | Sequence[Bounded],
    n: Any,
    delta: Any,
    *,
    bounds: Sequence[str] | None = None,
    workers: int = 1,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
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
    workers : int
        Processes that share the points, for long grids; the result does not depend on it. Classes must be importable then.
    folder : path, optional
        An existing folder in which each point is kept as soon as it is there, under a hash of `x`, the numbers and the library's
        code: what is asked again is not computed again, also after an interruption.
    progress : callable, optional
        Called with the number of points that are done.

    Returns
    -------
    pandas.DataFrame
        One row a point and bound: point, local_epsilon, n, delta, bound, side, sound, epsilon (the safe side),
        amplification_ratio.

    Raises
    ------
    ValueError
        For an argument that is out of range, lengths that differ, or an `x` that cannot be kept in a folder.

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
    workers = check_integer("workers", workers, low=1)
    points = []
    for one, users, probability in _points(x, n, delta):
        crowd = Crowd(users)
        claims_of(one, crowd)
        points.append(_Point(one, crowd.n, check_delta(probability), None if bounds is None else tuple(bounds)))
    if folder is None and workers == 1:
        found = []
        for done, point in enumerate(points, start=1):
            found.append(point.rows())
            if progress is not None:
                progress(done)
    else:
        with tempfile.TemporaryDirectory() as elsewhere:
            found = [*resume(points, Path(elsewhere if folder is None else folder), workers=workers, progress=progress)]
    rows = [{"point": number, **row} for number, part in enumerate(found) for row in part]
    return pd.DataFrame(rows, columns=["point", *COLUMNS])


@dataclass(frozen=True)
class _Point:
    """All bounds of one object, for one number of users and one delta."""

    x: Any
    n: int
    delta: float
    bounds: tuple[str, ...] | None

    @property
    def key(self) -> str:
        return digest("bound_curve", identity(self.x), self.n, self.delta, self.bounds, library_code(*source_of(self.x)))

    def rows(self) -> Rows:
        claims = {claim.bound: claim for claim in claims_of(self.x, Crowd(self.n))}
        local, rows = self.x.local_epsilon, []
        for name in self.bounds or ("sound", *claims):
            if name != "sound" and name not in claims:
                continue
            value = float(epsilon(self.x, self.n, self.delta, bound=name))
            side, sound = ("upper", True) if name == "sound" else (claims[name].side, claims[name].sound)
            row = (local, self.n, self.delta, name, side, sound, value, amplification_ratio(local, value))
            rows.append(dict(zip(COLUMNS, row, strict=True)))
        return rows


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
