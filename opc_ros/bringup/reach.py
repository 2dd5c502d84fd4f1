"""How far DDS reaches: other programs on this machine alone, or other machines as well."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from opc_ros.bringup.config_files import find_config

RANGE, PEERS = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_STATIC_PEERS"
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")  # Fast DDS before version 3, and since
OURS = "this_machine.xml"


def stay_on_this_machine(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What keeps the DDS of a program to this machine, and out of shared memory where the middleware is Fast DDS.

    A program that is killed leaves shared memory that others still map, and one started in its place may then hear
    nothing for good; with discovery kept to LOCALHOST the middleware always uses it. Another profile is left alone.
    """
    others = [environment[name] for name in PROFILES if Path(environment.get(name, OURS)).name != OURS]
    if others or not environment.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp").startswith("rmw_fastrtps"):
        return {RANGE: "LOCALHOST"}
    profile = str(find_config(OURS))
    return {RANGE: "SYSTEM_DEFAULT", **dict.fromkeys(PROFILES, profile)}


def is_kept_here(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a program with this environment was started with our profile."""
    return any(Path(environment.get(name, "")).name == OURS for name in PROFILES)


def describe_reach(environment: Mapping[str, str] = os.environ) -> str:
    """As ROS calls it."""
    return "LOCALHOST" if is_kept_here(environment) else environment.get(RANGE) or "SUBNET"
