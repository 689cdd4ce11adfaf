"""A number known up to its numerical error, with the side on which it may be used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Side = Literal["upper", "lower"]


@dataclass(frozen=True)
class Bracket:
    """Two floats with `lower <= exact value of the bound <= upper`.

    Attributes
    ----------
    lower, upper : float or ndarray
        The enclosure; arrays when the question was asked for an array.
    side : {"upper", "lower"}
        Whether the bound is an upper or a lower bound on the truth.
    method : str
        How the value was computed.

    Notes
    -----
    ``float(bracket)`` is the safe side: `upper` for an upper bound, `lower` for a lower bound.
    Nothing is promised about the truth by the other side: the upper end of a lower bound is not an upper bound.

    Examples
    --------
    >>> b = Bracket(0.25, 0.26, side="upper", method="exact sum")
    >>> float(b), round(b.slack, 3)
    (0.26, 0.01)
    """

    lower: Any
    upper: Any
    side: Side
    method: str

    @property
    def slack(self) -> Any:
        """Width of the enclosure: the numerical error that the safe side already carries."""
        if isinstance(self.upper, np.ndarray):
            return np.where(self.lower == self.upper, 0.0, self.upper - np.minimum(self.lower, np.finfo(float).max))
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def __float__(self) -> float:
        return float(self.upper if self.side == "upper" else self.lower)


def exp_down(log_value: float) -> float:
    """Largest convenient float that is at most e^log_value (two ulps below the rounded value, never negative)."""
    value = math.exp(log_value) if log_value > -746 else 0.0
    return max(0.0, math.nextafter(math.nextafter(value, -math.inf), -math.inf))


def exp_up(log_value: float) -> float:
    """Smallest convenient float that is at least e^log_value (two ulps above the rounded value)."""
    if log_value == -math.inf:
        return 0.0
    value = math.exp(log_value) if log_value > -746 else 0.0
    return math.nextafter(math.nextafter(value, math.inf), math.inf)
