"""Docstrings on the site: names link to where they are documented, indented formulas are shown as they are."""

import re

from . import pages

# Names of parameters far more often than of the functions.
PARAMETERS = ("delta", "epsilon")
SECTION = re.compile(r"-{3,}")
SOURCE = "Source: "


def _resolve(app, env, node, contnode):
    """Link to the one place of a name, whatever module it is named by.

    What is in backquotes need not be a name, and a signature may show a type that is not public or of another project.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].removeprefix("ss.")
    # The longest beginning that is known: a method is documented with its class.
    head, rest = target, ""
    while head not in app.shufflesim_aliases and "." in head:
        head, _, last = head.rpartition(".")
        rest = f".{last}{rest}"
    if head in app.shufflesim_aliases and target not in PARAMETERS:
        name = app.shufflesim_aliases[head] + rest
        found = env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)
        if found is not None:
            return found
    ours = target.startswith("shufflesim.") and node["reftype"] != "class"
    return None if ours else contnode


def _show_notes(app, what, name, obj, options, lines):
    """Mark indented blocks of the description and of the notes as literal; the source is a paragraph of its own."""
    found, literal, described = [], False, True
    for i, line in enumerate(lines):
        if SECTION.fullmatch(line):
            described = lines[i - 1] == "Notes"
        after_blank = bool(found) and not found[-1].strip()
        if line.startswith(SOURCE) and not after_blank:
            found.append("")
        if described and after_blank and line.startswith(" ") and not literal:
            found += ["::", ""]
            literal = True
        literal = literal and (not line.strip() or line.startswith(" "))
        found.append(line)
    lines[:] = found


def setup(app):
    """Connect to the events, the formulas ahead of numpydoc."""
    app.shufflesim_aliases = pages.aliases()
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-process-docstring", _show_notes, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
