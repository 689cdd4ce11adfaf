"""`shufflesim list`: what is installed."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

import click

from .arguments import json_option
from .output import show, show_json, stacked, width
from .shell import refusing


@click.command("list")
@click.argument("name", required=False)
@json_option
def list_(name: str | None, as_json: bool) -> None:
    """List mechanisms and protocols with their parameters.

    With NAME, say what this one does, what its parameters mean and which paper it is from.

    \b
    Examples:
      shufflesim list
      shufflesim list recursive-sum
      shufflesim list --json
    """
    from shufflesim import catalogue

    if name is not None:
        with refusing():
            entry = catalogue.find(name)
        if as_json:
            show_json(_describe(name, _kind(entry), entry) | {"text": inspect.getdoc(entry)})
        else:
            module = entry.__module__.rpartition(".")[0]
            click.echo(f"{name}: the {_kind(entry)} {module}.{entry.__name__}\n\n{_prose(entry)}")
        return
    rows = [
        _describe(name, kind, entry)
        for kind, entries in (("mechanism", catalogue.mechanisms()), ("protocol", catalogue.protocols()))
        for name, entry in entries.items()
    ]
    if as_json:
        show_json(rows)
        return
    room = width() - 2
    shown = [(row["name"], row["kind"], ", ".join(_shown(p) for p in row["parameters"])) for row in rows]
    summaries = [textwrap.shorten(row["summary"], room, placeholder=" ...") for row in rows]
    show(stacked(["name", "kind", "parameters"], shown, summaries))


def _describe(name: str, kind: str, entry: Any) -> dict[str, Any]:
    from shufflesim import catalogue

    parameters = catalogue.parameters(entry)
    example = next(entry.examples(), None)
    domain = ""
    if example is not None:
        domain = _first_line(type(example.domain)).partition(";")[0]
        if "d" not in parameters and hasattr(example.domain, "d"):
            domain += f" (d = {example.domain.d})"
    return {
        "name": name,
        "kind": kind,
        "summary": _first_line(entry),
        "domain": domain,
        "parameters": [
            {"name": key, "required": p.default is inspect.Parameter.empty}
            | ({} if p.default is inspect.Parameter.empty else {"default": p.default})
            for key, p in parameters.items()
        ],
    }


def _kind(entry: Any) -> str:
    from shufflesim import Protocol

    return "protocol" if issubclass(entry, Protocol) else "mechanism"


def _prose(entry: Any) -> str:
    """The docstring without what only Python needs: what is raised, examples."""
    sections = re.split(r"\n\n(?=[A-Z][a-z]+\n-{3,}\n)", inspect.getdoc(entry) or "")
    return "\n\n".join(s for s in sections if s.partition("\n")[0] not in ("Raises", "Examples")).rstrip()


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0].rstrip(".")


def _shown(parameter: dict[str, Any]) -> str:
    """A parameter with its default, as it would be typed after `-p`."""
    if parameter["name"] == "randomizers":
        return "randomizers (in Python only)"
    if parameter["required"]:
        return str(parameter["name"])
    return f"{parameter['name']}={'none' if parameter['default'] is None else parameter['default']}"
