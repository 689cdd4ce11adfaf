"""Figures and tables of the paper: the numbers that are known otherwise, the claims, the files, what is kept in a folder."""

import json
import math
import os
import re
import signal

import numpy as np
import pandas as pd
import pytest

from shufflesim import paper
from shufflesim._cluster import WorkerLostError
from shufflesim._resumable import ROWS_FILE, resume
from shufflesim.bounds import VariationRatio, epsilon
from shufflesim.mechanisms import GRR
from shufflesim.paper import amplification, extra, speed
from shufflesim.paper.piece import Case, Finding, Piece, Reproduction, spread

from .cli_helpers import call, ok, refused

# protocols.md, section 6.2: eps of the exact pair, to five digits.
FIGURE_3 = {(10**4, 0.5): 0.07058, (10**4, 1.0): 0.22613, (10**4, 2.0): 0.42013, (10**5, 0.3): 0.07074, (10**5, 0.5): 0.12994}
FIGURE_3 |= {(10**5, 1.0): 0.26318, (10**6, 0.1): 0.02364, (10**6, 0.5): 0.14092, (10**6, 1.0): 0.27614}
FIGURE_4 = {(10**5, 16, 0.1): 0.02324, (10**5, 16, 0.5): 0.12783, (10**5, 16, 1.0): 0.26700, (10**5, 16, 2.0): 0.56856}
FIGURE_4 |= {(10**6, 1024, 0.1): 0.02465, (10**6, 1024, 0.5): 0.13323, (10**6, 1024, 1.0): 0.27662}


def part(piece: Piece, *wanted: dict) -> Reproduction:
    """A piece of only some of its cases."""
    cases = [case for case in piece.cases if any(wish.items() <= dict(case).items() for wish in wanted)]
    assert cases
    return Reproduction(piece, pd.DataFrame([row for case in cases for row in Case(piece, case).rows()]))


def test_some_cases_alone():
    found = extra.BALLS.reproduce(n=10**5, d=16, target=0.5)
    assert found.table["target"].unique().tolist() == [0.5]
    with pytest.raises(ValueError, match=r"wanted must be arguments of a case of fig4, got {'n': 5}; there are {'n': \[10000, 1"):
        extra.BALLS.reproduce(n=5)
    with pytest.raises(ValueError, match="wanted must be arguments of a case of fig3 that has rows, got"):
        extra.FAKE_USERS.reproduce(n=10**4, target=0.1)
    with pytest.raises(ValueError, match="wanted must be arguments of a case of fig4, got"):
        extra.BALLS.reproduce(n=np.array([1, 2]))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("discussion-distance", {"pair": "JFK-LGA", "half_width": 150}), ("discussion-messages", {"target": 1.0})],
)
def test_the_findings_of_a_few_cases(name, wanted):
    found = paper.PIECES[name].reproduce(**wanted)
    assert found.findings
    assert "nan" not in found.text


@pytest.fixture(scope="module")
def figure_4():
    return part(extra.BALLS, {"n": 10**5, "d": 16}, {"n": 10**6, "d": 1024})


def test_figure_3_has_the_known_numbers():
    cases = [{"n": n, "target": target} for n, target in FIGURE_3]
    found = part(extra.FAKE_USERS, *cases).table
    sound = found[found["bound"] == "sound"].set_index(["n", "target"])["epsilon"]
    assert {key: round(value, 5) for key, value in sound.items()} == pytest.approx(FIGURE_3, abs=1.01e-5)
    ratio = found[found["bound"] == "sound"].set_index(["n", "target"])["extra_ratio"]
    assert ratio[10**4, 0.5] == pytest.approx(7.08, abs=0.01)
    # The original analysis needs more than one fake a user there.
    assert extra.fake_users(10**4, 0.4) == []
    published = found[found["bound"] == "published"].set_index(["n", "target"])["epsilon"]
    assert (published < sound).all()
    assert published[10**4, 1.0] == pytest.approx(0.22597, abs=1e-5)


