"""The ament package that installs nodes, launch files and config for `ros2 run` and `ros2 launch`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opc_ros.bringup.nodes import PROGRAMS
from opc_ros.bringup.systems import SYSTEMS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.ros


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    colcon = shutil.which("colcon", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert colcon is not None
    prefixes = {
        n: os.pathsep.join(filter(None, [sys.prefix, os.environ.get(n)]))
        for n in ("AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH")
    }
    subprocess.run(
        [
            *(colcon, f"--log-base={folder / 'log'}", "build", f"--base-paths={ROOT / 'ros2_ws' / 'src'}"),
            *("--packages-select=opc_ros", f"--build-base={folder / 'build'}", f"--install-base={folder / 'install'}"),
            *("--cmake-args", f"-DPython3_EXECUTABLE={sys.executable}"),
        ],
        cwd=folder,
        env={**os.environ, **prefixes},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder / "install" / "opc_ros"


def test_every_node_of_the_list_is_an_executable(installed: Path) -> None:
    programs = {path.name for path in (installed / "lib" / "opc_ros").iterdir() if os.access(path, os.X_OK)}
    assert programs == set(PROGRAMS)


def test_launch_files_and_config_are_installed_where_ros2_launch_looks(installed: Path) -> None:
    share = installed / "share" / "opc_ros"
    assert {path.name for path in (share / "launch").iterdir()} == {f"{system.name}.launch.py" for system in SYSTEMS}
    assert {p.name for p in (share / "config").rglob("*.yaml")} == {p.name for p in (ROOT / "config").rglob("*.yaml")}


def test_both_python_packages_are_installed_whole(installed: Path) -> None:
    (site,) = installed.glob("lib/python3*/site-packages")
    for package in ("opc_ros", "sim_bridge"):
        ours = {p.relative_to(ROOT) for p in (ROOT / package).rglob("*.py")}
        assert {p.relative_to(site) for p in (site / package).rglob("*.py")} == ours
