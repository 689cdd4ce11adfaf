"""Synthetic generators against their laws, their seeds and their refusals.

Statistical checks: fixed seeds, each with a false-alarm probability of 1e-9.
"""

import re
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from shufflesim import datasets
from shufflesim.datasets import synthetic

ALARM = 1e-9


def p_value(counts, law):
    """Chi-square p-value of counts against a law, after pooling neighbours up to an expected count of 200."""
    expected = law * counts.sum()
    group = np.minimum(np.floor((np.cumsum(expected) - expected / 2) / 200), 10**6).astype(int)
    _, group = np.unique(group, return_inverse=True)
    observed, expected = np.bincount(group, counts), np.bincount(group, expected)
    if expected[-1] < 100:
        observed = np.append(observed[:-2], observed[-2:].sum())
        expected = np.append(expected[:-2], expected[-2:].sum())
    return stats.chisquare(observed, expected).pvalue


def zipf_law(d, exponent):
    weights = [float(k) ** -exponent for k in range(1, d + 1)]
    return np.array(weights) / sum(weights)


def geometric_law(d, ratio):
    ratio = Fraction(ratio)
    return np.array([float((1 - ratio) * ratio**k / (1 - ratio**d)) for k in range(d)])


CATEGORICAL = [
    ("uniform", {"d": 2}, lambda: np.full(2, 1 / 2)),
    ("uniform", {"d": 1000}, lambda: np.full(1000, 1 / 1000)),
    ("zipf", {"d": 2}, lambda: zipf_law(2, 1.0)),
    ("zipf", {"d": 1000}, lambda: zipf_law(1000, 1.0)),
    ("zipf", {"d": 300, "exponent": 0}, lambda: zipf_law(300, 0)),
    ("zipf", {"d": 50, "exponent": 2.5}, lambda: zipf_law(50, 2.5)),
    ("geometric", {"d": 2, "ratio": 0.25}, lambda: geometric_law(2, 0.25)),
    ("geometric", {"d": 20}, lambda: geometric_law(20, 0.9)),
    ("geometric", {"d": 300, "ratio": 0.999}, lambda: geometric_law(300, 0.999)),
]


@pytest.mark.parametrize(("name", "arguments", "law"), CATEGORICAL, ids=lambda x: str(x) if not callable(x) else "")
def test_categories_follow_their_law(name, arguments, law):
    codes = getattr(datasets, name)(200_000, **arguments, seed=2013)
    assert codes.shape == (200_000,)
    assert codes.max() < arguments["d"]
    assert p_value(np.bincount(codes, minlength=arguments["d"]), law()) > ALARM


MIXTURES = [
    {},
    {"means": [0.0, 1.0], "scales": [0.2, 0.1], "weights": [1, 4]},
    # Most of the first law is outside, so that it counts for less than its weight.
    {"means": [-1.0, 0.5], "scales": [0.5, 0.3], "weights": [10, 1]},
    # The upper and the lower tail.
    {"means": [-10.0], "scales": [1.0], "low": 0.0, "high": 0.3},
    {"means": [10.0], "scales": [1.0], "low": -0.3, "high": 0.0},
    # Nearly flat on the interval: both sides of the switch at a width of 1e-5 standard deviations.
    {"means": [0.0, 3e5, 0.5], "scales": [1.01e5, 1e5, 0.1], "weights": [1e6, 1e6, 1.0]},
    {"means": [0.0, 3e5, 0.5], "scales": [0.99e5, 0.99e5, 0.1], "weights": [1e6, 1e6, 1.0]},
    {"means": (5,), "scales": (2,), "low": -3, "high": 20},
    # A law that the interval holds whole, far narrower than the interval.
    {"means": [0.5], "scales": [1e-3], "low": 0.49, "high": 0.501},
]


def mixture_law(edges, means=(0.3, 0.7), scales=(0.1, 0.05), weights=None, low=0.0, high=1.0):
    """Probabilities of the bins, by quadrature of the density."""
    weights = np.ones(len(means)) if weights is None else weights
    parts = list(zip(means, scales, weights, strict=True))

    def density(x):
        return sum(w / s * np.exp(-(((x - m) / s) ** 2) / 2) for m, s, w in parts)

    top = density(np.linspace(low, high, 1001)).max()
    bins = [integrate.fixed_quad(lambda x: density(x) / top, a, b, n=30)[0] for a, b in pairwise(edges)]
    return np.array(bins) / sum(bins)


