"""A lab on two machines: scheduler and depot in the office, arms, their recorders and couriers at the bench."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from opc_ros.bringup.lab import load_lab
from opc_ros.bringup.machines import find_here
from opc_ros.bringup.nodes import NodeSpec, Parameter
from tests.faults.fleet_lab import names, nodes_of, prepare
from tests.several_machines.network import Machine

ROOT = Path(__file__).resolve().parents[2]
OFFICE, BENCH = "office", "bench"
PORT = 8641


def lay_out(folder: Path, arms: int, twins: int) -> None:
    """Each machine's files below folder/machines; the paths in them are below folder/here, where each sees its own."""
    here = folder / "here"
    prepare(here, arms, twins)
    robots = names(arms, twins)
    for machine in (OFFICE, BENCH):
        (folder / "machines" / machine).mkdir(parents=True)
    for path in list(here.iterdir()):
        is_robots = path.name in robots or path.stem in robots
        shutil.move(path, folder / "machines" / (BENCH if is_robots else OFFICE) / path.name)


def write_lab_file(path: Path, machines: Mapping[str, Machine], robots: list[str]) -> None:
    path.write_text(
        yaml.safe_dump(
            {
                "depot_port": PORT,
                "machines": {
                    name: {"address": machine.address, "is_central": name == OFFICE}
                    for name, machine in machines.items()
                },
                "robots": {robot: {"arm": "arm_twin.yaml", "rungs": ["full"], "machine": BENCH} for robot in robots},
            }
        )
    )


class TwoMachines:
    """Starts and stops the nodes, and looks into both machines' files from outside."""

    def __init__(self, folder: Path, machines: Mapping[str, Machine], arms: int, twins: int, domain: int) -> None:
        self.folder, self.machines, self.robots = folder, machines, names(arms, twins)
        write_lab_file(folder / "lab.yaml", machines, self.robots)
        lab = load_lab(folder / "lab.yaml")
        self._here = {name: find_here(lab, name) for name in machines}
        self._domain = domain
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._nodes = self._assign(folder / "here", arms, twins)

    def _assign(self, here: Path, arms: int, twins: int) -> dict[str, tuple[str, NodeSpec]]:
        depot = self._here[BENCH].depot
        found: dict[str, tuple[str, NodeSpec]] = {}
        for label, node in nodes_of(here, arms, twins).items():
            robot = node.namespace
            if node.program == "recorder":
                node = replace(node, parameters={**node.parameters, "store": str(here / robot / "store")})
            if node.program == "policy_runner":
                node = replace(node, parameters={**node.parameters, "depot": depot})
            found[label] = (BENCH if robot else OFFICE, node)
        office: dict[str, Parameter] = {
            "store": str(here / "store"),
            "candidates": str(here / "candidates"),
            "port": PORT,
        }
        state = {"keys": str(here / "deployment" / "keys"), "state": str(here / "deployment")}
        found["depot"] = (OFFICE, NodeSpec("depot", "", {**office, **state}))
        for robot in self.robots:
            own = {"store": str(here / robot / "store"), "keys": str(here / robot / "keys"), "state": str(here / robot)}
            courier = NodeSpec("courier", robot, {**own, "depot": depot, "look_s": 0.3})
            found[courier.label] = (BENCH, courier)
        return found

    def start(self, more: Mapping[str, str] | None = None) -> None:
        for label, (machine, node) in self._nodes.items():
            self.launch(label, machine, node.command(), more if machine == BENCH else None)

    def launch(self, label: str, machine: str, words: list[str], more: Mapping[str, str] | None = None) -> None:
        environment = {
            **self._here[machine].environment,
            "ROS_DOMAIN_ID": str(self._domain),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            **(more or {}),
        }
        log = self.folder / "logs" / f"{label.replace('/', '.')}.log"
        self._children[label] = self.machines[machine].start(words, log, cwd=ROOT, environment=environment)

    def run(self, machine: str, module: str, *words: str, timeout_s: float = 1800.0) -> None:
        """A program that has to succeed."""
        self.launch(module, machine, [sys.executable, "-m", module, *words])
        child = self._children[module]
        if child.wait(timeout_s) != 0:
            raise RuntimeError(f"{module} on {machine}: exit {child.returncode}; {self.log(module)[-1500:]}")
        del self._children[module]

    def log(self, label: str) -> str:
        return (self.folder / "logs" / f"{label.replace('/', '.')}.log").read_text()

    def ended(self) -> dict[str, int]:
        """Nodes that have ended by themselves, and how: there should be none."""
        return {label: child.returncode for label, child in self._children.items() if child.poll() is not None}

    def stop(self) -> None:
        for child in self._children.values():
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGINT)
        deadline_s = time.monotonic() + 60.0
        for child in self._children.values():
            try:
                child.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        self._children.clear()

    def begun(self) -> dict[str, str | None]:
        """Every episode in the robots' journals: how it ended, or nothing while it runs."""
        found: dict[str, str | None] = {}
        for robot in self.robots:
            path = self.machines[BENCH].files / robot / "journal.db"
            if path.exists():
                database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)
                try:
                    found |= dict(database.execute("SELECT episode_id, outcome FROM episodes").fetchall())
                except sqlite3.OperationalError:
                    pass  # still being created
                finally:
                    database.close()
        return found

    def wait(self, holds: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            if ended := self.ended():
                raise RuntimeError(f"nodes ended while waiting until {what}: {ended}")
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
            time.sleep(0.05)
