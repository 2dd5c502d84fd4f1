"""What drivers publish beside an episode, serialised by rosbags, which is not ours."""

from __future__ import annotations

import numpy as np
from rosbags.typesys import Stores, get_typestore

from opc_ros.episode import WireMessage
from opc_ros.store import schemas


class WireMessages:
    """Camera info of a 64 x 64 lens, and two joints."""

    def __init__(self) -> None:
        self._types = get_typestore(Stores.ROS2_JAZZY)

    def camera_info(self, stamp_ns: int) -> WireMessage:
        types = self._types.types
        nothing = types["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False)
        k = np.array([50.0, 0, 32, 0, 50, 32, 0, 0, 1])
        p = np.array([50.0, 0, 32, 0, 0, 50, 32, 0, 0, 0, 1, 0])
        made = types[schemas.CAMERA_INFO](
            self._header(stamp_ns, "lens"), 64, 64, "plumb_bob", np.zeros(5), k, np.eye(3).ravel(), p, 0, 0, nothing
        )
        return self._to_wire(schemas.CAMERA_INFO, stamp_ns, made)

    def joint_state(self, stamp_ns: int) -> WireMessage:
        nothing = np.zeros(0)
        made = self._types.types[schemas.JOINT_STATE](
            self._header(stamp_ns, ""), ["A1", "A2"], np.array([0.25, -1.5]), nothing, nothing
        )
        return self._to_wire(schemas.JOINT_STATE, stamp_ns, made)

    def _header(self, stamp_ns: int, frame_id: str) -> object:
        types = self._types.types
        stamp = types["builtin_interfaces/msg/Time"](*divmod(stamp_ns, 1_000_000_000))
        return types["std_msgs/msg/Header"](stamp, frame_id)

    def _to_wire(self, kind: str, stamp_ns: int, message: object) -> WireMessage:
        return WireMessage(kind, stamp_ns, bytes(self._types.serialize_cdr(message, kind)))
