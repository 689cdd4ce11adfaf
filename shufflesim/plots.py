"""Pictures of several simulations at once; pure functions from results to matplotlib figures."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .results import Simulation

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue, orange and grey that stay apart for colour-blind readers and in print.
ESTIMATE = "#b3450b"
INTERVAL = "#e3a27c"
TRUTH = "#44617d"
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
    figure = Figure(figsize=(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, simulation in zip(axes, simulations, strict=False):
        if simulation.protocol.domain.target == "count":
            _counts(ax, simulation, _limits(simulations, simulation.n))
        else:
            _mean(ax, simulation)
        name = textwrap.fill(simulation.protocol.name, TITLE_WIDTH)
        ax.set_title(f"{name}\nRMSE {simulation.rmse:.4g}, expected {simulation.expected_rmse:.4g}", fontsize="small")
        ax.tick_params(labelsize="small")
    for ax in axes[len(simulations) :]:
        ax.remove()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _limits(simulations: Sequence[Simulation], n: int) -> tuple[float, float]:
    """Range of truths and intervals over all panels that count n users."""
    tables = [s.estimates for s in simulations if s.n == n and s.protocol.domain.target == "count"]
    low = float(min(rows[["truth", "ci_low"]].min().min() for rows in tables))
    high = float(max(rows[["truth", "ci_high"]].max().max() for rows in tables))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _counts(ax: Axes, simulation: Simulation, limits: tuple[float, float]) -> None:
    rows = simulation.estimates.sort_values("truth", ascending=False, kind="stable").head(POINTS)
    ax.axline((0, 0), slope=1, color=TRUTH, linewidth=1, label="truth")
    _intervals(ax, rows, rows["truth"], simulation.confidence)
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    ax.set_xlabel("true users", fontsize="small")
    ax.set_ylabel("estimated users", fontsize="small")


def _mean(ax: Axes, simulation: Simulation) -> None:
    rows = simulation.estimates
    truth = float(simulation.truth[0])
    ax.axhline(truth, color=TRUTH, linewidth=1, label="truth")
    _intervals(ax, rows, np.zeros(len(rows)), simulation.confidence)
    reach = 1.5 * float((rows[["ci_low", "ci_high"]] - truth).abs().to_numpy().max())
    ax.set(xlim=(-1, 1), ylim=(truth - reach, truth + reach), xticks=[])
    ax.set_ylabel("mean", fontsize="small")


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
