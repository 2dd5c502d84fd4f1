"""What a recorder keeps beside the steps: camera info, joint states and static frames, as serialised messages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo, JointState

from opc_ros.bringup.lab_names import in_lab
from opc_ros.episode import WireMessage
from opc_ros.errors import EpisodeError
from opc_ros.recording.settings import RecorderSettings
from opc_ros.ros import convert, topics
from opc_ros.store import schemas

TF_STATIC = "/tf_static"


def find_topics(node: Node, settings: RecorderSettings) -> dict[str, str]:
    """Topic names of an episode's messages, by type, so that the file can use the same names."""
    image_type = schemas.COMPRESSED_IMAGE if settings.image_kind == "compressed" else schemas.IMAGE
    names = {
        image_type: settings.image_topic,
        schemas.GRASP_STEP: settings.step_topic,
        schemas.EPISODE_EVENT: settings.event_topic,
        schemas.LABEL: settings.label_topic,
        **{message_type: topic for message_type, topic, _, _ in _streams(settings)},
    }
    return {message_type: node.resolve_topic_name(name) for message_type, name in names.items()}


def listen(node: Node, settings: RecorderSettings, keep: Callable[[WireMessage], None]) -> list[Subscription]:
    """Subscribe to serialised messages: deserialising hundreds of joint states per second is not worth it."""

    def on_message(message_type: str, data: bytes) -> None:
        try:
            # Static frames are stamped when their node started, and of several headers none is the message's own.
            stamp_ns = node.get_clock().now().nanoseconds if message_type == schemas.TF else convert.stamp_of_raw(data)
        except EpisodeError as error:
            node.get_logger().warning(f"{message_type} is not kept: {error}", throttle_duration_sec=30.0)
            return
        keep(WireMessage(message_type, stamp_ns, data))

    return [
        node.create_subscription(message_class, topic, partial(on_message, message_type), qos, raw=True)
        for message_type, topic, message_class, qos in _streams(settings)
    ]


def _streams(settings: RecorderSettings) -> list[tuple[str, str, type, QoSProfile]]:
    wanted = [
        (schemas.CAMERA_INFO, settings.find_camera_info_topic(), CameraInfo, qos_profile_sensor_data),
        (schemas.JOINT_STATE, settings.joint_topic, JointState, topics.JOINTS),
    ]
    with contextlib.suppress(ImportError):  # not installed everywhere
        from tf2_msgs.msg import TFMessage

        tf_topic = in_lab(TF_STATIC) if settings.tf_topic == TF_STATIC else settings.tf_topic
        wanted.append((schemas.TF, tf_topic, TFMessage, topics.STATIC))
    return [stream for stream in wanted if stream[1]]
