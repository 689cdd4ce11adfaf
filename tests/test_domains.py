"""Domains: what they refuse, what they sum up, and that scaling and projection are undone."""

import numpy as np
import pandas as pd
import pytest

import shufflesim as ss
from shufflesim.domains import Box, Categories, Digits, Interval, KeyValues, Map, Plane, Points, Sets, UnitVectors

DOMAINS = [
    Categories(5),
    Sets(6, 3),
    Sets(5, 1),
    Sets(4, 4),
    Interval(3, 9),
    Box(1, 0, 1),
    Box(3, -2, 1),
    UnitVectors(4),
    Digits((10, 3), 0, 1),
    Digits((2, 2, 1), -3, 5, dim=2),
    KeyValues(5, 2),
    KeyValues(5, 2, fewer=True),
    KeyValues(1, 1),
    Points(Plane(x=(0, 1), y=(2, 5))),
    Points(Map(latitude=(40, 50), longitude=(170, -170), unit="km")),
    Points(Map(latitude=(-80, 50), longitude=(-180, 180), unit="m")),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_examples_are_accepted_and_kept(domain):
    values = domain.example(300, np.random.default_rng(0))
    before = np.array(values)
    checked = domain.validate(values)
    assert np.array_equal(np.asarray(checked, dtype=float), before.astype(float), equal_nan=True)
    assert checked.shape == (300, *domain.shape)
    assert len(domain.labels) == len(domain.truth(domain.total(checked), 300))


@pytest.mark.parametrize("domain", [Digits((7, 2, 5), -1, 3), Digits((2, 2, 1), 0, 1, dim=2), Digits((1,), 0, 1)], ids=repr)
def test_digits(domain):
    """Means of 4000 roundings within 7 of their largest standard errors: below 5e-11 for each value (Hoeffding)."""
    rng = np.random.default_rng(3)
    values = domain.validate(domain.example(50, rng))
    drawn = np.array([domain.digits(values, rng) for _ in range(4000)])
    places, scaled = domain.places, (values - domain.low) / (domain.high - domain.low)
    assert drawn.min() >= 0
    assert (drawn.max(axis=(0, 1)) <= [*(p - 1 for p in domain.precisions[:-1]), domain.precisions[-1]]).all()
    assert np.abs((drawn @ places).mean(axis=0) - scaled).max() < 7 * places[-1] / 2 / np.sqrt(4000)
    assert np.abs(drawn @ places - scaled).max() <= places[-1]
    mean, square, rounding = domain.digit_sums(domain.total(values))
    flat = drawn.reshape(4000, 50, -1, len(places)).astype(float)
    np.testing.assert_allclose(mean, flat.mean(axis=0).sum(axis=0).T, atol=7 * 50 / 2 / np.sqrt(4000))
    np.testing.assert_allclose(square, (flat**2).mean(axis=0).sum(axis=0).T, atol=7 * 50 * 10 / 2 / np.sqrt(4000))
    np.testing.assert_allclose(rounding, flat[..., -1].var(axis=0).sum(axis=0), atol=50 * 0.02)


def test_numbers_as_counts():
    domain = Digits((4, 3), 0, 2)
    counts = ss.Counts([3, 0, 5], values=[0.1, 0.5, 2.0])
    each = np.repeat([0.1, 0.5, 2.0], [3, 0, 5])
    np.testing.assert_allclose(domain.grouped_total(*counts.groups(domain)), domain.total(each), rtol=1e-14)
    np.testing.assert_allclose(Interval(0, 2).grouped_total(*counts.groups(Interval(0, 2))), Interval(0, 2).total(each))
    with pytest.raises(ValueError, match=r"values must be as many as counts, 2, got shape \(3,\)"):
        ss.Counts([1, 2], values=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"values must be in \[0, 2\], got 3.0 at position 1"):
        ss.Counts([1, 2], values=[0.1, 3.0]).groups(domain)
    with pytest.raises(ValueError, match="data must be given user by user for Sets"):
        Sets(3, 1).grouped_total(np.zeros((1, 1)), np.ones(1))


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_everything_that_must_be_refused_is(domain):
    refused = list(domain.refused())
    assert len(refused) >= 6
    for bad in refused:
        with pytest.raises(ValueError, match=r"^(values|data) must"):
            domain.validate(bad)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_totals_add_up_and_plausible_ones_have_the_same_truth(domain):
    values = domain.validate(domain.example(300, np.random.default_rng(1)))
    whole = domain.total(values)
    parts = domain.total(values[:100]) + domain.total(values[100:])
    assert np.allclose(whole, parts, rtol=1e-12, atol=1e-12)
    truth = domain.truth(whole, 300)
    again = domain.plausible(truth, 300)
    assert again.shape == whole.shape
    assert np.allclose(domain.truth(again, 300), truth, rtol=1e-9, atol=1e-9)
    # Squares: the least that the means allow (Jensen).
    if domain.target == "mean":
        assert np.all(again[1] <= whole[1] * (1 + 1e-12) + 1e-12)


def test_means_are_those_of_numpy():
    rng = np.random.default_rng(2)
    for domain in (Interval(1e6, 1e6 + 1), Box(3, -7, 5), UnitVectors(5), Points(Plane(x=(3, 4), y=(-1, 9)))):
        values = domain.validate(domain.example(1000, rng))
        assert domain.truth(domain.total(values), 1000) == pytest.approx(np.atleast_1d(values.mean(axis=0)), rel=1e-12)


def test_sets_and_pairs_count_what_is_there():
    sets = np.array([[0, 2], [2, 1], [3, 2]])
    assert Sets(4, 2).total(Sets(4, 2).validate(sets)).tolist() == [1, 1, 3, 1]
    assert len(Sets(5, 2).subsets()) == 10
    pairs = np.array([[[0, 0.5], [2, -1.0]], [[2, 0.25], [np.nan, np.nan]]])
    domain = KeyValues(3, 2, fewer=True)
    assert domain.truth(domain.total(domain.validate(pairs)), 2).tolist() == [1, 0, 2, 0.5, 0, -0.75]
    with pytest.raises(ValueError, match=r"keys in 0..2, got nan at position 1"):
        KeyValues(3, 2).validate(pairs)


@pytest.mark.parametrize(
    "region",
    [
        Plane(x=(0, 2), y=(-5, 5)),
        Map(latitude=(10, 70), longitude=(-170, -60), unit="km"),
        Map(latitude=(-20, 10), longitude=(150, -120), unit="m"),
        Map(latitude=(-85, 85), longitude=(-180, 180), unit="km"),
    ],
    ids=repr,
)
def test_projection_is_undone(region):
    points = Points(region).example(500, np.random.default_rng(3))
    plane = region.project(points)
    assert np.all(np.abs(plane) <= np.array(region.sides) / 2 * (1 + 1e-12))
    assert np.allclose(region.unproject(plane), points, atol=1e-9)
    assert np.allclose(region.displace(region.locate(3 * plane)), 3 * plane, rtol=1e-12)
    assert np.hypot(*(plane.max(axis=0) - plane.min(axis=0))) <= region.diameter * (1 + 1e-12)


def test_distances_near_the_middle_are_those_of_the_earth():
    """One hundredth of a degree on a sphere of radius 6371.0088 km, and the unit decides its size."""
    for unit, factor in (("km", 1.0), ("m", 1000.0)):
        area = Map(latitude=(47, 49), longitude=(1, 3), unit=unit)
        start, north, east = area.project(np.array([[48.0, 2.0], [48.01, 2.0], [48.0, 2.01]]))
        degree = np.pi / 180 * 6371.0088 * factor
        assert np.hypot(*(north - start)) == pytest.approx(0.01 * degree, rel=1e-9)
        assert np.hypot(*(east - start)) == pytest.approx(0.01 * degree * np.cos(np.radians(48)), rel=1e-9)


def test_points_beyond_a_pole_and_the_date_line_come_back_on_the_earth():
    area = Map(latitude=(70, 80), longitude=(160, -160), unit="km")
    far = area.unproject(np.array([[5000.0, 0.0], [-5000.0, 0.0], [0.0, 2500.0]]))
    assert np.all(np.abs(far[:, 0]) <= 90)
    assert np.all((far[:, 1] >= -180) & (far[:, 1] < 180))
    # 5 degrees below the pole, then across it and down on the other side.
    assert far[2, 0] == pytest.approx(180 - (75 + np.degrees(2500 / 6371.0088)), abs=1e-9)
    assert far[2, 1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sets(1, 1), "d must be an integer >= 2, got 1"),
        (lambda: Sets(4, 5), r"s must be an integer in \[1, 4\], got 5"),
        (lambda: Sets(4, 0), r"s must be an integer in \[1, 4\], got 0"),
        (lambda: KeyValues(3, 4), r"s must be an integer in \[1, 3\], got 4"),
        (lambda: KeyValues(3, 1, fewer=1), "fewer must be True or False, got 1"),
        (lambda: Box(0, 0, 1), "dim must be an integer >= 1, got 0"),
        (lambda: Box(2, 1, 1), "low must be < high"),
        (lambda: UnitVectors(1), "dim must be an integer >= 2, got 1"),
        (lambda: Plane(x=(0, 0), y=(0, 1)), r"x must be a pair low < high with high - low in .*, got \(0, 0\)"),
        (lambda: Plane(x=(0, 1e-160), y=(0, 1)), "high - low in"),
        (lambda: Interval(0, 1e-170), r"high - low must be in \[1e-150, 1e[+]150\]"),
        (lambda: Interval(-1e200, 1e200), r"high - low must be in \[1e-150, 1e[+]150\]"),
        (lambda: Plane(x=3, y=(0, 1)), "x must be a pair of numbers, got 3"),
        (lambda: Plane(x=(0, np.inf), y=(0, 1)), "x must be a pair of finite numbers, got inf"),
        (lambda: Map(latitude=(50, 40), longitude=(0, 1), unit="km"), "latitude must be a pair south < north"),
        (lambda: Map(latitude=(40, 91), longitude=(0, 1), unit="km"), r"latitude must be in \[-85, 85\] degrees, got 91"),
        (lambda: Map(latitude=(40, 50), longitude=(1, 1), unit="km"), "longitude must be a pair of different ends"),
        (lambda: Map(latitude=(40, 50), longitude=(0, 1), unit="mile"), "unit must be 'm' or 'km', got 'mile'"),
        (lambda: Points("earth"), "region must be a Plane or a Map, got 'earth'"),
    ],
)
def test_impossible_domains_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_frames_of_categoricals_are_sets_with_labels():
    frame = pd.DataFrame({c: pd.Categorical(list(v), categories=list("abc")) for c, v in (("x", "ab"), ("y", "bc"))})
    domain = Sets(3, 2)
    assert domain.validate(domain.collect(frame)).tolist() == [[0, 1], [1, 2]]
    assert domain.labels_of(frame).tolist() == ["a", "b", "c"]
    repeated = frame.assign(x=frame["y"].array)
    with pytest.raises(ValueError, match=r"values must hold 2 distinct categories per user, got \['b', 'b'\] at position 0"):
        domain.collect(repeated)
    frame["y"] = pd.Categorical(["b", "b"], categories=list("bca"))
    with pytest.raises(ValueError, match="same categories in all columns"):
        domain.collect(frame)


