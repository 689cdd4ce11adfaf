"""Repeated runs: statistics against single runs, any number of workers, and bias where it was planted."""

from dataclasses import dataclass

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.mechanisms import GRR, Laplace
from shufflesim.protocols import BallsIntoBins

DATA = np.repeat([0, 1, 2, 3], [40, 30, 20, 10])


def test_sums_are_those_of_single_runs():
    runs = ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, seed=5, repeats=4)
    singles = [ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, seed=np.random.SeedSequence(5, spawn_key=(r,))) for r in range(4)]
    errors = np.array([s.estimate - s.truth for s in singles])
    np.testing.assert_allclose(runs.error_sum, errors.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(runs.table["mse"], (errors**2).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(runs.rmses, [s.rmse for s in singles], rtol=1e-12)
    inside = [((s.estimates["ci_low"] <= s.truth) & (s.truth <= s.estimates["ci_high"])).to_numpy() for s in singles]
    assert runs.covered.tolist() == np.sum(inside, axis=0).tolist()


@pytest.mark.parametrize("method", ["users", "counts"])
def test_any_number_of_workers_gives_the_same(method):
    one, two = (
        ss.simulate(BallsIntoBins(4, 1.5), DATA, delta=1e-6, seed=2, method=method, repeats=30, workers=w) for w in (1, 2)
    )
    for name in ("error_sum", "square_sum", "covered", "rmses"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert one.table.equals(two.table)


@pytest.mark.parametrize("protocol", [GRR(1.0, 4), BallsIntoBins(4, 1.5), Laplace(1.0, 0, 3)], ids=repr)
def test_theory_holds(protocol):
    """400 runs: z of the bias within 7 for each value, false alarm below 1e-11; the ratio's own spread is below 0.1."""
    runs = ss.simulate(protocol, DATA, delta=1e-6, seed=1, repeats=400, method="users")
    row = runs.summary.loc[0]
    assert row["largest_bias_z"] < 7
    assert abs(row["mse_ratio"] - 1) < 0.6
    assert abs(row["coverage"] - 0.95) < 0.06
    assert runs.repeats == 400


@dataclass(frozen=True)
class Biased(GRR):
    """Estimates that are 5% too large."""

    def estimate(self, aggregate, n):
        return 1.05 * super().estimate(aggregate, n)


def test_a_planted_bias_is_seen():
    runs = ss.simulate(Biased(4.0, 4), 100 * DATA // 100, delta=1e-6, seed=1, repeats=300, workers=2)
    assert runs.summary.loc[0, "largest_bias_z"] > 7


def test_picture_progress_and_bad_arguments():
    seen = []
    runs = ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, seed=1, repeats=5, progress=seen.append)
    assert seen == [1, 2, 3, 4, 5]
    assert "5 runs" in runs.plot().get_title()
    assert repr(runs) == "Repeats(GRR(epsilon=1.0, d=4), n=100, repeats=5)"
    assert "coverage" in runs._repr_html_()
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match=r"repeats must be an integer in \[1, 1000000\]"):
            ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, repeats=bad)
        with pytest.raises(ValueError, match="workers must be an integer >= 1"):
            ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, repeats=2, workers=bad)


def test_the_chunk_size_is_checked_with_repeats_too():
    with pytest.raises(ValueError, match="chunk_size must be an integer >= 1, got -4"):
        ss.simulate(GRR(1.0, 3), [0, 1], delta=0.1, repeats=2, chunk_size=-4)
