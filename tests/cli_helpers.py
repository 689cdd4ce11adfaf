"""What the tests of the command line share."""

import pandas as pd
from click.testing import CliRunner

from shufflesim.cli import main

GRR_BOUND = ["bound", "grr", "-p", "epsilon=1", "-p", "d=3", "-n", "100"]
FLIGHTS = ["run", "grr", "-p", "epsilon=2", "--dataset", "flights", "--column", "carrier", "--delta", "1e-8"]
SETTINGS = ["--delta", "1e-6", "--seed", "7"]
GOOD = b"city,age\nA,1\nB,2\nA,3\n"


def call(*args):
    result = CliRunner().invoke(main, [str(a) for a in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ok(*args):
    result = call(*args)
    assert result.exit_code == 0, result.stderr
    return result


def refused(*args):
    """The one line that a mistake gives."""
    result = call(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("shufflesim: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def run_on(labels, suffix, *args, name="grr"):
    """Simulate on a column of labels in a file of that type; the estimates as they are saved."""
    frame = pd.DataFrame({"other": range(len(labels)), "c": labels})
    path = f"data{suffix}"
    frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
    result = ok("run", name, "-p", "epsilon=2", "--data", path, "--column", "c", "--out", "out", *SETTINGS, *args)
    return pd.read_parquet("out/estimates.parquet"), result