@pytest.mark.parametrize("arguments", MIXTURES, ids=str)
def test_mixtures_follow_their_law(arguments):
    low, high = arguments.get("low", 0.0), arguments.get("high", 1.0)
    x = datasets.gaussian_mixture(200_000, **arguments, seed=2013)
    assert x.shape == (200_000,)
    assert x.dtype == np.float64
    assert low <= x.min() < x.max() <= high
    edges = np.linspace(low, high, 101)
    assert p_value(np.histogram(x, edges)[0], mixture_law(edges, **arguments)) > ALARM


def test_the_law_check_catches_clipping_and_a_small_bias():
    edges = np.linspace(0, 1, 101)
    arguments = {"means": [0.5], "scales": [0.3]}
    clipped = np.clip(np.random.default_rng(1).normal(0.5, 0.3, 200_000), 0, 1)
    assert p_value(np.histogram(clipped, edges)[0], mixture_law(edges, **arguments)) < ALARM
    codes = datasets.zipf(200_000, 50, 1.05, seed=1)
    assert p_value(np.bincount(codes, minlength=50), zipf_law(50, 1.0)) < ALARM


def test_truncation_leaves_nothing_at_the_ends():
    x = datasets.gaussian_mixture(100_000, means=[0, 1], scales=[1, 1], seed=3)
    assert 0 < x.min() < 1e-3
    assert 1 - 1e-3 < x.max() < 1


@pytest.mark.parametrize("scale", [1e-320, 1e-12, 1e12, 1e290])
def test_extreme_scales_stay_finite(scale):
    x = datasets.gaussian_mixture(1000, means=[0.5], scales=[scale], seed=4)
    assert np.isfinite(x).all()
    assert ((x >= 0) & (x <= 1)).all()
    assert abs(x.mean() - 0.5) < 0.1
    assert scale < 1 or x.std() > 0.2


# Synthetic generators: types, seeds, memory


@pytest.mark.parametrize("name", ["uniform", "zipf", "geometric"])
@pytest.mark.parametrize(("d", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (65_537, np.uint32)])
def test_codes_use_the_smallest_dtype(name, d, dtype):
    assert getattr(datasets, name)(10, d, seed=0).dtype == dtype


def test_uniform_reaches_the_largest_dtype():
    assert datasets.uniform(10, 2**64, seed=0).dtype == np.uint64
    assert datasets.uniform(np.int64(10), np.uint8(200), seed=0).dtype == np.uint8


def test_a_zipf_law_that_underflows_is_all_zero():
    assert not datasets.zipf(1000, 10, 1e308, seed=0).any()
    assert not datasets.geometric(1000, 10, 1e-300, seed=0).any()


GENERATORS = {
    "uniform": lambda n, seed: datasets.uniform(n, 300, seed=seed),
    "zipf": lambda n, seed: datasets.zipf(n, 300, seed=seed),
    "geometric": lambda n, seed: datasets.geometric(n, 300, 0.99, seed=seed),
    "gaussian_mixture": lambda n, seed: datasets.gaussian_mixture(n, seed=seed),
}


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_seeds_reproduce(make):
    first = make(1000, 5)
    np.testing.assert_array_equal(first, make(1000, 5))
    np.testing.assert_array_equal(first, make(1000, np.uint8(5)))
    np.testing.assert_array_equal(first, make(1000, np.random.SeedSequence(5)))
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(first, make(1000, rng))
    assert not np.array_equal(first, make(1000, rng))
    assert not np.array_equal(first, make(1000, 6))


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_the_chunk_does_not_change_the_result(make, monkeypatch):
    whole = make(1000, 5)
    for chunk in (1, 7, 999, 1000):
        monkeypatch.setattr(synthetic, "CHUNK", chunk)
        np.testing.assert_array_equal(make(1000, 5), whole)


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_the_global_random_state_is_left_alone(make):
    before = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    make(10, 5)
    after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert before["pos"] == after["pos"]
    np.testing.assert_array_equal(before["key"], after["key"])


def test_one_value_is_enough():
    for make in GENERATORS.values():
        assert make(1, 0).shape == (1,)


