"""Discussion: amplification of two points under planar Laplace noise, as the region of all users grows."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .._resumable import Rows
from ..bounds import Bounded, PlanarLaplacePair, VariationRatio, epsilon
from ..bounds.api import amplification_ratio
from ..datasets import load
from ..domains import Map
from ..domains.points import EARTH_KM
from ..mechanisms import PlanarLaplace
from .pictures import DASHED, DOTTED, SOLID, legend_below, line, panels
from .piece import Finding, Piece, spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Users, delta = 0.01/n; budget per kilometre.
USERS, PER_KM = 10**4, 0.005
# Middle of the region, latitude and longitude, and its half widths in kilometres.
CENTRE = (40.7, -74.0)
HALF_WIDTHS = (150, 250, 400, 600, 900, 1300)
# Two airports each, 17, 150 and 300 km apart, and the least half width that holds both.
PAIRS = {"JFK-LGA": 150, "JFK-PHL": 150, "JFK-BOS": 400}
DRAWN = (
    ("sound", SOLID, "sound"),
    ("earlier", DOTTED, "earlier clones"),
    ("lower", DASHED, "lower bound"),
)
# Relative width of brackets; amplification that is not yet used up; few clones; how near to 1/2 an exponent is.
RTOL, LEFT, FEW, NEAR = 1e-4, 2.0, 20, 0.1


@cache
def airports() -> dict[str, tuple[float, float]]:
    """Latitude and longitude by code."""
    table = load("airports")
    return dict(zip(table["faa"], zip(table["lat"], table["lon"], strict=True), strict=True))


def region(half_width: float) -> Map:
    """A square of this half width in kilometres around New York City."""
    up = math.degrees(half_width / EARTH_KM)
    across = up / math.cos(math.radians(CENTRE[0]))
    latitude, longitude = ((middle - half, middle + half) for middle, half in zip(CENTRE, (up, across), strict=True))
    return Map(latitude=latitude, longitude=longitude, unit="km")


def inside(area: Map) -> int:
    """Airports of the bundled table in a region."""
    (south, north), (west, east) = area.latitude, area.longitude
    return sum(south <= latitude <= north and west <= longitude <= east for latitude, longitude in airports().values())


def earlier_clones(x: PlanarLaplacePair) -> VariationRatio:
    """What is known of two points without their total variation: p, and the earlier clone probability.

    The largest beta for p leaves no neutral part, so that the published pair is proved (V1); q makes 2 beta p/((p-1) q) that
    probability.
    """
    p = x.amplification.p
    return VariationRatio(p, (p - 1) / (p + 1), 2 * p / ((p + 1) * x.clone_probabilities[1]))


def rows(pair: str, half_width: float) -> Rows:
    """Bounds on the central eps of two airports among `USERS` users anywhere in the region, at delta = 0.01/n.

    Parameters
    ----------
    pair : str
        Codes of two airports, as in "JFK-LGA".
    half_width : float
        Of the region, in kilometres.

    Notes
    -----
    `d01` and `d_max` are in scales of the noise, eps times kilometres; `clones` is 2r = 2 beta p/((p-1) q) with p = e^d01 and
    q = e^d_max, `earlier_clones` 2/max over x of (e^d(x,x0) + e^d(x,x1)).
    """
    area = region(half_width)
    x = PlanarLaplace(PER_KM, area).pair(*(airports()[code] for code in pair.split("-")))
    clones, earlier = x.clone_probabilities
    bounded: dict[str, tuple[Bounded, str]] = {bound: (x, bound) for bound in ("sound", "three-outcome", "lower")}
    found = []
    for name, (y, bound) in (bounded | {"earlier": (earlier_clones(x), "published")}).items():
        central = min(float(epsilon(y, USERS, 0.01 / USERS, bound=bound, rtol=RTOL)), x.d01)
        found.append(
            {
                "airports": inside(area),
                "bound": name,
                "d01": x.d01,
                "d_max": x.d_max,
                "clones": clones,
                "earlier_clones": earlier,
                "central": central,
                "amplification_ratio": amplification_ratio(x.d01, central),
            }
        )
    return found


def draw(table: pd.DataFrame) -> Figure:
    """Amplification against the region's size, and clones against d_max."""
    figure, (left, right) = panels(1, 2, len(PAIRS) * len(DRAWN), 2)
    sizes = table.drop_duplicates("half_width").sort_values("half_width")
    for place, (pair, here) in enumerate(table.sort_values("half_width").groupby("pair", sort=False)):
        for bound, style, label in DRAWN:
            curve = here[here["bound"] == bound]
            name = f"{pair}, {curve['d01'].iloc[0] / PER_KM:.0f} km: {label}"
            line(left, curve["half_width"].to_numpy(), curve["amplification_ratio"].to_numpy(), place, name, style)
        for what, style in (("clones", SOLID), ("earlier_clones", DOTTED)):
            line(right, curve["d_max"].to_numpy(), curve[what].to_numpy(), place, "_", style)
    left.set(xscale="log", yscale="log", xlabel="half width of the region (km), airports in it", ylabel="amplification ratio")
    left.minorticks_off()
    left.set_xticks(sizes["half_width"], [f"{w}\n{k}" for w, k in zip(sizes["half_width"], sizes["airports"], strict=True)])
    right.set(yscale="log", xlabel="d_max (scales of the noise)", ylabel="clone probability")
    for style, label in ((SOLID, "2r"), (DOTTED, "earlier")):
        right.plot([], [], style, color="black", label=label)
    right.legend(loc="upper right", frameon=False, fontsize="small", handlelength=3)
    legend_below(figure, [left], 2)
    return figure


