"""Child processes of a system: their logs, how they end, and that none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from opc_ros.bringup.supervisor import Supervisor

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Script:
    label: str
    code: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        return [sys.executable, "-u", "-c", self.code]


def wait_for(condition: Callable[[], bool], deadline_s: float = 60.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "condition did not come true in time"
        time.sleep(0.02)


FOREVER = "import signal, sys; print('ready'); signal.sigwait([signal.SIGINT]); sys.exit(0)"
# One write per line: two processes on one pipe would mix the output of `print`, which writes the line end separately.
DEAF = (
    "import os, signal\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\n"
    "os.write(1, b'ready\\n')\nwhile True: signal.pause()"
)


def test_lines_carry_the_name_of_their_node_and_exit_0_is_no_failure() -> None:
    lines: list[str] = []
    nodes = [Script("arm1/recorder", "print('saved')"), Script("arm1/arm", "import sys; print('oh', file=sys.stderr)")]
    with Supervisor(nodes, lines.append) as running:
        assert running.wait() == 0
    assert "[arm1/recorder] saved" in lines
    assert "[arm1/arm     ] oh" in lines
    assert "[arm1/recorder] finished" in lines


def test_servants_are_stopped_once_all_others_have_ended() -> None:
    lines: list[str] = []
    nodes = [Script("recorder", FOREVER), Script("arm", "print('played')")]
    with Supervisor(nodes, lines.append, is_servant=lambda node: node.label == "recorder") as running:
        assert running.wait() == 0
        assert not running.is_done
    assert running.is_done
    assert "[arm     ] finished" in lines


def test_a_node_that_fails_ends_the_others_and_is_not_restarted() -> None:
    lines: list[str] = []
    with Supervisor([Script("bad", "import sys; sys.exit(3)"), Script("good", FOREVER)], lines.append) as running:
        assert running.wait() == 1
    assert "[bad ] failed: exit 3; it is not restarted" in lines
    assert sum("[bad ] started" in line for line in lines) == 1


def test_a_killed_node_is_named_with_its_signal() -> None:
    lines: list[str] = []
    suicide = "import os; os.kill(os.getpid(), 9)"
    with Supervisor([Script("bad", suicide)], lines.append) as running:
        assert running.wait() == 1
    assert "[bad] failed: killed by SIGKILL; it is not restarted" in lines


def test_keep_going_leaves_the_others_running_until_they_end() -> None:
    lines: list[str] = []
    with Supervisor(
        [Script("bad", "import sys; sys.exit(3)"), Script("good", "print('done')")], lines.append
    ) as running:
        assert running.wait(keep_going=True) == 1
    assert "[good] done" in lines
    assert "[good] finished" in lines


def test_a_deaf_node_and_its_own_children_are_gone_after_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = ((signal.SIGINT, 0.3), (signal.SIGTERM, 0.3), (signal.SIGKILL, 20.0))
    monkeypatch.setattr("opc_ros.bringup.supervisor.PATIENCE", patience)
    lines: list[str] = []
    child = (
        f"import os, subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {DEAF!r}])\n"
        "os.write(1, f'child {p.pid}\\n'.encode())\n"
    )
    with Supervisor([Script("deaf", child + DEAF)], lines.append):
        wait_for(lambda: sum("ready" in line for line in lines) == 2)
        pids = [int(line.split()[-1]) for line in lines if "started" in line or "child" in line]
        assert len(pids) == 2
        assert all(map(psutil.pid_exists, pids))
    wait_for(lambda: not any(map(psutil.pid_exists, pids)))
    assert any("still running: sending SIGKILL" in line for line in lines)


UP = """
from opc_ros.bringup.supervisor import Supervisor, heed_signals, write_line
from tests.bringup.test_supervisor import FOREVER, Script
heed_signals()
with Supervisor([Script("a", FOREVER), Script("b", FOREVER)], write_line) as running:
    running.wait()
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_no_node_outlives_its_supervisor(signum: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", UP], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert parent.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(parent.stdout.readline, "")))  # type: ignore[union-attr]
    reader.start()
    wait_for(lambda: sum("ready" in line for line in lines) == 2)
    pids = [int(line.split()[-1]) for line in lines if "started" in line]
    os.kill(parent.pid, signum)
    try:
        parent.wait(timeout=60)
    finally:
        parent.kill()
    wait_for(lambda: not any(map(psutil.pid_exists, pids)))
    reader.join(timeout=5)


def test_ctrl_c_while_a_node_is_being_started_is_not_lost() -> None:
    # Python drops exceptions in what it calls around a fork, so a signal arriving there must be raised later.
    is_armed = [True]

    def interrupt() -> None:
        if is_armed:
            is_armed.clear()
            os.kill(os.getpid(), signal.SIGINT)

    os.register_at_fork(after_in_parent=interrupt)
    there = set(psutil.Process().children())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), Supervisor([Script("a", FOREVER), Script("b", FOREVER)], print):
            pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(psutil.Process().children()) <= there


def test_a_guard_that_dies_is_started_again_a_few_times_and_then_given_up() -> None:
    lines: list[str] = []
    mortal = Script("guard", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with Supervisor([mortal], lines.append, is_restarted=lambda node: node.label == "guard") as running:
        assert running.wait() == 1
    assert sum("starting it again" in line for line in lines) == 3
    assert sum("it is not restarted" in line for line in lines) == 1


def test_a_node_that_cannot_even_start_is_not_tried_again() -> None:
    lines: list[str] = []
    with Supervisor([Script("guard", "import sys; sys.exit(1)")], lines.append, is_restarted=lambda node: True) as run:
        assert run.wait() == 1
    assert not any("starting it again" in line for line in lines)