def test_figure_4_has_the_known_numbers_and_says_what_holds(figure_4):
    table = figure_4.table
    sound = table[table["bound"] == "sound"].set_index(["n", "d", "target"])["epsilon"]
    assert {key: round(float(sound[key]), 5) for key in FIGURE_4} == pytest.approx(FIGURE_4, abs=1.01e-5)
    about_75, half, published = figure_4.findings
    assert about_75.verdict == "holds"
    # Up to eps' = 1, where the authors' script ends.
    assert (half.good, half.of) == (20, 20)
    assert "beyond, up to eps' = 2, 46." in half.found
    assert published.verdict == "holds"
    assert "0 of 40 points" in published.found
    # Planted: half the points save nothing.
    spoilt = table.assign(epsilon=table["epsilon"].where(table["d"] == 16, table["target"]))
    assert Reproduction(extra.BALLS, spoilt).findings[0].verdict == "holds in 20 of 40"


def test_figure_1_where_published_upper_and_lower_bound_are_known():
    # k = 1 from eps0 = 3 on at d = 16: the mechanism is GRR, whose lower bound is the sound one but for the last digits.
    found = part(amplification.SUBSET, {"n": 10**4, "d": 16, "epsilon": 4.0}, {"n": 10**4, "d": 16, "epsilon": 1.0})
    wide = found.table.pivot_table(index="epsilon", columns="bound", values="central")
    assert wide.loc[4.0, "lower"] > wide.loc[4.0, "published"]
    assert wide.loc[4.0, "lower"] <= wide.loc[4.0, "sound"] < wide.loc[4.0, "lower"] * 1.0001
    assert (wide["sound"] < wide[list(amplification.EARLIER)].min(axis=1)).all()
    assert found.table.groupby("epsilon")["choice"].first().tolist() == [4, 1]
    tight, upper, above = found.findings[2:]
    assert (tight.good, tight.of, above.verdict) == (1, 1, "holds")
    # Proved nowhere, refuted where k = 1.
    assert upper.verdict == "does not hold"
    assert "a proved lower bound refutes it at 1, and" in upper.found
    assert "blanket-bennett at 1 of 2 points" in found.findings[0].found
    # Planted: an upper bound below the lower one is noticed.
    spoilt = found.table.assign(central=found.table["central"].where(found.table["bound"] != "sound", 1e-3))
    assert Reproduction(amplification.SUBSET, spoilt).findings[-1].verdict == "does not hold"


def test_what_figures_1_and_2_draw_is_in_a_bound_table():
    found = part(amplification.LOCAL_HASH, {"n": 10**4, "d": 16, "epsilon": 0.25}).table
    assert {name for name, *_ in amplification.DRAWN} | set(amplification.EARLIER) <= set(found["bound"])


def test_figure_2_has_the_papers_row_of_one_fixed_hash():
    # theory.md, section 9: upper = lower to 1e-3 for l = e^eps0 + 1 > 2. The row is GRR on l values.
    found = part(amplification.LOCAL_HASH, {"n": 10**4, "d": 128, "epsilon": 2.0}, {"n": 10**4, "d": 128, "epsilon": 0.25})
    wide = found.table.pivot_table(index="epsilon", columns="bound", values="central")
    assert found.table.groupby("epsilon")["choice"].first().tolist() == [2, 8]
    assert wide.loc[2.0, "sound, fixed hash"] == float(epsilon(GRR(2.0, 8), 10**4, 1e-6))
    assert wide.loc[2.0, "sound"] < wide.loc[2.0, "sound, fixed hash"]
    coincide, drawn = found.findings[2:4]
    assert (coincide.good, coincide.of) == (1, 1)
    assert (drawn.good, drawn.of) == (0, 2)


def test_ratios_of_the_table():
    found = part(amplification.LOCAL_HASH, {"n": 10**4, "d": 16, "epsilon": 0.25}).table
    assert (found["amplification_ratio"] * found["central"]).tolist() == pytest.approx([0.25] * len(found))