# Synthetic generators: bad input


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize("n", [0, -1, 1.5, 10.0, True, np.True_, "10", None, np.nan])
def test_n_is_refused(make, n):
    shown = "True" if n is np.True_ else repr(n)
    with pytest.raises(ValueError, match="^" + re.escape(f"n must be an integer >= 1, got {shown}") + "$"):
        make(n, 0)


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize("seed", [None, -1, 1.0, True, "a", np.nan])
def test_seed_is_refused(make, seed):
    message = f"seed must be an integer >= 0, a SeedSequence or a Generator, got {seed!r}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        make(10, seed)


@pytest.mark.parametrize("name", ["uniform", "zipf", "geometric", "gaussian_mixture"])
def test_seed_is_required_and_named(name):
    arguments = (10,) if name == "gaussian_mixture" else (10, 5)
    with pytest.raises(TypeError, match="seed"):
        getattr(datasets, name)(*arguments)


@pytest.mark.parametrize("name", ["uniform", "zipf", "geometric"])
@pytest.mark.parametrize("d", [1, 0, -5, 2.0, True, "2", None, np.inf])
def test_d_is_refused(name, d):
    with pytest.raises(ValueError, match="^" + re.escape(f"d must be an integer >= 2, got {d!r}") + "$"):
        getattr(datasets, name)(10, d, seed=0)


def test_d_too_large_is_refused():
    with pytest.raises(ValueError, match=r"d must be an integer <= 2\*\*64, got 18446744073709551617"):
        datasets.uniform(10, 2**64 + 1, seed=0)
    for make in (datasets.zipf, datasets.geometric):
        with pytest.raises(ValueError, match="d must be an integer <= 134217728 for a tabulated law, got 134217729"):
            make(10, 2**27 + 1, seed=0)


@pytest.mark.parametrize("exponent", [-0.1, np.nan, np.inf, True, "1", None, 10**400])
def test_exponent_is_refused(exponent):
    with pytest.raises(ValueError, match=r"^exponent must be a finite number >= 0, got .{1,80}$"):
        datasets.zipf(10, 5, exponent, seed=0)


@pytest.mark.parametrize("ratio", [0, 1, 1.5, -0.5, np.nan, np.inf, True, "0.5", None])
def test_ratio_is_refused(ratio):
    with pytest.raises(ValueError, match="^" + re.escape(f"ratio must be a number in (0, 1), got {ratio!r}") + "$"):
        datasets.geometric(10, 5, ratio, seed=0)


@pytest.mark.parametrize("value", [[], 0.5, [np.nan], [np.inf], ["a"], [[0.5]], [[1], [1, 2]], [True], [1j], None])
def test_means_is_refused(value):
    message = f"means must be a non-empty sequence of finite numbers, got {value!r}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        datasets.gaussian_mixture(10, means=value, scales=[1], seed=0)


@pytest.mark.parametrize("name", ["scales", "weights"])
@pytest.mark.parametrize("value", [[], [0.0, 1], [-1, 1], [np.nan, 1], [np.inf, 1], 1.0, "ab"])
def test_scales_and_weights_are_refused(name, value):
    message = f"{name} must be a non-empty sequence of positive finite numbers, got {value!r}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        datasets.gaussian_mixture(10, **{name: value}, seed=0)


@pytest.mark.parametrize("name", ["scales", "weights"])
def test_lengths_that_differ_are_refused(name):
    with pytest.raises(ValueError, match=rf"^{name} must have as many entries as means \(2\), got 3$"):
        datasets.gaussian_mixture(10, **{name: [1, 2, 3]}, seed=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 1, "high": 0}, "low must be less than high, got low=1.0, high=0.0"),
        ({"low": 1, "high": 1}, "low must be less than high, got low=1.0, high=1.0"),
        ({"low": np.nan}, "low must be a finite number, got nan"),
        ({"high": np.inf}, "high must be a finite number, got inf"),
        ({"high": True}, "high must be a finite number, got True"),
        ({"high": "1"}, "high must be a finite number, got '1'"),
        ({"low": -1e308, "high": 1e308}, "high - low must be finite, got low=-1e+308, high=1e+308"),
        ({"low": 50, "high": 60}, "[low, high] must hold at least 1e-300 of the mixture, got [50.0, 60.0]"),
    ],
)
def test_the_interval_is_refused(arguments, message):
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        datasets.gaussian_mixture(10, **arguments, seed=0)


def test_a_long_value_is_shown_on_one_short_line():
    with pytest.raises(ValueError, match=r"^means must be a non-empty sequence of finite numbers, got .{77}\.\.\.$"):
        datasets.gaussian_mixture(10, means=[[0.5] * 1000], scales=[1], seed=0)
