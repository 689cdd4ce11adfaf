"""`shufflesim bound`: every bound that applies to a mechanism, a protocol or a bare declaration."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from .arguments import Users, crowd_options, json_option, parameters_option
from .output import Cell, number, show, show_json, stacked, table, width
from .shell import refusing

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from shufflesim.bounds import Bounded

# Columns from which on there is room for sources beside the numbers.
WIDE = 110

# What the options that describe the crowd are if nobody is missing.
DEFAULT_CROWD = {"n_honest": None, "dropout": 0.0, "sampling": 1.0}


@click.command()
@click.argument("name", required=False)
@parameters_option
@click.option("--p", "ratio_p", type=float, help="Declaration: largest likelihood ratio (inf allowed).")
@click.option("--beta", type=float, help="Declaration: total variation.")
@click.option("--q", "ratio_q", type=float, help="Declaration: largest ratio to a blanket message.")
@click.option("--q1", type=float, help="Declaration: the same for the second input.  [default: q]")
@click.option("--q-star", type=float, help="Declaration: the same for the neutral part.  [default: max(q, q1)]")
@click.option("-n", "--users", "n", type=Users(), required=True, help="Number of users; 1e6 is fine.")
@click.option("--delta", type=float, help="Print the central eps at this delta.")
@click.option("--eps", type=float, help="Print delta at this central eps (nats) instead.")
@click.option("--verify", "checked", is_flag=True, help="Recompute the sound eps in 50 digits, and say how many agree.")
@crowd_options
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values at full precision.")
def bound(
    name: str | None,
    parameters: dict[str, Any],
    ratio_p: float | None,
    beta: float | None,
    ratio_q: float | None,
    q1: float | None,
    q_star: float | None,
    n: int | float,
    delta: float | None,
    eps: float | None,
    checked: bool,
    n_honest: int | float | None,
    dropout: float,
    sampling: float,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Print every bound on the privacy of shuffled messages.

    NAME is a mechanism or protocol of `shufflesim list`; without it the declaration (p, beta, q) is bounded.

    Printed upper bounds are rounded up and lower bounds down; notes on proved bounds are in --csv and --json.

    \b
    Examples:
      shufflesim bound grr -p epsilon=2 -p d=100 -n 1e6 --delta 1e-8
      shufflesim bound --p 7.389 --beta 0.3 --q 7.389 -n 1e6 --delta 1e-8
      shufflesim bound balls-into-bins -p d=16 -p dummies=1 -n 1e5 --eps 0.5
      shufflesim bound grr -p epsilon=2 -p d=100 -n 1e6 --delta 1e-8 --dropout 0.1
      shufflesim bound rr -p epsilon=2 -n 1e4 --delta 1e-8 --verify
    """
    from shufflesim import bound_table, catalogue, verify
    from shufflesim._checks import check_users

    if (delta is None) == (eps is None):
        given = "none" if eps is None else "both"
        raise click.UsageError(f"exactly one of --delta and --eps must be given, got {given}")
    if as_json and as_csv:
        raise click.UsageError("at most one of --json and --csv must be given, got both")
    if checked and (delta is None or n_honest is not None or dropout or sampling != 1):
        raise click.UsageError("--verify must go with --delta and a complete crowd")
    declaration = {"p": ratio_p, "beta": beta, "q": ratio_q, "q1": q1, "q_star": q_star}
    stated = [f"--{key.replace('_', '-')}" for key, value in declaration.items() if value is not None]
    if name is not None and stated:
        raise click.UsageError(f"either NAME or a declaration must be given, got {name!r} and {', '.join(stated)}")
    x: Bounded
    with refusing():
        x = _declared(declaration, parameters) if name is None else catalogue.build(name, parameters)
        users = check_users(n)
        crowd: dict[str, Any] = {"n_honest": n_honest, "dropout": dropout, "sampling": sampling}
        rows = _delta_table(x, users, eps, crowd) if delta is None else bound_table(x, users, delta, **crowd)
        second = verify(x, users, delta) if checked and delta is not None else None
    question: dict[str, Any] = {"eps": eps} if delta is None else {"delta": delta}
    question |= {key: value for key, value in crowd.items() if value != DEFAULT_CROWD[key]}
    if as_csv:
        rows.to_csv(sys.stdout, index=False)
    elif as_json:
        about = {"subject": repr(x), "n": users, "local_epsilon": x.local_epsilon}
        agreed = {} if second is None else {"verification": {"holds": second.holds, "digits": second.digits, "text": str(second)}}
        show_json(about | question | {"bounds": rows.to_dict("records")} | agreed)
    else:
        asked = ", ".join(f"{key} = {value!r}" for key, value in question.items())
        _print(rows, f"{x!r}, n = {users:,}, {asked}, local eps = {number(x.local_epsilon, 'upper')}")
        if why := getattr(x, "undeclared", ""):
            click.echo(f"no (p, beta, q): {why}")
        if second is not None:
            click.echo(f"verified: {second}")
    if second is not None and not second.holds:
        raise click.exceptions.Exit(1)


