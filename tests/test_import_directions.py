"""Who may import whom: the arrows of the design, walked over every file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

GROUND = {
    "errors",
    "progress",
    "grasp",
    "camera",
    "config",
    "documents",
    "durable",
    "task",
    "episode",
    "image_header",
    "workers",
    "arms",
    "playing",
}
CORE = {"recording", "store", "policies", "scoring", "ranking", "deployment", "reporting", "workflows"}
# Package -> the packages it may import, besides itself and the shared modules.
MAY_IMPORT: dict[str, set[str]] = {
    "recording": set(),
    "behaviour": set(),
    "store": set(),
    "policies": set(),
    "scoring": {"policies"},
    "ranking": {"scoring"},
    "deployment": {"ranking", "scoring"},
    "reporting": {"ranking", "scoring"},
    "workflows": {"store", "policies", "scoring", "ranking", "deployment", "reporting"},
    "console": {"store", "scoring", "ranking", "deployment", "workflows"},
    "bringup": {"deployment", "store", "policies"},
    "experiments": {*CORE, "sim_bridge"},
    "notices": set(),
    "transfer": {"store", "policies", "deployment"},
    "ros": {*CORE, "behaviour", "bringup", "console", "notices", "transfer"},
    "demo": {*CORE, "bringup", "ros", "experiments", "sim_bridge"},
    "cli": {*CORE, "bringup", "console", "demo", "experiments", "ros", "sim_bridge"},
    "docs": {"cli", "bringup", "ros"},
    "sim_bridge": set(),
    "sim_bridge/training": {"policies", "scoring"},
    "sim_bridge/behaviour_node": {"ros", "recording", "bringup", "deployment"},
    "sim_bridge/twin_node": {"ros", "bringup"},
    "sim_bridge/twin_inputs": {"ros"},
}

ROS_SHELLS = ("opc_ros/ros/", "sim_bridge/twin_inputs.py", "sim_bridge/twin_node.py", "sim_bridge/behaviour_node.py")
# Library -> where it may be imported. ROS and messages stay in the shells, torch and pybullet in their packages.
KEPT_IN: dict[str, tuple[str, ...]] = {
    "rclpy": ROS_SHELLS,
    "opc_interfaces": ROS_SHELLS,
    "sensor_msgs": ROS_SHELLS,
    "launch": ("opc_ros/ros/", "launch/"),
    "torch": (
        "opc_ros/policies/",
        "sim_bridge/training/",
        "opc_ros/experiments/pong/descent.py",
        "opc_ros/experiments/pong/learner.py",
        "opc_ros/experiments/pong/training.py",
    ),
    "ale_py": ("opc_ros/experiments/pong/emulator.py",),
    "pybullet": ("sim_bridge/",),
    "ray": ("opc_ros/scoring/",),
}

FILES = sorted(p.relative_to(ROOT).as_posix() for top in ("opc_ros", "sim_bridge") for p in (ROOT / top).rglob("*.py"))


def imported_modules(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def room_of(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    if parts[0] == "opc_ros":
        return parts[1]
    nested = "/".join(parts[:2])
    return nested if nested in MAY_IMPORT else "sim_bridge"


@pytest.mark.parametrize("path", FILES)
def test_imports_point_one_way(path: str) -> None:
    room = room_of(path)
    allowed = {room, *MAY_IMPORT.get(room, set()), *GROUND}
    for module in imported_modules((ROOT / path).read_text()):
        parts = module.split(".")
        for package, places in KEPT_IN.items():
            if parts[0] == package:
                assert path.startswith(places), f"{path} imports {module}, which belongs in {' or '.join(places)}"
        if parts[0] == "opc_ros" and len(parts) > 1:
            assert parts[1] in allowed, f"{path} imports {module}; {room} may import {sorted(allowed)}"
        elif parts[0] == "sim_bridge":
            assert "sim_bridge" in allowed or room.startswith("sim_bridge"), f"{path} imports {module}"


# Code that keeps, scores, ranks, gates or shows episodes knows no gripper; only these few read and play grasps.
KNOW_GRASPS = {
    "opc_ros/store/grasp_steps.py",
    "opc_ros/store/bag_import.py",
    "opc_ros/store/bag_mapping.py",
    "opc_ros/store/bag_timeline.py",
    "opc_ros/store/lerobot_import.py",
    "opc_ros/deployment/runner.py",
}
TASK_FREE_ROOMS = ("store", "scoring", "ranking", "reporting", "workflows", "deployment", "console")


def test_only_the_few_that_read_or_play_grasps_import_what_a_grasp_is() -> None:
    found = {
        path
        for path in FILES
        if path.startswith(tuple(f"opc_ros/{room}/" for room in TASK_FREE_ROOMS))
        and any(module.startswith("opc_ros.grasp.") for module in imported_modules((ROOT / path).read_text()))
    }
    assert found == KNOW_GRASPS


def test_the_ground_imports_only_itself() -> None:
    for name in GROUND:
        for path in [ROOT / "opc_ros" / f"{name}.py", *(ROOT / "opc_ros" / name).glob("*.py")]:
            if not path.exists():
                continue
            ours = [m.split(".")[1] for m in imported_modules(path.read_text()) if m.startswith("opc_ros.")]
            assert set(ours) <= GROUND, f"{path.name} imports {ours}"


def test_launch_folder_is_no_package() -> None:
    assert not (ROOT / "launch" / "__init__.py").exists(), "it would hide ROS 2's own launch package"
