"""`shufflesim list`: what is installed."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import click

from .arguments import json_option
from .output import show, show_json, stacked, width


@click.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List mechanisms and protocols with their parameters.

    \b
    Example:
      shufflesim list --json
    """
    from shufflesim import catalogue

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


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0].rstrip(".")


def _shown(parameter: dict[str, Any]) -> str:
    """A parameter with its default, as it would be typed after `-p`."""
    if parameter["name"] == "randomizers":
        return "randomizers (in Python only)"
    if parameter["required"]:
        return str(parameter["name"])
    return f"{parameter['name']}={'none' if parameter['default'] is None else parameter['default']}"
