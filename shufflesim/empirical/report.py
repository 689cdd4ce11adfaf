"""Outcome of a set of checks, readable by people and by tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


# What is printed for a check that held, did not hold, did not apply.
OUTCOMES = {True: "ok", False: "FAIL", None: "skipped"}


@dataclass(frozen=True)
class Check:
    """One check: what was looked at, whether it held (None: it did not apply), and by how much."""

    name: str
    passed: bool | None
    detail: str


@dataclass(frozen=True)
class Report:
    """All checks of one randomizer or protocol.

    Examples
    --------
    >>> Report("x", (Check("law", True, "ok"), Check("bias", False, "z = 9"))).failures
    ('bias: z = 9',)
    """

    subject: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check that applied held."""
        return all(check.passed is not False for check in self.checks)

    @property
    def failures(self) -> tuple[str, ...]:
        """What did not hold."""
        return tuple(f"{check.name}: {check.detail}" for check in self.checks if check.passed is False)

    @property
    def table(self) -> pd.DataFrame:
        """Columns check, passed, detail."""
        import pandas as pd

        return pd.DataFrame([(c.name, c.passed, c.detail) for c in self.checks], columns=["check", "passed", "detail"])

    def __str__(self) -> str:
        lines = [f"{OUTCOMES[c.passed]:<7} {c.name}: {c.detail}" for c in self.checks]
        return "\n".join([self.subject, *lines])