def _declared(declaration: dict[str, float | None], parameters: dict[str, Any]) -> Bounded:
    from shufflesim import VariationRatio

    missing = [f"--{key}" for key in ("p", "beta", "q") if declaration[key] is None]
    if missing:
        raise ValueError(f"give NAME, or a declaration with --p, --beta and --q; got no {', '.join(missing)}")
    if parameters:
        raise ValueError(f"-p must come with NAME, got -p {next(iter(parameters))}=... and no NAME")
    return VariationRatio(**declaration)  # type: ignore[arg-type]


def _delta_table(x: Bounded, n: int, eps: float | None, crowd: dict[str, Any]) -> pd.DataFrame:
    """Delta at eps: one row a claim, the smallest sound upper bound first."""
    import pandas as pd

    from shufflesim import delta
    from shufflesim.bounds import Crowd, claims_of

    claims = claims_of(x, Crowd.of(n, **crowd))
    brackets = [delta(x, n, eps, bound=claim.bound, **crowd) for claim in claims]
    rows = [
        (c.bound, c.side, c.sound, float(b), b.lower, b.upper, c.source, c.note) for c, b in zip(claims, brackets, strict=True)
    ]
    candidates = [row for row, c in zip(rows, claims, strict=True) if c.side == "upper" and c.sound and not c.baseline]
    if candidates:
        best = min(candidates, key=lambda row: row[3])
        rows.insert(0, ("sound", *best[1:7], f"smallest sound upper bound: {best[0]}"))
    return pd.DataFrame(rows, columns=["bound", "side", "sound", "delta", "enclosure_low", "enclosure_high", "source", "note"])


def _print(rows: pd.DataFrame, title: str) -> None:
    from rich.text import Text

    value = "epsilon" if "epsilon" in rows else "delta"
    titles = ["bound", "side", "sound", value, *(["amplification"] if value == "epsilon" else [])]
    lines: list[list[Cell]] = []
    notes = []
    for row in rows.to_dict("records"):
        side = row["side"]
        cells = [number(row[value], side)]
        if value == "epsilon":
            cells.append(number(row["amplification_ratio"], "lower" if side == "upper" else "upper"))
        sound = Text("yes") if row["sound"] else Text("NO", style="bold red")
        lines.append([row["bound"], side, sound, *cells])
        # What is to be known at once; all notes are in --csv and --json.
        told = row["note"] and (not lines[:-1] or not row["sound"])
        notes.append(f"{row['source']}; {row['note']}" if told else row["source"])
    if width() < WIDE:
        shown: RenderableType = stacked(titles, lines, notes)
    else:
        shown = table(*titles, "source", wrap=("source",))
        for line, note in zip(lines, notes, strict=True):
            shown.add_row(*line, Text(note, style="dim"))
    show(title, shown)
    if not rows["sound"].all():
        click.echo("sound = NO: not proved for this case; the truth may be worse than this number")
