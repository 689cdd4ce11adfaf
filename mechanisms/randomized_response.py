"""Randomized response on one bit.

Source: Warner, "Randomized response: a survey technique for eliminating evasive answer bias", JASA 1965.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .grr import GRR


@dataclass(frozen=True)
class RandomizedResponse(GRR):
    """Keep the bit with probability E/(E+1), E = e^eps: GRR on two categories.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].

    Raises
    ------
    ValueError
        If epsilon is out of its range.

    Notes
    -----
    Data: bits 0 and 1, booleans, or a categorical of two categories, shape (n,).
    Source: Warner, "Randomized response", JASA 1965.

    The two outputs are as far apart as eps-LDP allows, beta = (E-1)/(E+1): there is no neutral part (omega = 0).

    Examples
    --------
    >>> RandomizedResponse(epsilon=1.0).amplification.omega
    0.0
    """

    d: int = field(default=2, init=False, repr=False)

    @classmethod
    def examples(cls) -> Iterator[RandomizedResponse]:
        """Typical, tiny, extreme."""
        yield cls(epsilon=1.0)
        yield cls(epsilon=1e-9)
        yield cls(epsilon=700.0)
