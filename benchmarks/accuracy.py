"""The exact sum beside both contour integrals: their difference, their slack and their time."""

import math
import time

from _timing import header

import shufflesim as ss
from shufflesim.bounds import MessageCount, contour, smoothed
from shufflesim.bounds.evaluate import CONTOUR_CELLS, DELTA_RTOL, EXACT_TERMS_MAX, SMOOTHED_CELLS, Divergence

LOG_DELTA = math.log(1e-8)


def declarations() -> dict[str, ss.VariationRatio]:
    """One declaration of each kind of table."""
    e = math.exp(2)
    return {
        "maximal beta (3 rows)": ss.VariationRatio(e, (e - 1) / (e + 1), e),
        "GRR d=10 (4 rows)": ss.VariationRatio(e, (e - 1) / (e + 9), e, q_star=1),
        "q* = q (4 rows)": ss.VariationRatio(e, (e - 1) / (e + 9), e),
        "p = inf, q = 16 (3 rows)": ss.VariationRatio(math.inf, 1.0, 16),
    }


def measure(divergence: Divergence, saddle: contour.Saddle) -> str | None:
    """Differences from the sum, widths and milliseconds of the three ways; None where the sum is too long."""
    table, count = divergence.table, divergence.count
    ways = (
        lambda: divergence._sum(saddle, EXACT_TERMS_MAX),
        lambda: contour.enclose(table, count, saddle, rtol=DELTA_RTOL, max_nodes=CONTOUR_CELLS // table.size),
        lambda: smoothed.enclose(table, count, saddle, rtol=DELTA_RTOL, max_cells=SMOOTHED_CELLS),
    )
    ends, times = [], []
    for way in ways:
        start = time.perf_counter()
        ends.append(way())
        times.append(1e3 * (time.perf_counter() - start))
    if ends[0] is None:
        return None
    gaps = [abs(sum(end) - sum(ends[0])) / 2 for end in ends[1:]]
    widths = [high - low for low, high in ends]
    return "".join(f"{v:>12.0e}" for v in (*gaps, *widths)) + "".join(f"{v:>12.1f}" for v in times)


def main() -> None:
    header("Exact sum, contour integral, smoothed integral at delta = 1e-8 (relative to delta; differences from the sum)")
    columns = ("differ.", "differ. sm.", "slack sum", "int.", "sm.", "ms sum", "int.", "sm.")
    print(f"  {'declaration':<26}{'n':>9}" + "".join(f"{name:>12}" for name in columns))
    for name, x in declarations().items():
        for n in (100, 1000, 10_000, 100_000, 1_000_000):
            table, count = x.three_outcome_table(), MessageCount(n)
            divergence = Divergence(table, count)
            eps = divergence.epsilon(LOG_DELTA)[1]
            saddle = contour.saddle(table, count, eps) if eps < math.inf else None
            if saddle is None or table.edge(eps, count) is not None:
                continue
            if (measured := measure(divergence, saddle)) is not None:
                print(f"  {name:<26}{n:>9}" + measured)


if __name__ == "__main__":
    main()
