"""One point of the grid: a protocol on n users' data, once."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from .. import catalogue
from .._identity import digest, library_code, source_of
from .._resumable import Rows
from .._version import __version__
from ..bounds import Claim, Crowd, bound_table
from ..domains import KeyValues, Sets
from ..protocol import Protocol
from ..protocols import SingleMessage
from ..randomizer import Randomizer
from ..simulation import Method, simulate
from .values import Data, canonical

if TYPE_CHECKING:
    import pandas as pd

SUMMARY, ESTIMATES = "summary", "estimates"
# Hexadecimal digits of a seed, which a column of 64-bit integers holds.
SEED_DIGITS = 15
# Bounds and hashes of code that a process keeps: what costs the most is the same in all repeats.
KEPT = 256


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes
    ----------
    name : str
        Of the protocol in the catalogue.
    arguments : mapping
        Its parameters, those that follow from the data included.
    protocol : Protocol
        Built from them.
    data : Generated or Table
        Where values come from.
    n, delta, repeat, seed, method
        Users, probability, number of the repeat, seed of the file, method of `simulate`.
    each : {"summary", "estimates"}
        What a row is.
    """

    name: str
    arguments: Mapping[str, Any]
    protocol: Protocol
    data: Data
    n: int
    delta: float
    repeat: int
    seed: int
    method: Method
    each: str

    @cached_property
    def key(self) -> str:
        """Hash of all that the rows depend on, the code included."""
        return digest(*self._content, self.delta, self.each, self.code)

    @property
    def code(self) -> str:
        """Hash of the library and of what defines the protocol."""
        return _code(self.protocol)

    @property
    def _content(self) -> tuple[Any, ...]:
        """What the run depends on, numbers in one spelling."""
        arguments = {key: canonical(value) for key, value in sorted(self.arguments.items())}
        return self.seed, self.name, arguments, canonical(self.data.said), self.n, self.repeat, self.method

    @property
    def run_seed(self) -> int:
        """Seed of the run: from the file's seed and what is run, but not from what else is in the file."""
        return int(digest("run", *self._content, self.delta)[:SEED_DIGITS], 16)

    @property
    def data_seed(self) -> int:
        """Seed of the data: that of all protocols on n users of these data."""
        return int(digest("data", self.seed, canonical(self.data.said), self.n, self.repeat)[:SEED_DIGITS], 16)

    def rows(self) -> Rows:
        """Run it."""
        try:
            return self._run()
        except ValueError as error:
            where = f"{self.protocol.name} on {self.data.label}, n = {self.n:,}, delta = {self.delta:g}, repeat {self.repeat}"
            raise ValueError(f"{error} (in {where})") from error

    def _run(self) -> Rows:
        started = time.perf_counter()
        values = self.data.draw(self.n, self.data_seed, numbers=takes_numbers(self.protocol))
        result = simulate(self.protocol, fitting(values, self.protocol), delta=self.delta, seed=self.run_seed, method=self.method)
        if self.each == ESTIMATES:
            found = result.estimates.assign(value=[str(value) for value in result.estimates["value"]]).to_dict("records")
        else:
            # Where the property keeps it: it depends on no random number.
            vars(result)["privacy"] = _privacy(self.protocol, self.n, self.delta)
            found = result.summary.rename(columns={"protocol": "subject"}).to_dict("records")
        same = self._same() | {"seconds": time.perf_counter() - started}
        return [{**same, **{str(name): value for name, value in row.items()}} for row in found]

    def _same(self) -> dict[str, Any]:
        """What is the same in all rows."""
        return {
            "protocol": self.name,
            "parameters": json.dumps({key: canonical(value) for key, value in self.arguments.items()}),
            "data": self.data.label,
            "data_parameters": json.dumps({key: canonical(value) for key, value in self.data.said.items()}),
            "n": self.n,
            "delta": self.delta,
            "method": self.method,
            "repeat": self.repeat,
            "seed": self.seed,
            "run_seed": self.run_seed,
            "data_seed": self.data_seed,
            "version": __version__,
        }


@lru_cache(maxsize=KEPT)
def _code(protocol: Protocol) -> str:
    inner = protocol.randomizer if isinstance(protocol, SingleMessage) else protocol
    return library_code(*source_of(inner))


@lru_cache(maxsize=KEPT)
def _privacy(protocol: Protocol, n: int, delta: float) -> pd.DataFrame:
    return bound_table(_Summarised(protocol), n, delta)


@dataclass(frozen=True)
class _Summarised:
    """A protocol with only those bounds from which a summary is made."""

    protocol: Protocol

    @property
    def local_epsilon(self) -> float:
        return self.protocol.local_epsilon

    def claims(self, crowd: Crowd) -> list[Claim]:
        return [c for c in self.protocol.claims(crowd) if c.side == "lower" or (c.sound and not c.baseline)]


def takes_numbers(subject: Randomizer | Protocol) -> bool:
    """Whether users hold numbers (or keys that are integers, with values), and not labels."""
    return subject.domain.target == "mean" or isinstance(subject.domain, KeyValues)


def fitting(values: Any, protocol: Protocol) -> Any:
    """The values in the shape of the domain, where that is a matrix of numbers."""
    shape = protocol.domain.shape
    return (
        values.reshape(-1, *shape) if len(shape) > 1 and values.ndim == 2 and values.shape[1] == shape[0] * shape[1] else values
    )


def filled(entry: catalogue.Entry, arguments: Mapping[str, Any], data: Data, n: int) -> dict[str, Any]:
    """Parameters, with those that follow from the data where they were not given: d, s, dim, users."""
    known = catalogue.parameters(entry)
    example = next(entry.examples(), None)
    found: dict[str, Any] = {}
    if example is not None and "d" in known and "d" not in arguments and not takes_numbers(example):
        labels = data.categories
        # An optional d stands for bits where it is left out.
        if labels is not None and (known["d"].default is inspect.Parameter.empty or labels > 2):
            found["d"] = labels
    if "dim" in known and (data.width > 1 or known["dim"].default is inspect.Parameter.empty):
        found["dim"] = data.width
    if "s" in known and example is not None and isinstance(example.domain, Sets | KeyValues):
        found["s"] = data.width if isinstance(example.domain, Sets) else max(1, data.width // 2)
    if "users" in known:
        found["users"] = n
    return {**found, **arguments}


def built(entry: catalogue.Entry, name: str, arguments: Mapping[str, Any]) -> Protocol:
    """The protocol of these parameters.

    Raises
    ------
    ValueError
        For a parameter that is unknown, missing or out of its range.
    """
    try:
        made = catalogue.call(entry, name, {key: tuple(v) if isinstance(v, list) else v for key, v in arguments.items()})
    except TypeError as error:
        raise ValueError(f"{name} cannot be built: {error}") from None
    return SingleMessage(made) if isinstance(made, Randomizer) else made


def check(protocol: Protocol, data: Data, n: int, method: Method) -> None:
    """Whether a run on these data can begin: all values are looked at, and two users run.

    Raises
    ------
    ValueError
        If a value is outside the domain, or the method is not for this protocol.
    """
    values = fitting(data.extremes(n, numbers=takes_numbers(protocol)), protocol)
    protocol.domain.validate(protocol.domain.collect(values))
    simulate(protocol, values[:2], delta=0.5, seed=0, method=method)
