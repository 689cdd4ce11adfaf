"""What a result depends on, as a short text: hashes of values and of the library's code."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from functools import lru_cache
from pathlib import Path
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
        parts = {field.name: identity(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return [type(value).__module__, type(value).__qualname__, parts]
    raise ValueError(f"what is kept must be made of numbers, texts, arrays and dataclasses of them, got {value!r}")


def source_of(x: Any) -> list[Path]:
    """The file of its class, if there is one."""
    try:
        own = inspect.getsourcefile(type(x))
    except TypeError:
        return []
    return [Path(own).resolve()] if own and Path(own).exists() else []


@lru_cache
def library_code(*others: Path) -> str:
    """Hash of the library's source, its randomizers and protocols included, and of other files."""
    root = Path(__file__).parent
    folders = [root, *((root / name).resolve() for name in ("mechanisms", "protocols"))]
    files = {path for folder in folders for path in folder.rglob("*.py")}
    found = hashlib.sha256()
    for path in sorted(files | set(others)):
        found.update(path.read_bytes())
    return found.hexdigest()
