"""Checks of what a machine needs to run opc_ros, one thing at a time."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opc_ros.bringup.domain import read_domain
from opc_ros.bringup.key_checks import missing_keys
from opc_ros.bringup.lab import commanded_topics, load_arm, load_lab
from opc_ros.bringup.lab_names import read_namespace
from opc_ros.errors import OpcError, SetupError
from opc_ros.store.object_blobs import is_bucket

SMALLEST_FREE_GB = 5.0


@dataclass(frozen=True, slots=True)
class SystemCheck:
    """The result of one check; `remedy` says what to do if something is missing."""

    name: str
    status: Literal["ok", "optional", "missing"]
    detail: str
    remedy: str = ""


def check_machine(
    store: Path,
    find_cameras: Callable[[], list[str]],
    camera_topic: str = "",
    *,
    lab: Path | str = "lab.yaml",
    find_obeyed: Callable[[Iterable[str]], list[str]] = lambda topics: [],
) -> Iterator[SystemCheck]:
    """Run all checks, cheapest first; `find_cameras` returns the image topics that somebody publishes now.

    `find_obeyed` returns those of some topics that anybody but a gateway subscribes to in the lab's domain.
    """
    yield _check_python()
    ros = _check_ros()
    yield ros
    yield _check_interfaces()
    for name, module in (("torch", "torch"), ("opencv", "cv2"), ("pybullet", "pybullet"), ("mcap", "mcap")):
        yield _check_module(name, module)
    yield _check_sandbox()
    yield _check_store(store)
    yield _check_disk(store)
    for detail, remedy in missing_keys(Path("deployment"), Path("robots")):
        yield SystemCheck("keys", "missing", detail, remedy)
    yield _check_arms(lab, find_obeyed if ros.status == "ok" else lambda topics: [])
    if ros.status == "ok":
        yield _check_camera(find_cameras, camera_topic)


def require_ros() -> None:
    """Refuse, in one line, to start nodes whose imports would fail."""
    for check in (_check_ros(), _check_interfaces()):
        if check.status == "missing":
            raise SetupError(f"{check.name}: {check.detail}; to do: {check.remedy}")


def _check_python() -> SystemCheck:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 12):
        return SystemCheck("python", "ok", version)
    return SystemCheck("python", "missing", f"{version}, expected 3.11 or 3.12", "make setup PYTHON=python3.11")


def _check_ros() -> SystemCheck:
    try:
        importlib.import_module("rclpy")
        rmw = importlib.import_module("rclpy.utilities").get_rmw_implementation_identifier()
    except (ImportError, RuntimeError, OSError) as error:
        detail = " ".join(str(error).split())[:120]
        return SystemCheck("ros", "missing", detail, "make setup, or source /opt/ros/jazzy/setup.bash")
    origin = os.environ.get("ROS_DISTRO") or "jazzy, from wheels"
    lab = f", lab {read_namespace()}" if read_namespace() else ""
    return SystemCheck("ros", "ok", f"{origin}, {rmw}, domain {os.environ.get('ROS_DOMAIN_ID') or 0}{lab}")


def _check_interfaces() -> SystemCheck:
    remedy = "make setup, or colcon build in ros2_ws and source its install/setup.bash"
    try:
        messages = importlib.import_module("opc_interfaces.msg")
        importlib.import_module("opc_interfaces.action")
    except (ImportError, RuntimeError, OSError) as error:
        return SystemCheck("interfaces", "missing", " ".join(str(error).split())[:120], remedy)
    count = sum(1 for name in vars(messages) if name[0].isupper())
    return SystemCheck("interfaces", "ok", f"opc_interfaces with {count} messages")


def _check_module(name: str, module: str) -> SystemCheck:
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:
        return SystemCheck(name, "missing", " ".join(str(error).split())[:120], "make setup")
    distribution = {"cv2": "opencv-python-headless"}.get(module, module)
    try:
        return SystemCheck(name, "ok", importlib.metadata.version(distribution))
    except importlib.metadata.PackageNotFoundError:
        return SystemCheck(name, "ok", "installed by the system")


def _check_sandbox() -> SystemCheck:
    """What keeps candidates from doing anything but computing."""
    from opc_ros.policies.worker.confinement import describe_confinement
    from opc_ros.policies.worker.loader import why_in_process

    is_whole, detail = describe_confinement()
    if reason := why_in_process():
        detail = f"on the arm {detail}; when scored, candidates share the scorer's process: {reason}"
    remedy = "" if is_whole else "let robots and scorers run on Linux with seccomp"
    return SystemCheck("sandbox", "ok" if is_whole else "optional", detail, remedy)


def _check_store(store: Path) -> SystemCheck:
    if is_bucket(store):
        return SystemCheck("store", "ok", f"{store} is a bucket; `opc store list` tells whether it answers")
    if store.is_dir():
        is_store = (store / "episodes").is_dir()
        if not is_store and any(store.iterdir()):
            remedy = "give --store a validation store, an empty folder or one that does not exist yet"
            return SystemCheck("store", "missing", f"{store} holds something other than episodes", remedy)
        if os.access(store, os.W_OK):
            return SystemCheck("store", "ok", f"{store} can be written")
        return SystemCheck("store", "missing", f"{store} cannot be written", f"chown or chmod {store}, or give --store")
    parent = _nearest_folder(store)
    if os.access(parent, os.W_OK):
        return SystemCheck("store", "ok", f"{store} does not exist yet; the first recording creates it")
    return SystemCheck("store", "missing", f"{store} cannot be made in {parent}", "give --store a folder you may write")


def _check_disk(store: Path) -> SystemCheck:
    free_gb = shutil.disk_usage(_nearest_folder(store)).free / 1e9
    if free_gb >= SMALLEST_FREE_GB:
        return SystemCheck("disk", "ok", f"{free_gb:.0f} GB free for {store}")
    detail = f"{free_gb:.1f} GB free for {store}, expected {SMALLEST_FREE_GB:.0f}"
    return SystemCheck("disk", "missing", detail, "free some room, or give --store a larger disk")


def _check_arms(lab: Path | str, find_obeyed: Callable[[Iterable[str]], list[str]]) -> SystemCheck:
    """Which ROS domain each arm's driver belongs to, and that no arm is in the lab's, where anybody could move it."""
    try:
        found = load_lab(lab)
        domains = found.arm_domains(read_domain(os.environ))
        topics = {topic: name for name in found.robots for topic in commanded_topics(name, load_arm(lab, name))}
    except OpcError as error:
        return SystemCheck("arms", "missing", str(error), f"correct {lab}")
    reached = find_obeyed(topics)
    if reached:
        robot = topics[reached[0]]
        detail = f"{robot}: its driver is in the lab's ROS domain, where everybody could move it"
        return SystemCheck("arms", "missing", detail, f"start that driver with ROS_DOMAIN_ID={domains[robot]}")
    named = ", ".join(f"{robot} in ROS domain {domain}" for robot, domain in domains.items())
    return SystemCheck("arms", "ok", f"drivers belong there: {named}")


def _check_camera(find_cameras: Callable[[], list[str]], wanted: str) -> SystemCheck:
    topics = find_cameras()
    if wanted and wanted not in topics:
        seen = ", ".join(topics) or "none"
        return SystemCheck(
            "camera", "missing", f"nobody publishes {wanted}; image topics: {seen}", "start the camera driver"
        )
    if not topics:
        return SystemCheck(
            "camera", "optional", "nobody publishes images now", "start a camera driver, or opc up scripted"
        )
    return SystemCheck("camera", "ok", ", ".join(topics))


def _nearest_folder(path: Path) -> Path:
    """The path itself or its closest existing parent."""
    path = path.expanduser().absolute()
    while not path.is_dir():
        path = path.parent
    return path
