"""Which joint angles a guard believes: a hold must never become a motion."""

from __future__ import annotations

import numpy as np
import pytest

from opc_ros.arms.joint_watch import JointWatch
from opc_ros.arms.limits import JointLimits
from opc_ros.arms.settings import ArmSettings

REST = np.zeros(7)
STILL = np.zeros(7)


class Bench:
    """Readings every 10 ms, by a clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 50.0
        limits = JointLimits(ArmSettings().load_model())
        self.watch = JointWatch(limits, rest_rad_s=0.02, oldest_s=1.0, now=lambda: self.seconds)

    def see(self, positions: np.ndarray, velocities: np.ndarray | None = STILL, age_s: float = 0.0) -> bool:
        self.seconds += 0.01
        return self.watch.see(positions, velocities, age_s)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    assert made.see(REST)
    return made


def test_one_stray_reading_is_not_held(bench: Bench) -> None:
    stray = REST.copy()
    stray[1] = 3.5  # joint 2 ends at 2.09 rad
    assert not bench.see(stray)
    assert bench.watch.doubt == "joint 2 at +200.5 deg, beyond its limit"
    np.testing.assert_array_equal(bench.watch.holdable(0.1), REST)


def test_a_jump_within_the_limits_is_not_held_either(bench: Bench) -> None:
    assert not bench.see(REST + 0.5)
    assert bench.watch.doubt.startswith("jumped: joint")
    np.testing.assert_array_equal(bench.watch.holdable(0.1), REST)


def test_a_position_reported_again_and_again_is_believed_after_all(bench: Bench) -> None:
    assert [bench.see(REST + 0.5) for _ in range(6)] == [False, False, False, False, True, True]


def test_two_drivers_that_take_turns_never_convince_the_watch(bench: Bench) -> None:
    for _ in range(50):
        assert bench.see(REST)
        assert not bench.see(REST + 0.5)
    np.testing.assert_array_equal(bench.watch.holdable(0.1), REST)


@pytest.mark.parametrize("velocities", [np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]), None])
def test_a_moving_arm_is_held_where_it_has_got_to(bench: Bench, velocities: np.ndarray | None) -> None:
    for step in range(1, 30):
        positions = REST.copy()
        positions[0] = 0.003 * step  # 0.3 rad/s
        assert bench.see(positions, velocities)
    bench.seconds += 0.05
    expected = positions.copy()
    expected[0] += 0.015
    np.testing.assert_allclose(bench.watch.holdable(0.1), expected, atol=1e-9)


def test_an_old_position_is_not_held(bench: Bench) -> None:
    bench.seconds += 0.11
    assert bench.watch.holdable(0.1) is None


@pytest.mark.parametrize("age_s", [5.0, -3600.0])
def test_readings_whose_stamps_are_old_or_from_the_future_are_not_believed(bench: Bench, age_s: float) -> None:
    assert not bench.see(REST, age_s=age_s)
    assert bench.watch.doubt.startswith("stamped")


@pytest.mark.parametrize("velocities", [None, np.full(7, np.nan)])
def test_motion_is_detected_from_positions_if_velocities_are_missing(bench: Bench, velocities: np.ndarray) -> None:
    assert not bench.watch.is_moving
    for step in range(1, 30):
        positions = REST.copy()
        positions[0] = 0.001 * step  # 0.1 rad/s
        assert bench.see(positions, velocities)
    assert bench.watch.is_moving
    for _ in range(30):
        bench.see(positions, velocities)
    assert not bench.watch.is_moving


def test_noise_is_no_motion(bench: Bench) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert bench.see(REST + rng.normal(0.0, 2e-4, 7), None)
        assert not bench.watch.is_moving


def test_what_is_held_is_within_the_limits(bench: Bench) -> None:
    limits = JointLimits(ArmSettings().load_model())
    watch = JointWatch(limits, rest_rad_s=0.02, oldest_s=1.0, now=lambda: 0.0)
    assert watch.see(limits.upper_rad + 0.01, None, 0.0)
    np.testing.assert_array_equal(watch.holdable(0.1), limits.upper_rad)
