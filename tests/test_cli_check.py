"""The check command."""

import json
import re
import sys
from pathlib import Path

import pytest

import shufflesim as ss
from shufflesim.protocols import BallsIntoBins

from .cli_helpers import call, ok, refused

pytestmark = pytest.mark.usefixtures("elsewhere")

USER_CODE = """
from dataclasses import dataclass
import numpy as np
from shufflesim import ChannelRandomizer, Randomizer

@dataclass(frozen=True)
class Stay(ChannelRandomizer):
    epsilon: float
    def channel(self):
        e = np.exp(self.epsilon)
        return np.array([[e, 1, 1], [1, e, 1], [1, 1, e]]) / (e + 2)

@dataclass(frozen=True)
class Liar(Stay):
    def randomize(self, values, rng):
        return values.astype(int)

@dataclass(frozen=True)
class Preset(Stay):
    epsilon: float = 1.0

@dataclass(frozen=True)
class Own(Stay):
    @classmethod
    def examples(cls):
        yield cls(0.5)
        yield cls(1.0)

@dataclass(frozen=True)
class Crash(Stay):
    def __post_init__(self):
        raise ZeroDivisionError("no luck")

class Unfinished(Randomizer):
    pass

class Unrelated:
    pass
"""


@pytest.fixture
def user_code(elsewhere):
    Path("mine.py").write_text(USER_CODE)
    yield
    for name in ("mine", "_checked_mine"):
        sys.modules.pop(name, None)
    sys.path[:] = [entry for entry in sys.path if entry not in ("", ".")]


@pytest.mark.usefixtures("user_code")
def test_check_passes_a_good_class_in_a_file_built_from_its_defaults():
    result = ok("check", "mine.py:Preset")
    assert result.stdout.startswith("Preset(epsilon=1.0)\n")
    assert re.search(r"sampler follows the law +ok ", result.stdout)
    assert "FAIL" not in result.stdout


@pytest.mark.usefixtures("user_code")
def test_check_takes_every_example_of_a_class_in_a_module():
    result = ok("check", "mine:Own")
    assert "Own(epsilon=0.5)\n" in result.stdout
    assert result.stdout.endswith("2 of 2 instances passed\n")


@pytest.mark.usefixtures("user_code")
def test_check_fails_a_broken_class_with_status_1():
    result = call("check", "mine.py:Liar", "-p", "epsilon=1")
    assert result.exit_code == 1
    assert result.stdout.startswith("Liar(epsilon=1)\n")
    assert re.search(r"sampler follows the law +FAIL ", result.stdout)


def test_check_of_a_protocol_as_json():
    result = ok("check", "shufflesim.protocols:BallsIntoBins", "-p", "d=4", "-p", "dummies=2", "--json")
    (report,) = json.loads(result.stdout)
    expected = ss.check_protocol(BallsIntoBins(4, 2))
    assert report["subject"] == expected.subject
    assert report["passed"] is True
    assert report["checks"] == expected.table.to_dict("records")


@pytest.mark.usefixtures("user_code")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["mine"], "must be module:Class or file.py:Class, got 'mine'"),
        (["nowhere.py:Stay"], "must name a file that exists, got 'nowhere.py'"),
        (["nowhere:Stay"], "cannot import 'nowhere': ModuleNotFoundError"),
        (["mine.py:Stya"], "got nothing of that name; did you mean 'Stay'?"),
        (["mine.py:Unrelated"], "must be a subclass of Randomizer or Protocol, got <class"),
        (["mine.py:Unfinished"], "must define every abstract method, got none for aggregate, amplification"),
        (["mine.py:Stay"], "must get its parameters with -p, or have examples()"),
        (["mine.py:Stay", "-p", "eps=1"], "mine.py:Stay takes epsilon; missing a required argument: 'epsilon'"),
        (
            ["mine.py:Crash", "-p", "epsilon=1"],
            "mine.py:Crash cannot be constructed: ZeroDivisionError: no luck (",
        ),
        (["shufflesim.mechanisms:GRR", "-p", "epsilon=1", "-p", "d=1"], "d must be an integer >= 2, got 1"),
    ],
)
def test_check_refuses(args, message):
    assert message in refused("check", *args)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = = 1", "SyntaxError"),
        ("import no_such_thing", "No module named"),
        ("1 / 0", "mine.py, line 1"),
        ("raise SystemExit(0)", "it calls sys.exit(0)"),
    ],
)
def test_check_refuses_code_that_does_not_import(code, message):
    Path("mine.py").write_text(code)
    line = refused("check", "mine.py:Stay")
    assert "cannot import 'mine.py'" in line
    assert message in line
