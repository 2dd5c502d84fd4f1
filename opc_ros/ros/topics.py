"""How the topics between arms, cameras and recorders are to be delivered."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

# A behaviour policy says here that it drives an arm; as long as it does, no candidate gets a lease of that arm.
BEHAVIOUR_STATUS = "behaviour/status"


def _keep_last(depth: int, reliability: ReliabilityPolicy, durability: DurabilityPolicy) -> QoSProfile:
    return QoSProfile(reliability=reliability, durability=durability, history=HistoryPolicy.KEEP_LAST, depth=depth)


def _latched(depth: int) -> QoSProfile:
    """Late joiners get the last messages."""
    return _keep_last(depth, ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL)


# Steps, events and labels: none may be lost, and a burst of them is small.
RECORDED = _keep_last(1000, ReliabilityPolicy.RELIABLE, DurabilityPolicy.VOLATILE)

# What a person or a panel that comes later still wants to see.
LATEST = _latched(1)

# Signed releases of stops: whoever signs them may have to sign several, and a listener that is found late gets all.
RELEASES = _latched(32)

# Best effort takes reliable and best-effort drivers alike; deep enough for a second in which nobody reads.
JOINTS = _keep_last(1000, ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE)

# Static transforms.
STATIC = _latched(100)

# How stops, their ids and releases are listened to: a reader's depth is for all writers together, so that with a depth
# of one a stranger's next word could take the place of a stop that nobody has read yet.
STOPS = _latched(1000)


def images(*, is_reliable: bool = True) -> QoSProfile:
    """Camera frames; deep enough for a second or two in which nobody reads."""
    reliability = ReliabilityPolicy.RELIABLE if is_reliable else ReliabilityPolicy.BEST_EFFORT
    return _keep_last(30, reliability, DurabilityPolicy.VOLATILE)
