"""`opc up` with real nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from opc_ros.bringup.nodes import NodeSpec
from opc_ros.bringup.supervisor import Supervisor
from opc_ros.store import open_store

pytestmark = pytest.mark.ros
ROOT = Path(__file__).resolve().parents[2]


class Running:
    """An opc command whose output is collected while it runs."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "opc_ros.cli.main", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def wait_for(self, condition: Callable[[list[str]], bool], deadline_s: float = 40.0) -> None:
        end = time.monotonic() + deadline_s
        while not condition(self.lines):
            assert self.process.poll() is None, "".join(self.lines)
            assert time.monotonic() < end, "".join(self.lines)
            time.sleep(0.05)

    def end(self, deadline_s: float = 40.0) -> int:
        try:
            return self.process.wait(timeout=deadline_s)
        finally:
            self.process.kill()  # its nodes die with it
            self._reader.join(timeout=5)


def test_ctrl_c_stops_every_node_within_seconds_and_leaves_none(ros_domain: int, tmp_path: Path) -> None:
    up = Running("up", "scripted", f"store:={tmp_path / 'store'}")
    up.wait_for(lambda lines: any("saved, 7 steps" in line for line in lines))
    nodes = psutil.Process(up.process.pid).children(recursive=True)
    assert len(nodes) >= 2
    asked = time.monotonic()
    up.process.send_signal(signal.SIGINT)
    assert up.end() == 130
    assert time.monotonic() - asked < 10
    assert not any(node.is_running() and node.status() != psutil.STATUS_ZOMBIE for node in nodes)
    assert not any("still running" in line for line in up.lines), "every node obeyed the first request"


def test_second_system_in_the_same_domain_is_refused(ros_domain: int, tmp_path: Path) -> None:
    first = Running("up", "scripted", f"store:={tmp_path / 'store'}")
    try:
        first.wait_for(lambda lines: any("started" in line for line in lines))
        second = Running("up", "scripted", f"store:={tmp_path / 'store'}")
        assert second.end() == 1
        assert len(second.lines) == 1
        assert f"ROS domain {os.environ['ROS_DOMAIN_ID']} is in use by opc up scripted" in second.lines[0]
    finally:
        first.process.send_signal(signal.SIGINT)
        first.end()


def test_it_ends_by_itself_once_the_arm_has_played_and_every_episode_is_kept(ros_domain: int, tmp_path: Path) -> None:
    up = Running("up", "scripted", "episodes:=2", f"store:={tmp_path / 'store'}")
    assert up.end(90.0) == 0, "".join(up.lines)
    assert "every arm has played its episodes: stopping the other nodes\n" in up.lines
    with open_store(tmp_path / "store") as store:
        assert len(list(store.episodes())) == 2


def test_without_driver_and_camera_it_says_what_it_waits_for(ros_domain: int, tmp_path: Path) -> None:
    store, keys = tmp_path / "store", tmp_path / "keys"
    nodes = (
        NodeSpec("recorder", "arm1", {"store": str(store)}),
        NodeSpec("arm_guard", "arm1", {"arm_config": str(ROOT / "config" / "arm.yaml"), "state": str(keys)}),
    )
    lines: list[str] = []
    expected = ("no image on /arm1/camera/image/compressed yet", "waiting for the arm's driver: nobody publishes /")
    with Supervisor(nodes, lines.append) as running:
        end_s = time.monotonic() + 40.0
        running.wait(until=lambda: time.monotonic() > end_s or all(text in "".join(lines) for text in expected))
    assert all(text in "".join(lines) for text in expected), lines
