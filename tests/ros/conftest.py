"""Nodes as real processes, and a probe that talks to them over DDS."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.ros.attack_rig import Rig

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0


class Process:
    """One node that runs in a process of its own; its output goes to a file."""

    def __init__(self, module: str, arguments: list[str], log: Path) -> None:
        self.log = log
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        with log.open("w") as sink:
            self._child = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], stdout=sink, stderr=subprocess.STDOUT, env=environment
            )

    def said(self) -> list[str]:
        """Its lines, without DDS's about ports that other nodes on this machine use."""
        return [line for line in self.log.read_text().splitlines() if "RTPS_" not in line]

    def signal(self, signum: signal.Signals) -> None:
        self._child.send_signal(signum)

    def wait(self) -> int:
        return self._child.wait(DEADLINE_S)

    def end(self) -> None:
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
            try:
                self._child.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._child.kill()


class Probe:
    """A node inside the test."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node

        self._context = Context()
        rclpy.init(context=self._context)
        self.node = Node("probe", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self.heard: dict[str, list[Any]] = defaultdict(list)

    def listen(self, kind: type, topic: str, qos: Any) -> list[Any]:
        self.node.create_subscription(kind, topic, self.heard[topic].append, qos)
        return self.heard[topic]

    def publisher(self, kind: type, topic: str, qos: Any) -> Any:
        """A publisher with a matched subscriber."""
        publisher = self.node.create_publisher(kind, topic, qos)
        self.until(lambda: publisher.get_subscription_count() > 0, f"nobody listens to {topic}")
        return publisher

    def call(self, kind: Any, name: str, **fields: Any) -> Any:
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, f"no service {name}")
        future = client.call_async(kind.Request(**fields))
        self.until(future.done, f"no answer from {name}")
        return future.result()

    def spin(self, timeout_s: float) -> None:
        """What has been received, or the next message that arrives in time."""
        self._executor.spin_once(timeout_sec=timeout_s)

    def until(self, holds: Callable[[], object], otherwise: str) -> None:
        """Spin until a condition holds, within a deadline."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, otherwise
            self._executor.spin_once(timeout_sec=0.05)

    def close(self) -> None:
        from tests.ros.spun_node import destroy

        self._executor.shutdown()
        destroy(self.node)
        self._context.try_shutdown()


@pytest.fixture
def start(ros_domain: int, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts a node in a namespace with parameters, as a process of its own."""
    processes: list[Process] = []

    def run(program: str, namespace: str, params_file: Path | None = None, **parameters: object) -> Process:
        arguments = ["--ros-args", "-r", f"__ns:={namespace}"]
        if params_file is not None:
            arguments += ["--params-file", str(params_file)]
        for name, value in parameters.items():
            arguments += ["-p", f"{name}:={str(value).lower() if isinstance(value, bool) else value}"]
        module = program if "." in program else f"opc_ros.ros.{program}"
        log = tmp_path / f"{program}-{len(processes)}.log"
        processes.append(Process(f"{module}_node", arguments, log))
        return processes[-1]

    yield run
    for process in processes:
        process.end()
        print(process.log.read_text())


@pytest.fixture
def probe(ros_domain: int) -> Iterator[Probe]:
    made = Probe()
    yield made
    made.close()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    from tests.ros.attack_rig import attacked

    with attacked(tmp_path_factory.mktemp("attacked")) as rig:
        yield rig
