"""Speed of the bound engine, beside a plain implementation of Algorithm 1 of the variation-ratio paper, in one run."""

import math
import time

import numpy as np
from _timing import header, line, median_seconds
from scipy import special

import shufflesim as ss
from shufflesim import PlanarLaplacePair
from shufflesim.mechanisms import GRR, RAPPOR, Laplace, LocalHash

DELTA = 1e-10
SIZES = (10**3, 10**4, 10**6, 10**8, 10**10, 10**12)
# Bisections of the baseline, and the longest that it may take in full; beyond that its time is scaled from parts of one delta.
BISECTIONS = 20
BASELINE_SECONDS = 60.0
CHUNK = 100_000


def baseline_chunk(x: ss.VariationRatio, n: int, eps: float, c: np.ndarray) -> float:
    """Part of delta of the published pair: Algorithm 1 of Wang et al. 2024 for the numbers c of clones among n - 1 messages.

    With a ~ Bin(c, 1/2), the likelihood ratio exceeds e^eps above low(t) clones of the first kind among t in all; user 1's
    message is one of the first kind, the second, or neither.
    """
    e, p, r = math.exp(eps), x.p, x.r0
    alpha = x.beta / (p - 1)
    omega = max(0.0, 1 - alpha - p * alpha)
    log_weight = special.gammaln(n) - special.gammaln(c + 1) - special.gammaln(n - c)
    weight = np.exp(log_weight + special.xlogy(c, 2 * r) + special.xlog1py(n - 1 - c, -2 * r))

    def low(t: np.ndarray) -> np.ndarray:
        neutral = (e - 1) * omega * r * (n - t) / (alpha * (1 - 2 * r)) if omega > 0 else 0.0
        return ((e * p - 1) * t + neutral) / ((p - 1) * (e + 1))

    def above(k: np.ndarray) -> np.ndarray:
        """Pr[a > k] for real k."""
        j = np.floor(k) + 1
        inside = (j > 0) & (j <= c)
        tail = special.betainc(np.where(inside, j, 1.0), np.where(inside, c - j + 1, 1.0), 0.5)
        return np.where(inside, tail, j <= 0)

    total = (p - e) * alpha * above(low(c + 1) - 1) + (1 - p * e) * alpha * above(low(c + 1))
    if omega > 0:
        total += omega * (1 - e) * above(low(c))
    return float(weight @ total)


def baseline_delta(x: ss.VariationRatio, n: int, eps: float) -> float:
    """delta as the expectation over all c = 0..n-1."""
    return sum(baseline_chunk(x, n, eps, np.arange(k, min(k + CHUNK, n), dtype=float)) for k in range(0, n, CHUNK))


def baseline_epsilon(x: ss.VariationRatio, n: int) -> tuple[float, float]:
    """The last interval of the bisection of [0, log p]."""
    low, high = 0.0, math.log(x.p)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if baseline_delta(x, n, middle) <= DELTA else (middle, high)
    return low, high


def compare(name: str, x: ss.VariationRatio, n: int, aim: str) -> None:
    """Time of the baseline over that of the engine, and whether the engine's bracket is inside the baseline's last interval."""
    engine = median_seconds(lambda: ss.epsilon(x, n, DELTA, bound="published"), repeats=9)
    bracket = ss.epsilon(x, n, DELTA, bound="published")
    # Ten chunks spread over all c, so that the cheap far ends have their share.
    starts = np.unique(np.linspace(0, max(n - CHUNK, 0), 10).astype(np.int64))
    start = time.perf_counter()
    for k in starts:
        baseline_chunk(x, n, bracket.upper, np.arange(k, min(k + CHUNK, n), dtype=float))
    seconds = (time.perf_counter() - start) / (starts.size * min(CHUNK, n)) * n * BISECTIONS
    how = "ten chunks of one delta, scaled"
    if seconds < BASELINE_SECONDS:
        start = time.perf_counter()
        low, high = baseline_epsilon(x, n)
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
