"""The ament package that installs nodes, launch files and config for `ros2 run` and `ros2 launch`."""

from __future__ import annotations

import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from opc_ros.bringup.nodes import PROGRAMS
from opc_ros.bringup.systems import SYSTEMS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ros2_ws" / "src" / "opc_ros"
pytestmark = pytest.mark.ros


@pytest.mark.parametrize("how", ["workspace", "linked_workspace"])
def test_every_node_of_the_list_is_an_executable(how: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(how).program("")
    assert {path.name for path in folder.iterdir() if os.access(path, os.X_OK)} == set(PROGRAMS)


def test_launch_files_and_config_are_installed_where_ros2_launch_looks(workspace) -> None:
    share = workspace.prefix / "share" / "opc_ros"
    assert {path.name for path in (share / "launch").iterdir()} == {f"{system.name}.launch.py" for system in SYSTEMS}
    assert {p.name for p in (share / "config").rglob("*.yaml")} == {p.name for p in (ROOT / "config").rglob("*.yaml")}


def test_both_python_packages_are_installed_whole(workspace) -> None:
    site = workspace.site_packages
    for package in ("opc_ros", "sim_bridge"):
        ours = {p.relative_to(ROOT) for p in (ROOT / package).rglob("*.py")}
        assert {p.relative_to(site) for p in (site / package).rglob("*.py")} == ours


def test_every_ros_package_that_is_imported_is_declared() -> None:
    declared = {node.text for node in ElementTree.parse(PACKAGE / "package.xml").iter("exec_depend")}
    imported = re.compile(
        r"^\s*(?:from|import) (rclpy|launch\w*|\w+_(?:msgs|interfaces|srvs)|pinocchio|ruckig)\b", re.M
    )
    sources = (path.read_text() for package in ("opc_ros", "sim_bridge") for path in (ROOT / package).rglob("*.py"))
    used = {name for source in sources for name in imported.findall(source)}
    assert "rclpy" in used
    assert used - declared == set()


def test_every_room_of_tests_is_registered_with_colcon_test(workspace) -> None:
    build = workspace.prefix.parents[1] / "build" / "opc_ros"
    listed = subprocess.run(["ctest", "-N"], cwd=build, capture_output=True, text=True, check=True).stdout
    rooms = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert set(re.findall(r"Test +#\d+: (\w+)", listed)) == rooms
