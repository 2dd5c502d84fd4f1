"""Label an episode by the gripper's width after it closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opc_ros.episode import Label, LabelSource
from opc_ros.grasp import GraspAction


@dataclass(frozen=True, slots=True)
class GripperWidthRule:
    """The gripper holds something if its closed width is within a range; fingers that meet hold nothing."""

    held_from_m: float
    held_to_m: float

    def label(self, actions: Sequence[GraspAction], apertures_m: Sequence[float]) -> Label:
        """`apertures_m[i]` was measured before `actions[i]` was carried out.

        A gripper that never closed, or was opened again, holds nothing. If it closed with the last action, there is no
        measurement after that, so the outcome is unknown.
        """
        last_command = next((i for i in reversed(range(len(actions))) if _commands_gripper(actions[i])), None)
        if last_command is None or actions[last_command].open_gripper:
            return self._say(is_success=False)
        if last_command == len(actions) - 1:
            return Label()
        return self._say(is_success=self.held_from_m <= apertures_m[-1] <= self.held_to_m)

    def _say(self, *, is_success: bool) -> Label:
        width = f"{self.held_from_m * 1000:g} to {self.held_to_m * 1000:g} mm"
        return Label(is_success=is_success, source=LabelSource.GRIPPER_WIDTH, labeller=f"held at {width}")


def _commands_gripper(action: GraspAction) -> bool:
    return action.open_gripper or action.close_gripper
