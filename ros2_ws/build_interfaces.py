"""Build opc_interfaces with colcon into the Python environment that runs this file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parent
BUILD_MACHINE_PYTHON = re.compile(r"/opt/python/cp\d+-cp\d+/include/python[\d.]+")
BUILD_MACHINE_NUMPY = re.compile(r"/opt/python/cp\d+-cp\d+/lib/python[\d.]+/site-packages/numpy/_?core/include")


def main() -> int:
    for tool, package in (("cmake", "cmake"), ("g++", "g++"), ("make", "make")):
        if shutil.which(tool) is None:
            print(
                f"build_interfaces: {tool} not found: install it (Debian, Ubuntu: apt-get install {package})",
                file=sys.stderr,
            )
            return 1
    prefix = Path(sys.prefix)
    _repair_wheel_exports(prefix)
    build = prefix / "opc_interfaces_build"
    log = build / "build.log"
    build.mkdir(exist_ok=True)
    with log.open("w") as sink:
        result = subprocess.run(
            _colcon(prefix, build), cwd=WORKSPACE, env=_environment(prefix), stdout=sink, stderr=subprocess.STDOUT
        )
    if result.returncode != 0:
        print(*log.read_text(errors="replace").splitlines()[-30:], sep="\n", file=sys.stderr)
        print(f"build_interfaces: colcon failed with exit {result.returncode}; the whole log is {log}", file=sys.stderr)
        return 1
    return 0


def _colcon(prefix: Path, build: Path) -> list[str]:
    return [
        str(prefix / "bin" / "colcon"),
        f"--log-base={build / 'log'}",
        "build",
        "--packages-select=opc_interfaces",
        "--merge-install",
        f"--install-base={prefix}",
        f"--build-base={build}",
        "--event-handlers=console_direct+",
        "--cmake-args",
        f"-DPython3_EXECUTABLE={sys.executable}",
        "-DBUILD_TESTING=OFF",
        "-DCMAKE_BUILD_TYPE=Release",
        "-Wno-dev",
    ]


def _environment(prefix: Path) -> dict[str, str]:
    """The caller's environment, with this prefix first where ROS packages are looked up."""
    environment = dict(os.environ)
    for name in ("AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH"):
        environment[name] = os.pathsep.join([str(prefix), *filter(None, [environment.get(name)])])
    environment["PATH"] = os.pathsep.join([str(prefix / "bin"), environment["PATH"]])
    return environment


def _repair_wheel_exports(prefix: Path) -> None:
    """The wheels' CMake exports name the include folders of the machine that built them; name ours."""
    python_include = sysconfig.get_paths()["include"]
    for export in prefix.glob("share/**/*.cmake"):
        text = export.read_text()
        if "/opt/python/" not in text:
            continue
        import numpy

        text = BUILD_MACHINE_NUMPY.sub(numpy.get_include(), text)
        export.write_text(BUILD_MACHINE_PYTHON.sub(python_include, text))


if __name__ == "__main__":
    sys.exit(main())
