"""Laws with two densities: high on a set of the input's own, low elsewhere, such as PrivUnit and the piecewise mechanism.

Sources: Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection against reconstruction and its applications in private federated
learning", 2018 (PrivUnit); Wang et al., "Collecting and analyzing multidimensional data with local differential privacy",
ICDE 2019 (piecewise).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._checks import check_epsilon, check_number
from .claim import Claim
from .crowd import Crowd
from .groups import OutcomeGroups, group_claims
from .ratio import VariationRatio
from .table import Array


@dataclass(frozen=True)
class TwoLevel:
    """A continuous law with density E/Z on a set of mass c and 1/Z elsewhere, E = e^epsilon, Z = cE + 1 - c; to be bounded.

    Parameters
    ----------
    epsilon : float
        Local budget in nats; in (0, 700].
    mass : float
        Share c of the high set under the uniform law, in (0, 1/2]. Two inputs must be able to have disjoint sets, and no report
        may be high for all inputs: a cap {u: u.x >= gamma}, gamma >= 0, of PrivUnit; c = 1/(e^(epsilon/2) + 1) for piecewise.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Ratios take four values, so that the blanket needs no quadrature. Disjoint sets are the worst pair: two sets with a common
    part of mass m have m at (E, E) and m more at (1, 1), where disjoint ones have m at (E, 1) and at (1, E) - the same mean of
    X, with end points outside. There the blanket is the three-outcome pair with q* = 1, which is therefore sound for all pairs.

    Examples
    --------
    >>> round(TwoLevel.piecewise(2.0).amplification.beta, 6)
    0.632121
    """

    epsilon: float
    mass: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        least = math.nextafter(0.0, 1.0)
        object.__setattr__(self, "mass", check_number("mass", self.mass, "in (0, 1/2]", low=least, high=0.5))

    @classmethod
    def piecewise(cls, epsilon: float) -> TwoLevel:
        """The piecewise mechanism on [-1, 1]."""
        epsilon = check_epsilon(epsilon)
        small = math.exp(-epsilon / 2)
        return cls(epsilon, small / (1 + small))

    @property
    def local_epsilon(self) -> float:
        """The budget."""
        return self.epsilon

    @property
    def likely(self) -> float:
        """Probability c E/Z of the own high set."""
        return self.mass / (self.mass + (1 - self.mass) * math.exp(-self.epsilon))

    @property
    def amplification(self) -> VariationRatio:
        """beta = c (E - 1)/Z, q* = 1."""
        return VariationRatio.ldp(self.epsilon, self.likely * -math.expm1(-self.epsilon), q_star=1.0)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """The sets of x0, of x1, of a third value where three disjoint sets have room, and the rest."""
        low = self.likely * math.exp(-self.epsilon)
        names = ["others hold x0", "others hold x1"]
        if 3 * self.mass <= 1:
            names.append("others hold a third value, with a set of its own")
        rest = max(0.0, 1 - len(names) * self.mass) * low / self.mass

        def masses(own: int | None) -> Array:
            return np.array([*(self.likely if k == own else low for k in range(len(names))), rest])

        return tuple(OutcomeGroups(masses(0), masses(1), masses(k), masses(None), note) for k, note in enumerate(names))

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The declaration's bounds and those of the law."""
        return self.amplification.claims(crowd) + group_claims(self.groups(), crowd, self.local_epsilon)
