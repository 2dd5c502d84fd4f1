"""Wait until the robot's recorder is ready for an episode."""

from __future__ import annotations

import time
from collections.abc import Callable

from opc_interfaces.msg import EpisodeSummary, RecorderStatus
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from opc_ros.ros import topics

SILENT_S = 5.0  # a recorder publishes its state every second


class RecorderWatch:
    """Listens to `recorder/status`, so that no episode begins unrecorded."""

    def __init__(self, node: Node, *, needs_images: bool = True, callback_group: CallbackGroup | None = None) -> None:
        """With `needs_images`, the recorder must have received images, which shows a working camera."""
        self._node = node
        self._needs_images = needs_images
        self._status: RecorderStatus | None = None
        self._heard_s = 0.0
        self._kept: EpisodeSummary | None = None  # the last episode that the recorder reported
        self._subscription = node.create_subscription(
            RecorderStatus, "recorder/status", self._on_status, topics.LATEST, callback_group=callback_group
        )
        self._summaries = node.create_subscription(
            EpisodeSummary, "episode/summary", self._on_summary, topics.RECORDED, callback_group=callback_group
        )

    def close(self) -> None:
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_subscription(self._summaries)

    @property
    def is_ready(self) -> bool:
        status = self._status
        if status is None or self._is_silent or status.state != RecorderStatus.WAITING:
            return False
        return status.frames_received > 0 or not self._needs_images

    @property
    def complaint(self) -> str:
        if self._status is None:
            return "nothing heard on recorder/status"
        if self._is_silent:
            return f"it was last heard {time.monotonic() - self._heard_s:.0f} s ago"
        if self._status.reason:
            return f"it says: {self._status.reason}"
        return "it is busy" if self._status.frames_received else "it has received no image yet"

    def wait(self, timeout_s: float, why_to_stop: Callable[[], str | None]) -> str | None:
        """Wait until it is ready; returns None, or why it is not. Call it outside the executor's thread."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            if self.is_ready:
                return None
            reason = why_to_stop()
            if reason is not None:
                return reason
            time.sleep(0.02)
        return f"no recorder is ready for an episode; {self.complaint}"

    def wait_until_kept(self, episode_id: str, timeout_s: float, is_stopping: Callable[[], bool]) -> bool:
        """Wait until the recorder has reported on an episode; until then the recorder must not be taken down."""
        return self._wait_for_summary(episode_id, timeout_s, is_stopping) is not None

    def wait_for_recording(self, episode_id: str, timeout_s: float) -> str:
        """The digest of an episode's committed file; empty if it was not kept, or not reported in time."""
        told = self._wait_for_summary(episode_id, timeout_s, lambda: self._is_silent)
        return str(told.file_sha256) if told is not None and told.outcome == EpisodeSummary.SAVED else ""

    def _wait_for_summary(
        self, episode_id: str, timeout_s: float, is_stopping: Callable[[], bool]
    ) -> EpisodeSummary | None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            told = self._kept
            if told is not None and told.episode_id == episode_id:
                return told
            if time.monotonic() >= deadline_s or is_stopping():
                return None
            time.sleep(0.005)

    @property
    def _is_silent(self) -> bool:
        """Whether it has stopped publishing: the status is latched, so a dead recorder's last message remains."""
        return time.monotonic() - self._heard_s > SILENT_S

    def _on_status(self, msg: RecorderStatus) -> None:
        self._status, self._heard_s = msg, time.monotonic()

    def _on_summary(self, msg: EpisodeSummary) -> None:
        self._kept = msg
