"""The figures, Table 5 and the discussion of the variation-ratio paper, computed anew, with what the correct formulas give.

Source: Wang et al., "Privacy Amplification via Shuffling: Unified, Simplified, and Tightened", PVLDB 17(8), 2024 ("the paper").
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._checks import nearest
from .._resumable import Rows, resume
from .amplification import LOCAL_HASH, SUBSET
from .discussion import CLONES, UTILITY
from .distance import DISTANCE
from .extra import BALLS, FAKE_USERS
from .messages import MESSAGES
from .piece import Case, Finding, Piece, Reproduction
from .range_errors import RANGE_ERRORS
from .ranges import RANGES
from .speed import SPEED

PIECES: dict[str, Piece] = {
    piece.name: piece
    for piece in (
        SUBSET,
        LOCAL_HASH,
        FAKE_USERS,
        BALLS,
        RANGES,
        RANGE_ERRORS,
        SPEED,
        CLONES,
        UTILITY,
        DISTANCE,
        MESSAGES,
    )
}

__all__ = ["PIECES", "Finding", "Piece", "Reproduction", "chosen", "reproduce"]


def chosen(*names: str) -> list[Piece]:
    """Pieces by name: "fig1" .. "fig5", "table5", "discussion" (each with all its parts), a part such as "fig5-errors", or "all".

    Raises
    ------
    ValueError
        For an unknown name; the message suggests the nearest.
    """
    groups: dict[str, list[Piece]] = {"all": [*PIECES.values()]}
    for name, piece in PIECES.items():
        groups.setdefault(name.partition("-")[0], []).append(piece)
    known = groups | {name: [piece] for name, piece in PIECES.items() if name not in groups}
    if not names:
        raise ValueError("names must be of figures, such as fig1, or all, got none")
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"names must be of figures, such as fig1, or all, got {name!r}; {nearest(str(name), known)}")
    return list({piece.name: piece for name in names for piece in known[name]}.values())


def reproduce(
    *names: str,
    folder: str | Path | None = None,
    workers: int = 1,
    client: Any = None,
    progress: Callable[[int], None] | None = None,
) -> list[Reproduction]:
    """Compute figures, tables and remarks of the paper.

    Parameters
    ----------
    *names : str
        As in `chosen`.
    folder : str or Path, optional
        An existing folder in which every case is kept as soon as it is there, so that another call goes on from it.
    workers : int
        Processes; the numbers do not depend on it. Times are always measured one by one.
    client : dask.distributed.Client, optional
        A cluster that computes instead; times are measured here.
    progress : callable, optional
        Is called with the number of cases that are done.

    Returns
    -------
    list of Reproduction
        One a piece: `table`, `findings`, `plot()`, `text`, `save(folder)`.

    Raises
    ------
    ValueError
        For an unknown name, a folder that is none, or `workers` < 1.

    Examples
    --------
    >>> (found,) = reproduce("fig3")
    >>> found.findings[0].verdict, found.findings[0].of
    ('holds', 55)
    """
    pieces = chosen(*names)
    if folder is not None and (str(folder) == "" or not Path(folder).is_dir()):
        raise ValueError(f"folder must be an existing folder, got {str(folder)!r}")
    with tempfile.TemporaryDirectory() as elsewhere:
        place = Path(elsewhere if folder is None else folder)
        tables: dict[str, Rows] = {}
        done = 0
        # Times last, and each alone.
        for alone in (False, True):
            these = [piece for piece in pieces if piece.alone == alone]
            plan = [Case(piece, arguments) for piece in these for arguments in piece.cases]
            before = done
            report = None if progress is None else lambda count, before=before: progress(before + count)
            who = {"workers": 1, "client": None} if alone else {"workers": workers, "client": client}
            rows = resume(plan, place, **who, progress=report)
            tables |= {piece.name: [row for _ in piece.cases for row in next(rows)] for piece in these}
            done += len(plan)
    return [_made(piece, tables[piece.name]) for piece in pieces]


def _made(piece: Piece, rows: Rows) -> Reproduction:
    import pandas as pd

    return Reproduction(piece, pd.DataFrame(rows))
