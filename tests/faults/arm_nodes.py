"""The nodes of a moving arm, as the rig starts them: a driver, the arm's guard and a policy runner."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.config_files import find_config
from opc_ros.config import load_config

ROBOT = "iiwa"
IMAGE_SIZE = 64
DRIVER, GUARD, RUNNER = "driver", "guard", "runner"


def command_of(name: str, folder: Path) -> list[str]:
    """How one of them is started, with everything it needs below a folder."""
    keys = folder / ROBOT / "keys"
    parameters: dict[str, object]
    remap: dict[str, str] = {}
    if name == DRIVER:
        module = "sim_bridge.twin_node"
        parameters = {"arm_config": folder / "driver.yaml", "image_size": IMAGE_SIZE, "camera_hz": 20.0}
        parameters |= {"command_timeout_s": 60.0}
        # Like real drivers, it hears neither stops nor heartbeats.
        remap = {each: f"driver/{each}" for each in ("stop", "release", "stop_id", "heartbeat", "safety/event")}
    elif name == GUARD:
        module = "opc_ros.ros.arm_guard_node"
        parameters = {"arm_config": folder / "guard.yaml", "state": folder / "guard", "keys": keys}
        remap = {"heartbeat": "guard/heartbeat"}
    else:
        module = "opc_ros.ros.policy_runner_node"
        parameters = {"arm_config": folder / "runner.yaml", "rungs": "full", "keys": keys}
        parameters |= {"state": folder / ROBOT, "heartbeat_s": 60.0, "wait_for_recorder": False}
    words = ["--ros-args", "-r", f"__ns:=/{ROBOT}"]
    for old, new in remap.items():
        words += ["-r", f"{old}:={new}"]
    for key, value in parameters.items():
        words += ["-p", f"{key}:={str(value).lower() if isinstance(value, bool) else value}"]
    return [sys.executable, "-m", module, *words]


def put_first(process: int) -> None:
    """Ahead of everything else on this machine, if that is allowed."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(process, os.SCHED_RR, os.sched_param(5))


def can_be_first() -> bool:
    """Whether this process may set real-time scheduling, as root may."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        return True
    return False


def write_arms(folder: Path) -> ArmSettings:
    """The arm as driver, guard and runner each reach it, with the motion of a real one."""
    arm = yaml.safe_load(find_config("arm_twin.yaml").read_text())
    real = yaml.safe_load(find_config("arm.yaml").read_text())
    arm |= {"robot": ROBOT, "lay_out": "", "motion": real["motion"]}
    arm |= {key: real[key] for key in ("measurement_timeout_s", "guard_timeout_s")}
    arm["camera"] = {"timeout_s": 5.0}
    # Where the camera sees it move: an arm out of its sight looks like a frozen camera.
    arm["workspace"] = {"low_m": [0.5, -0.1, 0.1], "high_m": [0.68, 0.1, 0.27]}
    ways: dict[str, dict[str, Any]] = {
        "driver": {"joint_states": "driver/joint_states", "camera": {"topic": "driver/image"}},
        "guard": {"joint_states": "guard/joint_states"},
        "runner": {"controller": "runner/controller", "guard": "runner/guard_status"},
    }
    for name, changes in ways.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(arm | changes))
    return load_config(folder / "runner.yaml", ArmSettings)
