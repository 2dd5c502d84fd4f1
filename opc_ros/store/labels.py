"""Append-only relabelling: each new label is a new numbered file, and episode files never change.

A revision is at labels/<robot>/<day>/<id>.<n>.json, beside those of other episodes of that day, so that checking for
news takes one look at each folder. Older stores have labels/<id>/<n>.json, which stay and are read as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from opc_ros.config import parse_config
from opc_ros.durable import create_file, make_folder
from opc_ros.episode import Label
from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store.layout import FLAT, JSON, Place, StoreLayout, is_day, names_in
from opc_ros.store.sealed import encode_document, read_document

DAMAGED = ".damaged"  # suffix that `recover` gives to unreadable revisions; their numbers stay taken


@dataclass(frozen=True, slots=True)
class LabelRevision:
    """One relabelling of one episode."""

    episode_id: str
    revision: int
    label: Label
    labelled_ns: int
    note: str
    signature: str = ""  # DSSE envelope signed by the labeller; empty: unsigned


@dataclass(frozen=True, slots=True)
class LabelFile:
    """A file below labels/, parsed from its name."""

    path: Path
    episode_id: str
    revision: int
    is_damaged: bool


def append_label(
    layout: StoreLayout, place: Place, label: Label, *, note: str, now_ns: int, signature: str = ""
) -> int:
    """Write the next revision; two processes labelling at once get different numbers."""
    make_folder(layout.label_folder(place.home))
    revision = max(taken_revisions(layout, place), default=0)
    while True:
        revision += 1
        entry = LabelRevision(place.episode_id, revision, label, now_ns, note, signature)
        if create_file(revision_path(layout, place, revision), encode_revision(entry)):
            return revision


def encode_revision(entry: LabelRevision) -> bytes:
    content = {name: value for name, value in asdict(entry).items() if name != "signature" or value}
    return encode_document("label", content)


def read_revision(layout: StoreLayout, place: Place, revision: int) -> LabelRevision:
    path = revision_path(layout, place, revision)
    return read_label(path if path.exists() else _older_path(layout, place, revision), place.episode_id, revision)


def read_label(path: Path, episode_id: str, revision: int) -> LabelRevision:
    try:
        entry = parse_config(read_document(path, "label"), LabelRevision, where=str(path), error=StoreError)
    except StoreError as error:
        raise EpisodeDamaged(f"episode {episode_id}: label revision {revision}: {error}") from error
    if (entry.episode_id, entry.revision) != (episode_id, revision):
        raise EpisodeDamaged(f"episode {episode_id}: {path} is revision {entry.revision} of episode {entry.episode_id}")
    return entry


def revisions(layout: StoreLayout, place: Place) -> list[int]:
    """Numbers of the revisions that are not set aside, oldest first."""
    return sorted({file.revision for file in _files_of(layout, place) if not file.is_damaged})


def taken_revisions(layout: StoreLayout, place: Place) -> Iterator[int]:
    """Every number that was ever used, including revisions that are set aside."""
    return (file.revision for file in _files_of(layout, place))


def has_labels(layout: StoreLayout, place: Place) -> bool:
    """Whether there are any labels for this id; they must not apply to another episode."""
    return any(_files_of(layout, place))


def label_files(folder: Path) -> Iterator[LabelFile]:
    """Labels in a folder shared by many episodes: <id>.<n>.json."""
    for name in names_in(folder):
        stem, dot, ending = name.rpartition(".")
        episode_id, _, number = stem.rpartition(".")
        if dot + ending in (JSON, DAMAGED) and episode_id and _is_number(number):
            yield LabelFile(folder / name, episode_id, int(number), dot + ending == DAMAGED)


def older_label_files(folder: Path) -> Iterator[LabelFile]:
    """Labels in an older folder, which is named after its episode: <n>.json."""
    for name in names_in(folder):
        number, dot, ending = name.rpartition(".")
        if dot + ending in (JSON, DAMAGED) and _is_number(number):
            yield LabelFile(folder / name, folder.name, int(number), dot + ending == DAMAGED)


def all_label_files(layout: StoreLayout) -> Iterator[LabelFile]:
    for name in names_in(layout.labels):
        yield from older_label_files(layout.labels / name)
        for day in names_in(layout.labels / name):
            if day == FLAT or is_day(day):
                yield from label_files(layout.labels / name / day)


def _files_of(layout: StoreLayout, place: Place) -> Iterator[LabelFile]:
    yield from older_label_files(layout.labels / place.episode_id)
    for file in label_files(layout.label_folder(place.home)):
        if file.episode_id == place.episode_id:
            yield file


def revision_path(layout: StoreLayout, place: Place, revision: int) -> Path:
    return layout.label_folder(place.home) / f"{place.episode_id}.{revision}{JSON}"


def _older_path(layout: StoreLayout, place: Place, revision: int) -> Path:
    return layout.labels / place.episode_id / f"{revision}{JSON}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and text == str(int(text))
