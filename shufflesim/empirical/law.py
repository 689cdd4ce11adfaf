"""Sampler, declaration and grouped law of a randomizer against its enumerated law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from ..bounds import Crowd, MessageCount, OutcomeGroups, Table
from ..bounds.enumerated import LOG_TINY, log_ratio, neutral_ratio, total_variations
from ..bounds.evaluate import Divergence
from ..bounds.groups import enumerate_groups
from ..domains import Array, Categories
from ..randomizer import Randomizer
from .report import Check

# Probability of a false alarm of one sampler check on a correct sampler, whatever the number of cells.
FALSE_ALARM = 1e-9
# Reports drawn for each input: a probability that is off by 0.006, or 5% too little noise, is found.
SAMPLES = 400_000
# Inputs whose reports are compared with the law.
INPUTS = 6
# Pairs of inputs and bins of the odds on which a sampler is compared with a likelihood.
LIKELIHOOD_INPUTS = 3
BINS = 20
# Rounding of a difference of log-likelihoods.
RATIO_ATOL = 1e-9
# Relative rounding allowed between a declaration and the enumerated truth.
DECLARATION_RTOL = 1e-12
# Absolute rounding of enumerated log-ratios and total variations of small laws.
LAW_ATOL = 2e-15
# Relative slack of the divergences that are compared between closed form and enumeration; enclosures decide, not points.
GROUPS_RTOL = 1e-5
# Users, and largest law, for the exact mean and variance of a linear estimator; relative rounding allowed.
LINEAR_USERS = 1000
LINEAR_CELLS = 2**18
LINEAR_RTOL = 1e-9
# Largest channel on which all shuffles of two users, or all groups, are enumerated.
ENUMERATED_INPUTS = 6
ENUMERATED_OUTCOMES = 70


def law_checks(randomizer: Randomizer, rng: np.random.Generator) -> Iterator[Check]:
    """Checks that need the law; each says so where there is none."""
    for name, check in (
        ("sampler follows the law", _sampler),
        ("declared p, beta, q hold", _declaration),
        ("sound bounds hold for two users", _two_users),
        ("grouped law agrees with enumeration", _groups),
        ("estimator and variance agree with the law", _linear),
    ):
        try:
            passed, detail = check(randomizer, rng)
        except Exception as error:  # whatever a user's class raises is a finding, not a crash
            passed, detail = False, f"{type(error).__name__}: {error}"
        yield Check(name, passed, detail)


def _law(randomizer: Randomizer) -> Array | None:
    """The channel as an array, also where a user's class gives nested lists."""
    law = randomizer.channel()
    return None if law is None else np.asarray(law, dtype=float)


def _sampler(randomizer: Randomizer, rng: np.random.Generator) -> tuple[bool | None, str]:
    law = _law(randomizer)
    if law is not None:
        return _against_channel(randomizer, law, rng)
    values = randomizer.domain.validate(randomizer.domain.example(INPUTS, rng))
    distances = []
    for value in values:
        reports = randomizer.randomize(np.repeat(value[None], SAMPLES, axis=0), rng)
        expected = randomizer.cdf(value, np.sort(reports)) if reports.ndim == 1 else None
        if expected is None:
            return _against_likelihood(randomizer, values, rng)
        steps = np.arange(SAMPLES + 1) / SAMPLES
        distances.append(max(float((steps[1:] - expected).max()), float((expected - steps[:-1]).max())))
    # Dvoretzky-Kiefer-Wolfowitz: Pr[distance > t] <= 2 exp(-2 n t^2), exact for every n.
    limit = math.sqrt(math.log(2 * len(distances) / FALSE_ALARM) / (2 * SAMPLES))
    return max(distances) <= limit, f"largest distance of distribution functions {max(distances):.4f}, limit {limit:.4f}"


def _against_likelihood(randomizer: Randomizer, values: Array, rng: np.random.Generator) -> tuple[bool | None, str]:
    """Given the reports, which of two inputs each came from is a coin with the likelihoods' odds: compared bin by bin.

    Exact: Bernstein's inequality for sums of independent coins, Bonferroni over bins and pairs. And no ratio beyond e^epsilon.
    """
    if randomizer.log_likelihood(values[0], randomizer.randomize(values[:1], rng)) is None:
        return None, "no law to compare with; see the estimator"
    held = randomizer.inputs()
    if len(held):
        values = randomizer.domain.validate(held)
    chosen = np.unique(np.linspace(0, len(values) - 1, LIKELIHOOD_INPUTS).astype(int))
    pairs = list(itertools.combinations(chosen, 2))
    log_alarm = math.log(2 * len(pairs) * BINS / FALSE_ALARM)
    worst, largest = 0.0, 0.0
    for i, j in pairs:
        second = rng.random(SAMPLES) < 0.5
        mixed = np.where(second.reshape(-1, *[1] * (values.ndim - 1)), values[j], values[i])
        reports = randomizer.randomize(randomizer.domain.validate(mixed), rng)
        logs = [randomizer.log_likelihood(values[k], reports) for k in (i, j)]
        ratio = np.asarray(logs[1]) - np.asarray(logs[0])
        if ratio.shape != (SAMPLES,) or np.isnan(ratio).any():
            return False, f"log_likelihood gave shape {ratio.shape} or NaN"
        largest = max(largest, float(np.abs(ratio).max()))
        odds = special.expit(ratio)
        bins = np.minimum((odds * BINS).astype(int), BINS - 1)
        off = np.abs(np.bincount(bins, weights=second - odds, minlength=BINS))
        spread = np.bincount(bins, weights=odds * (1 - odds), minlength=BINS)
        limit = log_alarm / 3 + np.sqrt(log_alarm**2 / 9 + 2 * spread * log_alarm)
        worst = max(worst, float((off / limit).max()))
    detail = f"likelihood ratios against labels: {worst:.2f} of the limit; largest log-ratio {largest:.6g}"
    allowed = randomizer.local_epsilon * (1 + DECLARATION_RTOL) + RATIO_ATOL
    if largest > allowed:
        return False, f"{detail} > epsilon = {randomizer.local_epsilon:.6g}"
    return worst <= 1, detail


