"""Progress bars for commands that take a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from opc_ros.progress import Report, ignore_progress


@contextmanager
def progress_bar(title: str, *, is_shown: bool = True) -> Iterator[Report]:
    """A bar on standard error with rate and remaining time, if standard error is a terminal."""
    if not is_shown or not sys.stderr.isatty():
        yield ignore_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None, note="")

        def report(done: int, total: int, note: str = "") -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield report
