"""Randomizers and protocols side by side at equal central privacy: what each costs in error, messages and bits."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._checks import check_delta, check_integer, check_number, check_target, check_users
from ._cluster import check_client
from .bounds import epsilon as epsilon_at
from .domains import Box, Categories, Digits, Domain, Interval, Sets, Stream
from .protocol import Protocol
from .protocols import SingleMessage
from .randomizer import Randomizer
from .simulation import simulate

if TYPE_CHECKING:
    import pandas as pd

# Users whose values stand for all where no data are given, and their seed.
STANDING = 10_000
STANDING_SEED = 0

Candidate = Randomizer | Protocol | Callable[[float, float, int], Protocol]


def compare(
    candidates: Sequence[Candidate],
    n: int | None,
    delta: float,
    epsilon: float | None = None,
    *,
    data: Any = None,
    seed: int | None = None,
    workers: int = 1,
    client: Any = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Rank randomizers and protocols by error, each with as little noise as the same central privacy allows.

    Parameters
    ----------
    candidates : sequence of Randomizer, Protocol or callable
        Of one domain. A randomizer gets the largest local budget (parameters that equal the best choice for its own budget are
        chosen anew), a protocol is calibrated by `Protocol.retargeted`; a callable makes a protocol from (epsilon, delta, n),
        such as ``functools.partial(FakeUsers.for_target, d=16)``.
    n : int or None
        Number of users; None means as many as there are data.
    delta : float
        Probability in (0, 1).
    epsilon : float, optional
        Central eps that every candidate must keep, by its sound bound. By default the smallest that a candidate has as it is.
    data : array_like or Stream, or what it takes, optional
        Values to run each candidate on; a stream is read once for each, so that it cannot be an iterator. Without data, errors
        are the exact expected ones for example data of the domain; for counts of categories the root mean square over
        categories is the same for all data.
    seed : int, optional
        Of the runs on `data`.
    workers, client, folder
        Who does the runs, and where sums of their parts are kept, as in `simulate`.
    progress : callable, optional
        Called with the number of users done so far, of all runs together; without data, of candidates.

    Returns
    -------
    pandas.DataFrame
        One row a candidate, the smallest error first: protocol, local_epsilon, epsilon (sound central bound, at most the target),
        messages and bits (expected, per user), rmse (root mean square of the exact standard errors), relative_rmse (to the best),
        and with data also observed_rmse.

    Raises
    ------
    ValueError
        If candidates have different domains, or an argument is out of range.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR, OUE, RAPPOR
    >>> table = compare([GRR(1.0, 50), RAPPOR(1.0, 50), OUE(1.0, 50)], 100_000, 1e-8, epsilon=0.5)
    >>> sorted(table["protocol"].str.partition("(")[0])
    ['GRR', 'OUE', 'RAPPOR']
    """
    import pandas as pd

    listed = candidates_of(candidates)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable, got {progress!r}")
    made = [candidate for candidate in listed if isinstance(candidate, Protocol)]
    if not made and epsilon is None:
        raise ValueError("epsilon must be given where all candidates are callables, got None")
    delta = check_delta(delta)
    _one_domain(made)
    if n is None and data is None:
        raise ValueError("n must be given where there are no data, got None")
    workers = check_integer("workers", workers, low=1)
    check_client(client, workers)
    how: dict[str, Any] = {"seed": seed, "workers": workers, "client": client, "folder": folder}
    data = Stream.of(data)
    if isinstance(data, Stream):
        data.refuse_once("for compare, which runs every candidate on them")
    if data is not None and made:
        n = _number(n, data, made[0].domain)
    rows = []
    for done, candidate in enumerate(listed, start=1):
        if data is not None and n is None:
            if not isinstance(data, Stream) and not hasattr(data, "__len__"):
                raise ValueError(f"data must be values, one a user, got {data!r}")
            n = data.users if isinstance(data, Stream) else len(data)
        assert n is not None
        n = check_users(n)
        target = min(float(epsilon_at(p, n, delta)) for p in made) if epsilon is None else epsilon
        target = check_target(target, delta, n)[0]
        found = calibrated(candidate, target, delta, n)
        if data is not None:
            _number(n, data, found.domain)
        if progress is not None and data is not None:
            how["progress"] = lambda users, before=n * (done - 1): progress(before + users)
        row = _row(found, n, delta, data, how)
        if not row["epsilon"] <= target * (1 + 1e-9):
            raise ValueError(f"candidates must have a central eps of at most {target!r}, got {row['epsilon']!r} of {found.name}")
        rows.append(row)
        made.append(found)
        _one_domain(made)
        if progress is not None and data is None:
            progress(done)
    best = min(row["rmse"] for row in rows)
    table = pd.DataFrame([{**row, "relative_rmse": row["rmse"] / best} for row in rows])
    return table.sort_values("rmse", kind="stable", ignore_index=True)


