"""A user's own class, from MODULE:CLASS to instances; whatever its code raises becomes one line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from shufflesim import Protocol, Randomizer


def own_instances(target: str, parameters: dict[str, Any]) -> list[Randomizer | Protocol]:
    """The class of that name built from the parameters; without any, its examples."""
    return _instances(target, _load(target), parameters)


def _load(target: str) -> type[Randomizer] | type[Protocol]:
    from shufflesim import Protocol, Randomizer
    from shufflesim._checks import nearest

    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise click.UsageError(f"MODULE:CLASS must be module:Class or file.py:Class, got {target!r}")
    with users_code(f"cannot import {place!r}"):
        module = _module(place)
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, (Randomizer, Protocol)):
        return found
    candidates = [k for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, (Randomizer, Protocol))]
    hint = f"; {nearest(name, candidates)}" if found is None and candidates else ""
    what = "nothing of that name" if found is None else repr(found)
    raise click.UsageError(f"{name!r} in {place!r} must be a subclass of Randomizer or Protocol, got {what}{hint}")


def _module(place: str) -> ModuleType:
    """Import a dotted module as seen from the current folder, or a file under a name of its own."""
    if not place.endswith(".py"):
        sys.path.insert(0, "")
        return importlib.import_module(place)
    path = Path(place)
    if not path.is_file():
        raise click.UsageError(f"MODULE:CLASS must name a file that exists, got {place!r}")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"_checked_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _instances(target: str, found: type[Randomizer] | type[Protocol], parameters: dict[str, Any]) -> list[Randomizer | Protocol]:
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise click.UsageError(f"{target} must define every abstract method, got none for {missing}")
    signature = inspect.signature(found)
    with users_code(f"{target} has no usable examples()"):
        examples: list[Randomizer | Protocol] = [] if parameters else [*found.examples()]
    if examples:
        return examples
    try:
        signature.bind(**parameters)
    except TypeError as error:
        if not parameters:
            raise click.UsageError(f"{target} must get its parameters with -p, or have examples(): {error}") from error
        raise click.UsageError(f"{target} takes {', '.join(signature.parameters)}; {error}") from error
    with users_code(f"{target} cannot be constructed"):
        return [found(**parameters)]


@contextmanager
def users_code(what: str) -> Iterator[None]:
    """Whatever the code under test raises, as one line that says where."""
    try:
        yield
    except click.ClickException:
        raise
    except ValueError as error:
        raise click.UsageError(f"{what}: {error}") from error
    except SystemExit as error:
        raise click.UsageError(f"{what}: it calls sys.exit({error.code!r})") from error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = last.filename == __file__ or "importlib" in last.filename
        where = "" if ours else f" ({last.filename}, line {last.lineno})"
        raise click.UsageError(f"{what}: {type(error).__name__}: {error}{where}") from error
