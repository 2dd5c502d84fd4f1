"""Take over what another store has committed: an episode with its sidecar, or a later label, unchanged."""

from __future__ import annotations

import hashlib

from opc_ros.config import parse_config
from opc_ros.durable import store_error
from opc_ros.episode import check_name
from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store import labels
from opc_ros.store.commit import claim, commit_file, place_for
from opc_ros.store.episode_reading import WholeEpisode, read_whole
from opc_ros.store.records import Sidecar
from opc_ros.store.recovery import recover
from opc_ros.store.sealed import decode_document
from opc_ros.store.sidecars import read_sidecar
from opc_ros.store.store import Store


def parse_sidecar(document: bytes, *, where: str) -> Sidecar:
    """Parse the document that commits an episode, whatever its source."""
    sidecar = parse_config(decode_document(document, "episode", where=where), Sidecar, where=where, error=StoreError)
    check_name("episode id", sidecar.id)
    check_name("robot", sidecar.robot)
    return sidecar


def is_admitted(store: Store, sidecar: Sidecar) -> bool:
    """Whether the store already has exactly this episode; a different episode with the same id is an error."""
    place = store.catalogue.locate(sidecar.id)
    if place is None:
        return False
    found = read_sidecar(store.layout, place)
    if (found.robot, found.file_sha256) == (sidecar.robot, sidecar.file_sha256):
        return True
    raise StoreError(
        f"episode {sidecar.id} of robot {sidecar.robot}: {store.path} has another one of that id, of robot "
        f"{found.robot} with sha256 {found.file_sha256[:12]}, got {sidecar.file_sha256[:12]}"
    )


def admit_episode(store: Store, sidecar: Sidecar, data: bytes) -> None:
    """Commit an episode as its own recorder did; on return, it is on disk, re-opened and checked."""
    found = hashlib.sha256(data).hexdigest()
    if found != sidecar.file_sha256:
        raise EpisodeDamaged(f"episode {sidecar.id}: got bytes of sha256 {found}, committed was {sidecar.file_sha256}")
    if is_admitted(store, sidecar):
        return
    whole = read_whole(data, where=f"episode {sidecar.id}", are_crcs_checked=False)
    if store.layout.file_part(place_for(whole.header)).exists():
        recover(store, is_quick=True)  # an earlier run died while taking it in; complete episodes are committed now
        if is_admitted(store, sidecar):
            return
    try:
        _commit(store, whole, sidecar, data)
    except OSError as error:
        raise store_error(f"episode {sidecar.id}: cannot be taken in", error) from error


def _commit(store: Store, whole: WholeEpisode, sidecar: Sidecar, data: bytes) -> None:
    place = place_for(whole.header)
    sink = claim(store.layout, whole.header, store.catalogue.locate)
    try:
        sink.writelines((data,))
        sink.flush()
        commit_file(store.layout, place, sidecar, sink)
    except BaseException:
        store.layout.file_part(place).unlink(missing_ok=True)
        raise
    finally:
        sink.close()


def admit_label(store: Store, document: bytes, *, where: str) -> bool:
    """Append a label from another store for an episode that both have; returns False if it is already here."""
    body = decode_document(document, "label", where=where)
    given = parse_config(body, labels.LabelRevision, where=where, error=StoreError)
    place = store.locate(given.episode_id)
    for number in labels.revisions(store.layout, place):
        known = labels.read_revision(store.layout, place, number)
        if _without_number(known) == _without_number(given):
            return False
    try:
        labels.append_label(
            store.layout, place, given.label, note=given.note, now_ns=given.labelled_ns, signature=given.signature
        )
    except OSError as error:
        raise store_error(f"episode {given.episode_id}: cannot label", error) from error
    return True


def _without_number(revision: labels.LabelRevision) -> tuple[object, ...]:
    return (revision.label, revision.labelled_ns, revision.note, revision.signature)
