"""Protocols of one report and uniform dummies: truth by enumeration, published numbers, calibrations, estimators."""

import itertools
import math
import warnings
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim.bounds import MessageCount, Pairs, Part, Table, UnreachableError
from shufflesim.domains import Categories, Counts, Queries
from shufflesim.protocols import BallsIntoBins, HashedBallsIntoBins, MixDUMP, PureDUMP

from .oracles import load

CLASSES = (BallsIntoBins, HashedBallsIntoBins, PureDUMP, MixDUMP)
HASH = HashedBallsIntoBins(d=2, buckets=2, dummies=1, prime=3)


# --- the truth, user by user


def messages_of(protocol):
    if isinstance(protocol, HashedBallsIntoBins):
        p = protocol.prime
        return list(itertools.product(range(1, p), range(p), range(protocol.buckets)))
    return list(range(protocol.d))


def report_law(protocol, x):
    """Probability of each report, from what the protocol says it sends."""
    every = messages_of(protocol)
    if isinstance(protocol, HashedBallsIntoBins):
        right = [(u * x + v) % protocol.prime % protocol.buckets == w for u, v, w in every]
        return {m: 1 / sum(right) for m, ok in zip(every, right, strict=True) if ok}
    f = getattr(protocol, "flip", 0.0)
    return {m: 1 - f if m == x else f / (protocol.d - 1) for m in every if f > 0 or m == x}


def add(law, message_law):
    """Law of the multiset with one more message."""
    out = defaultdict(float)
    for multiset, probability in law.items():
        for message, share in message_law.items():
            out[tuple(sorted((*multiset, message)))] += probability * share
    return out


def mixed(first, second, share):
    out = defaultdict(float)
    for law, weight in ((first, 1 - share), (second, share)):
        for key, probability in law.items():
            out[key] += weight * probability
    return out


def add_user(law, protocol, x, present=1.0):
    every = messages_of(protocol)
    uniform = dict.fromkeys(every, 1 / len(every))
    sent = add(law, report_law(protocol, x))
    for _ in range(math.floor(protocol.dummies)):
        sent = add(sent, uniform)
    more = protocol.dummies - math.floor(protocol.dummies)
    if more:
        sent = mixed(sent, add(sent, uniform), more)
    return sent if present == 1 else mixed(law, sent, present)


def true_delta(protocol, n, eps, present=1.0):
    """Over all values of the others, all pairs and both directions."""
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(protocol.d), n - 1):
        law = {(): 1.0}
        for x in others:
            law = add_user(law, protocol, x, present)
        views = [add_user(law, protocol, x) for x in range(protocol.d)]
        for first, second in itertools.permutations(views, 2):
            worst = max(worst, sum(max(0.0, p - math.exp(eps) * second.get(key, 0.0)) for key, p in first.items()))
    return worst


TINY = [
    (BallsIntoBins(3, 0.5), 3, 1.0, 0.4),
    (BallsIntoBins(2, 1.25), 3, 1.0, 0.9),
    (BallsIntoBins(3, 1), 3, 0.7, 0.5),
    (BallsIntoBins(3, 0.5), 3, 0.7, 0.5),
    (PureDUMP(3, 2), 2, 1.0, 0.6),
    (HASH, 2, 1.0, 0.5),
    (HASH, 2, 0.6, 0.2),
    (HashedBallsIntoBins(2, 2, 0.5, prime=3), 2, 1.0, 0.3),
    (MixDUMP(3, 0.4, 1), 3, 1.0, 0.2),
    (MixDUMP(3, 0.4, 1), 3, 0.5, 0.2),
    (MixDUMP(4, 0.1, 1), 2, 0.8, 0.7),
    (MixDUMP(2, 0.3, 2), 3, 0.7, 0.1),
]


@pytest.mark.parametrize(("protocol", "n", "present", "eps"), TINY, ids=str)
def test_truth_lies_between_lower_and_sound(protocol, n, present, eps):
    exact = true_delta(protocol, n, eps, present)
    assert exact > 1e-3
    assert ss.delta(protocol, n, eps, dropout=1 - present).upper >= exact * (1 - 1e-12)
    offered = [c.bound for c in protocol.claims(ss.bounds.Crowd(n, dropout=1 - present))]
    # Where the number of messages does not say how many users are there, real messages cannot be taken away.
    assert ("lower" in offered) == (present == 1 or isinstance(protocol, MixDUMP) or protocol.dummies == int(protocol.dummies))
    if "lower" in offered:
        assert 0.5 * exact < ss.delta(protocol, n, eps, dropout=1 - present, bound="lower").lower <= exact * (1 + 1e-12)


