"""Speed of the bound engine: eps at fixed delta, for n from 1e4 to 1e12."""

import math

from _timing import header, line, median_seconds

import shufflesim as ss
from shufflesim.mechanisms import GRR


def main() -> None:
    header("Bound engine (median of 20, warm)")
    e = math.exp(3)
    declarations = {
        "maximal beta": ss.VariationRatio(e, (e - 1) / (e + 1), e),
        "GRR d=100, three-outcome": GRR(3.0, 100).amplification,
    }
    for name, x in declarations.items():
        times = {n: median_seconds(lambda n=n, x=x: ss.epsilon(x, n, 1e-10)) for n in (10**4, 10**6, 10**8, 10**12)}
        for n, seconds in times.items():
            bracket = ss.epsilon(x, n, 1e-10)
            width = (bracket.upper - bracket.lower) / bracket.upper
            aim = "< 10 ms" if n == 10**8 else "-"
            line(f"epsilon, {name}, n={n:.0e} (relative width {width:.0e})", f"{1e3 * seconds:.1f} ms", aim)
        line(f"{name}: time at n=1e12 / time at n=1e4", f"{times[10**12] / times[10**4]:.2f}", "<= 3")
    table = median_seconds(lambda: ss.bound_table(GRR(3.0, 100), 10**8, 1e-10), repeats=5)
    line("bound_table, GRR d=100, n=1e8", f"{1e3 * table:.0f} ms", "-")


if __name__ == "__main__":
    main()
