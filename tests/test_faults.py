"""Planted faults: a conformance suite that does not find these is worth nothing."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.mechanisms import GRR, RAPPOR, Laplace, LocalHash
from shufflesim.protocols import BallsIntoBins
from shufflesim.shuffler import Encoded


class LiesLess(GRR):
    """Keeps the truth a little more often than its law says."""

    def randomize(self, values, rng):
        return GRR(self.epsilon * 1.05, self.d).randomize(values, rng)


class NeverLast(GRR):
    """An off-by-one: one item is never reported by a lie."""

    def randomize(self, values, rng):
        reports = rng.integers(0, self.d - 1, len(values), dtype=values.dtype)
        np.copyto(reports, values, where=rng.random(len(values)) < self.truthful)
        return reports


class SmallBeta(GRR):
    """Declares less total variation than it has."""

    @property
    def amplification(self):
        return ss.VariationRatio.ldp(self.epsilon, 0.9 * self.truthful, q_star=1.0)


class SmallQ(GRR):
    """Declares less than e^eps."""

    @property
    def amplification(self):
        honest = super().amplification
        return ss.VariationRatio(honest.p, honest.beta, 0.8 * honest.q)


class SmallQStar(GRR):
    """Declares a neutral part that others cover better than they do."""

    @property
    def amplification(self):
        honest = super().amplification
        rest = 1 - honest.r0 - honest.r1
        return ss.VariationRatio(honest.p, honest.beta, honest.q, q_star=honest.omega / rest)


class WrongGroups(GRR):
    """A closed form for a smaller alphabet: too much blanket."""

    def groups(self):
        return GRR(self.epsilon, self.d + 2).groups()


class Biased(GRR):
    """An estimator that forgets to subtract the lies."""

    def estimate(self, aggregate, n):
        return aggregate.astype(float)


class Frequencies(GRR):
    """Frequencies where counts are promised."""

    def estimate(self, aggregate, n):
        return super().estimate(aggregate, n) / n


class Clipped(GRR):
    """Silently clips at zero."""

    def estimate(self, aggregate, n):
        return np.maximum(super().estimate(aggregate, n), 0)


class SmallVariance(GRR):
    """Understates its variance by a fifth."""

    def variance(self, truth, n):
        return 0.8 * super().variance(truth, n)


class NotAdditive(GRR):
    """An aggregate of frequencies, which do not add up."""

    def aggregate(self, reports):
        return np.bincount(reports, minlength=self.d) / len(reports)


class OrderMatters(GRR):
    """An aggregate that looks at who came first."""

    def aggregate(self, reports):
        counts = np.bincount(reports, minlength=self.d)
        counts[reports[0]] += 1
        return counts


class GlobalSeed(GRR):
    """Ignores the generator."""

    def randomize(self, values, rng):
        np.random.random()  # noqa: NPY002
        return super().randomize(values, np.random.default_rng())


class Mutates(GRR):
    """Writes into the caller's array."""

    def randomize(self, values, rng):
        values[:] = super().randomize(values, rng)
        return values.copy()


class MixtureCounts(GRR):
    """Count-space sampling from Bin(n, mixture), which forgets the data."""

    def sample_aggregate(self, totals, rng):
        a, b = self.support
        share = totals / totals.sum()
        return rng.binomial(int(totals.sum()), share * a + (1 - share) * b)


class Truncates(GRR):
    """Takes 0.5 for 0 and d for 0."""

    @property
    def domain(self):
        return _Lenient(self.d)


class _Lenient(ss.domains.Categories):
    def validate(self, values, offset=0):
        return super().validate((np.asarray(values, dtype=float).astype(int) % self.d).tolist())


class LastBit(RAPPOR):
    """Leaves the last bit alone."""

    def randomize(self, values, rng):
        bits = np.unpackbits(super().randomize(values, rng), axis=1, count=self.d)
        bits[:, -1] = values == self.d - 1
        return np.packbits(bits, axis=1)


class BitOrder(RAPPOR):
    """Packs in one order and reads in the other."""

    def aggregate(self, reports):
        return np.unpackbits(reports, axis=1, count=self.d, bitorder="little").sum(axis=0, dtype=np.int64)


