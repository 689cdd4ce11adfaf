"""What is printed: tables, numbers that stay on their side of the truth, JSON, progress."""

from __future__ import annotations

import datetime
import json
import math
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING, Any, Literal, Union

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table
    from rich.text import Text

Cell = Union[str, "Text"]

# Exponents up to which a number is written without one.
PLAIN_EXPONENTS = range(-5, 16)
# Seconds in which what is done already, such as results that are stored, is told.
AT_ONCE = 0.5


def number(value: float, side: Literal["upper", "lower"] | None = None, digits: int = 6) -> str:
    """A number in at most `digits` significant digits, rounded so that it stays on its side.

    A bound that is rounded to the nearest may end up on the wrong side of what was proved.

    Parameters
    ----------
    value : float
        May be infinite or NaN.
    side : {"upper", "lower"}, optional
        "upper" rounds up (the text is >= the value), "lower" rounds down; by default to the nearest.
    digits : int
        Significant digits.

    Examples
    --------
    >>> number(0.12345678, "upper"), number(0.12345678, "lower"), number(2.0, "upper")
    ('0.123457', '0.123456', '2')
    """
    if not math.isfinite(value):
        return str(value)
    rounding = {"upper": ROUND_CEILING, "lower": ROUND_FLOOR, None: ROUND_HALF_EVEN}[side]
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    return f"{rounded:f}" if rounded.adjusted() in PLAIN_EXPONENTS else f"{rounded:e}"


def printable(value: Any) -> str:
    """Text of a label; what could steer a terminal is shown as an escape."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def table(*columns: str, wrap: tuple[str, ...] = (), caption: str | None = None) -> Table:
    """An empty table; only the columns in `wrap` are broken into lines where the terminal is too narrow."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, caption=caption)
    made.caption_justify, made.caption_style = "left", "dim"
    for column in columns:
        made.add_column(column, no_wrap=column not in wrap, overflow="fold")
    return made


def stacked(titles: Sequence[str], rows: Iterable[Sequence[Cell]], notes: Iterable[str], right: Container[str] = ()) -> Group:
    """A table for narrow terminals: under each row a note over the whole width.

    Parameters
    ----------
    titles : sequence of str
        Of the columns; only the last one is broken into lines.
    rows : iterable of sequences of str or Text
        One cell a column.
    notes : iterable of str
        One a row.
    right : container of str
        Titles of the columns of numbers.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    lines = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]

    def grid(cells: Sequence[Cell]) -> Table:
        made = Table.grid(padding=(0, 2, 0, 0))
        for title, size in zip(titles, widths, strict=True):
            justify: Literal["left", "right"] = "right" if title in right else "left"
            last = title == titles[-1]
            made.add_column(min_width=None if last and not right else size, no_wrap=not last, justify=justify)
        made.add_row(*cells)
        return made

    parts: list[RenderableType] = [grid([Text(title, style="bold") for title in titles]), Rule(style="")]
    for line, note in zip(lines, notes, strict=True):
        parts += [grid(line), Padding.indent(Text(note, style="dim"), 2)]
    return Group(*parts)


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


def width() -> int:
    """Columns of the terminal (or COLUMNS, or 80)."""
    return _console().width


def show(*items: RenderableType) -> None:
    """Print to stdout, each item after an empty line but the first."""
    console = _console()
    with console.capture() as captured:
        for index, item in enumerate(items):
            if index:
                console.print()
            console.print(item)
    # Written here and not by the console, which would hide a closed pipe.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


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
def progress(task: str, total: int | None = None, unit: str = "") -> Iterator[Callable[[int], None]]:
    """A bar on stderr if that is a terminal; the callback takes what is done so far. Without a total it only pulses.

    With a `unit` there is also the rate, in units a second.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bar:
        identity = bar.add_task(task, total=total, rate="")
        started = since = time.monotonic()
        before = 0

        def update(done: int) -> None:
            nonlocal since, before
            now = time.monotonic()
            # A mean: of parts that several processes finish at the same time a momentary rate would say nothing.
            speed = (done - before) / max(now - since, 1e-3)
            if now - started < AT_ONCE:
                since, before = now, done
            told = [f"{speed:,.0f} {unit}/s"] if unit and speed else []
            if total and speed:
                told.append(f"{datetime.timedelta(seconds=round(max(0, total - done) / speed))} left")
            bar.update(identity, completed=done, rate=", ".join(told))

        yield update
