"""Planar Laplace noise: exact parameters, the law of a report, positions on maps, pairs, bounds, bad input."""

import math
import re

import numpy as np
import pytest
from scipy import special

import shufflesim as ss
from shufflesim.bounds import Crowd, PlanarLaplacePair
from shufflesim.bounds.planar import planar_tables
from shufflesim.domains import Map, Plane
from shufflesim.mechanisms import PlanarLaplace

from .oracles import close, load

ALARM = 1e-9
CITY = Map(latitude=(48.8, 48.9), longitude=(2.2, 2.5), unit="km")


@pytest.mark.parametrize(
    "row", [r for r in load("params") if r["mechanism"].startswith("planar Laplace")], ids=lambda r: r["eps0"]
)
def test_declared_parameters_are_the_true_ones(row):
    """A square whose diagonal is the distance of the row, in two units of length."""
    distance = float(row["parameters"]["d01"])
    for epsilon in (1.0, 0.01):
        side = distance / epsilon / math.sqrt(2)
        declared = PlanarLaplace(epsilon, Plane(x=(0, side), y=(10, 10 + side))).amplification
        assert close(declared.p, row["true_p"], 1e-12)
        assert close(declared.beta, row["true_beta"], 1e-12)
        assert declared.q == declared.p


@pytest.mark.parametrize("d01", sorted(load("planar_laplace_beta"), key=float))
def test_beta_of_opposite_corners(d01):
    region = Plane(x=(-0.3 * float(d01), 0.3 * float(d01)), y=(0, 0.8 * float(d01)))
    assert close(PlanarLaplace(1.0, region).amplification.beta, load("planar_laplace_beta")[d01], 1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 0.3, 25.0])
def test_noise_has_the_law_of_the_plane(epsilon):
    """Distance and angle against their distribution functions, Dvoretzky-Kiefer-Wolfowitz at 1e-9 each; uncorrelated."""
    region, n = Plane(x=(100.0, 110.0), y=(-7.0, 7.0)), 100_000
    noise = PlanarLaplace(epsilon, region)
    values = np.repeat([[102.0, 3.0]], n, axis=0)
    offset = noise.randomize(values, np.random.default_rng(5)) - region.project(values)
    z = epsilon * np.hypot(*offset.T)
    angle = np.arctan2(offset[:, 1], offset[:, 0])
    limit = math.sqrt(math.log(2 / ALARM) / (2 * n)) + 1 / n
    steps = np.arange(n) / n
    assert np.abs(special.gammainc(2, np.sort(z)) - steps).max() <= limit
    assert np.abs((np.sort(angle) + math.pi) / (2 * math.pi) - steps).max() <= limit
    far = z > np.median(z)
    assert np.abs((np.sort(angle[far]) + math.pi) / (2 * math.pi) - steps[: far.sum()] * n / far.sum()).max() <= 2 * limit


def test_likelihood_is_that_of_a_metric():
    noise = PlanarLaplace(0.5, Plane(x=(0, 4), y=(0, 3)))
    points = np.random.default_rng(0).normal(0, 5, (1000, 2))
    ratio = noise.log_likelihood([0, 0], points) - noise.log_likelihood([4, 3], points)
    assert np.abs(ratio).max() <= noise.local_epsilon
    corners = noise.region.project(np.array([[0.0, 0.0], [4.0, 3.0]]))
    # On the line through both, beyond either: the whole budget.
    assert noise.log_likelihood([0, 0], 2 * corners) - noise.log_likelihood([4, 3], 2 * corners) == pytest.approx([2.5, -2.5])


@pytest.mark.parametrize("unit", ["m", "km"])
def test_unit_of_length(unit):
    """The same noise in metres and in kilometres: budgets per unit of length differ by 1000, nothing else."""
    scale = {"m": 1e-3, "km": 1.0}[unit]
    noise = PlanarLaplace(0.2 * scale, Map(CITY.latitude, CITY.longitude, unit))
    assert noise.local_epsilon == pytest.approx(PlanarLaplace(0.2, CITY).local_epsilon, rel=1e-12)
    values = noise.domain.example(1000, np.random.default_rng(1))
    run = ss.simulate(noise, values, delta=1e-6, seed=3)
    here = ss.simulate(PlanarLaplace(0.2, CITY), values, delta=1e-6, seed=3)
    assert run.estimate == pytest.approx(here.estimate, rel=1e-12)
    assert run.variance == pytest.approx(here.variance, rel=1e-12)
    # A degree of latitude is 111.2 km, one of longitude 73.2 km here; noise of sqrt(3)/eps per coordinate.
    expected = math.sqrt(3 / 1000) / 0.2 / np.array([111.195, 111.195 * math.cos(math.radians(48.85))])
    assert np.sqrt(run.variance) == pytest.approx(expected, rel=1e-5)


def test_mean_position_across_the_date_line():
    noise = PlanarLaplace(0.05, Map(latitude=(-20.0, -10.0), longitude=(175.0, -170.0), unit="km"))
    values = np.array([[-12.0, 178.0], [-18.0, -174.0]] * 4000)
    run = ss.simulate(noise, values, delta=1e-6, seed=1)
    assert run.truth == pytest.approx([-15.0, -178.0])
    assert np.abs(run.estimate - run.truth).max() < 0.1
    assert np.all(np.abs(run.estimate - run.truth) <= 6.2 * np.sqrt(run.variance))


