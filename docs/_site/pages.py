"""Pages that are made from the code when the site is built, below docs/generated/."""

import inspect
import shutil
from importlib import import_module
from pathlib import Path

from . import catalogue, commands
from .tables import table

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
# Notebooks in the order of the site; any other comes last.
ORDER = ("quickstart", "prototyping", "locations", "composition", "validating_bounds", "protocols", "paper_figures")

# The names of `shufflesim` itself, by topic. Every one of them has to be here, once.
TOPICS = {
    "Bounds": ("epsilon", "delta", "bound_table", "bound_curve", "calibrate", "compose", "Round", "renyi", "Bracket"),
    "Declarations and pairs": ("VariationRatio", "LaplacePair", "PlanarLaplacePair", "TwoLevel"),
    "Simulation": ("simulate", "Simulation", "Repeats", "error_grid", "sweep", "compare", "central_error"),
    "Data": ("categorical", "Stream", "Counts", "Map", "Plane"),
    "Your own": ("Channel", "ChannelRandomizer", "Sampled", "SampledRandomizer", "Randomizer", "Protocol"),
    "Checks": ("check_randomizer", "check_protocol", "audit", "verify"),
    "Users and the shuffler": ("Population", "robustness", "Shuffler", "shuffle_stream"),
}
# Constants with a longer value are named without it.
LONGEST = 500
# What else is public.
MODULES = (
    "mechanisms",
    "protocols",
    "domains",
    "datasets",
    "bounds",
    "empirical",
    "verification",
    "precision",
    "postprocess",
    "plots",
    "catalogue",
    "paper",
    "sweeps",
    "randomizer",
    "protocol",
    "shuffler",
)


def documented():
    """Names by page: (title, module, names)."""
    pages = [(title, "shufflesim", names) for title, names in TOPICS.items()]
    top = [getattr(import_module("shufflesim"), name) for names in TOPICS.values() for name in names]
    for name in MODULES:
        module = import_module(f"shufflesim.{name}")
        names = [n for n in public(module) if not any(getattr(module, n) is thing for thing in top)]
        pages.append((module.__name__, module.__name__, names))
    return pages


def public(module):
    """What a module says is public, or else the functions and classes that it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    found = inspect.getmembers(module, lambda thing: inspect.isfunction(thing) or inspect.isclass(thing))
    return [name for name, thing in found if not name.startswith("_") and thing.__module__ == module.__name__]


def aliases():
    """Where a name is documented, by the bare name and by the module that defines it."""
    found = {}
    for _, module, names in documented():
        for name in names:
            thing = getattr(import_module(module), name)
            found.setdefault(name, f"{module}.{name}")
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = f"{module}.{name}"
    return found


def write(folder):
    """Write all pages anew."""
    texts = {"catalogue.rst": catalogue.page(), "commands.rst": commands.page(), "notebooks.rst": _notebooks()}
    files = []
    for title, module, names in documented():
        files.append(title.lower().replace(" ", "-"))
        texts[f"api/{files[-1]}.rst"] = _reference(title, module, names)
    texts["api/index.rst"] = _heading("API reference") + "Every public name, once.\n\n" + _toctree(files)
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in texts.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _reference(title, module, names):
    """A table of names, then each in full; for a module its docstring first."""
    here = import_module(module)
    parts = [_heading(title)]
    if title == module:
        parts.append(f".. module:: {module}")
        parts.append(inspect.getdoc(here))
        elsewhere = sorted({*public(here)} - {*names})
        if elsewhere:
            parts.append("Also here: " + ", ".join(f"`~shufflesim.{name}`" for name in elsewhere) + ".")
    parts += [f".. currentmodule:: {module}", table([(f"`{name}`", _summary(getattr(here, name))) for name in names])]
    for name in names:
        thing = getattr(here, name)
        if inspect.isclass(thing):
            parts.append(f".. autoclass:: {name}\n   :members:\n   :show-inheritance:")
        elif inspect.isfunction(thing):
            parts.append(f".. autofunction:: {name}")
        else:
            shown = repr(thing)
            parts.append(f".. py:data:: {name}" + (f"\n   :value: {shown}" if len(shown) < LONGEST else ""))
    return "\n\n".join(parts) + "\n"


def _summary(thing):
    return inspect.getdoc(thing).partition("\n")[0] if inspect.isfunction(thing) or inspect.isclass(thing) else "Constant."


def _notebooks():
    names = [path.stem for path in NOTEBOOKS.glob("*.ipynb")]
    names.sort(key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return _heading("Notebooks") + "With the outputs that are stored in them.\n\n" + _toctree([f"/notebooks/{n}" for n in names])


def _heading(title):
    return f"{title}\n{'=' * len(title)}\n\n"


def _toctree(entries):
    return "\n   ".join([".. toctree::", ":maxdepth: 1", "", *entries]) + "\n"
