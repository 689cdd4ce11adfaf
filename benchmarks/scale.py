"""Speed and memory of runs on data on disk: one and two workers, processes and a Dask cluster on this machine, in one run.

`python benchmarks/scale.py [USERS]`, by default 10^8 users: 0.1 GB of temporary space and some minutes. Every way is measured
three times in turn, printed are medians of times and of ratios within a round; workers have been started before.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
from _timing import header, line, peak
from pyarrow import parquet

import shufflesim as ss
from shufflesim.mechanisms import GRR, LocalHash

USERS = 100_000_000
FILES = 10
ROUNDS = 3
D = 128
RANDOMIZERS = {"GRR": GRR(1.0, D), "LocalHash": LocalHash(1.0, D)}
GROUP_ROWS = 2**20
WORKERS = (1, 2)


def column(folder: Path, users: int) -> None:
    """Codes of one byte in several files, by a process of its own: a process starts with the peak of the one that started it."""
    rng = np.random.default_rng(0)
    for number in range(FILES):
        with parquet.ParquetWriter(folder / f"part-{number:02}.parquet", pa.schema({"code": pa.uint8()})) as writer:
            for start in range(0, users // FILES, GROUP_ROWS):
                rows = min(GROUP_ROWS, users // FILES - start)
                writer.write_table(pa.table({"code": rng.integers(0, D, rows, dtype=np.uint8)}))


def alone(folder: Path, name: str) -> None:
    """In a process of its own: print users, seconds of processor and wall clock, and peaks before and after."""
    randomizer = RANDOMIZERS[name]
    ss.simulate(randomizer, [0, 1], delta=1e-8, seed=1)
    before, started, busy = peak(), time.perf_counter(), time.process_time()
    result = ss.simulate(randomizer, folder, delta=1e-8, seed=1)
    print(result.n, time.process_time() - busy, time.perf_counter() - started, before, peak())


def together(folder: Path) -> None:
    """All ways in turn, by seconds of wall clock."""
    from distributed import Client, LocalCluster

    seconds: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    made: dict[str, set[bytes]] = defaultdict(set)

    def warm(**options: object) -> None:
        ss.simulate(RANDOMIZERS["GRR"], folder / "part-00.parquet", delta=1e-8, seed=1, **options)

    with ExitStack() as stack:
        ways: dict[tuple[str, int], dict] = {("processes", number): {"workers": number} for number in WORKERS}
        # Before the cluster, which changes the environment that processes inherit (how they give back memory).
        warm(workers=max(WORKERS))
        for number in WORKERS:
            cluster = stack.enter_context(LocalCluster(n_workers=number, threads_per_worker=1, dashboard_address=":0"))
            ways["Dask", number] = {"client": stack.enter_context(Client(cluster, set_as_default=False))}
            warm(**ways["Dask", number])
        for _ in range(ROUNDS):
            for name, randomizer in RANDOMIZERS.items():
                for way, options in ways.items():
                    started = time.perf_counter()
                    result = ss.simulate(randomizer, folder, delta=1e-8, seed=1, **options)
                    seconds[name, *way].append(time.perf_counter() - started)
                    made[name].add(result.aggregate.tobytes())
        for number in WORKERS:
            peaks = ways["Dask", number]["client"].run(peak).values()
            line(f"Dask, {number} workers: peak resident memory of one", f"{max(peaks) / 2**20:.0f} MiB", "< 2048 MiB")
    for name in RANDOMIZERS:
        line(f"{name}: different results of all ways", str(len(made[name])), "1")
        took = {way: statistics.median(seconds[name, *way]) for way in ways}
        for (kind, number), wall in took.items():
            line(f"{name}, {kind}, {number} workers: wall clock", f"{wall:.2f} s", "-")
        for kind in ("processes", "Dask"):
            line(f"{name}, {kind}: 1 -> 2 workers", f"{ratio(seconds, (name, kind, 1), (name, kind, 2)):.2f}", ">= 1.7")
        for number in WORKERS:
            more = ratio(seconds, (name, "Dask", number), (name, "processes", number)) - 1
            line(f"{name}, {number} workers: overhead of Dask", f"{100 * more:.1f}%", "< 25%")


def ratio(seconds: dict[tuple[str, str, int], list[float]], first: tuple[str, str, int], second: tuple[str, str, int]) -> float:
    """Median over the rounds: a shared machine is not equally fast in all of them."""
    return statistics.median(a / b for a, b in zip(seconds[first], seconds[second], strict=True))


def main(users: int) -> None:
    header(f"Simulation of {users:.0e} users on disk")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, "column", folder, str(users)], check=True)
        for name in RANDOMIZERS:
            command = [sys.executable, __file__, "alone", folder, name]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            done, busy, seconds, before, after = map(float, printed.split())
            line(f"{name}, d={D}: users per second and core", f"{done / busy:.3g}", "-")
            line(f"{name}: wall clock", f"{seconds:.1f} s", "-")
            line(f"{name}: peak resident memory, all", f"{after / 2**20:.0f} MiB", "< 2048 MiB")
            line(f"{name}: above that of the libraries", f"{(after - before) / 2**20:.0f} MiB", "-")
        together(Path(folder))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["column", folder, users]:
            column(Path(folder), int(users))
        case ["alone", folder, name]:
            alone(Path(folder), name)
        case given:
            main(int(float(given[0])) if given else USERS)
