"""The shuffler for messages that do not fit in memory: a uniform permutation of the rows of Parquet files or Arrow batches.

Every row draws a uniform 64-bit key, and the rows come out in the order of their keys. Sorting takes two passes over the disk:
the rows are dealt to buckets by the first digits of their keys, then each bucket is sorted in memory and appended to the target.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ._checks import check_integer
from ._sampling import child, seed_root
from .domains import Array
from .shuffler import Shuffler
from .sources import Source, described, reason

MEMORY = 2**28
# A round of dealing holds up to 7 times its rows (the rows twice, order and digits), a bucket that is sorted up to 3 times its
# rows, and it may have twice as many as planned: an eighth for each leaves room for both.
SHARES = 8
# An Arrow array of text ends at 2^31 bytes.
SHARE_MAX = 2**28
# Bits of the key that one pass deals by, hence files open at once: some systems allow no more than 256.
BITS_MAX = 7
BUCKETS_MAX = 2**8
# Where the keys are among the children of a seed: away from those of `simulate`. Keys that had been drawn for the noise of
# the messages before would order the messages by their noise.
KEYS = int.from_bytes(b"shuffle", "big")
KEY_BITS = 64
KEY_BYTES = 8
# Rows of a row group of the target.
GROUP_ROWS = 2**20


def shuffle_stream(
    source: str | os.PathLike[str] | Iterable[Any],
    target: str | os.PathLike[str],
    *,
    seed: int | np.random.SeedSequence | None,
    columns: Sequence[str] | None = None,
    memory: int = MEMORY,
    buckets: int | None = None,
    minimum_batch: int = 1,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write the rows of a stream to one Parquet file in a uniformly random order.

    Parameters
    ----------
    source : path, or iterable of pyarrow.RecordBatch or pyarrow.Table
        A Parquet file, a folder of `*.parquet` files (taken in the order of their names), or batches of one schema. Columns are
        released as they are: leave out what names a sender, such as a pandas index that was saved with the data.
    target : path
        The Parquet file to write. It appears whole or not at all, and replaces a file of that name.
    seed : int or numpy.random.SeedSequence, or None
        Fixes the order; whoever knows it can undo the shuffle. None draws fresh entropy and keeps no record of it.
    columns : sequence of str, optional
        The columns to release, those of the messages; by default all.
    memory : int
        Bytes for the rows that are held at once; at least 8 times the largest row. Not counted: the caller's own batches, and
        what Arrow needs for a column to read and write it, a few pages (some MB for 8-byte messages).
    buckets : int, optional
        Temporary files to deal to: a power of two up to 256. By default the fewest whose rows take an eighth of `memory`, at
        most 128, or 128 where the size is not known beforehand. The rows of a bucket that is too large are dealt once more.
    minimum_batch : int
        Number of rows without which nothing is released; >= 1. For m messages per user that is m times the number of users.
    progress : callable, optional
        Called with the number of rows done so far; a row that is dealt but not yet written is half done.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    ValueError
        If an argument is out of range, schemas differ, a file cannot be read (the message names it and its row group), or the
        target cannot be written. Nothing is left behind then.

    Notes
    -----
    The order is uniform. Keys are independent and identically distributed, so that without ties each order of the rows is
    equally likely to sort them; rows with equal keys are put in a uniform order, drawn apart from the keys. Dealing by the
    leading digits of the key, sorting every bucket and joining the buckets in the order of their digits is sorting by key.

    The result depends on the seed and the rows in their order alone, not on `memory`, `buckets`, or how the rows are cut into
    batches. The keys come from NumPy's PCG64, which suits simulation and is not a cryptographic generator.

    Temporary files, in a folder `.TARGET.partial-*` beside the target, take the size of the rows in Arrow's format and 8 bytes a
    row, and then the target. The folder is removed whatever is raised; after a kill it stays, and can be deleted. Metadata of
    the schema is not carried over. A dictionary-encoded column keeps its type, but every bucket holds its dictionary.

    Examples
    --------
    >>> batches = (pa.record_batch({"message": np.arange(1000) + 1000 * k}) for k in range(10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = shuffle_stream(batches, f"{folder}/shuffled.parquet", seed=1, memory=2**16)
    ...     shuffled = parquet.read_table(f"{folder}/shuffled.parquet")["message"].to_numpy()
    >>> rows, shuffled[:3].tolist(), sorted(shuffled.tolist()) == list(range(10_000))
    (10000, [1392, 1632, 1667], True)
    """
    root = seed_root(seed)
    shuffler = Shuffler(minimum_batch)
    memory = check_integer("memory", memory, low=1)
    bits = None if buckets is None else _digits(buckets)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable, got {progress!r}")
    share = min(memory // SHARES, SHARE_MAX)
    read = Source.of(source, columns, share)
    goal = _target(target, source)
    if read.rows is not None:
        shuffler.admit(read.rows, "rows")
    if bits is None:
        bits = BITS_MAX if read.rows is None or read.size is None else _bits(read.size + KEY_BYTES * read.rows, share)

    halves = 0

    def half(rows: int) -> None:
        nonlocal halves
        halves += rows
        if progress is not None:
            progress(halves // 2)

    with _workplace(goal) as folder, _released(goal, folder / goal.name, read.schema) as write:
        rng = np.random.default_rng(child(root, KEYS))
        keyed = _keyed(_cut(read.tables, share, memory), read.schema, rng)
        dealt = _deal(_rounds(keyed, share), folder / "bucket", bits, 0, goal, half)
        rows = sum(bucket.rows for bucket in dealt)
        shuffler.admit(rows, "rows")
        for bucket in dealt:
            for table in _sorted(bucket, share, root, goal):
                write(table)
                half(table.num_rows)
                # Not held while the next bucket is read.
                del table
    return rows


def _digits(buckets: Any) -> int:
    """Bits of a key that tell so many buckets apart."""
    number = check_integer("buckets", buckets, low=1, high=BUCKETS_MAX)
    if number & (number - 1):
        raise ValueError(f"buckets must be a power of two, got {number}")
    return number.bit_length() - 1


def _bits(size: int, share: int) -> int:
    """The fewest leading bits of the key whose buckets are within a share on average; one pass has at most `BITS_MAX`."""
    return min(BITS_MAX, (-(-max(1, size) // max(1, share)) - 1).bit_length())


# Pieces of what is read


def _cut(tables: Iterator[Any], share: int, memory: int) -> Iterator[Any]:
    """Pieces that are within a share with their keys."""
    for table in tables:
        waiting = [table]
        while waiting:
            piece = waiting.pop()
            rows = piece.num_rows
            size = piece.nbytes + KEY_BYTES * rows
            if size <= share:
                yield piece
            elif rows > 1:
                waiting += [piece.slice(rows // 2), piece.slice(0, rows // 2)]
            else:
                rule = f"at least {SHARES} times the largest row with its key ({size:,} bytes)"
                raise ValueError(f"memory must be {rule}, got {memory:,}")


def _keyed(tables: Iterator[Any], schema: Any, rng: np.random.Generator) -> Iterator[Any]:
    """Append a column of keys; each takes one number of the stream, wherever the tables are cut."""
    schema = schema.append(pa.field("", pa.uint64(), nullable=False))
    for table in tables:
        yield pa.Table.from_arrays([*table.columns, pa.array(_keys(rng, table.num_rows))], schema=schema)


def _keys(rng: np.random.Generator, rows: int) -> Array:
    return rng.integers(0, 2**KEY_BITS - 1, rows, dtype=np.uint64, endpoint=True)


def _rounds(tables: Iterator[Any], share: int) -> Iterator[Any]:
    """Tables joined up to a share. What is handed out is not held here."""
    held: list[Any] = []
    size = 0
    for table in tables:
        if held and size + table.nbytes > share:
            yield _joined(held)
            size = 0
        held.append(table)
        size += table.nbytes
    if held:
        yield _joined(held)


def _joined(tables: list[Any]) -> Any:
    """All of a list, which is emptied."""
    whole = pa.concat_tables(tables)
    tables.clear()
    return whole


# Dealing and sorting. Temporary tables have the keys as last column.


@dataclass
class _Bucket:
    """A temporary file with rows whose keys agree in their first `used` bits."""

    path: Path
    used: int
    file: Any
    writer: Any
    rows: int = 0
    size: int = 0

    def write(self, table: Any) -> None:
        self.writer.write_table(table)
        self.rows += table.num_rows
        self.size += table.nbytes

    def close(self) -> None:
        self.writer.close()
        self.file.close()


def _deal(
    tables: Iterator[Any], stem: Path, bits: int, used: int, target: Path, done: Callable[[int], None] | None
) -> list[_Bucket]:
    """Rows to files by the next bits of their keys, in the order in which they come; the files in the order of the digits."""
    buckets: dict[int, _Bucket] = {}
    try:
        for table in tables:
            rows = table.num_rows
            with _writing(target):
                table = table.combine_chunks()
                # NumPy's shift by 64 gives 0, as it must where `bits` is 0.
                digits = (_keys_of(table) << np.uint64(used) >> np.uint64(KEY_BITS - bits)).astype(np.uint16)
                table = table.take(pa.array(np.argsort(digits, kind="stable")))
                ends = np.cumsum(np.bincount(digits)).tolist()
                for digit, (start, end) in enumerate(pairwise([0, *ends])):
                    if start < end:
                        if digit not in buckets:
                            buckets[digit] = _bucket(Path(f"{stem}-{digit}"), used + bits, table.schema)
                        buckets[digit].write(table.slice(start, end - start))
            # Not held while the next round is read.
            del table, digits
            if done is not None:
                done(rows)
        with _writing(target):
            for bucket in buckets.values():
                bucket.close()
    except BaseException:
        for bucket in buckets.values():
            with suppress(OSError):
                bucket.close()
        raise
    return [buckets[digit] for digit in sorted(buckets)]


def _bucket(path: Path, used: int, schema: Any) -> _Bucket:
    file = pa.OSFile(str(path), "wb")
    return _Bucket(path, used, file, pa.ipc.new_stream(file, schema))


def _sorted(bucket: _Bucket, share: int, root: np.random.SeedSequence, target: Path) -> Iterator[Any]:
    """The rows of a bucket in their final order, as tables without keys; the bucket's file is gone afterwards."""
    # Beyond the last bit of the key there is nothing to deal by: so many equal keys do not occur.
    if bucket.size > 2 * share and bucket.used < KEY_BITS:
        bits = min(max(1, _bits(bucket.size, share)), KEY_BITS - bucket.used)
        smaller = _deal(_rounds(_stored(bucket, target), share), bucket.path, bits, bucket.used, target, None)
        bucket.path.unlink()
        for part in smaller:
            yield from _sorted(part, share, root, target)
        return
    with _writing(target):
        table = pa.concat_tables(_stored(bucket, target)).combine_chunks()
        bucket.path.unlink()
        order = pa.array(_order(_keys_of(table), root))
        table = table.remove_column(table.num_columns - 1)
    for start in range(0, len(order), GROUP_ROWS):
        yield table.take(order.slice(start, GROUP_ROWS))


def _stored(bucket: _Bucket, target: Path) -> Iterator[Any]:
    with _writing(target), pa.OSFile(str(bucket.path)) as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _keys_of(table: Any) -> Array:
    keys: Array = table.column(table.num_columns - 1).to_numpy()
    return keys


def _order(keys: Array, root: np.random.SeedSequence) -> Array:
    """The order that sorts keys, where rows with equal keys are permuted by a generator that depends on seed and key alone."""
    order = np.argsort(keys)
    ranked = keys[order]
    tied = ranked[1:] == ranked[:-1]
    if tied.any():
        # First and last rank of every run of equal keys.
        edges = np.flatnonzero(np.diff(tied, prepend=False, append=False))
        for first, last in edges.reshape(-1, 2).tolist():
            rng = np.random.default_rng(child(root, KEYS, int(ranked[first])))
            order[first : last + 1] = rng.permutation(np.sort(order[first : last + 1]))
    return order


# The target


def _target(target: Any, source: Any) -> Path:
    if not isinstance(target, (str, os.PathLike)):
        raise ValueError(f"target must be a path, got {target!r}")
    path = Path(target)
    if path.is_dir() or not path.name:
        raise ValueError(f"target must be a file, got the folder {str(path)!r}")
    if not path.parent.is_dir():
        raise ValueError(f"target must be in a folder that exists, got {str(path)!r}")
    if isinstance(source, (str, os.PathLike)):
        origin = Path(source)
        if path.parent.samefile(origin) or (path.exists() and path.samefile(origin)):
            raise ValueError(f"target must be outside of the source, got {str(path)!r}")
    return path


@contextmanager
def _workplace(target: Path) -> Iterator[Path]:
    """A folder for temporary files that only this user can read; on the file system of the target, so that moving is atomic."""
    with _writing(target):
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _released(target: Path, partial: Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """What writes a table to the target, which appears at the end if nothing was raised."""
    with _writing(target):
        try:
            schema.empty_table().take(pa.array([], pa.int64()))
            writer = parquet.ParquetWriter(partial, schema)
        except pa.ArrowException as error:
            rule = "source must have columns that Arrow can reorder and Parquet can hold"
            raise ValueError(f"{rule}, got {described(schema)}: {reason(error)}") from error

    def write(table: Any) -> None:
        with _writing(target):
            writer.write_table(table, row_group_size=GROUP_ROWS)

    try:
        yield write
    except BaseException:
        # Here and not when the object is collected, where an error could not be silenced.
        with suppress(OSError):
            writer.close()
        raise
    with _writing(target):
        writer.close()
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(target)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """A disk that is full or read-only, as one line."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"target must be writable, got {str(target)!r}: {reason(error)}") from error
