"""Speed of audits: an importance-sampled delta of 1e-12, an enumeration, runs of a protocol."""

import math
import time

from _timing import header, line

import shufflesim as ss
from shufflesim.empirical import Enumeration
from shufflesim.mechanisms import GRR, KSubset
from shufflesim.protocols import BallsIntoBins


def main() -> None:
    header("Audits")
    for x in (GRR(1.0, 16), KSubset(1.0, 64), BallsIntoBins(16, 1.5)):
        (found,) = ss.audit(x, 10**6, delta=1e-12, ways=("importance sampling",), confidence=0.95).ways
        figure = f"{found.seconds:.2f} s, {found.high / found.low - 1:.1%} wide"
        line(f"{x!r}, n = 1e6, delta = {found.delta:.3g}", figure, "< 2 s, a few percent")
    start = time.perf_counter()
    Enumeration(KSubset(math.log(3), 5, 2).channel(), 4).worst(0.5)
    line("KSubset d=5 k=2, n = 4, all data sets enumerated", f"{time.perf_counter() - start:.2f} s", "-")
    for x in (GRR(1.0, 16), BallsIntoBins(16, 1.5)):
        start = time.perf_counter()
        ss.audit(x, 10, 0.5, ways=("runs",))
        line(f"{x!r}, n = 10, 10,000 runs of two data sets", f"{time.perf_counter() - start:.1f} s", "-")


if __name__ == "__main__":
    main()
