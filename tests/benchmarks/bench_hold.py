"""How far a hold moves the tool of a moving twin, depending on where the arm is held.

    python -m tests.benchmarks.bench_hold

Physics only, without ROS and in simulated time, so that the figures do not depend on how busy the machine is. The twin
follows straight lines with the motion of a real arm (config/arm.yaml). At a random moment it is held where it was
measured some time ago, or where it has got to since, extrapolated by its speed or along the commanded motion.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.arms.hold import Hold, reckon
from opc_ros.arms.kinematics import Kinematics, ToolPose
from opc_ros.arms.limits import JointLimits
from opc_ros.arms.safety import StopSwitch
from opc_ros.arms.settings import ArmSettings
from opc_ros.arms.trajectory import Trajectory, plan_hold, plan_line
from opc_ros.bringup.config_files import find_config
from opc_ros.config import load_config
from sim_bridge.driver import TwinDriver
from sim_bridge.twin_node import TwinSettings
from sim_bridge.world import World
from sim_bridge.worlds import find_world

TICK_S = 0.01
REST_RAD_S = 0.02


@dataclass(frozen=True, slots=True)
class Seen:
    """Measured joints, the age of the measurement, and the commanded motion with its age."""

    joints_rad: np.ndarray
    speeds_rad_s: np.ndarray
    age_s: float
    motion: Trajectory
    told_ago_s: float
    arm: ArmSettings


def stay_as_told(seen: Seen) -> np.ndarray:
    """Hold as a RosArm and the gateway do."""
    clock_s = [0.0]
    hold = Hold(JointLimits(seen.arm.load_model()), seen.arm, lambda: clock_s[0])
    hold.note(seen.motion)
    clock_s[0] = seen.told_ago_s
    planned = hold.plan(seen.joints_rad, seen.speeds_rad_s, seen.told_ago_s - seen.age_s)
    return seen.joints_rad if planned is None else planned.goal_rad


Target = Callable[[Seen], np.ndarray]
WAYS: dict[str, Target] = {
    "where it was measured": lambda seen: seen.joints_rad,
    "where its speed has led it": lambda seen: reckon(
        seen.joints_rad, seen.speeds_rad_s, seen.age_s, seen.arm.joint_limits()
    ),
    "where its motion has led it": stay_as_told,
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holds", type=int, default=14, help="in each case (default 14)")
    holds = parser.parse_args(argv).holds
    real = load_config(find_config("arm.yaml"), ArmSettings)
    arm = dataclasses.replace(load_config(find_config("arm_twin.yaml"), ArmSettings), motion=real.motion)
    with World(dataclasses.replace(find_world(TwinSettings().world), arm=arm), image_size=32) as world:
        driver = TwinDriver(world, StopSwitch("twin"), command_timeout_s=1e9, now=lambda: 0.0)
        driver.lay_out(1)
        for name, target in WAYS.items():
            for age_s in (0.0, 0.03, 0.06, 0.1):
                rng = np.random.default_rng(0)
                found = np.array([hold_once(world, driver, arm, target, age_s, rng) for _ in range(holds)])
                (moved_50, moved_99), (rest_50, rest_99) = np.percentile(found, (50, 99), axis=0).T
                print(
                    f"held {name}, measured {1e3 * age_s:3.0f} ms ago: the tool moves by {moved_50:.1f} mm at "
                    f"the median, {moved_99:.1f} mm at the 99th percentile; rests after {rest_50:.0f}, {rest_99:.0f} ms"
                )


def hold_once(
    world: World, driver: TwinDriver, arm: ArmSettings, target: Target, age_s: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Millimetres by which the tool moves after the hold, and milliseconds until it rests."""
    kinematics, limits = arm.kinematics(), arm.joint_limits()
    driver.follow(plan_hold(kinematics.solve(arm.start.to_pose())))
    driver.advance(1.5)
    here = kinematics.locate_tool(world.joint_positions_rad())
    dx, dy, dz = rng.uniform(-0.06, 0.06, 3)
    goal = ToolPose(here.x_m + dx, here.y_m + dy, here.z_m + dz / 2, here.yaw_rad + float(rng.uniform(-0.5, 0.5)))
    motion = plan_line(kinematics, limits, world.joint_positions_rad(), goal, tool_speed_m_s=arm.motion.tool_speed_m_s)
    driver.follow(motion)
    seen = []
    for _ in range(max(12, int(rng.uniform(0.15, 0.95) * motion.duration_s / TICK_S))):
        driver.advance(TICK_S)
        seen.append((world.joint_positions_rad(), world.joint_velocities_rad_s()))
    joints, speeds = seen[-1 - round(age_s / TICK_S)]
    driver.follow(plan_hold(target(Seen(joints, speeds, age_s, motion, len(seen) * TICK_S, arm))))
    start, furthest_m, rest_ms = _tool(world, kinematics), 0.0, 0
    for tick in range(1, 80):
        driver.advance(TICK_S)
        furthest_m = max(furthest_m, float(np.linalg.norm(_tool(world, kinematics) - start)))
        if np.abs(world.joint_velocities_rad_s()).max() >= REST_RAD_S:
            rest_ms = tick * 10
    return 1e3 * furthest_m, float(rest_ms)


def _tool(world: World, kinematics: Kinematics) -> np.ndarray:
    pose = kinematics.locate_tool(world.joint_positions_rad())
    return np.array((pose.x_m, pose.y_m, pose.z_m))


if __name__ == "__main__":
    main()
