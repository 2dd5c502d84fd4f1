"""Validated grasp episodes: append, label, snapshot, read back exactly what was written."""

from opc_ros.store.quarantine import Quarantined
from opc_ros.store.records import CommittedEpisode, EpisodeHeader
from opc_ros.store.snapshots import Selection, Snapshot, SnapshotEntry
from opc_ros.store.store import Store, open_store
from opc_ros.store.writer import EpisodeWriter

__all__ = [
    "CommittedEpisode",
    "EpisodeHeader",
    "EpisodeWriter",
    "Quarantined",
    "Selection",
    "Snapshot",
    "SnapshotEntry",
    "Store",
    "open_store",
]
