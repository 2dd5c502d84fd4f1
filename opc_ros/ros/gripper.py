"""How grippers are commanded: one small driver for each kind of interface."""

from __future__ import annotations

from typing import Any, Protocol

from builtin_interfaces.msg import Duration
from rclpy.action import ActionClient
from rclpy.node import Node
from std_msgs.msg import Float64
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from opc_ros.arms.settings import GripperSettings
from opc_ros.errors import SetupError

TRAVEL_S = 0.5  # time that a trajectory gives the fingers; the gripper's own speed limit still applies


class GripperDriver(Protocol):
    """Something that takes an opening and moves the fingers there."""

    @property
    def is_connected(self) -> bool:
        """Whether anything is listening."""
        ...

    def command(self, aperture_m: float) -> None:
        """Command the gripper to an opening, without waiting."""
        ...


def make_gripper(node: Node, settings: GripperSettings) -> GripperDriver:
    """The driver that the settings name."""
    if settings.driver == "float64":
        return Float64Gripper(node, settings)
    if settings.driver == "trajectory":
        return TrajectoryGripper(node, settings)
    if settings.driver == "parallel_gripper_command":
        return ParallelGripper(node, settings)
    return CommandGripper(node, settings)


class Float64Gripper:
    """std_msgs/Float64: the joint position as a plain number."""

    def __init__(self, node: Node, settings: GripperSettings) -> None:
        self._settings = settings
        self._publisher = node.create_publisher(Float64, settings.command, 10)

    @property
    def is_connected(self) -> bool:
        return bool(self._publisher.get_subscription_count())

    def command(self, aperture_m: float) -> None:
        self._publisher.publish(Float64(data=aperture_m / self._settings.metres_per_unit))


class TrajectoryGripper:
    """trajectory_msgs/JointTrajectory: a separate trajectory controller for the fingers."""

    def __init__(self, node: Node, settings: GripperSettings) -> None:
        self._settings = settings
        self._publisher = node.create_publisher(JointTrajectory, settings.command, 10)

    @property
    def is_connected(self) -> bool:
        return bool(self._publisher.get_subscription_count())

    def command(self, aperture_m: float) -> None:
        point = JointTrajectoryPoint(
            positions=[aperture_m / self._settings.metres_per_unit],
            time_from_start=Duration(sec=0, nanosec=int(TRAVEL_S * 1e9)),
        )
        self._publisher.publish(JointTrajectory(joint_names=[self._settings.joint], points=[point]))


def _import_actions(settings: GripperSettings) -> Any:
    try:
        import control_msgs.action
    except ImportError:
        raise SetupError(
            f"gripper driver {settings.driver} needs control_msgs, which is not installed: "
            "apt-get install ros-jazzy-control-msgs, or choose float64 or trajectory"
        ) from None
    return control_msgs.action


class ParallelGripper:
    """control_msgs/action/ParallelGripperCommand, used by ros2_controllers since Jazzy."""

    def __init__(self, node: Node, settings: GripperSettings) -> None:
        actions = _import_actions(settings)
        self._settings = settings
        self._goal = actions.ParallelGripperCommand.Goal
        self._client = ActionClient(node, actions.ParallelGripperCommand, settings.command)

    @property
    def is_connected(self) -> bool:
        return bool(self._client.server_is_ready())

    def command(self, aperture_m: float) -> None:
        goal = self._goal()
        goal.command.name = [self._settings.joint]
        goal.command.position = [aperture_m / self._settings.metres_per_unit]
        goal.command.effort = [self._settings.largest_effort]
        self._client.send_goal_async(goal)


class CommandGripper:
    """control_msgs/action/GripperCommand, used by ros2_control's gripper controllers until Jazzy."""

    def __init__(self, node: Node, settings: GripperSettings) -> None:
        actions = _import_actions(settings)
        self._settings = settings
        self._goal = actions.GripperCommand.Goal
        self._client = ActionClient(node, actions.GripperCommand, settings.command)

    @property
    def is_connected(self) -> bool:
        return bool(self._client.server_is_ready())

    def command(self, aperture_m: float) -> None:
        goal = self._goal()
        goal.command.position = aperture_m / self._settings.metres_per_unit
        goal.command.max_effort = self._settings.largest_effort
        self._client.send_goal_async(goal)
