"""Randomizers side by side at equal central privacy: what each costs in error and in bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._checks import EPSILON_MAX, check_delta, check_users
from .bounds import calibrate
from .bounds import epsilon as epsilon_at
from .protocols import SingleMessage
from .randomizer import Randomizer
from .simulation import simulate

if TYPE_CHECKING:
    import pandas as pd

# Users whose values stand for all where no data are given, and their seed.
STANDING = 10_000
STANDING_SEED = 0
# How far below the largest budget the search ends, relatively: nothing may round beyond it.
LEAST = 1e-9


def compare(
    candidates: Sequence[Randomizer | SingleMessage],
    n: int | None,
    delta: float,
    epsilon: float | None = None,
    *,
    data: Any = None,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Rank randomizers by error, each with the largest local budget that keeps the same central privacy.

    Parameters
    ----------
    candidates : sequence of Randomizer
        Of one domain, with a budget that can be changed (not a `Channel`). Their own budgets matter only where `epsilon` is left
        out. Parameters that equal the best choice for a randomizer's budget (left out at construction) are chosen anew for the
        new budget.
    n : int or None
        Number of users; None means as many as there are data.
    delta : float
        Probability in (0, 1).
    epsilon : float, optional
        Central eps that every candidate must keep, by its sound bound. By default the smallest that a candidate has as it is.
    data : array_like, optional
        Values to run each candidate on. Without it errors are the exact expected ones for example data of the domain; for counts
        of categories the root mean square over categories is the same for all data.
    seed : int, optional
        Of the runs on `data`.
    progress : callable, optional
        Called with the number of candidates done so far.

    Returns
    -------
    pandas.DataFrame
        One row a candidate, the smallest error first: randomizer, local_epsilon, epsilon (sound central bound, at most the
        target), bits (of a report), rmse (root mean square of the exact standard errors), relative_rmse (to the best), and with
        data also observed_rmse.

    Raises
    ------
    ValueError
        If candidates have different domains, or an argument is out of range.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR, OUE, RAPPOR
    >>> table = compare([GRR(1.0, 50), RAPPOR(1.0, 50), OUE(1.0, 50)], 100_000, 1e-8, epsilon=0.5)
    >>> sorted(table["randomizer"].str.partition("(")[0])
    ['GRR', 'OUE', 'RAPPOR']
    """
    import pandas as pd

    randomizers = [_randomizer(candidate) for candidate in _listed(candidates)]
    domain = randomizers[0].domain
    for other in randomizers[1:]:
        if other.domain != domain:
            raise ValueError(f"candidates must have one domain, got {domain!r} and {other.domain!r}")
    delta = check_delta(delta)
    if data is not None:
        held = len(domain.collect(data))
        if n is not None and check_users(n) != held:
            raise ValueError(f"n must be the number of data, {held}, or None, got {n}")
        n = held
    if n is None:
        raise ValueError("n must be given where there are no data, got None")
    n = check_users(n)
    target = min(float(epsilon_at(r, n, delta)) for r in randomizers) if epsilon is None else epsilon
    rows = []
    for done, randomizer in enumerate(randomizers, start=1):
        # A budget per unit of length is not the local one.
        unit = randomizer.epsilon / randomizer.local_epsilon
        within = (target * min(1.0, unit), EPSILON_MAX * min(1.0, unit) * (1 - LEAST))
        found = calibrate(randomizer.with_epsilon, n, delta, target, within=within)
        row = {"randomizer": repr(found.x), "local_epsilon": found.x.local_epsilon, "epsilon": found.epsilon.upper}
        row["bits"] = found.x.bits
        if data is None:
            row["rmse"] = _expected(found.x, n)
        else:
            run = simulate(found.x, data, delta=delta, seed=seed)
            row |= {"rmse": run.expected_rmse, "observed_rmse": run.rmse}
        rows.append(row)
        if progress is not None:
            progress(done)
    best = min(row["rmse"] for row in rows)
    table = pd.DataFrame([{**row, "relative_rmse": row["rmse"] / best} for row in rows])
    return table.sort_values("rmse", kind="stable", ignore_index=True)


def _listed(candidates: Any) -> list[Any]:
    if isinstance(candidates, Randomizer | SingleMessage) or not isinstance(candidates, Sequence) or not candidates:
        raise ValueError(f"candidates must be a list of at least one randomizer, got {candidates!r}")
    return list(candidates)


def _randomizer(candidate: Any) -> Randomizer:
    if isinstance(candidate, SingleMessage):
        return candidate.randomizer
    if not isinstance(candidate, Randomizer):
        raise ValueError(f"candidates must be randomizers, got {candidate!r}")
    return candidate


def _expected(randomizer: Randomizer, n: int) -> float:
    """Root of the mean exact variance for n users like the domain's examples."""
    domain = randomizer.domain
    values = domain.validate(domain.example(STANDING, np.random.default_rng(STANDING_SEED)))
    return float(np.sqrt(np.mean(randomizer.variance(domain.total(values) * (n / STANDING), n))))
