"""Speed of the simulation against plain NumPy, and of the local-hash decoders; start-up time."""

import math
import resource
import subprocess
import sys
import time

import numpy as np
from _timing import header, line, median_seconds

import shufflesim as ss
from shufflesim.mechanisms import GRR, LocalHash


def plain_grr(values: np.ndarray, d: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """The four lines that anyone would write: perturb and count, no shuffle, no checks."""
    truthful = (math.exp(epsilon) - 1) / (math.exp(epsilon) + d - 1)
    keep = rng.random(values.size) < truthful
    reports = np.where(keep, values, rng.integers(0, d, values.size, dtype=values.dtype))
    return np.bincount(reports, minlength=d)


def main() -> None:
    header("Simulation")
    n, d = 10_000_000, 128
    values = np.random.default_rng(0).integers(0, d, n, dtype=np.uint8)
    ours = median_seconds(lambda: ss.simulate(GRR(1.0, d), values, delta=1e-8, seed=1), repeats=5)
    plain = median_seconds(lambda: plain_grr(values, d, 1.0, np.random.default_rng(1)), repeats=5)
    line("GRR n=1e7 d=128, simulate (shuffle included)", f"{ours:.2f} s", "-")
    line("GRR n=1e7 d=128, four plain NumPy lines", f"{plain:.2f} s", "-")
    line("GRR: ratio", f"{ours / plain:.2f}", "<= 2")

    for d, aim in ((1024, "< 1 s"), (2**20, "< 10 s")):
        mechanism = LocalHash(1.0, d, 3)
        values = np.random.default_rng(0).integers(0, d, 1_000_000).astype(mechanism.domain.dtype)
        start = time.perf_counter()
        reports = mechanism.randomize(values, np.random.default_rng(1))
        middle = time.perf_counter()
        mechanism.estimate(mechanism.aggregate(reports), values.size)
        end = time.perf_counter()
        figure = f"{middle - start:.2f} + {end - middle:.2f} s"
        line(f"LocalHash n=1e6 d={d} l=3, perturb + decode", figure, aim)
    line("peak memory so far", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB", "< 2 GiB")

    command = [sys.executable, "-c", "import shufflesim"]
    start_up = median_seconds(lambda: subprocess.run(command, check=True), repeats=9)
    empty = median_seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True), repeats=9)
    line("import shufflesim (whole process, an empty one subtracted)", f"{start_up - empty:.2f} s", "< 0.5 s")


if __name__ == "__main__":
    main()
