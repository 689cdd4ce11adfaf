"""Collision and the wheel: exact parameters, laws given a key, best choices, and hashes that behave like random functions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.mechanisms import Collision, Wheel
from shufflesim.mechanisms._keyed import keyed_hash
from shufflesim.mechanisms.collision import best_cells
from shufflesim.mechanisms.wheel import best_length

from .oracles import close, load, log_formula

ROWS = [r for r in load("params") if r["mechanism"].startswith(("Collision", "Wheel"))]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['mechanism'][:22]} {r['parameters']} {r['eps0']}")
def test_parameters_are_the_true_ones(row):
    given, eps = row["parameters"], log_formula(row["eps0"])
    if row["mechanism"].startswith("Collision"):
        mine = Collision(eps, 10, given["s"], given["l"])
    else:
        mine = Wheel(eps, 10, given["s"], float(Fraction(given["p_len"])))
        assert close(mine.published_beta, row["table_beta"], 1e-12)
    found = mine.amplification.beta if "worst" in row["mechanism"] else mine.random_hash_beta
    assert close(found, row["true_beta"], 1e-12)
    assert close(mine.amplification.p, row["true_p"], 1e-12)
    assert close(mine.amplification.q, row["true_q"], 1e-12)


def cell_law(mine, image):
    """Law of the cell for a user whose items hash to this set of cells."""
    u, likely = len(image), math.exp(mine.epsilon) / (mine.s * math.exp(mine.epsilon) + mine.cells - mine.s)
    return np.array([likely if y in image else (1 - u * likely) / (mine.cells - u) for y in range(mine.cells)])


@pytest.mark.parametrize(("s", "l"), [(1, 3), (2, 3), (2, 5), (3, 4)])
def test_the_worst_key_is_the_worst(s, l):  # noqa: E741
    """All pairs of images of at most s cells: ratios within e^eps, total variation at most beta, blanket above each of them."""
    mine = Collision(1.2, 8, s, l)
    images = [set(c) for u in range(1, s + 1) for c in itertools.combinations(range(l), u)]
    laws = [cell_law(mine, image) for image in images]
    stacked = np.array(laws)
    assert (stacked.max(axis=0) / stacked.min(axis=0)).max() == pytest.approx(math.exp(1.2))
    variation = max(0.5 * np.abs(a - b).sum() for a, b in itertools.combinations(laws, 2))
    assert mine.amplification.beta == pytest.approx(variation, rel=1e-12)
    floor = stacked.min(axis=0)
    assert mine.worst_groups()[0].floor.sum() == pytest.approx(floor.sum())
    for eps in (0.2, 0.6):
        growth = math.exp(eps)
        worst = mine.worst_groups()[0]
        # One user among blankets alone: mean positive part of (g0 - e^eps g1) over two independent blanket reports.
        ours = _two(worst.floor, (worst.first - growth * worst.second) / np.where(worst.floor > 0, worst.floor, 1.0))
        for a, b in itertools.permutations(laws, 2):
            assert _two(floor, (a - growth * b) / floor) <= ours * (1 + 1e-12)


def _two(weight, x):
    keep = weight > 0
    weight, x = weight[keep], x[keep]
    rest = 1 - weight.sum()
    pairs = np.add.outer(x, x)
    return (np.outer(weight, weight) * np.maximum(pairs, 0)).sum() + 2 * rest * (weight * np.maximum(x, 0)).sum()


@pytest.mark.parametrize("mine", [Collision(1.0, 9, 3, 5), Collision(2.0, 9, 2, 4), Collision(0.5, 9, 4, 5)], ids=repr)
def test_the_law_given_a_key_adds_up(mine):
    rng = np.random.default_rng(0)
    for key in rng.integers(0, 2**32, 20, dtype=np.uint64):
        reports = mine.pack(np.full(mine.cells, key), np.arange(mine.cells))
        for value in (np.arange(mine.s), np.arange(mine.s) + 3):
            assert np.exp(mine.log_likelihood(value, reports)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("mine", [Wheel(1.0, 9, 3, 0.2), Wheel(2.0, 9, 2, 0.4), Wheel(0.5, 9, 1)], ids=repr)
def test_the_density_given_a_key_has_mass_one(mine):
    """On a grid of 100,000 points: each arc's ends are off by a point at most."""
    rng, grid = np.random.default_rng(0), (np.arange(100_000) + 0.5) / 100_000
    for key in rng.integers(0, 2**32, 10, dtype=np.uint64):
        density = np.exp(mine.log_likelihood(np.arange(mine.s), mine.pack(np.full(grid.size, key), grid)))
        assert density.mean() == pytest.approx(1.0, abs=2 * mine.s * density.max() / grid.size)


@pytest.mark.parametrize("s", [1, 2, 5, 40])
@pytest.mark.parametrize("epsilon", [1e-9, 0.3, 1.0, 3.0])
def test_default_choices_minimise_the_variance(s, epsilon):
    rare = np.zeros(1)
    best = Collision(epsilon, 100, s)
    assert best.cells == best_cells(epsilon, s)
    for other in (best.cells - 1, best.cells + 1):
        if other > s:
            assert best.variance(rare, 1)[0] <= Collision(epsilon, 100, s, other).variance(rare, 1)[0] * (1 + 1e-6)
    if epsilon > 0.1:
        wheel = Wheel(epsilon, 100, s)
        assert wheel.length == best_length(epsilon, s)
        for factor in (0.98, 1.02):
            assert wheel.variance(rare, 1)[0] <= Wheel(epsilon, 100, s, wheel.length * factor).variance(rare, 1)[0]


def test_hashes_of_several_items_are_independent():
    """Cells of three items under a million random keys: chi-square of all 125 triples, false alarm below 1e-9."""
    keys = np.random.default_rng(1).integers(0, 2**32, 1_000_000, dtype=np.uint64)
    cells = [(keyed_hash(keys, np.full(1, item)) * np.uint64(5) >> np.uint64(32)).astype(int) for item in (0, 1, 2)]
    counts = np.bincount((cells[0] * 5 + cells[1]) * 5 + cells[2], minlength=125)
    expected = keys.size / 125
    statistic = ((counts - expected) ** 2 / expected).sum()
    # Chi-square with 124 degrees of freedom exceeds 124 + 2 sqrt(124 x) + 2x with probability e^-x (Laurent and Massart).
    assert statistic < 124 + 2 * math.sqrt(124 * 21) + 42


@pytest.mark.parametrize("mine", [Collision(1.5, 12, 3), Wheel(1.5, 12, 3)], ids=repr)
def test_bounds_are_on_both_sides(mine):
    table = ss.bound_table(mine, 10_000, 1e-6).set_index("bound")
    assert table.loc["lower", "epsilon"] <= table.loc["sound", "epsilon"]
    assert table.loc["blanket", "epsilon"] <= table.loc["three-outcome", "epsilon"] * (1 + 1e-9)
    assert "worst key" in table.loc["blanket", "note"]
    assert "random functions" in table.loc["lower", "note"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Collision(1.0, 5, 5), r"s must be an integer in \[1, 4\], got 5"),
        (lambda: Collision(1.0, 5, 2, 2), r"l must be an integer in \[3, 65536\], got 2"),
        (lambda: Wheel(1.0, 5, 2, 0.5), r"length must be a number in \[2\^-24, 1/s\) with s = 2, got 0.5"),
        (lambda: Wheel(1.0, 5, 2, 1e-12), r"length must be a number in \[2\^-24, 1/s\)"),
        (lambda: Wheel(1.0, 5, 2).random_hash_beta, "random_hash_beta must be for s = 1, got 2"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
