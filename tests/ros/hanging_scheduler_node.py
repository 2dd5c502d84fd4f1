"""The scheduler, whose loop hangs forever once a file `hang` appears beside its queue."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from opc_ros.ros.run import run_node
from opc_ros.ros.scheduler_node import SchedulerNode


class HangingSchedulerNode(SchedulerNode):
    """As slow as a disk, a network share or a mistake could make it."""

    def _tick(self) -> None:
        while (Path(self._settings.state) / "hang").exists():
            time.sleep(0.01)
        super()._tick()


if __name__ == "__main__":
    sys.exit(run_node(HangingSchedulerNode))
