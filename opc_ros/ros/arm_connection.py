"""The policy runner's connection to its arm, at the speed that the rung allows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from opc_ros.arms.arm import Arm, ScriptedArm
from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.lab import load_arm
from opc_ros.camera import CameraSpec, find_offset
from opc_ros.deployment.arm_lease import LeaseRequest
from opc_ros.deployment.keys import TextSigner
from opc_ros.deployment.permit import Rung
from opc_ros.errors import CandidateError
from opc_ros.ros.arm_link import WayMaker
from opc_ros.ros.arm_way import DirectWay
from opc_ros.ros.gateway_way import make_gateway_way
from opc_ros.ros.ros_arm import RosArm

ArmKind = Literal["ros", "scripted"]


class ArmConnection:
    """Holds one connection at a time; each speed needs its own connection."""

    def __init__(
        self,
        robot: str,
        kind: ArmKind,
        config: str,
        reduced_speed: float,
        image_size: int,
        now: Callable[[], int],
        episode: Callable[[], str],
        why_to_stop: Callable[[], str | None],
        keys: Path,
        gateway: str = "",
        signer: TextSigner | None = None,
    ) -> None:
        """`gateway` is the folder of its socket, if the arm has one; `signer` has the robot's key."""
        self._robot = robot
        self._kind = kind
        self._config = config
        self._reduced_speed = reduced_speed
        self._image_size = image_size
        self._now = now
        self._episode = episode
        self._why_to_stop = why_to_stop
        self._keys = keys
        self._gateway, self._signer = gateway, signer
        self._shown = LeaseRequest(robot, "permit")
        self._taken: tuple[Rung, Arm] | None = None

    def refuse_other_camera(self, name: str, expected: CameraSpec | None) -> None:
        """Refuse a candidate trained for a camera in another place: it would grasp beside what it sees."""
        if self._kind == "scripted" or expected is None:
            return
        settings = load_arm(self._config, self._robot)
        if settings.camera.calibration is None:
            return
        box = settings.workspace
        offset = find_offset(settings.camera.calibration, expected, box.low_m, box.high_m)
        if not offset <= settings.camera.largest_offset:
            seen = (
                f"sees the workspace {offset:.0%} of the image's width beside" if offset < 1 else "looks elsewhere than"
            )
            raise CandidateError(
                f"candidate {name}: expects a camera that {seen} that of arm {self._robot}, allowed "
                f"{settings.camera.largest_offset:.0%}: move the camera back, recalibrate it in {self._config}, "
                "or train for it"
            )

    @contextmanager
    def leased(self, rung: Rung, shown: LeaseRequest) -> Iterator[Arm]:
        """Yields the arm for as long as a permit is used; the permit is shown to the gateway before every episode."""
        self._shown = shown
        arm = self._take(rung)
        try:
            yield arm
        finally:
            if isinstance(arm, RosArm):
                arm.rest()

    def _take(self, rung: Rung) -> Arm:
        if self._taken is not None and self._taken[0] is rung:
            return self._taken[1]
        self.close()
        if self._kind == "scripted":
            made: Arm = ScriptedArm(self._robot, image_size=self._image_size, now=self._now)
        else:
            settings = scale_speed(load_arm(self._config, self._robot), self._share(rung))
            made = RosArm(
                settings,
                episode=self._episode,
                why_to_stop=self._why_to_stop,
                make_way=self._choose_way(),
                keys=self._keys,
            )
        self._taken = (rung, made)
        return made

    def close(self) -> None:
        if self._taken is not None:
            self._taken[1].close()
            self._taken = None

    def _choose_way(self) -> WayMaker:
        return make_gateway_way(self._gateway, lambda: self._shown, self._signer) if self._gateway else DirectWay

    def _share(self, rung: Rung) -> float:
        return self._reduced_speed if rung is Rung.REDUCED else 1.0


def scale_speed(settings: ArmSettings, share: float) -> ArmSettings:
    """The settings of the same arm, with joint and tool speeds scaled down."""
    motion = dataclasses.replace(
        settings.motion,
        speed_fraction=max(0.01, settings.motion.speed_fraction * share),
        tool_speed_m_s=max(0.005, settings.motion.tool_speed_m_s * share),
    )
    return dataclasses.replace(settings, motion=motion)
