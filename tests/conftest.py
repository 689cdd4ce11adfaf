"""Shared by several test files."""

import numpy as np
import pytest

import shufflesim as ss

pytest.register_assert_rewrite("tests.cli_helpers")


@pytest.fixture(autouse=True)
def _floating_point_errors_raise():
    """Overflow, division by zero and NaN raise where they arise, also where nobody looks at warnings.

    Underflow to zero is what log-space code relies on.
    """
    with np.errstate(all="raise", under="ignore"):
        yield


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The test runs in an empty folder, at a fixed width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def no_picture(monkeypatch):
    """Pictures take most of the time of a small run."""
    monkeypatch.setattr(ss.Simulation, "_write_picture", lambda self, path: path.touch())
