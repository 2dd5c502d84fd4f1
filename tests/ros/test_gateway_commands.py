"""What a commander with a lease tries at an arm's gateway, and who may get near its socket at all."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from builtin_interfaces.msg import Duration
from opc_interfaces.msg import SafetyEvent
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from opc_ros.ros import lease_socket as wire
from opc_ros.ros.lease_server import MOST_CONNECTIONS
from tests.ros.attack_rig import Rig
from tests.ros.commander import Commander, drive_request, robots_key, turn, wait_for_line, wait_until_it_moves
from tests.ros.twin_rig import ROBOT, ROOT, SETTINGS, Watcher

pytestmark = pytest.mark.ros
CONTROLLER = "joint_trajectory_controller/joint_trajectory"


def test_the_arm_holds_as_soon_as_its_commander_is_gone(rig: Rig) -> None:
    with closing(Commander(rig)) as commander:
        commander.drive()
        start_rad = rig.watcher.joints[-1].position[0]
        assert commander.follow(turn(rig, by_rad=1.0, speed=0.05)) == ""
        wait_until_it_moves(rig)
    rig.watcher.wait_for_event(SafetyEvent.REFUSED, "the commander is gone")
    rig.watcher.wait_for_rest()
    # At a twentieth of its speed it would have been moving for 13 s.
    assert abs(rig.watcher.joints[-1].position[0] - start_rad) < 0.9


def test_what_is_late_too_fast_too_far_or_no_message_at_all_is_dropped(rig: Rig) -> None:
    with closing(Commander(rig)) as commander:
        commander.drive()
        good = turn(rig)
        far, odd = turn(rig), turn(rig)
        far.points[-1].positions[1] = 9.0
        odd.joint_names = ["A1"]
        with rig.still():
            assert "older than 20 s" in commander.follow(good, age_s=30.0)
            assert "deg/s, drive by ada allows" in commander.follow(turn(rig, by_rad=1.0, speed=1.0))
            assert "joint 2 is +515.66 deg" in commander.follow(far)
            assert "trajectory is for joints A1" in commander.follow(odd)
            assert "cannot be read" in commander.command(wire.TRAJECTORY, b"\x00\x01").decode()
            assert "gripper opening 3.0 m" in commander.command(wire.GRIPPER, struct.pack("<d", 3.0)).decode()
            assert "is not known" in commander.command(b"?").decode()
            commander.end.send(b"T")
            commander.end.send(b"T" + os.urandom(4096))
            assert b"older than" in commander.expect(wire.REFUSED)
        # None of this has cost the lease, or killed the gateway.
        assert commander.follow(turn(rig, by_rad=0.05)) == ""
    rig.watcher.wait_for_rest()


@contextmanager
def in_arms_domain(rig: Rig) -> Iterator[Watcher]:
    """Somebody who watches in the driver's domain."""
    with pytest.MonkeyPatch.context() as inside:
        inside.setenv("ROS_DOMAIN_ID", str(rig.arm_domain))
        watcher = Watcher()
    try:
        yield watcher
    finally:
        watcher.close()


def point(positions: np.ndarray, seconds: float, velocities: np.ndarray | None = None) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(
        positions=positions.tolist(),
        velocities=[] if velocities is None else velocities.tolist(),
        time_from_start=Duration(sec=int(seconds), nanosec=round(seconds % 1 * 1e9)),
    )


def measured(rig: Rig) -> np.ndarray:
    return np.array(rig.watcher.joints[-1].position)


def first_joint(by: float) -> np.ndarray:
    return np.eye(len(SETTINGS.joint_names))[0] * by


def test_what_a_controller_would_make_of_the_points_is_checked_not_the_points_alone(rig: Rig) -> None:
    """Between two harmless points: a swing of radians, three times the speed, or a jump that takes no time."""
    names = list(SETTINGS.joint_names)
    count = len(rig.robots_lines())
    with rig.still(), closing(Commander(rig)) as commander:
        commander.drive()
        here = measured(rig)
        # Leaves at 1 rad/s and comes back in 30 s: the cubic in between goes 30 * 4 / 27 = 4.4 rad away.
        swing = [point(here, 0.0, first_joint(1.0)), point(here + first_joint(0.05), 30.0)]
        assert "joint 1 is" in commander.follow(JointTrajectory(joint_names=names, points=swing))
        # On average within the speed limit, at rest at both ends, and half as fast again in the middle.
        fast = [point(here, 0.0), point(here + first_joint(1.6), 1.6 / SETTINGS.joint_limits().velocity_rad_s[0])]
        assert "deg/s, drive by ada allows" in commander.follow(JointTrajectory(joint_names=names, points=fast))
        # A single point close by, at once: it is taken for a hold, and the gateway sends its own.
        jump = [point(here + first_joint(0.09), 0.001)]
        assert commander.follow(JointTrajectory(joint_names=names, points=jump)) == ""
    wait_for_line(rig, count, "joint 1 is")
    wait_for_line(rig, count, "deg/s, drive by ada allows")