def central_error(domain: Domain, epsilon: float, n: int) -> float:
    """Root mean square error of a trusted curator who adds discrete Laplace noise: what no protocol here is expected to beat.

    Parameters
    ----------
    domain : Domain
        Categories, sets, numbers or vectors of numbers.
    epsilon : float
        Pure central eps, > 0.
    n : int
        Number of users.

    Returns
    -------
    float
        For counts the noise has Pr[k] proportional to a^|k|, variance 2a/(1-a)^2, with a = e^(-epsilon/s), s the L1 sensitivity
        to the replacement of one user: 1 for a bit (its two counts are one number), 2 for a category, 2 min(size, d - size) for
        a set. For means, Laplace noise of the same sensitivity over n. NaN for other domains.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> round(central_error(Categories(16), 1.0, 1000), 3)
    2.799
    """
    epsilon = check_number("epsilon", epsilon, "a number > 0 (nats)", low=math.nextafter(0.0, 1.0))
    n = check_users(n)
    if not isinstance(domain, Domain):
        raise ValueError(f"domain must be a Domain, got {domain!r}")
    if isinstance(domain, (Categories, Sets)):
        sensitivity = 2.0 * min(domain.s, domain.d - domain.s) if isinstance(domain, Sets) else min(2.0, domain.d - 1.0)
        if sensitivity == 0:
            return 0.0
        fall = max(epsilon / sensitivity, math.ulp(0.0))
        return math.sqrt(2) * math.exp(-fall / 2) / -math.expm1(-fall)
    if isinstance(domain, (Interval, Box, Digits)):
        return math.sqrt(2) * 2 * domain.half * math.prod(domain.shape) / n / epsilon
    return math.nan


def _row(found: Protocol, n: int, delta: float, data: Any, how: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "protocol": found.name,
        "local_epsilon": found.local_epsilon,
        "epsilon": float(epsilon_at(found, n, delta)),
        "messages": found.messages_per_user,
        "bits": found.messages_per_user * found.bits_per_message,
    }
    if data is None:
        return row | {"rmse": _expected(found, n)}
    run = simulate(found, data, delta=delta, **how)
    return row | {"rmse": run.expected_rmse, "observed_rmse": run.rmse}


def candidates_of(candidates: Any) -> list[Protocol | Callable[[float, float, int], Protocol]]:
    """Protocols, also for randomizers, and callables that make one."""
    if isinstance(candidates, (Randomizer, Protocol, str)) or not isinstance(candidates, Sequence) or not candidates:
        raise ValueError(f"candidates must be a list of at least one randomizer or protocol, got {candidates!r}")
    found = [SingleMessage(c) if isinstance(c, Randomizer) else c for c in candidates]
    for candidate in found:
        if isinstance(candidate, type) or not (isinstance(candidate, Protocol) or callable(candidate)):
            raise ValueError(f"candidates must be randomizers, protocols or callables that make one, got {candidate!r}")
        if not isinstance(candidate, Protocol) and not _takes_a_target(candidate):
            raise ValueError(f"candidates that are callables must take (epsilon, delta, n), got {candidate!r}")
    return found


def _takes_a_target(candidate: Callable[..., Any]) -> bool:
    try:
        inspect.signature(candidate).bind(1.0, 1e-6, 1)
    except TypeError:
        return False
    except ValueError:
        # A builtin without a signature: only a call tells.
        return True
    return True


def calibrated(candidate: Protocol | Callable[[float, float, int], Protocol], epsilon: float, delta: float, n: int) -> Protocol:
    """A protocol at its target."""
    if isinstance(candidate, Protocol):
        return candidate.retargeted(epsilon, delta, n)
    made: Any = candidate(epsilon, delta, n)
    found = SingleMessage(made) if isinstance(made, Randomizer) else made
    if not isinstance(found, Protocol):
        raise ValueError(f"candidates must make a protocol from (epsilon, delta, n), got {made!r} from {candidate!r}")
    return found


def _one_domain(made: list[Protocol]) -> None:
    for other in made[1:]:
        # Numbers that are rounded to digits are numbers of the same range.
        first, second = (_plain(p.domain) for p in (made[0], other))
        if first != second:
            raise ValueError(f"candidates must have one domain, got {made[0].domain!r} and {other.domain!r}")


def _plain(domain: Domain) -> Domain:
    if not isinstance(domain, Digits):
        return domain
    return Interval(domain.low, domain.high) if domain.dim is None else Box(domain.dim, domain.low, domain.high)


def _number(n: int | None, data: Any, domain: Domain) -> int:
    held = data.users if isinstance(data, Stream) else len(domain.collect(data))
    if n is not None and check_users(n) != held:
        raise ValueError(f"n must be the number of data, {held}, or None, got {n}")
    return held


def _expected(protocol: Protocol, n: int) -> float:
    """Root of the mean exact variance for n users like the domain's examples."""
    domain = protocol.domain
    values = domain.validate(domain.example(STANDING, np.random.default_rng(STANDING_SEED)))
    return float(np.sqrt(np.mean(protocol.variance(domain.total(values) * (n / STANDING), n))))
