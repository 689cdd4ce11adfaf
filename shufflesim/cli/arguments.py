"""Options that several commands take, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click


class Users(click.ParamType):
    """A number of users, 1e6 and the like included; the library judges its range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """An integer where the text is one, else a float."""
        try:
            return int(value)
        except ValueError:
            pass
        try:
            number = float(value)
        except ValueError:
            self.fail(f"must be a number such as 10000 or 1e6, got {value!r}", param, ctx)
        return int(number) if number.is_integer() else number


class Size(click.ParamType):
    """A number of bytes such as 256MB (10^6 each) or 256MiB (2^20 each)."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """An integer; the library judges its range."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([kmgt])(i?))?b?", value.strip().lower())
        if found is None:
            self.fail(f"must be a size such as 256MB or 2GiB, got {value!r}", param, ctx)
        number, prefix, binary = found.groups()
        power = 0 if prefix is None else 1 + "kmgt".index(prefix)
        return int(Decimal(number) * (1024 if binary else 1000) ** power)


class Folder(click.Path):
    """A folder for results; an empty name, which would be the current one, is a mistake (an unset variable, say)."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A path."""
        if value == "":
            self.fail("must be the name of a folder, got ''", param, ctx)
        return super().convert(value, param, ctx)


def read_value(text: str) -> Any:
    """Int, float (inf and nan too), None for "none", else the text itself; a tuple of these where there are commas."""
    if "," in text:
        return tuple(read_value(part) for part in text.split(",") if part)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text.lower() == "none" else text


def _read_parameters(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise click.BadParameter(f"must be key=value such as epsilon=2, got {pair!r}", ctx, param)
        if key in found:
            raise click.BadParameter(f"must give each key once, got {key!r} twice", ctx, param)
        found[key] = read_value(text)
    return found


parameters_option = click.option(
    "-p",
    "--param",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_read_parameters,
    help="Parameter of the constructor (int, float, inf, none, text, or several with commas); repeat for each.",
)
workers_option = click.option("--workers", type=int, default=1, show_default=True, help="Processes; no effect on the result.")
scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Dask scheduler, such as tcp://host:8786, whose workers do it; no effect on the result.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")


def crowd_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Who takes part: --n-honest, --dropout, --sampling."""
    options = (
        click.option("--n-honest", type=Users(), help="Users that follow the protocol; the others hide nobody.  [default: all]"),
        click.option("--dropout", type=float, default=0.0, help="Probability that another user sends nothing."),
        click.option("--sampling", type=float, default=1.0, help="Probability that a user is asked to take part."),
    )
    for option in reversed(options):
        command = option(command)
    return command
