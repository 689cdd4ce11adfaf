"""Absent and faulty users: what is sent, what is rejected, what the estimate and the privacy lose."""

import math

import numpy as np
import pytest

import shufflesim as ss
from shufflesim import plots
from shufflesim.mechanisms import GRR, OUE, Duchi, HadamardResponse, KSubset, Laplace, LocalHash, PrivSet
from shufflesim.population import Senders
from shufflesim.protocols import BallsIntoBins, FakeUsers, SingleMessage

DATA = np.repeat([0, 1, 2, 3], [4000, 3000, 2000, 1000])


def _run(protocol, data=DATA, **population):
    return ss.simulate(protocol, data, delta=1e-6, seed=5, population=ss.Population(**population))


def test_nobody_absent_or_faulty_changes_nothing():
    plain = ss.simulate(BallsIntoBins(4, 1.5), DATA, delta=1e-6, seed=5)
    same = _run(BallsIntoBins(4, 1.5))
    assert np.array_equal(plain.estimate, same.estimate)
    assert same.damage.loc[0, ["users", "absent", "faulty", "honest", "rejected"]].tolist() == [10_000, 0, 0, 10_000, 0]
    assert same.damage.loc[0, "epsilon_left"] == same.damage.loc[0, "epsilon_intended"]


def test_drop_outs_are_missing_from_the_counts_and_from_the_crowd():
    """Binomial numbers within 7 standard deviations: a false alarm below 1e-11 each."""
    result = _run(BallsIntoBins(4, 3), dropout=0.3, faulty=1e-9, attack="target-item", target=0)
    row = result.damage.loc[0]
    # 4000 users hold the target, 1200 of them are absent; the gain is that of the attack alone.
    assert abs(row["gain"]) < 7 * math.sqrt(4000 * 0.21 + result.variance[0])
    assert abs(row["absent"] - 3000) < 7 * math.sqrt(10_000 * 0.21)
    assert row["honest"] == 10_000 - row["absent"]
    assert result.messages == 4 * row["honest"]
    spread = np.sqrt(result.variance + 0.21 * result.truth)
    assert (np.abs(result.estimate - 0.7 * result.truth) < 7 * spread).all()
    assert row["epsilon_left"] == float(ss.epsilon(BallsIntoBins(4, 3), int(row["honest"]), 1e-6))
    assert row["epsilon_left"] > row["epsilon_intended"]
    sound = result.privacy.set_index("bound").loc["sound", "epsilon"]
    assert sound == row["epsilon_left"]


def test_a_target_item_gains_its_users_and_the_maximal_gain_more():
    gains = {}
    for attack in ("target-item", "maximal-gain"):
        result = _run(GRR(1.0, 4), faulty=0.1, attack=attack, target=3)
        faulty = result.damage.loc[0, "faulty"]
        assert abs(faulty - 1000) < 7 * math.sqrt(900)
        gains[attack] = result.damage.loc[0, "gain"] / faulty
    a, b = GRR(1.0, 4).support
    # An honest report of the target counts as one user, the target itself as (1 - b)/(a - b); a tenth of them held it anyway.
    assert gains["target-item"] == pytest.approx(0.9, abs=0.4)
    assert gains["maximal-gain"] == pytest.approx((1 - b) / (a - b) - 0.1, abs=0.4)


@pytest.mark.parametrize(
    ("protocol", "worth"),
    [
        # What one faulty user adds to the estimate of the target at most.
        (GRR(2.0, 8), lambda r: (1 - r.support[1]) / (r.support[0] - r.support[1])),
        (OUE(2.0, 8), lambda r: (1 - r.support[1]) / (r.support[0] - r.support[1])),
        (KSubset(1.0, 8, 2), lambda r: (1 - r.support[1]) / (r.support[0] - r.support[1])),
        (HadamardResponse(1.0, 7), lambda r: max(r.estimate(r.aggregate(np.array([c])), 1)[6] for c in range(8))),
        (LocalHash(1.0, 8, 3), lambda r: (1 - r.support[1]) / (r.support[0] - r.support[1])),
        (BallsIntoBins(8, 3), lambda p: 4 - 3 / 8),
    ],
    ids=lambda x: repr(x) if hasattr(x, "domain") else "",
)
def test_the_maximal_gain_is_the_largest_possible(protocol, worth):
    """The best of a pool of messages moves the target by as much as any message can; all faulty users send it."""
    protocol_ = SingleMessage(protocol) if isinstance(protocol, ss.Randomizer) else protocol
    population = ss.Population(faulty=0.5, attack="maximal-gain", target=6)
    senders = Senders(population, protocol_, np.random.default_rng(1))
    values = protocol_.domain.validate(np.zeros(2000, dtype=int))
    sent = senders.encode(values, np.random.default_rng(2), np.random.default_rng(3))
    honest = protocol_.encode(values[: sent.present - sent.faulty], np.random.default_rng(3)).messages
    crafted = sent.encoded.messages[len(honest) :]
    got = protocol_.estimate(protocol_.aggregate(crafted), sent.faulty)[6] / sent.faulty
    assert got == pytest.approx(worth(protocol), rel=1e-9)


