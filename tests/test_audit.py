"""Audits: published bounds that are violated, sound ones that are not, and planted faults that runs alone must find."""

import math
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import shufflesim as ss
from shufflesim.bounds import Crowd
from shufflesim.empirical import black_box
from shufflesim.mechanisms import (
    GRR,
    OUE,
    PCKVGRR,
    RAPPOR,
    Duchi,
    HadamardResponse,
    HierarchicalGRR,
    KSubset,
    Laplace,
    LocalHash,
    PrivSet,
    RandomizedResponse,
    SamplingRAPPOR,
)
from shufflesim.protocols import BallsIntoBins, SingleMessage
from shufflesim.shuffler import Encoded, Shuffler

# e^eps of these is where the published pair is furthest below the truth among a few.
VIOLATED = [
    (GRR(math.log(3), 3), 3, 2.2),
    (KSubset(math.log(3), 4, 2), 3, 2.2),
    (KSubset(math.log(3), 4, 3), 3, 2.2),
    (RAPPOR(math.log(4), 3), 3, 3.0),
    (OUE(math.log(3), 3), 3, 2.2),
    (HadamardResponse(math.log(3), 3, K=4, s=2), 3, 2.2),
    (LocalHash(math.log(3), 3, 3), 2, 2.2),
    (PrivSet(math.log(3), 4, 2, 2), 3, 2.45),
    (PCKVGRR(math.log(3), 2, 1), 2, 2.2),
    (Duchi(math.log(3), 2), 2, 2.3),
    (HierarchicalGRR(math.log(3), 4), 2, 2.5),
]


@pytest.mark.parametrize(("x", "n", "growth"), VIOLATED, ids=lambda v: repr(v))
def test_published_is_violated_and_sound_is_not(x, n, growth):
    published = ss.audit(x, n, math.log(growth), bound="published", ways=("enumeration", "homogeneous"))
    assert published.violated
    assert published.table["verdict"].tolist()[0] == "violated"
    assert published.ways[0].low > published.claimed
    for bound in ("sound", "three-outcome", "blanket", "stronger-clone"):
        assert ss.audit(x, n, math.log(growth), bound=bound, ways=("enumeration", "homogeneous")).verdict == "consistent"


@pytest.mark.parametrize("x", [RandomizedResponse(1.0), GRR(2.0, 2), Duchi(1.0)], ids=repr)
def test_published_holds_where_there_is_no_neutral_part(x):
    found = ss.audit(x, 2, 0.4, bound="published", ways=("enumeration", "homogeneous"))
    assert found.verdict == "consistent"
    assert found.ways[0].high >= found.claimed * (1 - 1e-9)  # attained


def test_one_value_for_all_others():
    grr, eps = GRR(math.log(3), 3), math.log(2)
    ways = ("enumeration", "homogeneous", "runs")
    alone = [ss.audit(grr, 3, eps, others=value, ways=ways, trials=100) for value in (0, 2)]
    assert alone[0].ways[0].delta == pytest.approx(alone[1].ways[0].delta)
    worst = ss.audit(grr, 3, eps, ways=("enumeration",))
    assert alone[0].ways[0].delta < worst.ways[0].delta
    assert [w.way for w in alone[0].ways] == ["enumeration", "runs"]
    assert "the others 2 x 2" in alone[1].ways[0].note
    assert alone[0].skipped == ("homogeneous: it looks at several inputs of the others, others must be 'worst'",)
    sets = ss.audit(PrivSet(1.0, 4, 2, 2), 3, 0.5, others=[2, 3], ways=("enumeration",))
    assert sets.ways[0].delta > 0


@dataclass(frozen=True)
class PublishedBeta(SingleMessage):
    """As declared in print."""

    def claims(self, crowd):
        declared = ss.VariationRatio.ldp(self.local_epsilon, self.randomizer.published_beta)
        return declared.claims(crowd) + self.randomizer.law_claims(crowd)


