"""`shufflesim sweep` and `shufflesim plot`: experiments from a file, and pictures of their results."""

from __future__ import annotations

import io
from pathlib import Path

import click

from .arguments import Folder, scheduler_option, workers_option
from .output import progress
from .shell import crew, make_folder, refusing, resumable

FORMATS = (".png", ".pdf", ".svg")
DPI = 200


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--out", type=Folder(), required=True, help="Folder for the results, from which a second call goes on.")
@workers_option
@scheduler_option
@click.option("--dry-run", is_flag=True, help="Check everything and say how much there is to do; store nothing.")
def sweep(experiment: Path, out: Path, workers: int, scheduler: str | None, dry_run: bool) -> None:
    """Run all combinations of an experiment: protocols, parameters, n, delta, data, repeats.

    EXPERIMENT is a TOML file, and all of it is checked before anything runs. Results are parquet files in the folder, stored as
    they are found: whatever ends a run, the same command goes on from there. Files of several machines can be copied into one
    folder.

    \b
    Examples:
      shufflesim sweep experiment.toml --out results/ --dry-run
      shufflesim sweep experiment.toml --out results/ --workers 2
      shufflesim plot results/ --x n --y rmse --hue protocol --out picture.png

    Exit status: 0 done, 2 bad input, 130 interrupted.
    """
    from shufflesim import sweeps

    with refusing(), progress("checking"):
        tasks = sweeps.plan(experiment)
    if dry_run:
        with refusing(), progress("estimating"):
            found = sweeps.outlook(tasks, out, workers=workers)
        left = "" if found.tasks == found.stored else f"; the rest takes about {_time(found.seconds)} ({found.source})"
        click.echo(f"{found.tasks:,} tasks, {found.stored:,} of them stored{left}")
        return
    make_folder(out)
    steps: list[int] = []
    with crew(workers, scheduler) as who, resumable(out), refusing(), progress("sweeping", len(tasks)) as update:

        def report(done: int) -> None:
            steps.append(done)
            update(done)

        table = sweeps.sweep(tasks, out, progress=report, **who)
    click.echo(f"{len(tasks):,} tasks, {steps[0]:,} of them stored before; {len(table):,} rows in {out}")


def _time(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    # Two digits, and no exponent.
    return f"{float(f'{seconds:.2g}'):g} s"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--x", required=True, metavar="COLUMN", help="Column of numbers: horizontal.")
@click.option("--y", required=True, metavar="COLUMN", help="Column of numbers: vertical.")
@click.option("--hue", metavar="COLUMN", help="A line for each value of this column.")
@click.option("--facet", metavar="COLUMN", help="A panel for each value of this column.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help=f"Picture that ends in {', '.join(FORMATS)}.")
def plot(folder: Path, x: str, y: str, hue: str | None, facet: str | None, out: Path) -> None:
    """Draw a column of a sweep's results against another.

    Marks are medians over all rows with the same x, line and panel, bars go from the smallest to the largest; below the picture
    stands in which columns these rows differ. Scales are logarithmic where the numbers ask for it.

    \b
    Examples:
      shufflesim plot results/ --x n --y rmse --hue protocol --out picture.png
      shufflesim plot results/ --x epsilon --y epsilon_upper --hue protocol --facet n --out picture.pdf
    """
    from shufflesim import sweeps
    from shufflesim.sweeps.store import write

    if out.suffix.lower() not in FORMATS:
        raise click.UsageError(f"--out must end in {', '.join(FORMATS)}, got {str(out)!r}")
    with refusing(), progress("drawing"):
        table = sweeps.read(folder)
        if table.empty:
            raise ValueError(f"folder must be one with results of sweeps, got none in {str(folder)!r}")
        figure = sweeps.plot(table, x, y, hue=hue, facet=facet)
        content = io.BytesIO()
        figure.savefig(content, format=out.suffix[1:].lower(), dpi=DPI)
    try:
        write(out.parent, content.getvalue(), out)
    except OSError as error:
        raise click.UsageError(f"--out must be a writable file, got {str(out)!r}: {error.strerror}") from error
    click.echo(f"saved {out}")
