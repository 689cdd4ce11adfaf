"""Range queries of the hierarchical randomizer: exact at no noise, unbiased, variances by enumeration of one user's report."""

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.mechanisms import HierarchicalGRR


def all_ranges(d):
    return np.array([(i, j) for i in range(d) for j in range(i + 1, d + 1)]).T


def per_report(tree, n, low, high, consistent):
    """What a report of each node adds to each estimate: estimates are linear in the aggregate of n reports."""

    def at(aggregate):
        return tree.ranges(aggregate, n, low, high, consistent=consistent)["estimate"].to_numpy()

    return np.array([at(n * unit) / n for unit in np.eye(2 * tree.d - 2)])


@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize(("epsilon", "d"), [(1.0, 8), (3.0, 16), (0.1, 4), (2.0, 2)])
def test_every_range_is_unbiased_with_the_stated_variance(epsilon, d, consistent):
    """Mean and variance of n independent reports from their law, for all ranges at once; no sampling."""
    tree, n = HierarchicalGRR(epsilon, d), 100
    low, high = all_ranges(d)
    counts = np.random.default_rng(d).multinomial(n, np.random.default_rng(1).dirichlet(np.ones(d)))
    added = per_report(tree, n, low, high, consistent)
    law = tree.channel()
    mean = (counts @ law) @ added
    truth = np.array([counts[i:j].sum() for i, j in zip(low, high, strict=True)])
    assert mean == pytest.approx(truth, abs=1e-8 * n)
    per_input = law @ added**2 - (law @ added) ** 2
    exact = counts @ per_input
    assert tree.range_variance(counts, low, high, consistent=consistent) == pytest.approx(exact, rel=1e-8, abs=1e-6)


def test_consistency_reduces_every_variance_and_makes_ranges_add_up():
    tree, n = HierarchicalGRR(1.0, 64), 64 * 150
    low, high = all_ranges(64)
    counts = np.full(64, n / 64)
    plain, better = (tree.range_variance(counts, low, high, consistent=c) for c in (False, True))
    assert np.all(better <= plain * (1 + 1e-9))
    assert better.mean() < 0.75 * plain.mean()
    rng = np.random.default_rng(0)
    aggregate = tree.sample_aggregate(counts.astype(int), rng)
    halves = tree.ranges(aggregate, n, [0, 0, 13], [64, 13, 64], consistent=True)["estimate"]
    assert halves[0] == pytest.approx(n)
    assert halves[1] + halves[2] == pytest.approx(n)


def test_at_most_two_nodes_per_level_make_up_a_range():
    """What a report adds to a plain range differs from the least on a disjoint cover of it only."""
    tree = HierarchicalGRR(2.0, 32)
    low, high = all_ranges(32)
    added = per_report(tree, 10, low, high, False)
    for k in range(len(low)):
        used = np.flatnonzero(added[:, k] > added[:, k].min() + 1e-9)
        assert len(used) <= 2 * tree.levels
        cover = np.zeros(32, dtype=int)
        for node in used:
            h = int(np.searchsorted(tree.offsets, node, side="right")) - 1
            start = (node - tree.offsets[h]) << h
            cover[start : start + (1 << h)] += 1
        expected = (np.arange(32) >= low[k]) & (np.arange(32) < high[k])
        assert np.array_equal(cover, expected) or (low[k], high[k]) == (0, 32)


def test_standard_errors_cover_on_a_simulation():
    """400 runs, three ranges, plain and consistent: mean squared error over mean variance within 7 of its standard errors."""
    tree, n = HierarchicalGRR(2.0, 32), 2000
    rng = np.random.default_rng(3)
    counts = rng.multinomial(n, rng.dirichlet(np.ones(32)))
    low, high = np.array([3, 0, 8]), np.array([29, 16, 9])
    truth = np.array([counts[i:j].sum() for i, j in zip(low, high, strict=True)])
    for consistent in (False, True):
        ratios = []
        for _ in range(400):
            table = tree.ranges(tree.sample_aggregate(counts, rng), n, low, high, consistent=consistent)
            ratios.append(np.mean(((table["estimate"] - truth) / table["stderr"]) ** 2))
        ratios = np.array(ratios)
        assert abs(ratios.mean() - 1) < 7 * ratios.std(ddof=1) / 20


def test_ranges_of_a_simulation():
    data = np.repeat(np.arange(16), np.arange(16) * 50)
    result = ss.simulate(HierarchicalGRR(4.0, 16), data, delta=1e-6, seed=2)
    table = result.protocol.randomizer.ranges(result.aggregate, result.n, 4, 12)
    assert abs(table["estimate"][0] - ((data >= 4) & (data < 12)).sum()) < 5 * table["stderr"][0]


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 0),
        (3, 2),
        (-1, 4),
        (0, 17),
        (0.0, 4.0),
        ("a", "b"),
        ([], []),
        ([0, 1], [2, 3, 4]),
        (None, 3),
        ([[0]], [[1]]),
        (True, 3),
    ],
    ids=str,
)
def test_bad_ranges_are_refused(low, high):
    tree = HierarchicalGRR(1.0, 16)
    with pytest.raises(ValueError, match=r"low < high must be integers in 0\.\.16, one pair a range, got"):
        tree.ranges(10 * np.eye(30)[0], 10, low, high)


def test_unsigned_ends_are_integers():
    tree = HierarchicalGRR(1.0, 16)
    for low, high in ((np.uint64(3), 5), (np.uint8(3), np.int32(5))):
        assert tree.range_variance(np.ones(16), low, high) == tree.range_variance(np.ones(16), 3, 5)


def test_other_bad_input_is_refused():
    tree = HierarchicalGRR(1.0, 16)
    with pytest.raises(ValueError, match="aggregate must hold finite numbers"):
        tree.ranges(np.full(30, np.nan), 10, 0, 1)
    with pytest.raises(ValueError, match=r"aggregate must have shape \(30,\), got \(16,\)"):
        tree.ranges(np.zeros(16), 10, 0, 1)
    with pytest.raises(ValueError, match="aggregate must hold the reports of n = 10 users, got 30"):
        tree.ranges(np.ones(30), 10, 0, 1)
    with pytest.raises(ValueError, match="n must be an integer >= 1, got 0"):
        tree.ranges(np.zeros(30), 0, 0, 1)
    with pytest.raises(ValueError, match=r"total must have shape \(16,\), got \(3,\)"):
        tree.range_variance(np.zeros(3), 0, 1)