def test_the_published_beta_of_sampling_rappor_is_too_small():
    x = SamplingRAPPOR(2.0, 4, 1)
    wrong, right = (made(x) for made in (PublishedBeta, SingleMessage))
    for n, asked, ways in ((2, {"eps": 0.5}, ("enumeration",)), (10**4, {"delta": 1e-6}, ("homogeneous", "importance sampling"))):
        assert ss.audit(wrong, n, bound="three-outcome", ways=ways, **asked).violated
        assert ss.audit(right, n, bound="three-outcome", ways=ways, **asked).verdict == "consistent"


def test_all_ways_agree():
    found = ss.audit(GRR(1.0, 3), 4, 0.2, trials=1000)
    assert found.table["way"].tolist() == ["enumeration", "homogeneous", "importance sampling", "runs"]
    enumerated, homogeneous, sampled, run = found.ways
    assert homogeneous.low <= enumerated.high
    assert sampled.low <= homogeneous.high
    assert homogeneous.low <= sampled.high
    assert run.low <= enumerated.high
    assert found.verdict == "consistent"
    assert not found.violated
    assert not found.skipped
    text = str(found)
    assert text.startswith("GRR(epsilon=1.0, d=3), n = 4, eps = 0.2: sound claims delta <= ")
    assert text.endswith("consistent")


def test_a_million_users_by_the_eps_of_a_delta():
    found = ss.audit(BallsIntoBins(16, 1.5), 10**6, delta=1e-12)
    assert found.claimed == pytest.approx(1e-12, rel=1e-3)
    assert [w.way for w in found.ways] == ["homogeneous", "importance sampling"]
    assert found.ways[1].low <= found.ways[0].high
    assert found.ways[0].low <= found.ways[1].high
    assert found.verdict == "consistent"
    assert [s.partition(":")[0] for s in found.skipped] == ["enumeration", "runs"]


def test_the_seed_is_the_result():
    one, two, other = (ss.audit(GRR(1.0, 3), 3, 0.2, trials=200, seed=seed) for seed in (1, 1, 2))
    assert [(w.low, w.delta, w.high) for w in one.ways] == [(w.low, w.delta, w.high) for w in two.ways]
    assert one.ways[2].delta != other.ways[2].delta


@pytest.mark.parametrize("bound", ["published", "clone"])
def test_the_picture(bound, tmp_path):
    ax = ss.audit(GRR(1.0, 3), 3, 0.2, bound=bound, trials=100).plot()
    labels = ax.get_legend_handles_labels()[1]
    assert {"sound (upper bound)", "published (upper bound)", "lower (lower bound)", f"{bound} (upper bound)"} <= set(labels)
    assert set(labels) >= {"enumeration", "homogeneous", "importance sampling", "runs"}
    ax.figure.savefig(tmp_path / "audit.png")


# A user's class that is nothing but a sampler.


@dataclass(frozen=True)
class Noisy(ss.Randomizer):
    """Laplace noise of a scale that may be too small for the budget that is declared."""

    epsilon: float
    scale: float

    @property
    def domain(self):
        return ss.domains.Interval(0.0, 1.0)

    @property
    def amplification(self):
        return ss.VariationRatio.ldp(self.epsilon, math.tanh(self.epsilon / 2))

    @property
    def bits(self):
        return 64.0

    def randomize(self, values, rng):
        return values + rng.laplace(0, self.scale, len(values))

    def aggregate(self, reports):
        return np.array([reports.sum(), (reports > 0.5).sum()])

    def estimate(self, aggregate, n):
        return aggregate[:1] / n

    def variance(self, total, n):
        return np.array([2 * self.scale**2 / n])

    @classmethod
    def examples(cls):
        yield cls(1.0, 1.0)


def test_a_class_with_a_sampler_only():
    honest, liar = (ss.audit(Noisy(1.0, scale), 2, 0.3, trials=1500) for scale in (1.0, 0.1))
    assert not honest.violated
    assert liar.violated
    assert [w.way for w in honest.ways] == ["runs"]
    assert len(honest.skipped) == 3


# Planted faults. Confidence 1 - 1e-6 each, so that an honest version is accused with probability 1e-6 at most.


@dataclass(frozen=True)
class LazyGRR(GRR):
    """Its coin comes up half as often as it says."""

    def randomize(self, values, rng):
        return np.where(rng.random(len(values)) < 0.5, values, super().randomize(values, rng))


