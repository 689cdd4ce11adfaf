"""`shufflesim audit`: is a claimed bound above the truth?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shufflesim._files import write_files

from .arguments import Folder, Users, json_option, parameters_option, read_value
from .output import Cell, number, printable, progress, show, show_json, stacked, table, width
from .own_class import own_instances, users_code
from .shell import crew, make_folder, note, refusing, resumable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shufflesim import Protocol, Randomizer
    from shufflesim.empirical import Audit
    from shufflesim.empirical.survey import Survey

VIOLATED_STATUS = 1
# Columns of a terminal from which on there is room for notes beside the numbers.
WIDE = 140
# What is asked where nothing is said: of one class, and of all, where there is much to do.
CONFIDENCE, TRIALS, TRIALS_ALL, DELTA_ALL = 0.999999, 10_000, 400, 1e-6
STYLES = {"violated": "bold red", "consistent": "green"}


@click.command()
@click.argument("targets", nargs=-1, metavar="[NAME|MODULE:CLASS]...")
@parameters_option
@click.option("-n", "--users", "n", type=Users(), help="Number of users.")
@click.option("--eps", type=float, help="Compare delta at this central eps (nats).")
@click.option("--delta", type=float, help="Compare where the bound claims this delta.  [--all: 1e-6]")
@click.option("--bound", default="sound", show_default=True, help="The claimed upper bound, such as published.")
@click.option("--others", default="worst", show_default=True, help="Value that all other users hold; 0,1 for sets and vectors.")
@click.option("--trials", type=int, help=f"Runs with each of two data sets.  [default: {TRIALS}; --all: {TRIALS_ALL}]")
@click.option("--confidence", type=float, default=CONFIDENCE, show_default=True, help="Of whatever is not exact.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of all random numbers.")
@click.option("--all", "everything", is_flag=True, help="Audit every example of all that is installed, or of the given NAMEs.")
@click.option("--workers", type=int, help="Processes of --all; no effect on the result.  [default: 1]")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786, whose workers do --all instead.")
@click.option("--out", type=Folder(), help="Folder for csv and png files; with --all also what an interrupted run goes on from.")
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    targets: tuple[str, ...],
    parameters: dict[str, Any],
    n: int | float | None,
    eps: float | None,
    delta: float | None,
    bound: str,
    others: str,
    trials: int | None,
    confidence: float,
    seed: int,
    everything: bool,
    workers: int | None,
    scheduler: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare a claimed bound with the truth, as far as it can be known.

    NAME is one of `shufflesim list`, MODULE:CLASS your own class. All shuffled reports are enumerated where they are few;
    the divergence of data sets in which all others hold one value is computed exactly and by importance sampling, for any n;
    and the protocol is run, to find events that tell two data sets apart.

    \b
    Examples:
      shufflesim audit grr -p epsilon=1 -p d=3 -n 3 --eps 0.5 --bound published
      shufflesim audit grr -p epsilon=1 -p d=16 -n 1e6 --delta 1e-12 --out out/
      shufflesim audit my.py:MyRandomizer -p epsilon=1 -n 4 --eps 0.5
      shufflesim audit --all --out out/ --workers 2

    Exit status: 0 no violation was found, 1 the audited bound (with --all: a sound one) is violated, 2 bad input,
    130 interrupted.
    """
    if everything:
        given = {"-p": parameters, "-n": n, "--eps": eps, "--others": others != "worst", "--bound": bound != "sound"}
        stray = [option for option, value in given.items() if value not in (None, False, {})]
        if stray:
            raise click.UsageError(f"--all must come without {stray[0]}, got both")
        if out is None:
            raise click.UsageError("--all must come with --out, the folder for the results, got none")
        settings = {"delta": DELTA_ALL if delta is None else delta, "trials": TRIALS_ALL if trials is None else trials}
        settings |= {"confidence": confidence, "seed": seed}
        with crew(1 if workers is None else workers, scheduler) as who:
            found = _survey(targets, settings, who, out)
        _report(found, out, as_json)
        if found.failed:
            ctx.exit(VIOLATED_STATUS)
        return
    if len(targets) != 1:
        raise click.UsageError(f"one NAME or MODULE:CLASS must be given, or --all, got {', '.join(targets) or 'none'}")
    if n is None:
        raise click.UsageError("-n, the number of users, must be given, got none")
    if (eps is None) == (delta is None):
        raise click.UsageError(f"exactly one of --eps and --delta must be given, got {'none' if eps is None else 'both'}")
    if workers is not None:
        raise click.UsageError(f"--workers must come with --all, got {workers}")
    if scheduler is not None:
        raise click.UsageError(f"--scheduler must come with --all, got {scheduler!r}")
    options = {"eps": eps, "delta": delta, "bound": bound, "others": _value(others)}
    options |= {"trials": TRIALS if trials is None else trials, "confidence": confidence, "seed": seed}
    audits = _audits(targets[0], parameters, n, options)
    files: list[Path] = []
    for index, one in enumerate(audits):
        files += [] if out is None else _save(one, out, f"-{index + 1}" if len(audits) > 1 else "")
    if as_json:
        show_json([_document(one, files) for one in audits] if len(audits) > 1 else _document(audits[0], files))
    else:
        for index, one in enumerate(audits):
            if index:
                click.echo()
            _print(one)
        if files:
            click.echo("\n" + "\n".join(f"saved {file}" for file in files))
    if any(one.violated for one in audits):
        ctx.exit(VIOLATED_STATUS)


