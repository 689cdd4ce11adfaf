"""Sweeps that survive interruption: a grid of protocols, parameters, n, delta, data and repeats, from one file.

The file is TOML; docs/experiment.toml is a commented one. Results are a folder of parquet files that any tool reads as one table.
"""

from .experiment import plan
from .picture import plot
from .reading import read
from .run import Outlook, outlook, sweep
from .task import Task
from .values import Generated, Table

__all__ = ["Generated", "Outlook", "Table", "Task", "outlook", "plan", "plot", "read", "sweep"]
