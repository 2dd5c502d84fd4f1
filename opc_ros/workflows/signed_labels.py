"""Which labels a lab with keys accepts: those signed by a labeller, and those from before there were keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from opc_ros.deployment.people import People, load_people
from opc_ros.deployment.statement import read_statement
from opc_ros.documents import canonical_json, parse_json, read_bytes
from opc_ros.durable import replace_file
from opc_ros.errors import OpcError, ScoreError
from opc_ros.store import SnapshotEntry, Store
from opc_ros.store.labels import LabelRevision, read_revision, revisions

BEFORE_NAME = "labels-before.json"  # in the keys folder, whose writers are trusted with everything anyway
_SAID = {"success": "success", "failure": "failure", "unlabelled": "none", "excluded": "excluded"}


def find_unsigned_labels(store: Store, entries: Iterable[SnapshotEntry], keys: Path) -> list[str]:
    """Episodes of a snapshot whose newest label is unsigned, except for labels from before there were keys.

    The first call records, beside the keys, which unsigned labels there were: those stay valid, and no others do.
    """
    people = load_people(keys)
    if not any("labeller" in person.roles for person in people.people.values()):
        return []
    unsigned = {}
    for entry in entries:
        if entry.label_revision:
            revision = read_revision(store.layout, store.locate(entry.episode_id), entry.label_revision)
            if not is_signed(revision, people) or _repeats_older_word(store, revision, people):
                unsigned[f"{entry.episode_id} {entry.label_revision}"] = _digest(revision)
    before = _read_before(keys / BEFORE_NAME, unsigned)
    return [name.partition(" ")[0] for name, digest in unsigned.items() if before.get(name) != digest]


def is_signed(revision: LabelRevision, people: People) -> bool:
    """Whether a labeller signed exactly this label for exactly this episode."""
    if not revision.signature:
        return False
    try:
        said = read_statement(revision.signature, people)
    except OpcError:
        return False
    return said.kind == "relabel" and (said.body.episode_id, said.body.label) == (
        revision.episode_id,
        _SAID[revision.label.outcome],
    )


def _repeats_older_word(store: Store, revision: LabelRevision, people: People) -> bool:
    """Whether an older signed label, which its labeller has since replaced, was put back on top."""
    place = store.locate(revision.episode_id)
    said_ns = read_statement(revision.signature, people).issued_ns
    for number in revisions(store.layout, place):
        if number < revision.revision:
            earlier = read_revision(store.layout, place, number)
            if is_signed(earlier, people) and read_statement(earlier.signature, people).issued_ns >= said_ns:
                return True
    return False


def _digest(revision: LabelRevision) -> str:
    return hashlib.sha256(f"{revision.label.outcome}\n{revision.label.labeller}".encode()).hexdigest()


def _read_before(path: Path, unsigned: dict[str, str]) -> dict[str, str]:
    try:
        if not path.is_file():
            replace_file(path, canonical_json(unsigned).encode())
            return unsigned
        found = parse_json(read_bytes(path), where=str(path), error=ScoreError)
    except OSError as error:
        raise ScoreError(f"{path}: cannot note which labels were there before keys: {error.strerror}") from error
    if not isinstance(found, dict):
        raise ScoreError(f"{path}: expected the labels from before there were keys, by episode and revision")
    return {str(name): str(digest) for name, digest in found.items()}
