"""The set-up: which pinned packages are installed for what, and that an interrupted download resumes."""

from __future__ import annotations

import hashlib
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
    """Each pinned name with the extra it belongs to."""
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


def test_every_pin_is_locked_and_nothing_else() -> None:
    install = load("install")
    pins = install.choose_pins((ROOT / "constraints.txt").read_text().splitlines(), ("dev", "ros-wheels"))
    locked = install.read_hashes((ROOT / ".ci" / "lock.txt").read_text())
    assert set(locked) == set(pins), "write .ci/lock.txt with `make lock`"
    assert all(option.startswith("--hash=sha256:") for hashes in locked.values() for option in hashes.split())


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The sha256 of a wheel that pip finds only in a folder."""
    path = tmp_path / "index" / "tiny_opc-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_opc-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-opc\nVersion: 1.0\n")
        wheel.writestr("tiny_opc-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny_opc-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_whose_hash_is_not_locked_is_refused_in_one_line(tiny: str, tmp_path: Path) -> None:
    download, pin, wheels = load("install").download, "tiny-opc==1.0", tmp_path / "wheels"
    wheels.mkdir()
    (complaint,) = download([pin], wheels, {pin: f"--hash=sha256:{'0' * 64}"}, [])
    assert f"tiny-opc: the file that pip found has sha256 {tiny}" in complaint
    assert "UNLOCKED=tiny-opc make" in complaint
    assert download([pin], wheels, {}, []) == ["tiny-opc==1.0: not in .ci/lock.txt; `make lock` writes it"]
    assert not list(wheels.iterdir())


@pytest.mark.parametrize("is_locked", [True, False])
def test_a_file_with_a_locked_hash_is_taken_and_any_where_its_owner_says_so(
    tiny: str, tmp_path: Path, is_locked: bool
) -> None:
    pin, wheels = "tiny-opc==1.0", tmp_path / "wheels"
    hashes = {pin: f"--hash=sha256:{tiny} --hash=sha256:{'0' * 64}"} if is_locked else {}
    assert load("install").download([pin], wheels, hashes, [] if is_locked else ["tiny-opc"]) == []
    assert [path.name for path in wheels.iterdir()] == ["tiny_opc-1.0-py3-none-any.whl"]
