"""Randomizers of numbers and vectors: exact parameters, laws, moments, best parameters, extremes."""

import math
import re

import mpmath
import numpy as np
import pytest
from scipy import special

import shufflesim as ss
from shufflesim.bounds import MessageCount
from shufflesim.bounds.evaluate import Divergence
from shufflesim.bounds.groups import enumerate_groups
from shufflesim.empirical.law import true_parameters
from shufflesim.mechanisms import Duchi, Harmony, Piecewise, PrivUnit

from .oracles import close, load, log_formula

ALARM = 1e-9

MAKERS = {
    "Duchi [-1,1]^d (eps-LDP version; even d: T+ strict, repaired coin)": lambda q, eps: Duchi(eps, q["d"]),
    "Harmony [-1,1]^d": lambda q, eps: Harmony(eps, q["d"]),
    "Piecewise [-1,1]": lambda q, eps: Piecewise(eps),
    "PrivUnit": lambda q, eps: PrivUnit(eps, q["dim"], float(q["gamma"])),
}


def within(sample, mean, deviation, count=1):
    """Whether a sample mean is within what a normal exceeds with probability ALARM/count."""
    z = -special.ndtri(ALARM / count / 2)
    return np.all(np.abs(sample - mean) <= z * deviation)


@pytest.mark.parametrize(
    "row",
    [r for r in load("params") if r["mechanism"] in MAKERS],
    ids=lambda r: f"{r['mechanism'][:9]} {r['parameters']} {r['eps0']}",
)
def test_declared_parameters_are_the_true_ones(row):
    eps = log_formula(row["eps0"])
    mechanism = MAKERS[row["mechanism"]](row["parameters"], eps)
    declared = mechanism.amplification
    assert close(declared.p, row["true_p"], 1e-12)
    assert close(declared.beta, row["true_beta"], 1e-12)
    assert close(declared.q, row["true_q"], 1e-12)
    if "c" in row["parameters"]:
        assert close(mechanism.two_level.mass, row["parameters"]["c"], 1e-12)


@pytest.mark.parametrize(
    "randomizer",
    [Duchi(1.0), Duchi(2.0, 2), Duchi(1.5, 3), Duchi(0.7, 4), Duchi(3.0, 5), Duchi(1.0, 6), Harmony(1.2, 1), Harmony(2.0, 4)],
    ids=repr,
)
def test_law_has_the_declared_parameters_and_moments(randomizer):
    """By enumeration: eps-LDP, beta attained, unbiased with the stated variance for every vertex."""
    log_law = randomizer.log_channel()
    log_p, beta, _ = true_parameters(log_law)
    assert log_p == pytest.approx(randomizer.epsilon, rel=1e-12)
    assert randomizer.amplification.beta == pytest.approx(beta, rel=1e-12)
    law = np.exp(log_law)
    assert law.sum(axis=1) == pytest.approx(np.ones(len(law)), rel=1e-13)
    outcomes = law.shape[1]
    if isinstance(randomizer, Duchi):
        bits = np.arange(outcomes)[:, None] >> np.arange(randomizer.dim)[::-1] & 1
        reports = np.packbits(bits.astype(bool), axis=1)
        assert np.array_equal(randomizer.outcome(reports), np.arange(outcomes))
    else:
        reports = np.arange(outcomes)
    estimates = np.array([randomizer.estimate(randomizer.aggregate(reports[k : k + 1]), 1) for k in range(outcomes)])
    values = randomizer.domain.validate(randomizer.inputs())
    assert law @ estimates == pytest.approx(randomizer.domain.scaled(values), abs=1e-11)
    exact = law @ estimates**2 - (law @ estimates) ** 2
    stated = [randomizer.variance(randomizer.domain.total(values[k : k + 1]), 1) for k in range(len(values))]
    assert exact == pytest.approx(np.array(stated), rel=1e-11)


def largest(tables, n, eps):
    return max(Divergence(t, MessageCount(n)).log_enclosure(eps, 1e-7)[1] for s in tables for t in (s, s.swapped()))


