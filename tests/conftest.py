"""Shared by all tests."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _floating_point_errors_raise():
    """Overflow, division by zero and NaN raise where they arise, also where nobody looks at warnings.

    Underflow to zero is what log-space code relies on.
    """
    with np.errstate(all="raise", under="ignore"):
        yield
