"""Errors over a grid of n and eps: equal privacy, theory against runs, any number of workers, the picture."""

from functools import partial

import numpy as np
import pytest

import shufflesim as ss
from shufflesim import plots
from shufflesim.mechanisms import GRR
from shufflesim.protocols import BallsIntoBins, FakeUsers

CANDIDATES = [GRR(1.0, 4), partial(BallsIntoBins.for_target, d=4), partial(FakeUsers.for_target, d=4)]


@pytest.fixture(scope="module")
def table():
    return ss.error_grid(CANDIDATES, [500, 4000], [0.5, 1.0], 1e-6, data=[0, 0, 1, 2, 3], repeats=30, seed=3)


def test_equal_privacy_and_errors_as_expected(table):
    """30 runs of 4 counts at each point: mean squared errors within a factor of 2.5 of theory."""
    assert table.shape[0] == 12
    known = table.dropna()
    assert len(known) >= 10
    assert (known["reached"] <= known["epsilon"]).all()
    ratio = (known["rmse"] / known["expected_rmse"]) ** 2
    assert ratio.between(0.4, 2.5).all()
    for _, part in known.groupby(["candidate", "n"]):
        assert part.sort_values("epsilon")["expected_rmse"].is_monotonic_decreasing


def test_any_number_of_workers_gives_the_same(table):
    again = ss.error_grid(CANDIDATES, [500, 4000], [0.5, 1.0], 1e-6, data=[0, 0, 1, 2, 3], repeats=30, seed=3, workers=2)
    assert table.equals(again)


def test_what_is_out_of_reach_is_left_empty():
    found = ss.error_grid([partial(BallsIntoBins.for_target, d=2**20)], [1], [1e-3], 1e-9, repeats=1, seed=1)
    assert found[["reached", "rmse"]].isna().all(axis=None)
    with pytest.raises(ValueError, match="table must be a result of error_grid"):
        plots.errors(found)


def test_the_picture(table):
    figure = plots.errors(table, labels=["a", "b", "c"])
    assert [ax.get_title() for ax in figure.axes] == ["central eps = 0.5", "central eps = 1", "n = 500", "n = 4,000"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]
    one = plots.errors(table[(table["n"] == 500) & (table["epsilon"] == 1.0)])
    assert len(one.axes) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [10], [1.0], 1e-6), "candidates must be a list"),
        (([GRR(1.0, 4)], [], [1.0], 1e-6), "users and epsilons must hold at least one number"),
        (([GRR(1.0, 4)], [0], [1.0], 1e-6), "n must be an integer >= 1"),
        (([GRR(1.0, 4)], [10], [0], 1e-6), "epsilon must be a number > 0"),
        (([GRR(1.0, 4)], [10], [np.nan], 1e-6), "epsilon must be a number > 0"),
        (([GRR(1.0, 4)], [10**15], [1.0], 1e-6), r"users must be an integer in \[1, 100000000\], got 10+$"),
        (([GRR(1.0, 4)], [10], [1.0], 2), r"delta must be in \(0, 1\)"),
    ],
)
def test_bad_grids_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.error_grid(*arguments)


@pytest.mark.parametrize("labels", [["a"], ["a", "b", "c", "d"], "abc", [1, 2, 3], 3])
def test_labels_are_one_text_a_candidate(table, labels):
    with pytest.raises(ValueError, match="labels must be 3 texts, one a candidate, got "):
        plots.errors(table, labels=labels)


def test_a_target_beyond_every_local_budget():
    found = ss.error_grid([GRR(1.0, 4)], [10], [701.0], 1e-6, repeats=1, seed=1)
    assert 690 < found["reached"].item() <= 701


@pytest.mark.parametrize(("users", "epsilons"), [(10, [1.0]), ([10], 1.0)])
def test_a_number_is_no_grid(users, epsilons):
    with pytest.raises(ValueError, match="users and epsilons must hold at least one number"):
        ss.error_grid([GRR(1.0, 3)], users, epsilons, 1e-6)
