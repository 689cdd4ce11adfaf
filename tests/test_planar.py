"""Planar Laplace noise on planes and maps: radius, angle, units, pairs, and means across the date line."""

import math

import numpy as np
import pytest
from scipy import stats

import shufflesim as ss
from shufflesim import Map, Plane
from shufflesim.domains import Points
from shufflesim.mechanisms import PlanarLaplace

from .oracles import close, load

CITY = Map(latitude=(40.5, 41.0), longitude=(-74.3, -73.7), unit="km")
PACIFIC = Map(latitude=(-20, 10), longitude=(170, -170), unit="km")


def test_noise_has_the_stated_radius_and_no_direction():
    """Radius against Gamma(2, 1/eps), angle against uniform: Kolmogorov distances, false alarm 1e-9 each."""
    mine, n = PlanarLaplace(0.5, Plane(x=(0, 4), y=(0, 4))), 200_000
    noise = mine.randomize(np.tile([[1.0, 3.0]], (n, 1)), np.random.default_rng(0)) - [-1.0, 1.0]
    limit = math.sqrt(math.log(2 / 1e-9) / (2 * n))
    assert stats.kstest(np.hypot(*noise.T), stats.gamma(2, scale=2).cdf).statistic <= limit
    assert stats.kstest(np.arctan2(*noise.T), stats.uniform(-math.pi, 2 * math.pi).cdf).statistic <= limit


@pytest.mark.parametrize(("unit", "epsilon"), [("km", 0.5), ("m", 0.0005)])
def test_the_unit_is_the_named_one(unit, epsilon):
    area = Map(latitude=(40.5, 41.0), longitude=(-74.3, -73.7), unit=unit)
    mine = PlanarLaplace(epsilon, area)
    assert mine.local_epsilon == pytest.approx(PlanarLaplace(0.5, CITY).local_epsilon)
    # One degree of latitude is 111.195 km on a sphere of radius 6371.0088 km.
    total = mine.domain.total(np.array([[40.7, -74.0]]))
    assert mine.variance(total, 1)[0] == pytest.approx(3 / (0.5 * 111.19508) ** 2, rel=1e-6)
    assert mine.variance(total, 1)[1] == pytest.approx(mine.variance(total, 1)[0] / math.cos(math.radians(40.75)) ** 2, rel=1e-9)


def test_a_map_across_the_date_line_is_estimated_without_a_jump():
    """Users on both sides of it: the mean of continued longitudes; truth and estimates within 7 standard errors of each other."""
    rng = np.random.default_rng(1)
    data = np.column_stack([rng.uniform(-20, 10, 4000), (rng.uniform(175, 187, 4000) + 180) % 360 - 180])
    result = ss.simulate(PlanarLaplace(0.01, PACIFIC), data, delta=1e-6, seed=3)
    assert 179 < result.truth[1] < 183
    assert np.all(np.abs(result.estimate - result.truth) < 7 * np.sqrt(result.variance))
    assert result.estimates["value"].tolist() == ["latitude", "longitude"]


def test_noise_far_larger_than_the_earth_is_not_wrapped():
    """The estimate of a mean is linear in the reports, whatever its size: unbiased over 400 runs, within 7 standard errors."""
    mine = PlanarLaplace(1e-6, CITY)
    data = mine.domain.example(10, np.random.default_rng(0))
    truth = mine.domain.truth(mine.domain.total(data), 10)
    rng = np.random.default_rng(2)
    errors = np.array([mine.estimate(mine.aggregate(mine.randomize(data, rng)), 10) - truth for _ in range(400)])
    spread = np.sqrt(mine.variance(mine.domain.total(data), 10))
    assert np.all(spread > 360)
    assert np.all(np.abs(errors.mean(axis=0)) < 7 * spread / 20)


def test_pairs_are_measured_in_the_plane():
    mine = PlanarLaplace(2.0, Plane(x=(0, 4), y=(0, 3)))
    pair = mine.pair((0, 0), (1, 0))
    # The middle (0.5, 0) is at sqrt(3.5^2 + 3^2) from the corner (4, 3).
    assert (pair.d01, pair.d_max) == (pytest.approx(2.0), pytest.approx(2 * (math.sqrt(21.25) + 0.5)))
    near, far = (float(ss.epsilon(mine.pair((0, 0), x), 1000, 1e-6)) for x in ((0.2, 0), (1, 0)))
    assert near < far <= float(ss.epsilon(mine, 1000, 1e-6)) * (1 + 1e-9)
    for bad, message in (
        (((0, 0), (0, 0)), "x0 and x1 must differ"),
        (((0, 0), (5, 0)), r"values must have x in \[0, 4\], got 5.0 at position 1"),
        (((0, 0), (math.nan, 0)), "values must not be missing"),
    ):
        with pytest.raises(ValueError, match=message):
            mine.pair(*bad)


def test_bounds_of_a_region_are_on_both_sides():
    table = ss.bound_table(PlanarLaplace(1.0, Plane(x=(0, 2), y=(0, 1))), 10_000, 1e-6).set_index("bound")
    assert 0 < table.loc["lower", "epsilon"] <= table.loc["sound", "epsilon"] < math.hypot(2, 1)
    assert "blanket" not in table.index


@pytest.mark.parametrize(
    ("epsilon", "region", "message"),
    [
        (1.0, "earth", "region must be a Plane or a Map, got 'earth'"),
        (1.0, None, "region must be a Plane or a Map, got None"),
        (100.0, CITY, r"epsilon \* region.diameter must be in \(0, 700\]"),
        (0, CITY, r"epsilon must be a number in \(0, 700\]"),
    ],
)
def test_bad_parameters_are_refused(epsilon, region, message):
    with pytest.raises(ValueError, match=message):
        PlanarLaplace(epsilon, region)


def test_airports_are_points():
    airports = ss.datasets.load("airports")
    area = Map(latitude=(15, 72), longitude=(-160, -60), unit="km")
    data = airports[["lat", "lon"]].to_numpy()
    values = Points(area).validate(data)
    assert np.allclose(area.unproject(area.project(values)), data)
    result = ss.simulate(PlanarLaplace(0.01, area), data, delta=1e-3, seed=0)
    assert result.truth == pytest.approx(data.mean(axis=0))


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


@pytest.mark.parametrize("region", [Plane(x=(0, 10), y=(0, 2)), Plane(x=(-5, -1), y=(3, 12))], ids=repr)
def test_disc_of_a_pair_contains_the_region(region):
    """Also where the farthest corner lies beside the two points, not behind one of them."""
    mine = PlanarLaplace(0.7, region)
    (left, right), (bottom, top) = region.limits
    corners = np.array([[x, y] for x in (left, right) for y in (bottom, top)])
    points = np.random.default_rng(2).uniform([left, bottom], [right, top], (20, 2, 2))
    for x0, x1 in points:
        pair = mine.pair(x0, x1)
        assert pair.d01 == pytest.approx(0.7 * np.linalg.norm(x1 - x0), rel=1e-12)
        assert pair.radius == pytest.approx(0.7 * np.linalg.norm(corners - (x0 + x1) / 2, axis=1).max(), rel=1e-12)
        assert pair.d_max >= 0.7 * max(np.linalg.norm(corners - x, axis=1).max() for x in (x0, x1)) * (1 - 1e-12)
