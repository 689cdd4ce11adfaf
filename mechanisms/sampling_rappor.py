"""Sampling RAPPOR: one item of the user's set, or one item at all, is drawn and reported by RAPPOR.

Sources: Qin, Yang, Yu, Khalil, Xiao, Ren, "Heavy hitter estimation over set-valued data with local differential privacy", CCS
2016 (sampling one of the user's items); Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from shufflesim._checks import nearest, plain
from shufflesim._sampling import bernoulli, bit_sums, packed_bernoulli
from shufflesim.bounds import OutcomeGroups, VariationRatio
from shufflesim.domains import Array

from ._sets import SetRandomizer

# Inputs times outcomes up to which the law is handed out as a matrix.
ENUMERABLE = 4096
# Rows of the grouped law up to which it is given; above, the declaration is what bounds are made of.
GROUPED = 2**14
# Rows up to which the counts of the others' set are kept apart.
THIRD = 2**12

LAWS = ("item", "coordinate")


@dataclass(frozen=True)
class SamplingRAPPOR(SetRandomizer):
    """Draw one item, encode it as d bits, flip every bit with probability 1/(e^{eps/2}+1).

    Parameters
    ----------
    epsilon : float
        Budget of RAPPOR in nats; in (0, 700]. What sampling leaves of it is `local_epsilon`.
    d : int
        Number of items; >= 2.
    s : int
        Size of every user's set; in [1, d-1].
    law : {"item", "coordinate"}
        "item" draws one of the user's s items. "coordinate" draws one of all d items, and encodes a row of zeros if it is not the
        user's.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    Data: rows of s distinct integer codes 0..d-1, shape (n, s), or a DataFrame of s categorical columns.
    Source: Qin et al., "Heavy hitter estimation over set-valued data with local differential privacy", CCS 2016.

    With S = e^{eps/2} and m = s - max(0, 2s-d), the items in which two sets can differ: a report with k ones on the user's set is
    1/S + k (S - 1/S)/s ("item") or 1 - s (1 - 1/S)/d + k (S - 1/S)/d ("coordinate") times as likely as RAPPOR of all zeros makes
    it. Two sets are told apart best by ones on all m items of one and zeros on all other items of both:
    p = 1 + m (E-1)/s for "item" (E for 2s <= d), and 1 + m (S - 1/S)/(d - s (1 - 1/S)), less than E, for "coordinate".

    Examples
    --------
    >>> SamplingRAPPOR(epsilon=2 * math.log(1.5), d=5, s=2).amplification
    VariationRatio(p=2.25, beta=0.152, q=2.25)
    >>> SamplingRAPPOR(epsilon=2 * math.log(1.5), d=4, s=2, law="coordinate").amplification
    VariationRatio(p=1.5, beta=0.076, q=1.5)
    """

    epsilon: float
    d: int
    s: int
    law: Literal["item", "coordinate"] = "item"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.law, str) or self.law not in LAWS:
            raise ValueError(f"law must be 'item' or 'coordinate', got {plain(self.law)!r} ({nearest(str(self.law), LAWS)})")

    @property
    def flip(self) -> float:
        """1/(S+1)."""
        small = math.exp(-self.epsilon / 2)
        return small / (1 + small)

    @property
    def drawn_from(self) -> int:
        """Number of items of which one is drawn, s or d."""
        return self.s if self.law == "item" else self.d

    @property
    def ratios(self) -> tuple[float, float]:
        """(least, step): a report with k ones on the user's set is least + k step times as likely as from all zeros."""
        half, n = self.epsilon / 2, self.drawn_from
        least = math.exp(-half) if self.law == "item" else 1 + self.s / n * math.expm1(-half)
        return least, 2 * math.sinh(half) / n

    @property
    def support(self) -> tuple[float, float]:
        """(1/(S+1) + (S-1)/((S+1) N), 1/(S+1)), N = s or d: an own item is the drawn one with probability 1/N."""
        return self.flip + math.tanh(self.epsilon / 4) / self.drawn_from, self.flip

    @property
    def local_epsilon(self) -> float:
        """log p, at most epsilon."""
        m = self.s - self.common
        if self.law == "item":
            share = m / self.s
            # log(1 + share (E-1)), without E.
            if self.epsilon < 1:
                return min(self.epsilon, math.log1p(share * math.expm1(self.epsilon)))
            return self.epsilon + math.log(share + (1 - share) * math.exp(-self.epsilon))
        least, step = self.ratios
        return math.log1p(m * step / least)

    @property
    def amplification(self) -> VariationRatio:
        """beta = (S - 1/S)/N E[(k0 - k1)_+], k0, k1 ~ Bin(m, 1/(S+1)), N = s or d; for sets that share as little as they can.

        Bits of items outside of both sets are alike, and those of shared items add the same to both. Given all other bits and the
        number of ones among an item c of both sets and an item e of none, c against e instead of c against c is a mean-preserving
        spread of X = R0/W - t R1/W under any exchangeable W: (1, -t) for (1 - t, 0). Hence beta and D fall with each shared item.
        """
        m = self.s - self.common
        return VariationRatio.ldp(self.local_epsilon, self.scale * excess(m, self.flip))

    @property
    def scale(self) -> float:
        """(S - 1/S)/((S+1) N) = (1 - 1/S)/N."""
        return -math.expm1(-self.epsilon / 2) / self.drawn_from

    @property
    def published_beta(self) -> float:
        """s (S-1)/(d (S+1)), the value in print (Wang et al. 2024). **Do not use it for the law "item"**: too small by 1.3 to 4
        times there, so that bounds made of it are wrong. For "coordinate" it is an upper bound, exact for s = 1.
        """
        return self.s / self.d * math.tanh(self.epsilon / 4)

    @property
    def width(self) -> int:  # type: ignore[override]
        """Random numbers: one per item, and those that choose one."""
        return self.d + self.s

    @property
    def bits(self) -> float:
        """One bit an item."""
        return float(self.d)

    def randomize(self, values: Array, rng: np.random.Generator) -> Array:
        """Sets, shape (n, s) -> bits packed along each row, uint8, shape (n, ceil(d/8))."""
        n = values.shape[0]
        packed = packed_bernoulli(rng, self.flip, n, self.d)
        column = rng.integers(0, self.drawn_from, n)
        rows = np.flatnonzero(column < self.s)
        item = values[rows, column[rows]].astype(np.intp)
        bit = np.uint8(128) >> (item & 7).astype(np.uint8)
        packed[rows, item >> 3] &= ~bit
        packed[rows, item >> 3] |= bit * ~bernoulli(rng, self.flip, rows.size)
        return packed

    def aggregate(self, reports: Array) -> Array:
        """Ones per item, shape (d,)."""
        return bit_sums(reports, self.d)

    def outcome(self, reports: Array) -> Array:
        """The bits read as a binary number, first item first."""
        return np.unpackbits(reports, axis=1, count=self.d).astype(np.int64) @ (1 << np.arange(self.d)[::-1])

    def log_channel(self) -> Array | None:
        """The C(d, s) x 2^d law of tiny instances."""
        if self.d > 12 or math.comb(self.d, self.s) * 2**self.d > ENUMERABLE:
            return None
        bits = (np.arange(2**self.d)[:, None] >> np.arange(self.d)[::-1]) & 1
        keep = -math.log1p(math.exp(-self.epsilon / 2))
        least, step = self.ratios
        own = bits[:, self.inputs()].sum(axis=2).T
        return np.log(least + own * step) + self.d * keep - self.epsilon / 2 * bits.sum(axis=1)

    def groups(self) -> tuple[OutcomeGroups, ...]:
        """By the numbers of ones on the items of S0 only, S1 only, both, S* (where there is room for it), and zeros elsewhere.

        S0 and S1 share as little as they can: the worst pair of the blanket, see `amplification`. The least probability of a
        report is that of a set that takes its zeros first. None where there would be too many groups.
        """
        d, s, c, m = self.d, self.s, self.common, self.s - self.common
        free = d - s - m
        names = ["others hold S0", "others hold S1"]
        third = 0
        if free >= s and (m + 1) ** 2 * (s + 1) * (min(free - s, s) + 1) <= THIRD:
            third = s
            names.append("others hold a set away from both")
        elsewhere = free - third
        if (m + 1) ** 2 * (c + 1) * (third + 1) * (min(elsewhere, s) + 1) > GROUPED:
            return ()
        laws = [_binomial(size, -self.epsilon / 2) for size in (m, m, c, third)]
        laws.append(_few(elsewhere, -math.log1p(math.exp(-self.epsilon / 2)), -self.epsilon / 2, s))
        base = np.multiply.outer(laws[0], laws[1])
        for law in laws[2:]:
            base = np.multiply.outer(base, law)
        only0, only1, both, away, zeros = np.indices(base.shape)
        zeros += (m - only0) + (m - only1) + (c - both) + (third - away)
        fewest = np.maximum(0, s - zeros)
        least, step = self.ratios
        masses = [(base * (least + k * step)).ravel() for k in (only0 + both, only1 + both, away, fewest)]
        first, second, apart, floor = masses
        others = (first, second, apart)
        return tuple(OutcomeGroups(first, second, others[i], floor, note) for i, note in enumerate(names))

    @classmethod
    def examples(cls) -> Iterator[SamplingRAPPOR]:
        """Typical, tiny of each law, sets that must overlap, extreme."""
        yield cls(epsilon=2.0, d=20, s=3)
        yield cls(epsilon=2.0, d=20, s=3, law="coordinate")
        yield cls(epsilon=1.0, d=4, s=2)
        yield cls(epsilon=1.5, d=4, s=2, law="coordinate")
        yield cls(epsilon=1.0, d=3, s=2)
        yield cls(epsilon=1e-9, d=4, s=1)
        yield cls(epsilon=700.0, d=4, s=2)


