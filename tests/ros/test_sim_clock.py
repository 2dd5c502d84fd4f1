"""The twin's time on /clock, and a lab that collects by it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from opc_ros.bringup.supervisor import Supervisor
from opc_ros.bringup.systems import find_system
from opc_ros.errors import ArmError, SetupError
from opc_ros.ros import convert
from opc_ros.ros.sim_clock import SimClock
from opc_ros.store import open_store
from tests.ros.conftest import Probe

pytestmark = pytest.mark.ros
PATIENCE_S = 180.0


def test_simulated_time_begins_where_it_is_set_and_runs_as_fast_as_the_world(probe: Probe) -> None:
    heard = probe.listen(Clock, "/clock", 10)
    clock = SimClock(probe.node, 5_000_000_000)
    probe.until(lambda: probe.node.count_subscribers("/clock"), "nobody listens")
    for simulated_s in (0.5, 0.03):
        clock.advance(simulated_s)
    probe.until(lambda: len(heard) == 2, "the time is not told")
    assert [convert.stamp_to_ns(each.clock) for each in heard] == [5_500_000_000, 5_530_000_000]
    second = probe.node.create_publisher(Clock, "/clock", 10)
    probe.until(lambda: probe.node.count_publishers("/clock") == 2, "the second is not seen")
    with pytest.raises(ArmError, match="2 publishers of /clock in this ROS domain, expected one"):
        clock.advance(0.01)
    probe.node.destroy_publisher(second)


def test_one_domain_has_one_clock() -> None:
    collect = find_system("collect")
    with pytest.raises(SetupError, match="clock:=true with 2 robots"):
        collect.nodes({"clock": "true", "robots": "arm1,arm2"})
    nodes = {node.program: node.parameters for node in collect.nodes({"clock": "true"})}
    assert [program for program, given in nodes.items() if given.get("publish_clock")] == ["twin"]
    assert all(given["use_sim_time"] is True for given in nodes.values())
    assert not any("publish_clock" in node.parameters for node in collect.nodes({}))


def test_a_lab_that_collects_by_the_twins_time_stamps_everything_with_it(
    tmp_path: Path, ros_domain: int, probe: Probe
) -> None:
    collect = find_system("collect")
    given = {"store": str(tmp_path / "store"), "deployment": str(tmp_path / "deployment"), "clock": "true"}
    given |= {"image_size": "64", "real_time_factor": "3", "camera_hz": "20", "episodes": "2"}
    collect.prepare(given)
    joints = probe.listen(JointState, "/arm1/joint_states", 1000)
    clock = probe.listen(Clock, "/clock", 1000)
    lines: list[str] = []
    deadline_s = time.monotonic() + PATIENCE_S

    def look() -> bool:
        probe.spin(0.05)
        assert time.monotonic() < deadline_s, "\n".join(lines)
        return False

    with Supervisor(collect.nodes(given), lines.append, is_servant=lambda node: "behaviour" not in node.label) as up:
        assert up.wait(until=look) == 0, "\n".join(lines)
    with open_store(tmp_path / "store") as store:
        episodes = list(store.episodes())
    assert len(episodes) == 2, "\n".join(lines)
    # To the nanosecond, which the machine's time never would be.
    told = {convert.stamp_to_ns(each.clock) for each in clock}
    stamped = {convert.stamp_to_ns(each.header.stamp) for each in joints}
    assert len(told & stamped) > 10
    first, second = sorted(episodes, key=lambda episode: episode.began_ns)
    # The first may have begun before this test had discovered /clock.
    assert max(min(told), first.began_ns + first.duration_ns) <= second.began_ns < second.began_ns + second.duration_ns