def test_algorithm_1_is_the_published_bound():
    # theory.md, section 3: 9/125 for GRR on three options among three users, e^eps0 = 3, e^eps = 2.
    x = VariationRatio(3.0, 0.4, 3.0)
    assert speed.algorithm1_part(x, 3, math.log(2), speed._chunk(0, 3)) == pytest.approx(9 / 125, rel=1e-12)
    low, high = speed.algorithm1(x, 3, 9 / 125 * (1 + 1e-9), 12)
    assert low <= math.log(2) <= high
    assert high - low == pytest.approx(math.log(3) / 2**12)


def test_table_5_measures_both():
    (row,) = speed.rows(1000, 10)
    assert row["algorithm1"] == "in full"
    assert row["inside"] is True
    assert min(row["algorithm1_seconds"], row["published_seconds"], row["sound_seconds"]) > 0
    assert "cores" in row["machine"]


def test_the_judgement_of_table_5():
    times = {10**4: 0.5, 10**5: 1.0, 10**6: 10.0, 10**7: 300.0}
    table = pd.DataFrame(
        [
            {"n": n, "bisections": t, "algorithm1_seconds": s * t / 10, "algorithm1": "in full" if n < 10**6 else "scaled"}
            | {"inside": n < 10**6, "published_seconds": 0.01, "sound_seconds": 0.02 * t / 10, "machine": "m"}
            for n, s in times.items()
            for t in (10, 20)
        ]
    )
    linear, fast, inside = speed.judge(table)
    # 1e5 over 1e4 users, twice; what was scaled is no evidence.
    assert (linear.good, linear.of) == (0, 2)
    assert "n = 1e+07: 300 and 600 s (*)" in linear.found
    assert (fast.good, fast.of) == (8, 8)
    assert inside.verdict == "holds"


@pytest.mark.parametrize(
    ("good", "of", "verdict"),
    [(3, 3, "holds"), (0, 3, "does not hold"), (1, 3, "mostly fails, holds in 1 of 3"), (2, 3, "holds in 2 of 3")],
)
def test_verdicts(good, of, verdict):
    assert Finding("c", "f", good, of).verdict == verdict


def test_spread():
    assert spread([1, 2, 4], "%") == "1% to 4%, median 2%"
    assert spread([2.0, 2.0]) == "2"
    assert spread([]) == "nothing"


@pytest.mark.parametrize("piece", paper.PIECES.values(), ids=lambda p: p.name)
def test_every_piece_is_named_and_its_cases_differ(piece):
    keys = [Case(piece, arguments).key for arguments in piece.cases]
    assert len(set(keys)) == len(keys) > 1
    assert re.fullmatch(r"(fig\d|table5|discussion)(-[a-z]+)?", piece.name)
    assert piece in paper.chosen(piece.name.partition("-")[0])


def test_chosen_gives_each_piece_once_in_order():
    assert [p.name for p in paper.chosen("fig2", "fig1", "fig2")] == ["fig2", "fig1"]
    assert paper.chosen("all") == [*paper.PIECES.values()]
    with pytest.raises(ValueError, match="names must be of figures, such as fig1, or all, got 'figure1'; did you mean 'fig1'"):
        paper.chosen("figure1")
    with pytest.raises(ValueError, match=r"names must be of figures, .* got \['fig1'\]"):
        paper.reproduce(["fig1"])
    with pytest.raises(ValueError, match=r"names must be of figures, .* got none"):
        paper.reproduce()
    for folder in ("", "nowhere"):
        with pytest.raises(ValueError, match=f"folder must be an existing folder, got '{folder}'"):
            paper.reproduce("fig3", folder=folder)


def test_files_are_the_same_bytes_again_and_say_what_was_found(figure_4, tmp_path):
    first = figure_4.save(tmp_path)
    kept = [path.read_bytes() for path in first]
    assert [path.name for path in figure_4.save(tmp_path)] == ["fig4.csv", "fig4.png", "fig4.pdf", "fig4.txt"]
    assert [path.read_bytes() for path in first] == kept
    assert sorted(tmp_path.iterdir()) == sorted(first)
    assert pd.read_csv(first[0]).shape == figure_4.table.shape
    text = first[3].read_text()
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("Claim: ") == len(figure_4.findings) == text.count("So the claim ")


