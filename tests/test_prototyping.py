"""Randomizers from a matrix, or from a sampler with a likelihood: simulated, bounded, checked like any other."""

import importlib.util
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.bounds.enumerated import declaration_of, neutral_ratio
from shufflesim.empirical.law import true_parameters
from shufflesim.mechanisms import GRR, RAPPOR, HierarchicalGRR, LocalHash

from .exact import Shuffled

SMALL = [[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]]


@pytest.mark.parametrize("known", [GRR(1.3, 4), RAPPOR(1.0, 3), LocalHash(1.0, 4, 3)], ids=repr)
def test_a_matrix_declares_what_its_randomizer_declares(known):
    mine = ss.Channel(known.channel())
    for name in ("p", "beta", "q", "neutral_q"):
        assert getattr(mine.amplification, name) == pytest.approx(getattr(known.amplification, name), rel=1e-8)
    # All pairs of the matrix at most: a closed form may be for more items than there are.
    assert float(ss.epsilon(mine, 1000, 1e-6)) <= float(ss.epsilon(known, 1000, 1e-6)) * (1 + 1e-5)


def test_a_matrix_is_simulated_bounded_and_checked():
    mine = ss.Channel(SMALL)
    report = ss.check_randomizer(mine)
    assert report.passed, str(report)
    data = np.repeat([0, 1, 2], [600, 300, 100])
    for method in ("users", "counts"):
        result = ss.simulate(mine, data, delta=1e-6, seed=3, method=method)
        assert np.abs((result.estimate - result.truth) / np.sqrt(result.variance)).max() < 5
    assert ss.bound_table(mine, 100, 1e-6)["bound"].iloc[0] == "sound"
    assert mine == ss.Channel(np.array(SMALL))
    assert hash(mine) == hash(ss.Channel(SMALL))
    assert repr(mine) == "Channel(3 x 3, epsilon=1.79176)"


def test_a_matrix_is_not_changed_through_the_callers_array():
    given = np.array(SMALL)
    mine = ss.Channel(given)
    given[0] = [0.1, 0.3, 0.6]
    assert mine.channel()[0].tolist() == [0.6, 0.3, 0.1]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5], [0.4, 0.5]], "rows that sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], ">= 0"),
        ([[1.0, 0.0], [0.5, 0.5]], "eps is infinite"),
        ([0.5, 0.5], "got shape"),
        ([["a", "b"]], "a matrix of numbers"),
        ([[0.5, 0.5], [1.0]], "a matrix of numbers"),
        (None, "got shape|a matrix of numbers"),
        ([[math.nan, 1], [0.5, 0.5]], "finite"),
    ],
)
def test_what_is_no_channel_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        ss.Channel(matrix)


def test_large_channels_keep_a_lower_bound_and_stay_fast():
    law = GRR(1.0, 40).channel()
    mine = ss.Channel(law)
    table = ss.bound_table(mine, 10_000, 1e-6).set_index("bound")
    assert "blanket" not in table.index
    assert table.loc["lower", "epsilon"] <= table.loc["sound", "epsilon"]
    assert table.loc["sound", "epsilon"] == pytest.approx(float(ss.epsilon(GRR(1.0, 40), 10_000, 1e-6)), rel=1e-5)


def random_law(rng, kind):
    """Two inputs, or three that each own an outcome (q_star = 1); or any three (q_star = q)."""
    if kind == "owned":
        law = np.tile(rng.dirichlet(np.ones(3)), (3, 1)) * (1 + np.diag(rng.uniform(0.2, 5.0, 3)))
        # Whatever is left of each row goes to an outcome that owns nobody, in equal shares for the neutral part.
        return np.column_stack([law / 8, 1 - law.sum(axis=1) / 8])
    law = rng.dirichlet(np.full(3, rng.choice([0.5, 3.0])), 2 if kind == "two" else 3) + rng.choice([0.02, 0.3])
    return law / law.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("kind", "smaller"), [("two", True), ("owned", None), ("any", False)])
