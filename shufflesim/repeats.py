"""Many runs of one protocol on the same data: bias, mean squared error against theory, coverage of the intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .domains import Array
from .protocol import Protocol

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Repeats:
    """What independent runs of a protocol on the same data gave.

    Attributes
    ----------
    protocol : Protocol
        What was run.
    n, delta, confidence : int, float, float
        As asked for.
    labels, truth, variance : ndarray, shape (k,)
        Values, true targets, and the exact variance of their estimates.
    error_sum, square_sum, covered : ndarray, shape (k,)
        Sums over the runs of the errors and of their squares, and the number of intervals that hold the truth.
    rmses : ndarray, shape (repeats,)
        Root of the mean squared error over the values, run by run.
    entropy, spawn_key : int, tuple
        The seed; run r has its child r.

    Examples
    --------
    >>> import shufflesim as ss
    >>> runs = ss.simulate(ss.mechanisms.GRR(2.0, 3), [0, 1, 2, 2] * 50, delta=1e-6, seed=1, repeats=200)
    >>> bool(abs(runs.summary.loc[0, "mse_ratio"] - 1) < 0.2), bool(runs.summary.loc[0, "coverage"] > 0.9)
    (True, True)
    """

    protocol: Protocol
    n: int
    delta: float
    confidence: float
    labels: Array
    truth: Array
    variance: Array
    error_sum: Array
    square_sum: Array
    covered: Array
    rmses: Array
    entropy: Any
    spawn_key: tuple[int, ...]

    @property
    def repeats(self) -> int:
        """Number of runs."""
        return int(self.rmses.size)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a value: value, truth, bias, bias_z, mse, variance, coverage.

        bias is the mean error, bias_z the same in units of its exact standard deviation: about standard normal for an unbiased
        estimate. mse is the mean squared error, to be compared with `variance`.
        """
        import pandas as pd

        bias = self.error_sum / self.repeats
        spread = np.sqrt(self.variance / self.repeats)
        return pd.DataFrame(
            {
                "value": self.labels,
                "truth": self.truth,
                "bias": bias,
                "bias_z": np.divide(bias, spread, out=np.zeros_like(bias), where=spread > 0),
                "mse": self.square_sum / self.repeats,
                "variance": self.variance,
                "coverage": self.covered / self.repeats,
            }
        )

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row: protocol, n, repeats, rmse, expected_rmse, mse_ratio (1 in theory), largest_bias_z, coverage, confidence."""
        import pandas as pd

        mse, expected = float(self.square_sum.mean()) / self.repeats, float(self.variance.mean())
        return pd.DataFrame(
            {
                "protocol": [self.protocol.name],
                "n": [self.n],
                "repeats": [self.repeats],
                "rmse": [math.sqrt(mse)],
                "expected_rmse": [math.sqrt(expected)],
                "mse_ratio": [mse / expected if expected > 0 else math.nan],
                "largest_bias_z": [float(self.table["bias_z"].abs().max())],
                "coverage": [float(self.covered.mean()) / self.repeats],
                "confidence": [self.confidence],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distribution of the runs' root mean squared errors, with the one that theory expects.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from matplotlib.figure import Figure

        if ax is None:
            ax = Figure(figsize=(7.0, 4.0), layout="constrained").add_subplot()
        ax.hist(self.rmses, bins="auto", color="#c9d6e3", edgecolor="#44617d")
        expected = math.sqrt(float(self.variance.mean()))
        ax.axvline(expected, color="#b3450b", label=f"expected {expected:.4g}")
        ax.set(xlabel="root mean square error of a run", ylabel="runs")
        ax.set_title(f"{self.protocol.name}, {self.n:,} users, {self.repeats:,} runs", fontsize="medium", wrap=True)
        ax.legend()
        return ax

    def __repr__(self) -> str:
        return f"Repeats({self.protocol.name}, n={self.n}, repeats={self.repeats})"

    def _repr_html_(self) -> str:
        return str(self.summary.to_html(index=False))
