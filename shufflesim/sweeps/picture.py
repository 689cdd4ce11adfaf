"""One number of a sweep against another."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import nearest
from ..plots import COLOURS, COLUMNS, LEGEND_INCHES, LEGEND_WIDTH, PANEL_INCHES, POINT_MARKERS, shortened
from ..results import drawable
from . import reading, store

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Line styles, so that print is enough.
STYLES = ("-", "--", ":", "-.")
# Positive numbers whose largest is this many times the smallest are drawn on a logarithmic scale.
WIDE = 10.0
# Below this many powers of ten an axis has ticks at 1, 2 and 5 times them.
DECADES = 2.0
# Lines and panels that can be told apart.
MOST = 24
# What is no result: where rows of one mark differ in it, the picture says so. Parameters belong to it too.
TOLD = ("protocol", "data", "n", "delta", "method", "seed", "value", "version", "code")


def plot(table: pd.DataFrame, x: str, y: str, *, hue: str | None = None, facet: str | None = None) -> Figure:
    """Draw a column against another: medians over the runs, bars from the smallest to the largest.

    Parameters
    ----------
    table : pandas.DataFrame
        As `read` gives it, or some of its rows.
    x, y : str
        Columns of numbers. A scale is logarithmic where all numbers are positive and the largest is 10 times the smallest.
    hue : str, optional
        Any column: a line for each of its values.
    facet : str, optional
        Any column: a panel for each of its values, with common scales.

    Returns
    -------
    matplotlib.figure.Figure
        Not registered with pyplot. Below it stands what a mark is, and in which columns, other than repeats, its rows differ.

    Raises
    ------
    ValueError
        If a column is not there or has no numbers, or there are too many lines or panels.

    Examples
    --------
    >>> import pandas as pd
    >>> figure = plot(pd.DataFrame({"n": [10, 10, 1000], "rmse": [1.0, 3.0, 5.0], "protocol": ["a", "a", "b"]}), "n", "rmse")
    >>> figure.axes[0].get_xscale(), figure.axes[0].get_lines()[0].get_ydata().tolist()
    ('log', [2.0, 5.0])
    """
    from matplotlib.figure import Figure

    if table.empty:
        raise ValueError("table must have a row to draw, got none")
    rows = _finite(table, reading.numeric(table, x, "x"), reading.numeric(table, y, "y"))
    lines, panels = _values(rows, hue, "hue"), _values(rows, facet, "facet")
    columns = min(COLUMNS, len(panels))
    high = math.ceil(len(panels) / columns)
    width, height = (7.0, 4.6) if len(panels) == 1 else (PANEL_INCHES[0] * columns + 1, PANEL_INCHES[1] * high + 0.8)
    names = [textwrap.fill(name, LEGEND_WIDTH) for name in _names(lines)]
    size = width, max(height, LEGEND_INCHES * (3 + sum(1 + name.count("\n") for name in names)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(high, columns, squeeze=False, sharex=True, sharey=True).ravel()
    drawn: list[int] = []
    # By hand: matplotlib keeps labels that begin with _ out of its legends.
    handles: dict[int, Any] = {}
    for ax, panel, title in zip(axes, panels, _names(panels), strict=False):
        part = rows if facet is None else rows[rows[facet].isna() if panel is None else rows[facet] == panel]
        for i, value in enumerate(lines):
            own = part if hue is None else part[part[hue].isna() if value is None else part[hue] == value]
            if len(own):
                handles[i], behind = _line(ax, own, x, y, i, "" if hue is None else names[i])
                drawn += behind
        if facet is not None:
            ax.set_title(textwrap.fill(f"{drawable(facet)} = {title}", LEGEND_WIDTH), fontsize="small")
        ax.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    _scale(axes[0], "x", rows[x])
    _scale(axes[0], "y", rows[y])
    for ax in axes[len(panels) :]:
        ax.remove()
    for number, ax in enumerate(axes[: len(panels)]):
        ax.tick_params(labelbottom=number + columns >= len(panels), labelsize="small")
    figure.supxlabel(f"{drawable(x)}\n{_remark(table, rows, [x, y, hue, facet], max(drawn))}", fontsize="small")
    figure.supylabel(drawable(y), fontsize="small")
    if hue is not None:
        order = sorted(handles)
        shown = figure.legend(
            [handles[i] for i in order],
            [names[i] for i in order],
            loc="outside right upper",
            handlelength=3,
            frameon=False,
            fontsize="small",
        )
        shown.set_title(drawable(hue))
    return figure


def _finite(table: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    rows = table[np.isfinite(table[x].astype(float)) & np.isfinite(table[y].astype(float))]
    if rows.empty:
        raise ValueError(f"table must have a row with finite {x} and {y}, got {len(table)} rows without")
    return rows


def _values(rows: pd.DataFrame, column: str | None, option: str) -> list[Any]:
    """The values of a column in order, one that is missing last; of no column: None."""
    if column is None:
        return [None]
    if column not in rows.columns:
        raise ValueError(f"{option} must name a column, got {column!r}; {nearest(column, map(str, rows.columns))}")
    found = list(rows[column].dropna().unique())
    found = sorted(found, key=str) if rows[column].dtype == object else sorted(found)
    if rows[column].isna().any():
        found.append(None)
    if len(found) > MOST:
        raise ValueError(f"{option} must have at most {MOST} values, got {column!r} with {len(found):,}")
    return found


def _line(ax: Axes, rows: pd.DataFrame, x: str, y: str, i: int, label: str) -> tuple[Any, list[int]]:
    """One line, and the numbers of rows behind its marks."""
    marks = rows.groupby(x)[y].agg(["median", "min", "max", "count"])
    middle = marks["median"]
    colour = COLOURS[i % len(COLOURS)]
    line = ax.errorbar(
        marks.index,
        middle,
        yerr=[middle - marks["min"], marks["max"] - middle] if (marks["count"] > 1).any() else None,
        color=colour,
        linestyle=STYLES[(i + i // len(COLOURS)) % len(STYLES)],
        linewidth=1.5,
        elinewidth=0.8,
        capsize=3,
        marker=POINT_MARKERS[i % len(POINT_MARKERS)],
        markersize=6,
        markerfacecolor="white",
        markeredgewidth=1.5,
        label=label,
    )
    return line, [*marks["count"]]


def _scale(ax: Axes, side: str, values: pd.Series[Any]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = float(values.min()), float(values.max())
    if low <= 0 or high < WIDE * low:
        return
    ax.set(**{f"{side}scale": "log"})
    axis = ax.xaxis if side == "x" else ax.yaxis
    if high < 10**DECADES * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def _remark(table: pd.DataFrame, rows: pd.DataFrame, taken: list[str | None], most: int) -> str:
    """What a mark is."""
    group = [name for name in (taken[0], *taken[2:]) if name is not None]
    other = [c for c in table.columns if (c not in store.COLUMNS and not str(c).startswith("data_")) or c in TOLD]
    counts = rows.groupby(group, dropna=False)
    mixed = [str(c) for c in other if c not in taken and (counts[c].agg(lambda own: len(own.unique())) > 1).any()]
    parts = [f"marks are medians and bars go from the smallest to the largest of up to {most:,} rows"] if most > 1 else []
    parts += [f"which differ in {drawable(', '.join(mixed))}"] if mixed else []
    left = len(table) - len(rows)
    said = ", ".join(parts) + (f"{'; ' if parts else ''}{left:,} rows without finite numbers are left out" if left else "")
    return textwrap.fill(said, 90)


def _names(values: list[Any]) -> list[str]:
    """Labels of different values, which differ: rounded ones if they do."""
    exact = ["none" if value is None else str(value) for value in values]
    short = [f"{value:g}" if isinstance(value, float) else shortened(name) for value, name in zip(values, exact, strict=True)]
    return [drawable(name) for name in (short if len(set(short)) == len(short) else exact)]
