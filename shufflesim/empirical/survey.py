"""Audits of everything in the catalogue: which claims hold, which published ones do not, and how loose the bounds are.

A task is one example for one number of users.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import catalogue
from .._checks import check_delta, check_integer, check_number, nearest
from .._identity import digest, library_code, source_of
from .._resumable import resume
from ..bounds import Claim, Crowd, VariationRatio, claims_of
from ..bounds import epsilon as epsilon_at
from ..protocol import Protocol
from ..protocols import SingleMessage
from ..randomizer import Randomizer
from .audit import Audit, audit
from .ways import CONSISTENT, OPEN, VIOLATED, Way

if TYPE_CHECKING:
    import pandas as pd

# Few users are enumerated or run, at these shares of the local eps (at most so large); many are looked at where the bound
# claims delta.
FEW, SHARES, LARGE = 3, (0.25, 0.5, 0.75, 0.9), 6.0
MANY = (10**2, 10**4, 10**6)
# Numbers of users for which bounds are compared with the exact value of homogeneous data.
GRID = tuple(10**k for k in range(1, 9))
# Relative width of the eps of a bound: what is nearer than this to another value is not told apart.
LOCAL_RTOL = 2e-6
# What is audited: bounds of the class, and the published pair with the beta in print where the class says that it is another.
SOUND, PUBLISHED, PUBLISHED_BETA = "sound", "published", "published beta"
# What is compared on the grid.
LOOSENESS = "looseness"
COMPARED = ("sound", "blanket", "published", "lower")
FAILED, NOTHING = "error", "not applicable"


@dataclass(frozen=True)
class Task:
    """One example of one class for n users.

    Attributes
    ----------
    name, index : str, int
        Name in the catalogue, and which of the class's examples.
    n : int
        Users.
    bounds : tuple of str
        Those to be audited, of "sound", "published" and "published beta"; and "looseness" for a comparison of bounds.
    delta, trials, confidence, seed
        As in `audit`.
    """

    name: str
    index: int
    n: int
    bounds: tuple[str, ...]
    delta: float
    trials: int
    confidence: float
    seed: int

    @property
    def subject(self) -> Randomizer | Protocol:
        """The example."""
        return [*catalogue.find(self.name).examples()][self.index]

    @property
    def key(self) -> str:
        """Hash of the task, of what its example is made of, and of the code."""
        x = self.subject
        return digest(asdict(self), type(x).__module__, repr(x), library_code(*source_of(x)))

    def rows(self) -> list[dict[str, Any]]:
        """One row a bound; what goes wrong is a row as well."""
        x = self.subject
        found = []
        for bound in self.bounds:
            row: dict[str, Any] = {"name": self.name, "subject": repr(x), "n": self.n, "bound": bound}
            try:
                row |= _looseness(x, self) if bound == LOOSENESS else _audited(x, self, bound)
            except ValueError as error:
                row |= {"verdict": NOTHING, "note": str(error)}
            except Exception as error:  # a class of another package must not end the survey
                row |= {"verdict": FAILED, "note": f"{type(error).__name__}: {error}"}
            found.append(row)
        _eps_at.cache_clear()
        return found


def tasks(
    names: Sequence[str] = (),
    *,
    delta: float = 1e-6,
    trials: int = 400,
    confidence: float = 0.999999,
    seed: int = 0,
) -> list[Task]:
    """All tasks of a survey.

    Parameters
    ----------
    names : sequence of str
        Names in the catalogue; all by default.
    delta : float
        Where bounds for many users are looked at.
    trials, confidence, seed
        As in `audit`.

    Raises
    ------
    ValueError
        For an unknown name or an argument out of its range.

    Examples
    --------
    >>> [(task.n, task.bounds) for task in tasks(["rr"])][:2]
    [(3, ('sound', 'published')), (10, ('looseness',))]
    """
    entries: dict[str, catalogue.Entry] = {**catalogue.mechanisms(), **catalogue.protocols()}
    for name in names:
        if name not in entries:
            raise ValueError(f"names must be in the catalogue, got {name!r}; {nearest(name, entries)}")
    settings: dict[str, Any] = {
        "delta": check_delta(delta),
        "trials": check_integer("trials", trials, low=100),
        "confidence": check_number("confidence", confidence, "in (0, 1)", low=math.nextafter(0, 1), high=math.nextafter(1, 0)),
        "seed": check_integer("seed", seed, low=0),
    }
    found = []
    for name in dict.fromkeys(names or entries):
        for index, x in enumerate(entries[name].examples()):
            bounds = (SOUND, PUBLISHED) + ((PUBLISHED_BETA,) if _published_beta(x) is not None else ())
            for n in sorted({FEW, *MANY, *(GRID if index == 0 else ())}):
                asked = (bounds if n in (FEW, *MANY) else ()) + ((LOOSENESS,) if index == 0 and n in GRID else ())
                found.append(Task(name, index, n, asked, **settings))
    return found


def _published_beta(x: Any) -> float | None:
    """The beta in print, if there is one and it is not the declared one."""
    beta = getattr(x, "published_beta", None)
    if beta is None or not isinstance(x, Randomizer) or math.isclose(beta, x.amplification.beta, rel_tol=1e-9):
        return None
    return float(beta)


@dataclass(frozen=True)
class _WithPublishedBeta(SingleMessage):
    """A randomizer with the declaration in print: p and q of the class, beta of the paper."""

    @property
    def declarations(self) -> tuple[VariationRatio, ...]:
        return (VariationRatio.ldp(self.local_epsilon, float(self.randomizer.published_beta)),)  # type: ignore[attr-defined]

    def claims(self, crowd: Crowd) -> list[Claim]:
        lower = [c for c in self.randomizer.claims(crowd) if c.side == "lower"]
        return self.declarations[0].claims(crowd) + lower


def _looseness(x: Any, task: Task) -> dict[str, Any]:
    found = {bound: _eps_at(x, task.n, task.delta, bound) for bound in COMPARED}
    return {bound: None if math.isnan(eps) else eps for bound, eps in found.items()} | {"verdict": "", "note": ""}


def _audited(x: Any, task: Task, bound: str) -> dict[str, Any]:
    eps_lower = partial(_eps_at, x, task.n, task.delta, "lower")
    if bound == PUBLISHED_BETA:
        x, bound = _WithPublishedBeta(x), PUBLISHED
    options: dict[str, Any] = {"bound": bound, "trials": task.trials, "confidence": task.confidence, "seed": task.seed}
    if bound not in {SOUND, *(c.bound for c in claims_of(x, Crowd(task.n)))}:
        raise ValueError(f"no bound {bound!r}")
    if task.n > FEW:
        eps = _eps_at(x, task.n, task.delta, bound)
        if eps == 0:
            raise ValueError(f"delta = {task.delta!r} is claimed at eps = 0: nothing to compare")
        if eps >= x.local_epsilon * (1 - LOCAL_RTOL):
            raise ValueError(f"delta = {task.delta!r} is claimed at no eps below the local one: nothing is hidden")
        sampled = ("importance sampling",) if bound == SOUND else ()
        found = audit(x, task.n, eps, ways=("homogeneous", *sampled), **options)
        return _row(found, eps_lower(), eps)
    # The eps, among a few, where the exact homogeneous divergence is the largest in units of the claim; there all the rest.
    top = min(x.local_epsilon, LARGE)
    every = [audit(x, task.n, share * top, ways=("homogeneous",), **options) for share in SHARES]
    eps = max(every, key=lambda one: max((w.low / max(one.claimed, 1e-300) for w in one.ways), default=0.0)).eps
    ways = ("enumeration", "homogeneous")
    found = audit(x, task.n, eps, ways=(*ways, "runs") if bound == SOUND else ways, **options)
    if not found.ways:
        found = audit(x, task.n, eps, ways=("runs",), **options)
    # Where the bound claims what is true at this eps.
    truth = max((w.low for w in found.ways), default=0.0)
    return _row(found, eps, _eps_at(x, task.n, truth, bound) if found.violated else math.nan)


@lru_cache(maxsize=64)
def _eps_at(x: Any, n: int, delta: float, bound: str) -> float:
    if not 0 < delta < 1 or bound not in {SOUND, *(c.bound for c in claims_of(x, Crowd(n)))}:
        return math.nan
    return float(epsilon_at(x, n, delta, bound=bound))


def _row(found: Audit, eps_true: float, eps_claimed: float) -> dict[str, Any]:
    """The first way whose lower end is the highest stands for the row."""
    if not found.ways:
        return {"verdict": NOTHING, "note": "; ".join(found.skipped)}
    low = max(w.low for w in found.ways)
    best: Way = next(w for w in found.ways if w.low >= low * (1 - LOCAL_RTOL))
    row = {
        "verdict": found.verdict,
        "eps": found.eps,
        "claimed": found.claimed,
        "low": low,
        "high": min((w.high for w in found.ways if w.exact), default=math.nan),
        "way": best.way,
        "delta_ratio": low / found.claimed if found.claimed > 0 else math.nan,
        "eps_true": eps_true,
        "eps_claimed": eps_claimed,
        "eps_ratio": eps_true / eps_claimed if 0 < eps_claimed < math.inf else math.nan,
        "note": "; ".join([best.note, *found.skipped]),
    }
    # As in JSON: what is missing is equal to what is missing.
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}


@dataclass(frozen=True)
class Survey:
    """All rows of a survey.

    Attributes
    ----------
    plan : tuple of Task
        What was done, in the order of the rows.
    rows : tuple of dict
        One for each bound of each task.
    """

    plan: tuple[Task, ...]
    rows: tuple[dict[str, Any], ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row a (subject, n, bound); the columns of `audit.csv`.

        `claimed` is the bound's delta at `eps`; `low` and `high` enclose the truth of the data sets looked at (`high` where that
        is exact). `eps_ratio` compares `eps_true`, a lower bound on the eps of one delta, with `eps_claimed`: > 1 is a violation.
        For few users both are there only where the bound is violated.
        """
        import pandas as pd

        columns = ["name", "subject", "n", "bound", "verdict", "eps", "claimed", "low", "high", "way", "delta_ratio"]
        columns += ["eps_true", "eps_claimed", "eps_ratio", "note"]
        return pd.DataFrame([r for r in self.rows if r["bound"] != LOOSENESS], columns=columns)

    @property
    def looseness(self) -> pd.DataFrame:
        """Central eps at delta of the first example of every class: columns name, subject, n, one for each bound, note."""
        import pandas as pd

        return pd.DataFrame(
            [r for r in self.rows if r["bound"] == LOOSENESS], columns=["name", "subject", "n", *COMPARED, "note"]
        )

    @property
    def summary(self) -> pd.DataFrame:
        """One row a name of the catalogue, in words: sound, published for each number of users, published beta."""
        import pandas as pd

        every = self.table
        rows = []
        for name, own in every.groupby("name", sort=False):
            cells = {"name": name, "examples": own["subject"].nunique(), "sound": _words(own[own["bound"] == SOUND])}
            for n in (FEW, *MANY):
                cells[f"published, n = {n:,}"] = _words(own[(own["bound"] == PUBLISHED) & (own["n"] == n)])
            cells["published beta"] = _words(own[own["bound"] == PUBLISHED_BETA])
            rows.append(cells)
        return pd.DataFrame(rows)

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Sound claims that are violated, and rows that could not be computed."""
        return [r for r in self.rows if r["verdict"] == FAILED or (r["bound"] == SOUND and r["verdict"] == VIOLATED)]


def _words(rows: pd.DataFrame) -> str:
    """What some rows say together."""
    told = rows[~rows["verdict"].isin([NOTHING, FAILED])]
    broken, violated = rows[rows["verdict"] == FAILED], told[told["verdict"] == VIOLATED]
    if len(broken):
        return f"{FAILED} in {len(broken)} of {len(rows)}"
    if len(violated):
        ratio = violated["eps_ratio"].max()
        more = ""
        if ratio > 1 + LOCAL_RTOL:
            more = f"{100 * (ratio - 1):.2g}% larger" if ratio < 2 else f"{ratio:.3g} times as large"
            more = f", true eps {'infinite' if ratio == math.inf else f'up to {more}'}"
        return f"{VIOLATED} in {len(violated)} of {len(told)}{more}"
    if not len(told):
        return "-"
    unknown = int((told["verdict"] == OPEN).sum())
    return f"{CONSISTENT} in {len(told) - unknown} of {len(told)}" if unknown else CONSISTENT


def survey(
    plan: Sequence[Task],
    folder: Path,
    *,
    workers: int = 1,
    client: Any = None,
    progress: Callable[[int], None] | None = None,
) -> Survey:
    """Do all tasks of a plan that are not in the folder yet.

    Parameters
    ----------
    plan : sequence of Task
        From `tasks`.
    folder : Path
        An existing folder; rows are appended to `rows.jsonl` in it.
    workers : int
        Processes; the result is the same for any number.
    client : dask.distributed.Client, optional
        A cluster that does the tasks instead.
    progress : callable, optional
        Is called with the number of tasks that are done.

    Returns
    -------
    Survey
    """
    done = resume(plan, folder, workers=workers, client=client, progress=progress)
    return Survey(tuple(plan), tuple(row for found in done for row in found))
