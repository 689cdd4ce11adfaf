"""Every constructor and every `randomize` against bad input: one suite for all mechanisms, present and future."""

import dataclasses
import math
import re
from functools import partial

import numpy as np
import pytest

import shufflesim as ss
from shufflesim import catalogue
from shufflesim.datasets import zipf
from shufflesim.domains import Categories, Plane
from shufflesim.mechanisms import GRR
from shufflesim.protocols import (
    BallsIntoBins,
    BiasedCoin,
    FakeUsers,
    HashedBallsIntoBins,
    InvisibilityCloak,
    MixDUMP,
    PureDUMP,
    RecursiveSum,
    SingleMessage,
    SplitAndMix,
    UniformCoins,
)

MECHANISMS = catalogue.mechanisms()
EXAMPLES = [m for cls in MECHANISMS.values() for m in cls.examples()]
FIRST = [next(cls.examples()) for cls in MECHANISMS.values()]

NUMBERS = [math.nan, math.inf, -math.inf, "1", True, 1 + 1j, [1.0], np.float64(math.nan), np.float32(math.inf)]
BUDGETS = [*NUMBERS, 0, -1, 701, None, np.float64(-0.5)]
COUNTS = [*NUMBERS, 0, -3, 2.5, 3.0, 2**70, np.int64(-3), np.float64(2.5)]
BUDGET_NAMES = ("epsilon", "epsilon1", "epsilon2")
COUNT_NAMES = ("d", "k", "l", "s", "K", "B", "dim")


def fields(good):
    return [field for field in dataclasses.fields(good) if field.init]


def bad_values():
    for good in FIRST:
        for field in fields(good):
            optional = field.default is None
            kinds = BUDGETS if field.name in BUDGET_NAMES else COUNTS if field.name in COUNT_NAMES else NUMBERS
            for bad in kinds:
                yield pytest.param(good, field.name, bad, id=f"{type(good).__name__}-{field.name}-{bad!r}")
            if not optional and field.name not in BUDGET_NAMES and field.default is dataclasses.MISSING:
                yield pytest.param(good, field.name, None, id=f"{type(good).__name__}-{field.name}-None")


@pytest.mark.parametrize(("good", "name", "bad"), list(bad_values()))
def test_a_bad_parameter_is_refused_by_name_and_value(good, name, bad):
    given = {f.name: getattr(good, f.name) for f in fields(good)}
    with pytest.raises(ValueError, match=r"must|needs") as refused:
        type(good)(**{**given, name: bad})
    text = str(refused.value)
    assert "\n" not in text
    assert name in text
    assert "got" in text
    assert "np." not in text


HALF, MINUS = np.float64(0.5), np.int64(-2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ss.Channel([[0.5, 0.5], [1.25, -0.25]]), "channel must be finite and >= 0, got -0.25 as its smallest entry"),
        (lambda: ss.Counts(np.array([3, -2])), "counts must be integers >= 0, got -2 at position 1"),
        (lambda: ss.VariationRatio(np.float64(math.nan), 0.1, 3), "p must be a number, got nan"),
        (lambda: ss.epsilon(GRR(1.0, 3), 100, np.float64(1.5)), "delta must be in (0, 1), got 1.5"),
        (lambda: ss.epsilon(GRR(1.0, 3), HALF, 0.1), "n must be an integer >= 1, got 0.5"),
        (lambda: ss.delta(GRR(1.0, 3), 100, np.float64(math.inf)), "eps must be finite numbers, got inf"),
        (lambda: ss.calibrate(lambda e: GRR(e, 3), 100, 0.1, 1.0, within=(HALF, -HALF)), "low < high, got (0.5, -0.5)"),
        (lambda: ss.categorical(np.array([7, 7])), "the domain must have at least 2 categories, got [7]"),
        (lambda: ss.categorical(np.array([7, 8]), domain=np.array([7, 9])), "must be in the domain, got 8 at position 1"),
        (lambda: Categories(3).validate(np.array([0.5, 1.0])), "got float64 such as 0.5"),
        (lambda: Plane(x=(HALF, HALF), y=(0, 1)), "got (0.5, 0.5)"),
        (lambda: ss.simulate(GRR(1.0, 3), [0, 1], delta=0.1, seed=MINUS), "seed must be an integer >= 0, got -2"),
        (lambda: zipf(10, HALF, seed=1), "got 0.5"),
    ],
)
def test_numpy_scalars_are_shown_as_plain_numbers(call, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        call()
    assert "np." not in str(refused.value)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-310, 1e-200, 1e-160, 1e-100, 1.0])