def excess(m: int, p: float) -> float:
    """E[(K0 - K1)_+]/p for independent K0, K1 ~ Bin(m, p): the sum over j < m of Pr[K0 > j >= K1].

    Examples
    --------
    >>> excess(1, 0.25), excess(2, 0.5)
    (0.75, 0.75)
    """
    j = np.arange(m)
    return float((special.bdtrc(j, m, p) / p * special.bdtr(j, m, p)).sum())


def _binomial(m: int, log_odds: float) -> Array:
    """Probabilities of 0, ..., m hits, with the log-odds of one; by the ratios of neighbours."""
    k = np.arange(m)
    logs = np.append(0.0, np.cumsum(np.log((m - k) / (k + 1)) + log_odds))
    law = np.exp(logs - logs.max())
    return law / law.sum()


def _few(m: int, log_hit: float, log_odds: float, top: int) -> Array:
    """Probabilities of 0, ..., top - 1 hits and of all larger numbers together; the latter only if there are such.

    `log_hit` is that of one hit, `log_odds` that of a miss against a hit.
    """
    k = np.arange(min(m + 1, top))
    logs = special.gammaln(m + 1) - special.gammaln(k + 1) - special.gammaln(m - k + 1)
    law = np.exp(logs + m * log_hit + (m - k) * log_odds)
    return np.append(law, max(0.0, 1 - law.sum())) if m >= top else law
