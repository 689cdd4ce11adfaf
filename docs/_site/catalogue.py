"""The catalogue: every mechanism and protocol, by what its class says of itself."""

import inspect
import math
import re

from shufflesim import Protocol, catalogue
from shufflesim.bounds import Crowd, claims_of

from .tables import table

# Users for whom bounds are listed, where the example does not say for how many it is.
USERS = 10_000
INTRODUCTION = f"""\
Catalogue
=========

Every mechanism and protocol that is installed, at the first of its examples: the data it takes, what it declares, which
bounds apply to {USERS:,} users (or as many as the example is for), on which side of the truth they are and whether that is
proved, and what a user sends. Made from the classes when the site is built; ``shufflesim list`` prints a shorter one.

A declaration is (p, beta, q, q*), as explained in :doc:`/docs/theory`; :doc:`/docs/baselines` explains bounds by name.
"""


def page():
    """One section an entry, after tables of contents."""
    parts = [INTRODUCTION]
    for title, entries in (("Mechanisms", catalogue.mechanisms()), ("Protocols", catalogue.protocols())):
        contents = [(f":ref:`{name} <catalogue-{name}>`", _summary(cls)) for name, cls in entries.items()]
        parts.append(f"{title}\n{'-' * len(title)}\n\n{table(contents)}")
        for name, cls in entries.items():
            heading = f".. _catalogue-{name}:\n\n{name}\n{'^' * len(name)}"
            parts.append(f"{heading}\n\n{_summary(cls)}\n\n{table(facts(cls).items())}")
    return "\n\n".join(parts) + "\n"


def facts(cls):
    """What is said of a class, by label, as reStructuredText."""
    x = next(cls.examples())
    crowd = Crowd(getattr(x, "users", USERS))
    claims = claims_of(x, crowd)
    said = {
        "Class": f"`{cls.__module__.rpartition('.')[0]}.{cls.__name__}`",
        "Example": f"``{x!r}``",
        "Data": _note(cls, "Data"),
        "Declares": _declares(x),
        "Published beta": _published_beta(x),
        "Local eps": f"{x.local_epsilon:.4g}",
    }
    for side in ("upper", "lower"):
        for sound, how in ((True, "proved"), (False, "not proved")):
            names = [claim.bound for claim in claims if (claim.side, claim.sound) == (side, sound)]
            said[f"{side.capitalize()} bounds, {how}"] = ", ".join(f"``{name}``" for name in names)
    protocol = isinstance(x, Protocol)
    said["Messages per user"] = f"{x.messages_per_user if protocol else 1:,.6g}"
    said["Bits per message"] = f"{x.bits_per_message if protocol else x.bits:,.6g}"
    said["Source"] = _note(cls, "Source")
    return {label: text for label, text in said.items() if text}


def _summary(cls):
    return inspect.getdoc(cls).partition("\n")[0]


def _note(cls, label):
    """What follows the label in the docstring, up to the next label or paragraph."""
    found = re.search(rf"^{label}: (.*?)(?=\n\n|\n[A-Z]\w+: |\Z)", inspect.getdoc(cls), re.MULTILINE | re.DOTALL)
    return "" if found is None else " ".join(found[1].split())


def _declares(x):
    declarations = x.declarations if isinstance(x, Protocol) else (x.amplification,)
    if not declarations:
        return f"nothing: {x.undeclared}"
    shown = [
        f"p = {v.p:.6g}, beta = {v.beta:.6g}, q = {v.q:.6g}{'' if v.q1 is None else f', q1 = {v.q1:.6g}'}, q* = {v.q_star:.6g}"
        for v in declarations
    ]
    return shown[0] if len(shown) == 1 else "; ".join(f"part {i}: {text}" for i, text in enumerate(shown, 1))


def _published_beta(x):
    """The beta in print, where it is not the declared one."""
    beta = getattr(x, "published_beta", None)
    return "" if beta is None or math.isclose(beta, x.amplification.beta, rel_tol=1e-9) else f"{beta:.6g}"
