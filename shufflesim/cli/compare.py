"""`shufflesim compare`: mechanisms side by side at equal central privacy, on a column of a table."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shufflesim._files import write_files

from .arguments import Folder, json_option, read_value, scheduler_option, workers_option
from .output import number, printable, progress, show, show_json, stacked, table, width
from .shell import crew, keeping, make_folder, note, refusing
from .subject import Source, categories_of, fitted, rows_of, shaped, tell_dropped, users_of

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from shufflesim import Protocol, Randomizer

# The local budget that candidates are built with before theirs is found.
START = 1.0
# Columns that the numbers of a row take.
NUMBERS = 62


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME[:KEY=VALUE,...]]...")
@click.option("--epsilon", type=float, required=True, help="Central eps (nats) that every candidate keeps, by its sound bound.")
@click.option("--delta", type=float, required=True, help="Probability in (0, 1).")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A .csv, .csv.gz or .parquet file, or flights, airports. Repeat for several files, or name a folder of .parquet files.",
)
@click.option("--dataset", metavar="NAME", help="A bundled table instead: flights or airports.")
@click.option("--column", "columns", multiple=True, required=True, help="The column of the values; repeat for vectors and sets.")
@click.option("--domain", type=click.Path(path_type=Path), help="Text file: the public categories, one a line.")
@click.option("--dropna", is_flag=True, help="Leave out rows with a missing value, which are refused otherwise.")
@click.option("--seed", type=int, help="Makes the runs repeatable.")
@workers_option
@scheduler_option
@click.option("--out", type=Folder(), help="Folder for compare.csv and compare.png; also what a streamed run goes on from.")
@json_option
def compare(
    names: tuple[str, ...],
    epsilon: float,
    delta: float,
    data: tuple[Path, ...],
    dataset: str | None,
    columns: tuple[str, ...],
    domain: Path | None,
    dropna: bool,
    seed: int | None,
    workers: int,
    scheduler: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Rank mechanisms at equal central privacy by their error on a column of a table.

    Every mechanism gets the largest local budget whose proved central eps is at most --epsilon, every protocol the least
    noise, and is run on the data: error against messages and bits per user. Without NAMEs these are all installed ones for
    one category per user, those for bits too if there are two. Nothing is written without --out.

    \b
    Examples:
      shufflesim compare --epsilon 1 --delta 1e-8 --dataset flights --column carrier grr oue local-hash
      shufflesim compare --epsilon 1 --delta 1e-8 --data flights --column dest --out out/
      shufflesim compare --epsilon 1 --delta 1e-8 --dataset flights --column hour laplace:low=0,high=23 piecewise:low=0,high=23
    """
    from shufflesim import Randomizer, Stream, central_error
    from shufflesim import compare as ranking

    # First: data take long to read for a scheduler that is not there.
    who = click.get_current_context().with_resource(crew(workers, scheduler))
    notes: list[str] = []
    source = Source(data, dataset, columns, domain, dropna, notes)
    candidates: list[Any] = []
    made: list[Any] = []
    values: Any = None
    chosen = names or _categorical(source)
    with progress("calibrating", len(chosen)) as update:
        for done, name in enumerate(chosen, start=1):
            try:
                candidate, values = _candidate(name, source, epsilon, delta)
            except click.UsageError as error:
                # Not what was asked for, if nothing was: a tree needs a power of two categories.
                if names or not candidates:
                    raise
                notes.append(f"left out {name}: {error.message}")
                continue
            if candidate in made and names:
                same = names[made.index(candidate)]
                raise click.UsageError(f"NAMEs must stand for different mechanisms, got {same!r} and {name!r}")
            made.append(candidate)
            candidates.append(candidate if isinstance(candidate, Randomizer) else lambda *_, found=candidate: found)
            update(done)
    if out is not None:
        make_folder(out)
    with refusing(), keeping(isinstance(values, Stream), out, seed) as how:
        rows = rows_of(values)
        with progress("comparing", None if rows is None else rows * len(candidates), "users") as update:
            found = ranking(candidates, None, delta, epsilon, data=values, progress=update, **who, **how)
        users = users_of(values)
        floor = central_error(made[0].domain, epsilon, users)
    tell_dropped(values, notes)
    files = [] if out is None else _save(found, floor, out)
    for line in notes:
        note(line)
    if as_json:
        about = {"epsilon": epsilon, "delta": delta, "n": users, "central_rmse": floor}
        show_json({**about, "rows": found.to_dict("records"), "files": [str(f) for f in files]})
        return
    _print(found, floor, f"{users:,} users, central eps <= {epsilon!r} at delta = {delta!r}")
    if files:
        click.echo("\n" + "\n".join(f"saved {file}" for file in files))