@dataclass(frozen=True)
class SkewedBins(BallsIntoBins):
    """Its dummies avoid half of the labels."""

    def encode(self, values, rng):
        encoded = super().encode(values, rng)
        starts = np.cumsum(encoded.sizes) - encoded.sizes
        dummy = np.ones(len(encoded.messages), dtype=bool)
        dummy[starts] = False
        messages = encoded.messages.copy()
        messages[dummy] = messages[dummy] // 2 + self.d // 2
        return Encoded(messages, encoded.sizes)


@dataclass(frozen=True)
class Numbered(SingleMessage):
    """Its messages carry the number of the user."""

    def encode(self, values, rng):
        reports = super().encode(values, rng).messages
        return Encoded(np.arange(len(values)) * self.domain.d + reports)

    def aggregate(self, messages):
        return super().aggregate(messages % self.domain.d)


@dataclass(frozen=True)
class Tagged(SingleMessage):
    """Its aggregate has the first user's report beside the counts; only the encoder knows which that is."""

    def encode(self, values, rng):
        reports = super().encode(values, rng).messages.astype(np.int64)
        reports[0] += 1000
        return Encoded(reports)

    def aggregate(self, messages):
        counts = super().aggregate(messages % 1000)
        return np.append(counts, (messages[messages >= 1000] - 1000).sum())


class Orderly(Shuffler):
    """Keeps the order."""

    def shuffle(self, encoded, rng):
        return encoded.messages.copy()


FEW = {"ways": ("runs",), "trials": 1500}


@pytest.mark.parametrize(
    ("x", "n", "eps", "options"),
    [
        (LazyGRR(1.0, 3), 3, 0.3, {}),
        (SkewedBins(4, 3), 4, 0.7, {}),
        (Numbered(GRR(2.0, 4)), 6, 0.7, {}),
        (Tagged(GRR(2.0, 4)), 6, 0.7, {}),
        (GRR(2.0, 4), 6, 0.7, {"shuffler": Orderly()}),
        (Laplace(3.0), 20, 0.7, {"shuffler": Orderly()}),
    ],
    ids=lambda v: repr(v) if isinstance(v, (ss.Randomizer, ss.Protocol)) else "",
)
def test_planted_faults_are_found(x, n, eps, options):
    assert ss.audit(x, n, eps, **FEW, **options).violated


@pytest.mark.parametrize(
    ("x", "n", "eps"),
    [
        (GRR(1.0, 3), 3, 0.3),
        (BallsIntoBins(4, 3), 4, 0.7),
        (SingleMessage(GRR(2.0, 4)), 6, 0.7),
        (Laplace(3.0), 20, 0.7),
        (PCKVGRR(1.0, 2, 2), 3, 0.2),
    ],
    ids=repr,
)
def test_honest_versions_are_not_accused(x, n, eps):
    assert not ss.audit(x, n, eps, **FEW).violated


def test_runs_come_near_the_truth():
    """The likelihood ratio of homogeneous data: the bound is within its width of the enumerated divergence."""
    grr, n, eps = GRR(2.0, 3), 3, 0.5
    exact = next(c.value for c in grr.claims(Crowd(n)) if c.bound == "lower").delta(eps, 1e-9)
    found = black_box(SingleMessage(grr), [0, 1, 1], [2, 1, 1], eps, np.random.default_rng(1), trials=6000, confidence=1 - 1e-6)
    assert 0.5 * exact[0] < found.low < exact[1]


def test_no_messages_at_all():
    """A protocol in which users may send nothing."""

    @dataclass(frozen=True)
    class Rare(BallsIntoBins):
        def encode(self, values, rng):
            sizes = (rng.random(len(values)) < 0.2).astype(np.int64)
            return Encoded(values[sizes > 0], sizes)

    found = ss.audit(Rare(2, 1), 2, 0.1, **FEW)
    assert found.ways[0].low <= 0.2


