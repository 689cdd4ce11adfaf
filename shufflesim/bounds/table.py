"""The common currency of all bounds: a small table of likelihood ratios and a number of messages.

Source of the identity: theory of the privacy blanket, Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle
model", CRYPTO 2019, in the form

    D_eps = (1/m) E[ max(0, sum_{i=1..m} (g0(Y_i) - e^eps g1(Y_i))) ],   Y_1..Y_m ~ W i.i.d.,  g_b = dR_1^b / dW,

for one message of R_1^b hidden among m - 1 independent messages of law W. Only the joint law of (g0, g1) under W matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .count import Array, MessageCount

# Allowed departure of the sums of weight, weight * g0 and weight * g1 from 1. Covers the rounding of at most a few
# thousand rows; a larger departure means that the rows are not a pair of laws and is refused.
MASS_TOLERANCE = 1e-9

# Accuracy of g0 - e^eps g1 in units in the last place of g0 + e^eps g1: the two ratios, the exponential and the arithmetic.
EXCESS_ULPS = 4.0


# e^eps overflows beyond.
EXP_MAX = 709.0

_MACHINE = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows (weight, g0, g1): the joint law of two likelihood ratios under the blanket law W.

    Parameters
    ----------
    weight : array_like, shape (J,)
        Probabilities of the rows under W; >= 0, sum 1.
    g0, g1 : array_like, shape (J,)
        dR_1^0/dW and dR_1^1/dW on each row; >= 0 and finite, `sum(weight * g) = 1`.
    gap : array_like, shape (J,), optional
        g0 - g1 to its own last digits, for a local eps so small that the difference of the rounded ratios has lost them;
        `g0 - g1` by default, with the uncertainty that this has.

    Raises
    ------
    ValueError
        If a row is negative or not finite, or a sum differs from 1 by more than `MASS_TOLERANCE`.

    Notes
    -----
    Rows of weight 0 are dropped and rows with equal (g0, g1) merged, so that J is the number of distinct pairs.

    Examples
    --------
    >>> Table([0.25, 0.25, 0.5], [3.0, 1.0, 0.0], [1.0, 3.0, 0.0]).size
    3
    """

    weight: Array
    g0: Array
    g1: Array
    gap: Array | None = None

    def __post_init__(self) -> None:
        rows = np.array([self.weight, self.g0, self.g1], dtype=float)
        if self.gap is not None:
            rows = np.vstack([rows, self._checked_gap(rows)])
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise ValueError(f"a table needs weight, g0, g1 of one common length >= 1, got shape {rows.shape}")
        if not np.all(np.isfinite(rows)) or np.any(rows[:3] < 0):
            raise ValueError(f"weight, g0 and g1 must be finite and >= 0, got {rows.tolist()}")
        for name, total in (
            ("weight", rows[0].sum()),
            ("weight * g0", (rows[0] * rows[1]).sum()),
            ("weight * g1", (rows[0] * rows[2]).sum()),
        ):
            if abs(total - 1) > MASS_TOLERANCE:
                raise ValueError(f"the sum of {name} over the rows must be 1, got {total:.17g}")
        rows = rows[:, rows[0] > 0]
        # Equal rows beside each other: what np.unique does along an axis, in a tenth of the time.
        rows = rows[:, np.lexsort(rows[:0:-1])]
        first = np.append(True, np.any(np.diff(rows[1:], axis=1) != 0, axis=0))
        columns = [np.add.reduceat(rows[0], np.flatnonzero(first)), *rows[1:, first]]
        for name, value in zip(("weight", "g0", "g1", "gap"), columns, strict=False):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def _checked_gap(self, rows: Array) -> Array:
        gap = np.asarray(self.gap, dtype=float)
        if gap.shape != rows.shape[1:]:
            raise ValueError(f"gap must have the shape of weight, g0 and g1, {rows.shape[1:]}, got {gap.shape}")
        if np.any(np.abs(gap - (rows[1] - rows[2])) > MASS_TOLERANCE * (rows[1] + rows[2])):
            raise ValueError(f"gap must be g0 - g1, got {gap.tolist()}")
        return gap

    @property
    def size(self) -> int:
        """Number of distinct rows."""
        return int(self.weight.size)

    @property
    def key(self) -> bytes:
        """Equal for equal tables."""
        columns = [self.weight, self.g0, self.g1] if self.gap is None else [self.weight, self.g0, self.g1, self.gap]
        return np.array(columns).tobytes()

    @property
    def difference(self) -> Array:
        """g0 - g1 as accurately as it is known."""
        return self.g0 - self.g1 if self.gap is None else self.gap

    @property
    def symmetric(self) -> bool:
        """Whether swapping g0 and g1 gives the same table, so that one direction is enough."""
        order, swapped = np.lexsort((self.g1, self.g0)), np.lexsort((self.g0, self.g1))
        return bool(
            np.array_equal(self.g0[order], self.g1[swapped])
            and np.array_equal(self.g1[order], self.g0[swapped])
            and np.array_equal(self.difference[order], -self.difference[swapped])
            and np.allclose(self.weight[order], self.weight[swapped], rtol=1e-15, atol=0)
        )

    @property
    def log_max_ratio(self) -> float:
        """Largest log(g0/g1): beyond this eps the divergence is 0; inf where g1 = 0 < g0."""
        rows = self.g0 > 0
        if np.any(self.g1[rows] == 0):
            return math.inf
        if self.gap is not None and np.all(np.abs(self.gap[rows]) < 0.5 * self.g1[rows]):
            return float(np.max(np.log1p(self.gap[rows] / self.g1[rows])))
        return float(np.max(np.log(self.g0[rows]) - np.log(self.g1[rows])))

    @property
    def ceiling(self) -> float:
        """An eps from which on the divergence is 0: the largest log ratio, rounded up by what its last digits may hide."""
        hidden = 0.0 if self.gap is not None else 2 * _MACHINE * float(2 + np.abs(np.log(self.g0[self.g0 > 0])).max())
        return self.log_max_ratio * (1 + 4 * _MACHINE) + hidden

    def swapped(self) -> Table:
        """The table of the other direction."""
        return Table(self.weight, self.g1, self.g0, None if self.gap is None else -self.gap)

    def edge(self, eps: float, count: MessageCount) -> float | None:
        """log of an upper bound on D where the sign of the largest X is a matter of rounding; None where it is not.

        Where no X exceeds its error (see `excess`), the sum of all X is at most m times the largest error, and not positive
        once a row comes up that outweighs this; so D is at most that error times the probability that all messages are in the
        other rows. -inf where even X + error is negative.
        """
        if eps > self.log_max_ratio * (1 + 1e-12) + 1e-12:
            return -math.inf
        x, size = self._excess(eps)
        error = np.where(size < math.inf, EXCESS_ULPS * _MACHINE * size, 0.0)
        if np.any(x > error):
            return None
        if eps >= EXP_MAX:
            return 0.0  # no float tells e^eps from the largest ratio: D <= 1
        top = float((x + error).max())
        if top <= 0:
            return -math.inf
        with np.errstate(over="ignore"):
            near = float(self.weight[x + error > -top * count.largest].sum())
        return math.log(top) + count.fixed * math.log(min(1.0, near))

    def excess(self, eps: float, messages: float) -> tuple[Array, Array, float]:
        """X = g0 - e^eps g1 per row in units of its largest value, and its error: (X/scale, error/scale, scale).

        X is known to `EXCESS_ULPS` units in the last place of its parts: g0 and e^eps g1, or `|g0 - g1|` and (e^eps - 1) g1 where
        the table brings an accurate difference. Rows so negative that one of them outweighs `messages` positive ones are cut
        off at a value that still does: the divergence does not change, and nothing overflows. scale <= 0 if no X is positive.
        """
        x, size = self._excess(eps)
        scale = float(x.max())
        if scale <= 0:
            return x, size, scale
        bound = 4.0 * messages
        with np.errstate(over="ignore"):
            # g0 <= |X| + size of the other part; a row beyond the bound by less than its error has |X| + 2 g0 near its size.
            size = np.where(x / scale > -bound, size / scale, bound + 2 * self.g0 / scale)
            return np.maximum(x / scale, -bound), EXCESS_ULPS * _MACHINE * size, scale

    def _excess(self, eps: float) -> tuple[Array, Array]:
        """X, and the sum of the sizes of its parts."""
        growth = math.expm1(eps) if eps < EXP_MAX else math.inf
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.where(self.g1 > 0, growth * self.g1, 0.0)
            size = self.g0 + self.g1 + grown if self.gap is None else np.abs(self.gap) + grown
            return self.difference - grown, size


def thin(table: Table, count: MessageCount) -> tuple[Table, MessageCount]:
    """Write `1 + Binomial(k, f)` messages as exactly k + 1 messages, each of which may be empty.

    Since C(k, N) f^N (1-f)^(k-N) / (N+1) = C(k+1, N+1) f^(N+1) (1-f)^(k-N) / (f (k+1)), the average over N of the
    identity above equals the same identity for k + 1 messages with rows (f w; g0/f; g1/f) and (1-f; 0; 0).
    """
    if not (count.fixed == 1 and len(count.parts) == 1 and count.parts[0].sizes == (1,)):
        return table, count
    f, trials = count.parts[0].probabilities[0], count.parts[0].trials
    gap = None if table.gap is None else np.append(table.gap / f, 0.0)
    rows = Table(np.append(f * table.weight, 1 - f), np.append(table.g0 / f, 0.0), np.append(table.g1 / f, 0.0), gap)
    return rows, MessageCount(1 + trials)
