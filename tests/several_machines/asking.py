"""Inside the office: `python -m tests.several_machines.asking time|halt FOLDER`, over ROS as people do."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.faults.fleet_lab import ask_for_time
from tests.ros.conftest import Probe

PATIENCE_S = 1500.0


def main(what: str, folder: str) -> int:
    """Ask again and again: on a busy computer a scheduler takes its time to start."""
    probe = Probe()
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        while True:
            try:
                return ask(what, Path(folder), probe)
            except AssertionError:
                if time.monotonic() > deadline_s:
                    raise
    finally:
        probe.close()


def ask(what: str, folder: Path, probe: Probe) -> int:
    from opc_interfaces.srv import HaltDeployment

    if what == "time":
        ask_for_time(folder, probe)
        return 0
    answer = probe.call(HaltDeployment, "/deployment/halt", robot="", person="ada", reason="the end")
    return 0 if answer is not None else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