@pytest.mark.parametrize("randomizer", [Duchi(2.0, 3), Duchi(1.0, 4), Harmony(1.5, 3)], ids=repr)
@pytest.mark.parametrize(("n", "share"), [(1, 0.0), (2, 0.4), (10, 0.1)])
def test_groups_are_the_worst_pair(randomizer, n, share):
    """The closed form's blanket is the worst of the enumeration; its data sets are worst or close to it (for a few n and eps)."""
    enumerated, groups = enumerate_groups(randomizer.channel()), randomizer.groups()
    # By symmetry the first input of the pair may be fixed.
    enumerated = [g for g in enumerated if g.note.startswith("inputs 0,")]
    eps = share * randomizer.epsilon
    blankets = {t.key: t for t in (g.blanket_table() for g in enumerated)}
    assert largest([groups[0].blanket_table()], n, eps) == pytest.approx(largest(blankets.values(), n, eps), abs=1e-6)
    lowers = {t.key: t for t in (g.homogeneous_table() for g in enumerated)}
    ours, full = largest([g.homogeneous_table() for g in groups], n, eps), largest(lowers.values(), n, eps)
    assert full - 0.02 <= ours <= full + 1e-6


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 8, 255, 256, 257, 10_000])
def test_masses_of_duchi_groups(dim):
    mechanism = Duchi(1.0, dim)
    for group in mechanism.groups():
        for masses in (group.first, group.second, group.other):
            assert masses.min() >= 0
            assert masses.sum() == pytest.approx(1, rel=1e-13)
        assert 0.5 * np.abs(group.first - group.second).sum() == pytest.approx(mechanism.amplification.beta, rel=1e-12)


def test_published_even_duchi_is_not_private():
    """dim = 2, with the ties drawn with either side: probability (E + 1) times that of the vertex beyond."""
    e = math.e
    v = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    closed = v @ v.T >= 0
    own, other = closed / closed.sum(axis=1, keepdims=True), closed[::-1] / closed.sum(axis=1, keepdims=True)
    law = (e * own + other) / (e + 1)
    assert (law.max(axis=0) / law.min(axis=0)).max() == pytest.approx(e + 1)
    assert np.exp(true_parameters(Duchi(1.0, 2).log_channel())[0]) == pytest.approx(e)


@pytest.mark.parametrize(("dim", "eps"), [(1, 1.0), (6, 1.0), (100, 0.5), (101, 2.0)])
def test_duchi_sampler_has_the_law_of_agreements(dim, eps):
    """Number of coordinates that agree with a vertex: chi-square-free, by exact binomial tails of every cell (1e-9 in all)."""
    mechanism, n = Duchi(eps, dim), 50_000
    vertex = np.where(np.arange(dim) % 3 > 0, 1.0, -1.0)
    values = np.repeat(vertex[None], n, axis=0)
    reports = mechanism.randomize(values[:, 0] if dim == 1 else values, np.random.default_rng(8))
    t = np.unpackbits(reports, axis=1, count=dim) * 2.0 - 1
    found = np.bincount(((t == vertex).sum(axis=1)), minlength=dim + 1)
    k = np.arange(dim + 1)
    exact = [math.comb(dim, int(j)) / 2**dim for j in k]
    law = exact * np.where(2 * k > dim, 1.0, math.exp(-eps))
    law /= law.sum()
    tails = np.minimum(special.bdtrc(found - 1, n, law), special.bdtr(found, n, law))
    tails = np.where(found == 0, special.bdtr(found, n, law), tails)
    assert tails.min() >= ALARM / (2 * (dim + 1))
    # Every coordinate alike, and uncorrelated with its neighbour beyond what the agreement implies.
    m = mechanism.mean_length
    assert within(t.mean(axis=0) * vertex, m, math.sqrt((1 - m * m) / n), dim)
    if dim > 1:
        share = (law @ k.astype(float) ** 2 - law @ k) * 4 / (dim * (dim - 1)) - 4 * (law @ k) / dim + 1
        products = (t[:, :-1] * t[:, 1:]).mean(axis=0) * vertex[:-1] * vertex[1:]
        assert within(products, share, math.sqrt((1 - share**2) / n), dim)


@pytest.mark.parametrize("eps", [1e-9, 0.3, 2.0, 12.0])
@pytest.mark.parametrize("x", [-1.0, 0.25, 1.0])
def test_piecewise_moments_follow_from_its_distribution_function(eps, x):
    """Mean and second moment as integrals of the distribution function, exact for piecewise linear ones."""
    mechanism = Piecewise(eps)
    limit = mechanism.limit
    start = x - (limit - 1) * (1 - x) / 2
    knots = np.array([-limit, start, start + limit - 1, limit])
    levels = mechanism.cdf(x, knots)
    assert levels[0] == 0
    assert levels[-1] == pytest.approx(1, rel=1e-14)
    mass = np.diff(levels)
    mean = mass @ (knots[1:] + knots[:-1]) / 2
    square = mass @ (knots[1:] ** 2 + knots[1:] * knots[:-1] + knots[:-1] ** 2) / 3
    assert mean == pytest.approx(x, abs=1e-12 * limit)
    stated = mechanism.variance(mechanism.domain.total(np.array([x])), 1)[0]
    assert square - x * x == pytest.approx(stated, rel=1e-9)
    density = mass / np.maximum(np.diff(knots), 1e-300)
    assert density[1] / max(density[0], density[2]) == pytest.approx(math.exp(eps), rel=1e-9)