def made(row):
    said = row["params"]
    if "flip" in said or "f" in said:
        return MixDUMP(said["d"], said["f"], said["dummies_per_user"])
    if "prime" in said:
        return HashedBallsIntoBins(2, said["b"], said["rho"], said["prime"])
    return BallsIntoBins(said["d"], said["rho"])


ROWS = [row for row in load("protocols")["rows"] if row["protocol"][:2] in ("B4", "B5", "B7")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['protocol']} {row['params']} n={row['n']} {row['eps']}")
def test_every_row_of_the_exact_shuffle(row):
    n, eps, exact = row["n"], row["eps"], row["exact_delta"]
    protocol = made(row)
    same = [protocol]
    if "pureDUMP" in row["protocol"]:
        same.append(PureDUMP(row["params"]["d"], row["params"]["rho"]))
    for x in same:
        sound = float(ss.delta(x, n, eps))
        assert sound >= exact * (1 - 1e-12)
        assert float(ss.delta(x, n, eps, bound="lower")) <= exact * (1 + 1e-12)
        assert sound == pytest.approx(row["corrected_bound_delta"], rel=1e-9)
        if row["tight"]:
            assert sound == pytest.approx(exact, rel=1e-9)
    if isinstance(protocol, MixDUMP):
        assert float(ss.delta(protocol, n, eps, bound="published")) == pytest.approx(row["bound_delta"], rel=1e-9)
    if isinstance(protocol, HashedBallsIntoBins):
        # With beta = 1 it is valid, with the true beta the published formula is below the truth.
        assert float(ss.delta(protocol, n, eps, bound="stronger-clone")) == pytest.approx(row["bound_delta"], rel=1e-9)
        said = row["published_formula_with_beta_1_minus_pcol"]
        assert float(ss.delta(protocol, n, eps, bound="published")) == pytest.approx(said, rel=1e-9)
        assert not next(c for c in protocol.claims(ss.bounds.Crowd(n)) if c.bound == "published").sound


@pytest.mark.parametrize("flip", [1e-9, 0.1, 0.3333, 0.6, 2 / 3 * (1 - 1e-9), 0.66])
@pytest.mark.parametrize("d", [3, 4, 1000])
def test_the_declaration_of_mix_dump_holds_in_exact_arithmetic(d, flip):
    """W >= r0 Q0 + r1 Q1 + s Q* on x0, on x1 and on a third label, for the components that the rounded numbers imply."""
    protocol = MixDUMP(d, flip, 1)
    x = protocol.amplification
    own, other, _ = protocol.exact_law
    assert Fraction(x.p) >= own / other
    assert Fraction(x.beta) >= own - other
    # A larger beta is more cautious; so take the total variation itself.
    alpha = (own - other) / (Fraction(x.p) - 1)
    neutral = (own - Fraction(x.p) * alpha, other - alpha, other)
    clones = (Fraction(x.p) * alpha / Fraction(x.q), Fraction(x.p) * alpha / Fraction(x.q), 0)
    assert min(neutral) >= 0
    for rest, clone in zip(neutral, clones, strict=True):
        assert clone + rest / Fraction(x.neutral_q) <= Fraction(1, d)
    assert math.exp(protocol.local_epsilon) >= float(own / other) * (1 - 1e-15)


# --- published numbers


LARGE = {
    kind: [r for r in load("protocols")["large_scale"] if r["case"].startswith(kind)] for kind in ("bins", "pureDUMP", "LWY")
}


@pytest.mark.parametrize("row", LARGE["bins"], ids=lambda r: f"q={r['q']} N={r['N']}")
def test_balls_into_bins_at_realistic_sizes(row):
    """N users with a dummy each: the eps of exactly N dummies."""
    found = float(ss.epsilon(BallsIntoBins(row["q"], 1), row["N"], row["delta"]))
    assert found == pytest.approx(row["eps_VR_exact"], rel=2e-6)
    paper = BallsIntoBins.original(row["eps_orig"], row["delta"], row["N"], d=row["q"])
    assert math.floor(paper.dummies * row["N"]) == row["N"]
    ratio = BallsIntoBins.extra_amplification_ratio(row["eps_orig"], row["delta"], row["N"], d=row["q"])
    assert ratio == pytest.approx(row["ratio"], rel=5e-4)


