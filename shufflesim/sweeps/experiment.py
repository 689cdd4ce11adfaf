"""The file of a sweep: read, checked as a whole before anything runs, and expanded to tasks."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import catalogue
from .._checks import check_delta, check_integer, check_users, nearest
from ..protocol import Protocol
from .task import ESTIMATES, SUMMARY, Task, built, check, filled
from .values import Data, data_of

# Keys at the top of the file, and those that must be there.
KNOWN = ("seed", "n", "delta", "repeats", "method", "rows", "protocol", "data")
NEEDED = ("seed", "n", "delta", "protocol", "data")
METHODS, ROWS = ("users", "counts"), (SUMMARY, ESTIMATES)
# Values of all users are held.
USERS_MOST = 10**8
REPEATS_MOST = 10**6
# Tasks are held; a million take half a minute to plan and 1 GB.
TASKS_MOST = 10**6
SEED_MOST = 2**63 - 1
HEADER = re.compile(r"\s*\[\[?\s*\"?([\w-]+)\"?\s*\]")

Experiment = str | os.PathLike[str] | Mapping[str, Any]


@dataclass(frozen=True)
class Text:
    """The file, for messages.

    Attributes
    ----------
    name : str
        Of the file.
    lines : tuple of str
        Its lines; none for an experiment that is no file.
    """

    name: str
    lines: tuple[str, ...] = ()

    def at(self, table: str = "", number: int = 0, key: str = "") -> str:
        """The place of a key of the number-th [[table]], as far as it can be found: of its header, or of nothing."""
        section, seen, header, found = "", 0, 0, 0
        for line, text in enumerate(self.lines, start=1):
            if match := HEADER.match(text):
                section = match[1]
                found = found or (line if not table and section == key else 0)
                seen += section == table
                header = line if section == table and seen == number else header
            elif section == table and seen == number and key and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", text):
                found = found or line
        line = found or header
        where = f", line {line}" if line else ""
        return f"{self.name}{where}" + (f", [[{table}]] {number}" if table else "")

    def refuse(self, message: Any, table: str = "", number: int = 0, key: str = "") -> ValueError:
        """What is raised; without a key, the line is that of the one that the message begins with."""
        said = " ".join(str(message).split())
        begins = re.search(r"[\w-]+", said.removeprefix("parameter "))
        return ValueError(f"{self.at(table, number, key or (begins[0] if begins else ''))}: {said}")


def plan(experiment: Experiment) -> list[Task]:
    """All tasks of an experiment, each once; nothing runs.

    Parameters
    ----------
    experiment : path or mapping
        A TOML file, or what is in one. A list stands for all of its values: every combination is a task.

    Returns
    -------
    list of Task
        Protocol by protocol, repeats next to each other.

    Raises
    ------
    ValueError
        For anything wrong anywhere in the file, in one line that names the place: an unknown key, a value out of its range, a
        protocol that cannot be built, data outside its domain.

    Examples
    --------
    >>> said = {"seed": 1, "n": [100, 1000], "delta": 1e-6, "data": [{"generator": "zipf", "d": 8, "exponent": [1.0, 2.0]}]}
    >>> len(plan(said | {"protocol": [{"name": "grr", "epsilon": [1.0, 2.0, 3.0]}], "repeats": 5}))
    60
    >>> plan(said | {"protocol": [{"name": "grr", "epsilom": 1.0}]})
    Traceback (most recent call last):
    ...
    ValueError: experiment, [[protocol]] 1: parameter 'epsilom' is unknown to grr; did you mean 'epsilon'?
    """
    said, text, folder = _loaded(experiment)
    for key in said:
        if key not in KNOWN:
            raise text.refuse(f"{key!r} is an unknown key; {nearest(str(key), KNOWN)}", key=str(key))
    for key in NEEDED:
        if key not in said:
            raise text.refuse(f"{key!r} must be given, got none")
    seed = _checked(text, "seed", lambda: check_integer("seed", said["seed"], low=0, high=SEED_MOST))
    repeats = _checked(text, "repeats", lambda: check_integer("repeats", said.get("repeats", 1), low=1, high=REPEATS_MOST))
    method, each = _one_of(text, said, "method", METHODS), _one_of(text, said, "rows", ROWS)
    sizes = [
        _checked(text, "n", lambda n=n: check_integer("n", check_users(n), low=1, high=USERS_MOST))
        for n in _listed(text, said, "n")
    ]
    deltas = [_checked(text, "delta", lambda d=d: check_delta(d)) for d in _listed(text, said, "delta")]
    tasks = len(sizes) * len(deltas) * repeats * _combinations(text, said, "protocol") * _combinations(text, said, "data")
    if tasks > TASKS_MOST:
        raise text.refuse(f"an experiment must have at most {TASKS_MOST:,} tasks, got {tasks:,}")
    data = [_data(text, number, entry, folder) for number, entry in _grid(text, said, "data")]

    found: dict[str, Task] = {}
    # Looking a name up reads what is installed, building can search for optimal parameters: once each.
    find = lru_cache(maxsize=None)(catalogue.find)
    made: dict[str, Protocol] = {}
    for number, entry in _grid(text, said, "protocol"):
        name = entry.pop("name", None)
        if not isinstance(name, str):
            raise text.refuse(f"name must be given, a text such as 'grr', got {name!r}", "protocol", number, "name")
        try:
            maker = find(name)
        except ValueError as error:
            raise text.refuse(error, "protocol", number, "name") from None
        for n, which in itertools.product(sizes, data):
            try:
                arguments = filled(maker, entry, which, n)
                spelled = json.dumps([name, arguments], default=repr)
                if spelled not in made:
                    made[spelled] = built(maker, name, arguments)
                protocol = made[spelled]
            except ValueError as error:
                raise text.refuse(error, "protocol", number) from None
            try:
                check(protocol, which, n, method)
            except ValueError as error:
                raise text.refuse(f"{error} (data {which.label}, n = {n:,})", "protocol", number) from None
            for delta, repeat in itertools.product(deltas, range(repeats)):
                task = Task(name.lower(), arguments, protocol, which, n, delta, repeat, seed, method, each)
                found.setdefault(task.key, task)
    return [*found.values()]


def _loaded(experiment: Experiment) -> tuple[Mapping[str, Any], Text, Path]:
    """What is said, its text, and the folder that files are relative to."""
    if isinstance(experiment, Mapping):
        return experiment, Text("experiment"), Path()
    path = Path(experiment)
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return tomllib.loads(text), Text(str(path), tuple(text.splitlines())), path.parent
    except OSError as error:
        raise ValueError(f"experiment must be a readable file, got {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must be UTF-8 text, got {error.reason} at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None


def _checked(text: Text, key: str, rule: Any) -> Any:
    try:
        return rule()
    except ValueError as error:
        raise text.refuse(error, key=key) from None


def _one_of(text: Text, said: Mapping[str, Any], key: str, known: tuple[str, ...]) -> Any:
    value = said.get(key, known[0])
    if value not in known:
        raise text.refuse(f"{key} must be one of {', '.join(map(repr, known))}, got {value!r}", key=key)
    return value


def _listed(text: Text, said: Mapping[str, Any], key: str, table: str = "", number: int = 0) -> list[Any]:
    """The values of a key: a list stands for all in it."""
    value = said[key]
    if not isinstance(value, list | tuple):
        return [value]
    if not value:
        raise text.refuse(f"{key} must have at least one value, got an empty list", table, number, key)
    return [*value]


def _choices(text: Text, said: Mapping[str, Any], table: str) -> Iterator[tuple[int, dict[str, list[Any]]]]:
    """The number of each [[table]], and the values of its keys."""
    entries = said[table]
    if not isinstance(entries, list | tuple) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise text.refuse(f"{table} must be one or more [[{table}]] tables, got {entries!r}", key=table)
    for number, entry in enumerate(entries, start=1):
        for key in entry:
            if not isinstance(key, str):
                raise text.refuse(f"keys must be texts, got {key!r}", table, number)
        yield number, {key: _listed(text, entry, key, table, number) for key in entry}


def _combinations(text: Text, said: Mapping[str, Any], table: str) -> int:
    """How many there are in all of a [[table]]."""
    return sum(math.prod(map(len, choices.values())) for _, choices in _choices(text, said, table))


def _grid(text: Text, said: Mapping[str, Any], table: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every combination of the values in each [[table]], with the number of the table."""
    for number, choices in _choices(text, said, table):
        for values in itertools.product(*choices.values()):
            yield number, dict(zip(choices, values, strict=True))


def _data(text: Text, number: int, entry: Mapping[str, Any], folder: Path) -> Data:
    try:
        return data_of(entry, folder)
    except (ValueError, TypeError) as error:
        raise text.refuse(error, "data", number) from None