def test_piecewise_reports_say_their_variance_without_bias():
    """E[t^2] is linear in x^2, so the mean of the stated variance is the exact one (false alarm 1e-9)."""
    mechanism, n, runs = Piecewise(3.0, low=0.0, high=4.0), 50, 4000
    rng = np.random.default_rng(1)
    values = rng.choice([0.0, 3.9], n)
    reports = mechanism.randomize(np.tile(values, runs), rng).reshape(runs, n)
    stated = np.array([mechanism.estimated_variance(mechanism.aggregate(r), n)[0] for r in reports])
    exact = mechanism.variance(mechanism.domain.total(values), n)[0]
    assert within(stated.mean(), exact, stated.std() / math.sqrt(runs))


@pytest.mark.parametrize(("eps", "dim"), [(0.5, 2), (2.0, 3), (4.0, 20), (10.0, 300), (1e-3, 50)])
def test_best_cap_minimises_the_error(eps, dim):
    best = PrivUnit(eps, dim)
    assert best.mean_length == pytest.approx(best.cap, rel=1e-9)
    for other in (0.0, 0.7 * best.cap, 0.99 * best.cap, 1.01 * best.cap, 1.3 * best.cap):
        if other < 1:
            assert PrivUnit(eps, dim, other).mean_length <= best.mean_length * (1 + 1e-12)


@pytest.mark.parametrize(("eps", "dim", "gamma"), [(1.0, 2, 0.3), (2.0, 3, 0.75), (4.0, 30, 0.0), (6.0, 30, 0.6)])
def test_moments_of_privunit_by_quadrature(eps, dim, gamma):
    mechanism = PrivUnit(eps, dim, gamma)
    with mpmath.workdps(20):
        half = mpmath.mpf(dim - 3) / 2

        def moment(k):
            parts = [mpmath.quad(lambda v: v**k * (1 - v * v) ** half, ends) for ends in ([-1, 0, gamma], [gamma, 1])]
            return parts[0] + mpmath.exp(eps) * parts[1]

        whole = moment(0)
        mean, square = float(moment(1) / whole), float(moment(2) / whole)
    assert mechanism.mean_length == pytest.approx(mean, rel=1e-6 if dim == 2 else 1e-12)
    x = np.zeros((1, dim))
    x[0, :2] = 0.6, 0.8
    along = square * x[0] ** 2 + (1 - square) * (1 - x[0] ** 2) / (dim - 1)
    stated = mechanism.variance(mechanism.domain.total(x), 1)
    assert stated == pytest.approx(along / mean**2 - x[0] ** 2, rel=1e-6 if dim == 2 else 1e-11)


@pytest.mark.parametrize(
    ("eps", "dim", "gamma"), [(1.0, 2, None), (3.0, 3, 0.8), (4.0, 64, None), (1e-9, 5, None), (50.0, 8, 0.3)]
)
def test_privunit_sampler_follows_its_law(eps, dim, gamma):
    """Projection on x against its distribution function (Dvoretzky-Kiefer-Wolfowitz, false alarm 1e-9), the rest unbiased."""
    mechanism, n = PrivUnit(eps, dim, gamma), 40_000
    x = np.arange(1.0, dim + 1)
    x /= np.linalg.norm(x)
    reports = mechanism.randomize(np.repeat(x[None], n, axis=0), np.random.default_rng(3))
    assert reports.dtype == np.float32
    assert np.abs(np.linalg.norm(reports.astype(float), axis=1) - 1).max() < 1e-6
    v = np.sort(reports.astype(float) @ x)
    below = 0.5 * (1 + np.sign(v) * special.betainc(0.5, (dim - 1) / 2, np.minimum(v * v, 1.0)))
    c, cap = mechanism.two_level.mass, mechanism.cap
    low = math.exp(-eps) / (c + (1 - c) * math.exp(-eps))
    law = np.where(v < cap, low * below, 1 - (1 - below) * mechanism.two_level.likely / c)
    gap = np.abs(law - (np.arange(n) + 0.5) / n).max() + 0.5 / n
    # The float32 rounding of a report moves it by less than the second term, in units of probability.
    assert gap <= math.sqrt(math.log(2 / ALARM) / (2 * n)) + 2e-4
    # Orthogonal to x: no direction preferred.
    y = np.zeros(dim)
    y[:2] = x[1], -x[0]
    y /= np.linalg.norm(y)
    across = reports.astype(float) @ y
    deviation = math.sqrt((1 - float((v * v).mean())) / (dim - 1))
    assert within(across.mean(), 0.0, deviation / math.sqrt(n))
    assert across.var() == pytest.approx(deviation**2, rel=6.2 * math.sqrt(2 / n) + 1e-3)


