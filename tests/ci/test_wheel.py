"""The wheel that `pip install .` builds is complete, and enough to bring a system up without the repository."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import pytest

from tests.tree import ROOT, tracked

# Pages.
NOT_SHIPPED = re.compile(r".*\.md|.*/docs/.*|.*/plots/.*|.*/\.gitkeep")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE", *tracked("opc_ros", "sim_bridge", "config", "launch")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).symlink_to(ROOT / name)
    # Nothing is downloaded: the build backend is the one installed here.
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*build, f"--wheel-dir={folder}", str(source)], check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_every_module_and_what_they_read(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {name for name in tracked("opc_ros", "sim_bridge") if not NOT_SHIPPED.fullmatch(name)}
    assert expected - names == set(), "name it in [tool.setuptools.package-data]"
    for file in (n for n in tracked("config", "launch") if not NOT_SHIPPED.fullmatch(n)):
        assert any(name.endswith(f"data/share/opc_ros/{file}") for name in names), file


def test_what_pip_installs_brings_a_system_up_far_from_the_repository(
    wheel: Path, tmp_path: Path, ros_domain: int
) -> None:
    prefix = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    (site,) = prefix.glob("lib/python3*/site-packages")
    # Its dependencies come from this environment; the editable install here is ignored.
    here = next(path for path in sys.path if path.endswith("site-packages") and path.startswith(sys.prefix))
    (site / "dependencies.pth").write_text(f"{here}\n")
    install = [sys.executable, "-m", "pip", "--python", prefix / "bin" / "python", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", "--no-compile", wheel], check=True, capture_output=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["AMENT_PREFIX_PATH"] = os.pathsep.join(filter(None, [sys.prefix, os.environ.get("AMENT_PREFIX_PATH")]))

    opc = [prefix / "bin" / "python", "-m", "opc_ros.cli.main", "up"]
    listed = subprocess.run([*opc, "twin", "--dry-run"], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert f"{prefix}/share/opc_ros/config/" in listed.stdout, listed.stderr
    scripted = subprocess.Popen([*opc, "scripted", "episodes:=1", "store:=recorded"], env=environment, cwd=tmp_path)
    try:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "recorded" / "episodes").rglob("*.json")):
            assert scripted.poll() is None, "ended before it recorded"
            assert time.monotonic() < deadline, "nothing is recorded"
            time.sleep(0.1)
    finally:
        scripted.send_signal(signal.SIGINT)
        assert scripted.wait(60) in (0, 130)


def test_every_package_file_has_the_same_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools_scm"]["fallback_version"]
    for package in ("opc_interfaces", "opc_ros"):
        assert ElementTree.parse(ROOT / "ros2_ws" / "src" / package / "package.xml").findtext("version") == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