@pytest.mark.parametrize(
    ("delta", "q", "eps", "found", "ratio"),
    [
        (1e-7, 16, 0.1, 0.02324, 4.30),
        (1e-7, 16, 0.5, 0.12783, 3.91),
        (1e-7, 16, 1.0, 0.26700, 3.75),
        (1e-7, 16, 2.0, 0.56856, 3.52),
        (1e-8, 1024, 0.1, 0.02465, 4.06),
        (1e-8, 1024, 0.5, 0.13323, 3.75),
        (1e-8, 1024, 1.0, 0.27662, 3.62),
    ],
)
def test_the_table_of_balls_into_bins(delta, q, eps, found, ratio):
    total = math.floor(32 * math.log(2 / delta) * q / eps**2)
    assert round(float(ss.epsilon(BallsIntoBins(q, 1), total, delta)), 5) == found
    assert round(BallsIntoBins.extra_amplification_ratio(eps, delta, total, d=q), 2) == ratio
    # Hashing into q buckets of a domain where nothing collides within 9 digits costs the same number of dummies.
    assert HashedBallsIntoBins.original(eps, delta, total, d=2, buckets=q).dummies == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(("eps", "found", "ratio"), [(0.2, 0.07863, 2.54), (0.5, 0.20571, 2.43), (1.0, 0.43052, 2.32)])
def test_the_table_of_pure_dump(eps, found, ratio):
    total = 1 + max(14 * 16 * math.log(2e8) / eps**2, 27 * 16 / eps)
    value = float(ss.epsilon(PureDUMP(16, 1), math.floor(total), 1e-8))
    assert (round(value, 5), round(eps / value, 2)) == (found, ratio)
    assert PureDUMP.original(eps, 1e-8, 1000, d=16).dummies == math.ceil(total / 1000)
    assert (LARGE["pureDUMP"][0]["N"], LARGE["pureDUMP"][0]["eps_VR_exact"]) == (4282, pytest.approx(0.4305206, rel=1e-6))
    # The closed form adds both terms of which the calibration takes the larger one.
    closed = float(ss.epsilon(PureDUMP(16, 1), math.floor(4 * total), 1e-8, bound="original"))
    exact = math.sqrt(14 * 16 * math.log(2e8) / (math.floor(4 * total) - 1)) + 27 * 16 / (math.floor(4 * total) - 1)
    assert closed == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "flip", "dummies", "delta", "closed", "refined", "alone", "ratio"),
    [(10**4, 0.3, 2, 1e-6, 0.4045, 0.0912, 0.0987, 4.44), (10**5, 0.2, 1, 1e-8, 0.1955, 0.0573, 0.0634, 3.41)],
)
def test_the_table_of_mix_dump(n, flip, dummies, delta, closed, refined, alone, ratio):
    x = MixDUMP(16, flip, dummies)
    found = {bound: float(ss.epsilon(x, n, delta, bound=bound)) for bound in ("original", "accountant", "published", "sound")}
    assert [round(found[b], 4) for b in ("original", "accountant", "published", "sound")] == [closed, refined, alone, refined]
    assert round(found["original"] / found["sound"], 2) == ratio


def test_fewer_dummies_than_the_search_of_the_authors_and_their_formula():
    row = LARGE["LWY"][0]
    n, eps, delta = row["n"], row["eps"], row["delta"]
    for d in (2, 1000):
        mu = BallsIntoBins.for_target(eps, delta, n, d=d).dummies * n / d
        assert row["mu_exact_hs"] * (1 - 2e-3) < mu < row["mu_exact_hs"] * (1 + 1e-4)
        assert BallsIntoBins.original(eps, delta, n, d=d).dummies * n / d == pytest.approx(row["mu_formula"], rel=1e-12)


# --- calibration


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "d"),
    [
        (1.0, 1e-6, 10**4, 16),
        (0.1, 1e-9, 10**9, 2),
        (0.5, 0.3, 1, 4),
        (20.0, 1e-3, 3, 300),
        (700.0, 1e-6, 100, 3),
    ],
)
def test_the_fewest_dummies(epsilon, delta, n, d):
    found = BallsIntoBins.for_target(epsilon, delta, n, d=d)
    assert float(ss.epsilon(found, n, delta)) <= epsilon
    assert float(ss.epsilon(BallsIntoBins(d, found.dummies * (1 - 1e-5)), n, delta)) > epsilon
    assert found.retargeted(epsilon, delta, n) == found
    whole = PureDUMP.for_target(epsilon, delta, n, d=d)
    assert float(ss.epsilon(whole, n, delta)) <= epsilon
    assert whole.dummies == max(1, math.ceil(found.dummies))
    assert whole.retargeted(epsilon, delta, n) == whole


