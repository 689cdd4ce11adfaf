"""From a target to a parameter: never above the target, as close as stated, and the monotonicity that the search relies on."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.mechanisms import GRR, OUE, RAPPOR, HierarchicalGRR, Laplace, LocalHash, MetricLaplace, RandomizedResponse
from shufflesim.protocols import BallsIntoBins

FAMILIES = {
    "rr": RandomizedResponse,
    "grr": lambda e: GRR(e, 20),
    "rappor": lambda e: RAPPOR(e, 20),
    "oue": lambda e: OUE(e, 20),
    "local hash": lambda e: LocalHash(e, 100, 7),
    "laplace": Laplace,
    "metric": lambda e: MetricLaplace(e, 0.0, 2.0),
    "hierarchical": lambda e: HierarchicalGRR(e, 16),
    "any": lambda e: ss.VariationRatio.ldp(e, math.tanh(e / 2)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_central_eps_rises_with_the_local_budget(name):
    budgets = np.geomspace(0.05, 12, 9)
    for n, delta in ((50, 1e-3), (10**5, 1e-7)):
        found = [ss.epsilon(FAMILIES[name](e), n, delta) for e in budgets]
        assert all(a.lower <= b.upper for a, b in pairwise(found))


def test_central_eps_falls_with_users_and_dummies():
    grr = GRR(2.0, 20)
    users = [ss.epsilon(grr, n, 1e-6) for n in (1, 2, 3, 5, 10, 100, 1000, 1001, 10**5, 10**9)]
    assert all(a.upper >= b.lower for a, b in pairwise(users))
    dummies = [ss.epsilon(BallsIntoBins(16, k), 1000, 1e-6) for k in (0.2, 0.5, 0.9, 1, 1.5, 2, 3, 10)]
    assert all(a.upper >= b.lower for a, b in pairwise(dummies))


@pytest.mark.parametrize("name", ["grr", "laplace", "any"])
@pytest.mark.parametrize(("n", "delta", "target"), [(1000, 1e-4, 0.4), (10**6, 1e-8, 0.05), (3, 0.2, 1.0)])
def test_largest_budget(name, n, delta, target):
    found = ss.calibrate(FAMILIES[name], n, delta, target)
    assert found.epsilon.upper <= target
    assert found.epsilon == ss.epsilon(found.x, n, delta)
    further = ss.epsilon(FAMILIES[name](found.parameter * (1 + 1e-5)), n, delta)
    assert further.upper > target * (1 - 1e-6)


def test_fewest_dummies_and_smallest_crowd():
    found = ss.calibrate(lambda k: BallsIntoBins(16, k), 1000, 1e-8, 0.3, find="smallest", within=(1, 1000))
    assert isinstance(found.parameter, int)
    assert found.epsilon.upper <= 0.3 < ss.epsilon(BallsIntoBins(16, found.parameter - 1), 1000, 1e-8).upper
    real = ss.calibrate(lambda k: BallsIntoBins(16, k), 1000, 1e-8, 0.3, find="smallest", within=(0.1, 1000.0))
    assert found.parameter - 1 < real.parameter <= found.parameter
    crowd = ss.calibrate(GRR(2.0, 20), None, 1e-8, 0.3)
    assert crowd.n == crowd.parameter
    assert crowd.epsilon.upper <= 0.3 < ss.epsilon(GRR(2.0, 20), crowd.n - 1, 1e-8).upper
    assert ss.calibrate(GRR(0.2, 20), None, 1e-8, 0.3).n == 1
    more = ss.calibrate(GRR(2.0, 20), None, 1e-8, 0.3, dropout=0.5)
    assert 1.8 * crowd.n < more.n < 2.2 * crowd.n


def test_the_whole_range_may_do():
    assert ss.calibrate(RandomizedResponse, 10**6, 1e-6, 0.5, within=(0.1, 0.4)).parameter == 0.4
    assert ss.calibrate(RandomizedResponse, 100, 1e-6, 700.0).parameter == 700.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((RandomizedResponse, 100, 1e-6, 0.0), "epsilon must be a number > 0"),
        ((RandomizedResponse, 100, 1e-6, -1.0), "epsilon must be a number > 0"),
        ((RandomizedResponse, 100, 0.0, 1.0), "delta must be in"),
        ((RandomizedResponse, 0, 1e-6, 1.0), "n must be an integer >= 1, got 0"),
        ((GRR(1.0, 3), 100, 1e-6, 1.0), "factory must be callable"),
        ((RandomizedResponse, None, 1e-6, 1.0), "factory must make a Randomizer, Protocol or VariationRatio, got"),
        (
            (lambda e: None, 100, 1e-6, 1.0),
            "factory must make a Randomizer, Protocol or VariationRatio, got None from 0.999999999",
        ),
    ],
)
def test_bad_targets_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.calibrate(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within": (0.5, 0.1)}, "low < high"),
        ({"within": 3}, "within must be two numbers"),
        ({"within": (0.1, math.inf)}, "within must be two finite numbers"),
        (
            {"within": (2.0, 3.0)},
            r"must be reached at the low end of \[2.0, 3.0\], got 0.01; parameter=2.0 gives eps <= ",
        ),
        ({"find": "large"}, "did you mean 'largest'"),
    ],
)
def test_bad_searches_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ss.calibrate(RandomizedResponse, 100, 1e-6, 0.01, **options)
    with pytest.raises(ValueError, match="must be left out for n=None"):
        ss.calibrate(GRR(1.0, 3), None, 1e-6, 0.01, within=(1, 2))


def test_curves_hold_what_single_questions_give():
    budgets = [0.5, 1.0, 2.0]
    curve = ss.bound_curve([GRR(e, 10) for e in budgets], 1000, 1e-6, bounds=["sound", "lower", "efmrtt19"])
    assert curve["bound"].tolist() == ["sound", "lower", "efmrtt19"] * 3
    for row in curve.itertuples():
        assert row.epsilon == float(ss.epsilon(GRR(budgets[row.point], 10), 1000, 1e-6, bound=row.bound))
        assert row.amplification_ratio == pytest.approx(row.local_epsilon / row.epsilon)
    both = ss.bound_curve(GRR(1.0, 10), [10, 100], [1e-3, 1e-4])
    assert both.groupby("point").size().tolist() == [17, 17]
    assert both.groupby("point")["delta"].first().tolist() == [1e-3, 1e-4]
    assert "blanket" not in set(ss.bound_curve(ss.VariationRatio(3, 0.4, 3), 10, 0.1, bounds=["sound", "blanket"])["bound"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([GRR(1.0, 3)] * 2, [1, 2, 3], 1e-6), "lengths \\[2, 3\\]"),
        (([], 10, 1e-6), "lengths \\[0\\]"),
        (("grr", 10, 1e-6), "x must be"),
    ],
)
def test_bad_curves_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.bound_curve(*arguments)
    with pytest.raises(ValueError, match="did you mean 'sound'"):
        ss.bound_curve(GRR(1.0, 3), 10, 1e-6, bounds=["sond"])
    for bounds in ([], 3, "sound1", [None]):
        with pytest.raises(ValueError, match="bounds must hold"):
            ss.bound_curve(GRR(1.0, 3), 10, 1e-6, bounds=bounds)


def test_picture_of_amplification():
    ax = ss.plots.amplification([GRR(e, 10) for e in (0.5, 1.0)], 1000, 1e-6, bounds=["sound", "published", "lower"])
    assert ax.get_xlabel() == "local eps"
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert list(lines) == [
        "sound (upper bound on eps)",
        "published (upper bound on eps, not proved)",
        "lower (lower bound on eps)",
    ]
    assert [line.get_linestyle() for line in lines.values()] == ["-", ":", "--"]
    np.testing.assert_allclose(lines["sound (upper bound on eps)"].get_xdata(), [0.5, 1.0])
    assert ss.plots.amplification(GRR(1.0, 10), [10, 1000], 1e-6, bounds=["sound"], ax=ax) is ax
    for x, n in ((GRR(1.0, 3), 10), ([GRR(1.0, 3)], [10])):
        with pytest.raises(ValueError, match="exactly one of x and n must be a list, tuple or array"):
            ss.plots.amplification(x, n, 1e-6)
    with pytest.raises(ValueError, match="x must have a finite local eps"):
        ss.plots.amplification([BallsIntoBins(16, 1), BallsIntoBins(16, 2)], 100, 1e-3, bounds=["sound"])
    unsorted = ss.plots.amplification([GRR(e, 10) for e in (1.0, 0.5)], 100, 1e-3, bounds=(b for b in ("sound",)))
    np.testing.assert_allclose(unsorted.get_lines()[0].get_xdata(), [0.5, 1.0])


@dataclass(frozen=True)
class Held(ss.ChannelRandomizer):
    """A class of one's own with an array in it."""

    epsilon: float
    rows: np.ndarray

    def channel(self):
        return self.rows


