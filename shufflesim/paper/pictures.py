"""What the pictures share: lines that stay apart in print and for colour-blind readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..plots import COLOURS, POINT_MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches of a panel, and of a line of the legend below.
PANEL = (3.5, 3.0)
LEGEND_LINE = 0.24
# Marks on a line.
MARKED = 5
# Upper bounds that are proved are solid, lower ones dashed, the published ones dotted.
SOLID, DASHED, DOTTED, DASH_DOT = "-", "--", ":", "-."


def panels(rows: int, columns: int, lines: int = 0, legend_columns: int = 3, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure of rows x columns axes with room for a legend of so many lines below."""
    from matplotlib.figure import Figure

    legend = LEGEND_LINE * -(-lines // legend_columns)
    figure = Figure(figsize=(PANEL[0] * columns + 0.5, PANEL[1] * rows + 0.6 + legend), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for ax in axes:
        ax.grid(visible=True, color="#dddddd", linewidth=0.6)
        ax.tick_params(labelsize="small")
    return figure, list(axes)


def line(ax: Axes, x: Any, y: Any, place: int, label: str, style: str = SOLID, width: float = 1.4) -> None:
    """One line: colour and mark by `place`, few marks, each line's at other points."""
    step = max(1, len(x) // MARKED)
    ax.plot(
        x,
        y,
        style,
        color=COLOURS[place % len(COLOURS)],
        marker=POINT_MARKERS[place % len(POINT_MARKERS)],
        markersize=4.5,
        markerfacecolor="none",
        markevery=(place % step, step),
        linewidth=width,
        label=label,
    )


def legend_below(figure: Figure, axes: Sequence[Axes], columns: int = 3) -> None:
    """One legend for all axes: each label once."""
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=columns,
        handlelength=3,
        frameon=False,
        fontsize="small",
    )


def power(n: float) -> str:
    """10^k for powers of ten, as mathematical text."""
    text = f"{n:.0e}".partition("e")
    return f"$10^{{{int(text[2])}}}$" if text[0] == "1" and float(f"1e{text[2]}") == n else f"{n:,}"
