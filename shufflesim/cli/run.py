"""`shufflesim run`: simulate one protocol on a column of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from .._checks import nearest
from .arguments import Folder, json_option, parameters_option, scheduler_option, workers_option
from .output import number, printable, progress, show, show_json, table
from .shell import crew, keeping, make_folder, note, refusing
from .subject import Source, fitted, rows_of, tell_dropped

if TYPE_CHECKING:
    from shufflesim import Protocol, Randomizer, Simulation

# Estimates shown in the terminal; the files hold all of them.
SHOWN = 10


@click.command()
@click.argument("name")
@parameters_option
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A .csv, .csv.gz or .parquet file, or flights, airports. Repeat for several files, or name a folder of .parquet files.",
)
@click.option("--dataset", metavar="NAME", help="A bundled table instead: flights or airports.")
@click.option(
    "--column", "columns", multiple=True, required=True, help="The column of the values; repeat for vectors, sets and points."
)
@click.option("--domain", type=click.Path(path_type=Path), help="Text file: the public categories, one a line.")
@click.option("--dropna", is_flag=True, help="Leave out rows with a missing value, which are refused otherwise.")
@click.option("--delta", type=float, required=True, help="Probability in (0, 1) for the privacy bounds.")
@click.option("--seed", type=int, help="Makes the run repeatable; without it fresh entropy is drawn and printed.")
@click.option(
    "--method",
    type=click.Choice(["users", "counts"]),
    default="users",
    show_default=True,
    help="Run every user, or draw sums.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Level of the confidence intervals.")
@click.option("--chunk-size", type=int, help="Users between two updates of the progress bar; no effect on the result.")
@click.option("--dropout", type=float, default=0.0, help="Probability that a user sends nothing.")
@click.option("--faulty", type=float, default=0.0, help="Probability that a user attacks instead of following the protocol.")
@click.option("--attack", help="What faulty users do: target-item, maximal-gain, garbage or out-of-alphabet.")
@click.option("--target", help="The value that target-item and maximal-gain push: a category, or a number.")
@click.option("--minimum-batch", type=int, default=1, help="Release nothing if fewer users have sent messages.")
@workers_option
@scheduler_option
@click.option("--out", type=Folder(), help="Folder for csv, parquet, json and png files; also what a streamed run goes on from.")
@json_option
def run(
    name: str,
    parameters: dict[str, Any],
    data: tuple[Path, ...],
    dataset: str | None,
    columns: tuple[str, ...],
    domain: Path | None,
    dropna: bool,
    delta: float,
    seed: int | None,
    method: Literal["users", "counts"],
    confidence: float,
    chunk_size: int | None,
    dropout: float,
    faulty: float,
    attack: str | None,
    target: str | None,
    minimum_batch: int,
    workers: int,
    scheduler: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Simulate a mechanism or protocol on one column of a table.

    NAME is one of `shufflesim list`; its accuracy, cost and privacy are printed. Labels of any type are mapped to
    categories and back; their number d follows from the data or from --domain, and the size of sets and vectors from the
    number of columns. Nothing is written without --out.

    \b
    Examples:
      shufflesim run grr -p epsilon=2 --data my.csv --column city --delta 1e-8 --seed 7 --out results/city
      shufflesim run grr -p epsilon=2 --data parts/ --column city --domain cities.txt --delta 1e-8 --workers 2
      shufflesim run harmony -p epsilon=1 -p low=0 -p high=59 --dataset flights --column hour --column minute --delta 1e-8
      shufflesim run laplace -p epsilon=1 -p low=0 -p high=23 --dataset flights --column hour --delta 1e-8
      shufflesim run grr -p epsilon=2 --dataset flights --column dest --delta 1e-8 --faulty 0.02 --attack garbage
    """
    from shufflesim import Population, Stream, simulate

    # First: data take long to read for a scheduler that is not there.
    who = click.get_current_context().with_resource(crew(workers, scheduler))
    notes: list[str] = []
    source = Source(data, dataset, columns, domain, dropna, notes)
    protocol, values = fitted(name, parameters, source)
    population = None
    if dropout or faulty or attack is not None or target is not None:
        aimed = None if target is None else _held(target, values, protocol)
        with refusing():
            population = Population(dropout, faulty, attack, aimed)  # type: ignore[arg-type]
    if out is not None:
        make_folder(out)
    with (
        refusing(),
        keeping(isinstance(values, Stream), out, seed) as how,
        progress("simulating", rows_of(values), "users") as update,
    ):
        result = simulate(
            protocol,
            values,
            delta=delta,
            method=method,
            confidence=confidence,
            chunk_size=chunk_size,
            population=population,
            minimum_batch=minimum_batch,
            progress=update,
            **who,
            **how,
        )
    tell_dropped(values, notes)
    with refusing():
        files = [] if out is None else result.save(out)
    # Only now: a refusal is one line and no more.
    for line in notes:
        note(line)
    if as_json:
        show_json(result.record() | {"files": [str(file) for file in files]})
    else:
        _print(result)
        if files:
            click.echo("\n" + "\n".join(f"saved {file}" for file in files))