def test_enumerated_q_star_is_sound_against_all_data_sets(kind, smaller):
    """Random channels, three users: the three-outcome bound with the enumerated q_star is above every exact divergence."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        law = random_law(rng, kind)
        declared = declaration_of(law)
        if smaller is not None:
            assert (declared.neutral_q < declared.q * (1 - 1e-6)) == smaller
        exact = Shuffled(law, 3)
        grid = np.array([0.1, 0.5, 0.8]) * math.log(declared.p)
        for eps, truth in zip(grid, exact.delta(grid), strict=True):
            assert ss.delta(declared, 3, eps, bound="three-outcome").upper >= truth * (1 - 1e-12)


def test_q_star_of_known_laws():
    assert neutral_ratio(GRR(1.3, 4).channel(), math.exp(1.3), math.exp(1.3)) == pytest.approx(1.0, rel=1e-8)
    # Two leaves that share their upper nodes: both inputs are at E there, the others may be at 1.
    assert neutral_ratio(HierarchicalGRR(1.0, 8).channel(), math.e, math.e) == pytest.approx(math.e)


def test_q_star_near_no_privacy_loss_is_rounded_up():
    """Ratios within 1e-8 of 1: the declared q_star against rational arithmetic on the same floats."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        law = 1 + 1e-8 * rng.integers(0, 2, (3, 4))
        law /= law.sum(axis=1, keepdims=True)
        if np.ptp(law, axis=0).max() == 0:
            continue
        declared = declaration_of(law)
        exact = [[Fraction(float(v)) for v in row] for row in law]
        p = Fraction(declared.p)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            for column in zip(*exact, strict=True):
                small, large = sorted((column[i], column[j]))
                neutral = (p * small - large) / (p - 1)
                room = min(column) - (large - small) / (p - 1)
                if neutral > large / 10**6:
                    assert neutral / room <= declared.neutral_q * (1 + 1e-15)


@dataclass(frozen=True)
class Noisy(ss.SampledRandomizer):
    """Laplace noise on codes, read by its likelihood."""

    epsilon: float
    d: int

    def randomize(self, values, rng):
        return values + rng.laplace(0, (self.d - 1) / self.epsilon, len(values))

    def log_likelihood(self, value, reports):
        return -np.abs(reports - value) * self.epsilon / (self.d - 1)


class LessNoise(Noisy):
    """Noise of 95% of what the likelihood says."""

    def randomize(self, values, rng):
        return values + rng.laplace(0, 0.95 * (self.d - 1) / self.epsilon, len(values))


class TooSharp(Noisy):
    """A likelihood of 5% more budget than there is, and than is declared."""

    def log_likelihood(self, value, reports):
        return 1.05 * super().log_likelihood(value, reports)


def test_a_sampler_with_a_likelihood_is_simulated_bounded_and_checked():
    mine = Noisy(3.0, 3)
    report = ss.check_randomizer(mine)
    assert report.passed, str(report)
    data = np.repeat([0, 1, 2], [6000, 3000, 1000])
    result = ss.simulate(mine, data, delta=1e-6, seed=3)
    assert np.abs((result.estimate - result.truth) / np.sqrt(result.variance)).max() < 5
    # The declaration is that of any 3-LDP randomizer.
    assert float(ss.epsilon(mine, 10_000, 1e-6)) == pytest.approx(
        float(ss.epsilon(GRR(3.0, 2), 10_000, 1e-6, bound="stronger-clone")), rel=1e-6
    )


@pytest.mark.parametrize("fault", [LessNoise(2.0, 4), TooSharp(2.0, 4)], ids=lambda f: type(f).__name__)
def test_a_sampler_that_contradicts_its_likelihood_is_found(fault):
    failures = ss.check_randomizer(fault).failures
    assert any(failure.startswith("sampler follows the law") for failure in failures)


def test_two_functions_are_enough():
    mine = ss.Sampled(
        epsilon=1.0,
        d=2,
        sampler=lambda values, rng: values ^ (rng.random(len(values)) < 1 / (1 + math.e)),
        likelihood=lambda value, reports: np.where(reports == value, 0.0, -1.0),
        report_bits=1,
    )
    assert mine.bits == 1
    result = ss.simulate(mine, [0, 1, 1, 1] * 1000, delta=1e-6, seed=1)
    exact = GRR(1.0, 2).variance(np.array([1000, 3000]), 4000)
    # The stated variance holds what the learnt estimator may be off by: at most (1 + c/200,000) times.
    assert np.all(result.variance >= exact * 0.98)
    assert np.all(result.variance <= exact * 1.05)
    with pytest.raises(ValueError, match="sampler must be callable, got 3"):
        ss.Sampled(1.0, 2, 3, lambda value, reports: reports)


