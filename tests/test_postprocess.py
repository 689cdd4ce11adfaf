"""Post-processing by name, and comparisons: against their definitions, by brute force."""

from functools import partial

import numpy as np
import pytest
from scipy import optimize

import shufflesim as ss
from shufflesim import Plane, postprocess
from shufflesim.domains import Categories, Sets
from shufflesim.mechanisms import (
    GRR,
    OUE,
    RAPPOR,
    Duchi,
    HadamardResponse,
    HierarchicalGRR,
    Laplace,
    LocalHash,
    Piecewise,
    PlanarLaplace,
    PrivSet,
    PrivUnit,
)
from shufflesim.protocols import BallsIntoBins

SAMPLES = [
    np.array([-2.0, 6.0, 8.0]),
    np.array([-1.0, -2.0]),
    np.array([3.0, 3.0, 3.0, 3.0]),
    np.array([1e12, -1e12, 5.0]),
    np.array([0.0, 0.0, 0.0]),
    np.random.default_rng(0).normal(2, 10, 50),
]


@pytest.mark.parametrize("estimate", SAMPLES, ids=lambda e: f"{e[:3]}")
@pytest.mark.parametrize("n", [1, 10, 1000])
def test_the_projection_is_the_nearest_point(estimate, n):
    found = postprocess.simplex(estimate, n)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(n, rel=1e-9)
    # Optimality (variational inequality): no vertex of the simplex lies on the far side.
    scale = 1 + np.abs(estimate).max()
    for k in range(estimate.size):
        vertex = np.zeros(estimate.size)
        vertex[k] = n
        assert (estimate - found) @ (vertex - found) <= 1e-9 * scale * n


@pytest.mark.parametrize("estimate", SAMPLES, ids=lambda e: f"{e[:3]}")
def test_normalised_counts_add_up_and_keep_their_proportions(estimate):
    found = postprocess.normalise(estimate, 100)
    assert found.sum() == pytest.approx(100)
    positive = np.maximum(estimate, 0)
    if positive.sum() > 0:
        assert found == pytest.approx(100 * positive / positive.sum())
    assert postprocess.clip(estimate, 100).tolist() == [min(max(x, 0), 100) for x in estimate]


def test_norm_sub_is_the_projection():
    """The shift t of Norm-Sub solves sum max(0, x - t) = n; found here by bisection."""
    estimate = SAMPLES[-1]
    shift = optimize.brentq(lambda t: np.maximum(estimate - t, 0).sum() - 100, -100, 100)
    assert postprocess.METHODS["norm-sub"](estimate, 100) == pytest.approx(np.maximum(estimate - shift, 0))


