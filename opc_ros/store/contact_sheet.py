"""An episode at a glance: its frames in order, the action chosen on each, and its outcome."""

from __future__ import annotations

import math
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.episode import Episode, Step
from opc_ros.store.records import CommittedEpisode

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 5
FEWEST_COLUMNS = 3  # so that there is room for the title
IMAGE_INCHES = 2.4
MARGIN_INCHES = 0.15
CAPTION_INCHES = 0.55
HEADING_INCHES = 0.25
TITLE_INCHES = 1.0
_COLOURS = {True: "#1a7f37", False: "#b3261e", None: "#6b6b6b"}


def draw_contact_sheet(committed: CommittedEpisode, episode: Episode, path: Path) -> None:
    """Write an image file; its format follows from the file name's extension."""
    from matplotlib.figure import Figure

    columns = min(COLUMNS, max(FEWEST_COLUMNS, len(episode.steps)))
    rows = math.ceil(len(episode.steps) / columns)
    across = IMAGE_INCHES + MARGIN_INCHES
    down = HEADING_INCHES + IMAGE_INCHES + CAPTION_INCHES
    width, height = columns * across + MARGIN_INCHES, rows * down + TITLE_INCHES
    figure = Figure(figsize=(width, height), dpi=110, facecolor="white")
    left, title = MARGIN_INCHES / width, f"{episode.id}   {_outcome(committed)}"
    colour = _COLOURS[episode.label.is_success]
    figure.text(left, 1 - 0.15 / height, title, size=13, weight="bold", color=colour, va="top")
    details = textwrap.fill(_describe(committed), width=int(width * 15), max_lines=3, placeholder=" …")
    figure.text(left, 1 - 0.45 / height, details, size=8.5, color="#333333", va="top")
    for index, step in enumerate(episode.steps):
        row, column = divmod(index, columns)
        bottom = height - TITLE_INCHES - row * down - HEADING_INCHES - IMAGE_INCHES
        box = ((MARGIN_INCHES + column * across) / width, bottom / height)
        cell = figure.add_axes((*box, IMAGE_INCHES / width, IMAGE_INCHES / height))
        _draw_step(cell, step, index, episode.started_ns)
    figure.savefig(path)


def _draw_step(cell: Axes, step: Step, index: int, started_ns: int) -> None:
    cell.imshow(step.frame.decode())
    cell.set_xticks([])
    cell.set_yticks([])
    seconds = (step.frame.stamp_ns - started_ns) / 1e9
    cell.set_title(f"{index}   {seconds:.2f} s", size=9, loc="left", pad=3)
    cell.set_xlabel("\n".join(step.describe()), size=7.5, loc="left", labelpad=3)


def _outcome(committed: CommittedEpisode) -> str:
    label = committed.label
    if label.is_success is None:
        return "not labelled"
    by = f"{label.source.value.replace('_', ' ')}{f', {label.labeller}' if label.labeller else ''}"
    return f"{'success' if label.is_success else 'failure'} ({by})"


def _describe(committed: CommittedEpisode) -> str:
    began = datetime.fromtimestamp(committed.began_ns / 1e9, tz=UTC)
    policy = committed.behaviour_policy
    parts = [
        f"robot {committed.robot}",
        f"policy {policy if len(policy) <= 24 else policy[:12] + '…'}",
        f"objects {committed.object_set or 'unknown'}",
        f"{committed.steps} step{'' if committed.steps == 1 else 's'} in {committed.duration_ns / 1e9:.2f} s",
        f"{began:%Y-%m-%d %H:%M:%S} UTC",
        f"label revision {committed.label_revision}",
        *(f"health: {line}" for line in committed.health),
    ]
    return " · ".join(parts)
