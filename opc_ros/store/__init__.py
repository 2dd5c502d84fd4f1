"""Validated episodes: append, label, snapshot, and read back exactly what was written."""

from opc_ros.store.quarantine import Quarantined
from opc_ros.store.records import CommittedEpisode
from opc_ros.store.recovery import Recovery, recover
from opc_ros.store.selection import Selection
from opc_ros.store.snapshot_groups import SnapshotEntry
from opc_ros.store.snapshots import Snapshot
from opc_ros.store.statistics import LabelCounts, Statistics
from opc_ros.store.store import Store, open_store
from opc_ros.store.verification import Verification, verify
from opc_ros.store.writer import EpisodeWriter

__all__ = [
    "CommittedEpisode",
    "EpisodeWriter",
    "LabelCounts",
    "Quarantined",
    "Recovery",
    "Selection",
    "Snapshot",
    "SnapshotEntry",
    "Statistics",
    "Store",
    "Verification",
    "open_store",
    "recover",
    "verify",
]
