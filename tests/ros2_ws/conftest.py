"""The workspace built with colcon, as a user of ROS 2 builds it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Workspace:
    """An install folder made by colcon."""

    prefix: Path

    def program(self, name: str) -> Path:
        return self.prefix / "lib" / "opc_ros" / name

    @property
    def site_packages(self) -> Path:
        (site,) = self.prefix.glob("lib/python3*/site-packages")
        return site

    @property
    def environment(self) -> dict[str, str]:
        """As after `source install/setup.bash`: what is installed takes precedence over these sources."""
        prefixes = {name: os.pathsep.join(map(str, [self.prefix, *_prefixes(name)])) for name in _SEARCHED}
        paths = os.pathsep.join([str(self.site_packages), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, **prefixes, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}


_SEARCHED = ("AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH")


def _prefixes(name: str) -> list[str]:
    return [sys.prefix, *filter(None, os.environ.get(name, "").split(os.pathsep))]


def build_workspace(folder: Path, *options: str) -> Workspace:
    colcon = shutil.which("colcon", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert colcon is not None
    subprocess.run(
        [
            *(colcon, f"--log-base={folder / 'log'}", "build", f"--base-paths={ROOT / 'ros2_ws' / 'src'}"),
            *(
                "--packages-ignore=opc_interfaces",
                f"--build-base={folder / 'build'}",
                f"--install-base={folder / 'install'}",
            ),
            *(*options, "--cmake-args", f"-DPython3_EXECUTABLE={sys.executable}"),
        ],
        cwd=folder,
        env={**os.environ, **{name: os.pathsep.join(_prefixes(name)) for name in _SEARCHED}},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return Workspace(folder / "install" / "opc_ros")


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return build_workspace(tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="session")
def linked_workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return build_workspace(tmp_path_factory.mktemp("linked"), "--symlink-install")