@pytest.mark.parametrize(
    ("sampler", "likelihood", "message"),
    [
        (lambda c, rng: c[:-1] + 0.5, lambda c, y: -np.abs(y - c) / 2, "sampler must return numbers, one report per user"),
        (lambda c, rng: "a", lambda c, y: -np.abs(y - c) / 2, "sampler must return numbers, one report per user"),
        (lambda c, rng: c + rng.random(len(c)), lambda c, y: 0.0, "log_likelihood must return one number, not NaN, per report"),
        (lambda c, rng: c + rng.random(len(c)), lambda c, y: y * np.nan, "log_likelihood must return one number, not NaN"),
        (
            lambda c, rng: c + rng.laplace(0, 1, len(c)),
            lambda c, y: -np.abs(y - c),
            "epsilon must be at least the largest log-ratio",
        ),
    ],
)
def test_functions_that_contradict_themselves_are_refused(sampler, likelihood, message):
    with pytest.raises(ValueError, match=message):
        ss.simulate(ss.Sampled(1.0, 3, sampler, likelihood), [0, 1, 2] * 100, delta=1e-6, seed=0)


def test_inputs_that_the_likelihood_cannot_tell_apart_are_said():
    blind = ss.Sampled(1.0, 2, lambda values, rng: rng.random(len(values)), lambda value, reports: np.zeros(len(reports)))
    with pytest.raises(ValueError, match="must tell every input from the others"):
        ss.simulate(blind, [0, 1], delta=1e-6, seed=0)


def test_the_true_parameters_are_in_the_report():
    @dataclass(frozen=True)
    class Mine(ss.ChannelRandomizer):
        epsilon: float

        def channel(self):
            return np.array(SMALL)

    detail = next(c.detail for c in ss.check_randomizer(Mine(1.0)).checks if c.name == "declared p, beta, q hold")
    assert "epsilon = 1 declared, 1.79175946923 found" in detail
    assert "p=6, beta=0.5, q=6, q_star=6" in detail
    log_p, beta, _ = true_parameters(np.log(SMALL))
    assert (math.exp(log_p), beta) == (pytest.approx(6), pytest.approx(0.5))


def test_another_budget_keeps_what_was_chosen_and_renews_what_was_best():
    assert LocalHash(1.0, 50).with_epsilon(3.0) == LocalHash(3.0, 50)
    assert LocalHash(1.0, 50, 7).with_epsilon(3.0) == LocalHash(3.0, 50, 7)
    assert GRR(1.0, 50).with_epsilon(3.0) == GRR(3.0, 50)
    with pytest.raises(ValueError, match="randomizer must have a parameter epsilon"):
        ss.Channel(SMALL).with_epsilon(1.0)


def test_the_template_passes_its_own_check():
    path = Path(__file__).parents[1] / "docs" / "randomizer_template.py"
    spec = importlib.util.spec_from_file_location("randomizer_template", path)
    template = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = template
    spec.loader.exec_module(template)
    for mine in template.MyRandomizer.examples():
        report = ss.check_randomizer(mine)
        assert report.passed, str(report)
    assert template.MyRandomizer(1.0, 5).support == pytest.approx(GRR(1.0, 5).support)


def test_a_channel_that_hardly_tells_its_inputs_apart_still_estimates():
    mine = ss.Channel(GRR(1e-9, 4).channel())
    result = ss.simulate(mine, [0, 1, 2, 3] * 100, delta=1e-6, seed=0)
    assert np.abs((result.estimate - result.truth) / np.sqrt(result.variance)).max() < 5
    with pytest.raises(ValueError, match="linearly independent rows"):
        ss.simulate(ss.Channel([[0.5, 0.5], [0.25, 0.75], [0.75, 0.25]]), [0, 1, 2], delta=1e-6, seed=0)
