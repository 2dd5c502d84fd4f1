"""How joint trajectories reach an arm's controller: on its topic, or as goals of its FollowJointTrajectory action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rclpy.duration import Duration
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from opc_ros.arms.settings import ArmSettings
from opc_ros.errors import SetupError


class TrajectoryOutlet(Protocol):
    """Anything that takes a trajectory, which replaces the previous one."""

    @property
    def name(self) -> str:
        """The topic or action, for people."""
        ...

    @property
    def is_connected(self) -> bool: ...

    def send(self, msg: JointTrajectory) -> None: ...

    def flush(self, longest: Duration) -> None:
        """Wait until the last message has arrived."""
        ...


def make_outlet(node: Node, settings: ArmSettings, complain: Callable[[str], None]) -> TrajectoryOutlet:
    """The outlet that the settings name; `complain` is called for goals that the controller rejects."""
    if settings.controller_by == "topic":
        return TrajectoryTopic(node, f"{settings.controller}/joint_trajectory")
    return TrajectoryAction(node, f"{settings.controller}/follow_joint_trajectory", complain)


class TrajectoryTopic:
    """trajectory_msgs/JointTrajectory, which every joint_trajectory_controller subscribes to."""

    def __init__(self, node: Node, topic: str) -> None:
        self._publisher = node.create_publisher(JointTrajectory, topic, 10)

    @property
    def name(self) -> str:
        return str(self._publisher.topic_name)

    @property
    def is_connected(self) -> bool:
        return bool(self._publisher.get_subscription_count())

    def send(self, msg: JointTrajectory) -> None:
        self._publisher.publish(msg)

    def flush(self, longest: Duration) -> None:
        self._publisher.wait_for_all_acked(longest)


class TrajectoryAction:
    """control_msgs/action/FollowJointTrajectory; a new goal replaces the previous one.

    As with the topic, the joint states show whether the arm has arrived; results are only used for complaints.
    """

    def __init__(self, node: Node, action: str, complain: Callable[[str], None]) -> None:
        try:
            from control_msgs.action import FollowJointTrajectory
        except ImportError:
            raise SetupError(
                "controller_by: action needs control_msgs, which is not installed: "
                "apt-get install ros-jazzy-control-msgs, or choose topic"
            ) from None
        from rclpy.action import ActionClient

        self._name = action
        self._kind = FollowJointTrajectory
        self._complain = complain
        self._client = ActionClient(node, FollowJointTrajectory, action)

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_connected(self) -> bool:
        return bool(self._client.server_is_ready())

    def send(self, msg: JointTrajectory) -> None:
        goal = self._kind.Goal(trajectory=msg)
        self._client.send_goal_async(goal).add_done_callback(self._on_answer)

    def flush(self, longest: Duration) -> None:
        """Nothing to wait for without blocking ROS: a goal is a service call, and has arrived once it is answered."""

    def _on_answer(self, future: Any) -> None:
        handle = future.result()
        if handle is not None and not handle.accepted:
            self._complain(f"{self._name} rejected a trajectory")
