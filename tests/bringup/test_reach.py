"""How far DDS reaches: a program kept to this machine opens no port on a network card and maps no shared memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from opc_ros.bringup.reach import PROFILES, RANGE, describe_reach, stay_on_this_machine

NODE = """
import sys, rclpy
rclpy.init()
node = rclpy.create_node("kept")
print("up", flush=True)
sys.stdin.readline()
"""


def test_with_fast_dds_it_is_a_profile_without_shared_memory() -> None:
    found = stay_on_this_machine({})
    assert found[RANGE] == "SYSTEM_DEFAULT"
    assert {Path(found[name]).name for name in PROFILES} == {"this_machine.xml"}
    assert stay_on_this_machine(found) == found
    assert describe_reach(found) == "LOCALHOST"


@pytest.mark.parametrize(
    "own", [{"FASTRTPS_DEFAULT_PROFILES_FILE": "/lab/own.xml"}, {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"}]
)
def test_somebodys_own_profile_or_middleware_is_left_alone(own: dict[str, str]) -> None:
    assert stay_on_this_machine(own) == {RANGE: "LOCALHOST"}


def test_without_settings_nodes_look_through_the_whole_network() -> None:
    assert describe_reach({}) == "SUBNET"
    assert describe_reach({RANGE: "OFF"}) == "OFF"


@pytest.mark.ros
def test_a_node_that_is_kept_here_listens_on_loopback_alone_and_maps_no_shared_memory(ros_domain: int) -> None:
    pytest.importorskip("rclpy")
    environment = {**os.environ, **stay_on_this_machine({}), "ROS_DOMAIN_ID": str(ros_domain)}
    child = subprocess.Popen(
        [sys.executable, "-c", NODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        ports = {each.laddr.ip for each in psutil.Process(child.pid).net_connections("udp") if each.laddr.port >= 7000}
        assert ports == {"127.0.0.1"}
        assert "/dev/shm/fastrtps" not in Path(f"/proc/{child.pid}/maps").read_text()
    finally:
        child.communicate("\n", timeout=30)
