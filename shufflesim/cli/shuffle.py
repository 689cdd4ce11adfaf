"""`shufflesim shuffle`: put the rows of Parquet files in a random order, whether or not they fit in memory."""

from __future__ import annotations

from pathlib import Path

import click

from .arguments import Size, json_option
from .output import progress, show, show_json, table
from .shell import refusing


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--column", "columns", multiple=True, help="A column of the messages to release; repeat.  [default: all]")
@click.option("--seed", type=int, help="Makes the order repeatable; without it fresh entropy is drawn and printed.")
@click.option("--memory", type=Size(), default="256MiB", show_default=True, help="For the rows that are held at once.")
@click.option("--minimum-batch", type=int, default=1, show_default=True, help="Rows without which nothing is released.")
@json_option
def shuffle(
    source: Path,
    target: Path,
    columns: tuple[str, ...],
    seed: int | None,
    memory: int,
    minimum_batch: int,
    as_json: bool,
) -> None:
    """Put rows in a uniformly random order, whether or not they fit in memory.

    SOURCE is a Parquet file, or a folder with some; TARGET is the Parquet file to write. Release the columns of messages
    only, not what names a sender. The order depends on the seed and the rows, not on --memory; keep the seed secret where
    the order is to be.

    \b
    Examples:
      shufflesim shuffle messages.parquet shuffled.parquet --seed 7
      shufflesim shuffle batches/ shuffled.parquet --column message --memory 2GB --minimum-batch 1000
    """
    from shufflesim._sampling import seed_root
    from shufflesim.sources import stored_rows
    from shufflesim.streams import shuffle_stream

    with refusing():
        root = seed_root(seed)
        total = stored_rows(source)
    with refusing(), progress("shuffling", total) as update:
        rows = shuffle_stream(
            source,
            target,
            seed=root,
            columns=columns or None,
            memory=memory,
            minimum_batch=minimum_batch,
            progress=update,
        )
    if as_json:
        show_json({"rows": rows, "seed": root.entropy, "file": str(target)})
        return
    facts = table("what", "value", wrap=("value",))
    facts.show_header = False
    facts.add_row("rows", f"{rows:,}")
    facts.add_row("seed", str(root.entropy))
    show(facts)
    click.echo(f"\nsaved {target}")
