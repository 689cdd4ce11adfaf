"""`shufflesim check`: does a class do what it says?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .arguments import json_option, parameters_option
from .output import printable, progress, show, show_json, table
from .own_class import own_instances
from .shell import refusing

if TYPE_CHECKING:
    from shufflesim.empirical import Report

CHECK_FAILED = 1


@click.command()
@click.argument("target", metavar="MODULE:CLASS")
@parameters_option
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random checks.")
@json_option
@click.pass_context
def check(ctx: click.Context, target: str, parameters: dict[str, Any], seed: int, as_json: bool) -> None:
    """Run the conformance checks on your own randomizer or protocol.

    MODULE is a dotted name or a .py file. Without -p every instance of the class's examples() is checked.

    \b
    Examples:
      shufflesim check my_randomizer.py:MyRandomizer -p epsilon=1 -p d=4
      shufflesim check shufflesim.mechanisms:GRR

    Exit status: 0 all checks passed, 1 one failed, 2 there is nothing to check.
    """
    from shufflesim import Randomizer, check_protocol, check_randomizer

    instances = own_instances(target, parameters)
    reports = []
    with refusing(), progress("checking", len(instances)) as update:
        for done, instance in enumerate(instances):
            update(done)
            reports.append(
                check_randomizer(instance, seed=seed) if isinstance(instance, Randomizer) else check_protocol(instance, seed=seed)
            )
    if as_json:
        show_json([{"subject": r.subject, "passed": r.passed, "checks": r.table.to_dict("records")} for r in reports])
    else:
        for report in reports:
            _print(report)
            click.echo()
    failed = sum(not report.passed for report in reports)
    if not as_json and len(reports) > 1:
        click.echo(f"{len(reports) - failed} of {len(reports)} instances passed")
    if failed:
        ctx.exit(CHECK_FAILED)


# How the outcome of a check looks.
STYLES = {True: "green", False: "bold red", None: "dim"}


def _print(report: Report) -> None:
    from rich.text import Text

    from shufflesim.empirical.report import OUTCOMES

    made = table("check", "result", "detail", wrap=("check", "detail"))
    for one in report.checks:
        result = Text(OUTCOMES[one.passed], style=STYLES[one.passed])
        made.add_row(one.name, result, printable(one.detail))
    show(printable(report.subject), made)