def _value(text: str) -> Any:
    """What --others says: a number, a label, or several numbers."""
    return [read_value(part) for part in text.split(",")] if "," in text else read_value(text)


def _audits(target: str, parameters: dict[str, Any], n: int | float, options: dict[str, Any]) -> list[Audit]:
    from shufflesim import audit as audit_of
    from shufflesim import catalogue

    subjects: list[Randomizer | Protocol]
    if ":" in target:
        subjects = own_instances(target, parameters)
    else:
        with refusing():
            subjects = [catalogue.build(target, parameters)]
    found = []
    # What the library refuses is the command's input; what a user's own class raises, the class's.
    guard = users_code(f"{target} cannot be audited") if ":" in target else refusing()
    with guard, progress("auditing", len(subjects)) as update:
        for done, subject in enumerate(subjects):
            update(done)
            found.append(audit_of(subject, n, **options))
    return found


def _document(found: Audit, files: list[Path]) -> dict[str, Any]:
    return {
        "subject": repr(found.x),
        "n": found.n,
        "eps": found.eps,
        "bound": found.bound,
        "claimed": found.claimed,
        "verdict": found.verdict,
        "confidence": found.confidence,
        "ways": found.table.to_dict("records"),
        "skipped": list(found.skipped),
        "files": [str(file) for file in files],
    }


def _save(found: Audit, out: Path, suffix: str) -> list[Path]:
    make_folder(out)
    rows = found.table.assign(subject=repr(found.x), n=found.n, eps=found.eps, bound=found.bound, claimed=found.claimed)
    figure = found.plot().figure
    writers: dict[str, Callable[[Path], Any]] = {
        f"audit{suffix}.csv": lambda path: rows.to_csv(path, index=False),
        f"audit{suffix}.png": lambda path: figure.savefig(path, dpi=150),  # type: ignore[union-attr]
    }
    try:
        return write_files(out, writers)
    except OSError as error:
        raise click.UsageError(f"--out must be a writable folder, got {str(out)!r}: {error.strerror}") from error


def _print(found: Audit) -> None:
    from rich.console import Group
    from rich.text import Text

    from shufflesim.empirical.ways import RUNS

    titles = ["way", "delta", "from", "to", "verdict"]
    lines: list[list[Cell]] = []
    notes = []
    for way in found.ways:
        verdict = way.verdict(found.claimed)
        ends = [number(way.low, "lower"), "-" if way.way == RUNS else number(way.high, "upper")]
        numbers = [number(way.delta), *ends]
        # The last line says it in full.
        lines.append([way.way, *numbers, Text(verdict.partition(" at ")[0], style=STYLES.get(verdict, ""))])
        notes.append(f"{'exact' if way.exact else f'each end with confidence {found.confidence:.8g}'}; {printable(way.note)}")
    title = f"{printable(repr(found.x))}, n = {found.n:,}, eps = {number(found.eps)}: {found.bound} claims delta <= "
    title += number(found.claimed, "upper")
    if width() < WIDE:
        shown: RenderableType = stacked(titles, lines, notes, right=titles[1:4])
    else:
        shown = table(*titles, "note", wrap=("note",))
        for line, text in zip(lines, notes, strict=True):
            shown.add_row(*line, Text(text, style="dim"))
    skipped = [Text(f"not done: {printable(reason)}", style="dim") for reason in found.skipped]
    last = Text(f"{found.bound}: {found.verdict}", style=STYLES.get(found.verdict, ""))
    if found.remark:
        last.append(f" ({found.remark})", style="dim")
    show(title, *([shown] if lines else []), *([Group(*skipped)] if skipped else []), last)


def _survey(names: tuple[str, ...], settings: dict[str, Any], who: dict[str, Any], out: Path) -> Survey:
    from shufflesim.empirical.survey import survey, tasks
    from shufflesim.empirical.survey_page import save

    with refusing():
        plan = tasks(names, **settings)
    make_folder(out)
    with resumable(out), refusing(), progress("auditing", len(plan)) as update:
        found = survey(plan, out, progress=update, **who)
        save(found, out)
    return found


def _report(found: Survey, out: Path, as_json: bool) -> None:
    from rich.text import Text

    files = [out / name for name in ("audit.csv", "looseness.csv", "audit.html")]
    if as_json:
        show_json({"rows": found.table.to_dict("records"), "failed": found.failed, "files": [str(file) for file in files]})
        return
    summary = found.summary
    published = [c for c in summary.columns if c.startswith("published, ")]
    lines: list[list[Cell]] = []
    notes = []
    for cells in summary.to_dict("records"):
        style = "green" if str(cells["sound"]).startswith("consistent") else "bold red"
        lines.append([str(cells["name"]), str(cells["examples"]), Text(str(cells["sound"]), style=style)])
        told = {c.partition(", ")[2]: cells[c] for c in published if cells[c] != "-"}
        same = len(set(told.values())) == 1
        parts = [next(iter(told.values()))] if same else [f"{n}: {text}" for n, text in told.items()]
        text = f"published: {'; '.join(parts)}" if told else "nothing published to compare"
        notes.append(text if cells["published beta"] == "-" else f"{text}; published beta: {cells['published beta']}")
    show("Audit of all bounds", stacked(["name", "examples", "sound"], lines, notes, right=("examples",)))
    click.echo("\n" + "\n".join(f"saved {file}" for file in files))
    for one in found.failed:
        note(f"{one['subject']}, n = {one['n']:,}, {one['bound']}: {one['verdict']} ({one['note']})")
