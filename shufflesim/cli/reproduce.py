"""`shufflesim reproduce`: the paper's figures, Table 5 and discussion, computed anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .arguments import Folder, json_option, scheduler_option, workers_option
from .output import progress, show_json
from .shell import crew, make_folder, refusing, resumable

if TYPE_CHECKING:
    from shufflesim.paper import Reproduction


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="fig1|fig2|fig3|fig4|fig5|table5|discussion|all...")
@click.option("--out", type=Folder(), required=True, help="Folder for the files, from which a second call goes on.")
@workers_option
@scheduler_option
@json_option
def reproduce(names: tuple[str, ...], out: Path, workers: int, scheduler: str | None, as_json: bool) -> None:
    """Compute figures of the variation-ratio paper (PVLDB 17(8), 2024), and say which of its claims hold.

    Each piece is written as data (csv), picture (png, pdf) and text (txt): the claim, what was found, whether it holds. What is
    in the folder already is not computed again, unless the library has changed. Times are measured one by one.

    \b
    Examples:
      shufflesim reproduce fig1 --out out/
      shufflesim reproduce all --out out/ --workers 2

    Exit status: 0 done, whatever holds; 2 bad input, 130 interrupted.
    """
    from shufflesim.paper import chosen
    from shufflesim.paper import reproduce as compute

    with refusing():
        total = sum(len(piece.cases) for piece in chosen(*names))
    make_folder(out)
    with crew(workers, scheduler) as who, resumable(out):
        with refusing(), progress("reproducing", total) as update:
            made = compute(*names, folder=out, progress=update, **who)
        with progress("drawing", len(made)) as update:
            files = []
            for done, one in enumerate(made):
                update(done)
                files += one.save(out)
    if as_json:
        show_json({"pieces": [_document(one) for one in made], "files": [str(file) for file in files]})
    else:
        _print(made)
        click.echo("\n" + "\n".join(f"saved {out / one.piece.name}.csv, .png, .pdf, .txt" for one in made))


def _document(one: Reproduction) -> dict[str, object]:
    findings = [{"claim": f.claim, "found": f.found, "verdict": f.verdict} for f in one.findings]
    return {"name": one.piece.name, "title": one.piece.title, "rows": len(one.table), "findings": findings}


def _print(made: list[Reproduction]) -> None:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    from shufflesim.paper.piece import FOOTNOTE

    from .output import show

    for index, one in enumerate(made):
        if index:
            click.echo()
        parts: list[Text | Padding] = []
        for finding in one.findings:
            style = "green" if finding.good == finding.of else "red" if 2 * finding.good < finding.of else "yellow"
            parts.append(Text.assemble((f"{finding.verdict}: ", f"bold {style}"), finding.claim))
            parts.append(Padding.indent(Text(f"found: {finding.found}", style="dim"), 2))
        parts += [Text(part) for part in (one.piece.remark, FOOTNOTE if one is made[-1] else "") if part]
        show(Text(one.piece.title, style="bold"), Group(*parts))
