"""What every command shares: one line and an exit status for whatever goes wrong on the user's side."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import click

from shufflesim._cluster import WorkerLostError, check_client, connected

BAD_INPUT = 2
INTERRUPTED = 130
# What a shell reports for a command that a closed pipe has stopped: 128 + SIGPIPE.
PIPE_CLOSED = 141
# Where parts of a run are until it is done, and how long a seed is that must be told.
UNFINISHED = "unfinished"
SEED_BITS = 63


class Interrupted(click.ClickException):
    """The user pressed Ctrl-C."""

    exit_code: ClassVar[int] = INTERRUPTED


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Of a command that goes on from a folder: an interruption says so, and a folder that cannot be written is bad input."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; the same command goes on from what is in {str(out)!r}") from None
    except WorkerLostError as error:
        raise Interrupted(f"{error}; the same command goes on from what is in {str(out)!r}") from None
    except OSError as error:
        raise click.UsageError(f"--out must be a writable folder, got {str(out)!r}: {error.strerror}") from error


@contextmanager
def crew(workers: int, scheduler: str | None) -> Iterator[dict[str, Any]]:
    """Who does the work, as the library's arguments: processes, or a cluster that stays connected meanwhile."""
    if scheduler is None:
        yield {"workers": workers}
        return
    if workers != 1:
        raise click.UsageError(f"--workers must be left out with --scheduler, whose cluster has its own, got {workers}")
    with ExitStack() as stack:
        with refusing():
            client = stack.enter_context(connected(scheduler))
            check_client(client, 1)
        yield {"client": client}


@contextmanager
def keeping(streamed: bool, out: Path | None, seed: int | None) -> Iterator[dict[str, Any]]:
    """Seed of a run, and where its parts are kept if data are streamed: an error says how to go on, success leaves none."""
    if out is None or not streamed:
        yield {"seed": seed}
        return
    from shufflesim.sums import kept

    folder = out / UNFINISHED
    make_folder(folder)
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    go_on = f"what was done is kept in {str(folder)!r}: the same command with --seed {seed} goes on from there"

    def said(error: object) -> str:
        return f"{error}; {go_on}" if kept(folder) else str(error)

    try:
        yield {"seed": seed, "folder": folder}
    except ValueError as error:
        raise click.UsageError(said(error)) from error
    except WorkerLostError as error:
        raise Interrupted(said(error)) from None
    except KeyboardInterrupt:
        raise Interrupted(said("interrupted")) from None
    except OSError as error:
        raise click.UsageError(said(f"--out must be a writable folder, got {str(out)!r}: {error.strerror}")) from error
    else:
        for path in kept(folder):
            path.unlink(missing_ok=True)
    finally:
        # Stays if something is in it.
        with suppress(OSError):
            folder.rmdir()


def make_folder(folder: Path) -> None:
    """Before the work and not after it: a folder that cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--out must be a writable folder, got {str(folder)!r}: {error.strerror}") from error


class Shell(click.Group):
    """A group of commands that reports a user's mistake in one line; a bug still shows its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command and return its exit status."""
        try:
            status = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
        except WorkerLostError as error:
            raise Interrupted(str(error)) from None
        except BrokenPipeError:
            # Whatever is still buffered has no reader; without this the interpreter complains at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED
        return status

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and leave with its exit status."""
        for stream in (sys.stdout, sys.stderr):
            # Labels may hold any character: show those that the terminal cannot encode as escapes.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        try:
            status = super().main(
                args, prog_name or "shufflesim", complete_var, False, windows_expand_args=windows_expand_args, **extra
            )
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            status = BAD_INPUT
        except click.ClickException as error:
            message = " ".join(error.format_message().split())
            interrupted = isinstance(error, Interrupted)
            click.echo(f"shufflesim: {message}" if interrupted else f"shufflesim: error: {message}", err=True)
            status = INTERRUPTED if interrupted else BAD_INPUT
        sys.exit(status or 0)


@contextmanager
def refusing() -> Iterator[None]:
    """Turn the library's refusal of an argument into bad input of the command line."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def note(message: str) -> None:
    """One line on stderr that is no error."""
    click.echo(f"shufflesim: note: {message}", err=True)