class Counted:
    """A task that says how often it was done."""

    def __init__(self, key):
        self.key, self.done = key, 0

    def rows(self):
        self.done += 1
        return [{"key": self.key}]


def test_resume_does_each_key_once_and_keeps_the_order(tmp_path):
    plan = [Counted("b"), Counted("a"), Counted("b")]
    steps: list[int] = []
    assert [*resume(plan, tmp_path, progress=steps.append)] == [[{"key": k}] for k in "bab"]
    assert sum(task.done for task in plan) == 2
    assert (steps[0], steps[-1]) == (1, 3)
    assert [*resume([Counted("a")], tmp_path)] == [[{"key": "a"}]]
    with pytest.raises(ValueError, match="workers must be an integer >= 1, got 0"):
        resume(plan, tmp_path, workers=0)


CHANGES = ['"rows": []', '"rows": 5', '"rows": [[]]', '"rows": [{"key": NaN}]', '"key": [1]', "[" * 9999, "\udcff"]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_a_line_that_was_changed_is_done_again(tmp_path, change):
    assert [*resume([Counted("a"), Counted("b")], tmp_path)] == [[{"key": "a"}], [{"key": "b"}]]
    path = tmp_path / ROWS_FILE
    path.write_text(path.read_text().replace('"rows": [{"key": "a"}]', change), errors="surrogateescape")
    plan = [Counted("a"), Counted("b")]
    assert [*resume(plan, tmp_path)] == [[{"key": "a"}], [{"key": "b"}]]
    assert [task.done for task in plan] == [1, 0]


class Killed(Counted):
    """Ends its process."""

    def rows(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Unsendable(Counted):
    """Holds what no other process can have."""

    def __init__(self, key):
        super().__init__(key)
        self.held = lambda: None


def test_a_process_that_dies_is_reported(tmp_path):
    with pytest.raises(WorkerLostError, match="a process of the 2 workers has ended: it was killed, or could not import"):
        [*resume([Killed("a"), Killed("b")], tmp_path, workers=2)]
    with pytest.raises(ValueError, match="workers must be 1 for what cannot be sent to a process, got 2"):
        [*resume([Unsendable("a"), Unsendable("b")], tmp_path, workers=2)]


@pytest.mark.usefixtures("elsewhere")
def test_the_command_goes_on_where_it_was(monkeypatch, tmp_path):
    small = extra.BALLS.cases[:20]
    monkeypatch.setitem(paper.PIECES, "fig4", Piece("fig4", "Small", extra.balls, small, extra.draw, extra.judge))
    out = ok("reproduce", "fig4", "--out", "out").stdout
    assert "saved out/fig4.csv, .png, .pdf, .txt" in out
    assert "holds: about 75% of the budget" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 120
    lines = (tmp_path / "out" / ROWS_FILE).read_text()
    assert len(lines.splitlines()) == 20
    document = json.loads(ok("reproduce", "fig4", "--out", "out", "--json").stdout)
    assert (tmp_path / "out" / ROWS_FILE).read_text() == lines
    assert document["pieces"][0]["findings"][0]["verdict"] == "holds"


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig7", "--out", "out"], "names must be of figures, such as fig1, or all, got 'fig7'"),
        (["fig3", "--out", ""], "must be the name of a folder, got ''"),
        (["fig3"], "Missing option '--out'"),
        (["--out", "out"], "Missing argument"),
        (["fig3", "--out", "out", "--workers", "0"], "workers must be an integer >= 1, got 0"),
    ],
)
def test_bad_input(arguments, message):
    assert message in refused("reproduce", *arguments)


def test_help_has_an_example():
    assert "shufflesim reproduce all --out out/" in call("reproduce", "--help").stdout
