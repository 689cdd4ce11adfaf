"""A survey as tables, and as one page that needs no other file: a summary, how loose the bounds are, and all rows."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import write_files
from .survey import COMPARED, FAILED, NOTHING, SOUND, Survey
from .ways import VIOLATED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

COLUMNS, PANEL_INCHES = 5, (2.7, 2.3)
LINES = {"sound": ("-", "#0072b2"), "blanket": ("--", "#e69f00"), "published": (":", "#d55e00")}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-size: 13px } td, th { padding: .25em .6em; text-align: left; vertical-align: top }
thead th { border-bottom: 2px solid #444 } tbody tr { border-bottom: 1px solid #ddd } .bad { color: #b00020; font-weight: 600 }
img { max-width: 100% } .scroll { overflow-x: auto } .muted { color: #777 }
"""


def save(survey: Survey, folder: Path) -> list[Path]:
    """Write audit.csv, looseness.csv and audit.html."""
    writers: dict[str, Callable[[Path], Any]] = {
        "audit.csv": lambda path: survey.table.to_csv(path, index=False),
        "looseness.csv": lambda path: survey.looseness.to_csv(path, index=False),
        "audit.html": lambda path: path.write_text(page(survey), encoding="utf-8"),
    }
    return write_files(folder, writers)


def page(survey: Survey) -> str:
    """The page as HTML."""
    failed, rows = survey.failed, survey.table
    sound = rows[(rows["bound"] == SOUND) & (rows["verdict"] != NOTHING)]
    verdict = f"{len(failed)} failed" if failed else "none is below the truth"
    published = rows[(rows["bound"] != SOUND) & (rows["verdict"] == VIOLATED)]
    deltas = ", ".join(sorted({f"{task.delta:g}" for task in survey.plan}))
    paragraphs = [
        f"{len(sound)} audits of sound bounds: {verdict}. Published bounds are below the truth in {len(published)} rows: "
        "a finding about the papers, not a failure.",
        "Few users: all data sets enumerated where the law is small, and runs; many: the exact divergence of data sets in which "
        f"all others hold one value, and importance sampling, where the bound claims delta = {deltas}. Percentages compare "
        "the true eps with the published one at the same delta.",
    ]
    shown = rows.copy()
    for column in shown.select_dtypes("number").columns.drop("n"):
        shown[column] = [f"{value:.6g}" if math.isfinite(value) else "" for value in shown[column]]
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Audit</title><style>{STYLE}</style></head><body>',
            "<h1>Audit of every mechanism and protocol</h1>",
            *(f"<p>{html.escape(text)}</p>" for text in paragraphs),
            _table(survey.summary),
            "<h2>How loose the bounds are</h2>",
            "<p>Central eps of a bound over the eps of homogeneous data, at the same delta, against the number of users. Below 1 "
            "a bound is below the truth.</p>",
            f'<img alt="eps of each bound over the exact homogeneous value" src="{_embedded(looseness(survey.looseness))}">',
            f"<details><summary>All {len(rows)} rows</summary>{_table(shown.fillna(''))}</details>",
            "</body></html>\n",
        ]
    )


def _table(frame: pd.DataFrame) -> str:
    def cell(value: Any) -> str:
        text = html.escape(str(value))
        bad = str(value).startswith((VIOLATED, FAILED))
        return f'<td class="bad">{text}</td>' if bad else f"<td>{text}</td>"

    head = "".join(f"<th>{html.escape(str(c))}</th>" for c in frame.columns)
    body = "\n".join(f"<tr>{''.join(map(cell, line))}</tr>" for line in frame.itertuples(index=False))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _embedded(figure: Figure) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"


def looseness(rows: pd.DataFrame) -> Figure:
    """Small multiples, one a name: eps of each bound over that of `lower`, against n."""
    from matplotlib.figure import Figure

    rows = rows[(rows["lower"] > 0) & (rows["lower"] < math.inf)]
    names = list(dict.fromkeys(rows["name"]))
    columns = max(1, min(COLUMNS, len(names)))
    height = max(1, math.ceil(len(names) / columns))
    figure = Figure(figsize=(PANEL_INCHES[0] * columns + 1.0, PANEL_INCHES[1] * height + 0.9), layout="constrained")
    axes = figure.subplots(height, columns, squeeze=False, sharex=True).ravel()
    handles: dict[str, Any] = {}
    for ax, name in zip(axes, names, strict=False):
        own = rows[rows["name"] == name]
        for bound in COMPARED[:-1]:
            if own[bound].notna().any():
                style, colour = LINES[bound]
                ratio = (own[bound] / own["lower"]).replace(math.inf, math.nan)
                (handles[bound],) = ax.plot(own["n"], ratio, style, color=colour, marker=".", markersize=4)
        ax.axhline(1.0, color="#009e73", linewidth=0.8)
        ax.set(xscale="log", xlim=(7, 1.5e8))
        ax.set_title(str(name), fontsize="small")
        ax.tick_params(labelsize="x-small")
        low, high = ax.get_ylim()
        ax.set_ylim(min(low, 0.98), max(high, 1.02))
        ax.ticklabel_format(axis="y", useOffset=False)
        ax.grid(visible=True, color="#dddddd", linewidth=0.5)
    for ax in axes[len(names) :]:
        ax.remove()
    for ax in axes[max(0, len(names) - columns) : len(names)]:
        ax.tick_params(labelbottom=True)
    figure.supxlabel("users n", fontsize="small")
    figure.supylabel("eps of the bound / exact eps\nof homogeneous data", fontsize="small")
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles), frameon=False)
    return figure
