"""An arm for a recorder that shows and sends exactly what a test wants."""

from __future__ import annotations

from typing import Any

import numpy as np

from opc_ros.episode import Frame
from opc_ros.grasp import GraspAction, GraspStep, ToolState

TOOL = ToolState(x_m=0.5, y_m=0.0, z_m=0.3, yaw_rad=0.0, aperture_m=0.08)


class FakeArm:
    """Publishes frames, steps and events exactly as a test wants them.

    A test subscribes to everything else first: DDS announces a peer's topics in this order, so a recorder whose status
    is received knows of the others.
    """

    def __init__(self, probe: Any, *, is_raw: bool = False, is_reliable: bool = True, step_kind: str = "step") -> None:
        from opc_interfaces.msg import EpisodeEvent, GraspAction, GraspStep, RecorderStatus, ToolState
        from sensor_msgs.msg import CompressedImage, Image

        from opc_ros.ros import topics

        self._probe = probe
        camera = (Image, "/arm1/camera/image") if is_raw else (CompressedImage, "/arm1/camera/image/compressed")
        self.statuses = probe.listen(RecorderStatus, "/arm1/recorder/status", topics.LATEST)
        if is_reliable:
            self._frames = probe.publisher(*camera, topics.images())
        else:
            self._frames = probe.node.create_publisher(*camera, topics.images(is_reliable=False))
        if step_kind == "step":
            self._steps = probe.publisher(GraspStep, "/arm1/grasp/step", topics.RECORDED)
        else:
            self._steps = None
            self._tools = probe.publisher(ToolState, "/arm1/tool/state", topics.RECORDED)
            self._actions = probe.publisher(GraspAction, "/arm1/grasp/action", topics.RECORDED)
        self._events = probe.publisher(EpisodeEvent, "/arm1/episode/event", topics.RECORDED)
        probe.until(lambda: self.statuses, "no status of the recorder is heard")

    def take_image(self) -> Frame:
        return Frame.from_image(np.zeros((8, 8, 3), dtype=np.uint8), self.now_ns())

    def send_frame(self, frame: Frame) -> None:
        from opc_ros.ros import convert

        self._frames.publish(convert.frame_to_msg(frame))

    def send_step(self, frame: Frame, index: int, episode_id: str) -> None:
        from opc_ros.ros import convert

        step = GraspStep(frame=frame, tool=TOOL, action=GraspAction())
        msg = convert.step_to_msg(step, robot="arm1", episode_id=episode_id, index=index, chosen_ns=frame.stamp_ns)
        if self._steps is not None:
            self._steps.publish(msg)
        else:
            self._tools.publish(msg.tool)
            self._actions.publish(msg.action)

    def send_event(self, kind: int, **fields: object) -> None:
        from opc_interfaces.msg import EpisodeEvent

        self._events.publish(EpisodeEvent(robot="arm1", kind=kind, **fields))

    def wait_for(self, **wanted: object) -> None:
        """Until the recorder's status says so."""

        def holds() -> bool:
            latest = self.statuses[-1] if self.statuses else None
            return latest is not None and all(getattr(latest, name) == value for name, value in wanted.items())

        self._probe.until(holds, f"the recorder never showed {wanted}")

    def now_ns(self) -> int:
        return int(self._probe.node.get_clock().now().nanoseconds)
