"""What the documentation shows: its code runs, its commands exist, and every public name is in the reference once."""

import inspect
import json
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import shufflesim
from shufflesim import catalogue
from shufflesim.cli import main
from tests.cli_helpers import ok

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = ".venv/bin/shufflesim"
# Commands that take longer than 5 seconds, by how they begin: these are parsed, all others are run.
SLOW = ("compare --epsilon 1 --delta 1e-8 --data flights",)
# Modules with public names that are not in `dir(shufflesim)`.
CONTRACTS = ("bounds", "protocol", "randomizer", "shuffler", "verification")
# Blocks stand alone, with the line numbers of their page; sessions (>>>) of a page share their names.
RUN = """
import doctest, json, sys, types
import matplotlib
matplotlib.use("Agg")
page, blocks = json.load(sys.stdin)
session = [(line, text) for line, text in blocks if text.startswith(">>>")]
for line, text in blocks:
    if (line, text) not in session:
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile("\\n" * line + text, page, "exec"), module.__dict__)
names = {}
for line, text in session:
    test = doctest.DocTestParser().get_doctest(text, names, page, page, line)
    failed = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, clear_globs=False).failed
    names.update(test.globs)
    if failed:
        sys.exit(1)
"""


def blocks(page, language):
    """(Lines before it, text) of each fenced block in a language."""
    text = page.read_text(encoding="utf-8")
    return [(text[: m.start(2)].count("\n"), m[2]) for m in BLOCK.finditer(text) if m[1] == language]


def commands(page):
    """Words of every command line in a block without a language."""
    lines = "".join(text for _, text in blocks(page, "")).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def parse(arguments):
    """As the command line would, without running anything."""
    with main.make_context("shufflesim", list(arguments)) as top:
        _, command, rest = main.resolve_command(top, [*arguments])
        command.make_context(command.name, rest, parent=top)


def of(pages, found):
    return [pytest.param(page, id=page.name) for page in pages if found(page)]


@pytest.mark.parametrize("page", of(PAGES, lambda page: blocks(page, "python")))
def test_python_blocks_run(page, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        input=json.dumps([page.name, blocks(page, "python")]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize("page", of(PAGES, commands))
@pytest.mark.usefixtures("elsewhere")
class TestCommands:
    def test_exist(self, page):
        Path("my.csv").write_text("city\nA\nB\nA\n")
        targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
        for tool, *arguments in commands(page):
            if tool == "make":
                assert {*arguments} <= {*targets}
            else:
                assert tool == COMMAND
                parse(arguments)

    def test_run(self, page, no_picture):
        Path("my.csv").write_text("city\nA\nB\nA\n")
        Path("docs").symlink_to(ROOT / "docs")
        for tool, *arguments in commands(page):
            if tool == COMMAND and not " ".join(arguments).startswith(SLOW):
                ok(*arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_exist(page, elsewhere):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for command in re.findall(rf"`(?:{re.escape(COMMAND)}|shufflesim) ([^`]+)`", text):
        name, *arguments = shlex.split(command)
        assert name in main.commands, command
        # Without arguments the command is meant, with dots any arguments.
        if arguments and "..." not in arguments:
            parse([name, *arguments])


def test_every_public_name_is_in_the_reference_once(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import_module("_site.pages").write(tmp_path)
    top, found = [], []
    for page in tmp_path.rglob("api/*.rst"):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"^\.\. (?:autoclass|autofunction|py:data):: (\w+)$", text, re.MULTILINE):
            module = import_module(re.search(r"^\.\. currentmodule:: (.*)$", text, re.MULTILINE)[1])
            found.append(id(getattr(module, name)))
            top += [name] if module is shufflesim else []
    assert len(found) == len({*found})
    assert sorted(top) == sorted({*shufflesim.__all__} - {"__version__"})

    expected = {id(getattr(shufflesim, name)): name for name in top}
    modules = {name for name in dir(shufflesim) if inspect.ismodule(getattr(shufflesim, name))}
    for module in (import_module(f"shufflesim.{name}") for name in {*modules, *CONTRACTS}):
        own = {name: thing for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__}
        defined = [name for name, thing in own.items() if inspect.isclass(thing) or inspect.isfunction(thing)]
        public = getattr(module, "__all__", [name for name in defined if not name.startswith("_")])
        expected |= {id(getattr(module, name)): f"{module.__name__}.{name}" for name in public}
    missing = [name for thing, name in expected.items() if thing not in found]
    assert not missing
    assert {*found} == {*expected}


@pytest.mark.parametrize("cls", [*catalogue.mechanisms().values(), *catalogue.protocols().values()], ids=lambda cls: cls.__name__)
def test_a_class_says_what_the_catalogue_shows(cls, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    said = import_module("_site.catalogue").facts(cls)
    assert {"Data", "Source", "Declares"} <= said.keys()
    assert said["Source"] in " ".join(inspect.getdoc(cls).split())
    assert said["Declares"] != "nothing: "
