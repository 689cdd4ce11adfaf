"""Every command in a shell: names, help, streams and exit statuses; and the list command."""

import contextlib
import csv
import functools
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import shufflesim as ss
from shufflesim import catalogue
from shufflesim.cli import main
from shufflesim.cli.output import printable

from .cli_helpers import FLIGHTS, GRR_BOUND, SETTINGS, call, ok, refused

pytestmark = pytest.mark.usefixtures("elsewhere")
PROGRAM = [sys.executable, "-c", "from shufflesim.cli import main; main()"]


# list


def test_list_names_everything_installed():
    rows = {row["name"]: row for row in json.loads(ok("list", "--json").stdout)}
    assert set(rows) == {*catalogue.mechanisms(), *catalogue.protocols()}
    assert rows["local-hash"]["parameters"] == [
        {"name": "epsilon", "required": True},
        {"name": "d", "required": True},
        {"name": "l", "required": False, "default": None},
    ]
    assert rows["grr"]["kind"] == "mechanism"
    assert rows["balls-into-bins"]["kind"] == "protocol"
    assert rows["grr"]["summary"].startswith("GRR on d categories")
    assert rows["laplace"]["domain"] == "Real numbers in [low, high]"
    assert rows["rr"]["domain"].endswith("(d = 2)")


def test_list_has_two_lines_an_entry(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = json.loads(ok("list", "--json").stdout)
    lines = ok("list").stdout.splitlines()[2:]
    assert len(lines) <= 2 * len(rows) + 6
    assert max(map(len, lines)) <= 80
    for row in rows:
        place = next(i for i, line in enumerate(lines) if line.startswith(f"{row['name']} "))
        assert lines[place].split()[1] == row["kind"]
        assert all(parameter["name"] in " ".join(lines[place : place + 2]) for parameter in row["parameters"])
        below = lines[place + 1].strip()
        assert row["summary"].startswith(below.removesuffix(" ...")) or lines[place].endswith(",")
    assert "epsilon, low=0.0, high=1.0" in "\n".join(lines)
    assert "randomizers (in Python only)" in "\n".join(lines)


# Help and streams


def test_version():
    assert ok("--version").stdout == f"shufflesim {ss.__version__}\n"


@pytest.mark.parametrize("command", ["", *main.commands])
def test_help_has_an_example(command):
    assert re.search(r"Examples?:\n +shufflesim ", ok(*command.split(), "--help").stdout)


def test_the_examples_in_the_help_run():
    Path("parts").mkdir()
    pd.DataFrame({"city": ["A", "B"]}).to_parquet("parts/1.parquet")
    Path("cities.txt").write_text("A\nB\n")
    for command in ("list", "bound", "run"):
        text = ok(command, "--help").stdout.replace("\\\n", "")
        for line in re.findall(r"\n +shufflesim (.*)", text):
            if "my.csv" not in line:
                ok(*line.split())


def test_list_explains_one_of_them():
    text = ok("list", "recursive-sum").stdout
    assert text.startswith("recursive-sum: the protocol shufflesim.protocols.RecursiveSum")
    assert "precisions : tuple of int" in text
    assert "Source: Balle" in text
    assert not re.search("Raises|Examples", text)
    assert json.loads(ok("list", "grr", "--json").stdout)["kind"] == "mechanism"


def test_no_command_shows_the_help():
    result = call()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_start_is_light():
    heavy = "('pandas', 'matplotlib', 'rich', 'pyarrow', 'mpmath')"
    code = f"import sys; from shufflesim.cli import main; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_bug_is_not_hidden(monkeypatch):
    def broken(*args, **kwargs):
        raise TypeError("a bug")

    monkeypatch.setattr("shufflesim.catalogue.mechanisms", broken)
    with pytest.raises(TypeError, match="a bug"):
        call("list")


def test_a_closed_pipe_is_quiet():
    command = [*PROGRAM, "bound", "grr", "-p", "epsilon=1", "-p", "d=3", "-n", "9", "--delta", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141


def test_ctrl_c_is_one_line_and_130():
    Path("slow.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [*PROGRAM, "check", "slow.py:Slow"]
    # A shell that runs the tests in the background makes its children ignore the signal.
    attend = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=attend, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "shufflesim: interrupted\n"
        assert process.wait() == 130


def test_progress_goes_to_a_terminal_on_stderr_and_nowhere_else():
    command = [*PROGRAM, *FLIGHTS, "--seed", "7", "--json"]
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        # Reading the terminal of a process that has ended is an error on Linux, and empty elsewhere.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                shown += part
        json.loads(process.stdout.read())
        assert process.wait() == 0
    os.close(ours)
    assert b"simulating" in shown
    assert b"users/s" in shown
    quiet = subprocess.run(command, capture_output=True, text=True, check=True)
    assert quiet.stderr.startswith("shufflesim: note: ")
    assert quiet.stderr.count("\n") == 1


def test_csv_output_has_no_other_lines():
    rows = list(csv.reader(io.StringIO(ok(*GRR_BOUND, "--delta", "1e-6", "--csv").stdout)))
    assert {len(row) for row in rows} == {7}


def test_labels_beyond_the_terminal_s_encoding_are_escaped():
    Path("data.csv").write_text("c\nZürich\n東京\nZürich\n", encoding="utf-8")
    command = [*PROGRAM, "run", "grr", "-p", "epsilon=2", "--data", "data.csv", "--column", "c", *SETTINGS]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "Z\\xfcrich" in result.stdout


def test_unknown_names_get_the_nearest():
    assert "got 'local_hash'; did you mean 'local-hash'?" in refused("bound", "local_hash", "-n", 10, "--delta", 0.1)
    assert "did you mean 'grr'?" in refused("run", "gr", "--data", "x.csv", "--column", "c", "--delta", 0.1)
    assert "No such command 'lst'. Did you mean 'list'?" in refused("lst")


def test_labels_cannot_steer_the_terminal():
    assert printable("a\x1b[31m\n") == "a\\x1b[31m\\n"
    assert printable("Zürich") == "Zürich"
