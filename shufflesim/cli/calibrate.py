"""`shufflesim calibrate`: from a privacy target to a budget, a number of dummies or a number of users."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from .arguments import Users, crowd_options, json_option, parameters_option
from .output import number, show, show_json, table
from .shell import refusing

if TYPE_CHECKING:
    from shufflesim.bounds import Calibration


@click.command()
@click.argument("name")
@parameters_option
@click.option(
    "--find", "parameter", help="Parameter to search for, such as epsilon or dummies; or n.  [default: what a protocol offers]"
)
@click.option("--smallest", is_flag=True, help="Search for the smallest that is enough, not the largest that is allowed.")
@click.option("--within", nargs=2, metavar="LOW HIGH", help="Where to search; two integers for an integer parameter.")
@click.option("-n", "--users", "n", type=Users(), help="Number of users; leave it out for --find n.")
@click.option("--delta", type=float, required=True, help="Target: probability in (0, 1).")
@click.option("--epsilon", type=float, required=True, help="Target: central eps (nats).")
@crowd_options
@json_option
def calibrate(
    name: str,
    parameters: dict[str, Any],
    parameter: str | None,
    smallest: bool,
    within: tuple[str, str] | None,
    n: int | float | None,
    delta: float,
    epsilon: float,
    n_honest: int | float | None,
    dropout: float,
    sampling: float,
    as_json: bool,
) -> None:
    """Find the parameter of a mechanism or protocol that meets a privacy target, by its sound bound.

    The central eps that is printed is at most the target. A protocol is calibrated without --find as well, to the least noise;
    what its own paper's calibration gives for the same target is printed beside it.

    \b
    Examples:
      shufflesim calibrate fake-users -p d=16 -p fakes=1 -n 1e6 --delta 1e-8 --epsilon 0.5
      shufflesim calibrate grr -p d=100 --find epsilon -n 1e6 --delta 1e-8 --epsilon 0.05
      shufflesim calibrate balls-into-bins -p d=16 --find dummies --smallest --within 1 1000 -n 1e4 --delta 1e-8 --epsilon 0.3
      shufflesim calibrate grr -p epsilon=2 -p d=100 --find n --delta 1e-8 --epsilon 0.05
    """
    from shufflesim import calibrate as search
    from shufflesim import catalogue

    if parameter is None:
        if smallest or within or n_honest is not None or dropout or sampling != 1:
            raise click.UsageError(
                "--find must be given with --smallest, --within, --n-honest, --dropout and --sampling, got none"
            )
        _calibrate_protocol(name, parameters, n, delta, epsilon, as_json)
        return
    if (parameter == "n") != (n is None):
        raise click.UsageError(f"-n must be given exactly if --find is not n, got --find {parameter} and -n {n}")
    if parameter in parameters:
        raise click.UsageError(f"-p must not fix what --find searches for, got -p {parameter}={parameters[parameter]}")
    crowd = {"dropout": dropout, "sampling": sampling, "n_honest": n_honest}
    with refusing():
        if n is None:
            if within or smallest:
                raise ValueError("--within and --smallest must be left out for --find n, got them")
            found = search(catalogue.build(name, parameters), None, delta, epsilon, **crowd)  # type: ignore[arg-type]
        else:
            ends = None if within is None else tuple(_number(text) for text in within)
            found = search(
                lambda value: catalogue.build(name, {**parameters, parameter: value}),
                n,  # type: ignore[arg-type]
                delta,
                epsilon,
                find="smallest" if smallest else "largest",
                within=ends,  # type: ignore[arg-type]
                **crowd,  # type: ignore[arg-type]
            )
    if as_json:
        show_json(
            {
                "find": parameter,
                "value": found.parameter,
                "subject": repr(found.x),
                "n": found.n,
                "target": {"epsilon": epsilon, "delta": delta},
                "epsilon": {"lower": found.epsilon.lower, "upper": found.epsilon.upper},
            }
        )
    else:
        _print(found, parameter, epsilon, delta)


def _calibrate_protocol(
    name: str, parameters: dict[str, Any], n: int | float | None, delta: float, epsilon: float, as_json: bool
) -> None:
    """By the protocol's own search for a target, with its paper's calibration beside it."""
    from shufflesim import Protocol, catalogue
    from shufflesim import epsilon as epsilon_at
    from shufflesim._checks import check_users

    with refusing():
        entry = catalogue.find(name)
        if not issubclass(entry, Protocol):
            raise ValueError(f"--find must be given for the mechanism {name!r}, such as --find epsilon or --find n; got none")
        users = check_users(n)
        found = catalogue.call(entry.for_target, name, {"epsilon": epsilon, "delta": delta, "n": users, **parameters})
        reached = epsilon_at(found, users, delta)
    takes = catalogue.parameters(entry.original)
    # The paper chooses itself what its calibration does not take, such as the digits of a sum.
    given = {key: value for key, value in parameters.items() if key in takes or "epsilon" not in takes}
    try:
        paper = catalogue.call(entry.original, name, {"epsilon": epsilon, "delta": delta, "n": users, **given})
        original, its, why = repr(paper), float(epsilon_at(paper, users, delta)), ""
        ratio = epsilon / its if its > 0 else math.inf
    except ValueError as error:
        original, its, ratio, why = None, None, None, str(error)
    if as_json:
        document = {"subject": repr(found), "n": users, "target": {"epsilon": epsilon, "delta": delta}}
        document |= {"epsilon": {"lower": reached.lower, "upper": reached.upper}}
        show_json(document | {"original": original, "extra_amplification_ratio": ratio, "original_refused": why})
        return
    made = table("calibration", "what it makes", "central eps <=", wrap=("what it makes",))
    made.add_row("exact", repr(found), number(reached.upper, "upper"))
    if original is None or its is None:
        made.add_row("its paper's", f"refused: {why}", "")
    else:
        made.add_row("its paper's", original, number(its, "upper"))
    show(f"{name}, n = {users:,}, delta = {delta!r}, target eps = {epsilon!r}", made)
    if ratio is not None:
        click.echo(f"\nextra amplification ratio (target over what the paper's calibration achieves): {number(ratio, 'lower')}")


def _number(text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(f"--within must be two numbers, got {text!r}")


def _print(found: Calibration, parameter: str, epsilon: float, delta: float) -> None:
    made = table(parameter, "central eps <=", "target", "local eps")
    central, local = number(found.epsilon.upper, "upper"), number(found.x.local_epsilon, "upper")
    made.add_row(repr(found.parameter), central, number(epsilon), local)
    show(f"{found.x!r}, n = {found.n:,}, delta = {delta!r}", made)
