"""Every mechanism and protocol: conformance of each example, exact parameters, decoders, both sampling paths."""

import math
import re

import numpy as np
import pytest

import shufflesim as ss
from shufflesim import catalogue
from shufflesim.empirical.law import true_parameters
from shufflesim.mechanisms import (
    GRR,
    OUE,
    PCKVGRR,
    RAPPOR,
    Collision,
    Duchi,
    Laplace,
    LocalHash,
    Parallel,
    PrivKV,
    RandomizedResponse,
    Wheel,
)
from shufflesim.mechanisms._field import field
from shufflesim.mechanisms.local_hash import best_range
from shufflesim.protocols import BallsIntoBins, SingleMessage

from .oracles import close, load, log_formula

RANDOMIZERS = [m for cls in catalogue.mechanisms().values() for m in cls.examples()]
PROTOCOLS = [p for cls in (*catalogue.protocols().values(), SingleMessage) for p in cls.examples()]


@pytest.mark.parametrize("randomizer", RANDOMIZERS, ids=repr)
def test_randomizer_conforms(randomizer):
    report = ss.check_randomizer(randomizer)
    assert report.passed, str(report)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=repr)
def test_protocol_conforms(protocol):
    report = ss.check_protocol(protocol)
    assert report.passed, str(report)


@pytest.mark.parametrize("cls", [*catalogue.mechanisms().values(), *catalogue.protocols().values()], ids=lambda cls: cls.__name__)
def test_the_docstring_says_what_data_are_taken_and_from_which_paper(cls):
    """One line each; the stated shapes are those of the domain, with the class's parameters in them."""
    lines = [line.strip() for line in vars(cls)["__doc__"].splitlines()]
    (data,) = (line for line in lines if line.startswith("Data: "))
    (source,) = (line for line in lines if line.startswith("Source: "))
    assert re.search(r"\b(19|20)\d\d\b", source)
    stated = [[size for size in found.split(", ") if size] for found in re.findall(r"shape \(n, ?(.*?)\)", data)]
    for example in cls.examples():
        shapes = [tuple(int(size) if size.isdigit() else getattr(example, size, None) for size in sizes) for sizes in stated]
        assert example.domain.shape in shapes


MAKERS = {
    "GRR": lambda q, eps: GRR(eps, q["d"]),
    "RR": lambda q, eps: RandomizedResponse(eps),
    "RAPPOR basic one-time (one-hot, both bits flip)": lambda q, eps: RAPPOR(eps, q["d"]),
    "local hash, uniformly random hash released with report": lambda q, eps: LocalHash(eps, q["d"], q["l"]),
    "Laplace [0,1]": lambda q, eps: Laplace(eps),
}


@pytest.mark.parametrize(
    "row",
    [r for r in load("params") if r["mechanism"] in MAKERS],
    ids=lambda r: f"{r['mechanism'][:12]} {r['parameters']} {r['eps0']}",
)
def test_declared_parameters_are_the_true_ones(row):
    eps = log_formula(row["eps0"])
    declared = MAKERS[row["mechanism"]](row["parameters"], eps).amplification
    assert close(declared.p, row["true_p"], 1e-12)
    assert close(declared.beta, row["true_beta"], 1e-12)
    assert close(declared.q, row["true_q"], 1e-12)


@pytest.mark.parametrize("randomizer", [GRR(1.3, 5), OUE(0.7, 4), RAPPOR(2.1, 5), LocalHash(1.1, 5, 3)], ids=repr)
def test_declared_beta_is_attained(randomizer):
    log_p, beta, _ = true_parameters(randomizer.log_channel())
    assert randomizer.amplification.beta == pytest.approx(beta, rel=1e-12)
    assert math.log(randomizer.amplification.p) == pytest.approx(log_p, rel=1e-12)


def test_q_star_of_grr_is_needed_and_enough():
    """q* = 1 is the truth of GRR; anything smaller makes the three-outcome bound fall below an exact data set."""
    grr, eps = GRR(epsilon=math.log(3), d=3), math.log(2.2)
    exact = ss.delta(grr, 3, eps, bound="lower").lower
    assert exact == pytest.approx(36 / 625, rel=1e-9)
    honest = grr.amplification
    assert ss.delta(honest, 3, eps).upper >= exact
    rest = 1 - honest.r0 - honest.r1
    smaller = ss.VariationRatio(honest.p, honest.beta, honest.q, q_star=honest.omega / rest)
    assert ss.delta(smaller, 3, eps).upper == pytest.approx(22 / 625, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "l"), [(0.2, 2), (1.0, 4), (2.0, 8), (3.0, 21), (5.5, 246), (30.0, 65536), (700.0, 65536)])
def test_local_hash_range_minimises_the_variance(epsilon, l):  # noqa: E741
    assert best_range(epsilon) == l
    if epsilon < 5:
        here = LocalHash(epsilon, 50, l).variance(np.zeros(1), 1)
        for other in (l - 1, l + 1):
            if other >= 2:
                assert here <= LocalHash(epsilon, 50, other).variance(np.zeros(1), 1)


