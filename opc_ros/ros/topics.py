"""Quality of service of the topics between arms, cameras and recorders."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

# A behaviour policy reports here that it drives an arm; meanwhile no candidate gets a lease of that arm.
BEHAVIOUR_STATUS = "behaviour/status"


def _keep_last(depth: int, reliability: ReliabilityPolicy, durability: DurabilityPolicy) -> QoSProfile:
    return QoSProfile(reliability=reliability, durability=durability, history=HistoryPolicy.KEEP_LAST, depth=depth)


def _latched(depth: int) -> QoSProfile:
    """Late joiners get the last messages."""
    return _keep_last(depth, ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL)


# Steps, events and labels: none may be lost, and a burst of them is small.
RECORDED = _keep_last(1000, ReliabilityPolicy.RELIABLE, DurabilityPolicy.VOLATILE)

# What a person or a panel that joins later still wants to see.
LATEST = _latched(1)

# Signed releases of stops: there may be several for one robot, and a listener that is discovered late must get all.
RELEASES = _latched(32)

# Best effort matches both reliable and best-effort drivers; deep enough for a second in which nothing is read.
JOINTS = _keep_last(1000, ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE)

# Static transforms.
STATIC = _latched(100)

# Subscriptions to stops, their ids and releases: a reader's depth is shared by all writers, so with a depth of one a
# stranger's next message could replace a stop that has not been read yet.
STOPS = _latched(1000)


def images(*, is_reliable: bool = True) -> QoSProfile:
    """Camera frames; deep enough for a second or two in which nothing is read."""
    reliability = ReliabilityPolicy.RELIABLE if is_reliable else ReliabilityPolicy.BEST_EFFORT
    return _keep_last(30, reliability, DurabilityPolicy.VOLATILE)