def test_frames_of_labelled_keys_are_pairs():
    keys = pd.CategoricalDtype(list("abc"))
    frame = pd.DataFrame({"k": list("ab"), "v": [0.5, 1], "l": ["c", None], "w": [-1, np.nan]}).astype({"k": keys, "l": keys})
    fewer = KeyValues(3, 2, fewer=True)
    pairs = fewer.validate(fewer.collect(frame))
    assert np.array_equal(pairs, [[[0, 0.5], [2, -1]], [[1, 1], [np.nan, np.nan]]], equal_nan=True)
    assert fewer.labels_of(frame).tolist() == ["users a", "users b", "users c", "sum a", "sum b", "sum c"]
    assert fewer.labels_of(pairs).tolist() == fewer.labels.tolist()
    exact = KeyValues(3, 2)
    with pytest.raises(ValueError, match=r"keys in 0..2, got nan at position 1"):
        exact.validate(exact.collect(frame))
    for domain, bad, message in (
        (KeyValues(4, 2), frame, "d must be the number of categories of the data, 3, got 4"),
        (exact, frame.iloc[:, :2], "data must have 4 columns key, value, ..., got 2"),
        (exact, frame.iloc[:, :3], "data must have 4 columns key, value, ..., got 3"),
        (exact, frame.assign(v="1"), "data must have numbers in every second column, got"),
        (exact, frame.assign(l=frame["k"]), r"values must have distinct keys per user, got \['a', 'a'\] at position 0"),
        (exact, frame.assign(l=pd.Categorical(["b", "b"])), "same categories in all columns"),
    ):
        with pytest.raises(ValueError, match=message):
            domain.collect(bad)


def test_ragged_data_are_refused_in_words():
    with pytest.raises(ValueError, match="data must have as many entries for every user, got a ragged sequence"):
        Sets(4, 2).collect([[0, 1], [2]])


def test_summaries_keep_a_seed_whatever_the_domain():
    """simulate takes rows of any shape; a randomizer of Laplace noise on an interval far from 0 keeps its digits."""
    data = np.linspace(1e9, 1e9 + 1, 1000)
    result = ss.simulate(ss.mechanisms.Laplace(700.0, low=1e9, high=1e9 + 1), data, delta=1e-6, seed=0)
    assert result.truth[0] == pytest.approx(1e9 + 0.5, abs=1e-6)