def test_maximum_likelihood_maximises_the_likelihood():
    law, histogram = GRR(1.0, 4).channel(), np.array([50, 30, 15, 5])
    found = postprocess.maximum_likelihood(histogram, law, tolerance=1e-10)
    assert found.sum() == pytest.approx(100)

    def loss(shares):
        c = np.abs(shares) / np.abs(shares).sum()
        return -histogram @ np.log(c @ law)

    best = optimize.minimize(
        loss, np.full(4, 0.25), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10_000}
    )
    assert loss(found) <= best.fun + 1e-8
    # Where the unbiased estimate is inside, it is the maximum.
    assert postprocess.maximum_likelihood([70, 30], [[0.75, 0.25], [0.25, 0.75]], tolerance=1e-12) == pytest.approx(
        [90, 10], abs=1e-3
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: postprocess.clip([], 1), "counts must be a vector of finite numbers"),
        (lambda: postprocess.clip([np.nan], 1), "counts must be a vector of finite numbers"),
        (lambda: postprocess.simplex(["a"], 1), "counts must be a vector of finite numbers"),
        (lambda: postprocess.simplex([1.0], 0), "n must be an integer >= 1, got 0"),
        (lambda: postprocess.normalise([[1.0]], 1), "counts must be a vector of finite numbers"),
        (
            lambda: postprocess.maximum_likelihood([1, 2], [[0.5, 0.5, 0.0]]),
            "law must be a matrix of numbers",
        ),
        (lambda: postprocess.maximum_likelihood([1, 1], np.empty((0, 2))), "law must be a matrix of numbers"),
        (lambda: postprocess.maximum_likelihood([1, 1], [["a", "b"]]), "law must be a matrix of numbers"),
        (lambda: postprocess.maximum_likelihood([1e308, 1e308], [[0.75, 0.25], [0.25, 0.75]]), "at most 1e[+]18 users"),
        (lambda: postprocess.maximum_likelihood([1, -2], [[0.5, 0.5]]), "must be non-negative"),
        (lambda: postprocess.maximum_likelihood([0, 0], [[0.5, 0.5]]), "must be non-negative, the histogram not all 0"),
        (lambda: postprocess.maximum_likelihood([1, 2], [[1.0, 0.0]]), "some input can produce"),
        (lambda: postprocess.maximum_likelihood([7, 3], [[0.6, 0.4], [0.4, 0.6]], steps=1), "steps must be enough"),
        (lambda: postprocess.maximum_likelihood([7, 3], [[0.6, 0.4], [0.4, 0.6]], tolerance=0), "tolerance must be"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_simulation_is_never_processed_unless_asked():
    result = ss.simulate(GRR(0.3, 30), [0, 1, 2] * 100, delta=1e-6, seed=0)
    assert result.estimates["estimate"].min() < 0
    for method in ("clip", "normalise", "simplex", "norm-sub", "maximum-likelihood"):
        table = result.postprocessed(method)
        assert table["postprocessed"].min() >= 0
        assert table["estimate"].tolist() == result.estimates["estimate"].tolist()
    with pytest.raises(ValueError, match="method must be one of clip"):
        result.postprocessed("magic")
    with pytest.raises(ValueError, match="a protocol whose aggregate counts outcomes"):
        ss.simulate(RAPPOR(1.0, 4), [0, 1], delta=1e-6, seed=0).postprocessed("maximum-likelihood")
    with pytest.raises(ValueError, match="counts of one category per user"):
        ss.simulate(Laplace(1.0), [0.5, 1.0], delta=1e-6, seed=0).postprocessed("clip")


@pytest.mark.parametrize("mechanism", [GRR(1.0, 60), HadamardResponse(1.0, 60), LocalHash(1.0, 60, 3)], ids=repr)
def test_maximum_likelihood_of_a_sparse_histogram_converges(mechanism):
    """Most counts are 0 at the maximum, where plain steps take thousands of rounds; the error is below the unbiased one's."""
    data = np.repeat(np.arange(60), [3000, 1500, 700, 300] + [0] * 56)
    result = ss.simulate(mechanism, data, delta=1e-6, seed=5)
    table = result.postprocessed("maximum-likelihood")
    law = mechanism.histogram_law()
    found = table["postprocessed"].to_numpy()
    seen = result.aggregate > 0
    growth = law[:, seen] @ (result.aggregate[seen] / (found @ law[:, seen]))
    assert growth.max() <= 1 + 2e-6
    assert np.mean((found - table["truth"]) ** 2) < 0.6 * np.mean((table["estimate"] - table["truth"]) ** 2)


def test_comparison_ranks_at_equal_central_privacy():
    candidates = [GRR(1.0, 200), OUE(1.0, 200), LocalHash(1.0, 200)]
    table = ss.compare(candidates, 100_000, 1e-8, 0.05)
    assert table["rmse"].is_monotonic_increasing
    assert table["relative_rmse"].iloc[0] == 1
    for row in table.to_dict("records"):
        assert 0.05 * (1 - 1e-4) <= row["epsilon"] <= 0.05
    grr = table[table["protocol"].str.startswith("GRR")].iloc[0]
    one = GRR(grr["local_epsilon"], 200)
    total = np.full(200, 500.0)
    assert grr["rmse"] == pytest.approx(np.sqrt(one.variance(total, 100_000).mean()))
    ax = ss.plots.comparison(table)
    assert [line.get_ydata()[0] for line in ax.get_lines()] == table["rmse"].tolist()


def test_central_error_of_sets_and_at_the_ends():
    """Sets that hold all codes but one are a category; sets of all codes say nothing."""
    assert (
        ss.central_error(Sets(4, 3), 1.0, 10) == ss.central_error(Sets(4, 1), 1.0, 10) == ss.central_error(Categories(4), 1.0, 10)
    )
    assert ss.central_error(Sets(4, 4), 1.0, 10) == 0
    assert ss.central_error(Categories(4), 5e-324, 10) == np.inf
    assert ss.central_error(Categories(4), 1e308, 10) == 0
    with pytest.raises(ValueError, match="n must be an integer >= 1, got 0"):
        ss.central_error(Categories(4), 1.0, 0)
    with pytest.raises(ValueError, match="domain must be a Domain, got 4"):
        ss.central_error(4, 1.0, 10)


def test_comparison_refuses_what_is_no_candidate_target_or_data():
    def compare(*candidates, epsilon=0.5, n=100, **more):
        return ss.compare(candidates or [GRR(1.0, 4)], n, 1e-6, epsilon, **more)

    for bad in ("1", None, True, [1.0], np.array([1.0, 2.0])):
        with pytest.raises(ValueError, match="epsilon must be"):
            compare(lambda *_: GRR(0.1, 4), epsilon=bad)
    with pytest.raises(ValueError, match="epsilon must be a number > 0"):
        compare(epsilon="1")
    with pytest.raises(ValueError, match=r"candidates must make a protocol from .*, got None from"):
        compare(lambda *_: None)
    with pytest.raises(ValueError, match=r"central eps of at most 0.5, got inf of BallsIntoBins\(d=4, dummies=0.1\)"):
        compare(lambda *_: BallsIntoBins(4, 0.1))
    assert compare(lambda *_: GRR(0.1, 4))["protocol"].tolist() == ["GRR(epsilon=0.1, d=4)"]
    for data in (5, iter([0, 1]), ss.Counts([5, 5, 5, 5])):
        with pytest.raises(ValueError, match="data must be"):
            compare(lambda *_: GRR(0.1, 4), n=None, data=data)
    with pytest.raises(ValueError, match="progress must be callable, got 1"):
        compare(progress=1)


def test_comparison_without_a_target_takes_the_smallest_as_it_is():
    table = ss.compare([GRR(1.0, 4), GRR(0.5, 4)], 1000, 1e-6)
    smallest = float(ss.epsilon(GRR(0.5, 4), 1000, 1e-6))
    assert table["epsilon"].max() <= smallest
    assert table["local_epsilon"].tolist() == pytest.approx([0.5, 0.5], rel=1e-4)


def test_comparison_on_data_runs_every_candidate():
    data = [0, 1, 2, 3] * 500
    table = ss.compare([GRR(1.0, 4), RAPPOR(1.0, 4)], None, 1e-6, 0.5, data=data, seed=1)
    assert np.all(table["observed_rmse"] < 4 * table["rmse"])
    again = ss.compare([GRR(1.0, 4), RAPPOR(1.0, 4)], 2000, 1e-6, 0.5, data=data, seed=1)
    assert table.equals(again)


def test_a_budget_per_unit_of_length_can_be_compared():
    noise = PlanarLaplace(1.0, Plane(x=(0, 200), y=(0, 200)))
    table = ss.compare([noise], 1000, 1e-6, 0.5)
    assert table["epsilon"].max() <= 0.5
    assert table["local_epsilon"].iloc[0] > 0.5


def test_best_blocks_are_chosen_anew():
    assert HadamardResponse(4.0, 100, B=None).with_epsilon(1.0) == HadamardResponse(1.0, 100, B=None)
    assert HadamardResponse(1.0, 100, K=256, B=2).with_epsilon(4.0) == HadamardResponse(4.0, 100, K=256, B=2)


@pytest.mark.parametrize(
    "pair",
    [
        (Duchi(1.0, 1, 0, 10), Piecewise(1.0, 0, 1)),
        (PrivUnit(1.0, 5), Duchi(1.0, 5)),
        (PrivSet(1.0, 10, 2), PrivSet(1.0, 10, 5)),
        (GRR(1.0, 10), PrivSet(1.0, 10, 5)),
    ],
    ids=repr,
)
def test_different_questions_are_not_compared(pair):
    with pytest.raises(ValueError, match="candidates must have one domain"):
        ss.compare(list(pair), 1000, 1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 10, 1e-6), "candidates must be a list of at least one randomizer or protocol"),
        ((GRR(1.0, 4), 10, 1e-6), "candidates must be a list of at least one randomizer or protocol"),
        (([3], 10, 1e-6), "candidates must be randomizers, protocols or callables that make one, got 3"),
        (([GRR(1.0, 4), GRR(1.0, 5)], 10, 1e-6), "candidates must have one domain"),
        (([GRR(1.0, 4), Laplace(1.0)], 10, 1e-6), "candidates must have one domain"),
        (([GRR(1.0, 4)], None, 1e-6), "n must be given where there are no data"),
        (([GRR(1.0, 4)], 10, 0), r"delta must be in \(0, 1\)"),
        (([GRR(1.0, 4)], 10, 1e-6, -1), "epsilon must be a number > 0"),
        (([partial(BallsIntoBins.for_target, d=4)], 10, 1e-6), "epsilon must be given where all candidates are callables"),
        (
            ([BallsIntoBins.for_target], 10, 1e-6),
            r"callables must take \(epsilon, delta, n\), got <bound",
        ),
    ],
    ids=lambda v: str(v).partition(" at 0x")[0][:30],
)
def test_bad_comparisons_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.compare(*arguments)
    with pytest.raises(ValueError, match="n must be the number of data, 2, or None, got 3"):
        ss.compare([HierarchicalGRR(1.0, 4)], 3, 1e-6, data=[0, 1])
