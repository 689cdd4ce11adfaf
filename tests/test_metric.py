"""Metric privacy: two points on a line and in the plane, and the mechanisms built on them."""

import math

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.bounds import Crowd, LaplacePair, OutcomeGroups, PlanarLaplacePair, TwoLevel, claims_of
from shufflesim.mechanisms import Laplace, MetricLaplace

from .oracles import load


@pytest.mark.parametrize("pair", [LaplacePair(1.0, 1.0), LaplacePair(0.5, 3.0), PlanarLaplacePair(1.0, 2.0)], ids=repr)
@pytest.mark.parametrize("n", [100, 10**6])
def test_bounds_of_a_pair_are_ordered(pair, n):
    eps = ss.bound_table(pair, n, 1e-5).set_index("bound")["epsilon"]
    assert eps["lower"] <= eps["blanket"] == eps["sound"]
    assert eps["blanket"] <= eps["three-outcome"] <= pair.local_epsilon
    assert eps.get("lower-5.1", 0.0) <= eps["lower"] * (1 + 1e-3)
    assert "efmrtt19" in eps if pair.d_max == pair.d01 else "efmrtt19" not in eps


@pytest.mark.parametrize("kind", [LaplacePair, PlanarLaplacePair])
def test_nearer_points_and_smaller_regions_are_harder_to_tell_apart(kind):
    n, delta = 10_000, 1e-6
    by_distance = [float(ss.epsilon(kind(d01, 2.0), n, delta)) for d01 in (0.1, 0.5, 1.0, 2.0)]
    assert by_distance == sorted(by_distance)
    by_region = [float(ss.epsilon(kind(0.5, d_max), n, delta)) for d_max in (0.5, 1.0, 2.0, 4.0)]
    assert by_region == sorted(by_region)


@pytest.mark.parametrize(
    "row", [r for r in load("epsilon")["specific"] if r["mechanism"] == "Laplace"], ids=lambda r: f"{r['eps0']} {r['n']}"
)
def test_laplace_blanket_and_data_set(row):
    laplace = Laplace(row["eps0"])
    blanket = ss.epsilon(laplace, row["n"], row["delta"], bound="blanket")
    # The file has about six digits; the bracket carries the cells of the quadrature.
    assert blanket.lower * (1 - 3e-5) <= row["blanket_upper"] <= blanket.upper * (1 + 3e-5)
    assert blanket.slack <= 1e-3 * blanket.upper
    lower = ss.epsilon(laplace, row["n"], row["delta"], bound="lower")
    assert lower.lower >= row["lower_fixed_dataset"] * (1 - 1e-3)
    assert lower.lower <= blanket.upper


def test_laplace_is_the_pair_of_its_ends():
    laplace, metric = Laplace(3.0, low=-1.0, high=5.0), MetricLaplace(0.5, -1.0, 5.0)
    pair = metric.pair(-1.0, 5.0)
    assert (pair.d01, pair.d_max) == (3.0, 3.0)
    values = [ss.epsilon(x, 1000, 1e-4, bound="blanket") for x in (laplace, metric, pair)]
    assert values[0] == values[1] == values[2]
    assert metric.local_epsilon == 3.0
    inside = metric.pair(0.0, 2.0)
    assert (inside.d01, inside.d_max) == (1.0, 2.5)


@pytest.mark.parametrize("kind", [LaplacePair, PlanarLaplacePair])
@pytest.mark.parametrize(
    ("d01", "d_max"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (1.0, math.inf), (math.nan, 1.0), (1.0, 701.0), ("1", 2.0)]
)
def test_impossible_distances_are_refused(kind, d01, d_max):
    with pytest.raises(ValueError, match=r"d01 must be a finite number >= 1e-12, got|d_max must be a number in"):
        kind(d01, d_max)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MetricLaplace(1.0, 0.0, 701.0), r"epsilon \* \(high - low\) must be in \(0, 700\], got 701.0"),
        (lambda: MetricLaplace(1.0, 1.0, 1.0), "high"),
        (lambda: MetricLaplace(0.0, 0.0, 1.0), "epsilon must be"),
        (lambda: MetricLaplace(1.0, 0.0, 1.0).pair(0.5, 0.5), "x0 and x1 must differ, got 0.5 twice"),
        (lambda: MetricLaplace(1.0, 0.0, 1.0).pair(0.5, 1.5), r"x1 must be in \[0.0, 1.0\], got 1.5"),
    ],
)
def test_bad_metric_laplace_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 20.0, 700.0])
def test_extreme_distances_on_a_line(scale):
    for n in (1, 10, 10**9):
        table = ss.bound_table(LaplacePair(scale, scale), n, 1e-9)
        assert table["epsilon"].between(0, scale * (1 + 1e-12)).all()


