"""Speed of the bound engine, beside a plain implementation of Algorithm 1 of the variation-ratio paper, in one run."""

import math
import time

import numpy as np
from _timing import header, line, median_seconds

import shufflesim as ss
from shufflesim import PlanarLaplacePair
from shufflesim.mechanisms import GRR, RAPPOR, Laplace, LocalHash
from shufflesim.paper.speed import algorithm1, algorithm1_seconds

DELTA = 1e-10
SIZES = (10**3, 10**4, 10**6, 10**8, 10**10, 10**12)
# Bisections of the baseline, and the longest that it may take in full; beyond that its time is scaled from parts of one delta.
BISECTIONS = 20
BASELINE_SECONDS = 60.0


def compare(name: str, x: ss.VariationRatio, n: int, aim: str) -> None:
    """Time of the baseline over that of the engine, and whether the engine's bracket is inside the baseline's last interval."""
    engine = median_seconds(lambda: ss.epsilon(x, n, DELTA, bound="published"), repeats=9)
    bracket = ss.epsilon(x, n, DELTA, bound="published")
    seconds = algorithm1_seconds(x, n, bracket.upper, BISECTIONS)
    how = "ten chunks of one delta, scaled"
    if seconds < BASELINE_SECONDS:
        start = time.perf_counter()
        low, high = algorithm1(x, n, DELTA, BISECTIONS)
        seconds, how = time.perf_counter() - start, "in full"
        inside = "inside" if low <= bracket.lower <= bracket.upper <= high else "NOT inside"
        line(f"{name}, n={n:.0e}: bracket in the baseline's last interval", inside, "inside")
    line(f"{name}, n={n:.0e}: baseline ({how})", f"{seconds:.3g} s", "-")
    line(f"{name}, n={n:.0e}: baseline / engine ({1e3 * engine:.1f} ms)", f"{seconds / engine:.3g}", aim)


def main() -> None:
    header("Bound engine (median of 20, warm)")
    e = math.exp(3)
    declarations = {
        "maximal beta, published": (ss.VariationRatio(e, (e - 1) / (e + 1), e), "published"),
        "GRR d=100, three-outcome q*=1": (GRR(3.0, 100).amplification, "three-outcome"),
        "GRR d=100, three-outcome q*=q": (ss.VariationRatio(e, (e - 1) / (e + 99), e), "three-outcome"),
    }
    for name, (x, bound) in declarations.items():
        times = {}
        for n in SIZES:
            times[n] = median_seconds(lambda n=n, x=x, bound=bound: ss.epsilon(x, n, DELTA, bound=bound))
            bracket = ss.epsilon(x, n, DELTA, bound=bound)
            width = (bracket.upper - bracket.lower) / bracket.upper if bracket.upper > 0 else 0.0
            line(f"{name}, n={n:.0e} (relative gap {width:.0e})", f"{1e3 * times[n]:.1f} ms", "< 10 ms, gap 1e-6")
        line(f"{name}: time at n=1e12 / time at n=1e4", f"{times[10**12] / times[10**4]:.2f}", "<= 3")

    budgets = np.linspace(0.1, 8, 200)
    curve = [ss.VariationRatio.ldp(float(v), math.expm1(v) / (math.exp(v) + 1)) for v in budgets]
    start = time.perf_counter()
    for x in curve:
        ss.epsilon(x, 10**6, 1e-8)
    line("curve of 200 local eps, n=1e6", f"{time.perf_counter() - start:.2f} s", "< 3 s")
    for n in (10**3, 10**4, 10**6):
        blanket = median_seconds(lambda n=n: ss.epsilon(Laplace(2.0), n, 1e-8, bound="blanket"), repeats=9)
        line(f"blanket of Laplace noise, n={n:.0e}", f"{1e3 * blanket:.0f} ms", "< 100 ms")
    for x in (GRR(3.0, 100), LocalHash(3.0, 100), RAPPOR(2.0, 16), Laplace(2.0), PlanarLaplacePair(1.0, 2.0)):
        for n in (10**3, 10**6):
            table = median_seconds(lambda x=x, n=n: ss.bound_table(x, n, 1e-8), repeats=5)
            line(f"bound_table, {x!r}, n={n:.0e}", f"{1e3 * table:.0f} ms", "< 1 s")

    header("Against a plain Algorithm 1 (all c, vectorised, 20 bisections)")
    for name, x in (
        ("maximal beta", declarations["maximal beta, published"][0]),
        ("omega > 0", declarations["GRR d=100, three-outcome q*=q"][0]),
    ):
        compare(name, x, 10**6, ">= 500")
        compare(name, x, 10**8, ">= 5000")


if __name__ == "__main__":
    main()
