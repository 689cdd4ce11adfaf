"""Pictures of simulations and of bounds; pure functions from results to matplotlib figures."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .bounds import Bounded, bound_curve
from .bounds.curve import is_series
from .results import Simulation

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue, orange and grey that stay apart for colour-blind readers and in print.
ESTIMATE = "#b3450b"
INTERVAL = "#e3a27c"
TRUTH = "#44617d"
# Colours (Okabe and Ito, apart for colour-blind readers), and a line style per kind of bound so that print is enough.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
STYLES = ("-", "--", ":")
POINT_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*", "<", ">", "h")
LONG_DECIMAL = re.compile(r"\d+\.\d{5,}(e[+-]?\d+)?")
# Characters in a line of a legend, and the margin around points on logarithmic scales.
LEGEND_WIDTH = 40
# Height of a line of a legend, and marks on a line, about.
LEGEND_INCHES = 0.2
MARKED = 8
# Lines whose legend fits inside axes.
FEW = 6
AROUND = 1.6
# Points in one panel; beyond it the most frequent values are drawn.
POINTS = 1000
COLUMNS = 4
PANEL_INCHES = (3.4, 3.3)
# Characters in a line of a panel's title.
TITLE_WIDTH = 34


def overview(simulations: Sequence[Simulation]) -> Figure:
    """Draw small multiples: estimates with confidence intervals against the truth, one panel a simulation.

    Parameters
    ----------
    simulations : sequence of Simulation
        At least one. Panels that estimate counts of the same number of users share their scale.

    Returns
    -------
    matplotlib.figure.Figure
        Not registered with pyplot; `figure.savefig(path)` writes it.

    Raises
    ------
    ValueError
        If there is no simulation.
    """
    from matplotlib.figure import Figure

    if not simulations:
        raise ValueError("simulations must hold at least one result, got none")
    columns = min(COLUMNS, len(simulations))
    rows = math.ceil(len(simulations) / columns)
    names = [textwrap.fill(simulation.protocol.name, TITLE_WIDTH) for simulation in simulations]
    height = PANEL_INCHES[1] + LEGEND_INCHES * max(name.count("\n") for name in names)
    figure = Figure(figsize=(PANEL_INCHES[0] * columns, height * rows + 0.5), layout="compressed")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, simulation, name in zip(axes, simulations, names, strict=False):
        if simulation.protocol.domain.target == "count":
            _counts(ax, simulation, _limits(simulations, simulation.n))
        elif len(simulation.truth) > 1:
            _means(ax, simulation)
        else:
            _mean(ax, simulation)
        ax.set_title(f"{name}\nRMSE {simulation.rmse:.4g}, expected {simulation.expected_rmse:.4g}", fontsize="small")
        ax.tick_params(labelsize="small")
    for ax in axes[len(simulations) :]:
        ax.remove()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def amplification(
    x: Bounded | Sequence[Bounded],
    n: Any,
    delta: Any,
    *,
    bounds: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the amplification ratio, local eps over central eps, against the local eps or the number of users.

    Parameters
    ----------
    x, n, delta, bounds
        As in `bound_curve`: a sequence of randomizers draws against the local eps, a sequence of numbers of users against n.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default. A long legend is put on its right, for which a constrained layout makes room.

    Returns
    -------
    matplotlib.axes.Axes
        Upper bounds that are proved are solid, lower bounds dashed, and what is not proved is dotted.

    Raises
    ------
    ValueError
        If neither x nor n is a sequence, both are, or an argument is out of range.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> ax = amplification(GRR(1.0, 16), [10**3, 10**5, 10**7], 1e-8, bounds=["sound", "lower"])
    >>> ax.get_xlabel(), len(ax.get_lines())
    ('users n', 2)
    """
    from matplotlib.figure import Figure

    several = [is_series(v) for v in (x, n)]
    if sum(several) != 1:
        raise ValueError(f"exactly one of x and n must be a list, tuple or array, got x={x!r} and n={n!r}")
    curve = bound_curve(x, n, delta, bounds=bounds)
    if not np.isfinite(curve["local_epsilon"]).all():
        raise ValueError("x must have a finite local eps, of which the amplification ratio is a multiple, got inf")
    curve = curve.sort_values("local_epsilon" if several[0] else "n", kind="stable")
    across, label = ("local_epsilon", "local eps") if several[0] else ("n", "users n")
    alone = ax is None
    if ax is None:
        height = 4.2 + LEGEND_INCHES * math.ceil(curve["bound"].nunique() / 2)
        ax = Figure(figsize=(7.0, height), layout="constrained").subplots()
    for i, (name, rows) in enumerate(curve.groupby("bound", sort=False)):
        side, proved = rows["side"].iloc[0], bool(rows["sound"].all())
        finite = rows[np.isfinite(rows["amplification_ratio"])]
        step = max(1, len(finite) // MARKED)
        ax.plot(
            finite[across],
            finite["amplification_ratio"],
            STYLES[2] if not proved else STYLES[1] if side == "lower" else STYLES[0],
            color=COLOURS[i % len(COLOURS)],
            marker=POINT_MARKERS[i % len(POINT_MARKERS)],
            markersize=5,
            # Not all at the same places: lines can coincide.
            markevery=(i % step, step),
            linewidth=3.0 if name == "sound" else 1.5,
            label=f"{name} ({side} bound on eps{'' if proved else ', not proved'})",
        )
    ax.set(xlabel=label, ylabel="amplification ratio, local eps / central eps", yscale="log")
    if not several[0]:
        ax.set_xscale("log")
    ax.grid(visible=True, color="#dddddd", linewidth=0.6)
    if alone:
        ax.figure.legend(loc="outside lower center", ncols=2, handlelength=3, frameon=False, fontsize="small")
    else:
        _legend_beside(ax)
    return ax


def comparison(table: pd.DataFrame, ax: Axes | None = None, *, across: str = "bits", floor: float | None = None) -> Axes:
    """Draw what `compare` found: error against the cost of a user, both on logarithmic scales; lower left is better.

    Parameters
    ----------
    table : pandas.DataFrame
        As `compare` returns it.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    across : {"bits", "messages"}
        The cost: bits or messages per user.
    floor : float, optional
        An error to draw as a horizontal line, such as `central_error`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If it is no such table.
    """
    from matplotlib.figure import Figure

    _check_comparison(table)
    if across not in ("bits", "messages"):
        raise ValueError(f"across must be 'bits' or 'messages', got {across!r}")
    alone = ax is None
    if ax is None:
        ax = Figure(figsize=(9.0, 4.8), layout="constrained").subplots()
    _points(ax, table, across, floor)
    ax.set_title(f"equal central privacy: eps <= {table['epsilon'].max():.4g}", fontsize="medium")
    if alone:
        ax.figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return ax


def frontier(table: pd.DataFrame, floor: float | None = None) -> Figure:
    """Draw what `compare` found twice: error against messages and against bits per user; lower left is better.

    Parameters
    ----------
    table : pandas.DataFrame
        As `compare` returns it.
    floor : float, optional
        An error to draw as a horizontal line, such as `central_error`.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If it is no such table.
    """
    from matplotlib.figure import Figure

    _check_comparison(table)
    figure = Figure(figsize=(11.0, max(4.8, 0.32 * len(table) + 1)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, across in ((left, "messages"), (right, "bits")):
        _points(ax, table, across, floor)
    right.set_ylabel("")
    figure.suptitle(f"equal central privacy: eps <= {table['epsilon'].max():.4g}", fontsize="medium")
    figure.legend(*left.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize="small")
    return figure


def _check_comparison(table: Any) -> None:
    missing = {"protocol", "epsilon", "messages", "bits", "rmse"} - set(getattr(table, "columns", ()))
    if missing or not len(table):
        raise ValueError(f"table must be a result of compare with at least one row, got no {sorted(missing) or 'row'}")


def _points(ax: Axes, table: pd.DataFrame, across: str, floor: float | None) -> None:
    """One hollow mark a candidate: two of them can be one point."""
    for i, row in enumerate(table.to_dict("records")):
        ax.plot(
            row[across],
            row["rmse"],
            linestyle="none",
            color=COLOURS[i % len(COLOURS)],
            marker=POINT_MARKERS[i % len(POINT_MARKERS)],
            markersize=9,
            markerfacecolor="none",
            markeredgewidth=2,
            label=textwrap.fill(shortened(row["protocol"]), LEGEND_WIDTH),
        )
    errors = table["rmse"].to_numpy()
    if floor is not None and np.isfinite(floor):
        ax.axhline(floor, color="black", linestyle="--", linewidth=1, label="trusted curator, discrete Laplace")
        errors = np.append(errors, floor)
    # Whatever the values: an axis that spans less than a factor of 2 has no labelled tick on a logarithmic scale.
    for scale, values in ((ax.set_xlim, table[across]), (ax.set_ylim, errors)):
        scale(np.min(values) / AROUND, np.max(values) * AROUND)
    ax.set(xscale="log", yscale="log", xlabel=f"{across} per user", ylabel="root mean square error")
    _plain_ticks(ax)
    ax.grid(visible=True, which="both", color="#eeeeee", linewidth=0.6)


def _plain_ticks(ax: Axes) -> None:
    """Logarithmic axes with numbers at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())


def robustness(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw what `robustness` found: error against the fraction of faulty users, one line a protocol.

    Parameters
    ----------
    table : pandas.DataFrame
        As `robustness` returns it.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        The error is on a logarithmic scale; dashes are the error expected if all users followed the protocol.

    Raises
    ------
    ValueError
        If it is no such table.
    """
    from matplotlib.figure import Figure

    missing = {"protocol", "fraction", "rmse", "expected_rmse"} - set(getattr(table, "columns", ()))
    if missing or not len(table):
        raise ValueError(f"table must be a result of robustness with at least one row, got no {sorted(missing) or 'row'}")
    alone = ax is None
    if ax is None:
        ax = Figure(figsize=(9.0, 4.8), layout="constrained").subplots()
    for i, (name, rows) in enumerate(table.groupby("protocol", sort=False)):
        ordered = rows.sort_values("fraction")
        colour = COLOURS[i % len(COLOURS)]
        label = textwrap.fill(shortened(str(name)), LEGEND_WIDTH)
        marker = POINT_MARKERS[i % len(POINT_MARKERS)]
        ax.plot(
            ordered["fraction"], ordered["rmse"], color=colour, marker=marker, markersize=7, markerfacecolor="none", label=label
        )
        ax.axhline(float(ordered["expected_rmse"].iloc[0]), color=colour, linestyle="--", linewidth=1)
    ax.set(yscale="log", xlabel="fraction of faulty users", ylabel="root mean square error (dashes: expected if all are honest)")
    ax.grid(visible=True, which="both", color="#eeeeee", linewidth=0.6)
    if alone:
        ax.figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    else:
        _legend_beside(ax)
    return ax


def _legend_beside(ax: Axes) -> None:
    """On the right of somebody else's axes, where a layout makes room for it; without one inside, if it is small."""
    if ax.figure.get_layout_engine() is None and len(ax.get_legend_handles_labels()[1]) <= FEW:
        ax.legend(loc="best", handlelength=3, fontsize="small")
        return
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, handlelength=3, frameon=False, fontsize="small")


def errors(table: pd.DataFrame, labels: Sequence[str] | None = None) -> Figure:
    """Draw what `error_grid` found: error against n at each eps, and against eps at each n; one line a candidate.

    Parameters
    ----------
    table : pandas.DataFrame
        As `error_grid` returns it.
    labels : sequence of str, optional
        Names of the candidates, one each; their classes by default.

    Returns
    -------
    matplotlib.figure.Figure
        Lines are the exact expected error, marks what the runs gave. Panels for n (or eps) alone are left out.

    Raises
    ------
    ValueError
        If it is no such table.
    """
    from matplotlib.figure import Figure

    missing = {"candidate", "protocol", "n", "epsilon", "expected_rmse", "rmse"} - set(getattr(table, "columns", ()))
    if missing or not len(table) or not table["rmse"].notna().any():
        raise ValueError(f"table must be a result of error_grid with at least one row, got no {sorted(missing) or 'row'}")
    names = table.dropna(subset=["protocol"]).groupby("candidate")["protocol"].first().str.partition("(")[0].to_dict()
    if labels is not None:
        several = isinstance(labels, Sequence) and not isinstance(labels, str)
        if not several or len(labels) != table["candidate"].nunique() or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"labels must be {table['candidate'].nunique()} texts, one a candidate, got {labels!r}")
        names = dict(enumerate(labels))
    sizes, targets = sorted(table["n"].unique()), sorted(table["epsilon"].unique())
    panels = [("n", "epsilon", value) for value in targets] if len(sizes) > 1 else []
    if len(targets) > 1 or not panels:
        panels += [("epsilon", "n", value) for value in sizes]
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(PANEL_INCHES[0] * columns + 1, PANEL_INCHES[1] * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for ax, (across, fixed, value) in zip(axes, panels, strict=False):
        for i, (candidate, part) in enumerate(table[table[fixed] == value].groupby("candidate")):
            line = part.sort_values(across)
            colour, mark = COLOURS[i % len(COLOURS)], POINT_MARKERS[i % len(POINT_MARKERS)]
            ax.plot(line[across], line["expected_rmse"], color=colour, label=names.get(candidate, str(candidate)))
            ax.plot(line[across], line["rmse"], mark, color=colour, markersize=5, markerfacecolor="none")
        ax.set(xscale="log", yscale="log", xlabel="users n" if across == "n" else "central eps")
        _plain_ticks(ax)
        ax.set_title(f"central eps = {value:g}" if fixed == "epsilon" else f"n = {value:,}", fontsize="small")
        ax.grid(visible=True, color="#dddddd", linewidth=0.6)
    for ax in axes[: len(panels) : columns]:
        ax.set_ylabel("root mean square error")
    for ax in axes[len(panels) :]:
        ax.remove()
    handles, found = axes[0].get_legend_handles_labels()
    figure.legend(handles, found, loc="outside lower center", ncols=min(4, len(found)), frameon=False)
    return figure


def shortened(name: str) -> str:
    """A repr with its long decimals rounded to four digits, for labels.

    Examples
    --------
    >>> shortened("GRR(epsilon=8.602181909034442, d=16)")
    'GRR(epsilon=8.602, d=16)'
    """
    return LONG_DECIMAL.sub(lambda found: f"{float(found[0]):.4g}", name)


def _limits(simulations: Sequence[Simulation], n: int) -> tuple[float, float]:
    """Range of truths and intervals over all panels that count n users."""
    tables = [s.estimates for s in simulations if s.n == n and s.protocol.domain.target == "count"]
    low = float(min(rows[["truth", "ci_low"]].min().min() for rows in tables))
    high = float(max(rows[["truth", "ci_high"]].max().max() for rows in tables))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _counts(ax: Axes, simulation: Simulation, limits: tuple[float, float]) -> None:
    import pandas as pd

    kinds = simulation.leading(POINTS)
    rows = pd.concat(kinds.values())
    ax.axline((0, 0), slope=1, color=TRUTH, linewidth=1, label="truth")
    _intervals(ax, rows, rows["truth"], simulation.confidence)
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    ax.set_xlabel(f"true {' and '.join(kinds)}", fontsize="small")
    ax.set_ylabel(f"estimated {' and '.join(kinds)}", fontsize="small")


def _mean(ax: Axes, simulation: Simulation) -> None:
    rows = simulation.estimates
    truth = float(simulation.truth[0])
    ax.axhline(truth, color=TRUTH, linewidth=1, label="truth")
    _intervals(ax, rows, np.zeros(len(rows)), simulation.confidence)
    reach = 1.5 * float((rows[["ci_low", "ci_high"]] - truth).abs().to_numpy().max())
    ax.set(xlim=(-1, 1), ylim=(truth - reach, truth + reach), xticks=[])
    ax.set_ylabel("mean", fontsize="small")


def _means(ax: Axes, simulation: Simulation) -> None:
    """Several means, perhaps of different size: how far off each is."""
    rows = simulation.estimates.head(POINTS)
    ax.axhline(0, color=TRUTH, linewidth=1, label="truth")
    _intervals(
        ax,
        rows.assign(**{c: rows[c] - rows["truth"] for c in ("estimate", "ci_high")}),
        np.arange(len(rows)),
        simulation.confidence,
    )
    ax.set_xticks([])
    ax.set_ylabel("estimate minus truth", fontsize="small")


def _intervals(ax: Axes, rows: pd.DataFrame, x: Any, confidence: float) -> None:
    ax.errorbar(
        x,
        rows["estimate"],
        yerr=rows["ci_high"] - rows["estimate"],
        fmt="o",
        color=ESTIMATE,
        ecolor=INTERVAL,
        markersize=2.5,
        elinewidth=1,
        label=f"estimate, {100 * confidence:.6g}% interval",
    )