def test_clone_probabilities_of_a_pair():
    """One hand-computed case: d01 = d_max = ln 3, beta = 1 - 1/sqrt 3; the earlier bound is 2/(3 + 1)."""
    ours, earlier = LaplacePair(math.log(3), math.log(3)).clone_probabilities
    assert earlier == pytest.approx(0.5, rel=1e-14)
    assert ours == pytest.approx(1 - 1 / math.sqrt(3), rel=1e-14)


@pytest.mark.parametrize("eps0", [1e-3, 0.3, 1.0, 3.0, 700.0])
@pytest.mark.parametrize("mass", [None, 0.5, 0.4, 0.1, 1e-9])
def test_two_levels_have_the_declared_parameters(eps0, mass):
    law = TwoLevel.piecewise(eps0) if mass is None else TwoLevel(eps0, mass)
    c, small = law.mass, math.exp(-eps0)
    expected = c * (1 - small) / (c + (1 - c) * small)
    assert mass is not None or expected == pytest.approx(1 - math.exp(-eps0 / 2), rel=1e-12)
    assert law.amplification.beta == pytest.approx(expected, rel=1e-12)
    for group in law.groups():
        for masses in (group.first, group.second, group.other):
            assert masses.sum() == pytest.approx(1, rel=1e-14)
        assert 0.5 * np.abs(group.first - group.second).sum() == pytest.approx(expected, rel=1e-12)
    for n in (1, 50, 10**6):
        eps = {bound: float(ss.epsilon(law, n, 1e-6, bound=bound)) for bound in ("lower", "blanket", "three-outcome")}
        assert eps["lower"] <= eps["blanket"] * (1 + 1e-9)
        assert eps["blanket"] == pytest.approx(eps["three-outcome"], rel=1e-5, abs=1e-7)


def test_disjoint_high_sets_are_the_worst_pair():
    """Overlapping sets of one size: the blanket's divergence is smaller, for every eps that is tried."""
    eps0, c = 1.5, 0.2
    e, z = math.exp(eps0), 1 + 0.2 * (math.exp(eps0) - 1)
    disjoint = TwoLevel(eps0, c).groups()[0].blanket_table()
    for overlap in (0.05, 0.15, 0.2):
        masses = np.array([overlap, c - overlap, c - overlap, 1 - 2 * c + overlap])
        first, second = masses * [e, e, 1, 1] / z, masses * [e, 1, e, 1] / z
        table = OutcomeGroups(first, second, masses / z, masses / z, "overlap").blanket_table()
        for n, eps in ((1, 0.3), (5, 0.2), (1000, 0.05)):
            worst, other = (ss.bounds.Pairs((t,), ss.bounds.MessageCount(n)).delta(eps, 1e-9) for t in (disjoint, table))
            assert other[0] <= worst[1]


@pytest.mark.parametrize(("eps0", "mass"), [(0.0, 0.1), (1.0, 0.0), (1.0, 0.6), (1.0, math.nan), (1.0, "a")])
def test_impossible_levels_are_refused(eps0, mass):
    with pytest.raises(ValueError, match=r"epsilon must be|mass must be in \(0, 1/2\], got"):
        TwoLevel(eps0, mass)


def test_clone_probabilities_in_a_disc():
    """The farthest point on the sum of exponentials may lie beside the two points, not behind one of them."""
    pair = PlanarLaplacePair(1.0, 1.0)
    _, earlier = pair.clone_probabilities
    assert earlier == pytest.approx(2 / (2 * math.exp(math.sqrt(0.5))), rel=1e-6)
    wide = PlanarLaplacePair(1.0, 6.0)
    assert wide.clone_probabilities[1] == pytest.approx(2 / (math.exp(6) + math.exp(5)), rel=1e-6)


def test_pairs_have_every_general_claim():
    names = {claim.bound for claim in claims_of(LaplacePair(0.4, 0.4), Crowd(2000))}
    assert names >= {"blanket", "blanket-bennett", "lower", "lower-5.1", "published", "three-outcome", "efmrtt19", "clone"}


@pytest.mark.parametrize("kind", [LaplacePair, PlanarLaplacePair])
@pytest.mark.parametrize("d01", [1e-12, 1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("d_max", [1.0, 10.0])
def test_one_user_has_the_total_variation(kind, d01, d_max):
    pair = kind(d01, d_max)
    for bound in ("lower", "blanket"):
        bracket = ss.delta(pair, 1, 0.0, bound=bound)
        assert bracket.lower <= pair.beta * (1 + 1e-12)
        assert bracket.upper >= pair.beta * (1 - 1e-12)
