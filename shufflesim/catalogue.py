"""What is installed: mechanisms and protocols, found through entry points so that other packages can add theirs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from ._checks import nearest
from .domains.points import Region
from .protocol import Protocol
from .randomizer import Randomizer

Entry = type[Randomizer] | type[Protocol]


def mechanisms() -> dict[str, type[Randomizer]]:
    """Randomizers by their command-line name."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group="shufflesim.mechanisms"), key=lambda e: e.name)}


def protocols() -> dict[str, type[Protocol]]:
    """Protocols by their command-line name."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group="shufflesim.protocols"), key=lambda e: e.name)}


def find(name: str) -> Entry:
    """The class behind a name.

    Raises
    ------
    ValueError
        For an unknown name; the message suggests the nearest.
    """
    known: dict[str, Entry] = {**mechanisms(), **protocols()}
    if name.lower() not in known:
        raise ValueError(f"mechanism must be a known name, got {name!r}; {nearest(name, known)}")
    return known[name.lower()]


def parameters(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a class, or of anything else that makes one, by name."""
    return dict(inspect.signature(maker).parameters)


def build(name: str, arguments: Mapping[str, Any]) -> Randomizer | Protocol:
    """Construct by name.

    Raises
    ------
    ValueError
        For an unknown name or parameter, a missing one, or a value out of its range.
    """
    made: Randomizer | Protocol = call(find(name), name, arguments)
    return made


def call(maker: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> Any:
    """Call what makes a mechanism or protocol with named arguments that have been checked.

    Raises
    ------
    ValueError
        For an unknown parameter, a missing one, or a value out of its range.
    """
    known = parameters(maker)
    if "randomizers" in known and not isinstance(arguments.get("randomizers"), tuple | list):
        how = f"{maker.__name__}([GRR(1.0, d=4), OUE(1.0, d=4)])"
        got = repr(arguments["randomizers"]) if "randomizers" in arguments else "none"
        raise ValueError(f"{name} must be built in Python from other randomizers, such as {how}, got {got}")
    takes = [k for k, p in known.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for argument in arguments:
        if takes and argument not in takes:
            raise ValueError(f"parameter {argument!r} is unknown to {name}; {nearest(argument, takes)}")
    missing = [k for k in takes if known[k].default is inspect.Parameter.empty and k not in arguments]
    if missing:
        raise ValueError(f"{name} needs the parameter {missing[0]!r}, which was not given")
    given = {
        key: Region.parse(value) if key == "region" and isinstance(value, str) else value for key, value in arguments.items()
    }
    return maker(**given)
