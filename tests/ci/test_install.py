"""The set-up: which pinned packages are fetched for what, and that an interrupted download goes on."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marks() -> dict[str, str]:
    """Each pinned name with the extra it is marked with."""
    install = load("install")
    lines = (line.partition("#") for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#")
    return {install.canonical(pin.strip()).partition("==")[0]: mark.strip() for pin, _, mark in lines}


def test_pins_are_chosen_by_the_extra_they_are_marked_with() -> None:
    lines = ["# a comment", "", "NumPy==2.4.6", "ruff==0.17.4  # dev", "ros_jazzy.rclpy==7.1.6  # ros-wheels"]
    choose = load("install").choose_pins
    assert choose(lines, []) == ["numpy==2.4.6"]
    assert choose(lines, ["ros-wheels"]) == ["numpy==2.4.6", "ros-jazzy-rclpy==7.1.6"]
    assert choose(lines, ["ros-wheels", "dev"]) == ["numpy==2.4.6", "ruff==0.17.4", "ros-jazzy-rclpy==7.1.6"]


def test_a_wheel_cut_short_is_fetched_again(tmp_path: Path) -> None:
    for name in ("typing_extensions-4.16.0-py3-none-any.whl", "torch-2.13.0+cpu-cp311-cp311-linux.whl"):
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            wheel.writestr("METADATA", "Version: 1\n" * 100)
    assert sorted(load("install").find_pins(tmp_path)) == ["torch==2.13.0", "typing-extensions==4.16.0"]
    torch = tmp_path / "torch-2.13.0+cpu-cp311-cp311-linux.whl"
    torch.write_bytes(torch.read_bytes()[:-30])
    assert load("install").find_pins(tmp_path) == ["typing-extensions==4.16.0"]


def test_what_the_demo_needs_is_marked_in_the_constraints() -> None:
    freeze = load("freeze")
    marked = marks()
    if "ros-jazzy-rclpy" not in freeze.installed():
        pytest.skip("ROS 2 here comes from the system, not from wheels")
    plain, with_ros = freeze.collect(()), freeze.collect(("ros-wheels",))
    remedy = "write constraints.txt with `make constraints`, or set the marks at the ends of its lines right"
    assert {name for name in plain if marked.get(name) != ""} == set(), remedy
    assert {name for name in with_ros - plain if marked.get(name) not in ("ros-wheels", "")} == set(), remedy


def test_the_demo_installs_nothing_that_only_tests_use() -> None:
    marked = marks()
    for name in (
        "ale-py",
        "colcon-core",
        "d3rlpy",
        "mypy",
        "onnx",
        "onnxruntime",
        "pytest",
        "ray",
        "ruff",
        "scikit-learn",
    ):
        assert marked[name] == "dev", name
