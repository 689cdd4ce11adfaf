"""End to end: shuffler, blocks and seeds, both methods, results and files."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import special

import shufflesim as ss
from shufflesim import simulation
from shufflesim.mechanisms import GRR, OUE, RAPPOR, HadamardResponse, Laplace, LocalHash
from shufflesim.protocols import (
    BallsIntoBins,
    BinaryExpansionMean,
    CorrelatedCount,
    FakeUsers,
    NegativeBinomialCount,
    RecursiveSum,
    SingleMessage,
    UniformCoins,
)
from shufflesim.shuffler import Encoded


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_shuffler_is_uniform_over_all_orders(shards):
    """All 24 orders of 4 messages in 48,000 runs: exact binomial tails at a false-alarm probability of 1e-9 in all."""
    shuffler = ss.Shuffler(shards=shards)
    rng, runs = np.random.default_rng(0), 48_000
    orders = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    counts = np.zeros(24)
    messages = np.arange(4)
    for _ in range(runs):
        counts[orders[tuple(shuffler.shuffle(Encoded(messages), rng).tolist())]] += 1
    tail = np.minimum(special.bdtrc(counts - 1, runs, 1 / 24), special.bdtr(counts, runs, 1 / 24))
    assert tail.min() > 1e-9 / 48


def test_a_sharded_shuffle_is_one_uniform_permutation():
    """Its law by enumeration: shards of all messages, then all orders within each; every order of 5 has the same probability."""
    number, shards = 5, 3
    law = dict.fromkeys(itertools.permutations(range(number)), Fraction(0))
    for chosen in itertools.product(range(shards), repeat=number):
        parts = [[i for i in range(number) if chosen[i] == k] for k in range(shards)]
        share = Fraction(1, shards**number * math.prod(math.factorial(len(part)) for part in parts))
        for orders in itertools.product(*(itertools.permutations(part) for part in parts)):
            law[tuple(itertools.chain(*orders))] += share
    assert set(law.values()) == {Fraction(1, math.factorial(number))}


def test_shards_are_checked_and_may_be_empty():
    assert ss.Shuffler(shards=5).permute(np.arange(0), np.random.default_rng(0)).size == 0
    with pytest.raises(ValueError, match="shards must be an integer >= 1, got 0"):
        ss.Shuffler(shards=0)


def test_shuffler_keeps_the_multiset_and_drops_the_senders():
    rng = np.random.default_rng(1)
    encoded = BallsIntoBins(5, 2.5).encode(np.arange(5, dtype=np.uint8), rng)
    before = encoded.messages.copy()
    shuffled = ss.Shuffler().shuffle(encoded, rng)
    assert isinstance(shuffled, np.ndarray)
    assert sorted(shuffled.tolist()) == sorted(before.tolist())
    assert np.array_equal(encoded.messages, before)
    rows = np.arange(12).reshape(6, 2)
    assert sorted(map(tuple, ss.Shuffler().shuffle(Encoded(rows), rng).tolist())) == sorted(map(tuple, rows.tolist()))


@pytest.mark.parametrize(
    "protocol", [GRR(1.0, 6), LocalHash(1.0, 6, 3), LocalHash(1.0, 6, 4), Laplace(1.0, 0, 5), BallsIntoBins(6, 0.7)], ids=repr
)
def test_result_depends_on_the_seed_alone(protocol, monkeypatch):
    """Several blocks: the same numbers for any chunk size, other numbers for another seed."""
    monkeypatch.setattr(simulation, "BLOCK", 64)
    data = np.random.default_rng(2).integers(0, 6, 1000).clip(0, 5)
    runs = [ss.simulate(protocol, data, delta=1e-6, seed=7, chunk_size=c) for c in (None, 1, 100, 10**9)]
    for run in runs[1:]:
        assert np.array_equal(run.estimate, runs[0].estimate)
        assert run.messages == runs[0].messages
    other = ss.simulate(protocol, data, delta=1e-6, seed=8)
    assert not np.array_equal(other.estimate, runs[0].estimate)
    again = ss.simulate(protocol, data, delta=1e-6, seed=np.random.SeedSequence(7))
    assert np.array_equal(again.estimate, runs[0].estimate)


def test_blocks_draw_from_spawned_children():
    root = np.random.SeedSequence(5)
    for index, spawned in enumerate(np.random.SeedSequence(5).spawn(3)):
        assert np.array_equal(simulation.child(root, index).generate_state(4), spawned.generate_state(4))


def test_without_a_seed_the_entropy_is_recorded():
    first = ss.simulate(GRR(1.0, 3), [0, 1, 2], delta=1e-6)
    again = ss.simulate(GRR(1.0, 3), [0, 1, 2], delta=1e-6, seed=np.random.SeedSequence(first.entropy))
    assert np.array_equal(first.estimate, again.estimate)
    assert not np.array_equal(first.entropy, ss.simulate(GRR(1.0, 3), [0, 1, 2], delta=1e-6).entropy)


@pytest.mark.parametrize("method", ["users", "counts"])
@pytest.mark.parametrize("protocol", [GRR(2.0, 8), RAPPOR(2.0, 8), OUE(2.0, 8), BallsIntoBins(8, 0.3)], ids=repr)
def test_confidence_intervals_cover(protocol, method):
    """95% intervals over 60 runs of 8 values: coverage outside [0.88, 0.995] has probability below 1e-6."""
    data = np.random.default_rng(3).choice(8, 3000, p=np.array([8, 7, 6, 5, 4, 3, 2, 1]) / 36)
    hits = []
    for seed in range(60):
        rows = ss.simulate(protocol, data, delta=1e-6, seed=seed, method=method).estimates
        hits.append((rows["ci_low"] <= rows["truth"]) & (rows["truth"] <= rows["ci_high"]))
    assert 0.88 < np.mean(hits) < 0.995


def test_the_main_job_on_real_data():
    flights = ss.datasets.load("flights")
    result = ss.simulate(GRR(epsilon=2, d=105), flights["dest"], delta=1e-8, seed=7)
    assert result.n == 336_776
    assert list(result.estimates.columns) == ["value", "truth", "estimate", "stderr", "ci_low", "ci_high"]
    counts = flights["dest"].value_counts()
    truth = result.estimates.set_index("value")["truth"]
    assert truth["ORD"] == counts["ORD"] == 17_283
    assert truth.sum() == result.n
    assert 0.5 < result.rmse / result.expected_rmse < 1.5
    row = result.summary.iloc[0]
    assert 0 < row["epsilon_lower"] <= row["epsilon_upper"] < row["local_epsilon"] == 2
    assert (row["messages_per_user"], row["bits_per_user"]) == (1, 7)


def test_numbers_keep_their_units():
    flights = ss.datasets.load("flights")
    minute = flights["hour"].astype(int) * 60 + flights["minute"]
    result = ss.simulate(Laplace(2.0, low=0, high=1439), minute, delta=1e-8, seed=1)
    row = result.estimates.iloc[0]
    assert row["truth"] == pytest.approx(minute.mean())
    assert row["stderr"] == pytest.approx(math.sqrt(2 / result.n) * 1439 / 2)
    assert abs(row["estimate"] - row["truth"]) < 6 * row["stderr"]


def test_estimates_are_neither_clipped_nor_normalised():
    result = ss.simulate(GRR(0.1, 50), np.zeros(2000, dtype=int), delta=1e-6, seed=0)
    assert (result.estimates["estimate"] < 0).any()
    assert (result.estimates["stderr"] > 0).all()


def test_cost_is_expected_and_observed():
    result = ss.simulate(BallsIntoBins(100, 0.5), np.zeros(10_000, dtype=int), delta=1e-6, seed=0)
    cost = result.cost
    assert cost.loc["messages_per_user", "expected"] == 1.5
    assert abs(cost.loc["messages_per_user", "observed"] - 1.5) < 6 * 0.5 / 100
    assert cost.loc["bits_per_user", "expected"] == 1.5 * 7
    assert math.isinf(result.summary["local_epsilon"][0])


def test_progress_reports_every_chunk(monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK", 10)
    seen = []
    ss.simulate(GRR(1.0, 3), np.zeros(45, dtype=int), delta=1e-6, seed=0, chunk_size=20, progress=seen.append)
    assert seen == [20, 40, 45]


def test_labels_come_back():
    column = ss.categorical(["red", "blue", "red", "green"])
    result = ss.simulate(GRR(3.0, 3), column, delta=1e-3, seed=0)
    assert dict(zip(result.estimates["value"], result.estimates["truth"], strict=True)) == {"blue": 1, "green": 1, "red": 2}


def test_save_writes_everything_or_nothing(tmp_path):
    result = ss.simulate(BallsIntoBins(4, 0.25), np.arange(400) % 4, delta=1e-6, seed=3)
    paths = result.save(tmp_path / "deep" / "out")
    assert sorted(p.name for p in paths) == ["estimates.csv", "estimates.json", "estimates.parquet", "estimates.png"]
    assert sorted(p.name for p in (tmp_path / "deep" / "out").iterdir()) == sorted(p.name for p in paths)
    by_suffix = {p.suffix: p for p in paths}
    assert pd.read_csv(by_suffix[".csv"])["truth"].tolist() == [100.0] * 4
    pd.testing.assert_frame_equal(pd.read_parquet(by_suffix[".parquet"]), result.estimates)
    record = json.loads(by_suffix[".json"].read_text())
    assert record["parameters"] == {"class": "BallsIntoBins", "d": 4, "dummies": 0.25}
    assert record["seed"] == {"entropy": 3, "spawn_key": []}
    assert record["summary"]["local_epsilon"] == "inf"
    assert {"shufflesim", "numpy", "python"} <= set(record["versions"])
    assert by_suffix[".png"].read_bytes().startswith(b"\x89PNG")


def test_save_to_a_file_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    result = ss.simulate(GRR(1.0, 3), [0, 1], delta=1e-6, seed=3)
    with pytest.raises(ValueError, match="folder must be writable, got"):
        result.save(tmp_path / "taken")


def test_picture_shows_labels_with_any_characters(tmp_path):
    column = ss.categorical(["$x_$", "a_b", "100%", "\\frac"] * 5)
    ss.simulate(GRR(3.0, 4), column, delta=1e-3, seed=0).save(tmp_path)


def test_html_and_repr():
    result = ss.simulate(GRR(1.0, 3), [0, 1, 2], delta=1e-6, seed=1)
    assert "<table" in result._repr_html_()
    assert repr(result).startswith("Simulation(GRR(epsilon=1.0, d=3), n=3")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "data must hold at least one user, got none"),
        ([[0, 1]], "data must be one-dimensional"),
        ([0, 3], r"values must be codes in 0..2, got 3 at position 1"),
        ([0, -1], r"values must be codes in 0..2, got -1 at position 1"),
        ([0.0, 1.0], "values must be integer codes in 0..2, got float64"),
        ([0, math.nan], "values must not be missing, got a missing value at position 1"),
        (pd.Series([0, 1, None], dtype="Int64"), "got a missing value at position 2"),
        (["a", "b"], "encode a column with shufflesim.categorical"),
        ([None, 1], "values must not be missing, got a missing value at position 0"),
        (5, "data must be one-dimensional"),
        (np.ma.masked_array([0, 1], mask=[0, 1]), "must not be masked"),
        (pd.Categorical(["a", "b"]), "d must be the number of categories of the data, 2, got 3"),
        (pd.Categorical(["a", None, "c"], categories=["a", "b", "c"]), "missing value at position 1"),
    ],
    ids=repr,
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        ss.simulate(GRR(1.0, 3), data, delta=1e-6, seed=0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([0.5, math.nan], r"values must be in \[0, 1\], got nan at position 1"),
        ([0.5, math.inf], "got inf at position 1"),
        ([1.5], r"values must be in \[0, 1\], got 1.5 at position 0"),
        (["0.5"], "values must be numbers in"),
        ([True, False], "values must be numbers in"),
        ([None], "got a missing value at position 0"),
        (pd.Categorical([0, 1]), "got a categorical"),
    ],
    ids=repr,
)
def test_bad_numbers(data, message):
    with pytest.raises(ValueError, match=message):
        ss.simulate(Laplace(1.0), data, delta=1e-6, seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0}, r"delta must be in \(0, 1\), got 0"),
        ({"delta": 1}, "delta must be in"),
        ({"delta": 2}, "delta must be in"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"method": "user"}, "method must be 'users' or 'counts', got 'user'"),
        ({"chunk_size": 0}, "chunk_size must be an integer >= 1, got 0"),
        ({"confidence": 1.0}, "confidence must be strictly between 0 and 1"),
        ({"protocol": "grr"}, "protocol must be a Protocol or a Randomizer, got 'grr'"),
        ({"progress": 1}, "progress must be callable, got 1"),
        ({"protocol": GRR}, "protocol must be a Protocol"),
        ({"protocol": LocalHash(1.0, 3), "method": "counts"}, "method='counts' needs a protocol with an exact sampler"),
    ],
    ids=str,
)
def test_bad_arguments(change, message):
    arguments = {"protocol": GRR(1.0, 3), "data": [0, 1, 2], "delta": 1e-6, "seed": 0, **change}
    with pytest.raises(ValueError, match=message):
        ss.simulate(arguments.pop("protocol"), arguments.pop("data"), **arguments)


def test_position_of_a_bad_value_far_down(monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK", 100)
    data = np.zeros(1000, dtype=int)
    data[345] = 9
    with pytest.raises(ValueError, match="got 9 at position 345"):
        ss.simulate(GRR(1.0, 3), data, delta=1e-6, seed=0)


def test_one_user_and_callers_data():
    data = np.array([1], dtype=np.int64)
    result = ss.simulate(GRR(1.0, 2), data, delta=1e-6, seed=0)
    assert result.n == 1
    assert float(result.privacy.loc[0, "epsilon"]) <= 1.0
    assert data.tolist() == [1]


def test_a_randomizer_is_a_one_message_protocol():
    with pytest.raises(ValueError, match="randomizer must be a Randomizer, got 3"):
        SingleMessage(3)
    direct = ss.simulate(GRR(1.0, 3), [0, 1, 2] * 10, delta=1e-6, seed=4)
    wrapped = ss.simulate(SingleMessage(GRR(1.0, 3)), [0, 1, 2] * 10, delta=1e-6, seed=4)
    assert np.array_equal(direct.estimate, wrapped.estimate)


@pytest.mark.parametrize(
    ("column", "domain", "message"),
    [
        ([], None, "at least one value"),
        (["a", None], None, "no missing values, got 1, the first at position 1"),
        ([1.5, math.nan], None, "no missing values"),
        (["a", "a"], None, "at least 2 categories"),
        (["a", 1], None, "labels of one type"),
        (["a", "c"], ["a", "b"], "every value must be in the domain, got 'c' at position 1"),
        ([1, 5], [1, 2], "every value must be in the domain, got 5 at position 1"),
        (["a", "a"], {"a"}, "domain must be a one-dimensional sequence of labels, got set"),
        (["a", "b"], "ab", "domain must be a one-dimensional sequence of labels, got str"),
        (["a", "b"], 5, "domain must be a one-dimensional sequence of labels, got int"),
        ([["a"], ["b"]], None, "column must be a one-dimensional sequence of labels, got list"),
        (["a"], ["a", "a"], "distinct labels"),
        (["a"], ["a", None], "distinct labels"),
    ],
    ids=repr,
)
def test_columns_are_encoded_strictly(column, domain, message):
    with pytest.raises(ValueError, match=message):
        ss.categorical(column, domain)


def test_a_public_domain_fixes_the_order():
    column = pd.Categorical(["b", "a"], categories=["b", "a"])
    assert ss.categorical(column, ["a", "b", "c"]).cat.codes.tolist() == [1, 0]
    assert ss.categorical(pd.to_datetime(["2020-01-02", "2020-01-01"])).cat.codes.tolist() == [1, 0]
    assert ss.categorical([2.5, -1.0, 2.5]).cat.categories.tolist() == [-1.0, 2.5]


def test_a_billion_users_as_counts():
    """GRR, RAPPOR, OUE, Hadamard response at n = 1e9: estimates within 6 standard errors, a false alarm of 1e-6 in all."""
    counts = np.full(128, 10**9 // 128)
    counts[0] += 10**9 - counts.sum()
    for mechanism in (GRR(1.0, 128), RAPPOR(1.0, 128), OUE(1.0, 128), HadamardResponse(1.0, 128)):
        result = ss.simulate(mechanism, ss.Counts(counts), delta=1e-9, seed=4, method="counts")
        assert result.n == 10**9
        assert result.truth.tolist() == counts.tolist()
        assert np.all(np.abs(result.estimate - counts) < 6 * np.sqrt(result.variance))


def test_counts_are_the_data_that_they_count():
    data = np.repeat([0, 1, 2], [50, 30, 20])
    same = [ss.simulate(GRR(1.0, 3), d, delta=1e-6, seed=1, method="counts") for d in (data, ss.Counts([50, 30, 20]))]
    assert np.array_equal(same[0].estimate, same[1].estimate)


def test_as_many_users_as_there_may_be():
    """Sums of digits are beyond 64-bit integers."""
    data = ss.Counts([5 * 10**17, 5 * 10**17], values=[0.5, 0.75])
    for protocol in (RecursiveSum((1000,), (0.5,)), BinaryExpansionMean(4.0, 4)):
        (row,) = ss.simulate(protocol, data, delta=1e-6, seed=1, method="counts").estimates.to_dict("records")
        assert abs(row["estimate"] - 0.625) < 6 * row["stderr"] < 1e-8


@pytest.mark.parametrize("protocol", [UniformCoins(10**6), FakeUsers(2, 0.2, 10**6), NegativeBinomialCount(1e6, 1 - 1e-12, 1)])
def test_more_messages_than_can_be_counted_are_refused(protocol):
    with pytest.raises(ValueError, match=r"n must be such that there are at most 2\^62 messages, got 1000000000000000000 users"):
        ss.simulate(protocol, ss.Counts([0, 10**18]), delta=1e-6, seed=1, method="counts")


@pytest.mark.parametrize(
    "protocol", [FakeUsers(2**20, 0.2, 10**5), NegativeBinomialCount(10.0, 1 - 1e-9, 10), CorrelatedCount(1e-9, 10.0, 0.5, 1)]
)
def test_users_whose_messages_do_not_fit_in_memory_are_refused(protocol):
    with pytest.raises(ValueError, match=r"method must be 'counts' for .* numbers .*, got 'users'"):
        ss.simulate(protocol, [0, 1], delta=1e-6, seed=1)


@pytest.mark.parametrize("protocol", [NegativeBinomialCount(44.0, 0.9999, 10), CorrelatedCount(1e-4, 10.0, 0.9, 10)])
def test_blocks_are_small_where_users_send_many_messages(protocol, monkeypatch):
    """440,000 (22,000) messages of 10 users; a block has what would be 2^16 numbers."""
    monkeypatch.setattr(simulation, "BLOCK_DRAWS", 2**16)
    encoded = []
    encode = type(protocol).encode
    monkeypatch.setattr(type(protocol), "encode", lambda self, v, rng: encoded.append(len(v)) or encode(self, v, rng))
    ss.simulate(protocol, [0, 1] * 10, delta=1e-6, seed=1)
    assert max(encoded) * protocol.messages_per_user < 2**17


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1.0, 2.0], "counts must be at least 2 integers >= 0"),
        ([-1, 2], "counts must be integers >= 0, got -1 at position 0"),
        ([3], "counts must be at least 2 integers >= 0"),
        ([0, 0], "n must be an integer >= 1, got 0"),
        ([10**18, 10**18], "n must be at most 1e[+]18"),
        (np.array([2**64 - 1, 10], dtype=np.uint64), "counts must be at most 1e[+]18, got 18446744073709551615 at position 0"),
        ("ab", "counts must be at least 2 integers >= 0"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        ss.Counts(counts)
    with pytest.raises(ValueError, match="a count for each category of Categories"):
        ss.simulate(GRR(1.0, 3), ss.Counts([1, 2]), delta=1e-6, seed=0, method="counts")
    with pytest.raises(ValueError, match="method must be 'counts' for data given as Counts, got 'users'"):
        ss.simulate(GRR(1.0, 2), ss.Counts([1, 2]), delta=1e-6, seed=0)