def _categorical(source: Source) -> list[str]:
    """Installed ones for one category of any d per user, or for bits where there are two, with nothing else to choose."""
    import inspect

    from shufflesim import catalogue
    from shufflesim.domains import Categories

    chosen = []
    bits = len(source.columns) == 1 and len(categories_of(source.categories)) == 2
    for entries, given in ((catalogue.mechanisms(), {"epsilon"}), (catalogue.protocols(), {"epsilon", "delta", "n"})):
        for name, entry in entries.items():
            maker = entry if given == {"epsilon"} else entry.for_target  # type: ignore[union-attr]
            needed = {k for k, p in catalogue.parameters(maker).items() if p.default is inspect.Parameter.empty}
            example = next(entry.examples(), None)
            if example is None or type(example.domain) is not Categories:
                continue
            if needed == given | {"d"}:
                chosen.append(name)
            elif needed == given and bits:
                bit = "d" in catalogue.parameters(maker)
                chosen.append(f"{name}:d=none" if bit else name)
    return chosen


def _candidate(text: str, source: Source, epsilon: float, delta: float) -> tuple[Randomizer | Protocol, Any]:
    """What NAME:KEY=VALUE,... stands for, a protocol already at its target, and the data in its domain."""
    from shufflesim import Randomizer, catalogue

    name, _, rest = text.partition(":")
    parameters: dict[str, Any] = {}
    for pair in filter(None, re.split(r",(?=[^,]*=)", rest)):  # a comma with no "=" behind it stands between several numbers
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier() or key in ("epsilon", "delta", "n"):
            raise click.UsageError(f"NAME must be name or name:key=value,... with keys other than epsilon, got {text!r}")
        parameters[key] = read_value(value)
    with refusing():
        entry = catalogue.find(name)
    if issubclass(entry, Randomizer):
        return fitted(name, {"epsilon": START, **parameters}, source)
    example = next(entry.examples())
    takes, width = catalogue.parameters(entry.for_target), len(source.columns)
    if example.domain.target == "mean":
        frame = source.numbers(name)
        if width > 1 and "dim" in takes:
            parameters = {"dim": width, **parameters}
    else:
        frame = source.categories
        if "d" in takes:
            parameters = {"d": len(categories_of(frame)), **parameters}
    with refusing():
        target = {"epsilon": epsilon, "delta": delta, "n": users_of(frame)}
        found: Protocol = catalogue.call(entry.for_target, name, target | parameters)
    if found.domain.shape != (() if width == 1 else (width,)):
        raise click.UsageError(f"--column must be given {math.prod(found.domain.shape)} times for {found!r}, got {width}")
    return found, shaped(frame, found)


def _save(found: pd.DataFrame, floor: float, out: Path) -> list[Path]:
    from shufflesim import plots

    figure = plots.frontier(found, floor)
    writers: dict[str, Callable[[Path], Any]] = {
        "compare.csv": lambda path: found.to_csv(path, index=False),
        "compare.png": lambda path: figure.savefig(path, dpi=150),
    }
    try:
        return write_files(out, writers)
    except OSError as error:
        raise click.UsageError(f"--out must be a writable folder, got {str(out)!r}: {error.strerror}") from error


def _print(rows: pd.DataFrame, floor: float, title: str) -> None:
    from shufflesim import plots

    names = [printable(plots.shortened(name)) for name in rows["protocol"]]
    titles = ["what", "local eps", "messages", "bits", "RMSE", "to best", "observed"]
    lines = [
        [
            number(row["local_epsilon"], "upper"),
            number(row["messages"], digits=4),
            number(row["bits"], digits=4),
            number(row["rmse"], digits=5),
            f"{row['relative_rmse']:.3f}",
            number(row["observed_rmse"], digits=5),
        ]
        for row in rows.to_dict("records")
    ]
    if width() < NUMBERS + max(map(len, names)):
        split = [name.partition("(") for name in names]
        short = [[head, *line] for (head, _, _), line in zip(split, lines, strict=True)]
        shown: RenderableType = stacked(titles, short, [rest.removesuffix(")") for _, _, rest in split], right=titles[1:])
    else:
        shown = table(*titles)
        for column in shown.columns[1:]:
            column.justify = "right"
        for name, line in zip(names, lines, strict=True):
            shown.add_row(name, *line)
    show(title, shown)
    if math.isfinite(floor):
        click.echo(f"a trusted curator with discrete Laplace noise: RMSE {number(floor)}")