@pytest.mark.parametrize("region", [Plane(x=(0, 10), y=(0, 2)), Plane(x=(-5, -1), y=(3, 12))], ids=repr)
def test_disc_of_a_pair_contains_the_region(region):
    """Also where the farthest corner lies beside the two points, not behind one of them."""
    noise = PlanarLaplace(0.7, region)
    rng = np.random.default_rng(2)
    (left, right), (bottom, top) = region.limits
    corners = np.array([[x, y] for x in (left, right) for y in (bottom, top)])
    for x0, x1 in rng.uniform([left, bottom], [right, top], (20, 2, 2)):
        pair = noise.pair(x0, x1)
        assert pair.d01 == pytest.approx(0.7 * np.linalg.norm(x1 - x0), rel=1e-12)
        from_middle = 0.7 * np.linalg.norm(corners - (x0 + x1) / 2, axis=1)
        assert pair.radius == pytest.approx(from_middle.max(), rel=1e-12)
        assert pair.d_max >= 0.7 * max(np.linalg.norm(corners - x, axis=1).max() for x in (x0, x1)) * (1 - 1e-12)


def test_bounds_of_pairs_and_of_the_region():
    noise = PlanarLaplace(0.5, Plane(x=(0, 4), y=(0, 3)))
    near = float(ss.epsilon(noise.pair((1, 1), (1.5, 1)), 10_000, 1e-6))
    far = float(ss.epsilon(noise.pair((0, 0), (4, 3)), 10_000, 1e-6))
    assert near < far <= float(ss.epsilon(noise, 10_000, 1e-6)) < noise.local_epsilon
    table = ss.bound_table(noise, 10_000, 1e-6).set_index("bound")["epsilon"]
    assert "blanket" not in table
    assert 0 < table["lower"] <= table["sound"]
    opposite = PlanarLaplacePair(2.5, 2.5)
    assert table["lower"] == pytest.approx(ss.epsilon(opposite, 10_000, 1e-6, bound="lower").lower, rel=1e-12)


def test_no_pair_of_a_region_is_farther_apart_than_its_corners():
    """The exact divergence of any two points, all others anywhere in the region, stays below the bound for the whole of it."""
    noise = PlanarLaplace(1.0, Plane(x=(0, 1.2), y=(0, 0.9)))
    crowd = Crowd(20)
    for x0, x1, held in (((0, 0), (1.2, 0.9), (1.2, 0)), ((0, 0.9), (1.2, 0.9), (0.6, 0)), ((0, 0), (0.3, 0.9), (1.2, 0.9))):
        lower, _ = planar_tables(*(tuple(map(float, x)) for x in (x0, x1, held)))
        exact = ss.bounds.Pairs((crowd.spread(lower),), ss.bounds.MessageCount(20)).delta(0.1, 1e-9)[0]
        assert exact <= ss.delta(noise, 20, 0.1).upper


@pytest.mark.parametrize(
    ("epsilon", "region"), [(1e-9, Plane(x=(0, 1), y=(0, 1))), (700.0, Plane(x=(0, 0.6), y=(0, 0.8))), (1e-9, CITY), (28.0, CITY)]
)
def test_extremes(epsilon, region):
    noise, n = PlanarLaplace(epsilon, region), 500
    values = noise.domain.validate(noise.domain.example(n, np.random.default_rng(0)))
    total = noise.domain.total(values)
    aggregate = noise.aggregate(noise.randomize(values, np.random.default_rng(1)))
    assert np.all(np.isfinite(noise.estimate(aggregate, n)))
    assert np.all(noise.variance(total, n) > 0)
    assert noise.variance(total, n) == pytest.approx(noise.estimated_variance(aggregate, n))
    declared = noise.amplification
    assert 0 < declared.beta <= (declared.p - 1) / (declared.p + 1)
    assert declared.local_epsilon == pytest.approx(noise.local_epsilon, rel=1e-12, abs=1e-15)
    assert ("lower" in {claim.bound for claim in noise.claims(Crowd(n))}) == (noise.local_epsilon <= 40)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PlanarLaplace(0.0, CITY), "epsilon must be a number in (0, 700]"),
        (
            lambda: PlanarLaplace(100.0, CITY),
            "epsilon must make epsilon times the region's diameter be in (0, 700], got 100.0 * 24.6",
        ),
        (lambda: PlanarLaplace(1e-300, Plane(x=(0, 1e-200), y=(0, 1e-200))), "diameter be in (0, 700], got 1e-300 * "),
        (lambda: PlanarLaplace(1.0, (0, 1)), "region must be a Plane or a Map, got (0, 1)"),
        (lambda: PlanarLaplace(1.0, None), "region must be a Plane or a Map, got None"),
        (lambda: PlanarLaplace(1.0, CITY).pair((48.85, 2.3), (48.85, 2.3)), "x0 and x1 must be at least 1e-12/epsilon apart"),
        (lambda: PlanarLaplace(1.0, CITY).pair((48.85, 2.3), (48.85, 2.6)), "values must have longitude in [2.2, 2.5], got 2.6"),
        (lambda: PlanarLaplace(1.0, CITY).pair((48.85, 2.3), 1.0), "values must have shape (n, 2)"),
        (lambda: PlanarLaplace(20.0, CITY).pair((48.85, 2.3), (48.85, 2.31)), "d_max must be a number in [d01, 40]"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
