"""What is printed: tables, numbers that stay on their side of the truth, JSON, progress."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

# Exponents up to which a number is written without one.
PLAIN_EXPONENTS = range(-5, 16)


def directed(value: float, *, up: bool, digits: int = 6) -> str:
    """A number in at most `digits` significant digits, rounded up or down, never past the value.

    A bound that is rounded to the nearest may end up on the wrong side of what was proved.

    Parameters
    ----------
    value : float
        May be infinite or NaN.
    up : bool
        True gives a text >= value (for upper bounds), False one <= value (for lower bounds).
    digits : int
        Significant digits; trailing zeros are left out.

    Examples
    --------
    >>> directed(0.12345678, up=True), directed(0.12345678, up=False), directed(2.0, up=True)
    ('0.123457', '0.123456', '2')
    """
    if not math.isfinite(value):
        return str(value)
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value)).normalize()
    return f"{rounded:f}" if rounded.adjusted() in PLAIN_EXPONENTS else f"{rounded:e}"


def printable(value: Any) -> str:
    """Text of a label; what could steer a terminal is shown as an escape."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def table(*columns: str, numeric: tuple[str, ...] = (), title: str | None = None, caption: str | None = None) -> Table:
    """An empty table; columns named in `numeric` are right-aligned and never broken."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title=title, caption=caption, title_justify="left", caption_justify="left")
    made.title_style, made.caption_style, made.pad_edge = "bold", "dim", False
    for name in columns:
        if name in numeric:
            made.add_column(name, justify="right", no_wrap=True)
        else:
            made.add_column(name, overflow="fold")
    return made


def show(*items: RenderableType) -> None:
    """Print to stdout, as wide as the terminal (or COLUMNS, or 80)."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        for item in items:
            console.print(item)
    # Written here and not by the console, which would hide a closed pipe.
    lines = (line.rstrip() for line in captured.get().splitlines())
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def show_json(document: Any) -> None:
    """Print one JSON document; infinities and NaN, which JSON lacks, are written as text."""
    sys.stdout.write(json.dumps(_finite(document), indent=2, allow_nan=False, default=str) + "\n")


def _finite(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _finite(value) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_finite(value) for value in item]
    return str(item) if isinstance(item, float) and not math.isfinite(item) else item


@contextmanager
def progress(task: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr if that is a terminal; the callback takes what is done so far. Without a total it only pulses."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bar:
        identity = bar.add_task(task, total=total)
        yield lambda done: bar.update(identity, completed=done)
