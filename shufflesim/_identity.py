"""What a result depends on, as a short text: hashes of values and of the library's code."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


def digest(*said: Any) -> str:
    """Hash of what JSON can hold."""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def identity(value: Any) -> Any:
    """What a value is made of, exactly, in JSON: numbers, texts, arrays, and dataclasses and sequences of these.

    Raises
    ------
    ValueError
        For anything else, such as a function.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, (tuple, list)):
        return [identity(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {name: identity(part) for name, part in _parts(value).items()}
        return [type(value).__module__, type(value).__qualname__, parts]
    raise ValueError(f"what is kept must be made of numbers, texts, arrays and dataclasses of them, got {value!r}")


def source_of(x: Any) -> list[Path]:
    """Files beside the library's: of the classes of a dataclass and its parts, and of what their modules import from files.

    Raises
    ------
    ValueError
        For a class that is in no file, as in a notebook: a change of it would not be seen.
    """
    classes = {base for part in _nested(x) for base in type(part).__mro__}
    own = {base.__module__ for base in classes}
    found: dict[str, Path | None] = {}
    waiting = sorted(own)
    while waiting:
        name = waiting.pop()
        if name in found or name == "builtins":
            continue
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        path = found[name] = Path(file).resolve() if file and Path(file).exists() else None
        if path is None and name in own:
            raise ValueError(f"what is kept must be of a class that is defined in a file, got {x!r} of {name}")
        if path is not None and not any(path.is_relative_to(folder) for folder in _installed()):
            for value in [*vars(module).values()]:
                waiting.append(value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", name)))
    library = _library()
    return sorted({path for path in found.values() if path is not None and path not in library})


def library_code(*others: Path) -> str:
    """Hash of the library's source, its randomizers and protocols included, and of other files as they are now."""
    if not others:
        return _library_code()
    found = hashlib.sha256(_library_code().encode())
    for path in others:
        found.update(path.read_bytes())
    return found.hexdigest()


def _parts(value: Any) -> dict[str, Any]:
    """Fields of a dataclass, and whatever else it has been given; what is cached follows from them."""
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    others = {k: v for k, v in getattr(value, "__dict__", {}).items() if k not in fields}
    return fields | {k: v for k, v in others.items() if not isinstance(getattr(type(value), k, None), cached_property)}


def _nested(value: Any) -> Iterator[Any]:
    """Dataclasses of which a value is made, itself first."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _nested(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value
        yield from _nested([*_parts(value).values()])


@lru_cache
def _library() -> frozenset[Path]:
    root = Path(__file__).resolve().parent
    folders = [root, *((root / name).resolve() for name in ("mechanisms", "protocols"))]
    return frozenset(path for folder in folders for path in folder.rglob("*.py"))


@lru_cache
def _library_code() -> str:
    found = hashlib.sha256()
    for path in sorted(_library()):
        found.update(path.read_bytes())
    return found.hexdigest()


@lru_cache
def _installed() -> tuple[Path, ...]:
    """Folders of Python, of installed packages and of the library, whose versions are known."""
    root = Path(__file__).resolve().parent
    folders = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return (*folders, root, *((root / name).resolve() for name in ("mechanisms", "protocols")))
