"""Randomizers of sets: exact parameters, grouped laws against enumeration, samplers, best parameters, bad input."""

import math

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.bounds.groups import OutcomeGroups, enumerate_groups
from shufflesim.empirical.law import true_parameters
from shufflesim.mechanisms import RAPPOR, PrivSet, SamplingRAPPOR

from .oracles import close, load, log_formula

ROWS = load("params")


def rows(mechanism):
    return [r for r in ROWS if r["mechanism"] == mechanism]


def row_id(row):
    return f"{row['parameters']} {row['eps0']}"


def assert_declared(declared, row):
    assert close(declared.p, row["true_p"], 1e-12)
    assert close(declared.beta, row["true_beta"], 1e-12)
    assert close(declared.q, row["true_q"], 1e-12)


def divergences(table, eps):
    """(1/n) E max(0, X_1 + ... + X_n), X = g0 - e^eps g1, at n = 1, 2, 3 and in both directions, by convolution."""
    found = []
    for first, second in ((table.g0, table.g1), (table.g1, table.g0)):
        x, weight = single = merged(first - math.exp(eps) * second, table.weight)
        for n in (1, 2, 3):
            found.append(float((weight * np.maximum(0, x)).sum()) / n)
            x, weight = merged(np.add.outer(x, single[0]).ravel(), np.outer(weight, single[1]).ravel())
    return np.array(found).reshape(2, -1).max(axis=0)


def merged(x, weight):
    values, where = np.unique(np.round(x, 10), return_inverse=True)
    return values, np.bincount(where, weights=weight)


def worst(pick, groups, eps):
    """The largest divergence of many tables; those that are alike are looked at once."""
    tables = {}
    for table in filter(None, map(pick, groups)):
        order = np.lexsort((np.round(table.g1, 9), np.round(table.g0, 9)))
        key = np.round(np.array([table.g0, table.g1, table.weight])[:, order], 9).tobytes()
        tables.setdefault(key, table)
    return np.max([divergences(table, eps) for table in tables.values()], axis=0)


def assert_groups_agree(randomizer, exact=True, kept=slice(None)):
    """Against enumeration at n = 1, 2, 3: blankets are equal (or above, if not exact), lower bounds never above."""
    groups, enumerated = randomizer.groups(), enumerate_groups(randomizer.channel()[kept])
    for share in (0.0, 0.3, 0.8):
        eps = share * randomizer.local_epsilon
        ours, full = (worst(OutcomeGroups.blanket_table, found, eps) for found in (groups, enumerated))
        assert np.all(ours >= full * (1 - 1e-8))
        assert not exact or np.all(ours <= full * (1 + 1e-8))
        ours, full = (worst(OutcomeGroups.homogeneous_table, found, eps) for found in (groups, enumerated))
        assert np.all(ours <= full * (1 + 1e-8))
        # One of the enumerated data sets, or close to the best of them.
        assert np.all(ours >= full * 0.5)


@pytest.mark.parametrize("row", rows("PrivSet / k-subset exponential"), ids=row_id)
def test_priv_set_declares_the_true_parameters(row):
    """Reports of more than d - s items meet every set and say nothing: refused."""
    d, s, k = (row["parameters"][name] for name in "dsk")
    eps = log_formula(row["eps0"])
    if k > d - s:
        assert row["true_p"].startswith("1.0000")
        with pytest.raises(ValueError, match=rf"k must be an integer in \[1, {d - s}\], got {k}"):
            PrivSet(eps, d, s, k)
    else:
        assert_declared(PrivSet(eps, d, s, k).amplification, row)


@pytest.mark.parametrize(("d", "s", "k"), [(4, 2, 2), (4, 2, 1), (5, 3, 1), (5, 3, 2), (5, 1, 3), (5, 2, 1)])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_priv_set_groups_are_those_of_the_law(d, s, k, epsilon):
    mechanism = PrivSet(epsilon, d, s, k)
    log_p, beta, _ = true_parameters(mechanism.log_channel())
    assert mechanism.amplification.beta == pytest.approx(beta, rel=1e-12)
    assert mechanism.local_epsilon == pytest.approx(log_p, rel=1e-12)
    assert_groups_agree(mechanism)


def test_priv_set_of_one_item_is_k_subset():
    from shufflesim.mechanisms import KSubset

    for k in (1, 3, 7):
        ours, theirs = PrivSet(1.2, 9, 1, k), KSubset(1.2, 9, k)
        assert ours.support == pytest.approx(theirs.support, rel=1e-12)
        assert ours.amplification.beta == pytest.approx(theirs.amplification.beta, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "d", "s"), [(0.5, 12, 2), (2.0, 12, 2), (1.0, 9, 5), (1e-9, 8, 3), (700.0, 8, 3)])