def test_many_small_holds_add_up_to_no_motion(rig: Rig) -> None:
    """Each within a degree of the arm, at once, and with a speed that would throw it: the gateway holds it instead."""
    names = list(SETTINGS.joint_names)
    with rig.still(), closing(Commander(rig)) as commander:
        commander.drive()
        for _ in range(40):
            creep = [point(measured(rig) + first_joint(0.019), 0.001, first_joint(50.0))]
            assert commander.follow(JointTrajectory(joint_names=names, points=creep)) == ""


def test_a_timestamp_in_the_past_does_not_make_a_driver_skip_slow_messages(rig: Rig) -> None:
    """The driver gets what was checked and begins at once; the rest of the message is left out."""
    heard: list[JointTrajectory] = []
    with in_arms_domain(rig) as inside:
        inside.node.create_subscription(JointTrajectory, f"/{ROBOT}/{CONTROLLER}", heard.append, 10)
        inside.wait_until(lambda: inside.node.count_publishers(f"/{ROBOT}/{CONTROLLER}") > 0)
        with closing(Commander(rig)) as commander:
            commander.drive()
            msg = turn(rig, by_rad=0.05)
            msg.header.stamp.sec = 1
            for each in msg.points:
                each.accelerations, each.effort = [9.0] * len(msg.joint_names), [9.0] * len(msg.joint_names)

            def is_forwarded() -> bool:
                return commander.follow(msg) == "" and any(len(each.points) == len(msg.points) for each in heard)

            inside.wait_until(is_forwarded)
    for each in heard:
        assert (each.header.stamp.sec, each.header.stamp.nanosec) == (0, 0)
        assert not any(list(one.accelerations) or list(one.effort) for one in each.points)
    rig.watcher.wait_for_rest()


def test_a_commander_that_never_reads_its_answers_loses_its_lease_and_blocks_nobody(rig: Rig) -> None:
    with closing(Commander(rig)) as deaf, closing(Commander(rig)) as other:
        deaf.drive()
        with rig.still():
            shout_until_hung_up(deaf)
            rig.watcher.wait_for_event(SafetyEvent.REFUSED, "the commander is gone")
            rig.watcher.wait_until(lambda: other.show(drive_request(rig), robots_key(rig)) == "")


def shout_until_hung_up(commander: Commander) -> None:
    with suppress(OSError):
        while True:
            command = wire.GRIPPER + wire.COMMAND.pack(1, time.monotonic_ns()) + struct.pack("<d", 9.0)
            commander.end.send(command)


def test_connections_are_counted_and_a_flood_of_them_costs_nobody_a_lease(rig: Rig) -> None:
    count = len(rig.robots_lines())
    with ExitStack() as held:
        for _ in range(MOST_CONNECTIONS + 1):
            held.enter_context(closing(wire.connect(rig.socket_folder)))
        wait_for_line(rig, count, f"{MOST_CONNECTIONS} are open already")

    def can_drive() -> bool:
        try:
            with closing(Commander(rig)) as commander:
                commander.drive()
                return True
        except (AssertionError, OSError):
            return False

    rig.watcher.wait_until(can_drive)


def test_another_users_process_is_not_let_in(rig: Rig) -> None:
    assert rig.socket_folder.stat().st_mode & 0o777 == 0o700
    if os.getuid() != 0:  # without root the test cannot become another user: the folder's mode keeps others out
        return
    program = (
        "import os, socket, sys; os.chdir(sys.argv[1]); os.setgid(65534); os.setuid(65534);"
        "end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); end.connect('arm.sock'); end.settimeout(60);"
        "sys.exit(len(end.recv(100)))"
    )
    count = len(rig.robots_lines())
    # Root may pass through the folder, so the stranger starts inside: only the kernel's word on who it is counts.
    result = subprocess.run([sys.executable, "-c", program, str(rig.socket_folder)], cwd=ROOT, capture_output=True)
    assert result.returncode in (0, 1), result.stderr
    if result.returncode == 0:
        wait_for_line(rig, count, "of user 65534 is at the other end")


def test_an_end_that_is_another_users_is_refused_by_the_kernels_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(wire.listen(tmp_path / "s")) as server, closing(wire.connect(tmp_path / "s")):
        accepted, _ = server.accept()
        with closing(accepted):
            accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED)
            monkeypatch.setattr(wire, "_PEER", Peer())
            with pytest.raises(PermissionError, match="of user 4711 is at the other end"):
                wire.refuse_strangers(accepted)


class Peer:
    """Interprets the kernel's answer as being about another user."""

    size = struct.Struct("3i").size

    def unpack(self, data: bytes) -> tuple[int, int, int]:
        process, _, group = struct.unpack("3i", data)
        return process, 4711, group


def test_the_sockets_name_fits_however_deep_its_folder_lies(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30) / ("deeper" * 20)
    with closing(wire.listen(folder)) as server, closing(wire.connect(folder)) as client:
        assert isinstance(client, socket.socket)
        accepted, _ = server.accept()
        accepted.close()
