"""Data to simulate on: bundled real tables (`load`) and seeded synthetic columns.

Nothing is downloaded. The origin and the licence of the bundled tables are in ``PROVENANCE.md`` beside this file.
"""

from shufflesim.datasets.bundled import load
from shufflesim.datasets.synthetic import gaussian_mixture, geometric, uniform, zipf

__all__ = ["gaussian_mixture", "geometric", "load", "uniform", "zipf"]