@pytest.mark.parametrize(
    ("protocol", "data", "rejected_per_user"),
    [
        (GRR(1.0, 4), DATA, 1),
        (GRR(1.0, 256), DATA, 1),
        (HadamardResponse(1.0, 4), DATA, 1),
        (BallsIntoBins(4, 2), DATA, 3),
        (OUE(1.0, 4), DATA, 1),
        (KSubset(1.0, 12, 2), DATA, 1),
        (KSubset(3.0, 300, 2), DATA, 1),
        (LocalHash(1.0, 4, 3), DATA, 1),
        (LocalHash(1.0, 4, 6), DATA, 1),
        (FakeUsers(4, 0.1), DATA, 2),
        (Laplace(1.0), DATA / 4, 1),
        (ss.Channel([[0.6, 0.2, 0.1, 0.1], [0.2, 0.6, 0.1, 0.1], [0.1, 0.1, 0.6, 0.2], [0.1, 0.1, 0.2, 0.6]]), DATA, 1),
    ],
    ids=lambda x: repr(x) if hasattr(x, "domain") else None,
)
def test_messages_outside_the_alphabet_are_rejected_and_counted(protocol, data, rejected_per_user):
    """Estimates of the rest within 7 standard errors plus their own sampling: a false alarm below 1e-10 each."""
    result = _run(protocol, data, faulty=0.2, attack="out-of-alphabet")
    row = result.damage.loc[0]
    assert row["rejected"] == rejected_per_user * row["faulty"] > 1000
    if result.protocol.domain.target == "count":
        spread = np.sqrt(result.variance + 0.16 * result.truth)
        assert (np.abs(result.estimate - 0.8 * result.truth) < 7 * spread).all()
    else:
        assert np.isfinite(result.estimate).all()


def test_garbage_is_spread_over_all_items():
    result = _run(GRR(3.0, 4), faulty=0.5, attack="garbage")
    a, b = GRR(3.0, 4).support
    faulty, honest = result.damage.loc[0, ["faulty", "honest"]]
    expected = 0.5 * result.truth + (faulty * (0.25 - b)) / (a - b)
    assert (np.abs(result.estimate - expected) < 7 * np.sqrt(result.variance + 0.25 * 10_000)).all()
    assert honest + faulty == 10_000


def test_the_result_does_not_depend_on_the_chunks():
    arguments = {"delta": 1e-6, "seed": 9, "population": ss.Population(0.1, 0.1, "maximal-gain", 2)}
    data = np.tile(DATA, 20)
    first, second = (ss.simulate(GRR(1.0, 4), data, chunk_size=c, **arguments) for c in (1000, 10**6))
    assert np.array_equal(first.estimate, second.estimate)
    assert first.damage.equals(second.damage)


def test_numbers_and_sets_can_be_aimed_at():
    numbers = _run(Laplace(1.0), DATA / 4, faulty=0.3, attack="target-item", target=1.0)
    assert numbers.damage.loc[0, "gain"] > 0.1
    pushed = _run(Laplace(1.0), DATA / 4, faulty=0.05, attack="maximal-gain", target=1.0)
    assert pushed.damage.loc[0, "gain"] > numbers.damage.loc[0, "gain"] * 0.05 / 0.3
    rows = np.stack([DATA, DATA + 2], axis=1)
    sets = _run(PrivSet(1.0, 8, 2), rows, faulty=0.2, attack="target-item", target=[6, 7])
    assert sets.damage.loc[0, "gain"] > 2000
    vectors = _run(Duchi(1.0, 2), rows / 10, faulty=0.2, attack="target-item", target=[-1.0, -1.0])
    assert vectors.damage.loc[0, "gain"] > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"faulty": -0.1}, r"faulty must be in \[0, 1\), got -0.1"),
        ({"dropout": math.nan}, r"dropout must be in \[0, 1\), got nan"),
        ({"faulty": 0.1}, "attack must be given exactly if faulty > 0, got faulty=0.1, attack=None"),
        ({"attack": "garbage"}, "attack must be given exactly if faulty > 0"),
        ({"faulty": 0.1, "attack": "maximal"}, "attack must be one of .*, got 'maximal'; did you mean 'maximal-gain'"),
        ({"faulty": 0.1, "attack": "target-item"}, "target must be given exactly for target-item and maximal-gain"),
        ({"faulty": 0.1, "attack": "garbage", "target": 1}, "target must be given exactly for target-item and maximal-gain"),
    ],
)
def test_impossible_populations_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.Population(**arguments)