@pytest.mark.parametrize("epsilon", [5.6, 6.0, 6.381922818107865, 8.0, 9.99, 11.0])
def test_large_ranges_of_local_hash_are_prime(epsilon):
    """A composite one would cost reports of many digits and a comparison with every item, for nothing."""
    mechanism, exact = LocalHash(epsilon, 50), LocalHash(epsilon, 50, round(math.exp(epsilon) + 1))
    assert all(mechanism.l % factor for factor in range(2, math.isqrt(mechanism.l) + 1))
    assert mechanism.variance(np.zeros(1), 1) == pytest.approx(exact.variance(np.zeros(1), 1), rel=1.4e-4)


@pytest.mark.parametrize(("d", "l"), [(5, 2), (16, 3), (30, 5), (9, 7), (300, 3)])
def test_fourier_decoder_counts_what_the_direct_one_counts(d, l):  # noqa: E741
    mechanism = LocalHash(1.0, d, l)
    assert mechanism.fourier
    rng = np.random.default_rng(5)
    reports = mechanism.randomize(mechanism.domain.example(3000, rng), rng)
    base = l ** np.arange(len(mechanism.digits), -1, -1)
    cells = reports.astype(np.int64)[:, None] // base % l
    hashed = cells[:, :-1] @ mechanism.digits.astype(np.int64) % l
    direct = (hashed == cells[:, -1:]).sum(axis=0)
    assert np.array_equal(mechanism.supports(mechanism.aggregate(reports)), direct)


@pytest.mark.parametrize(("d", "l"), [(20, 4), (20, 8), (20, 9), (12, 6), (20, 10), (20, 15), (20, 5), (300, 17)])
def test_hash_family_is_uniform_and_pairwise_independent(d, l):  # noqa: E741
    """All functions of the family, all pairs of items: each difference of hashes equally often - hence collisions at 1/l."""
    mechanism = LocalHash(1.0, d, l)
    m = len(mechanism.digits)
    if mechanism.fourier:
        hashed = mechanism.hashed(np.arange(l**m)[:, None], np.arange(d)).astype(int)
        # minus[u, v] is the element that added to v gives u.
        minus = np.argsort(field(l).add, axis=0)
    else:
        # The low digits and the few items that differ in them.
        m = min(m, 4)
        a = np.stack(np.meshgrid(*[np.arange(l)] * m, indexing="ij"), axis=-1).reshape(-1, m)
        hashed = a @ mechanism.digits[-m:].astype(int) % l
        d = min(d, mechanism.base**m)
        minus = (np.arange(l)[:, None] - np.arange(l)) % l
    for x in range(min(d, 40)):
        for y in range(x):
            counts = np.bincount(minus[hashed[:, x], hashed[:, y]], minlength=l)
            assert np.all(counts == len(hashed) // l)


def test_two_users_do_not_share_a_hash_function():
    mechanism = LocalHash(1.0, 1000, 3)
    reports = mechanism.randomize(np.zeros(10_000, dtype=np.uint16), np.random.default_rng(0))
    functions = reports // 3
    assert len(np.unique(functions)) > 2000


@pytest.mark.parametrize("randomizer", [GRR(1.0, 6), RAPPOR(1.0, 6), OUE(1.0, 6)], ids=repr)
def test_count_space_and_users_agree_in_distribution(randomizer):
    """Counts of one item over 3000 runs of 40 users each way: Kolmogorov-Smirnov at a false-alarm probability of 1e-9."""
    rng = np.random.default_rng(11)
    values = np.array([0] * 25 + [3] * 15, dtype=np.uint8)
    totals = np.bincount(values, minlength=6)
    runs = 3000
    users = np.array([randomizer.aggregate(randomizer.randomize(values, rng))[[0, 1, 3]] for _ in range(runs)])
    counts = np.array([randomizer.sample_aggregate(totals, rng)[[0, 1, 3]] for _ in range(runs)])
    limit = math.sqrt(2 * math.log(2 / 1e-9) / runs)
    for column in range(3):
        grid = np.arange(42)[:, None]
        gap = np.abs((users[:, column] <= grid).mean(axis=1) - (counts[:, column] <= grid).mean(axis=1)).max()
        assert gap <= limit


def test_counts_condition_on_the_data():
    """Bin(n_v, a) + Bin(n - n_v, b), not Bin(n, mixture): the latter's variance is far larger where a report is a near-truth."""
    grr = GRR(4.0, 2)
    rng = np.random.default_rng(3)
    drawn = np.array([grr.sample_aggregate(np.array([500, 500]), rng)[0] for _ in range(4000)])
    a, b = grr.support
    assert drawn.var() == pytest.approx(500 * a * (1 - a) + 500 * b * (1 - b), rel=0.2)


CONSTRUCTORS = [
    (GRR, {"epsilon": 1.0, "d": 4}),
    (RAPPOR, {"epsilon": 1.0, "d": 4}),
    (OUE, {"epsilon": 1.0, "d": 4}),
    (LocalHash, {"epsilon": 1.0, "d": 4, "l": 3}),
    (RandomizedResponse, {"epsilon": 1.0}),
    (Laplace, {"epsilon": 1.0}),
]


@pytest.mark.parametrize(("cls", "good"), CONSTRUCTORS, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, -math.inf, 701, "1", None, True, 1 + 1j], ids=repr)
def test_bad_epsilon_is_refused(cls, good, bad):
    with pytest.raises(ValueError, match=r"epsilon must be a number in \(0, 700\]"):
        cls(**{**good, "epsilon": bad})


