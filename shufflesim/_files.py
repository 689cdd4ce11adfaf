"""Results as files: all of them are made before the first one takes its place."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def write_files(folder: Path, writers: Mapping[str, Callable[[Path], Any]]) -> list[Path]:
    """Write files of a folder by name; a full disk leaves those that were there, and no half of a new one.

    Raises
    ------
    OSError
        If the folder cannot be made, or a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as there:
        for name, write in writers.items():
            write(Path(there) / name)
        for name in writers:
            (Path(there) / name).replace(folder / name)
    return [folder / name for name in writers]
