"""How commands reach an arm: straight to a driver in the same ROS domain, or through the arm's gateway."""

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

FAREWELL = Duration(seconds=0.5)  # what was said last must not die with its process


class ArmWay(Protocol):
    """Whatever takes commands for one arm."""

    def begin(self) -> None:
        """Ask for leave to move through one episode."""
        ...

    def find_missing(self) -> list[str]:
        """One line for each part of the way that nobody is at the end of."""
        ...

    def why_lost(self) -> str:
        """Why nothing passes any more, though leave was given; empty while it does."""
        ...

    def beat(self) -> None:
        """Say that the commander lives."""
        ...

    def send(self, msg: JointTrajectory) -> None:
        """A trajectory, which replaces the one before."""
        ...

    def grip(self, aperture_m: float) -> None:
        """Send the fingers to an opening, without waiting."""
        ...

    def lay_out(self, seed: int, timeout_s: float) -> None:
        """Have a simulated bin filled, and wait for it."""
        ...

    def rest(self) -> None:
        """No episode runs: give leave back, and say goodbye, so that nobody worries about silence."""
        ...

    def close(self) -> None:
        """Say goodbye, and let go once it has arrived."""
        ...


class DirectWay:
    """To a driver, gripper and guard in the ROS domain of the node: it needs nobody's leave."""

    def __init__(self, node: Node, settings: ArmSettings, complain: Callable[[str], None]) -> None:
        """`complain` is called for goals that a controller rejects."""
        self._node, self._settings = node, settings
        self._gripper = make_gripper(node, settings.gripper)
        self._outlet = make_outlet(node, settings, complain)
        self._heartbeats = node.create_publisher(Header, "heartbeat", 10)
        self._lay_out = node.create_client(LayOutBin, settings.lay_out or "lay_out")
        self._is_resting = False

    def begin(self) -> None:
        """Whoever is in the domain may."""
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
        """A heartbeat without stamp: nobody need worry that no more come."""
        self._is_resting = True
        self._heartbeats.publish(Header(frame_id=self._settings.robot))

    def close(self) -> None:
        self._outlet.flush(FAREWELL)
        self.rest()
        self._heartbeats.wait_for_all_acked(FAREWELL)