def test_what_does_not_fit_the_protocol_is_refused():
    with pytest.raises(ValueError, match=r"target must be a value that a user can hold, got 4: values must be codes in 0..3"):
        _run(GRR(1.0, 4), faulty=0.1, attack="target-item", target=4)
    with pytest.raises(ValueError, match=r"attack must not be out-of-alphabet for OUE"):
        _run(OUE(1.0, 8), faulty=0.1, attack="out-of-alphabet")
    with pytest.raises(ValueError, match="population must be a Population and method 'users'"):
        ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, seed=0, method="counts", population=ss.Population(dropout=0.1))
    with pytest.raises(ValueError, match="population must leave at least one user with valid messages"):
        ss.simulate(GRR(1.0, 4), [1], delta=1e-6, seed=3, population=ss.Population(faulty=0.999999, attack="out-of-alphabet"))


def test_a_batch_that_is_too_small_is_not_released():
    assert ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, seed=1, minimum_batch=10_000).n == 10_000
    with pytest.raises(ValueError, match="minimum_batch must be reached before anything is released, 10001, got 10000 users"):
        ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, seed=1, minimum_batch=10_001)
    with pytest.raises(ValueError, match=r"minimum_batch must be reached .* 9500, got \d+ users"):
        ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, seed=1, minimum_batch=9500, population=ss.Population(dropout=0.1))
    with pytest.raises(ValueError, match="minimum_batch must be an integer >= 1, got 0"):
        ss.simulate(GRR(1.0, 4), DATA, delta=1e-6, seed=1, minimum_batch=0)


def test_robustness_table_and_picture():
    table = ss.robustness(
        [GRR(2.0, 4), BallsIntoBins(4, 4)], DATA, [0, 0.05, 0.2], attack="maximal-gain", target=3, delta=1e-6, seed=1
    )
    assert table.shape[0] == 6
    for _, rows in table.groupby("protocol"):
        assert rows["rmse"].is_monotonic_increasing
        assert rows["epsilon_left"].is_monotonic_increasing
    honest = table[table["fraction"] == 0]
    assert (honest["faulty"] == 0).all()
    assert (honest["rmse"] < 3 * honest["expected_rmse"]).all()
    ax = plots.robustness(table)
    assert len([line for line in ax.get_lines() if line.get_linestyle() == "-"]) == 2
    with pytest.raises(ValueError, match="table must be a result of robustness"):
        plots.robustness(table.drop(columns="rmse"))


@pytest.mark.parametrize("fractions", [[-0.1], [1], [None], ["0.1"], [[0.1]], [True], [math.nan], [], 0.1, None, "0"])
def test_robustness_refuses_what_is_no_list_of_fractions(fractions):
    with pytest.raises(ValueError, match=r"^fractions must be .*, got"):
        ss.robustness([GRR(1.0, 4)], DATA, fractions, attack="garbage", delta=1e-6)


@pytest.mark.parametrize("protocols", [[], GRR(1.0, 4), GRR, None, "grr"])
def test_robustness_refuses_what_is_no_list_of_protocols(protocols):
    with pytest.raises(ValueError, match=r"^protocols must be a list of at least one, got"):
        ss.robustness(protocols, DATA, [0.1], attack="garbage", delta=1e-6)


def test_without_a_claim_the_local_eps_is_the_bound():
    class Unproved(BallsIntoBins):
        undeclared = "nobody has looked yet"

        def claims(self, crowd):
            return []

    run = ss.simulate(Unproved(4, 1.5), DATA, delta=1e-6, seed=5)
    assert run.summary.loc[0, ["epsilon_upper", "upper_bound"]].tolist() == [math.inf, "local eps"]
    assert run.privacy.empty
    with pytest.raises(ValueError, match=r"what applies: nothing \(nobody has looked yet\)"):
        ss.epsilon(Unproved(4, 1.5), 10_000, 1e-6)
