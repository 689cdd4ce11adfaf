"""Protocols against users who do not follow them: error by the fraction of faulty users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._checks import check_number
from .population import Attack, Population
from .protocol import Protocol
from .randomizer import Randomizer
from .simulation import simulate

if TYPE_CHECKING:
    import pandas as pd


def robustness(
    protocols: Sequence[Protocol | Randomizer],
    data: Any,
    fractions: Sequence[float],
    *,
    attack: Attack,
    target: Any = None,
    delta: float,
    dropout: float = 0.0,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Run protocols on data with a growing fraction of faulty users.

    Parameters
    ----------
    protocols : sequence of Protocol or Randomizer
        Each is run with each fraction.
    data : array_like, shape (n, ...)
        One value per user, in the domain of all protocols.
    fractions : sequence of float
        Probabilities, in [0, 1), that a user is faulty; 0 is an honest run.
    attack, target, dropout
        As in `Population`.
    delta : float
        Probability in (0, 1), for the central eps that is left.
    seed : int, optional
        Of every run.
    progress : callable, optional
        Called with the number of runs done so far.

    Returns
    -------
    pandas.DataFrame
        One row a run: protocol, fraction, and the columns of `Simulation.damage`.

    Raises
    ------
    ValueError
        For an argument out of its range, or data outside a protocol's domain.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR, OUE
    >>> table = robustness(
    ...     [GRR(2.0, 4), OUE(2.0, 4)], [0, 1, 2, 3] * 500, [0, 0.1], attack="maximal-gain", target=3, delta=1e-6, seed=1
    ... )
    >>> table.groupby("protocol")["gain"].max().idxmax()
    'OUE(epsilon=2.0, d=4)'
    """
    import pandas as pd

    for name, listed in (("protocols", protocols), ("fractions", fractions)):
        if isinstance(listed, str) or not isinstance(listed, Sequence | np.ndarray) or not len(listed):
            raise ValueError(f"{name} must be a list of at least one, got {listed!r}")
    fractions = [check_number("fractions", f, "numbers in [0, 1)", low=0.0, high=np.nextafter(1.0, 0.0)) for f in fractions]
    rows: list[pd.DataFrame] = []
    for protocol in protocols:
        for fraction in fractions:
            # The smallest fraction stands for none, so that the target of the honest run is the same.
            population = Population(dropout, max(fraction, np.nextafter(0.0, 1.0)), attack, target)
            result = simulate(protocol, data, delta=delta, seed=seed, population=population)
            about = pd.DataFrame({"protocol": [result.protocol.name], "fraction": [fraction]})
            rows.append(pd.concat([about, result.damage], axis=1))
            if progress is not None:
                progress(len(rows))
    return pd.concat(rows, ignore_index=True)
