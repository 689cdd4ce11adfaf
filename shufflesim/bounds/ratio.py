"""(p, beta, q)-variation: what a randomizer declares, and the tables that follow from it.

Source: Wang et al., "Privacy amplification via shuffling: unified, simplified, and tightened", PVLDB 17(8), 2024, for the
declaration and the published pair; the three-outcome pair is the sound replacement (see docs/soundness.md for the proof).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from .._checks import plain
from .claim import Claim
from .crowd import Crowd
from .table import Array, Table

# Departure allowed before a declaration is refused as impossible: a few roundings of a closed form, and nothing more.
DECLARATION_TOLERANCE = 1e-14


@dataclass(frozen=True)
class VariationRatio:
    """Declared amplification parameters of one message hidden among independent blanket messages.

    Parameters
    ----------
    p : float
        Largest likelihood ratio between user 1's two inputs; >= 1, may be `math.inf`.
    beta : float
        Upper bound on the total variation between user 1's two outputs; in [0, (p-1)/(p+1)].
    q : float
        Largest ratio of user 1's law to any blanket law where the first input is likelier; > 0.
    q1 : float, optional
        The same where the second input is likelier; `q` by default.
    q_star : float, optional
        The same where both inputs are equally likely (the neutral part); `max(q, q1)` is always allowed and the default.

    Raises
    ------
    ValueError
        If a parameter is out of its range or the implied probabilities exceed 1.

    Notes
    -----
    With alpha = beta/(p-1): r0 = p alpha/q and r1 = p alpha/q1 are the probabilities that a blanket message is a clone of the
    parts that tell the inputs apart, omega = 1 - alpha - p alpha is the neutral mass, s = omega/q_star its clone probability.

    Examples
    --------
    >>> VariationRatio(p=3, beta=0.4, q=3, q_star=1)
    VariationRatio(p=3, beta=0.4, q=3, q_star=1)
    >>> VariationRatio(p=3, beta=0.6, q=3)
    Traceback (most recent call last):
    ...
    ValueError: beta must be in [0, (p-1)/(p+1)] = [0, 0.5], got 0.6
    """

    p: float
    beta: float
    q: float
    q1: float | None = None
    q_star: float | None = None

    def __post_init__(self) -> None:
        for name in ("p", "beta", "q", "q1", "q_star"):
            value = getattr(self, name)
            if value is None and name in ("q1", "q_star"):
                continue
            if isinstance(value, bool) or not _is_number(value) or math.isnan(value):
                raise ValueError(f"{name} must be a number, got {plain(value)!r}")
            object.__setattr__(self, name, float(value))
        if self.p < 1:
            raise ValueError(f"p must be >= 1, got {self.p!r}")
        top = 1.0 if self.p == math.inf else (self.p - 1) / (self.p + 1)
        if not 0 <= self.beta <= top * (1 + DECLARATION_TOLERANCE):
            raise ValueError(f"beta must be in [0, (p-1)/(p+1)] = [0, {top:.12g}], got {self.beta!r}")
        # A few roundings below the largest beta count as the largest: more cautious, and then there is no neutral part.
        object.__setattr__(self, "beta", top if self.beta >= top * (1 - 8e-16) else self.beta)
        for name, value in (("q", self.q), ("q1", self.q1), ("q_star", self.q_star)):
            if value is not None and not (value > 0 and value < math.inf):
                raise ValueError(f"{name} must be positive and finite, got {value!r}")
        if self.q_star is None:
            object.__setattr__(self, "q_star", max(self.q, self.second_q))
        clones = self.r0 + self.r1
        if clones > 1 + DECLARATION_TOLERANCE:
            raise ValueError(f"q and q1 must make r0 + r1 = p alpha (1/q + 1/q1) <= 1, got {clones!r}")
        total = clones + self.omega / self.neutral_q
        if total > 1 + DECLARATION_TOLERANCE:
            raise ValueError(f"q_star must make r0 + r1 + omega/q_star <= 1, got {total!r} with q_star={self.q_star!r}")

    @classmethod
    def ldp(cls, epsilon: float, beta: float, *, q_star: float | None = None) -> VariationRatio:
        """The declaration of an epsilon-LDP randomizer: p = q = e^epsilon and the given beta, rounded to the safe side.

        p is the next float above e^epsilon: any p that is too large is a valid declaration, one that is too small is not.
        """
        p = math.nextafter(math.exp(epsilon) * (1 + 4e-16), math.inf)
        top = (p - 1) / (p + 1)
        # tanh(epsilon/2) is the largest beta: what is within a few roundings of it stays the largest for the enlarged p.
        largest = beta >= math.tanh(epsilon / 2) * (1 - 8e-16)
        return cls(p, top if largest else min(beta * (1 + 4e-16), top), p, q_star=q_star)

    @property
    def second_q(self) -> float:
        """q1, or q where no q1 was given."""
        return self.q if self.q1 is None else self.q1

    @property
    def neutral_q(self) -> float:
        """q_star as a float."""
        return max(self.q, self.second_q) if self.q_star is None else self.q_star

    @property
    def r0(self) -> float:
        """Probability that a blanket message is a clone of the part likelier under the first input."""
        return float(self.exact_parts[3])

    @property
    def r1(self) -> float:
        """Probability that a blanket message is a clone of the part likelier under the second input."""
        return float(self.exact_parts[4])

    @property
    def omega(self) -> float:
        """Mass of the neutral part, 1 - alpha - p alpha; exactly 0 at the largest beta."""
        return float(self.exact_parts[2])

    @property
    def local_epsilon(self) -> float:
        """log p, rounded up: what holds without any shuffling."""
        return math.nextafter(math.log(self.p), math.inf)

    @property
    def is_ldp(self) -> bool:
        """Whether it is the declaration of a randomizer that is (log p)-LDP for all inputs: q = q1 = p."""
        return self.q == self.second_q == self.p

    @cached_property
    def exact_parts(self) -> tuple[Fraction, Fraction, Fraction, Fraction, Fraction]:
        """(1/p, p alpha, omega, r0, r1) in rational arithmetic: the parameters are taken as exact, nothing cancels."""
        beta = Fraction(self.beta)
        if self.p == math.inf:
            inverse, p_alpha, alpha = Fraction(0), beta, Fraction(0)
        elif self.p == 1:
            inverse, p_alpha, alpha = Fraction(1), Fraction(0), Fraction(0)
        else:
            p = Fraction(self.p)
            inverse, alpha = 1 / p, beta / (p - 1)
            p_alpha = p * alpha
        maximal = self.beta == (1.0 if self.p == math.inf else (self.p - 1) / (self.p + 1)) and self.p > 1
        omega = Fraction(0) if maximal else max(Fraction(0), 1 - alpha - p_alpha)
        return inverse, p_alpha, omega, p_alpha / Fraction(self.q), p_alpha / Fraction(self.second_q)

    def largest(self) -> VariationRatio | None:
        """The same p and q with the largest beta: omega = 0, its published pair is sound (V3); None if q is too small for it.

        For q = p this is the stronger clone of any eps0-LDP randomizer.
        """
        beta = 1.0 if self.p == math.inf else (self.p - 1) / (self.p + 1)
        return self._with(beta, self.q, self.second_q)

    def clones(self) -> VariationRatio | None:
        """The clone reduction: another message is a fair mixture of user 1's two laws with probability 1/q; None for q < 1.

        Two laws with ratio p are (p Q0 + Q1)/(p+1) and its mirror image, so that each of Q0, Q1 comes with r = 1/(2q).
        """
        q = max(self.q, self.second_q)
        wider = 2 * q / (1 + (0.0 if self.p == math.inf else 1 / self.p))
        beta = 1.0 if self.p == math.inf else (self.p - 1) / (self.p + 1)
        return self._with(beta, math.nextafter(wider * (1 + 4e-16), math.inf), None)

    def _with(self, beta: float, q: float, q1: float | None) -> VariationRatio | None:
        try:
            return VariationRatio(self.p, beta, q, q1 if q1 != q else None)
        except ValueError:
            return None

    def published_table(self) -> Table:
        """The published pair: every message that is no clone counts as neutral."""
        _, _, omega, r0, r1 = self.exact_parts
        rest = max(Fraction(0), 1 - r0 - r1)
        return self._table(rest, omega / rest if rest > 0 else Fraction(0), Fraction(0))

    def three_outcome_table(self) -> Table:
        """The sound pair: only s = omega/q_star of a message is a clone of the neutral part, the rest is revealed."""
        _, _, omega, r0, r1 = self.exact_parts
        s = omega / Fraction(self.neutral_q)
        return self._table(s, Fraction(self.neutral_q), max(Fraction(0), 1 - r0 - r1 - s))

    def _table(self, neutral_weight: Fraction, neutral: Fraction, revealed: Fraction) -> Table:
        """Rows rounded once, from exact values."""
        inverse, _, _, r0, r1 = self.exact_parts
        q0, q1 = Fraction(self.q), Fraction(self.second_q)
        return Table(
            _floats(r0, r1, neutral_weight, revealed),
            _floats(q0, q1 * inverse, neutral, Fraction(0)),
            _floats(q0 * inverse, q1, neutral, Fraction(0)),
            _floats(q0 * (1 - inverse), q1 * (inverse - 1), Fraction(0), Fraction(0)),
        )

    def published_soundness(self) -> tuple[bool, str]:
        """Whether the published pair is an upper bound for this declaration, and why."""
        _, _, omega, r0, r1 = self.exact_parts
        if omega == 0:
            return True, "V1: omega = 0"
        if r0 + r1 + omega / Fraction(self.neutral_q) >= 1:
            return True, "V2: every blanket message that is no clone is a clone of the neutral part"
        return False, f"omega = {float(omega):.4g} > 0: may lie below the truth"

    def claims(self, crowd: Crowd) -> list[Claim]:
        """The bounds that a declaration gives for user 1 in a crowd with one message each."""
        from .declared import declared_claims

        return declared_claims(self, crowd)

    def __repr__(self) -> str:
        parts = [f"p={self.p:.6g}", f"beta={self.beta:.6g}", f"q={self.q:.6g}"]
        if self.q1 is not None:
            parts.append(f"q1={self.q1:.6g}")
        if self.q_star != max(self.q, self.second_q):
            parts.append(f"q_star={self.q_star:.6g}")
        return f"VariationRatio({', '.join(parts)})"


def _floats(*values: Fraction) -> Array:
    return np.array([float(v) for v in values])


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(value, (str, bytes))