def _against_channel(randomizer: Randomizer, law: Array, rng: np.random.Generator) -> tuple[bool | None, str]:
    """Exact binomial tests of every cell, Bonferroni over cells."""
    if np.any(np.abs(law.sum(axis=1) - 1) > 1e-9):
        return False, f"rows of the law sum to {law.sum(axis=1)}"
    worst, where = 1.0, "every cell as expected"
    held, inputs = randomizer.inputs(), range(min(law.shape[0], INPUTS))
    for x in inputs:
        values = randomizer.domain.validate(np.repeat(held[x : x + 1], SAMPLES, axis=0))
        counts = np.bincount(randomizer.outcome(randomizer.randomize(values, rng)), minlength=law.shape[1])
        if counts.size > law.shape[1]:
            return False, f"input {x} gave an outcome beyond the {law.shape[1]} of the law"
        p = np.clip(law[x], 0.0, 1.0)
        above = np.where(counts > 0, special.bdtrc(counts - 1, SAMPLES, p), 1.0)
        below = special.bdtr(counts, SAMPLES, p)
        tail = np.minimum(above, below)
        if tail.min() < worst:
            y = int(tail.argmin())
            worst, where = float(tail[y]), f"Pr[{y} | {x}] = {p[y]:.6g}, observed {counts[y] / SAMPLES:.6g}"
    limit = FALSE_ALARM / (2 * law.shape[1] * len(inputs))
    return worst >= limit, f"{where} (tail {worst:.2g}, limit {limit:.2g})"


def true_parameters(log_law: Array) -> tuple[float, float, float]:
    """(log p, beta, log q) of a channel by enumeration: largest log-ratio of two inputs, and largest total variation."""
    log_p = log_ratio(log_law)
    return log_p, max(total_variations(np.exp(np.maximum(log_law, LOG_TINY))).values()), log_p


def _declaration(randomizer: Randomizer, rng: np.random.Generator) -> tuple[bool | None, str]:
    declared, log_law = randomizer.amplification, randomizer.log_channel()
    if log_law is None:
        return None, f"{declared!r}, no enumerable law to compare with"
    log_law = np.asarray(log_law, dtype=float)
    log_p, beta, log_q = true_parameters(log_law)
    # Rounding of a log-ratio is absolute, of a sum of probabilities as well.
    problems = [
        f"{name} = {said:.12g} declared, {found:.12g} found"
        for name, said, found in (
            ("log p", math.log(declared.p), log_p),
            ("beta", declared.beta, beta),
            ("log q", math.log(declared.q), log_q),
            ("log q1", math.log(declared.second_q), log_q),
            ("epsilon", randomizer.epsilon, log_p),
        )
        if found > said * (1 + DECLARATION_RTOL) + LAW_ATOL
    ]
    # Not a limit: for pairs that differ less than the worst one a smaller q_star than their own can be right as well.
    law = np.exp(np.maximum(log_law, LOG_TINY))
    enough = neutral_ratio(law, declared.p, declared.q) if declared.p < math.inf else declared.q
    found = f"p={math.exp(min(log_p, 700.0)):.6g}, beta={beta:.6g}, q={math.exp(min(log_q, 700.0)):.6g}, q_star={enough:.6g}"
    return not problems, "; ".join([*problems, f"found epsilon={log_p:.6g}, {found}; declared {declared!r}"])


