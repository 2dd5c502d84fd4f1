"""`opc arm new` and `check`: an arm file for your own arm, from its URDF and what its driver publishes."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.cli.argument_types import number, some_text

if TYPE_CHECKING:
    from opc_ros.arms.arm_file import DriverDraft
    from opc_ros.ros.arm_survey import ArmSurvey

EXAMPLES = """examples:
  opc arm new arm2 --urdf my_arm.urdf                       # asks for the rest, looks at the driver, writes arm2.yaml
  opc arm new arm2 --urdf my_arm.urdf --namespace arm2 --offline --out config/arm2.yaml
  opc arm new panda --urdf pybullet_data:franka_panda/panda.urdf --tool-yaw-deg 135 --offline
  opc arm check arm2.yaml                                   # joints, limits, and whether the tool reaches the workspace
  opc doctor --robot arm2 --lab lab.yaml                    # the same arm live: driver, camera, gripper, guard, clock

It looks for a posture and a workspace in which the tool points straight down everywhere, away from joint limits.
Then add the robot to your lab file:
  robots:
    arm2: {arm: arm2.yaml, namespace: arm2, rungs: [reduced, full]}"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "arm",
        help="write and check the file that says how an arm is reached",
        description="Bring your own arm: any serial arm of six or seven joints with a URDF and a ROS 2 driver.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    new = parts.add_parser("new", help="write an arm file from a URDF and a running driver")
    new.add_argument("robot", type=some_text)
    new.add_argument("--urdf", help="a path, or package:path inside it")
    new.add_argument("--flange", help="link of the URDF that carries the tool (default: searched)")
    new.add_argument("--namespace", help="namespace of driver and camera (default: the robot's name)")
    new.add_argument("--domain", type=int, help="ROS domain of the driver (default: that of the environment)")
    new.add_argument("--tool-z-m", type=number(0, 1), help="from flange to finger tips (default: 0.145)")
    new.add_argument("--tool-yaw-deg", type=number(-180, 180), default=0.0, help="of the gripper on the flange")
    new.add_argument("--gripper", choices=("gripper_command", "parallel_gripper_command", "trajectory", "float64"))
    new.add_argument("--offline", action="store_true", help="do not look at the driver")
    new.add_argument("--wait", type=number(0.1, 60), default=3.0, metavar="S", help="how long to look (default 3)")
    new.add_argument("--out", type=Path, help="file to write (default: ROBOT.yaml)")
    new.set_defaults(run=run_new)
    check = parts.add_parser("check", help="check an arm file without an arm")
    check.add_argument("file", type=Path)
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(run=run_check)


def run_new(arguments: argparse.Namespace) -> int:
    from opc_ros.arms.arm_file import write_arm_file
    from opc_ros.arms.draft import draft_arm, suggest_flange
    from opc_ros.arms.kinematics import ToolMount
    from opc_ros.errors import ConfigError

    out = arguments.out or Path(f"{arguments.robot}.yaml")
    if out.exists():
        raise ConfigError(f"{out}: exists, expected a new file")
    urdf = arguments.urdf or _ask("URDF of the arm (path, or package:path)", "opc_ros:arms/urdf/lbr_iiwa_14_r820.urdf")
    flange = arguments.flange or _ask("link that carries the tool", suggest_flange(urdf))
    namespace = (
        arguments.namespace if arguments.namespace is not None else _ask("namespace of its driver", arguments.robot)
    )
    z_m = (
        arguments.tool_z_m
        if arguments.tool_z_m is not None
        else float(_ask("metres from flange to finger tips", "0.145"))
    )
    mount = ToolMount(z_m=z_m, yaw_rad=math.radians(arguments.tool_yaw_deg))
    print("searching for a posture that reaches a workspace with the tool straight down ...", file=sys.stderr)
    arm = draft_arm(urdf, flange, mount)
    driver, seen = _look_at_driver(arguments, namespace, arm.joint_names)
    text = write_arm_file(arguments.robot, arm, mount, driver, seen)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{out}: {error.strerror or error}") from error
    for line in seen:
        print(line)
    print(
        f"{out}: {len(arm.joint_names)} joints to {flange}, {arm.margin_deg:.0f} deg from their limits in the workspace"
    )
    entry = f"{arguments.robot}: {{arm: {out}, namespace: {namespace}, rungs: [reduced, full]}}"
    print(f"next: measure the lines marked CHECK, then\n  opc arm check {out}")
    print(f"  add it to your lab file:\n    {entry}")
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    from opc_ros.arms.settings import ArmSettings
    from opc_ros.arms.workspace_check import check_workspace
    from opc_ros.config import load_config

    settings = load_config(arguments.file, ArmSettings)
    found = check_workspace(settings)
    if arguments.json:
        print(json.dumps({"file": str(arguments.file), "joints": found.joints, "unreached": found.unreached}, indent=2))
    else:
        for name, low, high, speed in found.joints:
            print(f"{name:<24}{low:+8.1f} to {high:+6.1f} deg  {speed:6.1f} deg/s")
        for line in found.unreached:
            print(f"opc: {arguments.file}: {line}", file=sys.stderr)
        if not found.unreached:
            print(f"workspace: reached at all {found.poses} poses tried, tool straight down")
    return int(bool(found.unreached))


def _look_at_driver(
    arguments: argparse.Namespace, namespace: str, joint_names: tuple[str, ...]
) -> tuple[DriverDraft, list[str]]:
    from opc_ros.arms.arm_file import DriverDraft
    from opc_ros.bringup.checks import require_ros

    plain = DriverDraft(namespace=namespace, gripper_driver=arguments.gripper or "gripper_command")
    if arguments.offline:
        return plain, []
    require_ros()
    from opc_ros.ros.arm_survey import survey_arm
    from opc_ros.ros.driver_draft import draft_driver

    print(f"looking at /{namespace} for {arguments.wait:g} s ...", file=sys.stderr)
    survey: ArmSurvey = survey_arm(namespace, domain=arguments.domain, wait_s=arguments.wait)
    return draft_driver(survey, plain, joint_names, wants_gripper=arguments.gripper)


def _ask(question: str, default: str) -> str:
    """Prompts on a terminal; otherwise returns the default."""
    if not sys.stdin.isatty():
        return default
    return input(f"{question} [{default}]: ").strip() or default
