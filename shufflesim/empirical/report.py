"""Outcome of a set of checks, readable by people and by tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Check:
    """One check: what was looked at, whether it held, and by how much."""

    name: str
    passed: bool
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
        """Whether every check held."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[str, ...]:
        """What did not hold."""
        return tuple(f"{check.name}: {check.detail}" for check in self.checks if not check.passed)

    @property
    def table(self) -> pd.DataFrame:
        """Columns check, passed, detail."""
        import pandas as pd

        return pd.DataFrame([(c.name, c.passed, c.detail) for c in self.checks], columns=["check", "passed", "detail"])

    def __str__(self) -> str:
        lines = [f"{'ok  ' if c.passed else 'FAIL'} {c.name}: {c.detail}" for c in self.checks]
        return "\n".join([self.subject, *lines])