def judge(table: pd.DataFrame) -> list[Finding]:
    """How amplification falls as the region grows, and what the total variation and the law are worth."""
    key = ["pair", "half_width"]
    sound = table[table["bound"] == "sound"].set_index(key).sort_index()
    by_pair = [part for _, part in sound.groupby("pair")]
    fall = np.concatenate(
        [np.empty(0), *(-np.diff(np.log(part["amplification_ratio"])) / np.diff(part["d_max"]) for part in by_pair)]
    )
    ratio = np.concatenate([np.empty(0), *(part["amplification_ratio"].to_numpy()[1:] for part in by_pair)])
    early = fall[ratio >= LEFT]
    spent, more = (sound[(sound["amplification_ratio"] < LEFT) == less] for less in (True, False))
    wide = table.pivot_table(index=key, columns="bound", values="central").loc[more.index]
    clones, of = sound["clones"] / sound["earlier_clones"], len(sound)
    saved = {bound: 1 - wide[bound] / wide["earlier"] for bound in ("three-outcome", "sound")}
    return [
        Finding(
            "(here) the more airports the region holds, the less two of them are amplified: the ratio falls with d_max.",
            f"it falls by {spread(100 * -np.expm1(-fall), '%')} for each scale of the noise that d_max grows.",
            int((fall > 0).sum()),
            len(fall),
        ),
        Finding(
            f"(here) it falls like e^(-d_max/2), as the root of the clones, while it is {LEFT:g} or more.",
            f"the exponent is {spread(early)}; counted as true up to {NEAR:g} away from 1/2.",
            int((np.abs(early - 0.5) <= NEAR).sum()),
            len(early),
        ),
        Finding(
            f"(here) what is left is less than {LEFT:g} where fewer than {FEW} of the others are clones, and nowhere else.",
            f"there are {spread(USERS * spent['clones'])} clones there, and {spread(USERS * more['clones'])} elsewhere; "
            f"{FEW} was chosen with these numbers in view.",
            int(((sound["amplification_ratio"] < LEFT) == (USERS * sound["clones"] < FEW)).sum()),
            of,
        ),
        Finding(
            "(here) the clone probability 2r is larger than the earlier 2/max (e^d(x,x0) + e^d(x,x1)).",
            f"it is {spread(clones)} times that.",
            int((clones > 1).sum()),
            of,
        ),
        Finding(
            f"(here) total variation saves budget against the earlier clones all the same, the law more, while {LEFT:g} is left.",
            f"of the eps by the earlier clones the three-outcome bound saves {spread(100 * saved['three-outcome'], '%')}, "
            f"the sound one {spread(100 * saved['sound'], '%')}; the latter is {spread(wide['sound'] / wide['lower'])} times the "
            "lower bound.",
            int(((saved["sound"] > saved["three-outcome"]) & (saved["three-outcome"] > 0)).sum()),
            len(wide),
        ),
    ]


DISTANCE = Piece(
    "discussion-distance",
    f"Two airports under planar Laplace noise, eps = {PER_KM:g} per km, n = {USERS:,}, delta = 0.01/n",
    rows,
    tuple({"pair": pair, "half_width": width} for pair, least in PAIRS.items() for width in HALF_WIDTHS if width >= least),
    draw,
    judge,
    remark="Bounds are for the two airports named, with the other users anywhere in a disc that holds the region. No pair is "
    "proved to be the worst of a region.",
)
