"""The ``prune`` command: deletes old untagged studies from the history."""

from __future__ import annotations

from datetime import timedelta

import click

from core.base.numbers import counted
from core.cli.files import Failure
from core.cli.terminal import show

BROUGHT_BACK = "deleted; History brings them back"


@click.command()
@click.option("--older-than", type=click.IntRange(1, 36_500), required=True, metavar="DAYS",
              help="Delete studies of longer ago than that.")  # fmt: skip
@click.option("--for-good", is_flag=True,
              help="Remove them at once and free the disk; else History brings them back for 30 days.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
def prune(older_than: int, for_good: bool, dry_run: bool) -> None:
    """Delete old studies from the history.

    Whatever has a tag stays, with the run that it belongs to and the studies of that run; so does a run with a younger
    study, and what is being measured.
    """
    from core.store import Store, StoreError

    try:
        store = Store()
        try:
            count = store.prune(timedelta(days=older_than), for_good, dry_run)
            done = "would be deleted" if dry_run else "removed for good" if for_good else BROUGHT_BACK
            show(f"{counted(count, 'study', 'studies')} older than {counted(older_than, 'day')} {done}.")
            if for_good and not dry_run:
                store.free_room()
        finally:
            store.close()
    except StoreError as error:
        raise Failure(str(error)) from None
