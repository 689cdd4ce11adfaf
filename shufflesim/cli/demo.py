"""`shufflesim demo`: the main job on bundled real data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shufflesim._files import write_files

from .arguments import Folder
from .output import number, progress, show, table, width
from .shell import make_folder, refusing

if TYPE_CHECKING:
    import pandas as pd

    from shufflesim import Protocol, Randomizer, Simulation

DELTA = 1e-8
EPSILON = 2.0
LAST_MINUTE = 24 * 60 - 1
# Columns from which on the table has room to spare.
WIDE = 100


@click.command()
@click.option(
    "--out",
    type=Folder(),
    default=Path("results/demo"),
    show_default=True,
    help="Folder.",
)
@click.option("--seed", type=click.IntRange(min=0), default=7, show_default=True, help="Makes the run repeatable.")
def demo(out: Path, seed: int) -> None:
    """Compare protocols on the flights that left New York City in 2013.

    Each flight is a user who holds its destination, or its scheduled minute of departure.

    \b
    Example:
      shufflesim demo --out results/demo --seed 7
    """
    import numpy as np

    from shufflesim import datasets, simulate

    make_folder(out)
    flights = datasets.load("flights")
    minute = flights["hour"].astype(int) * 60 + flights["minute"]
    cases = _cases(flights["dest"], minute)
    # One seed each: with a common one the protocols' errors would be correlated.
    seeds = np.random.SeedSequence(seed).spawn(len(cases))
    results: list[Simulation] = []
    with progress("simulating", len(cases) * len(flights)) as update:

        def advance(done: int) -> None:
            update(len(results) * len(flights) + done)

        for child, (_, protocol, values, _) in zip(seeds, cases, strict=True):
            results.append(simulate(protocol, values, delta=DELTA, seed=child, progress=advance))
    with progress("saving"), refusing():
        for (name, *_), result in zip(cases, results, strict=True):
            result.save(out, name=name)
        summary = _summary(cases, results)
        try:
            _write(out, summary, results)
        except OSError as error:
            raise ValueError(f"--out must be a writable folder, got {str(out)!r}: {error.strerror}") from error
    _print(summary, len(flights))
    names = ", ".join(name for name, *_ in cases)
    click.echo(f"\nsaved {out / 'summary.csv'}, summary.json, overview.png")
    click.echo(f"saved estimates (.csv, .parquet), record (.json) and picture (.png) of {names}")


Case = tuple[str, "Protocol | Randomizer", "pd.Series[Any]", str]


def _cases(dest: pd.Series[Any], minute: pd.Series[Any]) -> list[Case]:
    """File name, protocol, data, unit of the error."""
    from shufflesim.mechanisms import GRR, OUE, RAPPOR, Laplace, LocalHash
    from shufflesim.protocols import BallsIntoBins

    d = len(dest.cat.categories)
    return [
        ("grr", GRR(EPSILON, d), dest, "users"),
        ("local-hash", LocalHash(EPSILON, d), dest, "users"),
        ("local-hash-7", LocalHash(EPSILON, d, l=7), dest, "users"),
        ("rappor", RAPPOR(EPSILON, d), dest, "users"),
        ("oue", OUE(EPSILON, d), dest, "users"),
        ("balls-into-bins", BallsIntoBins(d, dummies=1), dest, "users"),
        ("laplace", Laplace(EPSILON, low=0, high=LAST_MINUTE), minute, "minutes"),
    ]


def _summary(cases: list[Case], results: list[Simulation]) -> pd.DataFrame:
    import pandas as pd

    rows = pd.concat([result.summary for result in results], ignore_index=True)
    rows.insert(0, "name", [name for name, *_ in cases])
    rows["unit"] = [unit for *_, unit in cases]
    return rows


def _write(out: Path, summary: pd.DataFrame, results: list[Simulation]) -> None:
    from shufflesim import plots

    rows = [record["summary"] | {"seed": record["seed"]} for record in (result.record() for result in results)]
    for row, name, unit in zip(rows, summary["name"], summary["unit"], strict=True):
        row |= {"name": name, "unit": unit}
    document = {"rows": rows, "versions": results[0].record()["versions"]}
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    figure = plots.overview(results)
    writers: dict[str, Callable[[Path], Any]] = {
        "summary.csv": lambda path: summary.to_csv(path, index=False),
        "summary.json": lambda path: path.write_text(text, encoding="utf-8"),
        "overview.png": lambda path: figure.savefig(path, dpi=150),
    }
    write_files(out, writers)


def _print(summary: pd.DataFrame, n: int) -> None:
    # The bound's name goes beside its value where the terminal has room for it.
    gap = " " if width() >= WIDE else "\n"
    made = table(
        "protocol",
        "local\neps",
        "central\neps",
        "delta",
        "msgs\n/user",
        "bits\n/user",
        "RMSE\n(expected)",
        wrap=("protocol",),
        caption="central eps: proved upper bound and the one that gives it; proved lower bound",
    )
    for row in summary.to_dict("records"):
        made.add_row(
            row["protocol"],
            number(row["local_epsilon"], "upper", 4),
            f"<= {number(row['epsilon_upper'], 'upper', 4)}{gap}{row['upper_bound']}\n"
            f">= {number(row['epsilon_lower'], 'lower', 4)}",
            f"{row['delta']:g}",
            number(row["messages_per_user"], digits=4),
            number(row["bits_per_user"], digits=4),
            f"{number(row['rmse'], digits=4)} {row['unit']}\n({number(row['expected_rmse'], digits=4)})",
        )
    show(f"{n:,} flights out of New York City in 2013 (Laplace: minute of departure)", made)