def _two_users(randomizer: Randomizer, rng: np.random.Generator) -> tuple[bool | None, str]:
    """Exact divergence of two shuffled users over all inputs, at every likelihood ratio, against each sound upper bound."""
    law = _law(randomizer)
    if law is None or law.shape[0] > ENUMERATED_INPUTS or law.shape[1] > ENUMERATED_OUTCOMES:
        return None, "law too large or continuous: not enumerated"
    claims = [c for c in randomizer.claims(Crowd(2)) if c.side == "upper" and c.sound]
    outputs = np.tril_indices(law.shape[1])
    curve: dict[float, float] = {}
    for i, j in itertools.permutations(range(law.shape[0]), 2):
        for k in range(law.shape[0]):
            first, second = (_unordered(law[x], law[k], outputs) for x in (i, j))
            for eps in (0.0, 0.25 * randomizer.epsilon, 0.5 * randomizer.epsilon, 0.9 * randomizer.epsilon):
                exact = float(np.maximum(0.0, first - math.exp(eps) * second).sum())
                curve[eps] = max(curve.get(eps, 0.0), exact)
    problems = []
    for claim in claims:
        for eps, exact in curve.items():
            upper = claim.value.delta(eps, DECLARATION_RTOL)[1]
            if exact > upper * (1 + DECLARATION_RTOL) + 1e-15:
                problems.append(f"{claim.bound} at eps={eps:.4g}: {upper:.6g} < {exact:.6g}")
    return not problems, "; ".join(problems[:3]) or f"{', '.join(c.bound for c in claims)} at {len(curve)} values of eps"


def _unordered(own: Array, other: Array, outputs: tuple[Array, Array]) -> Array:
    """Law of the multiset of two reports."""
    joint = np.outer(own, other)
    both = joint + joint.T
    return np.where(outputs[0] == outputs[1], 0.5, 1.0) * both[outputs]


def _groups(randomizer: Randomizer, rng: np.random.Generator) -> tuple[bool | None, str]:
    """The closed form may be on the safe side of the enumeration, never on the other."""
    law, groups = _law(randomizer), randomizer.groups()
    if law is None or law.shape[0] > ENUMERATED_INPUTS or not groups:
        return None, "no closed form and enumeration side by side"
    problems, gaps = [], []
    enumerated = enumerate_groups(law)
    for side, pick in (("blanket", OutcomeGroups.blanket_table), ("lower", OutcomeGroups.homogeneous_table)):
        tables, every = (_distinct([pick(g) for g in found]) for found in (groups, enumerated))
        if tables is None or every is None:
            continue
        for n, eps in ((1, 0.0), (1, 0.4 * randomizer.epsilon), (2, 0.3 * randomizer.epsilon)):
            ours, full = _worst(tables, n, eps), _worst(every, n, eps)
            # Enclosures overlap where the two agree; what counts is a gap between them on the unsafe side.
            gap = full[0] - ours[1] if side == "blanket" else ours[0] - full[1]
            gaps.append(max(ours[0] - full[1], full[0] - ours[1], 0.0) if full[0] > -math.inf else 0.0)
            if gap > DECLARATION_RTOL:
                problems.append(f"{side} at n={n}, eps={eps:.3g} is off by a factor {math.exp(gap):.9g}")
    largest = max(gaps, default=0.0)
    return not problems, "; ".join(problems) or f"largest safe relative difference {math.expm1(largest):.2g}"


def _distinct(tables: list[Table | None]) -> list[Table] | None:
    """Both directions of every table, equal ones once; None if a table does not exist."""
    distinct: dict[bytes, Table] = {}
    for table in tables:
        if table is None:
            return None
        distinct.update((t.key, t) for t in (table, table.swapped()))
    return list(distinct.values())


def _linear(randomizer: Randomizer, rng: np.random.Generator) -> tuple[bool | None, str]:
    """Where the aggregate is a histogram, an estimate is linear in it: its mean and variance follow from the law, exactly."""
    law = randomizer.histogram_law()
    if law is None or not isinstance(randomizer.domain, Categories) or law.size > LINEAR_CELLS:
        return None, "the aggregate is no histogram of a small law: not computed; see the simulation"
    reports = randomizer.randomize(randomizer.domain.validate(randomizer.domain.example(100, rng)), rng)
    aggregate = np.asarray(randomizer.aggregate(reports))
    if aggregate.shape != (law.shape[1],) or not np.array_equal(aggregate, np.bincount(reports, minlength=law.shape[1])):
        return False, "histogram_law is given, but the aggregate does not count its columns"
    n = LINEAR_USERS
    counts = rng.multinomial(n, rng.dirichlet(np.ones(len(law)))).astype(float)
    base = randomizer.estimate(np.zeros(law.shape[1]), n)
    slopes = np.array([randomizer.estimate(unit, n) for unit in np.eye(law.shape[1])]) - base
    mean = base + (counts @ law) @ slopes
    exact = counts @ (law @ slopes**2 - (law @ slopes) ** 2)
    stated = randomizer.variance(counts, n)
    # What cancels in a difference of large slopes is not the estimator's mistake.
    size = 1 + float(np.abs(slopes).max())
    bias = float(np.abs(mean - counts).max())
    off = float(np.abs(stated / np.maximum(exact, 1e-300) - 1).max()) if exact.min() > LINEAR_RTOL else 0.0
    passed = bias <= LINEAR_RTOL * n * size and off <= LINEAR_RTOL * size
    return passed, f"bias {bias:.3g} users of {n}, stated variance off by a factor of up to {1 + off:.6g}"


def _worst(tables: list[Table], n: int, eps: float) -> tuple[float, float]:
    """Enclosure of log D, the largest over the tables."""
    ends = [Divergence(table, MessageCount(n)).log_enclosure(eps, GROUPS_RTOL)[:2] for table in tables]
    return max(low for low, _ in ends), max(high for _, high in ends)
