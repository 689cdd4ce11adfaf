"""Bundled real tables: the flights scheduled out of New York City in 2013, and the airports they join.

Source and licence: ``PROVENANCE.md``. ``derive.py`` rebuilds the files.
"""

from __future__ import annotations

import difflib
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("airports", "flights")


def load(name: str) -> pd.DataFrame:
    """Read one bundled table.

    Parameters
    ----------
    name : {"flights", "airports"}
        "flights": 336,776 rows, one for each flight scheduled to leave EWR, JFK or LGA in 2013, in the order of the
        source. "airports": 103 rows, one for each origin or destination whose position the source gives, sorted by
        ``faa``.

    Returns
    -------
    pandas.DataFrame
        A new frame at each call, with a default integer index.

        flights: ``dest`` (category, 105 airport codes, sorted), ``carrier`` (category, 16 two-letter codes, sorted),
        ``hour`` (uint8, scheduled hour of departure, 1..23), ``minute`` (uint8, scheduled minute, 0..59),
        ``dep_delay`` (float32, whole minutes, -43..1301, negative when early; NaN for the 8,255 flights that never
        left).

        airports: ``faa`` and ``name`` (text), ``lat`` and ``lon`` (float64, degrees). The destinations BQN, PSE, SJU
        and STT are absent: the source has no position for them.

    Raises
    ------
    ValueError
        If no table has this name.

    Examples
    --------
    >>> flights = load("flights")
    >>> flights.shape
    (336776, 5)
    >>> int((flights["dest"] == "ORD").sum())
    17283
    """
    if name not in NAMES:
        message = f"name must be one of {', '.join(map(repr, NAMES))}, got {name!r}"
        nearest = difflib.get_close_matches(str(name).lower(), NAMES, n=1, cutoff=0.4)
        if nearest:
            message += f"; did you mean {nearest[0]!r}?"
        raise ValueError(message)

    import pandas as pd

    with resources.files("shufflesim.datasets").joinpath(f"{name}.parquet").open("rb") as file:
        return pd.read_parquet(file, engine="pyarrow")
