"""The result of a simulation: pandas objects, files and a picture."""

from __future__ import annotations

import json
import math
import os
import platform
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._files import write_files
from ._version import __version__
from .bounds import Crowd, bound_table, epsilon
from .domains import Array, Categories
from .population import Population, Received
from .protocol import Protocol

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Values drawn in a picture; beyond it the most frequent ones are shown.
PLOTTED = 30
# Characters of labels that fit beside each other, and of a line of the title.
LABELLED, TITLE_WIDTH = 60, 100
# Bars of the truth: of users, and of sums.
TRUTHS = ("#c9d6e3", "#d9cfb8")


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """What a run of a protocol on data gave.

    Attributes
    ----------
    protocol : Protocol
        What was run.
    n, delta, confidence, method : int, float, float, str
        As asked for.
    labels, truth, estimate : ndarray, shape (k,)
        Values, true targets and their unbiased estimates; counts of users (sums over them), or means.
    variance, estimated_variance : ndarray, shape (k,)
        Exact variance of the estimates for these data, and what the messages say about it.
    aggregate : ndarray
        What the analyzer summed up.
    messages : float
        Messages that the analyzer received.
    entropy, spawn_key : int, tuple
        The seed.
    seconds : float
        Wall time of the run.
    received : Received
        Users who sent messages, faulty ones among them, and messages that the analyzer rejected.
    population : Population or None
        Who was absent or faulty, if anybody could be.
    """

    protocol: Protocol
    n: int
    delta: float
    confidence: float
    labels: Array
    truth: Array
    estimate: Array
    variance: Array
    estimated_variance: Array
    aggregate: Array
    messages: float
    entropy: Any
    spawn_key: tuple[int, ...]
    method: str
    seconds: float
    received: Received
    population: Population | None = None

    @cached_property
    def estimates(self) -> pd.DataFrame:
        """One row a value: value, truth, estimate, stderr, ci_low, ci_high.

        The standard error is what the messages say about the exact one, `variance`; the estimate itself is unbiased and never
        clipped, so that a count can be negative.
        """
        import pandas as pd
        from scipy import special

        stderr = np.sqrt(self.estimated_variance)
        z = float(special.ndtri(0.5 + self.confidence / 2))
        return pd.DataFrame(
            {
                "value": self.labels,
                "truth": self.truth,
                "estimate": self.estimate,
                "stderr": stderr,
                "ci_low": self.estimate - z * stderr,
                "ci_high": self.estimate + z * stderr,
            }
        )

    def postprocessed(self, method: str) -> pd.DataFrame:
        """Estimated counts brought into shape, at the price of a bias; nothing of it is done unless asked for.

        Parameters
        ----------
        method : {"clip", "normalise", "simplex", "norm-sub", "maximum-likelihood"}
            See `shufflesim.postprocess`; the last needs a randomizer whose law is a matrix.

        Returns
        -------
        pandas.DataFrame
            value, truth, estimate and postprocessed; without standard errors, which are for the unbiased estimate.

        Raises
        ------
        ValueError
            For an unknown method, or estimates that are no counts of users.

        Examples
        --------
        >>> import shufflesim as ss
        >>> result = ss.simulate(ss.mechanisms.GRR(0.5, 4), [0, 0, 1, 2] * 50, delta=1e-6, seed=2)
        >>> bool((result.postprocessed("simplex")["postprocessed"] >= 0).all())
        True
        """
        from . import postprocess

        known = [*postprocess.METHODS, "maximum-likelihood"]
        if not isinstance(method, str) or method not in known:
            raise ValueError(f"method must be one of {', '.join(known)}, got {method!r}")
        domain = self.protocol.domain
        if not isinstance(domain, Categories):
            raise ValueError(f"postprocessed must be for counts of one category per user, got {domain!r}")
        if method == "maximum-likelihood":
            law = self.protocol.histogram_law()
            if law is None:
                raise ValueError(
                    f"maximum-likelihood must have a protocol whose aggregate counts outcomes, got {self.protocol.name}"
                )
            found = postprocess.maximum_likelihood(self.aggregate, law)
        else:
            found = postprocess.METHODS[method](self.estimate, self.n)
        return self.estimates[["value", "truth", "estimate"]].assign(postprocessed=found)

    @cached_property
    def privacy(self) -> pd.DataFrame:
        """One row a bound; see `bound_table`. Only honest users who sent their messages hide anybody."""
        return bound_table(self.protocol, max(1, self.received.honest), self.delta)

    @cached_property
    def damage(self) -> pd.DataFrame:
        """What absent and faulty users did: one row.

        Columns: users, absent, faulty, honest (who sent their messages), rejected (messages), expected_rmse (if all users
        followed the protocol), rmse (against the values of all users), factor (their ratio), gain (estimate minus the truth of
        as many users as sent something, at the target of an attack; NaN without one), epsilon_intended and epsilon_left (sound
        central eps with all users, and with the honest ones; the local eps where no bound is proved).

        Examples
        --------
        >>> import shufflesim as ss
        >>> attack = ss.Population(faulty=0.05, attack="maximal-gain", target=2)
        >>> result = ss.simulate(ss.mechanisms.GRR(1.0, 4), [0, 1] * 5000, delta=1e-6, seed=1, population=attack)
        >>> bool(result.damage.loc[0, "gain"] > 500)
        True
        """
        import pandas as pd

        received, target = self.received, None if self.population is None else self.population.target
        gain = math.nan
        if target is not None:
            counts = self.protocol.domain.target == "count"
            # Those who are absent are missing from counts; that is not the attack's doing.
            shift = self.estimate - self.truth * (received.users / self.n if counts else 1.0)
            aimed = self.protocol.domain.validate(np.asarray([target]))
            towards = self.protocol.domain.truth(self.protocol.domain.total(aimed), 1)
            gain = float(towards @ shift if counts else np.sign(towards - self.truth) @ shift)
        sound = [self._sound(n) for n in (self.n, max(1, received.honest))]
        return pd.DataFrame(
            {
                "users": [self.n],
                "absent": [self.n - received.users],
                "faulty": [received.faulty],
                "honest": [received.honest],
                "rejected": [received.rejected],
                "expected_rmse": [self.expected_rmse],
                "rmse": [self.rmse],
                "factor": [self.rmse / self.expected_rmse if self.expected_rmse > 0 else math.nan],
                "gain": [gain],
                "epsilon_intended": [sound[0]],
                "epsilon_left": [sound[1]],
            }
        )

    def _sound(self, n: int) -> float:
        """Sound central eps among n users; the local eps of a protocol without proved claims."""
        claims = self.protocol.claims(Crowd(n))
        proved = any(c.side == "upper" and c.sound and not c.baseline for c in claims)
        return float(epsilon(self.protocol, n, self.delta)) if proved else self.protocol.local_epsilon

    @property
    def rmse(self) -> float:
        """Root of the mean squared error over the values."""
        return float(np.sqrt(np.mean((self.estimate - self.truth) ** 2)))

    @property
    def expected_rmse(self) -> float:
        """Root of the mean exact variance at the truth."""
        return float(np.sqrt(np.mean(self.variance)))

    @cached_property
    def errors(self) -> pd.DataFrame:
        """One row a kind of estimates: kind, rmse, expected_rmse; two rows for key-value data, users and sums of values."""
        import pandas as pd

        squares = (self.estimate - self.truth) ** 2
        rows = [
            (kind, math.sqrt(np.mean(squares[part])), math.sqrt(np.mean(self.variance[part])))
            for kind, part in self.protocol.domain.kinds.items()
        ]
        return pd.DataFrame(rows, columns=["kind", "rmse", "expected_rmse"])

    def leading(self, most: int) -> dict[str, pd.DataFrame]:
        """The estimates that tables and pictures show, by kind: at most so many of each, the most frequent values first."""
        kinds = self.protocol.domain.kinds
        parts = [self.estimates.iloc[part] for part in kinds.values()]
        order = np.arange(len(parts[0]))
        if self.protocol.domain.target == "count":
            order = np.argsort(-parts[0]["truth"].to_numpy(), kind="stable")
        return {kind: part.iloc[order[:most]] for kind, part in zip(kinds, parts, strict=True)}

    @cached_property
    def cost(self) -> pd.DataFrame:
        """Messages and bits per user, expected and observed."""
        import pandas as pd

        expected, bits = self.protocol.messages_per_user, self.protocol.bits_per_message
        observed = self.messages / self.n
        return pd.DataFrame(
            {"expected": [expected, expected * bits], "observed": [observed, observed * bits]},
            index=pd.Index(["messages_per_user", "bits_per_user"], name="cost"),
        )

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row: protocol, privacy on both sides, cost and error; without any claim the local eps is the upper bound."""
        import pandas as pd

        rows = self.privacy
        sound = rows[rows["bound"] == "sound"]
        local = {"epsilon": self.protocol.local_epsilon, "note": "local eps"}
        upper = sound.iloc[0] if len(sound) else local
        lower = rows.loc[rows["side"] == "lower", "epsilon"]
        return pd.DataFrame(
            {
                "protocol": [self.protocol.name],
                "n": [self.n],
                "local_epsilon": [self.protocol.local_epsilon],
                "epsilon_upper": [upper["epsilon"]],
                "upper_bound": [str(upper["note"]).rpartition(": ")[2]],
                "epsilon_lower": [lower.max() if len(lower) else math.nan],
                "delta": [self.delta],
                "messages_per_user": [self.cost.loc["messages_per_user", "observed"]],
                "bits_per_user": [self.cost.loc["bits_per_user", "observed"]],
                "rmse": [self.rmse],
                "expected_rmse": [self.expected_rmse],
            }
        )

    def record(self) -> dict[str, Any]:
        """Everything but the estimates, ready for json: parameters, seed, versions, privacy, cost, errors."""
        return {
            "protocol": self.protocol.name,
            "parameters": _parameters(self.protocol),
            "n": self.n,
            "delta": self.delta,
            "confidence": self.confidence,
            "method": self.method,
            "population": None if self.population is None else _parameters(self.population),
            "seed": {"entropy": self.entropy, "spawn_key": list(self.spawn_key)},
            "target": self.protocol.domain.target,
            "summary": _plain(self.summary.iloc[0].to_dict()),
            "privacy": [_plain(row) for row in self.privacy.to_dict("records")],
            "damage": None if self.population is None else _plain(self.damage.iloc[0].to_dict()),
            "errors": self.errors.to_dict("records"),
            "cost": {k: _plain(v) for k, v in self.cost.to_dict("index").items()},
            "seconds": self.seconds,
            "versions": {
                "shufflesim": __version__,
                "python": platform.python_version(),
                **{name: version(name) for name in ("numpy", "scipy", "pandas")},
            },
        }

    def save(self, folder: str | os.PathLike[str], name: str = "estimates") -> list[Path]:
        """Write `name`.csv, `name`.parquet, `name`.json and `name`.png; each appears whole or not at all.

        Parameters
        ----------
        folder : path
            Created if it does not exist; files of the same name are replaced.
        name : str
            Common stem of the files.

        Returns
        -------
        list of pathlib.Path
            What was written.

        Raises
        ------
        ValueError
            If the folder cannot be made or written to.
        """
        target = Path(folder)
        text = json.dumps(self.record(), indent=2, allow_nan=False)
        writers: dict[str, Callable[[Path], Any]] = {
            f"{name}.csv": lambda path: self.estimates.to_csv(path, index=False),
            f"{name}.parquet": lambda path: self.estimates.to_parquet(path, index=False),
            f"{name}.json": lambda path: path.write_text(text + "\n", encoding="utf-8"),
            f"{name}.png": self._write_picture,
        }
        try:
            return write_files(target, writers)
        except OSError as error:
            raise ValueError(f"folder must be writable, got {str(target)!r}: {error.strerror or error}") from None

    def _write_picture(self, path: Path) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 4.5), layout="constrained")
        self.plot(figure.add_subplot())
        figure.savefig(path, dpi=150)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw estimates with their confidence intervals against the truth.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(9, 4.5), layout="constrained").add_subplot()
        import pandas as pd

        rows, counts = self.estimates, self.protocol.domain.target == "count"
        kinds = self.leading(PLOTTED // len(self.protocol.domain.kinds))
        shown = pd.concat(kinds.values())
        # Several means may be of different size: what is off is what can be seen.
        origin = shown["truth"] if len(shown) > 1 and not counts else 0.0
        each = len(shown) // len(kinds)
        # The kinds one after the other, with an empty place between two.
        place = np.arange(len(shown)) + np.arange(len(shown)) // each
        if counts:
            for (kind, part), at, colour in zip(kinds.items(), place.reshape(-1, each), TRUTHS, strict=False):
                ax.bar(at, part["truth"], color=colour, label="truth" if len(kinds) == 1 else f"true {kind}")
        elif len(shown) == 1:
            ax.axhline(float(shown["truth"].iloc[0]), color="#44617d", label="truth")
        ax.errorbar(
            place,
            shown["estimate"] - origin,
            yerr=shown["ci_high"] - shown["estimate"],
            fmt="o",
            color="#b3450b",
            markersize=4,
            capsize=3,
            label=f"estimate, {self.confidence:.0%} interval",
        )
        names = [drawable(str(v)) for v in shown["value"]]
        ax.set_xticks(place, names, rotation=90 if sum(map(len, names)) > LABELLED else 0)
        margin = 1.0 if len(shown) == 1 else 0.6
        ax.set_xlim(-margin, place[-1] + margin)
        if len(shown) == 1:
            low, high = float(shown["ci_low"].min()), float(shown["ci_high"].max())
            middle = float(shown["truth"].iloc[0])
            span = 4 * max(abs(low - middle), abs(high - middle), 1e-12)
            ax.set_ylim(middle - span, middle + span)
        if counts or len(shown) > 1:
            ax.axhline(0, color="black", linewidth=0.6)
        ax.set_ylabel(" and ".join(kinds) if counts else "mean" if len(shown) == 1 else "estimate minus truth")
        whole = len(rows) // len(kinds)
        more = f"; {each} {'most frequent' if counts else 'first'} of {whole} values" if each < whole else ""
        if self.population is not None:
            more = f", {self.n - self.received.users:,} absent, {self.received.faulty:,} faulty{more}"
        ax.set_title(textwrap.fill(f"{self.protocol.name}, {self.n:,} users{more}", TITLE_WIDTH), fontsize="medium")
        ax.legend()
        return ax

    def __repr__(self) -> str:
        return f"Simulation({self.protocol.name}, n={self.n}, rmse={self.rmse:.6g})"

    def _repr_html_(self) -> str:
        return str(self.summary.to_html(index=False))


def drawable(text: str) -> str:
    """A label for a picture: what would be read as a formula, steers, or is in none of the chosen fonts is shown as an escape.

    Examples
    --------
    >>> drawable("Zürich"), drawable("$5"), drawable("東\\n")
    ('Zürich', '\\\\$5', '\\\\u6771\\\\n')
    """
    from matplotlib import font_manager

    families = font_manager.FontProperties().get_family()
    fonts = [font_manager.get_font(font_manager.findfont(font_manager.FontProperties(family=[name]))) for name in families]

    def shown(character: str) -> str:
        if character == "$":
            return r"\$"
        if character.isprintable() and any(font.get_char_index(ord(character)) for font in fonts):
            return character
        return character.encode("unicode_escape").decode("ascii")

    return "".join(map(shown, text))


def _plain(row: dict[Any, Any]) -> dict[str, Any]:
    """NumPy scalars to Python's; infinities and NaN to strings, which json has no numbers for."""
    plain: dict[str, Any] = {}
    for key, value in row.items():
        item = value.item() if isinstance(value, np.generic) else value
        plain[str(key)] = str(item) if isinstance(item, float) and not math.isfinite(item) else item
    return plain


def _parameters(thing: Any) -> Any:
    """Fields of nested dataclasses."""
    if is_dataclass(thing):
        inner = {f.name: _parameters(getattr(thing, f.name)) for f in fields(thing)}
        return {"class": type(thing).__name__, **inner}
    return thing.item() if isinstance(thing, np.generic) else thing
