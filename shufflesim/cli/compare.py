"""`shufflesim compare`: mechanisms side by side at equal central privacy, on a column of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .arguments import json_option, read_value
from .output import number, printable, progress, show, show_json, table
from .run import make_folder
from .shell import note, refusing
from .subject import Source, fitted

if TYPE_CHECKING:
    import pandas as pd

    from shufflesim import Randomizer

# The local budget that candidates are built with before theirs is found.
START = 1.0


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME[:KEY=VALUE,...]]...")
@click.option("--epsilon", type=float, required=True, help="Central eps (nats) that every candidate keeps, by its sound bound.")
@click.option("--delta", type=float, required=True, help="Probability in (0, 1).")
@click.option("--data", type=click.Path(path_type=Path), help="A .csv, .csv.gz or .parquet file.")
@click.option("--dataset", metavar="NAME", help="A bundled table instead: flights or airports.")
@click.option("--column", "columns", multiple=True, required=True, help="The column of the values; repeat for vectors and sets.")
@click.option("--domain", type=click.Path(path_type=Path), help="Text file: the public categories, one a line.")
@click.option("--dropna", is_flag=True, help="Leave out rows with a missing value, which are refused otherwise.")
@click.option("--seed", type=int, help="Makes the runs repeatable.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for compare.csv and compare.png.")
@json_option
def compare(
    names: tuple[str, ...],
    epsilon: float,
    delta: float,
    data: Path | None,
    dataset: str | None,
    columns: tuple[str, ...],
    domain: Path | None,
    dropna: bool,
    seed: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Rank mechanisms at equal central privacy by their error on a column of a table.

    Every mechanism gets the largest local budget whose proved central eps is at most --epsilon, and is run on the data. Without
    NAMEs these are all installed mechanisms for one category per user. Nothing is written without --out.

    \b
    Examples:
      shufflesim compare --epsilon 1 --delta 1e-8 --dataset flights --column carrier grr oue local-hash
      shufflesim compare --epsilon 1 --delta 1e-8 --dataset flights --column hour laplace:low=0,high=23 piecewise:low=0,high=23
    """
    from shufflesim import compare as ranking

    notes: list[str] = []
    source = Source(data, dataset, columns, domain, dropna, notes)
    candidates: list[Randomizer] = []
    values: Any = None
    for name in names or _categorical():
        try:
            candidate, values = _candidate(name, source)
        except click.UsageError as error:
            # Not what was asked for, if nothing was: a tree needs a power of two categories.
            if names or not candidates:
                raise
            notes.append(f"left out {name}: {error.message}")
            continue
        candidates.append(candidate)
    if out is not None:
        make_folder(out)
    with refusing(), progress("comparing", len(candidates)) as update:
        found = ranking(candidates, None, delta, epsilon, data=values, seed=seed, progress=update)
    files = [] if out is None else _save(found, out)
    for line in notes:
        note(line)
    if as_json:
        rows = found.to_dict("records")
        show_json({"epsilon": epsilon, "delta": delta, "n": len(values), "rows": rows, "files": [str(f) for f in files]})
        return
    _print(found, f"{len(values):,} users, central eps <= {epsilon!r} at delta = {delta!r}")
    if files:
        click.echo("\n" + "\n".join(f"saved {file}" for file in files))


def _categorical() -> list[str]:
    """Installed mechanisms for one category of any d per user, with nothing else to choose."""
    import inspect

    from shufflesim import catalogue
    from shufflesim.domains import Categories

    chosen = []
    for name, entry in catalogue.mechanisms().items():
        needed = {k for k, p in catalogue.parameters(entry).items() if p.default is inspect.Parameter.empty}
        example = next(entry.examples(), None)
        if needed == {"epsilon", "d"} and example is not None and type(example.domain) is Categories:
            chosen.append(name)
    return chosen


def _candidate(text: str, source: Source) -> tuple[Randomizer, Any]:
    """The mechanism that NAME:KEY=VALUE,... stands for, and the data in its domain."""
    from shufflesim import Randomizer, catalogue

    name, _, rest = text.partition(":")
    parameters: dict[str, Any] = {"epsilon": START}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier() or key == "epsilon":
            raise click.UsageError(f"NAME must be name or name:key=value,... with keys other than epsilon, got {text!r}")
        parameters[key] = read_value(value)
    with refusing():
        entry = catalogue.find(name)
    if not issubclass(entry, Randomizer):
        raise click.UsageError(f"NAME must be a mechanism, got the protocol {name!r}")
    found, values = fitted(name, parameters, source)
    assert isinstance(found, Randomizer)
    return found, values


def _save(found: pd.DataFrame, out: Path) -> list[Path]:
    from matplotlib.figure import Figure

    from shufflesim import plots

    files = [out / "compare.csv", out / "compare.png"]
    figure = Figure(figsize=(9.0, 4.8), layout="constrained")
    plots.comparison(found, figure.subplots())
    try:
        found.to_csv(files[0], index=False)
        figure.savefig(files[1], dpi=150)
    except OSError as error:
        raise click.UsageError(f"--out must be a writable folder, got {str(out)!r}: {error.strerror}") from error
    return files


def _print(rows: pd.DataFrame, title: str) -> None:
    from shufflesim import plots

    made = table("mechanism", "local eps", "central eps", "bits", "RMSE", "to best", "observed", wrap=("mechanism",))
    for column in made.columns[1:]:
        column.justify = "right"
    for row in rows.to_dict("records"):
        made.add_row(
            printable(plots.shortened(row["protocol"])),
            number(row["local_epsilon"], "upper"),
            number(row["epsilon"], "upper"),
            f"{row['bits']:,.0f}",
            number(row["rmse"]),
            f"{row['relative_rmse']:.3f}",
            number(row["observed_rmse"]),
        )
    show(title, made)
