"""Speed and peak memory of the shuffler on disk, for 10^8 messages of 8 bytes; needs 5 GB of temporary space.

Measured on two shared cores of an x86-64 machine, each more than fully busy with other work, Python 3.11, NumPy 2.4, Arrow 26:
99 s, 1.0e6 rows/s; peak resident memory 130 MiB above the 155 MiB of the libraries, with a bound of 256 MiB.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from _timing import header, line, peak
from pyarrow import parquet

from shufflesim import shuffle_stream

ROWS = 100_000_000
MEMORY = 2**28
# Small, since a process starts with the peak of the one that started it.
BATCH = 100_000


def messages(path: Path) -> None:
    rng = np.random.default_rng(0)
    with parquet.ParquetWriter(path, pa.schema({"message": pa.uint64()})) as writer:
        for _ in range(0, ROWS, BATCH):
            drawn = rng.integers(0, 2**64 - 1, BATCH, dtype=np.uint64)
            writer.write_table(pa.table({"message": drawn}), row_group_size=BATCH)


def checksum(path: Path) -> tuple[int, int]:
    """Number of rows and their sum modulo 2^64, which no order changes."""
    rows, total = 0, np.uint64(0)
    with parquet.ParquetFile(path, buffer_size=2**20) as file, np.errstate(over="ignore"):
        for batch in file.iter_batches(BATCH):
            rows, total = rows + batch.num_rows, total + batch.column(0).to_numpy().sum(dtype=np.uint64)
    return rows, int(total)


def shuffle(source: Path, target: Path) -> None:
    """In a process of its own, whose memory nothing else has grown: print seconds, and peaks before and after."""
    small = target.with_name("small.parquet")
    shuffle_stream(pa.table({"message": [0, 1]}), small, seed=1)
    before, started = peak(), time.perf_counter()
    shuffle_stream(source, target, seed=1, memory=MEMORY)
    print(time.perf_counter() - started, before, peak())


def main() -> None:
    header("Shuffle on disk")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "messages.parquet"), Path(folder, "shuffled.parquet")
        messages(source)
        command = [sys.executable, __file__, str(source), str(target)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, before, after = map(float, printed.split())
        intact = checksum(source) == checksum(target)
    line(f"{ROWS:.0e} messages of 8 bytes", f"{seconds:.0f} s, {ROWS / seconds:.2g} rows/s", "-")
    line(
        "peak resident memory, above that of the libraries", f"{(after - before) / 2**20:.0f} MiB", f"<= {MEMORY / 2**20:.0f} MiB"
    )
    line("peak resident memory, all", f"{after / 2**20:.0f} MiB", "-")
    line("every message is there once", str(intact), "True")


if __name__ == "__main__":
    shuffle(*map(Path, sys.argv[1:])) if sys.argv[1:] else main()
