"""A claimed bound against the truth: enumeration, exact homogeneous data, importance sampling, and runs of the whole protocol."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import TRIALS_MOST, check_integer, check_number, check_users
from ..bounds import Bracket, Crowd, claims_of
from ..bounds import delta as delta_at
from ..bounds import epsilon as epsilon_at
from ..protocol import Protocol
from ..protocols import SingleMessage
from ..randomizer import Randomizer
from ..shuffler import Shuffler
from .ways import CONSISTENT, OPEN, RUNS, VIOLATED, WAYS, Skip, Subject, Way

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Characters in a line of a picture's title.
TITLE_WIDTH = 60


@dataclass(frozen=True)
class Audit:
    """A claim, what was found, and the verdict.

    Attributes
    ----------
    x : Randomizer or Protocol
        What was audited.
    n, eps : int, float
        Users, and where delta was looked at.
    bound : str
        The claimed bound.
    claim : Bracket
        Its delta at eps.
    ways : tuple of Way
        What was found.
    skipped : tuple of str
        Ways that were not gone, and why.
    confidence : float
        Of what is not exact.
    """

    x: Any
    n: int
    eps: float
    bound: str
    claim: Bracket
    ways: tuple[Way, ...]
    skipped: tuple[str, ...]
    confidence: float

    @property
    def claimed(self) -> float:
        """The safe side of the claim."""
        return float(self.claim.upper)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a way: way, delta, low, high, exact, verdict, seconds, note."""
        import pandas as pd

        rows = [(w.way, w.delta, w.low, w.high, w.exact, w.verdict(self.claimed), w.seconds, w.note) for w in self.ways]
        return pd.DataFrame(rows, columns=["way", "delta", "low", "high", "exact", "verdict", "seconds", "note"])

    @property
    def verdict(self) -> str:
        """ "violated" if any way says so, "consistent" if any says that, else "cannot tell at this many trials"."""
        found = [w.verdict(self.claimed) for w in self.ways]
        return next((v for v in (VIOLATED, CONSISTENT) if v in found), OPEN)

    @property
    def violated(self) -> bool:
        """Whether the claim is below the truth."""
        return self.verdict == VIOLATED

    @property
    def remark(self) -> str:
        """What the verdict is about, where the stated law is consistent and the sampler has not been judged."""
        ran = next((w for w in self.ways if w.way == RUNS), None)
        if self.verdict != CONSISTENT:
            return ""
        return "as far as the stated law goes; " + (f"the sampler: {OPEN}" if ran else "the sampler was not run")

    def __str__(self) -> str:
        lines = [
            f"{self.x!r}, n = {self.n:,}, eps = {self.eps:.6g}: {self.bound} claims delta <= {self.claimed:.6g}",
            *(
                f"{w.way:<20} {w.delta:.6g} in [{w.low:.6g}, {w.high:.6g}]{'' if w.exact else f' at {self.confidence:.6%}'}"
                f"  {w.verdict(self.claimed)}; {w.note}"
                for w in self.ways
            ),
            *(f"{'skipped':<20} {reason}" for reason in self.skipped),
            f"{'verdict':<20} {self.verdict}{f' ({self.remark})' if self.remark else ''}",
        ]
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the privacy curve: delta of the claim, of published and lower bounds, and what was found, with bars."""
        from matplotlib.figure import Figure

        if ax is None:
            ax = Figure(figsize=(7.5, 4.8), layout="constrained").subplots()
        known = [c.bound for c in claims_of(self.x, Crowd(self.n))]
        grid = np.linspace(0.0, min(2 * self.eps or 1.0, self.x.local_epsilon), 41)
        styles = {"sound": ("-", "#0072b2"), "published": (":", "#d55e00"), "lower": ("--", "#009e73")}
        for name, (style, colour) in {**styles, self.bound: styles.get(self.bound, ("-.", "#cc79a7"))}.items():
            if name in ("sound", self.bound) or name in known:
                found = delta_at(self.x, self.n, grid, bound=name)
                values = found.lower if name == "lower" else found.upper
                shown = np.where(values > 0, values, np.nan)
                ax.plot(grid, shown, style, color=colour, label=f"{name} ({'lower' if name == 'lower' else 'upper'} bound)")
        for i, w in enumerate(self.ways):
            place = self.eps + 0.012 * grid[-1] * (i - (len(self.ways) - 1) / 2)
            upwards = w.way == RUNS
            bars = [[max(w.delta - w.low, 0.0)], [0.0 if upwards else max(w.high - w.delta, 0.0)]]
            label = f"{w.way}{' (at least)' if upwards else ''}"
            place, top = [place], [max(w.delta, 1e-300)]
            ax.errorbar(place, top, yerr=bars, label=label, fmt="osD^"[i % 4], color="black", mfc="none", capsize=3)
        least = min([self.claimed, *(w.delta for w in self.ways if w.delta > 0)])
        name = textwrap.fill(repr(self.x), TITLE_WIDTH)
        ax.set(
            yscale="log", xlabel="central eps", ylabel="delta", title=f"{name}\n{self.n:,} users; {self.bound}: {self.verdict}"
        )
        ax.set_ylim(bottom=max(least * 1e-3, 1e-300), top=1.5)
        ax.grid(visible=True, color="#dddddd", linewidth=0.6)
        ax.figure.legend(loc="outside right upper", frameon=False, fontsize="small")
        return ax


def audit(
    x: Randomizer | Protocol,
    n: int,
    eps: float | None = None,
    *,
    delta: float | None = None,
    others: Any = "worst",
    bound: str = "sound",
    ways: tuple[str, ...] = WAYS,
    trials: int = 10_000,
    confidence: float = 0.999999,
    seed: int = 0,
    shuffler: Shuffler | None = None,
) -> Audit:
    """Is a claimed upper bound above the truth?

    Parameters
    ----------
    x : Randomizer or Protocol
        What is audited; your own class too.
    n : int
        Number of users.
    eps : float
        Where the claimed delta is compared with what is found; in nats, >= 0.
    delta : float, optional
        Instead of eps: it is looked at the eps at which the bound claims this delta.
    others : "worst" or a value
        What the other users hold: everything that each way can look at, or all of them this one value.
    bound : str
        The claimed bound, an upper one; "published" is one that can be violated.
    ways : tuple of str
        Which of `WAYS` to go: "enumeration" of all shuffled multisets (small laws, few users), "homogeneous" data in exact
        form, by "importance sampling" (any n, any delta), and "runs" of the protocol, from which a classifier or a known
        likelihood ratio picks an event. What does not apply is named in the result.
    trials : int
        Runs with each of two data sets, 100 to 10^8; the importance sampling takes its own number of draws.
    confidence : float
        Of each way that is not exact; the default makes a false alarm as unlikely as 1e-6.
    seed : int
        Of all random numbers.
    shuffler : Shuffler, optional
        Of the runs: another one than the trusted shuffler, to be audited with the rest.

    Returns
    -------
    Audit
        Claim, estimates with intervals, and the verdict "consistent", "violated" or "cannot tell at this many trials".

    Raises
    ------
    ValueError
        For an argument out of its range, or a bound that is no upper one.

    Examples
    --------
    The published bound of randomized response on 3 options, 3 users, e^eps0 = 3, at e^eps = 2:

    >>> from shufflesim.mechanisms import GRR
    >>> found = audit(GRR(math.log(3), 3), 3, math.log(2), bound="published", ways=("enumeration",))
    >>> found.verdict, round(found.ways[0].delta, 9), round(found.claimed, 9)
    ('violated', 0.08, 0.072)
    >>> audit(GRR(math.log(3), 3), 3, math.log(2), ways=("enumeration",)).verdict
    'consistent'
    """
    if not isinstance(x, (Randomizer, Protocol)):
        raise ValueError(f"x must be a Randomizer or a Protocol, got {x!r}")
    if (eps is None) == (delta is None):
        raise ValueError(f"exactly one of eps and delta must be given, got eps={eps!r}, delta={delta!r}")
    named = isinstance(ways, (tuple, list)) and all(isinstance(w, str) and w in WAYS for w in ways)
    if not named or not ways or len(set(ways)) < len(ways):
        raise ValueError(f"ways must be a tuple of some of {', '.join(WAYS)}, each once, got {ways!r}")
    if shuffler is not None and not isinstance(shuffler, Shuffler):
        raise ValueError(f"shuffler must be a Shuffler, got {shuffler!r}")
    n = check_users(n)
    trials = check_integer("trials", trials, low=100, high=TRIALS_MOST)
    confidence = check_number("confidence", confidence, "in (0, 1)", low=math.nextafter(0, 1), high=math.nextafter(1, 0))
    seed = check_integer("seed", seed, low=0)
    if eps is None:
        assert delta is not None
        eps = float(epsilon_at(x, n, delta, bound=bound))
        if not eps < math.inf:
            raise ValueError(f"delta must be reached by the bound {bound!r} at a finite eps, got {delta!r}")
    claim = delta_at(x, n, check_number("eps", eps, "a finite number >= 0", low=0.0), bound=bound)
    if claim.side != "upper":
        raise ValueError(f"bound must be an upper bound, got {bound!r}")
    subject = Subject(SingleMessage(x) if isinstance(x, Randomizer) else x, n, float(eps), others)
    makers: dict[str, Callable[[], Iterator[Way]]] = {
        "enumeration": subject.enumerated,
        "homogeneous": subject.homogeneous,
        "importance sampling": lambda: subject.sampled(np.random.default_rng([seed, 1]), confidence),
        "runs": lambda: subject.run(np.random.default_rng([seed, 2]), trials, confidence, shuffler),
    }
    found: list[Way] = []
    skipped: list[str] = []
    for way in ways:
        try:
            found.extend(makers[way]())
        except Skip as reason:
            skipped.append(f"{way}: {reason}")
    return Audit(x, n, float(eps), bound, claim, tuple(found), tuple(skipped), confidence)
