"""Excluding episodes from the validation set and restoring them, by label revisions, so that no recording is lost.

Snapshots contain labelled episodes, and an excluded episode has no label, so later snapshots leave it out. Earlier
snapshots pin the label revision they were taken with and do not change.
"""

from __future__ import annotations

from opc_ros.episode import Label, LabelSource
from opc_ros.errors import StoreError
from opc_ros.store import labels
from opc_ros.store.sidecars import read_sidecar
from opc_ros.store.store import Store


def exclude_episode(store: Store, episode_id: str, *, by: str, reason: str, signature: str = "") -> int:
    """Keep an episode out of every later snapshot; returns the label revision that says so."""
    _check_reason(episode_id, reason)
    if store.find(episode_id).label.is_excluded:
        raise StoreError(f"episode {episode_id}: is excluded already")
    label = Label(source=LabelSource.EXCLUDED, labeller=by)
    return store.add_label(store.locate(episode_id), label, note=reason, signature=signature)


def restore_episode(store: Store, episode_id: str, *, by: str, reason: str, signature: str = "") -> int:
    """Restore an excluded episode with the label it had; returns that label's new revision."""
    _check_reason(episode_id, reason)
    if not store.find(episode_id).label.is_excluded:
        raise StoreError(f"episode {episode_id}: is not excluded")
    label = label_before_exclusion(store, episode_id)
    note = f"restored by {by}: {reason}"
    return store.add_label(store.locate(episode_id), label, note=note, signature=signature)


def label_before_exclusion(store: Store, episode_id: str) -> Label:
    for revision in reversed(label_history(store, episode_id)):
        if not revision.label.is_excluded:
            return revision.label
    return read_sidecar(store.layout, store.locate(episode_id)).label


def label_history(store: Store, episode_id: str) -> list[labels.LabelRevision]:
    """Every relabelling, exclusion and restoration, oldest first."""
    place = store.locate(episode_id)
    return [labels.read_revision(store.layout, place, number) for number in labels.revisions(store.layout, place)]


def describe_revision(revision: labels.LabelRevision) -> str:
    """What a revision says, who said so, and why."""
    by = f" by {revision.label.labeller}" if revision.label.labeller else ""
    signed = ", signed" if revision.signature else ""
    return f"{revision.label.outcome}{by}{signed}  {revision.note}".rstrip()


def _check_reason(episode_id: str, reason: str) -> None:
    if not reason.strip():
        raise StoreError(f"episode {episode_id}: no reason given, expected a sentence that others will understand")
