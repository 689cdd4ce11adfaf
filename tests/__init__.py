"""One thread per test process for linear algebra: the matrices are small, and the threads of several workers wait for each other.

The variable is read when NumPy is loaded; no plugin does that earlier.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
