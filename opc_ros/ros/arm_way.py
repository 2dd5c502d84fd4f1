"""How commands reach an arm: directly to a driver in the same ROS domain, or through the arm's gateway."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from opc_interfaces.srv import LayOutBin
from rclpy.duration import Duration
from rclpy.node import Node
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.settings import ArmSettings
from opc_ros.errors import ArmError, ArmLost
from opc_ros.ros import convert
from opc_ros.ros.gripper import make_gripper
from opc_ros.ros.trajectory_outlet import make_outlet

FAREWELL = Duration(seconds=0.5)  # the last messages must go out before the process ends


class ArmWay(Protocol):
    """Anything that takes commands for one arm."""

    def begin(self) -> None:
        """Ask permission to move through one episode."""
        ...

    def find_missing(self) -> list[str]:
        """One line for each command interface that nobody is listening on."""
        ...

    def why_lost(self) -> str:
        """Why commands no longer pass although permission was given; empty while they do."""
        ...

    def beat(self) -> None:
        """Send a heartbeat."""
        ...

    def send(self, msg: JointTrajectory) -> None:
        """Send a trajectory, which replaces the previous one."""
        ...

    def grip(self, aperture_m: float) -> None:
        """Command the gripper to an opening, without waiting."""
        ...

    def lay_out(self, seed: int, timeout_s: float) -> None:
        """Fill a simulated bin, and wait for it."""
        ...

    def rest(self) -> None:
        """Between episodes: give permission back, and sign off, so that the coming silence alarms nobody."""
        ...

    def close(self) -> None:
        """Sign off, and close once that has arrived."""
        ...


class DirectWay:
    """Directly to driver, gripper and guard in the node's ROS domain; needs nobody's permission."""

    def __init__(self, node: Node, settings: ArmSettings, complain: Callable[[str], None]) -> None:
        """`complain` is called for goals that a controller rejects."""
        self._node, self._settings = node, settings
        self._gripper = make_gripper(node, settings.gripper)
        self._outlet = make_outlet(node, settings, complain)
        self._heartbeats = node.create_publisher(Header, "heartbeat", 10)
        self._lay_out = node.create_client(LayOutBin, settings.lay_out or "lay_out")
        self._is_resting = False

    def begin(self) -> None:
        """Anybody in the domain may move the arm."""
        self._is_resting = False

    def find_missing(self) -> list[str]:
        wanted = (
            (self._outlet.is_connected, f"nobody listens on {self._outlet.name}"),
            (self._gripper.is_connected, f"nobody listens on {self._settings.gripper.command}"),
        )
        return [line for is_there, line in wanted if not is_there]

    def why_lost(self) -> str:
        return ""

    def beat(self) -> None:
        if self._is_resting:
            return
        now_ns = int(self._node.get_clock().now().nanoseconds)
        self._heartbeats.publish(convert.header(now_ns, self._settings.robot))

    def send(self, msg: JointTrajectory) -> None:
        self._outlet.send(msg)

    def grip(self, aperture_m: float) -> None:
        self._gripper.command(aperture_m)

    def lay_out(self, seed: int, timeout_s: float) -> None:
        robot, name = self._settings.robot, self._settings.lay_out
        if not self._lay_out.wait_for_service(timeout_sec=timeout_s):
            raise ArmLost(f"arm {robot}: no service {name} within {timeout_s:g} s: is this a twin?")
        done = threading.Event()
        future = self._lay_out.call_async(LayOutBin.Request(seed=seed))
        future.add_done_callback(lambda _: done.set())
        if not done.wait(timeout_s):
            raise ArmLost(f"arm {robot}: service {name} gave no answer within {timeout_s:g} s")
        answer = future.result()
        if not answer.success:
            raise ArmError(f"arm {robot}: {name}: {answer.message}")

    def rest(self) -> None:
        """Send a heartbeat without timestamp: no more will come, and nobody need worry."""
        self._is_resting = True
        self._heartbeats.publish(Header(frame_id=self._settings.robot))

    def close(self) -> None:
        self._outlet.flush(FAREWELL)
        self.rest()
        self._heartbeats.wait_for_all_acked(FAREWELL)