def test_the_fewest_dummies_among_buckets():
    for n, options in ((10**4, {"buckets": 5}), (10**4, {"buckets": 11, "prime": 1009, "queries": (3, 1)}), (5, {})):
        found = HashedBallsIntoBins.for_target(2.0, 1e-3, n, d=1000, **options)
        assert float(ss.epsilon(found, n, 1e-3)) <= 2.0
        less = HashedBallsIntoBins(1000, found.buckets, found.dummies * (1 - 1e-5), found.prime, found.queries)
        assert float(ss.epsilon(less, n, 1e-3)) > 2.0
        assert found.buckets == options.get("buckets", round(n / math.log(n)))
        assert found.retargeted(2.0, 1e-3, n) == found
        # A collision does not tell the values apart: fewer dummies than without.
        if n > 5:
            assert found.dummies < BallsIntoBins.for_target(2.0, 1e-3, n, d=found.buckets).dummies
    paper = HashedBallsIntoBins.original(1.0, 1e-8, 10**5, d=2**20)
    assert paper.dummies == pytest.approx(32 * math.log(2e8) * round(1e5 / math.log(1e5)) / 1e5, rel=1e-12)
    assert [HashedBallsIntoBins.original(5.0, 1e-8, n, d=9).buckets for n in (1, 2, 3, 100)] == [2, 3, 3, 22]
    # With delta above the total variation, hardly any dummy is needed.
    assert HashedBallsIntoBins.for_target(1.0, 0.9, 100, d=2, buckets=2).dummies < 1e-10


def test_the_smallest_flip():
    for epsilon, delta, n, d, dummies in (
        (0.03, 1e-8, 10**6, 50, 1),
        (1e-9, 1e-12, 10**9, 2, 1),
        (2.0, 1e-12, 1, 4, 1),
        (1e-9, 1e-12, 1, 16, 3),
    ):
        found = MixDUMP.for_target(epsilon, delta, n, d=d, dummies=dummies)
        assert float(ss.epsilon(found, n, delta)) <= epsilon
        # One that leaves a little more of the value: an odds ratio with a local eps larger by 1e-5.
        local = found.local_epsilon * (1 + 1e-5)
        more = MixDUMP(d, (d - 1) / (d + math.expm1(local)), dummies)
        assert float(ss.epsilon(more, n, delta)) > epsilon
        assert found.retargeted(epsilon, delta, n) == found
    # The dummies alone are enough.
    assert MixDUMP.for_target(1.0, 1e-6, 10**4, d=4, dummies=1).flip < 1e-290


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "d", "dummies"), [(0.5, 1e-8, 10**4, 16, 2), (1.0, 0.29, 400, 3, 1), (0.1, 1e-6, 10**6, 8, 1)]
)
def test_mix_dump_as_in_its_paper(epsilon, delta, n, d, dummies):
    paper = MixDUMP.original(epsilon, delta, n, d=d, dummies=dummies)
    assert float(ss.epsilon(paper, n, delta, bound="original")) <= epsilon
    if paper.flip > 1e-290:
        less = MixDUMP(d, paper.flip * (1 - 1e-6), dummies)
        assert float(ss.epsilon(less, n, delta, bound="original")) > epsilon
    assert MixDUMP.extra_amplification_ratio(epsilon, delta, n, d=d, dummies=dummies) > 1


def test_mix_dump_names_the_fewest_dummies_of_its_paper():
    with pytest.raises(
        ValueError, match=r"dummies must be enough for epsilon=0.2, delta=1e-08, n=10000, got 1; (\d+) would be"
    ) as caught:
        MixDUMP.original(0.2, 1e-8, 10**4, d=16, dummies=1)
    least = int(str(caught.value).split()[-4])
    assert 0 < MixDUMP.original(0.2, 1e-8, 10**4, d=16, dummies=least).flip < 15 / 16
    with pytest.raises(ValueError, match=f"{least} would be enough"):
        MixDUMP.original(0.2, 1e-8, 10**4, d=16, dummies=least - 1)
    with pytest.raises(ValueError, match="no number is enough"):
        MixDUMP.original(1e-9, 1e-8, 10**4, d=16, dummies=1)


