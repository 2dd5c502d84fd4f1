"""What `opc doctor` finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.bringup import checks
from opc_ros.bringup.checks import SystemCheck, check_machine, require_ros
from opc_ros.errors import SetupError


def look(store: Path, cameras: list[str], topic: str = "") -> dict[str, SystemCheck]:
    return {finding.name: finding for finding in check_machine(store, lambda: cameras, topic)}


def test_this_machine_has_what_the_tests_need(tmp_path: Path) -> None:
    found = look(tmp_path / "store", ["/camera"])
    assert {name: f.status for name, f in found.items()} == dict.fromkeys(found, "ok")
    assert set(found) == {
        *("python", "ros", "interfaces", "torch", "opencv", "pybullet", "sandbox", "mcap", "store", "disk", "camera"),
        "arms",
    }


def test_a_driver_in_the_labs_domain_is_named_with_the_domain_it_belongs_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    found = {each.name: each for each in check_machine(tmp_path, list)}
    assert found["arms"].detail == "drivers belong there: arm1 in ROS domain 101, twin in ROS domain 100"
    obeyed = ["/arm1/joint_trajectory_controller"]
    found = {each.name: each for each in check_machine(tmp_path, list, find_obeyed=lambda names: obeyed)}
    assert (found["arms"].status, found["arms"].remedy) == ("missing", "start that driver with ROS_DOMAIN_ID=101")


def test_missing_camera_is_optional_unless_asked_for(tmp_path: Path) -> None:
    assert look(tmp_path, [])["camera"].status == "optional"
    wanted = look(tmp_path, ["/other"], "/arm1/image")["camera"]
    assert wanted.status == "missing"
    assert wanted.detail == "nobody publishes /arm1/image; image topics: /other"


def test_missing_wheel_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = checks.importlib.import_module

    def without_ros(name: str) -> object:
        if name.startswith("rclpy"):
            raise ImportError(f"No module named '{name}'")
        return real(name)

    monkeypatch.setattr(checks.importlib, "import_module", without_ros)
    with pytest.raises(SetupError, match=r"ros: No module named 'rclpy'; to do: make setup"):
        require_ros()
    found = look(tmp_path, [])
    assert found["ros"].status == "missing"
    assert "make setup" in found["ros"].remedy
    assert "camera" not in found


def test_small_disk_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checks, "SMALLEST_FREE_GB", 1e9)
    assert look(tmp_path, [])["disk"].status == "missing"
