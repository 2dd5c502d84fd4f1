"""How the topics between arms, cameras and recorders are to be delivered."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

# A behaviour policy says here that it drives an arm; as long as it does, no candidate gets a lease of that arm.
BEHAVIOUR_STATUS = "behaviour/status"

# Steps, events and labels: none may be lost, and a burst of them is small.
RECORDED = QoSProfile(
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
)

# What a person or a panel that comes later still wants to see.
LATEST = QoSProfile(
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
)

# Signed releases of stops: whoever signs them may have to sign several, and a listener that is found late gets all.
RELEASES = QoSProfile(
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
    history=HistoryPolicy.KEEP_LAST,
    depth=32,
)


# Best effort takes reliable and best-effort drivers alike; deep enough for a second in which nobody reads.
JOINTS = QoSProfile(
    reliability=ReliabilityPolicy.BEST_EFFORT,
    durability=DurabilityPolicy.VOLATILE,
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
)

# Static transforms, latched for late joiners.
STATIC = QoSProfile(
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
    history=HistoryPolicy.KEEP_LAST,
    depth=100,
)

# How stops, their ids and releases are listened to: a reader's depth is for all writers together, so that with a depth
# of one a stranger's next word could take the place of a stop that nobody has read yet.
STOPS = QoSProfile(
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
)


def images(*, is_reliable: bool = True) -> QoSProfile:
    """Camera frames; deep enough for a second or two in which nobody reads."""
    return QoSProfile(
        reliability=ReliabilityPolicy.RELIABLE if is_reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.VOLATILE,
        history=HistoryPolicy.KEEP_LAST,
        depth=30,
    )
