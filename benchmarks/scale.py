"""Speed and peak memory of a simulation on data that are read batch by batch: 10^8 users on disk, 0.1 GB of temporary space.

Measured on two shared cores of an x86-64 machine, busy with other work, Python 3.11, NumPy 2.4, Arrow 26: GRR 1.6e7 and
LocalHash 1.3e7 users per second and core (one array in memory: 2.3e7 and 1.7e7); peak resident memory 179 MiB, of which the
libraries take 122 MiB.
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

import shufflesim as ss
from shufflesim.mechanisms import GRR, LocalHash

USERS = 100_000_000
FILES = 10
D = 128
RANDOMIZERS = {"GRR": GRR(1.0, D), "LocalHash": LocalHash(1.0, D)}
GROUP_ROWS = 2**20


def column(folder: Path) -> None:
    """Codes of one byte in several files, by a process of its own: a process starts with the peak of the one that started it."""
    rng = np.random.default_rng(0)
    for number in range(FILES):
        with parquet.ParquetWriter(folder / f"part-{number:02}.parquet", pa.schema({"code": pa.uint8()})) as writer:
            for start in range(0, USERS // FILES, GROUP_ROWS):
                rows = min(GROUP_ROWS, USERS // FILES - start)
                writer.write_table(pa.table({"code": rng.integers(0, D, rows, dtype=np.uint8)}))


def run(folder: Path, name: str) -> None:
    """In a process of its own: print users, seconds of processor and wall clock, and peaks before and after."""
    randomizer = RANDOMIZERS[name]
    ss.simulate(randomizer, [0, 1], delta=1e-8, seed=1)
    before, started, busy = peak(), time.perf_counter(), time.process_time()
    result = ss.simulate(randomizer, folder, delta=1e-8, seed=1)
    print(result.n, time.process_time() - busy, time.perf_counter() - started, before, peak())


def main() -> None:
    header(f"Simulation of {USERS:.0e} users on disk, 1 worker")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, folder], check=True)
        for name in RANDOMIZERS:
            printed = subprocess.run([sys.executable, __file__, folder, name], check=True, capture_output=True, text=True).stdout
            users, busy, seconds, before, after = map(float, printed.split())
            line(f"{name}, d={D}: users per second and core", f"{users / busy:.3g}", "-")
            line(f"{name}: wall clock", f"{seconds:.1f} s", "-")
            line(f"{name}: peak resident memory, all", f"{after / 2**20:.0f} MiB", "< 2048 MiB")
            line(f"{name}: above that of the libraries", f"{(after - before) / 2**20:.0f} MiB", "-")


if __name__ == "__main__":
    given = sys.argv[1:]
    main() if not given else column(Path(given[0])) if len(given) == 1 else run(Path(given[0]), given[1])