@pytest.mark.parametrize("cls", [GRR, RAPPOR, OUE, LocalHash])
@pytest.mark.parametrize("bad", [1, 0, -3, 2.5, 3.0, "3", None, True, math.nan], ids=repr)
def test_bad_d_is_refused(cls, bad):
    with pytest.raises(ValueError, match="d must be an integer >= 2, got"):
        cls(1.0, bad)


@pytest.mark.parametrize("bad", [1, 0, -1, 2.5, "3", 65_537, True])
def test_bad_hash_range_is_refused(bad):
    with pytest.raises(ValueError, match=r"l must be an integer in \[2, 65536\], got"):
        LocalHash(1.0, 10, bad)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 1.0, "high": 1.0}, "low must be < high"),
        ({"low": 2.0, "high": 1.0}, "low must be < high"),
        ({"low": math.nan}, "low must be a finite number"),
        ({"high": math.inf}, "high must be a finite number"),
        ({"low": -1e308, "high": 1e308}, "high - low must be finite"),
    ],
)
def test_bad_interval_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Laplace(1.0, **arguments)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 2e6, "1", None, True], ids=repr)
def test_bad_dummies_are_refused(bad):
    with pytest.raises(ValueError, match="dummies must be a number in"):
        BallsIntoBins(4, bad)


def test_numpy_integers_and_extreme_epsilons_are_fine():
    assert GRR(np.float64(1.0), np.int64(4)) == GRR(1.0, 4)
    for epsilon in (1e-9, 50, 700):
        for cls, good in CONSTRUCTORS:
            mechanism = cls(**{**good, "epsilon": epsilon})
            values = mechanism.domain.example(50, np.random.default_rng(0))
            values = mechanism.domain.validate(values)
            reports = mechanism.randomize(values, np.random.default_rng(0))
            assert np.all(np.isfinite(mechanism.estimate(mechanism.aggregate(reports), 50)))


def test_repr_shows_the_contract():
    assert repr(GRR(2.0, 5)) == "GRR(epsilon=2.0, d=5)"
    assert repr(RandomizedResponse(2.0)) == "RandomizedResponse(epsilon=2.0)"


PRINTED = [r for r in load("params") if r["mechanism"].startswith(("local hash, fixed", "Duchi"))]


@pytest.mark.parametrize("row", PRINTED, ids=lambda r: f"{r['mechanism'][:12]} {r['parameters']} {r['eps0']}")
def test_published_betas_are_those_of_the_table(row):
    """For a fixed hash function the table is exact; for Duchi in even dimensions it is not, see `Duchi`."""
    eps, given = log_formula(row["eps0"]), row["parameters"]
    mine = LocalHash(eps, given["d"], given["l"]) if "l" in given else Duchi(eps, given["d"])
    assert close(mine.published_beta, row["table_beta"], 1e-12)
    assert mine.amplification.beta <= mine.published_beta * (1 + 1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [
        Wheel(8.0, 9, 8, 2.0**-24),
        Wheel(8.0, 9, 1, 0.9),
        Collision(8.0, 9, 2),
        GRR(8.0, 9),
        Parallel((GRR(8.0, 9), OUE(2.0, 9))),
        PrivKV(8.0, 4.0, 9, 2),
        PCKVGRR(8.0, 9, 2),
    ],
    ids=repr,
)
def test_standard_errors_are_not_bold_where_everybody_agrees(mechanism):
    """300 users with one value: the stated variance is on average at least the exact one, 7 standard errors allowed for."""
    value = mechanism.domain.example(1, np.random.default_rng(0))
    values = mechanism.domain.validate(np.repeat(value, 300, axis=0))
    exact = mechanism.variance(mechanism.domain.total(values), 300)
    rng = np.random.default_rng(1)
    stated = np.array(
        [mechanism.estimated_variance(mechanism.aggregate(mechanism.randomize(values, rng)), 300) for _ in range(300)]
    )
    spread = stated.std(axis=0, ddof=1) / math.sqrt(300)
    assert np.all(stated.mean(axis=0) + 7 * spread >= exact)
