"""What the pictures share: lines that stay apart in print and for colour-blind readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..plots import COLOURS, POINT_MARKERS

if TYPE_CHECKING:
    import pandas as pd
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


def panels_of_bounds(
    table: pd.DataFrame,
    by: Sequence[str],
    across: tuple[str, str],
    what: tuple[str, str],
    drawn: Sequence[tuple[str, str, str]],
    legend_columns: int = 3,
    sharey: bool | str = True,
) -> tuple[Figure, list[Axes]]:
    """One panel for each value of the columns `by` (n, d), the last one along a row; in it one line for each bound.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns bound, those of `by`, and those drawn.
    by : sequence of str
        One or two of "n" and "d".
    across, what : (str, str)
        Column and label of both axes.
    drawn : sequence of (bound, style, label)
        In this order, if they are in the table; "sound" is thick.
    legend_columns : int
        Of the legend below.
    sharey : bool or str
        As in matplotlib.
    """
    drawn = [entry for entry in drawn if entry[0] in set(table["bound"])]
    parts = [part for _, part in table.groupby(list(by))]
    columns = table[by[-1]].nunique()
    figure, axes = panels(len(parts) // columns, columns, len(drawn), legend_columns, sharex=True, sharey=sharey)
    for ax, here in zip(axes, parts, strict=True):
        for place, (bound, style, label) in enumerate(drawn):
            # What gives no privacy at all has no place on the axis.
            curve = here[(here["bound"] == bound) & (here[what[0]] > 0)].sort_values(across[0])
            if len(curve):
                width = 2.6 if bound == "sound" else 1.3
                line(ax, curve[across[0]].to_numpy(), curve[what[0]].to_numpy(), place, label, style, width)
        values = {name: int(here[name].iloc[0]) for name in by}
        shown = {"n": power(values["n"]), "d": f"{values.get('d', 0):,}"}
        ax.set_title(", ".join(f"{name} = {shown[name]}" for name in by), fontsize="small")
    for ax in axes[-columns:]:
        ax.set_xlabel(across[1])
    for ax in axes[::columns]:
        ax.set_ylabel(what[1])
    legend_below(figure, axes, legend_columns)
    return figure, axes
