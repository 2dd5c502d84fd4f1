"""Shows an arm to ROS tools as robot_state_publisher would: robot_description, and frames prefixed with the robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from geometry_msgs.msg import Quaternion, Transform, TransformStamped, Vector3
from rclpy.node import Node
from std_msgs.msg import String

from opc_ros.arms.link_tree import LinkTree, Placement, place
from opc_ros.bringup.lab_names import in_lab
from opc_ros.ros import convert, topics

WORLD = "world"


class RobotFrames:
    """Publishes a URDF on `robot_description`, and its links on /tf, prefixed with the robot's name.

    Several arms share one tree: world, then <robot>/base, then that robot's links and its camera.
    """

    def __init__(self, node: Node, robot: str, urdf: str, base_from_camera: np.ndarray | None = None) -> None:
        """`base_from_camera` is (4, 4), with z pointing into the image."""
        self._node, self._robot = node, robot
        self._tree = LinkTree(urdf)
        self._publishers = [node.create_publisher(String, "robot_description", topics.LATEST)]
        self._publishers[0].publish(String(data=urdf))
        try:
            from tf2_msgs.msg import TFMessage
        except ImportError:
            node.get_logger().info("no tf: tf2_msgs is not installed here")
            self._moving = None
            return
        self._kind = TFMessage
        self._moving = node.create_publisher(TFMessage, in_lab("/tf"), 100)
        still = node.create_publisher(TFMessage, in_lab("/tf_static"), topics.STATIC)
        self._publishers += [self._moving, still]
        fixed = [
            place(WORLD, f"{robot}/base", np.eye(4)),
            place(f"{robot}/base", self._name(self._tree.root), np.eye(4)),
            *map(self._rename, self._tree.place_fixed()),
        ]
        if base_from_camera is not None:
            fixed.append(place(f"{robot}/base", f"{robot}/{convert.CAMERA_FRAME}", base_from_camera))
        still.publish(TFMessage(transforms=self._to_msgs(fixed, node.get_clock().now().nanoseconds)))

    @property
    def moving_joints(self) -> tuple[str, ...]:
        return self._tree.moving_joints

    def publish(self, positions: Mapping[str, float], stamp_ns: int) -> None:
        """Publish where the links are now, from joint positions by URDF name."""
        if self._moving is not None:
            moving = [self._rename(each) for each in self._tree.place_moving(positions)]
            self._moving.publish(self._kind(transforms=self._to_msgs(moving, stamp_ns)))

    def close(self) -> None:
        for publisher in self._publishers:
            self._node.destroy_publisher(publisher)

    def _name(self, link: str) -> str:
        return f"{self._robot}/{link}"

    def _rename(self, each: Placement) -> Placement:
        return Placement(self._name(each.parent), self._name(each.child), each.position_m, each.quaternion)

    def _to_msgs(self, placements: Sequence[Placement], stamp_ns: int) -> list[TransformStamped]:
        return [
            TransformStamped(
                header=convert.header(stamp_ns, each.parent),
                child_frame_id=each.child,
                transform=Transform(
                    translation=Vector3(**dict(zip("xyz", each.position_m, strict=True))),
                    rotation=Quaternion(**dict(zip("xyzw", each.quaternion, strict=True))),
                ),
            )
            for each in placements
        ]