class OneHash(LocalHash):
    """One hash function for everybody."""

    def randomize(self, values, rng):
        reports = super().randomize(values, rng)
        return reports % self.l + self.l * 1


class LessNoise(Laplace):
    """Noise of 95% of the scale."""

    def randomize(self, values, rng):
        return values + rng.laplace(0.0, 0.95 * self.scale, len(values))


class Shifted(Laplace):
    """Noise that is not centred."""

    def randomize(self, values, rng):
        return super().randomize(values, rng) + 0.03 * self.scale


SMALL = [[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]]


class ThreePercentBias(ss.Channel):
    """An estimator that is 3% too small: below the noise of a simulation, not of the law."""

    def estimate(self, aggregate, n):
        return 0.97 * super().estimate(aggregate, n)


class BoldChannel(ss.Channel):
    """A stated variance of 95% of the exact one."""

    def variance(self, total, n):
        return 0.95 * super().variance(total, n)


class OtherAggregate(ss.Channel):
    """An aggregate that is not the histogram that it is said to be."""

    def aggregate(self, reports):
        return super().aggregate(reports)[::-1]


RANDOMIZER_FAULTS = [
    (ThreePercentBias(SMALL), "estimator and variance agree with the law"),
    (BoldChannel(SMALL), "estimator and variance agree with the law"),
    (OtherAggregate(SMALL), "estimator and variance agree with the law"),
    (LiesLess(1.0, 4), "sampler follows the law"),
    (NeverLast(1.0, 4), "sampler follows the law"),
    (SmallBeta(1.0, 4), "declared p, beta, q hold"),
    (SmallQ(1.0, 4), "declared p, beta, q hold"),
    (SmallQStar(1.0, 4), "lower bound below sound upper bound"),
    (WrongGroups(1.0, 4), "grouped law agrees with enumeration"),
    (Biased(1.0, 4), "estimator unbiased, variance as stated"),
    (Frequencies(1.0, 4), "estimator unbiased, variance as stated"),
    (Clipped(0.3, 20), "estimator unbiased, variance as stated"),
    (SmallVariance(1.0, 20), "estimator unbiased, variance as stated"),
    (NotAdditive(1.0, 4), "order and parts do not matter"),
    (OrderMatters(1.0, 4), "order and parts do not matter"),
    (GlobalSeed(1.0, 4), "same seed, same messages"),
    (Mutates(1.0, 4), "same seed, same messages"),
    (MixtureCounts(3.0, 4), "count-space sampler"),
    (Truncates(1.0, 4), "bad input refused"),
    (LastBit(1.0, 4), "sampler follows the law"),
    (BitOrder(1.0, 16), "estimator unbiased, variance as stated"),
    (OneHash(1.0, 8, 2), "estimator unbiased, variance as stated"),
    (LessNoise(1.0), "sampler follows the law"),
    (Shifted(1.0), "sampler follows the law"),
]


@pytest.mark.parametrize(("randomizer", "check"), RANDOMIZER_FAULTS, ids=lambda v: type(v).__name__)
def test_planted_fault_is_caught(randomizer, check):
    report = ss.check_randomizer(randomizer)
    assert check in {c.name for c in report.checks if c.passed is False}, str(report)


class FewerDummies(BallsIntoBins):
    """Sends three quarters of the dummies that it declares."""

    def encode(self, values, rng):
        return BallsIntoBins(self.d, 0.75 * self.dummies).encode(values, rng)


class SkewedDummies(BallsIntoBins):
    """Dummies that are not uniform."""

    def encode(self, values, rng):
        encoded = super().encode(values, rng)
        dummies = np.ones(len(encoded.messages), dtype=bool)
        dummies[np.cumsum(encoded.sizes) - encoded.sizes] = False
        messages = encoded.messages.copy()
        messages[dummies & (messages == self.d - 1)] = 0
        return Encoded(messages, encoded.sizes)


class TooMuchBlanket(BallsIntoBins):
    """Claims a blanket of twice the dummies, against a lower bound from the true ones."""

    def claims(self, crowd):
        honest = super().claims(crowd)
        return [c for c in BallsIntoBins(self.d, 2 * self.dummies).claims(crowd) if c.side == "upper"] + honest[-1:]


