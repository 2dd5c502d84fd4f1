"""The label history of an episode, and where labellers disagree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from opc_ros.episode import LabelSource, Outcome
from opc_ros.errors import EpisodeDamaged
from opc_ros.store import Store
from opc_ros.store.labels import LabelRevision, all_label_files, read_label, read_revision, revisions


@dataclass(frozen=True, slots=True)
class Dispute:
    """One episode that one person calls a success and another a failure."""

    episode_id: str
    said: dict[str, Outcome]  # each person's newest label


def read_label_history(store: Store, episode_id: str) -> list[LabelRevision]:
    """Every readable relabelling of an episode, oldest first."""
    place = store.locate(episode_id)
    found = []
    for number in revisions(store.layout, place):
        try:
            found.append(read_revision(store.layout, place, number))
        except EpisodeDamaged:
            continue  # `opc store verify` reports it
    return found


def find_disputes(store: Store, most: int = 200) -> list[Dispute]:
    """Episodes on which people disagree; only each person's newest label counts."""
    files = defaultdict(list)
    for file in all_label_files(store.layout):
        if not file.is_damaged:
            files[file.episode_id].append(file)
    disputes = []
    for episode_id, of_episode in files.items():
        if len(of_episode) < 2:
            continue
        said: dict[str, Outcome] = {}
        for file in sorted(of_episode, key=lambda each: each.revision):
            try:
                label = read_label(file.path, episode_id, file.revision).label
            except EpisodeDamaged:
                continue
            if label.source is LabelSource.PERSON:
                said[label.labeller] = label.outcome
        if len(set(said.values())) > 1:
            disputes.append(Dispute(episode_id, said))
        if len(disputes) == most:
            break
    return disputes
