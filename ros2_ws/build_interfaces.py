"""Build opc_interfaces, and the interfaces that wheels lack, into the Python environment that runs this file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "src" / "opc_interfaces"
LACKING = (HERE / "wheels" / "tf2_msgs", HERE / "wheels" / "control_msgs")  # a machine with ROS 2 has the originals
BUILD_MACHINE_PYTHON = re.compile(r"/opt/python/cp\d+-cp\d+/include/python[\d.]+")
BUILD_MACHINE_NUMPY = re.compile(r"/opt/python/cp\d+-cp\d+/lib/python[\d.]+/site-packages/numpy/_?core/include")


def main() -> int:
    started = time.monotonic()
    prefix = Path(sys.prefix)
    _repair_wheel_exports(prefix)
    build = prefix / "opc_interfaces_build"
    build.mkdir(exist_ok=True)
    log = build / "build.log"
    with log.open("w") as sink:
        sources = [SOURCE] if os.environ.get("AMENT_PREFIX_PATH") else [SOURCE, *LACKING]
        for command in [each for source in sources for each in _commands(prefix, source, build / source.name)]:
            result = subprocess.run(command, env=_environment(prefix), stdout=sink, stderr=subprocess.STDOUT)
            if result.returncode != 0:
                print(*log.read_text(errors="replace").splitlines()[-30:], sep="\n", file=sys.stderr)
                print(f"build_interfaces: {command[0]} failed; the whole log is {log}", file=sys.stderr)
                return 1
    seconds = time.monotonic() - started
    print(f"  took {seconds:.0f} s")
    with (prefix / ".phases").open("a") as file:
        file.write(f"interfaces {seconds:.1f}\n")
    return 0


def _commands(prefix: Path, source: Path, build: Path) -> list[list[str]]:
    """Configure, build and install, as colcon would; the packages are independent, so colcon itself is not needed."""
    configure = [
        *("cmake", "-S", str(source), "-B", str(build), "-Wno-dev"),
        f"-DCMAKE_INSTALL_PREFIX={prefix}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        "-DBUILD_TESTING=OFF",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DPYTHON_ONLY={'OFF' if os.environ.get('AMENT_PREFIX_PATH') else 'ON'}",
    ]
    return [
        configure,
        ["cmake", "--build", str(build), "--parallel", str(os.cpu_count())],
        ["cmake", "--install", str(build)],
    ]


def _environment(prefix: Path) -> dict[str, str]:
    """The caller's environment, with this prefix first where ROS packages are looked up."""
    environment = dict(os.environ)
    for name in ("AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH"):
        environment[name] = os.pathsep.join([str(prefix), *filter(None, [environment.get(name)])])
    environment["PATH"] = os.pathsep.join([str(prefix / "bin"), environment["PATH"]])
    return environment


def _repair_wheel_exports(prefix: Path) -> None:
    """Replace the build machine's include folders, which the wheels' CMake exports name, by this machine's."""
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
