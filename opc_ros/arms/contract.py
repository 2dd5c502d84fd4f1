"""What every Arm must do, as tests for your own: inherit from ArmContract and provide the arm."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from opc_ros.arms.arm import Arm
from opc_ros.errors import ArmStopped
from opc_ros.grasp import ActionBounds, GraspAction, Observation, ToolState

BOUNDS = ActionBounds()


def tool_shift(before: ToolState, after: ToolState) -> tuple[float, float, float]:
    return after.x_m - before.x_m, after.y_m - before.y_m, after.z_m - before.z_m


class ArmContract:
    """Provide an `arm` fixture and, for an arm less exact than a fake, wider tolerances."""

    reach_tolerance_m = 0.004
    turn_tolerance_rad = 0.02
    is_exact = True  # the same seed gives the same image, byte for byte

    @pytest.fixture
    def arm(self) -> Iterator[Arm]:
        raise NotImplementedError("the test class of an arm provides this fixture")

    @pytest.fixture
    def start(self, arm: Arm) -> Observation:
        return arm.begin(5)

    def test_has_a_name(self, arm: Arm) -> None:
        assert arm.name

    def test_begins_with_an_image_and_an_open_gripper(self, start: Observation) -> None:
        height, width, channels = start.image.shape
        assert height == width
        assert channels == 3
        assert start.image.dtype == np.uint8
        assert start.image.std() > 1, "the image is a single colour"
        assert np.isfinite(start.tool.to_vector()).all()
        assert start.tool.aperture_m > 0.07

    def test_timestamps_increase_with_each_observation(self, arm: Arm, start: Observation) -> None:
        stamps = [start.stamp_ns, arm.observe().stamp_ns]
        arm.apply(GraspAction(displacement_m=(0.02, 0.0, 0.0)))
        stamps.append(arm.observe().stamp_ns)
        assert stamps == sorted(set(stamps))

    def lift_stop(self, arm: Arm) -> None:
        """Override this where lifting a stop takes more than `release`."""
        arm.release()

    def test_a_seed_lays_out_the_same_bin_again(self, arm: Arm, start: Observation) -> None:
        other = arm.begin(6)
        again = arm.begin(5)
        assert math.isclose(again.tool.x_m, start.tool.x_m, abs_tol=self.reach_tolerance_m)
        assert not np.array_equal(other.image, start.image)
        if self.is_exact:
            assert np.array_equal(again.image, start.image)
            assert again.tool == start.tool

    @pytest.mark.parametrize("displacement_m", [(0.05, 0.0, 0.0), (0.0, -0.06, 0.0), (0.03, 0.04, -0.05)])
    def test_moves_by_the_displacement(
        self, arm: Arm, start: Observation, displacement_m: tuple[float, float, float]
    ) -> None:
        motion = arm.apply(GraspAction(displacement_m=displacement_m))
        assert motion.clamped == ()
        assert tool_shift(start.tool, arm.observe().tool) == pytest.approx(displacement_m, abs=self.reach_tolerance_m)

    def test_turns_by_the_rotation(self, arm: Arm, start: Observation) -> None:
        arm.apply(GraspAction(rotation_rad=0.5))
        turned = arm.observe().tool.yaw_rad - start.tool.yaw_rad
        assert turned == pytest.approx(0.5, abs=self.turn_tolerance_rad)

    def test_closes_and_opens_the_gripper(self, arm: Arm, start: Observation) -> None:
        arm.apply(GraspAction(close_gripper=True))
        assert arm.observe().tool.aperture_m < 0.02
        arm.apply(GraspAction(open_gripper=True))
        assert arm.observe().tool.aperture_m > 0.07

    def test_clamps_and_reports_an_action_beyond_its_bounds(self, arm: Arm, start: Observation) -> None:
        motion = arm.apply(GraspAction(displacement_m=(0.0, 0.3, 0.0), rotation_rad=2.0))
        assert len(motion.clamped) == 2
        assert BOUNDS.violations(motion.sent) == ()
        shift = tool_shift(start.tool, arm.observe().tool)
        assert shift[1] == pytest.approx(BOUNDS.displacement_m, abs=self.reach_tolerance_m)

    def test_clamps_and_reports_an_action_below_the_floor(self, arm: Arm, start: Observation) -> None:
        motions = [arm.apply(GraspAction(displacement_m=(0.0, 0.0, -0.08))) for _ in range(6)]
        assert motions[-1].clamped
        assert motions[-1].sent.displacement_m[2] > -0.08
        assert arm.observe().tool.z_m > 0.0

    def test_a_stop_refuses_motion_until_it_is_released(self, arm: Arm, start: Observation) -> None:
        arm.stop("a person came near")
        with pytest.raises(ArmStopped, match="a person came near"):
            arm.apply(GraspAction(displacement_m=(0.05, 0.0, 0.0)))
        with pytest.raises(ArmStopped):
            arm.begin(7)
        assert tool_shift(start.tool, arm.observe().tool) == pytest.approx((0, 0, 0), abs=self.reach_tolerance_m)
        self.lift_stop(arm)
        arm.apply(GraspAction(displacement_m=(0.05, 0.0, 0.0)))
        assert tool_shift(start.tool, arm.observe().tool)[0] == pytest.approx(0.05, abs=self.reach_tolerance_m)

    def test_an_empty_gripper_holds_nothing(self, arm: Arm, start: Observation) -> None:
        arm.apply(GraspAction(close_gripper=True))
        assert arm.finish() is False

    def test_a_closed_arm_does_not_move(self, arm: Arm, start: Observation) -> None:
        arm.close()
        with pytest.raises(ArmStopped):
            arm.apply(GraspAction(displacement_m=(0.05, 0.0, 0.0)))
        arm.close()
