"""A scheduler and its robots in one process that kills itself at a given moment; run by test_scheduler_killed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.deployment.fleet import Fleet, make_shortest_rules, play


def main(folder: Path, kill_at: int) -> None:
    moments = 0

    def probe(moment: str) -> None:
        nonlocal moments
        moments += 1
        if moments == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    fleet = Fleet(folder, make_shortest_rules())
    fleet.probe = probe
    play(fleet)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