PROTOCOL_FAULTS = [
    (FewerDummies(4, 2), "messages per user as stated"),
    (SkewedDummies(4, 2), "estimator unbiased, variance as stated"),
    (TooMuchBlanket(4, 2), "lower bound below sound upper bound"),
]


@pytest.mark.parametrize(("protocol", "check"), PROTOCOL_FAULTS, ids=lambda v: type(v).__name__)
def test_planted_protocol_fault_is_caught(protocol, check):
    report = ss.check_protocol(protocol)
    assert check in {c.name for c in report.checks if c.passed is False}, str(report)


class ExtraTruth(GRR):
    """Repeats the truth with one more percent than its law says."""

    def randomize(self, values, rng):
        reports = super().randomize(values, rng)
        np.copyto(reports, values, where=rng.random(len(values)) < 0.01)
        return reports


def test_one_percent_of_extra_truth_is_found():
    report = ss.check_randomizer(ExtraTruth(1.0, 4))
    assert any(failure.startswith("sampler follows the law") for failure in report.failures)


def test_an_exception_is_a_finding():
    class Crashes(GRR):
        def estimate(self, aggregate, n):
            raise ZeroDivisionError("d - 3")

    report = ss.check_randomizer(Crashes(1.0, 3))
    assert any("ZeroDivisionError: d - 3" in failure for failure in report.failures)


@pytest.mark.parametrize("thing", [3, "grr", GRR, None])
def test_check_refuses_what_is_no_instance(thing):
    with pytest.raises(ValueError, match="must be a Randomizer"):
        ss.check_randomizer(thing)
    with pytest.raises(ValueError, match="must be a Protocol"):
        ss.check_protocol(thing)


def test_a_class_of_ten_lines_is_checked_and_simulated():
    @dataclass(frozen=True)
    class Neighbour(ss.ChannelRandomizer):
        epsilon: float

        def channel(self):
            e = math.exp(1.3 * self.epsilon)
            near = np.array([[e, math.sqrt(e), 1], [math.sqrt(e), e, math.sqrt(e)], [1, math.sqrt(e), e]])
            return near / near.sum(axis=1, keepdims=True)

    mine = Neighbour(1.0)
    report = ss.check_randomizer(mine)
    assert not report.passed
    assert any("epsilon = 1 declared" in failure for failure in report.failures)

    @dataclass(frozen=True)
    class Honest(Neighbour):
        def channel(self):
            return Neighbour(self.epsilon * 0.7).channel()

    report = ss.check_randomizer(Honest(1.0))
    assert report.passed, str(report)
    result = ss.simulate(Honest(1.0), np.repeat([0, 1, 2], [500, 300, 200]), delta=1e-6, seed=0)
    z = (result.estimates["estimate"] - result.estimates["truth"]) / result.estimates["stderr"]
    assert np.abs(z).max() < 5
    table = result.privacy.set_index("bound")
    assert table.loc["lower", "epsilon"] <= table.loc["sound", "epsilon"] < 1.0


def test_a_false_epsilon_does_not_lower_a_bound():
    @dataclass(frozen=True)
    class Understated(ss.ChannelRandomizer):
        epsilon: float

        def channel(self):
            return GRR(2.0, 3).channel().tolist()

    honest, mine = GRR(2.0, 3), Understated(0.1)
    assert float(ss.epsilon(mine, 5, 1e-6)) >= float(ss.epsilon(honest, 5, 1e-6, bound="lower"))
    assert any("epsilon = 0.1 declared" in failure for failure in ss.check_randomizer(mine).failures)
    for bad in (-1.0, 0, "a", None):
        with pytest.raises(ValueError, match="epsilon must be a number in"):
            ss.epsilon(Understated(bad), 5, 1e-6)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5], [0.4, 0.5]], "rows that sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], ">= 0"),
        ([[0.5, 0.5]], "at least 2 rows"),
        ([[1.0, 0.0], [0.5, 0.5]], "eps is infinite"),
        ([[math.nan, 1.0], [0.5, 0.5]], "finite"),
    ],
)
def test_impossible_channels_are_refused(matrix, message):
    @dataclass(frozen=True)
    class Mine(ss.ChannelRandomizer):
        epsilon: float

        def channel(self):
            return np.array(matrix)

    with pytest.raises(ValueError, match=message):
        _ = Mine(1.0).amplification
