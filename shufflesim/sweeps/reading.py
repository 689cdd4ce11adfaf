"""The folder of a sweep as one table: whatever in it is damaged, or contradicts itself, is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._checks import nearest
from ..sources import reason
from .store import COLUMNS, KINDS, schema

if TYPE_CHECKING:
    import pandas as pd

# Readings of a folder that changes meanwhile.
TRIES = 10
# What every row has.
WHOLE = ("task", "protocol", "parameters", "data", "data_parameters", "n", "delta", "method", "repeat", "seed")
# Relative difference of two results of one task that is no contradiction: mathematical libraries differ in their last digits.
AGREE = 1e-9
# By what rows are ordered, parameters after the first; the rows of a task keep their order.
ORDER = ("protocol", "data", "n", "delta", "method", "repeat", "seed", "task")


def stored(folder: Path) -> pd.DataFrame:
    """What is needed of each stored task to go on: task, protocol, n, seconds."""
    return _load(folder)[["task", "protocol", "n", "seconds"]].drop_duplicates("task", ignore_index=True)


def read(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """All results in a folder as one tidy table.

    Parameters
    ----------
    folder : path
        Of a sweep, or of several whose files were copied together: a task that is there twice counts once.

    Returns
    -------
    pandas.DataFrame
        One row a run, or an estimate if the experiment asked for estimates: protocol and its parameters (a column each), data and
        what describes them (`data_...`), n, delta, repeat, results, seeds (`seed` of the file, `run_seed` and `data_seed` of the
        task), `version` and `code` (a hash) of the library, `task` (the hash of all that the row depends on). Columns without any
        value are left out, and so are times: the order and the content do not depend on when and where tasks were done.

    Raises
    ------
    ValueError
        If it is no folder, a parquet file in it is damaged or no result of a sweep, or two files contradict each other.

    Examples
    --------
    >>> import tempfile
    >>> import shufflesim as ss
    >>> experiment = {"seed": 1, "n": [100, 1000], "delta": 1e-6, "data": [{"generator": "uniform", "d": 4}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = ss.sweep(experiment | {"protocol": [{"name": "grr", "epsilon": [1.0, 2.0]}]}, folder)
    ...     table.equals(read(folder)), table[["protocol", "epsilon", "n"]].values.tolist()
    (True, [['grr', 1, 100], ['grr', 1, 1000], ['grr', 2, 100], ['grr', 2, 1000]])
    """
    import pandas as pd

    place = Path(folder)
    if not place.is_dir():
        raise ValueError(f"folder must be one with results of sweeps, got {str(place)!r}, which is no folder")
    table = _load(place)[[*COLUMNS[:-1]]].dropna(axis="columns", how="all")
    if table.empty:
        return table
    parameters, about = _expanded(table, "parameters", ""), _expanded(table, "data_parameters", "data_")
    order = [*ORDER[:1], *parameters.columns, *ORDER[1:]]
    made = pd.concat([table.drop(columns=["parameters", "data_parameters"]), parameters, about], axis=1)
    made = made.sort_values(order, key=_sortable, kind="stable", ignore_index=True)
    return made[_beside([*table.columns], {"parameters": [*parameters.columns], "data_parameters": [*about.columns]})]


def _expanded(table: pd.DataFrame, column: str, prefix: str) -> pd.DataFrame:
    """A column for each name in a column of JSON objects."""
    import pandas as pd

    # Sorted: which file comes first depends on how a sweep was interrupted.
    kinds = {text: json.loads(text) for text in sorted(table[column].unique())}
    found = {}
    for name in dict.fromkeys(name for kind in kinds.values() for name in kind):
        # A parameter that has the name of a column is kept apart.
        shown = f"{prefix}{name}" if f"{prefix}{name}" not in COLUMNS else f"parameter_{name}"
        values = {text: _cell(kind.get(name)) for text, kind in kinds.items()}
        found[shown] = pd.Series([values[text] for text in table[column]], index=table.index)
    return pd.DataFrame(found, index=table.index)


def _beside(names: list[str], instead: dict[str, list[str]]) -> list[str]:
    return [one for name in names for one in instead.get(name, [name])]


def _sortable(column: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    return column if pd.api.types.is_numeric_dtype(column) else column.astype(str)


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _load(folder: Path) -> pd.DataFrame:
    """Rows of each task once, from the first file that has it."""
    import pandas as pd
    import pyarrow as pa

    for left in reversed(range(TRIES)):
        try:
            paths = sorted(folder.glob("[!.]*.parquet"))
            tables = [_table(path) for path in paths]
            break
        except FileNotFoundError:
            # A sweep under way has made one file of several.
            if not left:
                raise
    if not tables:
        return pd.DataFrame({name: [] for name in COLUMNS})
    found = pa.concat_tables(tables).to_pandas()
    # Tables that a user has put together can have a row twice in one file.
    file = pd.Series([number for number, table in enumerate(tables) for _ in range(table.num_rows)], dtype=int)
    once = ~found.drop(columns="seconds").assign(file=file).duplicated()
    found, file = found[once].reset_index(drop=True), file[once].reset_index(drop=True)
    first = file.groupby(found["task"].to_numpy()).transform("min")
    if (file != first).any():
        _refuse_contradiction(found, file, first, paths)
    return found[file == first].reset_index(drop=True)


def _refuse_contradiction(found: pd.DataFrame, file: pd.Series[int], first: pd.Series[int], paths: list[Path]) -> None:
    """Rows of a task in several files must be the same."""
    rows = found.assign(file=file, first=first).groupby(["task", "file"])["n"]
    where = found.assign(file=file, first=first, place=rows.cumcount(), size=rows.transform("size"))
    kept, others = where[file == first], where[file != first]
    pairs = others.merge(kept, on=["task", "place"], how="left", suffixes=("", " kept"))
    differ = pairs["size"] != pairs["size kept"]
    for name, kind in KINDS.items():
        if name not in ("task", "seconds"):
            one, other = pairs[name], pairs[f"{name} kept"]
            same = (one == other) | (one.isna() & other.isna())
            differ |= ~(same | ((one - other).abs() <= AGREE * other.abs()) if kind == "real" else same)
    if differ.any():
        named = pairs.loc[differ, ["first", "file"]].iloc[0]
        where_one, where_other = (str(paths[number]) for number in named)
        said = f"got others in {where_one!r} than in {where_other!r}; move one away"
        raise ValueError(f"files must have the same results of a task, {said}")


def _table(path: Path) -> Any:
    """A file, in the types of a result."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = schema()
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
            if missing:
                raise ValueError(f"no column {missing[0]!r}")
            table = file.read(columns=[*COLUMNS], use_threads=False).select([*COLUMNS])
        table.validate(full=True)
        for field in kinds:
            column = table[field.name]
            if column.null_count and field.name in WHOLE:
                raise ValueError(f"a row without {field.name!r}")
            if field.name in ("parameters", "data_parameters"):
                for text in column.unique().to_pylist():
                    if not isinstance(text, str) or not isinstance(json.loads(text), dict):
                        raise ValueError(f"{field.name!r} must hold JSON objects, got {text!r}")
        return table.cast(kinds)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{str(path)!r} must be a result of a sweep: {reason(error)}; move it away") from None


def numeric(table: pd.DataFrame, name: str, option: str) -> str:
    """A column of numbers.

    Raises
    ------
    ValueError
        For any other name; the message has the nearest.
    """
    import pandas as pd

    known = [str(column) for column in table.columns if pd.api.types.is_numeric_dtype(table[column])]
    if name not in known:
        raise ValueError(f"{option} must name a column of numbers, got {name!r}; {nearest(name, known)}")
    return name


def keys(table: pd.DataFrame, wanted: Iterable[str]) -> pd.DataFrame:
    """Rows of some tasks."""
    return table[table["task"].isin({*wanted})].reset_index(drop=True)
