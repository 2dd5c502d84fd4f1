"""Inside the office: `python -m tests.several_machines.asking time|halt FOLDER`, over ROS as people do."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.fleet_lab import ask_for_time
from tests.ros.conftest import Probe


def main(what: str, folder: str) -> int:
    from opc_interfaces.srv import HaltDeployment

    probe = Probe()
    try:
        if what == "time":
            ask_for_time(Path(folder), probe)
            return 0
        answer = probe.call(HaltDeployment, "/deployment/halt", robot="", person="ada", reason="the end")
        return 0 if answer is not None else 1
    finally:
        probe.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