def test_the_papers_own_bound_has_a_range():
    for x, n in ((PureDUMP(16, 1), 100), (MixDUMP(16, 0.3, 1), 100)):
        claim = next(c for c in x.claims(ss.bounds.Crowd(n)) if c.bound == "original")
        assert (claim.sound, claim.baseline) == (False, True)
        assert float(ss.epsilon(x, n, 1e-6, bound="original")) == x.local_epsilon
        assert "original" not in [c.bound for c in x.claims(ss.bounds.Crowd(n, dropout=0.1))]
    x, n = PureDUMP(4, 10), 1000
    eps = float(ss.epsilon(x, n, 1e-6, bound="original"))
    assert float(ss.delta(x, n, eps, bound="original")) == pytest.approx(1e-6, rel=1e-6)
    assert float(ss.epsilon(x, n, 0.291, bound="original")) == math.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BallsIntoBins.original(6.0, 1e-8, 100, d=4), r"below sqrt\(32 ln\(2/delta\)/ln\(1/delta\)\) = 5.7623, got 6.0"),
        (lambda: HashedBallsIntoBins.original(6.0, 1e-8, 100, d=4), "epsilon must be below sqrt"),
        (
            lambda: BallsIntoBins.original(1e-3, 1e-8, 100, d=4),
            r"n must be .* 2.447e\+09 dummies .*, got 100; n = 2,447 would be",
        ),
        (lambda: BallsIntoBins.original(1e-200, 1e-8, 100, d=4), "no number of users is enough"),
        (lambda: PureDUMP.original(1e-200, 1e-8, 100, d=4), "no number of users is enough"),
        (lambda: PureDUMP.original(1.5, 1e-8, 100, d=4), "epsilon must be at most 1 and delta at most 0.2907, got epsilon=1.5"),
        (lambda: PureDUMP.original(0.5, 0.3, 100, d=4), "delta at most 0.2907, got epsilon=0.5, delta=0.3"),
        (lambda: MixDUMP.original(1.5, 1e-8, 100, d=4, dummies=1), "epsilon must be at most 1"),
        (lambda: MixDUMP.original(0.5, 1e-8, 1, d=4, dummies=1), "dummies must be enough"),
    ],
)
def test_a_paper_is_not_stretched(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_targets_out_of_reach():
    with pytest.raises(UnreachableError, match=r"epsilon must be within reach of n = 1 users .* would need n = "):
        BallsIntoBins.for_target(1e-4, 1e-12, 1, d=16)
    with pytest.raises(UnreachableError, match="no number of users is enough"):
        PureDUMP.for_target(1e-15, 1e-12, 1000, d=16)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("how", ["original", "for_target"])
def test_bad_targets(cls, how):
    more = {"dummies": 2} if cls is MixDUMP else {}
    good = {"epsilon": 0.5, "delta": 1e-6, "n": 10**5, "d": 4, **more}
    assert 0 < float(ss.epsilon(getattr(cls, how)(**good), 10**5, 1e-6)) < (0.5 if how == "original" else 0.5000001)
    for name, bad in {
        "epsilon": (0, -1.0, math.nan, math.inf, True, "1", None),
        "delta": (0, 1, -0.1, math.nan, True, "1", None),
        "n": (0, -3, 2.5, math.nan, True, "1", None, 10**19),
        "d": (1, 0, 2.0, math.nan, True, "4", None),
    }.items():
        for value in bad:
            with pytest.raises(ValueError, match=rf"^{name} must be .*, got "):
                getattr(cls, how)(**{**good, name: value})


# --- messages and estimates


def law_of_support(protocol, n, x, holders):
    """P[number of messages that support x and number of messages], by adding up independent messages."""
    hit = {True: 1.0, False: 0.0}
    chance = 1 / protocol.d
    if isinstance(protocol, HashedBallsIntoBins):
        others = [v for v in range(protocol.d) if v != x][:1]
        hit[False] = sum(
            p for (u, v, w), p in report_law(protocol, others[0]).items() if (u * x + v) % protocol.prime % protocol.buckets == w
        )
        chance = 1 / protocol.buckets
    elif isinstance(protocol, MixDUMP):
        hit = {True: 1 - protocol.flip, False: protocol.flip / (protocol.d - 1)}
    laws = [hit[i < holders] for i in range(n)]
    table = np.zeros((20, 20))
    table[0, 0] = 1

    def sent(table, probability):
        out = np.zeros_like(table)
        out[1:, 1:] += probability * table[:-1, :-1]
        out[:, 1:] += (1 - probability) * table[:, :-1]
        return out

    more = protocol.dummies - math.floor(protocol.dummies)
    for probability in laws:
        table = sent(table, probability)
        for _ in range(math.floor(protocol.dummies)):
            table = sent(table, chance)
        table = (1 - more) * table + more * sent(table, chance)
    return table


@pytest.mark.parametrize(
    ("protocol", "place"),
    [
        (BallsIntoBins(3, 1.5), 1),
        (PureDUMP(2, 2), 1),
        (MixDUMP(3, 0.3, 1), 1),
        (HashedBallsIntoBins(3, 2, 0.75, prime=5, queries=(1,)), 0),
    ],
    ids=repr,
)
def test_samplers_follow_the_law_of_the_aggregate(protocol, place):
    """Chi-square tests of both samplers against the exact law: a false alarm below 1e-10 each (values kept by the seed)."""
    rng = np.random.default_rng(7)
    values, repeats = protocol.domain.validate([1, 0, 1, 0]), 2000
    law = law_of_support(protocol, 4, 1, 2)
    per_user, by_counts = np.zeros_like(law), np.zeros_like(law)
    for _ in range(repeats):
        aggregate = protocol.aggregate(protocol.encode(values, rng).messages)
        per_user[int(aggregate[place]), int(protocol.messages_in(aggregate, 4))] += 1
        aggregate = protocol.sample_groups(np.array([0, 1]), np.array([2, 2]), rng)
        by_counts[int(aggregate[place]), int(protocol.messages_in(aggregate, 4))] += 1
    assert law.sum() == pytest.approx(1)
    often = law * repeats >= 5
    for seen in (per_user, by_counts):
        assert seen.sum() == repeats
        observed = np.append(seen[often], seen[~often].sum())
        expected = np.append(law[often], law[~often].sum()) * repeats
        kept = expected > 0
        statistic = ((observed - expected)[kept] ** 2 / expected[kept]).sum()
        assert statistic < stats.chi2.isf(1e-11, kept.sum() - 1)
        assert seen[law == 0].sum() == 0


@pytest.mark.parametrize(("prime", "b"), [(3, 2), (7, 2), (11, 4), (13, 12), (11, 3)])
def test_all_pairs_collide_equally_often(prime, b):
    protocol = HashedBallsIntoBins(2, b, 1, prime)
    for x0, x1 in itertools.combinations(range(prime), 2):
        same = sum((u * x0 + v) % prime % b == (u * x1 + v) % prime % b for u in range(1, prime) for v in range(prime))
        assert Fraction(same, prime * (prime - 1)) == protocol.exact_collision
    assert protocol.amplification.beta >= float(1 - protocol.exact_collision)


@pytest.mark.parametrize(
    ("d", "b", "prime"), [(50, 7, None), (50, 40, None), (50, 3, 2**31 - 1), (3, 1000, None), (1000, 2, None), (1000, 300, 10007)]
)
def test_supports_are_what_hashing_every_value_says(d, b, prime):
    """Both ways of the analyzer, in Python's own integers."""
    protocol = HashedBallsIntoBins(d, b, 1.5, prime)
    messages = protocol.encode(protocol.domain.validate(np.arange(60) % d), np.random.default_rng(3)).messages
    assert protocol.valid(messages).all()
    expected = [sum((u * x + v) % protocol.prime % b == w for u, v, w in messages.tolist()) for x in range(d)]
    assert protocol.aggregate(messages).tolist() == [*expected, len(messages)]
    some = HashedBallsIntoBins(d, b, 1.5, prime, queries=(2, 0))
    assert some.aggregate(messages).tolist() == [expected[2], expected[0], len(messages)]


def test_hashes_do_not_overflow():
    protocol = HashedBallsIntoBins(2**31 - 2, 2**31 - 2, 1e-9, queries=(2**31 - 3,))
    assert protocol.prime == 2**31 - 1
    top = np.array([2**31 - 2], dtype=np.uint64)
    want = ((2**31 - 2) * (2**31 - 3) + 2**31 - 2) % (2**31 - 1) % (2**31 - 2)
    assert int(protocol.hashed(top, top, top - np.uint64(1))[0]) == want
    values = protocol.domain.validate(np.full(1000, 2**31 - 3))
    assert protocol.aggregate(protocol.encode(values, np.random.default_rng(1)).messages).tolist() == [1000, 1000]


def test_which_hashed_messages_are_valid():
    protocol = HashedBallsIntoBins(5, 3, 1)
    assert protocol.prime == 7
    messages = np.array([[1, 0, 0], [6, 6, 2], [0, 1, 1], [7, 1, 1], [1, 7, 1], [1, 1, 3], [-1, 1, 1], [1, -1, 1]])
    assert protocol.valid(messages).tolist() == [True, True, *[False] * 6]
    assert not protocol.valid(messages.astype(float)).any()
    assert not protocol.valid(messages[:, :2]).any()
    population = ss.Population(faulty=0.5, attack="out-of-alphabet")
    damage = ss.simulate(protocol, [0, 1, 2] * 200, delta=1e-6, seed=1, population=population).damage.loc[0]
    assert damage["rejected"] == 2 * damage["faulty"] > 0


def test_queries_out_of_a_large_domain():
    d = 2**30
    rng = np.random.default_rng(5)
    values = np.concatenate([np.full(3000, 17), np.full(1000, d - 1), rng.integers(100, d // 2, 2000)])
    protocol = HashedBallsIntoBins(d, 200, 1, queries=(d - 1, 17, 3))
    result = ss.simulate(protocol, values, delta=1e-6, seed=4)
    assert result.labels.tolist() == [d - 1, 17, 3]
    assert result.truth.tolist() == [1000, 3000, 0]
    assert result.messages == 12_000
    # A false alarm of 7 standard deviations is below 1e-11.
    assert (np.abs(result.estimate - result.truth) < 7 * np.sqrt(result.variance)).all()
    with pytest.raises(ValueError, match="method='counts' needs a protocol with an exact sampler"):
        ss.simulate(protocol, values, delta=1e-6, seed=4, method="counts")
    one = HashedBallsIntoBins(d, 200, 1, queries=(17,))
    many = Counts([10**9, 3 * 10**9], values=[17, 5])
    counted = ss.simulate(one, many, delta=1e-6, seed=4, method="counts")
    assert counted.truth.tolist() == [10**9]
    assert abs(counted.estimate[0] - 10**9) < 7 * math.sqrt(counted.variance[0])
    assert counted.messages == 8 * 10**9


def test_the_domain_of_queries():
    domain = Queries(6, (4, 0))
    assert domain.total(domain.validate([0, 4, 4, 5])).tolist() == [2, 1]
    assert domain.labels_of(pd.Categorical(list("aef"), categories=list("abcdef"))).tolist() == ["e", "a"]
    assert domain.labels_of([0, 1]).tolist() == [4, 0]
    for bad, message in (
        ((), "queries must be one or more codes, got"),
        (None, "queries must be one or more codes, got None"),
        ("12", "queries must be one or more codes, got '12'"),
        ((1, 6), r"queries must be an integer in \[0, 5\], got 6"),
        ((1.0,), r"queries must be an integer in \[0, 5\], got 1.0"),
        ((True,), r"queries must be an integer in \[0, 5\], got True"),
        ((1, 2, 1), "queries must be distinct, got 1 twice"),
    ):
        with pytest.raises(ValueError, match=message):
            Queries(6, bad)
    for data in domain.refused():
        with pytest.raises(ValueError, match="must"):
            domain.validate(data)


def test_a_billion_users_by_counts():
    for protocol in (BallsIntoBins(1000, 0.3), PureDUMP(1000, 2), MixDUMP(1000, 0.2, 1)):
        counts = np.full(1000, 10**6)
        counted = ss.simulate(protocol, Counts(counts), delta=1e-9, seed=1, method="counts")
        ratio = ((counted.estimate - counts) ** 2 / counted.variance).sum()
        # Sum of 1000 squared, nearly independent normal errors; two-sided 1e-10.
        assert stats.chi2.isf(1 - 5e-11, 999) < ratio < stats.chi2.isf(5e-11, 999)
        assert counted.seconds < 5
    with pytest.raises(ValueError, match=r"n must be such that there are at most 2\^62 messages, got 1000000000000000000 users"):
        BallsIntoBins(2, 1e6).sample_aggregate(np.array([10**18, 0]), np.random.default_rng(0))


# --- extremes and bad input


def test_extremes_give_honest_numbers():
    protocols = (
        BallsIntoBins(2**40, 1e6),
        BallsIntoBins(2, 1e-9),
        PureDUMP(2, 10**6),
        MixDUMP(2, 0.5 - 1e-12, 1),
        MixDUMP(2**20, 1e-290, 1),
        HashedBallsIntoBins(2**31 - 2, 2**31 - 2, 1e-3, queries=(1,)),
        HashedBallsIntoBins(2, 2, 1e6),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in protocols:
            for n, delta in itertools.product((1, 1000, 10**15), (1e-2, 1e-12)):
                bracket = ss.epsilon(x, n, delta)
                assert 0 <= bracket.lower <= bracket.upper <= x.local_epsilon
                assert float(ss.epsilon(x, n, delta, bound="lower")) <= bracket.upper


def test_more_dummies_than_a_double_can_count():
    """For large N the central limit gives D_0 = sqrt(q/(pi N)) for N uniform dummies; the next term is of order 1/N."""
    for dummies, n in ((10**6, 10**18), (10**6, 10**14)):
        for rtol in (1e-2, 1e-9):
            bracket = ss.delta(PureDUMP(16, dummies), n, 0.0, rtol=rtol)
            truth = math.sqrt(16 / math.pi) / math.sqrt(n * dummies)
            assert bracket.lower <= truth <= bracket.upper <= 1.01 * truth


def test_a_number_of_messages_that_hardly_varies():
    """Bin(1000, 1e-300) more messages are none."""
    table = Table(np.array([0.25, 0.25, 0.5]), np.array([3.0, 1.0, 0.0]), np.array([1.0, 3.0, 0.0]))
    for eps in (0.1, 0.6):
        few, more = (
            Pairs((table,), c).delta(eps, 1e-9) for c in (MessageCount(50), MessageCount(50, Part(1000, (1,), (1e-300,))))
        )
        assert more[:2] == pytest.approx(few[:2], rel=2e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PureDUMP(4, 1.0), r"dummies must be an integer in \[1, 1000000\], got 1.0"),
        (lambda: PureDUMP(4, 0), r"dummies must be an integer in \[1, 1000000\], got 0"),
        (lambda: PureDUMP(4, True), "dummies must be an integer in"),
        (lambda: PureDUMP(1, 1), "d must be an integer >= 2, got 1"),
        (lambda: BallsIntoBins(4, 0), "without dummies nothing hides the value"),
        (lambda: BallsIntoBins(4, math.nan), r"dummies must be a number in \(0, 1e\+06\], got nan"),
        (lambda: MixDUMP(4, 0.0, 1), r"flip must be a number in \[2.96e-304, 0.75\), got 0.0"),
        (lambda: MixDUMP(4, 0.75, 1), r"flip must be a number in \[2.96e-304, 0.75\), got 0.75: nothing would be left"),
        (lambda: MixDUMP(4, 0.9, 1), "nothing would be left of the value"),
        (lambda: MixDUMP(4, 1.5, 1), "flip must be a number in"),
        (lambda: MixDUMP(4, math.nan, 1), "flip must be .*, got nan"),
        (lambda: MixDUMP(4, "0.1", 1), "flip must be .*, got '0.1'"),
        (lambda: MixDUMP(4, 0.1, 0), r"dummies must be an integer in \[1, 1000000\], got 0"),
        (lambda: HashedBallsIntoBins(2**31 - 1, 2, 1), r"d must be an integer in \[2, 2147483646\], got 2147483647"),
        (lambda: HashedBallsIntoBins(2**25, 2, 1), "queries must say whose counts are estimated for d beyond 16777216, got None"),
        (lambda: HashedBallsIntoBins(4, 1, 1), r"buckets must be an integer in \[2, 2147483646\], got 1"),
        (lambda: HashedBallsIntoBins(4, 2, 1, prime=9), "prime must be a prime, got 9"),
        (lambda: HashedBallsIntoBins(4, 7, 1, prime=7), r"prime must be an integer in \[8, 2147483647\], got 7"),
        (lambda: HashedBallsIntoBins(4, 2, 1, queries=(4,)), r"queries must be an integer in \[0, 3\], got 4"),
        (lambda: ss.epsilon(MixDUMP(4, 0.1, 1), 10, 1e-6, sampling=0.5), "sampling must be 1 for MixDUMP"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_costs():
    assert PureDUMP(16, 3).messages_per_user == 4
    assert MixDUMP(17, 0.1, 2).bits_per_message == 5
    hashed = HashedBallsIntoBins(1000, 64, 0.5)
    assert (hashed.messages_per_user, hashed.bits_per_message, hashed.prime) == (1.5, 26, 1009)
    assert isinstance(HashedBallsIntoBins(5, 2, 1).domain, Categories)
