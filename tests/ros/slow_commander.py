"""A process that begins an episode and starts one slow motion when told to; it exists to be killed."""

from __future__ import annotations

import dataclasses
import sys

from opc_ros.grasp import GraspAction
from opc_ros.ros.ros_arm import RosArm
from tests.ros.twin_rig import SETTINGS


def main() -> int:
    slow = dataclasses.replace(SETTINGS, motion=dataclasses.replace(SETTINGS.motion, tool_speed_m_s=0.01))
    arm = RosArm(slow)
    arm.begin(seed=1)
    print("ready", flush=True)
    sys.stdin.readline()
    arm.apply(GraspAction(displacement_m=(0.0, 0.08, 0.0)))
    print("arrived", flush=True)
    arm.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
