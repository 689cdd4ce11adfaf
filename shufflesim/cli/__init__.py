"""The command line: `shufflesim COMMAND`, one module a command."""

import click

from shufflesim._version import __version__

from .audit import audit
from .bound import bound
from .calibrate import calibrate
from .check import check
from .compare import compare
from .demo import demo
from .listing import list_
from .reproduce import reproduce
from .run import run
from .shell import Shell
from .shuffle import shuffle
from .sweep import plot, sweep

__all__ = ["main"]


@click.group(cls=Shell, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shufflesim", message="%(prog)s %(version)s")
def main() -> None:
    """Simulate, bound and validate protocols in the shuffle model of differential privacy.

    \b
    Examples:
      shufflesim demo
      shufflesim list
      shufflesim bound grr -p epsilon=2 -p d=100 -n 1e6 --delta 1e-8
      shufflesim calibrate grr -p d=100 --find epsilon -n 1e6 --delta 1e-8 --epsilon 0.05
      shufflesim compare --epsilon 1 --delta 1e-8 --dataset flights --column carrier grr oue local-hash
      shufflesim run grr -p epsilon=2 --dataset flights --column dest --delta 1e-8 --seed 7
      shufflesim shuffle messages.parquet shuffled.parquet --column message
      shufflesim check my_randomizer.py:MyRandomizer -p epsilon=1
      shufflesim audit grr -p epsilon=1 -p d=3 -n 3 --eps 0.5 --bound published
      shufflesim reproduce fig1 --out out/
      shufflesim sweep experiment.toml --out results/
      shufflesim plot results/ --x n --y rmse --hue protocol --out picture.png

    Exit status: 0 ok, 1 a check failed, 2 bad input (one line on stderr).
    """


for command in (list_, bound, calibrate, compare, run, shuffle, demo, check, audit, reproduce, sweep, plot):
    main.add_command(command)