def test_best_size_of_priv_set_has_the_smallest_variance_for_rare_items(epsilon, d, s):
    found = {k: float(PrivSet(epsilon, d, s, k).variance(np.zeros(1), 1)[0]) for k in range(1, d - s + 1)}
    assert found[PrivSet(epsilon, d, s).k] <= min(found.values()) * (1 + 1e-6)


@pytest.mark.parametrize(("d", "s", "k"), [(8, 3, 2), (8, 3, 5)], ids=["redrawn", "keys"])
def test_both_samplers_of_priv_set_follow_the_law(d, s, k):
    """All C(8, k) reports of one set in 200,000 draws: chi-square at a false-alarm probability of 1e-9."""
    from scipy import stats

    mechanism, draws = PrivSet(1.0, d, s, k), 200_000
    assert mechanism.sparse == (k == 2)
    values = mechanism.domain.validate(np.repeat([[6, 1, 4]], draws, axis=0))
    reports = mechanism.randomize(values, np.random.default_rng(4))
    held = mechanism.inputs().tolist().index([1, 4, 6])
    counts = np.bincount(mechanism.outcome(reports), minlength=math.comb(d, k))
    statistic = ((counts - draws * mechanism.channel()[held]) ** 2 / (draws * mechanism.channel()[held])).sum()
    assert statistic <= stats.chi2.isf(1e-9, math.comb(d, k) - 1)
    assert np.all(np.diff(reports.astype(int), axis=1) > 0)


SAMPLING = {
    "sampling RAPPOR (LDPMiner: sample 1 of the s items, RAPPOR(eps))": "item",
    "sampling RAPPOR (alternative law: sample 1 of the d coordinates, zero vector if absent)": "coordinate",
}


@pytest.mark.parametrize(("law", "row"), [(law, row) for name, law in SAMPLING.items() for row in rows(name)], ids=str)
def test_sampling_rappor_declares_the_true_parameters(law, row):
    mechanism = SamplingRAPPOR(log_formula(row["eps0"]), row["parameters"]["d"], row["parameters"]["s"], law)
    assert_declared(mechanism.amplification, row)
    assert close(mechanism.published_beta, row["table_beta"], 1e-12)
    assert close(math.exp(mechanism.local_epsilon), row["true_p"], 1e-12)


@pytest.mark.parametrize(("d", "s"), [(3, 1), (2, 1), (4, 2), (3, 2), (5, 3), (5, 4), (5, 2), (6, 2)])
@pytest.mark.parametrize("law", ["item", "coordinate"])
def test_sampling_rappor_groups_are_those_of_the_law(d, s, law):
    mechanism = SamplingRAPPOR(1.7, d, s, law)
    log_p, beta, _ = true_parameters(mechanism.log_channel())
    assert mechanism.amplification.beta == pytest.approx(beta, rel=1e-12)
    assert mechanism.local_epsilon == pytest.approx(log_p, rel=1e-12)
    if d < 5 or s > 2:
        assert_groups_agree(mechanism)


def test_sampling_one_item_of_one_is_rappor():
    ours, theirs = SamplingRAPPOR(1.2, 9, 1), RAPPOR(1.2, 9)
    assert ours.support == pytest.approx(theirs.support, rel=1e-14)
    assert ours.amplification == theirs.amplification


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 30.0, 700.0])
def test_sampling_rappor_at_all_budgets(epsilon):
    for law in ("item", "coordinate"):
        mechanism = SamplingRAPPOR(epsilon, 1000, 700, law)
        declared = mechanism.amplification
        assert 0 < declared.beta <= (declared.p - 1) / (declared.p + 1)
        assert 0 < mechanism.local_epsilon <= epsilon
        assert mechanism.groups() == ()


@pytest.mark.parametrize("bad", ["items", "", None, 1, ["item"]], ids=repr)
def test_unknown_sampling_law_is_refused(bad):
    with pytest.raises(ValueError, match="law must be 'item' or 'coordinate', got"):
        SamplingRAPPOR(1.0, 5, 2, bad)


@pytest.mark.parametrize(
    ("epsilon", "d", "s"), [(100.0, 10, 3), (700.0, 4, 1), (1.0, 3001, 3000), (1.0, 1032, 1031), (60.0, 10, 3)]
)
@pytest.mark.parametrize("law", ["item", "coordinate"])
def test_sampling_rappor_has_bounds_for_large_budgets_and_sets(epsilon, d, s, law):
    mine = SamplingRAPPOR(epsilon, d, s, law)
    for group in mine.groups():
        for masses in (group.first, group.second, group.other):
            assert masses.sum() == pytest.approx(1, rel=1e-9)
    eps = 0.3 * mine.local_epsilon
    high = ss.delta(mine, 100, eps).upper
    assert 0 <= high <= 1
    # At eps = 700 some masses of the others underflow to 0, and a homogeneous data set has no table.
    if epsilon < 700:
        assert ss.delta(mine, 100, eps, bound="lower").lower <= high
