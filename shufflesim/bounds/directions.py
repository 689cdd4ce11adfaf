"""The larger of two divergences that are known one by one, as functions of eps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from .claim import Ends

# Covers the roundings of 1 - e^eps + e^eps D for negative eps.
SUM_ROUNDING = 1e-15
# Relative width at which the bisection for eps stops; it never stops later than a thousandth of what is asked for.
BISECTION_RTOL = 1e-11
# e^eps is finite up to here.
EXPONENT_MAX = 709.0


class Directions(ABC):
    """D_eps(P||Q) and D_eps(Q||P) with enclosures; what is asked for is the larger one.

    Attributes
    ----------
    method : str
        How the value is computed.
    symmetric : bool
        Whether both are the same.
    """

    method: ClassVar[str] = "exact sum"
    symmetric: ClassVar[bool] = False

    @abstractmethod
    def forth(self, eps: float) -> tuple[float, float]:
        """Enclosure of D_eps(P||Q) for 0 <= eps <= 709."""

    @abstractmethod
    def back(self, eps: float) -> tuple[float, float]:
        """Enclosure of D_eps(Q||P) for 0 <= eps <= 709."""

    @property
    @abstractmethod
    def ceiling(self) -> float:
        """An eps from which on both are at their limits."""

    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """Enclosure of what the larger one tends to."""

    def worst(self, eps: float) -> tuple[float, float]:
        """Enclosure of the larger one, for any eps >= 0."""
        if eps > min(self.ceiling, EXPONENT_MAX):
            low, high = self.limits()
            # Where no float holds e^eps, what holds at a smaller eps is an upper bound.
            return low, high if eps > self.ceiling else self.worst(EXPONENT_MAX)[1]
        low, high = (max(ends) for ends in zip(*self._both(eps), strict=True))
        return max(0.0, low), min(1.0, high)

    def _both(self, eps: float) -> list[tuple[float, float]]:
        return [self.forth(eps)] if self.symmetric else [self.forth(eps), self.back(eps)]

    def delta(self, eps: float, rtol: float) -> Ends:
        """Ends of the larger divergence; `D_eps(P||Q) = 1 - e^eps + e^eps D_-eps(Q||P)` for negative eps."""
        low, high = self.worst(abs(eps))
        if eps < 0:
            gap, factor = -math.expm1(eps), math.exp(eps)
            low, high = (gap + factor * low) * (1 - SUM_ROUNDING), min(1.0, (gap + factor * high) * (1 + SUM_ROUNDING))
        return low, high, self.method

    def epsilon(self, delta: float, rtol: float) -> Ends:
        """Ends of where the larger divergence falls to delta."""
        width = min(BISECTION_RTOL, 1e-3 * rtol)
        top = math.nextafter(min(self.ceiling, EXPONENT_MAX), math.inf)
        return (
            falls_below(lambda eps: self.worst(eps)[0], delta, top, width)[0],
            falls_below(lambda eps: self.worst(eps)[1], delta, top, width)[1],
            self.method,
        )

    def remark(self, delta: float) -> str:
        """Nothing."""
        return ""


def falls_below(curve: Callable[[float], float], delta: float, top: float, width: float) -> tuple[float, float]:
    """(last eps seen above delta, first eps seen at or below it) of a falling curve; (0, 0) or (inf, inf) if it never crosses.

    The curve is constant from `top` on.
    """
    if curve(0.0) <= delta:
        return 0.0, 0.0
    low, high = 0.0, top
    if curve(high) > delta:
        return math.inf, math.inf
    while high - low > width * high:
        middle = math.sqrt(low) * math.sqrt(high) if 0 < 4 * low < high else (0.5 * (low + high) if low else 1e-3 * high)
        if middle <= low or middle >= high:
            break
        low, high = (low, middle) if curve(middle) <= delta else (middle, high)
    return low, high
