"""A figure, table or remark of the paper: what is computed, how it is drawn, and which claims are checked on it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import write_files
from .._identity import digest, library_code
from .._resumable import Rows
from .._version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Columns of a line of text, dots per inch of a png.
TEXT_WIDTH, DPI = 100, 150
FOOTNOTE = (
    "Claims with (here) are questions of this library's own; so are, if nothing else is said, the values of n, d and eps, and "
    "from where on a claim about an approximate number counts as true."
)


@dataclass(frozen=True)
class Finding:
    """A claim beside what was found.

    Attributes
    ----------
    claim : str
        What the paper says or, with "(here)", a question of this library's own, whatever the answer.
    found : str
        What the numbers of the table say, in words.
    good, of : int
        In how many of how many places the claim is true.
    """

    claim: str
    found: str
    good: int
    of: int

    @property
    def verdict(self) -> str:
        """Holds, does not hold, or holds in some of the places (mostly fails, if in less than half)."""
        if self.good == self.of:
            return "holds"
        if not self.good:
            return "does not hold"
        return f"{'mostly fails, ' if 2 * self.good < self.of else ''}holds in {self.good} of {self.of}"


@dataclass(frozen=True)
class Piece:
    """One picture with its data.

    Attributes
    ----------
    name, title : str
        As on the command line; as above the picture.
    rows : callable
        Rows of one case, from its arguments; what JSON can hold.
    cases : tuple of mappings
        Arguments of `rows`: all of them make the table.
    draw : callable
        From the table to a figure.
    judge : callable
        From the table to the findings.
    alone : bool
        Whether cases measure time, so that nothing else may run beside them.
    remark : str
        What a reader of the numbers has to know.
    """

    name: str
    title: str
    rows: Callable[..., Rows]
    cases: tuple[Mapping[str, Any], ...]
    draw: Callable[[pd.DataFrame], Figure]
    judge: Callable[[pd.DataFrame], list[Finding]]
    alone: bool = False
    remark: str = ""

    def reproduce(self, **wanted: Any) -> Reproduction:
        """Compute it here and now, or only the cases with the wanted arguments.

        Raises
        ------
        ValueError
            If no case has them, or none of those has a row.

        Examples
        --------
        >>> from shufflesim.paper import PIECES
        >>> found = PIECES["fig4"].reproduce(n=10**5, d=16, target=0.1)
        >>> found.table[["bound", "epsilon"]].head(1).round(5).values.tolist()
        [['sound', 0.02324]]
        """
        import pandas as pd

        single = all(isinstance(value, (int, float, str)) for value in wanted.values())
        cases = [case for case in self.cases if single and wanted.items() <= case.items()]
        rows = [row for case in cases for row in Case(self, case).rows()]
        if cases and not rows:
            raise ValueError(f"wanted must be arguments of a case of {self.name} that has rows, got {wanted!r}; {self.remark}")
        if not cases:
            known = {name: list(dict.fromkeys(case[name] for case in self.cases)) for name in self.cases[0]}
            raise ValueError(f"wanted must be arguments of a case of {self.name}, got {wanted!r}; there are {known!r}")
        return Reproduction(self, pd.DataFrame(rows))


@dataclass(frozen=True)
class Case:
    """One case of a piece, as a task that can be stored.

    Attributes
    ----------
    piece : Piece
        Of module-level functions, so that it can be pickled.
    arguments : mapping
        Of its `rows`.
    """

    piece: Piece
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Hash of the arguments and of the code."""
        return digest(self.piece.name, dict(self.arguments), library_code())

    def rows(self) -> Rows:
        """The rows, arguments first."""
        return [{**self.arguments, **row} for row in self.piece.rows(**self.arguments)]


@dataclass(frozen=True)
class Reproduction:
    """What a piece came to.

    Attributes
    ----------
    piece : Piece
        What was reproduced.
    table : pandas.DataFrame
        All rows.
    """

    piece: Piece
    table: pd.DataFrame

    @property
    def findings(self) -> list[Finding]:
        """Claims, with what the table says of them; without those that it says nothing of."""
        return [finding for finding in self.piece.judge(self.table) if finding.of]

    def plot(self) -> Figure:
        """The picture; not registered with pyplot."""
        figure = self.piece.draw(self.table)
        figure.suptitle(self.piece.title, fontsize="medium")
        return figure

    @property
    def text(self) -> str:
        """Claims, numbers and verdicts, for a terminal."""
        parts = [f"{self.piece.title} (shufflesim {__version__})"]
        parts += [f"Claim: {f.claim}\nFound: {f.found}\nSo the claim {f.verdict}." for f in self.findings]
        parts += [part for part in (self.piece.remark, FOOTNOTE) if part]
        filled = ["\n".join(textwrap.fill(line, TEXT_WIDTH) for line in part.splitlines()) for part in parts]
        return "\n\n".join(filled) + "\n"

    def save(self, folder: str | Path) -> list[Path]:
        """Write csv, png, pdf and txt named after the piece; the same table gives the same bytes."""
        figure = self.plot()
        writers: dict[str, Callable[[Path], Any]] = {
            "csv": lambda path: self.table.to_csv(path, index=False),
            "png": lambda path: figure.savefig(path, dpi=DPI),
            "pdf": lambda path: figure.savefig(path, metadata={"CreationDate": None}),
            "txt": lambda path: path.write_text(self.text, encoding="utf-8"),
        }
        return write_files(Path(folder), {f"{self.piece.name}.{ending}": write for ending, write in writers.items()})

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.text)}</pre>"


def spread(values: Any, unit: str = "") -> str:
    """Smallest, median and largest of several numbers, in words."""
    import numpy as np

    if not len(values):
        return "nothing"
    low, middle, high = (float(v) for v in np.quantile(np.asarray(values, dtype=float), [0, 0.5, 1]))
    if f"{low:.3g}" == f"{high:.3g}":
        return f"{low:.3g}{unit}"
    return f"{low:.3g}{unit} to {high:.3g}{unit}, median {middle:.3g}{unit}"