def _held(target: str, values: Any, protocol: Protocol | Randomizer) -> Any:
    """The value that --target names: the code of a category, or a number."""
    from shufflesim.domains import Categories

    domain = protocol.domain
    if domain.shape:
        raise click.UsageError(f"--target must go with one category or number per user, got {protocol!r}")
    if isinstance(domain, Categories):
        known = values.categories if getattr(values, "categories", None) is not None else domain.labels_of(values)
        labels = [str(label) for label in known]
        if target not in labels:
            raise click.UsageError(f"--target must be one of the categories, got {target!r}; {nearest(target, labels)}")
        return labels.index(target)
    try:
        return float(target)
    except ValueError:
        raise click.UsageError(f"--target must be a number for {protocol!r}, got {target!r}") from None


def _print(result: Simulation) -> None:
    summary = result.summary.iloc[0]
    counts = result.protocol.domain.target == "count"
    below = f", >= {number(summary['epsilon_lower'], 'lower')}" if summary["epsilon_lower"] >= 0 else ""
    central = f"<= {number(summary['epsilon_upper'], 'upper')} ({summary['upper_bound']}){below}, at delta = {result.delta!r}"
    facts = table("what", "value", wrap=("value",))
    facts.show_header = False
    for what, value in {
        "users": f"{result.n:,}",
        "local eps": number(summary["local_epsilon"], "upper"),
        "central eps": central,
        "messages per user": number(summary["messages_per_user"]),
        "bits per user": number(summary["bits_per_user"]),
        **_errors(result),
        "seed": str(result.entropy),
    }.items():
        facts.add_row(what, value)
    if result.population is not None:
        damage, crowd = result.damage.iloc[0], result.received
        absent = f"{result.n - crowd.users:,}, {crowd.faulty:,}; {crowd.rejected:,} messages rejected"
        facts.add_row("absent, faulty users", absent)
        if result.population.target is not None:
            facts.add_row("gain at the target", number(damage["gain"]))
        intended = number(damage["epsilon_intended"], "upper")
        facts.add_row("central eps intended", f"<= {intended}, had all {result.n:,} users followed the protocol")

    kinds = result.leading(SHOWN if counts else len(result.estimates))
    each, whole = len(kinds[next(iter(kinds))]), len(result.estimates) // len(kinds)
    caption = f"the {each} most frequent of {whole:,} values" if each < whole else None
    interval = f"{100 * result.confidence:.6g}% interval"
    made = table("value", "truth", "estimate", interval, wrap=("value",), caption=caption)
    for column in made.columns[1:]:
        column.justify = "right"
    written = "{:,.1f}".format if counts else number
    for kind, part in kinds.items():
        for row in part.to_dict("records"):
            truth = f"{row['truth']:,.0f}" if kind == "users" else written(row["truth"])
            ends = f"[{written(row['ci_low'])}, {written(row['ci_high'])}]"
            made.add_row(printable(row["value"]), truth, written(row["estimate"]), ends)
    show(result.protocol.name, facts, made)


def _errors(result: Simulation) -> dict[str, str]:
    """Observed and expected error, of each kind of estimates."""
    counts = result.protocol.domain.target == "count"
    honest = " if all were honest" if result.population else ""
    found = {}
    for row in result.errors.to_dict("records"):
        of = f" of {row['kind']}" if len(result.errors) > 1 else ""
        unit = " users" if row["kind"] == "users" else ""
        found[f"RMSE{of}" if counts else "error of the mean"] = f"{number(row['rmse'])}{unit}"
        found[f"expected RMSE{of}"] = number(row["expected_rmse"]) + honest
    return found
