"""Claims against reality: does a class do what it says, and is a bound above the truth?"""

from .audit import Audit, audit
from .black_box import black_box
from .conformance import check_protocol, check_randomizer
from .enumeration import Enumeration
from .rare_event import tilted_estimate
from .report import Check, Report

__all__ = [
    "Audit",
    "Check",
    "Enumeration",
    "Report",
    "audit",
    "black_box",
    "check_protocol",
    "check_randomizer",
    "tilted_estimate",
]
