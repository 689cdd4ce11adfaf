"""Randomizers of key-value pairs: exact parameters, grouped laws against enumeration, estimators, bad input."""

import math

import numpy as np
import pytest

import shufflesim as ss
from shufflesim import results
from shufflesim.empirical.law import true_parameters
from shufflesim.mechanisms import PCKVGRR, PrivKV

from .oracles import close, log_formula
from .test_set_valued import assert_declared, assert_groups_agree, row_id, rows

TINY = [PrivKV(0.25, 1.75, 2, 1), PrivKV(2.0, 0.4, 3, 1), PrivKV(1.0, 1.0, 2, 2), PrivKV(2.2, 0.5, 3, 2), PrivKV(0.3, 3.0, 1, 1)]
TINY += [PCKVGRR(1.3, 1, 1), PCKVGRR(1.3, 2, 1), PCKVGRR(0.5, 2, 2), PCKVGRR(3.0, 3, 1)]


@pytest.mark.parametrize("row", rows("PrivKV (exactly s keys)"), ids=row_id)
def test_priv_kv_declares_the_true_parameters(row):
    given = row["parameters"]
    budgets = [math.log(eval_fraction(given[f"e^eps{i}"])) if f"e^eps{i}" in given else float(given[f"eps{i}"]) for i in (1, 2)]
    mechanism = PrivKV(*budgets, given["d"], given["s"])
    assert_declared(mechanism.amplification, row)
    assert close(math.exp(mechanism.epsilon), row["true_p"], 1e-12)
    assert close(mechanism.published_beta, row["table_beta"], 1e-12)


def eval_fraction(text):
    over, _, under = text.partition("/")
    return float(over) / float(under or 1)


@pytest.mark.parametrize("row", rows("PCKV-GRR (original padding), table read with d=d' (padded)"), ids=row_id)
def test_pckv_declares_the_true_parameters_in_padded_keys(row):
    padded, s = row["parameters"]["d"], row["parameters"]["s"]
    assert_declared(PCKVGRR(log_formula(row["eps0"]), padded - s, s).amplification, row)


@pytest.mark.parametrize("row", rows("PCKV-GRR (original padding: d'=d+s keys), table read with d=real keys"), ids=row_id)
def test_pckv_declares_the_true_parameters_in_real_keys(row):
    mechanism = PCKVGRR(log_formula(row["eps0"]), row["parameters"]["d_real"], row["parameters"]["s"])
    assert_declared(mechanism.amplification, row)
    assert close(mechanism.published_beta, row["table_beta"], 1e-12)


@pytest.mark.parametrize("row", rows("PCKV-GRR without dummy keys (|S|=s exactly, domain d)"), ids=row_id)
def test_the_published_value_of_pckv_is_that_without_dummies(row):
    mechanism = PCKVGRR(log_formula(row["eps0"]), row["parameters"]["d"], row["parameters"]["s"])
    assert close(mechanism.published_beta, row["true_beta"], 1e-12)


@pytest.mark.parametrize("mechanism", TINY, ids=repr)
def test_declaration_and_groups_are_those_of_the_law(mechanism):
    log_p, beta, _ = true_parameters(mechanism.log_channel())
    assert mechanism.amplification.beta == pytest.approx(beta, rel=1e-12)
    assert mechanism.local_epsilon == pytest.approx(log_p, rel=1e-12)
    # A value 0 is a mixture of 1 and -1: never worse, and left out of the many triples.
    assert_groups_agree(mechanism, kept=(mechanism.inputs()[:, :, 1] != 0).all(axis=1))


@pytest.mark.parametrize("mechanism", TINY, ids=repr)
def test_estimates_and_variances_follow_from_the_law(mechanism):
    """Mean and variance of one report's estimate under each row of the law, without any sampling."""
    law, width = mechanism.channel(), mechanism.channel().shape[1]
    single = np.array([mechanism.estimate(np.eye(width)[y], 1) for y in range(width)])
    for value, row in zip(mechanism.inputs(), law, strict=True):
        total = mechanism.domain.total(mechanism.domain.validate(value[None]))
        mean = row @ single
        assert mean == pytest.approx(mechanism.domain.truth(total, 1), abs=1e-9)
        assert row @ single**2 - mean**2 == pytest.approx(mechanism.variance(total, 1), abs=1e-9)


