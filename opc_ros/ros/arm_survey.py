"""What there is in an arm's namespace: joint states, controllers, grippers and cameras."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from opc_ros.ros.brief_node import BriefNode
from opc_ros.ros.discovery import IMAGE_TYPES

ACTIONS = {
    "control_msgs/action/FollowJointTrajectory": "follow_joint_trajectory",
    "control_msgs/action/GripperCommand": "gripper_command",
    "control_msgs/action/ParallelGripperCommand": "parallel_gripper_command",
}


@dataclass(frozen=True, slots=True)
class ArmSurvey:
    """Names from the ROS graph."""

    joint_states: dict[str, tuple[str, ...]] = field(default_factory=dict)  # topic -> joints in its messages
    controllers: tuple[tuple[str, str], ...] = ()  # (controller, "topic" or "action")
    grippers: tuple[tuple[str, str], ...] = ()  # (action, driver)
    cameras: tuple[tuple[str, bool], ...] = ()  # (topic, whether it is compressed)


def looking_node(domain: int | None) -> BriefNode:
    """A node that only looks; by default in the ROS domain of the environment."""
    return BriefNode("opc_survey", domain=domain, has_log=False)


def survey_arm(namespace: str = "", *, domain: int | None = None, wait_s: float = 3.0) -> ArmSurvey:
    """Listen for a while; returns what is in the namespace, and cameras anywhere, those in the namespace first."""
    with looking_node(domain) as looking:
        node = looking.node
        joints: dict[str, tuple[str, ...]] = {}
        followed: set[str] = set()
        ends = time.monotonic() + wait_s
        while time.monotonic() < ends:
            for topic, types in node.get_topic_names_and_types():
                if "sensor_msgs/msg/JointState" in types and topic not in followed:
                    followed.add(topic)
                    node.create_subscription(
                        JointState,
                        topic,
                        lambda msg, topic=topic: joints.__setitem__(topic, tuple(msg.name)),
                        qos_profile_sensor_data,
                    )
            looking.pulse()
        published = [(t, kinds) for t, kinds in node.get_topic_names_and_types() if node.count_publishers(t)]
        listened = [(t, kinds) for t, kinds in node.get_topic_names_and_types() if node.count_subscribers(t)]
        actions = _actions(node)
    prefix = f"/{namespace.strip('/')}/" if namespace.strip("/") else "/"
    controllers = [(t.rsplit("/", 1)[0], "action") for t, kind in actions if kind == "follow_joint_trajectory"]
    controllers += [
        (topic.rsplit("/", 1)[0], "topic")
        for topic, kinds in listened
        if "trajectory_msgs/msg/JointTrajectory" in kinds and topic.endswith("/joint_trajectory")
    ]
    cameras = [
        (topic, "sensor_msgs/msg/CompressedImage" in kinds) for topic, kinds in published if IMAGE_TYPES & set(kinds)
    ]
    return ArmSurvey(
        joint_states={topic: names for topic, names in sorted(joints.items()) if topic.startswith(prefix)},
        controllers=tuple(sorted({c for c in controllers if c[0].startswith(prefix)})),
        grippers=tuple(sorted((t, k) for t, k in actions if "gripper" in k and t.startswith(prefix))),
        cameras=tuple(sorted(cameras, key=lambda item: (not item[0].startswith(prefix), not item[1], item[0]))),
    )


def _actions(node: Node) -> list[tuple[str, str]]:
    from rclpy.action import get_action_names_and_types

    return [
        (name, ACTIONS[kind]) for name, kinds in get_action_names_and_types(node) for kind in kinds if kind in ACTIONS
    ]
