"""Pictures of several simulations."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure

import shufflesim as ss
from shufflesim import plots
from shufflesim.mechanisms import GRR, OUE, Laplace
from shufflesim.protocols import BallsIntoBins

CODES = np.repeat([0, 1, 2], [600, 300, 100])


def simulate(protocol, data=CODES):
    return ss.simulate(protocol, data, delta=1e-6, seed=3)


@pytest.fixture(scope="module")
def results():
    counts = [simulate(p) for p in (GRR(2.0, 3), OUE(2.0, 3), BallsIntoBins(3, 1), GRR(1.0, 3))]
    return [*counts, simulate(Laplace(2.0, 0, 2), CODES.astype(float))]


def test_one_panel_a_simulation_with_its_errors_in_the_title(results):
    figure = plots.overview(results)
    titles = [ax.get_title() for ax in figure.axes]
    assert len(titles) == len(results)
    for title, result in zip(titles, results, strict=True):
        assert title.replace("\n", " ").startswith(result.protocol.name)
        assert f"RMSE {result.rmse:.4g}, expected {result.expected_rmse:.4g}" in title


def test_points_are_the_estimates_and_bars_the_intervals(results):
    figure = plots.overview(results[:1])
    rows = results[0].estimates
    points, _, (bars,) = figure.axes[0].containers[0]
    assert points.get_xdata().tolist() == rows["truth"].tolist()
    assert points.get_ydata().tolist() == rows["estimate"].tolist()
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(rows[["ci_low", "ci_high"]].to_numpy())


def test_panels_of_the_same_users_share_a_scale_that_holds_every_interval(results):
    axes = plots.overview(results).axes
    limits = {ax.get_ylim() for ax in axes[:4]} | {ax.get_xlim() for ax in axes[:4]}
    assert len(limits) == 1
    low, high = limits.pop()
    assert all(low < r.estimates["ci_low"].min() and high > r.estimates["ci_high"].max() for r in results[:4])
    other = plots.overview([results[0], simulate(GRR(2.0, 3), CODES[:50])]).axes
    assert other[0].get_ylim() != other[1].get_ylim()


def test_a_mean_is_drawn_against_the_true_mean(results):
    (ax,) = plots.overview(results[-1:]).axes
    assert ax.get_lines()[0].get_ydata()[0] == pytest.approx(CODES.mean())
    low, high = ax.get_ylim()
    assert low < results[-1].estimates["ci_low"][0] < results[-1].estimates["ci_high"][0] < high


def test_the_most_frequent_values_are_drawn_where_there_are_many(monkeypatch, results):
    monkeypatch.setattr(plots, "POINTS", 2)
    points = plots.overview(results[:1]).axes[0].containers[0][0]
    assert points.get_xdata().tolist() == [600, 300]


@pytest.mark.parametrize("epsilons", [(0.5, 1.0, 2.0), (0.5,)])
def test_every_line_of_amplification_is_its_own(epsilons):
    lines = plots.amplification([GRR(e, 8) for e in epsilons], 2000, 1e-6).get_lines()
    assert len(lines) > 10
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines)
    assert all(line.get_marker() not in ("", "None") for line in lines)


@pytest.mark.parametrize("given", [False, True])
def test_the_legend_of_amplification_is_beside_the_axes(given):
    ax = Figure(figsize=(9, 5), layout="constrained").subplots() if given else None
    ax = plots.amplification(GRR(1.0, 8), [100, 1000], 1e-6, ax=ax)
    ax.figure.draw_without_rendering()
    legend = ax.get_legend() or ax.figure.legends[0]
    inside, whole = ax.get_window_extent(), ax.figure.bbox
    box = legend.get_window_extent()
    assert not inside.overlaps(box)
    assert whole.x0 <= box.x0 <= box.x1 <= whole.x1
    assert whole.y0 <= box.y0 <= box.y1 <= whole.y1
    assert inside.height > 0.4 * whole.height
    assert inside.width > 0.3 * whole.width


def test_labels_beyond_the_font_are_written_as_escapes():
    """A glyph that is missing is a warning of matplotlib, which the tests turn into an error."""
    column = ss.categorical(["東京", "Zürich", "a\tb", "$x$", "\U00020000"] * 40)
    ax = ss.simulate(GRR(2.0, 5), column, delta=1e-6, seed=1).plot()
    ax.figure.savefig(io.BytesIO(), format="png")
    names = {text.get_text() for text in ax.get_xticklabels()}
    assert names == {r"\u6771\u4eac", "Zürich", r"a\tb", r"\$x\$", r"\U00020000"}


def test_pyplot_is_not_involved_and_the_picture_can_be_written(results):
    import sys

    figure = plots.overview(results)
    target = io.BytesIO()
    figure.savefig(target, format="png")
    assert target.getvalue().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_no_simulation_is_refused():
    with pytest.raises(ValueError, match="simulations must hold at least one result, got none"):
        plots.overview([])