def test_a_grid_is_kept_in_a_folder_and_shared_by_processes(tmp_path):
    made = [Held(1.0, np.array([[0.6, 0.4], [0.4, 0.6]])), GRR(2.0, 7), ss.VariationRatio(math.inf, 1.0, 4.0)]
    plain = ss.bound_curve(made, 50, 1e-3)
    seen: list[int] = []
    kept = ss.bound_curve(made, 50, 1e-3, folder=tmp_path, workers=2, progress=seen.append)
    assert kept.equals(plain)
    assert seen == [0, 1, 2, 3]
    again: list[int] = []
    assert ss.bound_curve(made[::-1], 50, 1e-3, folder=tmp_path, progress=again.append)["point"].nunique() == 3
    assert again == [3]
    # Other contents, other numbers and other bounds are other points.
    other = Held(1.0, np.array([[0.6, 0.4], [0.4, 0.6 - 1e-16]]))
    for x, n, delta, bounds in ((other, 50, 1e-3, None), (made[1], 51, 1e-3, None), (made[1], 50, 1e-3, ["sound"])):
        again.clear()
        ss.bound_curve(x, n, delta, bounds=bounds, folder=tmp_path, progress=again.append)
        assert again == [0, 1]


def test_what_cannot_be_kept_or_sent_is_refused(tmp_path):
    learned = ss.Sampled(2.0, 2, sampler=lambda codes, rng: codes, likelihood=lambda code, reports: -np.abs(reports - code))
    with pytest.raises(ValueError, match="what is kept must be made of numbers, texts, arrays and dataclasses of them, got <"):
        ss.bound_curve(learned, 10, 1e-3, folder=tmp_path)
    with pytest.raises(ValueError, match="workers must be an integer >= 1, got 0"):
        ss.bound_curve(GRR(1.0, 3), 10, 1e-3, workers=0)