def test_without_scikit_learn_only_a_known_likelihood_is_used(monkeypatch):
    for name in ("sklearn", "sklearn.ensemble", "sklearn.linear_model"):
        monkeypatch.setitem(sys.modules, name, None)
    assert ss.audit(GRR(1.0, 3), 3, 0.3, ways=("runs",), trials=100).ways
    found = ss.audit(Laplace(1.0), 3, 0.3, ways=("runs",), trials=100)
    assert found.verdict == "cannot tell at this many trials"
    assert "pip install 'shufflesim[audit]'" in found.skipped[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": GRR}, "x must be a Randomizer or a Protocol, got <class"),
        ({"x": ss.VariationRatio(3, 0.4, 3)}, "x must be a Randomizer or a Protocol, got VariationRatio"),
        ({"n": 0}, "n must be an integer >= 1, got 0"),
        ({"n": 2.5}, "n must be an integer >= 1, got 2.5"),
        ({"eps": None}, "exactly one of eps and delta must be given, got eps=None, delta=None"),
        ({"delta": 0.1}, "exactly one of eps and delta must be given"),
        ({"eps": -0.1}, "eps must be a finite number >= 0, got -0.1"),
        ({"eps": math.nan}, "eps must be a finite number >= 0, got nan"),
        ({"eps": None, "delta": 2.0}, r"delta must be in \(0, 1\), got 2.0"),
        ({"bound": "lower"}, "bound must be an upper bound, got 'lower'"),
        ({"bound": "best"}, "bound must be one of sound"),
        ({"ways": ()}, "ways must be a tuple of some of enumeration, "),
        ({"ways": "runs"}, "ways must be a tuple of some of enumeration, .* got 'runs'"),
        ({"ways": (np.array([1, 2]),)}, "ways must be a tuple of some of"),
        ({"ways": ("runs", "runs")}, "ways must be a tuple of some of .*, each once, got"),
        ({"ways": None}, "ways must be a tuple of some of"),
        ({"ways": ("luck",)}, r"ways must be a tuple of some of .* got \('luck',\)"),
        ({"trials": 10}, "trials must be an integer >= 100, got 10"),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\), got 1.0"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"others": 3}, r"others must be 'worst' or a value of Categories\(d=3\), got 3"),
        ({"others": "best"}, "others must be 'worst' or a value of"),
        ({"shuffler": 1}, "shuffler must be a Shuffler, got 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.audit(**{"x": GRR(1.0, 3), "n": 3, "eps": 0.3, **arguments})


def test_a_delta_that_no_eps_reaches():
    with pytest.raises(ValueError, match="delta must be reached by the bound 'sound' at a finite eps, got 1e-06"):
        ss.audit(BallsIntoBins(300, 3), 3, delta=1e-6)


def test_neighbours_are_of_one_length():
    with pytest.raises(ValueError, match="first and second must be as long as each other, got 3 and 2 users"):
        black_box(SingleMessage(GRR(1.0, 3)), [0, 1, 1], [0, 1], 0.1, np.random.default_rng(0))


def test_neighbours_differ_in_one_user():
    with pytest.raises(ValueError, match="first and second must differ in one user's value at most, got 3"):
        black_box(SingleMessage(GRR(1.0, 3)), [0, 0, 0], [2, 1, 1], 0.1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": GRR(1.0, 3)}, "protocol must be a Protocol, got GRR"),
        ({"rng": 0}, "rng must be a Generator, got 0"),
        ({"statistic": 3}, "statistic must be callable and shuffler a Shuffler, got 3 and None"),
        ({"statistic": lambda sums: sums}, "statistic must give one number a run, not NaN, got array"),
        ({"statistic": lambda sums: [np.nan]}, r"statistic must give one number a run, not NaN, got \[nan\]"),
        ({"statistic": lambda sums: "x"}, "statistic must give one number a run, not NaN, got 'x'"),
        ({"shuffler": 3}, "statistic must be callable and shuffler a Shuffler, got None and 3"),
    ],
)
def test_what_the_runs_cannot_be_made_with_is_refused(change, message):
    arguments = {"protocol": SingleMessage(GRR(1.0, 3)), "first": [0, 1], "second": [2, 1], "eps": 0.1}
    with pytest.raises(ValueError, match=message):
        black_box(**({**arguments, "rng": np.random.default_rng(0)} | change))
