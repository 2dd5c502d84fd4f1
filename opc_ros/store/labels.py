"""Append-only relabelling: each new label is a new numbered file, and no episode file ever changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from opc_ros.config import parse_config
from opc_ros.durable import create_file, make_folder
from opc_ros.episode import Label
from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store.layout import JSON, Layout, names_in
from opc_ros.store.sealed import encode_document, read_document

DAMAGED = ".damaged"  # `recover` renames unreadable revisions so; their numbers stay taken


@dataclass(frozen=True, slots=True)
class LabelRevision:
    """One relabelling of one episode."""

    episode_id: str
    revision: int
    label: Label
    labelled_ns: int
    note: str


def append_label(layout: Layout, episode_id: str, label: Label, *, note: str, now_ns: int) -> int:
    """Write the next revision; of two processes labelling at once, each gets a number of its own."""
    folder = layout.labels / episode_id
    make_folder(folder)
    revision = max(taken_revisions(folder), default=0)
    while True:
        revision += 1
        entry = LabelRevision(episode_id=episode_id, revision=revision, label=label, labelled_ns=now_ns, note=note)
        if create_file(folder / f"{revision}{JSON}", encode_document("label", asdict(entry))):
            return revision


def read_revision(layout: Layout, episode_id: str, revision: int) -> LabelRevision:
    path = layout.labels / episode_id / f"{revision}{JSON}"
    try:
        entry = parse_config(read_document(path, "label"), LabelRevision, where=str(path), error=StoreError)
    except StoreError as error:
        raise EpisodeDamaged(f"episode {episode_id}: label revision {revision}: {error}") from error
    if (entry.episode_id, entry.revision) != (episode_id, revision):
        raise EpisodeDamaged(f"episode {episode_id}: {path} is revision {entry.revision} of episode {entry.episode_id}")
    return entry


def revisions(layout: Layout, episode_id: str) -> list[int]:
    """Numbers of the readable relabellings, oldest first."""
    return sorted(_numbers(layout.labels / episode_id, (JSON,)))


def taken_revisions(folder: Path) -> list[int]:
    return _numbers(folder, (JSON, DAMAGED))


def _numbers(folder: Path, suffixes: tuple[str, ...]) -> list[int]:
    found = []
    for name in names_in(folder):
        stem, dot, ending = name.rpartition(".")
        if dot + ending in suffixes and stem.isascii() and stem.isdigit() and stem == str(int(stem)):
            found.append(int(stem))
    return found
