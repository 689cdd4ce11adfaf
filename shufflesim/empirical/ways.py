"""Four ways to the divergence of some data sets: enumeration, homogeneous data in exact form, importance sampling, and runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import EPSILON_MAX
from ..bounds import Claim, Crowd, Pairs, claims_of
from ..bounds.evaluate import Divergence
from ..domains import Array, Categories, Domain, KeyValues, Points, Sets, UnitVectors
from ..protocol import Protocol
from ..protocols import SingleMessage
from ..shuffler import Shuffler
from .black_box import Statistic, black_box
from .enumeration import Enumeration
from .rare_event import tilted_estimate

# Multisets times data sets up to which everything is enumerated without being asked.
ENUMERATION_CELLS = 2_000_000
# Random numbers (or messages) and sums of all runs of a protocol, beyond which they are not made.
RUN_NUMBERS = 100_000_000
# Importance-sampled draws, and rows of the table up to which they are made.
DRAWS, ROWS = 50_000, 1000
# Relative width that is enough to tell which of several tables is the worst.
COMPARE_RTOL = 1e-3
WAYS = ("enumeration", "homogeneous", "importance sampling", "runs")
RUNS = WAYS[-1]
VIOLATED, CONSISTENT, OPEN = "violated", "consistent", "cannot tell at this many trials"


@dataclass(frozen=True)
class Way:
    """One way to the divergence of some data sets.

    Attributes
    ----------
    way : str
        One of `WAYS`.
    delta, low, high : float
        Value or estimate, and its enclosure or confidence interval; runs have only a lower end, and high = 1.
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


class Skip(Exception):  # noqa: N818
    """Why a way cannot be gone."""


@dataclass(frozen=True)
class Subject:
    """A protocol for n users, at one eps; each method is a way, which raises `Skip` where it cannot be gone."""

    protocol: Protocol
    n: int
    eps: float
    others: Any

    def __post_init__(self) -> None:
        if not self.worst:
            self._held()

    @property
    def worst(self) -> bool:
        """Whether all data sets are meant."""
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
            raise Skip("no law that is a small matrix")
        law = np.asarray(law, dtype=float)
        inputs, outcomes = law.shape
        sets = math.comb(self.n + inputs - 2, inputs - 1) if self.worst else 1
        cells = math.comb(self.n + outcomes - 1, outcomes - 1) * sets * inputs
        if cells > ENUMERATION_CELLS:
            raise Skip(f"more than {ENUMERATION_CELLS:,} multisets in all data sets of {self.n:,} users")
        held = None if self.worst else [self._row(len(law))] * (self.n - 1)
        try:
            found = Enumeration(law / law.sum(axis=1, keepdims=True), self.n).worst(self.eps, others=held)
        except ValueError as error:
            raise Skip(str(error)) from None
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
            raise Skip(f"others = {self.others!r} is no row of the law")
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
            raise Skip("no data set whose divergence is known")
        if not self.worst:
            raise Skip("it looks at several inputs of the others, others must be 'worst'")
        return claim

    def sampled(self, rng: np.random.Generator, confidence: float) -> Iterator[Way]:
        """The table of the claim "lower" that is worst at this eps."""
        started = time.perf_counter()
        claim = self._lower()
        value = claim.value
        if not isinstance(value, Pairs):
            raise Skip("the lower bound is no table")
        if max(t.size for t in value.tables) > ROWS:
            raise Skip(f"the table has more than {ROWS:,} rows")
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
        numbers = self.n * max(self.protocol.messages_per_user, self.protocol.width)
        too_long = Skip(f"more than {RUN_NUMBERS:,} numbers in {trials:,} runs of {self.n:,} users")
        if 2 * trials * numbers > RUN_NUMBERS:
            raise too_long
        one, two = (np.concatenate([[value], np.repeat(other[None], self.n - 1, axis=0)]) for value in (first, second))
        numbers += np.asarray(self.protocol.aggregate(self.protocol.encode(one, rng).messages)).size
        if 2 * trials * numbers > RUN_NUMBERS:
            raise too_long
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
            raise Skip(str(error)) from None
        note = f"user 1 holds {first.tolist()} or {second.tolist()}, all others {other.tolist()}; {trials:,} runs each; "
        note += "a lower bound: no runs can show that delta is smaller"
        taken = time.perf_counter() - started
        yield Way("runs", found.delta, found.low, 1.0, False, note, taken)

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
