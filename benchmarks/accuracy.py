"""Where the exact sum hands over to the contour integral: their difference, their slack and their time."""

import math
import time

from _timing import header

import shufflesim as ss
from shufflesim.bounds import MessageCount, contour
from shufflesim.bounds.evaluate import CONTOUR_CELLS, DELTA_RTOL, EXACT_TERMS_MAX, Divergence

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


def main() -> None:
    header("Exact sum against contour integral at delta = 1e-8 (relative to delta)")
    print(f"  {'declaration':<26}{'n':>9}{'difference':>13}{'slack sum':>12}{'slack int.':>12}{'ms sum':>9}{'ms int.':>9}")
    for name, x in declarations().items():
        for n in (100, 1000, 10_000, 100_000, 1_000_000):
            table, count = x.three_outcome_table(), MessageCount(n)
            divergence = Divergence(table, count)
            eps = divergence.epsilon(LOG_DELTA)[1]
            saddle = contour.saddle(table, count, eps) if eps < math.inf else None
            if saddle is None or table.edge(eps, count) is not None:
                continue
            start = time.perf_counter()
            integral = contour.enclose(table, count, saddle, rtol=DELTA_RTOL, max_nodes=CONTOUR_CELLS // table.size)
            middle = time.perf_counter()
            by_sum = divergence._sum(saddle, EXACT_TERMS_MAX)
            end = time.perf_counter()
            if by_sum is None:
                continue
            gap = abs(sum(integral) - sum(by_sum)) / 2
            widths = f"{by_sum[1] - by_sum[0]:>12.0e}{integral[1] - integral[0]:>12.0e}"
            print(f"  {name:<26}{n:>9}{gap:>13.0e}{widths}{1e3 * (end - middle):>9.1f}{1e3 * (middle - start):>9.1f}")


if __name__ == "__main__":
    main()