def test_values_inside_are_mixtures_of_signs():
    """One user with value 0.5 on key 1: counts of 400,000 reports, each a binomial at a false-alarm probability below 1e-9."""
    draws = 400_000
    for mechanism in (PrivKV(1.0, 1.0, 3, 1), PCKVGRR(1.0, 3, 1)):
        values = mechanism.domain.validate(np.repeat([[[1, 0.5]]], draws, axis=0))
        counts = mechanism.aggregate(mechanism.randomize(values, np.random.default_rng(2)))
        held = mechanism.inputs().reshape(-1, 2).tolist()
        law = mechanism.channel()
        expected = 0.75 * law[held.index([1, 1])] + 0.25 * law[held.index([1, -1])]
        assert np.all(np.abs(counts - draws * expected) <= 7 * np.sqrt(draws * expected * (1 - expected)))


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 5.0, 60.0, 699.0])
def test_all_budgets(epsilon):
    for mechanism in (PrivKV(epsilon, epsilon, 1000, 40), PrivKV(epsilon, 1.0, 50, 5), PCKVGRR(epsilon, 1000, 40)):
        values = mechanism.domain.validate(mechanism.domain.example(60, np.random.default_rng(0)))
        aggregate = mechanism.aggregate(mechanism.randomize(values, np.random.default_rng(1)))
        assert np.all(np.isfinite(mechanism.estimate(aggregate, 60)))
        assert np.all(mechanism.variance(mechanism.domain.total(values), 60) >= 0)
        assert mechanism.amplification.local_epsilon == pytest.approx(mechanism.local_epsilon, rel=1e-6)


def test_users_and_sums_have_errors_and_a_picture_of_their_own(monkeypatch):
    monkeypatch.setattr(results, "PLOTTED", 6)
    mechanism = PrivKV(3.0, 2.0, 4, 1)
    held = [[[3, -1.0]]] * 500 + [[[1, 0.5]]] * 300 + [[[0, 1.0]]] * 200
    result = ss.simulate(mechanism, held, delta=1e-6, seed=3)
    off, variance = result.estimate - result.truth, result.variance
    for row, part in zip(result.errors.to_dict("records"), (slice(0, 4), slice(4, 8)), strict=True):
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean(off[part] ** 2)))
        assert row["expected_rmse"] == pytest.approx(np.sqrt(np.mean(variance[part])))
    assert result.errors["kind"].tolist() == ["users", "sums"]
    assert result.rmse**2 == pytest.approx(np.mean(result.errors["rmse"] ** 2))
    ax = result.plot()
    assert [text.get_text() for text in ax.get_xticklabels()] == ["users 3", "users 1", "users 0", "sum 3", "sum 1", "sum 0"]
    assert [bar.get_height() for bar in ax.patches] == [500, 300, 200, -500, 150, 200]
    assert ax.get_ylabel() == "users and sums"
    assert "3 most frequent of 4 values" in ax.get_title()


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 701, "1", None, True], ids=repr)
def test_bad_budgets_are_refused(bad):
    for name, call in (
        ("epsilon1", lambda: PrivKV(bad, 1.0, 3, 1)),
        ("epsilon2", lambda: PrivKV(1.0, bad, 3, 1)),
        ("epsilon", lambda: PCKVGRR(bad, 3, 1)),
    ):
        with pytest.raises(ValueError, match=rf"{name} must be a number in \(0, 700\]"):
            call()


def test_a_budget_beyond_the_limit_is_refused():
    with pytest.raises(ValueError, match=r"local budget of epsilon1 and epsilon2 must be at most 700, got 700\.693"):
        PrivKV(700.0, 700.0, 3, 1)


@pytest.mark.parametrize(
    ("d", "s", "name"), [(0, 1, "d"), (2.5, 1, "d"), (3, 0, "s"), (3, 4, "s"), (3, True, "s"), (3, "1", "s")]
)
def test_bad_sizes_are_refused(d, s, name):
    for call in (lambda: PrivKV(1.0, 1.0, d, s), lambda: PCKVGRR(1.0, d, s)):
        with pytest.raises(ValueError, match=f"{name} must be an integer"):
            call()


@pytest.mark.parametrize("mechanism", [PrivKV(1.0, 0.25, 9, 2), PrivKV(0.1, 3.0, 9, 2), PrivKV(1.0, 0.5, 2, 2)], ids=repr)
def test_another_budget_keeps_the_split_and_is_met_from_below(mechanism):
    for target in (1e-6, 0.7, 9.0, 300.0):
        other = mechanism.with_epsilon(target)
        assert target * (1 - 1e-12) <= other.epsilon <= target
        assert other.epsilon1 / other.epsilon2 == pytest.approx(mechanism.epsilon1 / mechanism.epsilon2, rel=1e-12)
