"""How far DDS reaches: only programs on this machine, or other machines as well."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from opc_ros.bringup.config_files import find_config

RANGE, PEERS = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_STATIC_PEERS"
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")  # Fast DDS before version 3, and since
OURS = "this_machine.xml"


def stay_on_this_machine(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment that keeps a program's DDS on this machine and, for Fast DDS, off shared memory.

    A killed program leaves shared memory that others still map, and a program started in its place may then never
    receive anything; with discovery limited to LOCALHOST, Fast DDS always uses shared memory. A user's own profile is
    kept.
    """
    others = [environment[name] for name in PROFILES if Path(environment.get(name, OURS)).name != OURS]
    if others or not environment.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp").startswith("rmw_fastrtps"):
        return {RANGE: "LOCALHOST"}
    profile = str(find_config(OURS))
    return {RANGE: "SYSTEM_DEFAULT", **dict.fromkeys(PROFILES, profile)}


def is_kept_here(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this environment uses our profile."""
    return any(Path(environment.get(name, "")).name == OURS for name in PROFILES)


def describe_reach(environment: Mapping[str, str] = os.environ) -> str:
    """The discovery range, by ROS's name for it."""
    return "LOCALHOST" if is_kept_here(environment) else environment.get(RANGE) or "SUBNET"
