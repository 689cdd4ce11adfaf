"""Error against the number of users and against the central eps, for any list of randomizers and protocols."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._checks import check_delta, check_integer, check_number, check_users
from ._sampling import child, seed_root
from .bounds import UnreachableError, epsilon
from .comparison import Candidate, calibrated, candidates_of
from .domains import Array, Stream
from .protocol import Protocol
from .simulation import REPEATS_MOST, simulate

if TYPE_CHECKING:
    import pandas as pd

# Data are drawn user by user, and kept for the runs of a point.
USERS_MOST = 10**8


def error_grid(
    candidates: Sequence[Candidate],
    users: Sequence[int],
    epsilons: Sequence[float],
    delta: float,
    *,
    data: Any = None,
    repeats: int = 10,
    seed: int | None = None,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Error of each candidate at equal central privacy, by theory and in runs, over a grid of n and eps.

    Parameters
    ----------
    candidates : sequence of Randomizer, Protocol or callable
        As in `compare`: each is calibrated anew at every point of the grid.
    users : sequence of int
        Numbers of users, each at most 10^8.
    epsilons : sequence of float
        Central eps that every candidate keeps, by its sound bound.
    delta : float
        Probability in (0, 1).
    data : array_like, optional
        Values that the users of each point are drawn from, with replacement; example data of the domain by default.
    repeats : int
        Runs at each point.
    seed : int, optional
        Of data and runs.
    workers : int
        Processes that share the points; the result does not depend on it.
    progress : callable, optional
        Called with the number of points done so far.

    Returns
    -------
    pandas.DataFrame
        One row a candidate and point: candidate (its number), protocol, n, epsilon, reached (sound central eps of what was run,
        NaN where the target is out of reach, as are the errors then), messages, bits (per user), expected_rmse, rmse, coverage.

    Raises
    ------
    ValueError
        For an argument out of its range.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> table = error_grid([GRR(1.0, 4)], [1000, 4000], [0.5, 1.0], 1e-6, repeats=5, seed=1)
    >>> table.shape[0], bool((table["reached"] <= table["epsilon"]).all())
    (4, True)
    """
    import pandas as pd
    from joblib import Parallel, delayed

    listed = candidates_of(candidates)
    delta, repeats = check_delta(delta), check_integer("repeats", repeats, low=1, high=REPEATS_MOST)
    workers = check_integer("workers", workers, low=1)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable, got {progress!r}")
    if not all(hasattr(numbers, "__len__") and len(numbers) for numbers in (users, epsilons)):
        raise ValueError(f"users and epsilons must hold at least one number, got {users!r} and {epsilons!r}")
    sizes = [check_integer("users", check_users(n), low=1, high=USERS_MOST) for n in users]
    targets = [check_number("epsilon", e, "a number > 0 (nats)", low=math.nextafter(0.0, 1.0)) for e in epsilons]
    root = seed_root(seed)
    points = [(i, n, eps) for i in range(len(listed)) for n in sizes for eps in targets]

    def point(number: int) -> dict[str, Any]:
        i, n, eps = points[number]
        row: dict[str, Any] = {"candidate": i, "n": n, "epsilon": eps}
        try:
            found = calibrated(listed[i], eps, delta, n)
        except UnreachableError:
            return row
        return row | _errors(found, _drawn(found, data, n, child(root, number, 0)), delta, repeats, child(root, number, 1))

    rows: list[dict[str, Any]] = []
    pool = Parallel(n_jobs=min(workers, len(points)), return_as="generator")
    for row in pool(delayed(point)(number) for number in range(len(points))):
        rows.append(row)
        if progress is not None:
            progress(len(rows))
    columns = ["candidate", "protocol", "n", "epsilon", "reached", "messages", "bits", "expected_rmse", "rmse", "coverage"]
    return pd.DataFrame(rows).reindex(columns=columns)


def _drawn(found: Protocol, data: Any, n: int, seed: np.random.SeedSequence) -> Any:
    """n users' values."""
    rng = np.random.default_rng(seed)
    if data is None:
        return found.domain.example(n, rng)
    if isinstance(Stream.of(data), Stream):
        raise ValueError(f"data must be an array, of which users are drawn, got {type(data).__name__}")
    held = found.domain.collect(data)
    chosen: Array = rng.integers(0, len(held), n)
    return held[chosen]


def _errors(found: Protocol, values: Any, delta: float, repeats: int, seed: np.random.SeedSequence) -> dict[str, Any]:
    runs = simulate(found, values, delta=delta, seed=seed, repeats=repeats).summary.iloc[0]
    return {
        "protocol": found.name,
        "reached": float(epsilon(found, len(values), delta)),
        "messages": found.messages_per_user,
        "bits": found.messages_per_user * found.bits_per_message,
        "expected_rmse": runs["expected_rmse"],
        "rmse": runs["rmse"],
        "coverage": runs["coverage"],
    }
