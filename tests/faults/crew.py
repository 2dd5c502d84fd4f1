"""The nodes of a lab as real processes that may be killed, paused and started again one by one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from opc_ros.bringup.nodes import NodeSpec

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0


class Crew:
    """Named processes; each appends its output to its own file below `logs`."""

    def __init__(self, nodes: Mapping[str, NodeSpec], logs: Path) -> None:
        self.nodes = dict(nodes)
        self._logs = logs
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        with self.log(name).open("ab") as sink:
            self._children[name] = subprocess.Popen(
                self.nodes[name].command(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        return self._logs / f"{name.replace('/', '.')}.log"

    def pids(self) -> dict[str, int]:
        """Process ids of those that are running."""
        return {name: child.pid for name, child in self._children.items() if child.poll() is None}

    def ended(self) -> dict[str, int]:
        """Exit codes of those that have ended, other than by `kill`."""
        return {name: child.returncode for name, child in self._children.items() if child.poll() is not None}

    def kill(self, name: str) -> None:
        """With everything it started, as in a power cut."""
        child = self._children.pop(name)
        _signal_group(child.pid, signal.SIGKILL)
        child.wait()

    def signal(self, name: str, signum: signal.Signals) -> None:
        _signal_group(self._children[name].pid, signum)

    def stop(self) -> dict[str, int]:
        """Ask all to end, then insist; returns their exit codes."""
        for signum in (signal.SIGCONT, signal.SIGINT):
            for child in self._children.values():
                if child.poll() is None:
                    _signal_group(child.pid, signum)
        deadline_s = time.monotonic() + PATIENCE_S
        for child in self._children.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.1, deadline_s - time.monotonic()))
            _signal_group(child.pid, signal.SIGKILL)
        codes = {name: child.wait() for name, child in self._children.items()}
        self._children.clear()
        return codes


def _signal_group(pid: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signum)
