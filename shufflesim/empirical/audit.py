"""A claimed bound against the truth: enumeration, exact homogeneous data, importance sampling, and runs of the whole protocol."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import EPSILON_MAX, check_integer, check_number, check_users
from ..bounds import Bracket, Claim, Crowd, Pairs, claims_of
from ..bounds import delta as delta_at
from ..bounds import epsilon as epsilon_at
from ..bounds.evaluate import Divergence
from ..domains import Array, Categories, Domain, KeyValues, Points, Sets, UnitVectors
from ..protocol import Protocol
from ..protocols import SingleMessage
from ..randomizer import Randomizer
from ..shuffler import Shuffler
from .black_box import Statistic, black_box
from .enumeration import Enumeration
from .rare_event import tilted_estimate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Multisets times data sets up to which everything is enumerated without being asked.
ENUMERATION_CELLS = 2_000_000
# Random numbers (or messages) and sums of all runs of a protocol, beyond which they are not made.
RUN_NUMBERS = 100_000_000
# Importance-sampled draws, and rows of the table up to which they are made.
DRAWS, ROWS = 50_000, 1000
# Relative width that is enough to tell which of several tables is the worst.
COMPARE_RTOL = 1e-3
# Characters in a line of a picture's title.
TITLE_WIDTH = 60
WAYS = ("enumeration", "homogeneous", "importance sampling", "runs")
VIOLATED, CONSISTENT, OPEN = "violated", "consistent", "cannot tell at this many trials"


@dataclass(frozen=True)
class Way:
    """One way to the divergence of some data sets.

    Attributes
    ----------
    way : str
        One of `WAYS`.
    delta, low, high : float
        Value or estimate, and its enclosure or confidence interval.
    exact : bool
        Whether the interval is certain, and covers the divergence of the data sets; otherwise each end is a confidence bound.
    note : str
        Which data sets; what has to be known about the estimate.
    seconds : float
        Time that it took.
    """

    way: str
    delta: float
    low: float
    high: float
    exact: bool
    note: str
    seconds: float

    def verdict(self, claim: float) -> str:
        """What it says about a claimed upper bound."""
        if self.low > claim:
            return VIOLATED
        return CONSISTENT if self.high <= claim or self.exact else OPEN


@dataclass(frozen=True)
class Audit:
    """A claim, what was found, and the verdict.

    Attributes
    ----------
    x : Randomizer or Protocol
        What was audited.
    n, eps : int, float
        Users, and where delta was looked at.
    bound : str
        The claimed bound.
    claim : Bracket
        Its delta at eps.
    ways : tuple of Way
        What was found.
    skipped : tuple of str
        Ways that were not gone, and why.
    confidence : float
        Of what is not exact.
    """

    x: Any
    n: int
    eps: float
    bound: str
    claim: Bracket
    ways: tuple[Way, ...]
    skipped: tuple[str, ...]
    confidence: float

    @property
    def claimed(self) -> float:
        """The safe side of the claim."""
        return float(self.claim.upper)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a way: way, delta, low, high, exact, verdict, seconds, note."""
        import pandas as pd

        rows = [(w.way, w.delta, w.low, w.high, w.exact, w.verdict(self.claimed), w.seconds, w.note) for w in self.ways]
        return pd.DataFrame(rows, columns=["way", "delta", "low", "high", "exact", "verdict", "seconds", "note"])

    @property
    def verdict(self) -> str:
        """ "violated" if any way says so, "consistent" if any says that, else "cannot tell at this many trials"."""
        found = [w.verdict(self.claimed) for w in self.ways]
        return next((v for v in (VIOLATED, CONSISTENT) if v in found), OPEN)

    @property
    def violated(self) -> bool:
        """Whether the claim is below the truth."""
        return self.verdict == VIOLATED

    def __str__(self) -> str:
        lines = [
            f"{self.x!r}, n = {self.n:,}, eps = {self.eps:.6g}: {self.bound} claims delta <= {self.claimed:.6g}",
            *(
                f"{w.way:<20} {w.delta:.6g} in [{w.low:.6g}, {w.high:.6g}]{'' if w.exact else f' at {self.confidence:.6%}'}"
                f"  {w.verdict(self.claimed)}; {w.note}"
                for w in self.ways
            ),
            *(f"{'skipped':<20} {reason}" for reason in self.skipped),
            f"{'verdict':<20} {self.verdict}",
        ]
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the privacy curve: delta of the claim, of published and lower bounds, and what was found, with bars."""
        from matplotlib.figure import Figure

        if ax is None:
            ax = Figure(figsize=(7.5, 4.8), layout="constrained").subplots()
        known = [c.bound for c in claims_of(self.x, Crowd(self.n))]
        grid = np.linspace(0.0, min(2 * self.eps or 1.0, self.x.local_epsilon), 41)
        styles = {"sound": ("-", "#0072b2"), "published": (":", "#d55e00"), "lower": ("--", "#009e73")}
        for name, (style, colour) in {**styles, self.bound: styles.get(self.bound, ("-.", "#cc79a7"))}.items():
            if name in ("sound", self.bound) or name in known:
                found = delta_at(self.x, self.n, grid, bound=name)
                values = found.lower if name == "lower" else found.upper
                shown = np.where(values > 0, values, np.nan)
                ax.plot(grid, shown, style, color=colour, label=f"{name} ({'lower' if name == 'lower' else 'upper'} bound)")
        for i, w in enumerate(self.ways):
            place = self.eps + 0.012 * grid[-1] * (i - (len(self.ways) - 1) / 2)
            bars = [[max(w.delta - w.low, 0.0)], [max(w.high - w.delta, 0.0)]]
            ax.errorbar(
                [place], [max(w.delta, 1e-300)], yerr=bars, fmt="osD^"[i % 4], color="black", mfc="none", capsize=3, label=w.way
            )
        least = min([self.claimed, *(w.delta for w in self.ways if w.delta > 0)])
        name = textwrap.fill(repr(self.x), TITLE_WIDTH)
        ax.set(
            yscale="log", xlabel="central eps", ylabel="delta", title=f"{name}\n{self.n:,} users; {self.bound}: {self.verdict}"
        )
        ax.set_ylim(bottom=max(least * 1e-3, 1e-300), top=1.5)
        ax.grid(visible=True, color="#dddddd", linewidth=0.6)
        ax.figure.legend(loc="outside right upper", frameon=False, fontsize="small")
        return ax


def audit(
    x: Randomizer | Protocol,
    n: int,
    eps: float | None = None,
    *,
    delta: float | None = None,
    others: Any = "worst",
    bound: str = "sound",
    ways: tuple[str, ...] = WAYS,
    trials: int = 10_000,
    confidence: float = 0.999999,
    seed: int = 0,
    shuffler: Shuffler | None = None,
) -> Audit:
    """Is a claimed upper bound above the truth?

    Parameters
    ----------
    x : Randomizer or Protocol
        What is audited; your own class too.
    n : int
        Number of users.
    eps : float
        Where the claimed delta is compared with what is found; in nats, >= 0.
    delta : float, optional
        Instead of eps: it is looked at the eps at which the bound claims this delta.
    others : "worst" or a value
        What the other users hold: everything that each way can look at, or all of them this one value.
    bound : str
        The claimed bound, an upper one; "published" is one that can be violated.
    ways : tuple of str
        Which of `WAYS` to go: "enumeration" of all shuffled multisets (small laws, few users), "homogeneous" data in exact
        form, by "importance sampling" (any n, any delta), and "runs" of the protocol, from which a classifier or a known
        likelihood ratio picks an event. What does not apply is named in the result.
    trials : int
        Runs with each of two data sets, >= 100; the importance sampling takes its own number of draws.
    confidence : float
        Of each way that is not exact; the default makes a false alarm as unlikely as 1e-6.
    seed : int
        Of all random numbers.
    shuffler : Shuffler, optional
        Of the runs: another one than the trusted shuffler, to be audited with the rest.

    Returns
    -------
    Audit
        Claim, estimates with intervals, and the verdict "consistent", "violated" or "cannot tell at this many trials".

    Raises
    ------
    ValueError
        For an argument out of its range, or a bound that is no upper one.

    Examples
    --------
    The published bound of randomized response on 3 options, 3 users, e^eps0 = 3, at e^eps = 2:

    >>> from shufflesim.mechanisms import GRR
    >>> found = audit(GRR(math.log(3), 3), 3, math.log(2), bound="published", ways=("enumeration",))
    >>> found.verdict, round(found.ways[0].delta, 9), round(found.claimed, 9)
    ('violated', 0.08, 0.072)
    >>> audit(GRR(math.log(3), 3), 3, math.log(2), ways=("enumeration",)).verdict
    'consistent'
    """
    if not isinstance(x, (Randomizer, Protocol)):
        raise ValueError(f"x must be a Randomizer or a Protocol, got {x!r}")
    if (eps is None) == (delta is None):
        raise ValueError(f"exactly one of eps and delta must be given, got eps={eps!r}, delta={delta!r}")
    if not isinstance(ways, (tuple, list)) or not ways or any(w not in WAYS for w in ways):
        raise ValueError(f"ways must be a tuple of some of {', '.join(WAYS)}, got {ways!r}")
    if shuffler is not None and not isinstance(shuffler, Shuffler):
        raise ValueError(f"shuffler must be a Shuffler, got {shuffler!r}")
    n = check_users(n)
    trials = check_integer("trials", trials, low=100)
    confidence = check_number("confidence", confidence, "in (0, 1)", low=math.nextafter(0, 1), high=math.nextafter(1, 0))
    seed = check_integer("seed", seed, low=0)
    if eps is None:
        assert delta is not None
        eps = float(epsilon_at(x, n, delta, bound=bound))
        if not eps < math.inf:
            raise ValueError(f"delta must be reached by the bound {bound!r} at a finite eps, got {delta!r}")
    claim = delta_at(x, n, check_number("eps", eps, "a finite number >= 0", low=0.0), bound=bound)
    if claim.side != "upper":
        raise ValueError(f"bound must be an upper bound, got {bound!r}")
    subject = _Subject(SingleMessage(x) if isinstance(x, Randomizer) else x, n, float(eps), others)
    makers: dict[str, Callable[[], Iterator[Way]]] = {
        "enumeration": subject.enumerated,
        "homogeneous": subject.homogeneous,
        "importance sampling": lambda: subject.sampled(np.random.default_rng([seed, 1]), confidence),
        "runs": lambda: subject.run(np.random.default_rng([seed, 2]), trials, confidence, shuffler),
    }
    found: list[Way] = []
    skipped: list[str] = []
    for way in ways:
        try:
            found.extend(makers[way]())
        except _Skip as reason:
            skipped.append(f"{way}: {reason}")
    return Audit(x, n, float(eps), bound, claim, tuple(found), tuple(skipped), confidence)


class _Skip(Exception):  # noqa: N818
    """Why a way cannot be gone."""


@dataclass(frozen=True)
class _Subject:
    protocol: Protocol
    n: int
    eps: float
    others: Any

    def __post_init__(self) -> None:
        if not self.worst:
            self._held()

    @property
    def worst(self) -> bool:
        return isinstance(self.others, str) and self.others == "worst"

    def _held(self) -> Array:
        """What all others hold, if that was said."""
        try:
            return self.protocol.domain.validate(np.asarray([self.others]))[0]
        except ValueError as error:
            rule = f"others must be 'worst' or a value of {self.protocol.domain!r}"
            raise ValueError(f"{rule}, got {self.others!r} ({error})") from None

    def enumerated(self) -> Iterator[Way]:
        """All data sets, or all others with one value."""
        started = time.perf_counter()
        law = self.protocol.randomizer.channel() if isinstance(self.protocol, SingleMessage) else None
        if law is None or not isinstance(self.protocol, SingleMessage):
            raise _Skip("no law that is a small matrix")
        law = np.asarray(law, dtype=float)
        inputs, outcomes = law.shape
        sets = math.comb(self.n + inputs - 2, inputs - 1) if self.worst else 1
        cells = math.comb(self.n + outcomes - 1, outcomes - 1) * sets * inputs
        if cells > ENUMERATION_CELLS:
            raise _Skip(f"more than {ENUMERATION_CELLS:,} multisets in all data sets of {self.n:,} users")
        held = None if self.worst else [self._row(len(law))] * (self.n - 1)
        try:
            found = Enumeration(law / law.sum(axis=1, keepdims=True), self.n).worst(self.eps, others=held)
        except ValueError as error:
            raise _Skip(str(error)) from None
        value = float(found.delta)
        held_by = "all data sets" if self.worst else "the data set asked for"
        names = np.asarray(self.protocol.randomizer.inputs()).tolist()
        others = ", ".join(f"{found.others.count(x)} x {names[x]}" for x in sorted(set(found.others)))
        note = f"worst of {held_by}: user 1 holds {names[found.x0]} or {names[found.x1]}, the others {others or 'are none'}"
        taken = time.perf_counter() - started
        yield Way("enumeration", value, max(0.0, value - found.error), value + found.error, True, note, taken)

    def _row(self, inputs: int) -> int:
        assert isinstance(self.protocol, SingleMessage)
        values = np.asarray(self.protocol.randomizer.inputs())
        same = (values.reshape(inputs, -1) == self._held().reshape(1, -1)).all(axis=1)
        if not same.any():
            raise _Skip(f"others = {self.others!r} is no row of the law")
        return int(np.argmax(same))

    def homogeneous(self) -> Iterator[Way]:
        """The claim "lower": a divergence that is attained."""
        started = time.perf_counter()
        claim = self._lower()
        low, high, _ = claim.value.delta(self.eps, 1e-9)
        yield Way("homogeneous", 0.5 * (low + high), low, high, True, claim.note, time.perf_counter() - started)

    def _lower(self) -> Claim:
        claim = next((c for c in claims_of(self.protocol, Crowd(self.n)) if c.bound == "lower"), None)
        if claim is None:
            raise _Skip("no data set whose divergence is known")
        if not self.worst:
            raise _Skip("it looks at several inputs of the others, others must be 'worst'")
        return claim

    def sampled(self, rng: np.random.Generator, confidence: float) -> Iterator[Way]:
        """The table of the claim "lower" that is worst at this eps."""
        started = time.perf_counter()
        claim = self._lower()
        value = claim.value
        if not isinstance(value, Pairs):
            raise _Skip("the lower bound is no table")
        if max(t.size for t in value.tables) > ROWS:
            raise _Skip(f"the table has more than {ROWS:,} rows")
        both = [t for table in value.tables for t in ([table] if table.symmetric else [table, table.swapped()])]
        logs = [Divergence(t, value.count).log_enclosure(self.eps, COMPARE_RTOL)[1] for t in both] if len(both) > 1 else [0.0]
        worst = both[int(np.argmax(logs))]
        found = tilted_estimate(worst, value.count, self.eps, rng, trials=DRAWS, confidence=confidence)
        # Of a continuous law the table is a coarser one, whose divergence is smaller; and it comes from a quadrature.
        error = value.accuracy * (1 + math.exp(min(self.eps, EPSILON_MAX)))
        note = f"{claim.note}; {found.trials:,} draws worth {found.effective:,.0f} equal ones"
        note += "; outcomes in bins" if value.above is not None else ""
        note += f"; WARNING: {found.warning}" if found.warning else ""
        taken = time.perf_counter() - started
        yield Way("importance sampling", found.delta, max(0.0, found.low - error), found.high + error, False, note, taken)

    def run(self, rng: np.random.Generator, trials: int, confidence: float, shuffler: Shuffler | None) -> Iterator[Way]:
        """The protocol itself on two data sets."""
        started = time.perf_counter()
        first, second, other = extremes(self.protocol.domain)
        if not self.worst:
            other = self._held()
        one, two = (np.concatenate([[value], np.repeat(other[None], self.n - 1, axis=0)]) for value in (first, second))
        numbers = self.n * max(self.protocol.messages_per_user, self.protocol.width)
        if numbers <= RUN_NUMBERS:
            numbers += np.asarray(self.protocol.aggregate(self.protocol.encode(one, rng).messages)).size
        if 2 * trials * numbers > RUN_NUMBERS:
            raise _Skip(f"more than {RUN_NUMBERS:,} numbers in {trials:,} runs of {self.n:,} users")
        try:
            found = black_box(
                self.protocol,
                one,
                two,
                self.eps,
                rng,
                trials=trials,
                confidence=confidence,
                statistic=self._likelihood(first, second, other),
                shuffler=shuffler,
            )
        except ImportError as error:
            raise _Skip(str(error)) from None
        note = f"user 1 holds {first.tolist()} or {second.tolist()}, all others {other.tolist()}; {trials:,} runs each"
        taken = time.perf_counter() - started
        yield Way("runs", max(found.delta, 0.0), found.low, max(found.high, 0.0), False, note, taken)

    def _likelihood(self, first: Array, second: Array, other: Array) -> Statistic | None:
        """The likelihood ratio of the multiset where the analyzer's sums are its counts."""
        law = self.protocol.histogram_law()
        if law is None or not isinstance(self.protocol.domain, Categories) or not (law > 0).all():
            return None
        ratios = law[[int(first), int(second)]] / law[int(other)]

        def statistic(sums: Array) -> Array:
            # A class whose sums are not what its law says is not judged by it.
            if sums.shape[1] != ratios.shape[1] or not (sums @ ratios.T > 0).all():
                return np.zeros(len(sums))
            found: Array = np.log(sums @ ratios[0]) - np.log(sums @ ratios[1])
            return found

        return statistic


def extremes(domain: Domain) -> tuple[Array, Array, Array]:
    """Two values that are far apart, and one for all others."""
    values: list[Any]
    if isinstance(domain, Categories):
        values = [0, domain.d - 1, domain.d // 2 if domain.d > 2 else 0]
    elif isinstance(domain, Sets):
        codes = np.arange(domain.d)
        values = [codes[: domain.s], codes[-domain.s :], codes[: domain.s]]
    elif isinstance(domain, KeyValues):
        keys = np.arange(domain.d)
        values = [np.stack([k, np.full(domain.s, v)], axis=1) for k, v in ((keys[: domain.s], 1.0), (keys[-domain.s :], -1.0))]
        values.append(values[0])
    elif isinstance(domain, UnitVectors):
        unit = np.eye(domain.dim)[0]
        values = [unit, -unit, unit]
    elif isinstance(domain, Points):
        (left, right), (bottom, top) = domain.region.limits
        values = [[left, bottom], [right, top], [left, bottom]]
    else:
        # The first two examples of numbers are the ends of their range.
        values = list(domain.example(2, np.random.default_rng(0))[[0, 1, 0]])
    first, second, other = domain.validate(np.asarray(values))
    return first, second, other