@pytest.mark.parametrize("delta", [5e-324, 1e-310, 0.25])
@pytest.mark.parametrize(
    "original",
    [
        partial(BallsIntoBins.original, d=3),
        BiasedCoin.original,
        partial(FakeUsers.original, d=3),
        partial(HashedBallsIntoBins.original, d=3),
        InvisibilityCloak.original,
        partial(MixDUMP.original, d=3),
        partial(PureDUMP.original, d=3),
        partial(RecursiveSum.original, m=1),
        SplitAndMix.original,
        UniformCoins.original,
    ],
)
def test_the_papers_calibrations_at_the_ends_are_made_or_refused(original, delta, epsilon):
    for n in (1, 2, 2000, 10**18):
        try:
            original(epsilon, delta, n)
        except ValueError as error:
            assert re.search("must .* got", str(error))  # noqa: PT017


@pytest.mark.parametrize("bad", [None, True, "1", math.nan, (1,), {}, 1j, np.array([1, 2])])
def test_a_target_that_is_no_number_is_refused(bad):
    for epsilon, delta, n, name in ((bad, 1e-6, 100, "epsilon"), (1.0, bad, 100, "delta"), (1.0, 1e-6, bad, "n")):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            SingleMessage.for_target(epsilon, delta, n, randomizer=GRR(1.0, 3))
    with pytest.raises(ValueError, match="randomizer must be a Randomizer"):
        SingleMessage.for_target(1.0, 1e-6, 100, randomizer=bad)


@pytest.mark.parametrize("good", FIRST, ids=lambda m: type(m).__name__)
def test_bad_data_are_refused_whole(good):
    for bad in good.domain.refused():
        with pytest.raises(ValueError, match="must"):
            ss.simulate(good, bad, delta=1e-6, seed=0)


@pytest.mark.parametrize("good", FIRST, ids=lambda m: type(m).__name__)
def test_integers_of_numpy_and_one_user_are_fine(good):
    given = {f.name: getattr(good, f.name) for f in fields(good)}
    typed = {k: np.int64(v) if isinstance(v, int) and not isinstance(v, bool) else v for k, v in given.items()}
    assert type(good)(**typed) == good
    data = good.domain.example(1, np.random.default_rng(0))
    result = ss.simulate(good, data, delta=1e-6, seed=0)
    assert np.all(np.isfinite(result.estimate))
    assert np.all(np.isfinite(result.estimates["stderr"]))


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_results_are_finite_repeatable_and_leave_the_data_alone(mechanism):
    """200 users of every example, extreme ones included; another seed, another result."""
    data = mechanism.domain.example(200, np.random.default_rng(1))
    before = np.array(data)
    runs = [ss.simulate(mechanism, data, delta=1e-6, seed=seed) for seed in (5, 5, 6)]
    assert np.array_equal(np.asarray(data), before, equal_nan=before.dtype.kind == "f")
    for run in runs:
        assert np.all(np.isfinite(run.estimate))
        assert np.all(run.variance >= 0)
        assert np.all(run.estimated_variance >= 0)
    assert np.array_equal(runs[0].estimate, runs[1].estimate)
    if mechanism.local_epsilon < 50:
        assert not np.array_equal(runs[0].estimate, runs[2].estimate)
    # Not n times too large, not a frequency: within ten standard errors (Chebyshev: 1% for one number, nothing for a seed).
    spread = np.sqrt(runs[0].variance) + 1e-9 * (1 + np.abs(runs[0].truth))
    assert np.mean(np.abs(runs[0].estimate - runs[0].truth) / spread) < 10


@pytest.mark.parametrize("mechanism", FIRST, ids=lambda m: type(m).__name__)
def test_reports_are_compact(mechanism):
    """No more memory than twice the declared bits, a byte's rounding for each entry aside; no Python objects."""
    values = mechanism.domain.validate(mechanism.domain.example(64, np.random.default_rng(2)))
    reports = mechanism.randomize(values, np.random.default_rng(3))
    assert reports.dtype.kind in "iufb"
    held = reports.nbytes * 8 / 64
    assert held <= 2 * mechanism.bits + 16 * (reports.size / 64)
    assert mechanism.bits > 0


@pytest.mark.parametrize("mechanism", [m for m in EXAMPLES if m.local_epsilon < 50], ids=repr)
def test_two_users_with_the_same_value_do_not_share_randomness(mechanism):
    """1,000 users with one value: if all reports were the same the noise would not average out (a hash seed used twice, say)."""
    values = mechanism.domain.validate(np.repeat(mechanism.domain.example(1, np.random.default_rng(4)), 1000, axis=0))
    reports = mechanism.randomize(values, np.random.default_rng(5)).reshape(1000, -1)
    assert len(np.unique(reports, axis=0)) > 1
