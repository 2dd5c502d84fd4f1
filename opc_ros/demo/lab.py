"""The demo's lab: the nodes of `opc up twin` as processes, their logs in files, and a client for talking to them."""

from __future__ import annotations

import os
import re
import threading
from contextlib import ExitStack
from pathlib import Path

from opc_ros.bringup.nodes import NodeSpec
from opc_ros.bringup.supervisor import Supervisor
from opc_ros.bringup.systems import find_system
from opc_ros.demo.plan import DemoPlan
from opc_ros.deployment.signing import find_signer
from opc_ros.errors import OpcError
from opc_ros.ros.lab_client import LabClient


class NodeLogs:
    """One log file for each node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, line: str) -> None:
        """Write a line in a supervisor's format: `[arm1/recorder] saved`."""
        label, _, text = line.removeprefix("[").partition("]")
        with self._lock, self.path(label.strip()).open("a", encoding="utf-8") as log:
            log.write(text.removeprefix(" ") + "\n")

    def path(self, label: str) -> Path:
        return self._folder / f"{label.replace('/', '-')}.log"


class DemoLab:
    """Running nodes; a node that fails ends the demo, which would no longer show the real loop."""

    def __init__(self, plan: DemoPlan) -> None:
        self.plan = plan
        self.logs = NodeLogs(plan.logs)
        # Candidates are small: cores are better used for several arms than for the layers of one network.
        self._environment = {"OMP_NUM_THREADS": "1"}
        self._held = ExitStack()

    def __enter__(self) -> DemoLab:
        system, arguments = find_system("twin"), self.plan.arguments()
        system.prepare(arguments)
        with ExitStack() as held:
            nodes = system.nodes(arguments)
            self.count = len(nodes)
            self._nodes = held.enter_context(self.start(nodes))
            self.client = held.enter_context(
                LabClient(self.watch, find_signer(self.plan.folder / "deployment" / "keys"))
            )
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def start(self, nodes: tuple[NodeSpec, ...]) -> Supervisor:
        """Start additional nodes; use it as a context manager."""
        return Supervisor(nodes, self.logs.write, environment=self._environment)

    def behaviours(self, lacking: dict[str, int], there: dict[str, int]) -> tuple[NodeSpec, ...]:
        """A behaviour policy for each robot that lacks episodes, with seeds after those already used."""
        nodes: list[NodeSpec] = []
        for robot, missing in lacking.items():
            given = self.plan.arguments(collect=str(missing))
            for node in find_system("twin").nodes(given):
                if (node.program, node.namespace) == ("behaviour", robot):
                    seed = int(node.parameters["seed"]) + there[robot]
                    nodes.append(NodeSpec(node.program, robot, {**node.parameters, "seed": seed}))
        return tuple(nodes)

    def console_address(self) -> str:
        """The address of the live page as reported by its node; empty until then."""
        log = self.logs.path("console")
        found = re.findall(r"console: (http\S+)", log.read_text(encoding="utf-8")) if log.is_file() else []
        return found[-1] if found else ""

    def watch(self) -> None:
        """Raise if a node of the lab has failed."""
        for label, how in self._nodes.failed.items():
            raise OpcError(f"node {label} failed: {how}; its log: {shorten(self.logs.path(label))}")


def shorten(path: Path) -> str:
    """A path as somebody would type it from here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
