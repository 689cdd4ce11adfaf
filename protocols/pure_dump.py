"""pureDUMP: the value in clear, and the same number of uniform dummies from every user.

Source: Li et al., "Privacy enhancement via dummy points in the shuffle model", IEEE TDSC 2023; its bound is from memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from shufflesim._checks import check_integer
from shufflesim.bounds import Claim, Crowd
from shufflesim.bounds.closed import INVERSE_WIDTH, ClosedForm
from shufflesim.domains import Categories
from shufflesim.protocol import meet

from ._dummies import DUMMIES_MAX, check_target, per_user
from .balls_into_bins import BallsIntoBins

if TYPE_CHECKING:
    import mpmath

# The range of the blanket inequality that the bounds of DUMP go back to.
EPSILON_TOP, DELTA_TOP = 1.0, 0.2907


@dataclass(frozen=True)
class PureDUMP(BallsIntoBins):
    """Each user sends the value and `dummies` labels uniform on all d: `BallsIntoBins` with a whole number of dummies.

    Parameters
    ----------
    d : int
        Number of categories; >= 2.
    dummies : int
        Dummies per user, sigma; in [1, 1e6].

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    All else is as in `BallsIntoBins`; with N = n sigma dummies the bound of the paper is

        eps <= sqrt(14 d ln(2/delta)/(N - 1)) + 27 d/(N - 1)   for eps <= 1, delta <= 0.2907,

    and it is calibrated by the larger of both terms, as in Balle, Bell, Gascon, Nissim, CRYPTO 2019.

    Examples
    --------
    >>> PureDUMP.original(0.5, 1e-8, 10_000, d=16), PureDUMP.for_target(0.5, 1e-8, 1000, d=16)
    (PureDUMP(d=16, dummies=2), PureDUMP(d=16, dummies=4))
    """

    d: int
    dummies: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", Categories(self.d).d)
        object.__setattr__(self, "dummies", check_whole_dummies(self.dummies))

    def claims(self, crowd: Crowd) -> list[Claim]:
        """Those of `BallsIntoBins`, and the paper's own bound for a complete crowd."""
        claims = super().claims(crowd)
        if crowd.complete:
            form = DumpForm(self.local_epsilon, self.d, crowd.n * self.dummies, 0.0, 2)
            claims.append(form.claim)
        return claims

    @classmethod
    def original(cls, epsilon: float, delta: float, n: int, *, d: int) -> Self:
        """As in the paper: n sigma - 1 >= max(14 d ln(2/delta)/eps^2, 27 d/eps), rounded up to whole dummies.

        Parameters
        ----------
        epsilon, delta : float
            The target: eps in (0, 1], delta in (0, 0.2907].
        n : int
            Number of users, all honest.
        d : int
            Number of categories.
        """
        epsilon, delta, n = check_dump_target(epsilon, delta, n)
        d = Categories(d).d
        total = 1 + max(14 * d * (math.log(2) - math.log(delta)) / epsilon / epsilon, 27 * d / epsilon)
        return cls(d, math.ceil(per_user(total, n)))

    @classmethod
    def for_target(cls, epsilon: float, delta: float, n: int, *, d: int) -> Self:
        """The fewest dummies whose exact eps is at most epsilon; arguments as in `original`, any eps > 0."""
        epsilon, delta, n = check_target(epsilon, delta, n)
        return meet(lambda dummies: cls(d, dummies), epsilon, delta, n, find="smallest", within=(1, int(DUMMIES_MAX)))

    @classmethod
    def examples(cls) -> Iterator[Self]:
        """Typical, tiny, many labels."""
        yield cls(d=16, dummies=2)
        yield cls(d=2, dummies=1)
        yield cls(d=300, dummies=3)


@dataclass(frozen=True)
class DumpForm(ClosedForm):
    """eps = sqrt(14 d ln(k/delta)/(M-1)) + 27 d/(M-1), M = N + m - sqrt(2 m ln(2/delta)), for eps <= 1, delta <= 0.2907.

    Parameters
    ----------
    d : int
        Number of labels.
    dummies : int
        Dummies of all users, N.
    uniform : float
        Expected number m of the others' reports that are uniform.
    share : int
        k = 2, or 4 where delta has to cover the number of uniform reports too.
    """

    d: int
    dummies: int
    uniform: float
    share: int

    log_delta_max: ClassVar[float] = math.log(DELTA_TOP) - INVERSE_WIDTH

    @property
    def claim(self) -> Claim:
        """As the papers' own bound."""
        return Claim("original", "upper", False, "Li et al. 2023", "quoted from memory", self, baseline=True)

    def formula(self, delta: mpmath.mpf) -> tuple[mpmath.mpf | None, str]:
        """The formula within its range."""
        import mpmath

        messages = self.dummies + self.uniform - mpmath.sqrt(2 * self.uniform * mpmath.log(2 / delta))
        if messages <= 1 or delta > DELTA_TOP:
            return None, f"needs M > 1 and delta <= {DELTA_TOP}"
        value = mpmath.sqrt(14 * self.d * mpmath.log(self.share / delta) / (messages - 1)) + 27 * self.d / (messages - 1)
        return (value, "") if value <= EPSILON_TOP else (None, f"needs eps <= {EPSILON_TOP:g}")


def check_whole_dummies(value: int) -> int:
    """A number of dummies of each user."""
    return check_integer("dummies", value, low=1, high=int(DUMMIES_MAX))


def check_dump_target(epsilon: float, delta: float, n: int) -> tuple[float, float, int]:
    """A target within the range of the papers' bounds."""
    checked = check_target(epsilon, delta, n)
    if checked[0] > EPSILON_TOP or checked[1] > DELTA_TOP:
        got = f"epsilon={epsilon!r}, delta={delta!r}"
        raise ValueError(f"epsilon must be at most {EPSILON_TOP:g} and delta at most {DELTA_TOP}, got {got}")
    return checked
