"""Claims against reality: does a class do what it says?"""

from .conformance import check_protocol, check_randomizer
from .report import Check, Report

__all__ = ["Check", "Report", "check_protocol", "check_randomizer"]
