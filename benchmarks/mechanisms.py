"""Users per second of every mechanism, perturbing and estimating, against plain per-user Python and the packages of others.

`python benchmarks/mechanisms.py [N ...]`, by default 100,000 and 1,000,000 users. The packages pure-ldp and multi-freq-ldpy are
measured in the same run where they are installed.
"""

import importlib
import math
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _timing import header

from shufflesim import mechanisms as m
from shufflesim.domains import Plane
from shufflesim.randomizer import Randomizer
from shufflesim.simulation import BLOCK, BLOCK_DRAWS

EPSILON = 1.0
SIZES = (128, 1024)
# Users of those whose cost grows with each: what takes longer than this is measured on fewer users and says so.
SECONDS = 10.0
# Users for loops over users.
FEW = 2_000

# size (categories, or coordinates of a vector) -> instance; the same work at both sizes for those without one.
OURS: dict[str, Callable[[int], Randomizer]] = {
    "RandomizedResponse": lambda d: m.RandomizedResponse(EPSILON),
    "GRR": lambda d: m.GRR(EPSILON, d),
    "RAPPOR": lambda d: m.RAPPOR(EPSILON, d),
    "OUE": lambda d: m.OUE(EPSILON, d),
    "KSubset": lambda d: m.KSubset(EPSILON, d),
    "LocalHash": lambda d: m.LocalHash(EPSILON, d),
    "LocalHash l=6": lambda d: m.LocalHash(EPSILON, d, 6),
    "HadamardResponse": lambda d: m.HadamardResponse(EPSILON, d),
    "HierarchicalGRR": lambda d: m.HierarchicalGRR(EPSILON, d),
    "Collision s=5": lambda d: m.Collision(EPSILON, d, 5),
    "PrivSet s=5": lambda d: m.PrivSet(EPSILON, d, 5),
    "SamplingRAPPOR s=5": lambda d: m.SamplingRAPPOR(EPSILON, d, 5),
    "Wheel s=5": lambda d: m.Wheel(EPSILON, d, 5),
    "PrivKV s=5": lambda d: m.PrivKV(EPSILON / 2, EPSILON / 2, d, 5),
    "PCKVGRR s=5": lambda d: m.PCKVGRR(EPSILON, d, 5),
    "Duchi": lambda d: m.Duchi(EPSILON, d),
    "Harmony": lambda d: m.Harmony(EPSILON, d),
    "PrivUnit": lambda d: m.PrivUnit(EPSILON, d),
    "Piecewise": lambda d: m.Piecewise(EPSILON),
    "Laplace": lambda d: m.Laplace(EPSILON),
    "MetricLaplace": lambda d: m.MetricLaplace(EPSILON, 0.0, 1.0),
    "PlanarLaplace": lambda d: m.PlanarLaplace(EPSILON, Plane(x=(0, 1), y=(0, 1))),
}