@pytest.mark.parametrize("dim", [2, 3, 10, 500, 10**5])
@pytest.mark.parametrize("eps", [1e-9, 1.0, 700.0])
def test_privunit_extremes(eps, dim):
    mechanism = PrivUnit(eps, dim)
    n = 20
    values = mechanism.domain.validate(mechanism.domain.example(n, np.random.default_rng(0)))
    reports = mechanism.randomize(values, np.random.default_rng(1))
    assert np.abs(np.linalg.norm(reports.astype(float), axis=1) - 1).max() < 1e-5
    aggregate = mechanism.aggregate(reports)
    total = mechanism.domain.total(values)
    for variance in (mechanism.variance(total, n), mechanism.estimated_variance(aggregate, n)):
        assert np.all(np.isfinite(variance))
        assert np.all(variance >= 0)
    error = np.sum((mechanism.estimate(aggregate, n) - mechanism.domain.truth(total, n)) ** 2)
    assert error <= 60 * mechanism.variance(total, n).sum() + 1e-12
    assert mechanism.amplification.beta <= math.tanh(eps / 2)


@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.9])
def test_privunit_reports_say_their_variance_without_boldness(gamma):
    """On average not below the exact variance, whether it grows or falls with the data's second moment (false alarm 1e-9)."""
    mechanism, n, runs = PrivUnit(2.0, 4, gamma), 40, 1500
    rng = np.random.default_rng(1)
    values = np.repeat([[1.0, 0, 0, 0], [-0.6, 0.8, 0, 0]], n // 2, axis=0)
    stated = np.array(
        [mechanism.estimated_variance(mechanism.aggregate(mechanism.randomize(values, rng)), n) for _ in range(runs)]
    )
    exact = mechanism.variance(mechanism.domain.total(values), n)
    assert np.all(stated.mean(axis=0) >= exact - 6.2 * stated.std(axis=0) / math.sqrt(runs))
    assert np.all(stated > 0)


@pytest.mark.parametrize("make", [Duchi, Piecewise, lambda eps: Harmony(eps, 3), lambda eps: Duchi(eps, 4)])
@pytest.mark.parametrize("eps", [1e-9, 700.0])
def test_extreme_budgets(make, eps):
    mechanism, n = make(eps), 3000
    values = mechanism.domain.validate(mechanism.domain.example(n, np.random.default_rng(0)))
    aggregate = mechanism.aggregate(mechanism.randomize(values, np.random.default_rng(1)))
    total = mechanism.domain.total(values)
    variance = mechanism.variance(total, n)
    assert np.all(np.isfinite(variance))
    assert within(mechanism.estimate(aggregate, n), mechanism.domain.truth(total, n), np.sqrt(variance) + 1e-12, 4)
    assert np.all(mechanism.estimated_variance(aggregate, n) >= 0.8 * variance)
    if eps < 1:
        table = ss.bound_table(mechanism, 100, 1e-6)
        assert table["epsilon"].between(0, eps * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Duchi(0.0), "epsilon must be a number in (0, 700]"),
        (lambda: Duchi(1.0, 0), "dim must be an integer >= 1, got 0"),
        (lambda: Duchi(1.0, 2.0), "dim must be an integer >= 1, got 2.0"),
        (lambda: Duchi(1.0, 3, 1.0, 1.0), "low must be < high"),
        (lambda: Harmony(701, 3), "epsilon must be a number in (0, 700]"),
        (lambda: Harmony(1.0, True), "dim must be an integer >= 1, got True"),
        (lambda: Harmony(1.0, 3, math.nan), "low must be a finite number"),
        (lambda: Piecewise(math.nan), "epsilon must be a number in (0, 700]"),
        (lambda: Piecewise(1.0, 2.0, 1.0), "low must be < high"),
        (lambda: PrivUnit(1.0, 1), "dim must be an integer >= 2, got 1"),
        (lambda: PrivUnit(1.0, 5, -0.1), "gamma must be a number in [0, 1 - 2^-40], got -0.1"),
        (lambda: PrivUnit(1.0, 5, 1.0), "gamma must be a number in [0, 1 - 2^-40], got 1.0"),
        (lambda: PrivUnit(1.0, 5, "1"), "gamma must be a number in [0, 1 - 2^-40], got '1'"),
        (
            lambda: PrivUnit(1.0, 10_000, 0.5),
            "of the sphere, and reports with a mean length of 1e-150, got 0.5",
        ),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
