"""What belongs together stays together: folders, pyproject.toml, entry points, import direction, metadata."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import shufflesim
from shufflesim import mechanisms, protocols
from shufflesim.protocol import Protocol
from shufflesim.randomizer import Randomizer

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = {
    "shufflesim.mechanisms": (mechanisms, Randomizer, set()),
    # Wraps a randomizer that another command-line name stands for.
    "shufflesim.protocols": (protocols, Protocol, {"SingleMessage"}),
}
# Modules that `import shufflesim` leaves to the first use.
LATE = ["click", "dp_accounting", "matplotlib", "mpmath", "pandas", "pyarrow", "rich"]


def run_python(code, cwd):
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)


def test_packages_on_disk_are_the_listed_ones():
    found = [
        str(Path(folder).relative_to(ROOT)).replace(os.sep, ".")
        for folder, _, files in os.walk(ROOT / "shufflesim", followlinks=True)
        if any(name.endswith(".py") for name in files)
    ]
    assert sorted(found) == sorted(PYPROJECT["tool"]["setuptools"]["packages"])
    for package in found:
        assert (ROOT / package.replace(".", "/") / "__init__.py").is_file(), f"{package} needs an __init__.py"


@pytest.mark.parametrize("name", ["mechanisms", "protocols"])
class TestRootFolders:
    def test_link_is_relative(self, name):
        assert os.readlink(ROOT / "shufflesim" / name) == f"../{name}"

    def test_bare_import_is_refused(self, name):
        done = run_python(f"import {name}", ROOT)
        assert done.returncode == 1
        assert done.stderr.endswith(f"ImportError: import this package as shufflesim.{name}, not as {name}\n")

    def test_import_through_the_package(self, name):
        done = run_python(f"import sys, shufflesim.{name}; assert {name!r} not in sys.modules", ROOT)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("group", GROUPS)
class TestEntryPoints:
    def test_resolve_to_classes(self, group):
        module, contract, _ = GROUPS[group]
        for name, value in PYPROJECT["project"]["entry-points"][group].items():
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name), "command-line names are lower case with hyphens"
            where, _, attribute = value.partition(":")
            assert where == group
            assert attribute in module.__all__
            assert issubclass(getattr(import_module(where), attribute), contract)

    def test_every_class_has_one(self, group):
        module, contract, without = GROUPS[group]
        classes = {name for name in module.__all__ if inspect.isclass(cls := getattr(module, name)) and issubclass(cls, contract)}
        listed = [value.partition(":")[2] for value in PYPROJECT["project"]["entry-points"][group].values()]
        assert sorted(listed) == sorted(classes - without)


def test_import_is_light():
    done = run_python(f"import sys, shufflesim; print([name for name in {LATE} if name in sys.modules])", ROOT)
    assert done.stdout == "[]\n", done.stderr


class TestImportDirection:
    """The contract in pyproject.toml, run by import-linter; and that it catches what it is there for."""

    @staticmethod
    def lint(folder):
        # As a command of its own: the linter imports the package that it finds in the working directory.
        command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
        options = ["--no-logo", "--no-cache", "--contract", "direction"]
        return subprocess.run(
            [sys.executable, "-c", command, *options],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            # Wide enough that no reported chain is wrapped.
            env={**os.environ, "COLUMNS": "200"},
        )

    @pytest.fixture
    def tree(self, tmp_path):
        """A copy of the sources with the links kept."""
        shutil.copy(ROOT / "pyproject.toml", tmp_path)
        for name in ("shufflesim", "mechanisms", "protocols"):
            shutil.copytree(
                ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.parquet")
            )
        return tmp_path

    def test_is_kept(self):
        done = self.lint(ROOT)
        assert done.returncode == 0, done.stdout + done.stderr

    @pytest.mark.parametrize(
        ("file", "line", "report"),
        [
            pytest.param(
                "mechanisms/grr.py",
                "from shufflesim.protocols import SingleMessage",
                "shufflesim.mechanisms.grr -> shufflesim.protocols",
                id="through the link",
            ),
            pytest.param(
                "shufflesim/bounds/api.py",
                "def late():\n    from ..randomizer import Randomizer",
                "shufflesim.bounds.api -> shufflesim.randomizer",
                id="inside a function",
            ),
            pytest.param(
                "shufflesim/_checks.py",
                "if TYPE_CHECKING:\n    from .domains import Domain",
                "shufflesim._checks -> shufflesim.domains",
                id="for annotations only",
            ),
            pytest.param(
                "protocols/single_message.py",
                "import shufflesim",
                "shufflesim.protocols.single_message -> shufflesim",
                id="by way of the public names",
            ),
        ],
    )
    def test_violation_is_caught(self, tree, file, line, report):
        with (tree / file).open("a") as source:
            source.write(f"\n\n{line}\n")
        done = self.lint(tree)
        assert done.returncode == 1, done.stdout + done.stderr
        assert report in done.stdout

    def test_module_without_a_layer_is_caught(self, tree):
        (tree / "shufflesim" / "extra.py").write_text("")
        done = self.lint(tree)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "extra" in done.stdout


def test_version_is_stated_once():
    version = shufflesim.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
class TestMakefile:
    def make(self, *arguments):
        # As from a shell, also where `make test` runs this: without what a make hands down to the makes inside it.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env=environment)

    def test_help_lists_every_target(self):
        phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
        done = self.make()
        assert sorted(line.split()[1] for line in done.stdout.splitlines()) == sorted(phony)

    def test_old_python_is_refused_in_one_line(self, tmp_path):
        old = tmp_path / "python3.10"
        old.write_text('#!/bin/sh\ncase "$2" in *exit*) exit 1 ;; *) echo 3.10 ;; esac\n')
        old.chmod(0o755)
        done = self.make("demo", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}")
        assert done.returncode == 2
        line, closing = done.stderr.splitlines()
        assert line == f"shufflesim needs Python 3.11 or newer, got {old} 3.10: choose with PYTHON=python3.12 make"
        assert closing.startswith("make: ***")
        assert not (tmp_path / "venv").exists()