def blocks(randomizer: Randomizer, n: int) -> Iterator[int]:
    """Sizes of the blocks in which `simulate` runs n users."""
    step = max(1, min(BLOCK, BLOCK_DRAWS // randomizer.width))
    return (min(step, n - start) for start in range(0, n, step))


def ours(randomizer: Randomizer, n: int) -> tuple[float, float, int, float]:
    """Users per second of CPU time, perturbing and estimating; users; peak memory in MiB beyond the data."""
    rng = np.random.default_rng(0)
    perturb = estimate = 0.0
    aggregate: Any = 0
    done = 0
    peak = 0.0
    for size in blocks(randomizer, n):
        values = randomizer.domain.validate(randomizer.domain.example(size, rng))
        tracemalloc.start()
        start = time.process_time()
        reports = randomizer.randomize(values, rng)
        middle = time.process_time()
        aggregate = aggregate + randomizer.aggregate(reports)
        end = time.process_time()
        peak = max(peak, tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
        perturb, estimate, done = perturb + middle - start, estimate + end - middle, done + size
        if perturb + estimate > SECONDS:
            break
    start = time.process_time()
    randomizer.estimate(aggregate, done)
    estimate += time.process_time() - start
    return done / perturb, done / estimate, done, peak


def per_user(perturb: Callable[[int], Any], decode: Callable[[list[Any]], Any], d: int) -> tuple[float, float]:
    """Users per second of a loop over users."""
    start = time.process_time()
    reports = [perturb(i % d) for i in range(FEW)]
    middle = time.process_time()
    decode(reports)
    return FEW / (middle - start), FEW / (time.process_time() - middle)


def plain_loops(d: int) -> dict[str, tuple[float, float]]:
    """What anyone would write for one user, and the decoder for a list of reports, in the standard library."""
    e = math.exp(EPSILON)

    def grr(x: int) -> int:
        if random.random() < e / (e + d - 1):
            return x
        y = random.randrange(d - 1)
        return y + (y >= x)

    def oue(x: int) -> list[int]:
        return [int(random.random() < (0.5 if j == x else 1 / (e + 1))) for j in range(d)]

    def subset(x: int) -> list[int]:
        k = max(1, round(d / (e + 1)))
        own = random.random() < k * e / (k * e + d - k)
        others = random.sample(range(d - 1), k - own)
        return [y + (y >= x) for y in others] + [x] * own

    l = round(e + 1)  # noqa: E741

    def hashed(seed: int, x: int) -> int:
        return hash((seed, x)) % l

    def local_hash(x: int) -> tuple[int, int]:
        seed = random.getrandbits(32)
        h = hashed(seed, x)
        return seed, h if random.random() < (e - 1) / (e + l - 1) else random.randrange(l)

    return {
        "GRR": per_user(grr, lambda reports: [reports.count(j) for j in range(d)], d),
        "OUE": per_user(oue, lambda reports: [sum(column) for column in zip(*reports, strict=True)], d),
        "KSubset": per_user(subset, lambda reports: [sum(j in report for report in reports) for j in range(d)], d),
        "LocalHash": per_user(
            local_hash, lambda reports: [sum(hashed(seed, j) == y for seed, y in reports) for j in range(d)], d
        ),
    }


def others(d: int) -> dict[str, tuple[float, float]]:
    """pure-ldp and multi-freq-ldpy, where they are installed and run."""
    found = {}
    pure = {
        "GRR pure-ldp": ("direct_encoding", "DEClient", "DEServer", {}),
        "OUE pure-ldp": ("unary_encoding", "UEClient", "UEServer", {"use_oue": True}),
        "LocalHash pure-ldp": ("local_hashing", "LHClient", "LHServer", {"use_olh": True}),
    }
    for name, (module, client, server, options) in pure.items():
        try:
            package = importlib.import_module(f"pure_ldp.frequency_oracles.{module}")
            sender = getattr(package, client)(EPSILON, d, **options)
            receiver = getattr(package, server)(EPSILON, d, **options)
            found[name] = per_user(
                lambda x, sender=sender: sender.privatise(x + 1),
                lambda reports, receiver=receiver: [receiver.aggregate(r) for r in reports],
                d,
            )
        except Exception as error:  # a package of others that is absent or broken is no failure of ours
            print(f"  {name}: not measured, {type(error).__name__}: {error}")
    multi = {
        "GRR multi-freq-ldpy": ("GRR", "GRR_Client", "GRR_Aggregator_MI", (d, EPSILON), (d, EPSILON)),
        "OUE multi-freq-ldpy": ("UE", "UE_Client", "UE_Aggregator_MI", (d, EPSILON), (EPSILON,)),
        "KSubset multi-freq-ldpy": ("SS", "SS_Client", "SS_Aggregator_MI", (d, EPSILON), (d, EPSILON)),
        "LocalHash multi-freq-ldpy": ("LH", "LH_Client", "LH_Aggregator_MI", (d, EPSILON), (d, EPSILON)),
    }
    for name, (module, client, server, sent, received) in multi.items():
        try:
            package = importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{module}")
            send, receive = getattr(package, client), getattr(package, server)
            # Compiled on the first call.
            receive([send(0, *sent), send(1, *sent)], *received)
            found[name] = per_user(
                lambda x, send=send, sent=sent: send(x, *sent),
                lambda reports, receive=receive, received=received: receive(reports, *received),
                d,
            )
        except Exception as error:  # as above
            print(f"  {name}: not measured, {type(error).__name__}: {error}")
    return found


def rate(users_per_second: float) -> str:
    """Three digits with a unit."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if users_per_second >= size:
            return f"{users_per_second / size:.3g} {unit}"
    return f"{users_per_second:.3g}"


def main() -> None:
    header(f"Mechanisms, users per second of CPU time, one core, eps = {EPSILON:g}")
    sizes = [int(float(text)) for text in sys.argv[1:]] or [100_000, 1_000_000]
    for d in SIZES:
        baselines = plain_loops(d)
        print(f"\nd = {d}{'':<25} {'perturb':>10} {'estimate':>10} {'users':>10} {'peak MiB':>9}   x plain loop")
        for name, make in OURS.items():
            for n in sizes:
                perturb, estimate, done, peak = ours(make(d), n)
                ratios = ""
                if name in baselines:
                    ratios = " / ".join(f"{a / b:,.0f}" for a, b in zip((perturb, estimate), baselines[name], strict=True))
                print(f"  {name:<28} {rate(perturb):>10} {rate(estimate):>10} {done:>10,} {peak:>9.1f}   {ratios}", flush=True)
        for name, (perturb, estimate) in ({f"{k} plain loop": v for k, v in baselines.items()} | others(d)).items():
            print(f"  {name:<28} {rate(perturb):>10} {rate(estimate):>10} {FEW:>10,}")
    for randomizer in (m.GRR(EPSILON, 1024), m.RAPPOR(EPSILON, 1024), m.OUE(EPSILON, 1024), m.HadamardResponse(EPSILON, 1024)):
        totals = np.full(1024, 10**9 // 1024)
        start = time.perf_counter()
        randomizer.estimate(randomizer.sample_aggregate(totals, np.random.default_rng(0)), int(totals.sum()))
        name = type(randomizer).__name__
        print(f"  {name:<18} n = 1e9 by counts, d = 1024: {time.perf_counter() - start:.3f} s (aim: < 1 s)")


if __name__ == "__main__":
    main()
