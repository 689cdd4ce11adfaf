"""The built wheel, in an environment that holds nothing but it and the third-party dependencies."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

SIMULATE = """
import shufflesim, shufflesim.mechanisms
result = shufflesim.simulate(shufflesim.mechanisms.GRR(epsilon=2.0, d=3), [0, 1, 2, 2] * 50, delta=1e-6, seed=1)
print(shufflesim.mechanisms.__file__)
print(result.estimates["estimate"].tolist(), result.privacy["epsilon"].tolist())
"""
ENTRY_POINTS = """
from importlib.metadata import entry_points
for group in ("shufflesim.mechanisms", "shufflesim.protocols"):
    for entry in entry_points(group=group):
        print(group, entry.name, entry.load().__module__)
"""


def run(command, **options):
    """Standard output of a command that succeeds."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that no build leftover lands here and none that lies here gets in."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT).split("\0")[:-1]:
        if os.path.lexists(ROOT / name):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, source])
    (built,) = target.iterdir()
    return built


class Installed:
    """The wheel in a virtual environment of its own."""

    def __init__(self, folder, wheel):
        venv.create(folder / "venv", with_pip=True, symlinks=os.name != "nt")
        self.bin = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.outside = folder / "outside"
        self.outside.mkdir()
        # Third-party packages come from the running environment, one link each: without its copy of this package, its
        # metadata, and the .pth file of an editable installation.
        dependencies = folder / "dependencies"
        dependencies.mkdir()
        for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
            for entry in Path(site).iterdir():
                if "shufflesim" not in entry.name and entry.suffix != ".pth":
                    (dependencies / entry.name).symlink_to(entry)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
        self.run("python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
        self.environment["PYTHONPATH"] = str(dependencies)

    def run(self, command, *arguments, cwd=None):
        return run([self.bin / command, *arguments], cwd=cwd or self.outside, env=self.environment)


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheel):
    return Installed(tmp_path_factory.mktemp("environment"), wheel)


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    info = f"{wheel.name.split('-py3')[0]}.dist-info"
    assert {name.split("/")[0] for name in names} == {"shufflesim", info}
    sources = {
        path.relative_to(ROOT / folder.name).as_posix(): f"shufflesim/{folder.name}"
        for folder in (ROOT / "mechanisms", ROOT / "protocols")
        for path in folder.glob("*.py")
    }
    assert sources
    for source, folder in sources.items():
        assert f"{folder}/{source}" in names
    for name in ("py.typed", "datasets/flights.parquet", "datasets/airports.parquet", "datasets/PROVENANCE.md"):
        assert f"shufflesim/{name}" in names
    for name in PYPROJECT["project"]["license-files"]:
        assert f"{info}/licenses/{name}" in names
    assert all(name.endswith((".py", ".parquet", "PROVENANCE.md", "py.typed")) for name in names if not name.startswith(info))


def test_outside_the_repository(installed):
    file, result = installed.run("python", "-c", SIMULATE).splitlines()
    assert Path(file).is_relative_to(installed.bin.parent)
    # From the root the working directory comes first, and with it the source tree.
    source, same = installed.run("python", "-c", SIMULATE, cwd=ROOT).splitlines()
    assert Path(source).resolve() == ROOT / "mechanisms" / "__init__.py"
    assert same == result


def test_entry_points(installed):
    found = [line.split() for line in installed.run("python", "-c", ENTRY_POINTS).splitlines()]
    listed = PYPROJECT["project"]["entry-points"]
    assert sorted((group, name) for group, name, _ in found) == sorted(
        (group, name) for group in listed for name in listed[group]
    )
    assert all(module.startswith(group) for group, _, module in found)


@pytest.mark.parametrize("place", ["outside", "root"])
def test_command(installed, place):
    listing = installed.run("shufflesim", "list", cwd=ROOT if place == "root" else None)
    for name in PYPROJECT["project"]["entry-points"]["shufflesim.mechanisms"]:
        assert name in listing
