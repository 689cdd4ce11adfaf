"""The discussion of the paper: clone probabilities and errors by their formulas, distances, messages, verdicts."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import shufflesim as ss
from shufflesim.paper import discussion, distance, messages
from shufflesim.paper.piece import Case, Reproduction
from shufflesim.protocols import BallsIntoBins, PureDUMP


def part(piece, *wanted):
    cases = [case for case in piece.cases if any(wish.items() <= dict(case).items() for wish in wanted)]
    assert cases
    return Reproduction(piece, pd.DataFrame([row for case in cases for row in Case(piece, case).rows()]))


@pytest.fixture(scope="module")
def clones():
    names = ("GRR", "OUE", "RAPPOR", "Laplace", "Piecewise", "Duchi, 1 number", "Harmony, 8 numbers")
    return part(discussion.CLONES, *({"randomizer": name} for name in names))


# 2 beta/(E - 1) with the total variations of mechanisms.md; S is the root of E.
CLONES = {
    "GRR": lambda E, S: 2 / (E + 63),
    "OUE": lambda E, S: 1 / (E + 1),
    "RAPPOR": lambda E, S: 2 / (S + 1) ** 2,
    "Laplace": lambda E, S: 2 / (S * (S + 1)),
    "Piecewise": lambda E, S: 2 / (S * (S + 1)),
    "Duchi, 1 number": lambda E, S: 2 / (E + 1),
    "Harmony, 8 numbers": lambda E, S: 2 / (E + 1),
}
BLANKETS = {
    "GRR": lambda E, S: 64 / (E + 63),
    "Piecewise": lambda E, S: 1 / S,
    "Duchi, 1 number": lambda E, S: 2 / (E + 1),
}


def test_clone_probabilities_are_those_of_their_total_variations(clones):
    for row in clones.table.to_dict("records"):
        E, S = math.exp(row["epsilon0"]), math.exp(row["epsilon0"] / 2)
        assert row["clones"] == pytest.approx(CLONES[row["randomizer"]](E, S), rel=1e-9)
        if row["randomizer"] in BLANKETS:
            assert row["blanket"] == pytest.approx(BLANKETS[row["randomizer"]](E, S), rel=1e-9)
        assert (row["stronger_clone"], row["clone"]) == pytest.approx((2 / (E + 1), 1 / E))
        if row["randomizer"] == "Laplace":
            assert row["blanket"] is None or math.isnan(row["blanket"])


def test_verdicts_and_picture_of_clones(clones):
    below, above, more, hidden = clones.findings
    assert below.verdict == hidden.verdict == "holds"
    assert 0 < above.good < above.of == 70
    assert more.good < 0.1 * more.of
    # Planted: amplification that grows with the clones, and a randomizer with more of them than is possible.
    table = clones.table.assign(amplification_ratio=clones.table["clones"], clones=1.1 * clones.table["clones"])
    assert [f.verdict for f in Reproduction(discussion.CLONES, table).findings][2] == "holds"
    assert Reproduction(discussion.CLONES, table).findings[0].good < below.good
    labels = [text.get_text() for ax in clones.plot().axes if ax.get_legend() for text in ax.get_legend().get_texts()]
    assert set(CLONES) <= set(labels)


def test_pairs_in_the_same_order():
    table = pd.DataFrame({"k": [1, 1, 1, 2, 2], "a": [1.0, 2, 3, 1, 2], "b": [1.0, 2, 2.0001, 5, 4]})
    # Within 1: (1,2) and (1,3) agree, (2,3) does not differ in b; within 2: the one pair disagrees.
    assert discussion.concordant(table, ["k"], "a", "b") == (2, 3)


def test_errors_are_those_of_the_formulas():
    E, n = math.exp(2.0), discussion.USERS
    a, b = E / (E + 63), 1 / (E + 63)
    (grr,) = discussion.utility_rows("GRR", "local", 2.0)
    assert grr["mse"] == pytest.approx((a * (1 - a) / 64 + 63 / 64 * b * (1 - b)) / (a - b) ** 2 / n, rel=1e-9)
    (laplace,) = discussion.utility_rows("Laplace", "local", 2.0)
    # Noise of scale 2/eps on [-1, 1].
    assert laplace["mse"] == pytest.approx(2 * (2 / 2.0) ** 2 / n, rel=1e-9)
    (duchi,) = discussion.utility_rows("Duchi, 1 number", "local", 2.0)
    # Reports of +-(E+1)/(E-1), whose mean is the number; the mean square of even numbers in [-1, 1] is 1/3.
    assert duchi["mse"] == pytest.approx((((E + 1) / (E - 1)) ** 2 - 1 / 3) / n, rel=2e-3)


@pytest.mark.parametrize("name", ["GRR", "Piecewise"])
def test_a_central_eps_is_met_by_the_largest_budget(name):
    (row,) = discussion.utility_rows(name, "central", 0.3)
    assert 0.3 * (1 - 1e-5) < row["central"] <= 0.3
    (further,) = discussion.utility_rows(name, "local", row["epsilon0"] * 1.01)
    assert further["central"] > 0.3
    assert further["mse"] < row["mse"]


def test_verdicts_and_picture_of_utility():
    rows = [
        {
            "kind": "k",
            "randomizer": name,
            "fixed": fixed,
            "value": value,
            "central": value,
            "amplification_ratio": ratio,
            "mse": mse,
        }
        for fixed in ("local", "central")
        for value in (0.1, 1.0)
        for name, ratio, mse in (("A", 9.0, 1.0), ("B", 5.0, 2.0 if fixed == "central" or value == 1.0 else 0.5))
    ]
    found = Reproduction(discussion.UTILITY, pd.DataFrame(rows))
    assert [f.verdict for f in found.findings] == ["holds", "holds in 1 of 2", "holds"]
    assert "A at 0.1, A at 1" in found.findings[0].found
    # The other one is best at one of the two.
    other = found.table["mse"].where((found.table["randomizer"] != "B") | (found.table["value"] < 1), 0.1)
    assert Reproduction(discussion.UTILITY, found.table.assign(mse=other)).findings[0].verdict == "holds in 1 of 2"
    assert len(found.plot().axes) == 2


def kilometres(one, other):
    """On the great circle, radius 6371 km."""
    (a, b), (c, d) = (np.radians(distance.airports()[code]) for code in (one, other))
    return 6371 * math.acos(math.sin(a) * math.sin(c) + math.cos(a) * math.cos(c) * math.cos(b - d))


@pytest.fixture(scope="module")
def near():
    return part(distance.DISTANCE, *({"pair": "JFK-PHL", "half_width": w} for w in (150, 600, 1300)))


def test_distances_are_those_on_the_map(near):
    scale = near.table["d01"] / distance.PER_KM
    assert scale.tolist() == pytest.approx([kilometres("JFK", "PHL")] * len(scale), rel=0.01)
    for (pair, width), rows in near.table.groupby(["pair", "half_width"]):
        # From a point inside, the farthest corner is beyond the half width and within the diagonal; d_max adds half of d01.
        assert width * distance.PER_KM < rows["d_max"].iloc[0] < 2 * math.sqrt(2) * width * distance.PER_KM
        area = distance.region(width)
        assert area.sides == pytest.approx((2 * width, 2 * width))
        assert all(code in inside_of(area) for code in pair.split("-"))
        assert rows["airports"].tolist() == [len(inside_of(area))] * len(rows)


def inside_of(area):
    table = ss.datasets.load("airports")
    x, y = np.abs(area.project(table[["lat", "lon"]].to_numpy())).T
    return set(table["faa"][(x <= area.sides[0] / 2) & (y <= area.sides[1] / 2)])


def test_bounds_of_two_airports_are_in_their_order(near):
    wide = near.table.pivot_table(index="half_width", columns="bound", values="central")
    assert (wide["lower"] < wide["sound"]).all()
    some = wide.loc[[150, 600]]
    assert (some["sound"] < some["three-outcome"]).all()
    assert (some["three-outcome"] < some["earlier"]).all()
    assert (wide.diff().dropna() > 0).all(axis=None)
    # 2r of the declaration: the total variation of d01, by mechanisms.md about d01/pi for points this near, within 15%.
    row = near.table.iloc[0]
    p = math.exp(row["d01"])
    assert row["clones"] == pytest.approx(2 * row["d01"] / math.pi * p / (p - 1) * math.exp(-row["d_max"]), rel=0.15)


def test_the_earlier_clones_have_the_earlier_probability():
    x = ss.PlanarLaplacePair(0.5, 2.0)
    found = distance.earlier_clones(x)
    assert found.r0 + found.r1 == pytest.approx(x.clone_probabilities[1], rel=1e-12)
    assert found.omega == 0
    # Farthest on the line through both: e^2 + e^1.5.
    assert x.clone_probabilities[1] == pytest.approx(2 / (math.exp(2) + math.exp(1.5)), rel=1e-6)


def test_verdicts_and_picture_of_distances(near):
    assert [f.verdict for f in near.findings] == ["holds", "holds", "holds", "does not hold", "holds"]
    # Planted: a larger region that amplifies more.
    turned = near.table.assign(amplification_ratio=near.table["d_max"])
    assert Reproduction(distance.DISTANCE, turned).findings[0].verdict == "does not hold"
    figure = near.plot()
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["150\n5", "600\n26", "1300\n56"]
    assert "No pair is proved" in near.text.replace("\n", " ")


def test_messages_of_the_papers_are_their_formulas():
    """protocols.md: 32 ln(2/delta) d/eps^2 balls; 33/5 coth^2(eps/2) ln(4/delta) <= n k/4 for k fakes."""
    n, delta = messages.USERS, 1e-7
    for target in (0.05, 0.5):
        balls = messages.made("balls into bins", "original", target)
        assert balls.messages_per_user == pytest.approx(1 + 32 * math.log(2 / delta) * 16 / target**2 / n)
        fakes = math.ceil(4 * 33 / 5 / n / math.tanh(target / 2) ** 2 * math.log(4 / delta))
        assert messages.made("fake users", "original", target).messages_per_user == 1 + fakes
        coins = math.ceil(20 / math.tanh(target / 2) ** 2 * math.log(2 / delta) / n)
        assert messages.made("uniform coins, one bit", "original", target).messages_per_user == 1 + coins


@pytest.fixture(scope="module")
def sent():
    names = ("balls into bins", "pureDUMP", "mixDUMP", "biased coins", messages.ONE_BIT, messages.SINGLE)
    return part(messages.MESSAGES, *({"protocol": name, "target": target} for name in names for target in (0.02, 0.1)))


def test_promises_are_kept_with_the_fewest_dummies(sent):
    known = sent.table.dropna(subset="messages").set_index(["protocol", "way", "target"])
    assert (known["central"] <= known.index.get_level_values("target")).all()
    count = known["messages"]
    # With a little less noise they are broken. The variance of a count is E[D] (1/d)(1 - 1/d) for D dummies.
    assert float(ss.epsilon(PureDUMP(16, round(count["pureDUMP", "for_target", 0.02]) - 2), 10**5, 1e-7)) > 0.02
    dummies = count["balls into bins", "for_target", 0.1] - 1
    assert float(ss.epsilon(BallsIntoBins(16, 0.99 * dummies), 10**5, 1e-7)) > 0.1
    error = known["rmse"]["balls into bins", "for_target", 0.1]
    assert error == pytest.approx(math.sqrt(1e5 * dummies * 15 / 256), rel=1e-6)
    assert (count[messages.SINGLE] == 1).all()


def test_what_does_not_apply_is_left_out_and_said(sent):
    table = sent.table.set_index(["protocol", "way", "target"])
    assert table["note"]["mixDUMP", "original", 0.02].startswith("dummies must be enough for epsilon=0.02")
    assert table["note"]["biased coins", "original", 0.1].startswith("n must be at least 100 ln(2/delta)/eps^2")
    missing = table["messages"].isna()
    assert (missing == (table["note"] != "")).all()
    assert (messages.SINGLE, "original", 0.1) not in table.index
    assert json.loads(json.dumps(sent.table.where(sent.table.notna(), None).to_dict("records")))


def test_verdicts_and_picture_of_messages(sent):
    saved, kept, fewer, smaller, several = sent.findings
    assert kept.verdict == several.verdict == "holds"
    assert 0 < saved.good <= saved.of == fewer.of == smaller.of == 7
    # Planted: the papers' calibrations that promise too much.
    table = sent.table.assign(central=sent.table["central"].where(sent.table["way"] == "for_target", 9.0))
    assert [f.verdict for f in Reproduction(messages.MESSAGES, table).findings][:2] == ["does not hold"] * 2
    (legend,) = sent.plot().legends
    assert "the protocol's own paper" in [text.get_text() for text in legend.get_texts()]
