"""The command line, as `--help` prints it."""

import textwrap

import click

from shufflesim.cli import main

WIDTH = 80


def page():
    """One section a command."""
    top = click.Context(main, info_name="shufflesim", terminal_width=WIDTH, **main.context_settings)
    parts = ["Command line\n============", "What each command prints with ``--help``.", _block(main.get_help(top))]
    for name in main.list_commands(top):
        command = main.get_command(top, name)
        title = f"shufflesim {name}"
        with command.make_context(name, [], parent=top, resilient_parsing=True) as context:
            parts.append(f"{title}\n{'-' * len(title)}\n\n{_block(command.get_help(context))}")
    return "\n\n".join(parts) + "\n"


def _block(text):
    return ".. code-block:: text\n\n" + textwrap.indent(text, "   ")
