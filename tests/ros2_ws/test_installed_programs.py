"""Every node as installed: started from the install folder, seen in the ROS graph, and stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opc_ros.bringup.nodes import PROGRAMS, NodeSpec
from opc_ros.bringup.systems import SYSTEMS

pytestmark = pytest.mark.ros
DEADLINE_S = 120.0
SMALL = {"image_size": "32", "robots": "arm1", "collect": "9"}
# Started by people, or only in a lab of several machines.
ALONE = {
    "courier": NodeSpec(
        "courier",
        "arm1",
        {"store": "spool", "depot": "http://127.0.0.1:9", "keys": "robots/arm1/keys", "state": "robots/arm1"},
    ),
    "depot": NodeSpec("depot", "", {"port": 0, "host": "127.0.0.1"}),
    "console": NodeSpec("console", "", {"port": 0}),
    "notifier": NodeSpec("notifier", "", {"webhook": "json"}),
}
# Only starts under a permit that a person signed.
UNDER_PERMIT = "collector"


@pytest.fixture
def probe(ros_domain: int) -> Iterator[Any]:
    import rclpy
    from rclpy.context import Context
    from rclpy.node import Node

    context = Context()
    rclpy.init(context=context)
    yield Node("probe", context=context)
    context.try_shutdown()


def find_specs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, NodeSpec]:
    """One node of each program, as the launch files would start it in this folder."""
    monkeypatch.chdir(folder)
    specs = dict(ALONE)
    for system in SYSTEMS:
        known = {argument.name for argument in system.arguments}
        given = {name: value for name, value in SMALL.items() if name in known}
        system.prepare(given)
        for node in system.nodes(given):
            specs.setdefault(node.program, node)
    return specs


def command(workspace: Any, spec: NodeSpec) -> list[str]:
    arguments = spec.command()
    return [str(workspace.program(spec.program)), *arguments[arguments.index(PROGRAMS[spec.program]) + 1 :]]


class Running:
    """A process started as a user of the workspace would start it; its output goes to a file."""

    def __init__(self, workspace: Any, words: list[str], log: Path) -> None:
        self._log = log
        environment = {**workspace.environment, "OPC_WEBHOOK": "http://127.0.0.1:9/nobody"}
        with log.open("w") as sink:
            self._child = subprocess.Popen(
                words, stdout=sink, stderr=subprocess.STDOUT, env=environment, cwd=log.parent
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait for a condition to hold while this runs."""
        deadline = time.monotonic() + DEADLINE_S
        while self._child.poll() is None and not holds():
            assert time.monotonic() < deadline, f"does not come up: {self.said}"
            time.sleep(0.05)
        assert self._child.poll() is None, f"ended: {self.said}"
        assert "Traceback" not in self.said, self.said

    def interrupt(self) -> None:
        self._child.send_signal(signal.SIGINT)

    def wait(self) -> int:
        return self._child.wait(DEADLINE_S)


def seen(probe: Any) -> set[str]:
    return {f"{space.strip('/')}/{name}".lstrip("/") for name, space in probe.get_node_names_and_namespaces()}


def test_every_installed_program_comes_up_and_stops_on_ctrl_c(
    workspace: Any, probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = find_specs(tmp_path, monkeypatch)
    assert {*specs, UNDER_PERMIT} == set(PROGRAMS), "a program that no system starts: say in ALONE how it is started"
    running = {
        name: Running(workspace, command(workspace, spec), tmp_path / f"{name}.log") for name, spec in specs.items()
    }
    try:
        for name, spec in specs.items():
            running[name].until(lambda spec=spec: spec.label in seen(probe))
    finally:
        for process in running.values():
            process.interrupt()
        codes = {name: process.wait() for name, process in running.items()}
    assert codes == dict.fromkeys(specs, 0)


def test_the_installed_collector_says_in_one_line_that_nobody_has_permitted_it(
    workspace: Any, ros_domain: int, tmp_path: Path
) -> None:
    collector = Running(workspace, [str(workspace.program(UNDER_PERMIT))], tmp_path / "collector.log")
    assert collector.wait() == 1
    (line,) = (line for line in collector.said.splitlines() if "RTPS_" not in line)
    assert line.startswith("collector: ")


def test_a_program_of_a_linked_workspace_starts_processes_of_its_own(
    linked_workspace: Any, probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin renders in a process that imports the program once more, which must not start a second twin."""
    from rclpy.executors import SingleThreadedExecutor
    from sensor_msgs.msg import CompressedImage

    from opc_ros.ros import topics

    spec = find_specs(tmp_path, monkeypatch)["twin"]
    assert linked_workspace.program("twin").is_symlink()
    images: list[Any] = []
    probe.create_subscription(CompressedImage, "/arm1/camera/image/compressed", images.append, topics.images())
    executor = SingleThreadedExecutor(context=probe.context)
    executor.add_node(probe)
    twin = Running(linked_workspace, command(linked_workspace, spec), tmp_path / "twin.log")
    try:
        twin.until(lambda: executor.spin_once(timeout_sec=0.1) or images)
        assert images, twin.said
    finally:
        twin.interrupt()
        executor.shutdown()
        assert twin.wait() == 0


LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

file, *words = sys.argv[1:]
service = LaunchService()
included = IncludeLaunchDescription(
    PythonLaunchDescriptionSource(file), launch_arguments=[tuple(word.split(":=")) for word in words]
)
service.include_launch_description(LaunchDescription([included]))
sys.exit(service.run())
"""


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_ros2_launch_starts_the_installed_launch_file(
    workspace: Any, probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: Any
) -> None:
    pytest.importorskip("launch_ros", reason="the real launch comes with a ROS 2 of the system's own")
    find_specs(tmp_path, monkeypatch)  # creates the keys that a hardware lab has
    known = {argument.name for argument in system.arguments}
    given = {name: value for name, value in SMALL.items() if name in known}
    file = workspace.prefix / "share" / "opc_ros" / "launch" / f"{system.name}.launch.py"
    words = [f"{name}:={value}" for name, value in given.items()]
    launch = Running(workspace, [sys.executable, "-c", LAUNCH, str(file), *words], tmp_path / "launch.log")
    try:
        for node in system.nodes(given):
            if node.environment:
                continue  # in its arm's own domain, where the probe cannot see it
            launch.until(lambda node=node: node.label in seen(probe))
        assert "process has died" not in launch.said, launch.said
    finally:
        launch.interrupt()
        assert launch.wait() == 0
