"""Write engine_cases.json: random tables with D_eps to 50 digits by `shufflesim.precision`.

Regenerate with `python tests/data/make_engine_cases.py` (some ten minutes; the seed is fixed). The engine only proposes an eps
that puts delta between 1e-2 and 1e-30; the value that is stored does not depend on it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np

import shufflesim as ss
from shufflesim import precision
from shufflesim.bounds import MessageCount, Table
from shufflesim.bounds.evaluate import Divergence

CASES = 300
TERMS_MAX = 4_000
KINDS = ("symmetric", "asymmetric", "three-outcome", "inf", "homogeneous")


def declaration(kind: str, rng: np.random.Generator) -> Table:
    """A published or three-outcome table of a random declaration."""
    eps0 = math.exp(rng.uniform(math.log(1e-4), math.log(30)))
    p = math.inf if kind == "inf" else math.exp(eps0)
    top = 1.0 if p == math.inf else (p - 1) / (p + 1)
    q = math.exp(eps0) if rng.random() < 0.6 and kind != "inf" else math.exp(rng.uniform(0.2, 5))
    q1 = q * math.exp(rng.uniform(-0.5, 1)) if kind == "asymmetric" or (kind == "inf" and rng.random() < 0.3) else None
    beta = top * (1.0 if rng.random() < 0.25 else rng.uniform(0.01, 1))
    x = ss.VariationRatio(p, beta, q, q1)
    rest = 1 - x.r0 - x.r1
    if kind == "three-outcome" and x.omega > 0:
        smallest = x.omega / rest
        choice = rng.random()
        if choice < 0.15:
            x = ss.VariationRatio(p, beta, q, q1, q_star=smallest * (1 + 1e-15))  # s = 1 - 2 r
        elif choice < 0.6 and smallest < q:
            x = ss.VariationRatio(p, beta, q, q1, q_star=smallest + rng.random() * (q - smallest))
    if kind == "three-outcome" or (kind == "inf" and rng.random() < 0.5):
        return x.three_outcome_table()
    return x.published_table()


def homogeneous(rng: np.random.Generator) -> Table:
    """All others hold one input of a random channel."""
    outcomes = int(rng.integers(2, 5))
    law = rng.dirichlet(np.full(outcomes, rng.choice([0.5, 1.0, 5.0])), 3)
    law = 0.98 * law + 0.02 / outcomes
    return Table(law[2], law[0] / law[2], law[1] / law[2])


def case(kind: str, rng: np.random.Generator) -> dict | None:
    """One case, or None where the draw is impossible, too long to sum or has delta out of range."""
    try:
        table = homogeneous(rng) if kind == "homogeneous" else declaration(kind, rng)
    except ValueError:
        return None
    n = int(math.exp(rng.uniform(0, math.log(5000))))
    widths = sorted(min(n + 1, 60 * math.sqrt(n * w * (1 - w)) + 60) for w in table.weight)
    if math.prod(widths[:-2]) > TERMS_MAX:
        return None
    target = -rng.uniform(2, 30) * math.log(10)
    divergence = Divergence(table, MessageCount(n))
    lower, upper, _ = divergence.epsilon(target, 1e-3)
    eps = rng.uniform(0, 0.9) * min(table.log_max_ratio, 3.0) if upper in (0.0, math.inf) else 0.5 * (lower + upper)
    if rng.random() < 0.05:
        eps = 0.0
    value = precision.delta(table, n, eps)
    if not mpmath.mpf("1e-30") <= value <= mpmath.mpf("1e-2"):
        return None
    columns = {name: [repr(float(v)) for v in getattr(table, name)] for name in ("weight", "g0", "g1")}
    return {"kind": kind, "n": n, "eps": repr(float(eps)), **columns, "delta": mpmath.nstr(value, 50)}


def main() -> None:
    """All kinds, in a fixed order."""
    cases = []
    for index, kind in enumerate(KINDS):
        rng, found = np.random.default_rng([77, index]), 0
        while found < CASES:
            if new := case(kind, rng):
                cases.append(new)
                found += 1
    text = "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n"
    Path(__file__).with_name("engine_cases.json").write_text(text)


if __name__ == "__main__":
    main()
