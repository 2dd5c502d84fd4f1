"""Is nothing forgotten and nothing invented, whatever dies when? A lab of real processes, harmed again and again.

    nice -n 10 python -m tests.faults.fleet --kills 200 --out fleet
    python -m tests.faults.fleet --kills 200 --out fleet          # resumes where it was stopped

Scheduler, policy runners and recorders of scripted arms, and twins with their driver and guard, run over DDS in a
domain of their own. At random moments one of them is killed with SIGKILL and started again, is cut off (it neither
sends nor receives anything for some seconds), finds its disk full, or has its clock stepped. In the end robots are
halted, open work is settled, and robots' journals, queue, audit log and store are compared: every episode that began is
counted exactly once or named as broken, every counted one is in the store, none runs twice. Exit 0 if that holds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opc_ros.bringup.supervisor import heed_signals
from opc_ros.cli.progress_bar import progress_bar
from opc_ros.cli.table import format_table
from opc_ros.errors import OpcError
from tests.domains import own_domain
from tests.faults.crew import Crew
from tests.faults.fleet_lab import ask_for_time, names, nodes_of, prepare, resume_robots, wait_until_settled
from tests.faults.mischief import Clocks, Mischief, small_disk
from tests.faults.reckoning import Reckoning, reckon

PROGRESS_EPISODES = 3  # begun since the last fault, so that the next one hits a lab at work
PROGRESS_S = 60.0
SETTLE_S = 180.0


class Listener:
    """Receives every episode's begin over DDS: a witness besides the robots' own journals."""

    def __init__(self, robots: Sequence[str], heard: Counter[str]) -> None:
        from opc_interfaces.msg import EpisodeEvent

        from opc_ros.ros import topics
        from tests.ros.conftest import Probe

        self.heard = heard
        self.probe = Probe()
        for robot in robots:
            self.probe.node.create_subscription(
                EpisodeEvent, f"/{robot}/episode/event", self._on_event, topics.RECORDED
            )

    def _on_event(self, msg: Any) -> None:
        if msg.kind == msg.BEGIN:
            self.heard[msg.episode_id] += 1

    def listen(self, seconds: float) -> None:
        self.wait(lambda: False, seconds)

    def wait(self, holds: Any, seconds: float) -> bool:
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            if holds():
                return True
            self.probe.spin(0.05)
        return bool(holds())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="how many faults, most of them kills (default 200)")
    parser.add_argument("--arms", type=int, default=3, help="scripted arms (default 3)")
    parser.add_argument("--twins", type=int, default=1, help="twins with driver and guard (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="of what is done to whom and when (default 0)")
    parser.add_argument("--out", type=Path, default=Path("fleet"), help="folder of lab, logs and results")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args(argv)
    heed_signals()
    return tell(run(arguments), is_json=arguments.json)


@dataclasses.dataclass(slots=True)
class Result:
    """What was done and what came of it."""

    faults: Counter[str]
    reckoning: Reckoning
    left_open: str
    hours: float

    @property
    def is_right(self) -> bool:
        return self.reckoning.is_right and not self.left_open


def run(arguments: argparse.Namespace) -> Result:
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    done = _read(out / "done.json", {"faults": {}, "heard": {}})
    faults, heard = Counter(done["faults"]), Counter(done["heard"])
    robots = names(arguments.arms, arguments.twins)
    with small_disk(out / "disk") as can_fill, own_domain():
        lab = out / "disk" / "lab"
        if (out / "lab").is_dir():
            _copy(out / "lab", lab)  # left over from an earlier run: a disk of its own is gone with its process
        elif not lab.is_dir():
            prepare(lab, arguments.arms, arguments.twins)
        clocks = Clocks(out / "clocks")
        with Crew(nodes_of(lab, arguments.arms, arguments.twins), out / "logs") as crew:
            mischief = Mischief(crew, clocks, out / "disk", can_fill=can_fill)
            listener = Listener(robots, heard)
            try:
                for name in crew.nodes:
                    mischief.start(name)
                ask_for_time(lab, listener.probe)
                resume_robots(lab, listener.probe)
                harm(arguments, mischief, crew, listener, faults)
                left_open = settle(lab, crew, mischief, listener)
                crew.stop()
            finally:
                listener.probe.close()
                crew.stop()
                (out / "done.json").write_text(json.dumps({"faults": faults, "heard": heard}))
                _copy(lab, out / "lab")
        reckoning = reckon(lab, robots, heard)
    return Result(faults, reckoning, left_open, (time.monotonic() - began_s) / 3600.0)


def harm(
    arguments: argparse.Namespace, mischief: Mischief, crew: Crew, listener: Listener, faults: Counter[str]
) -> None:
    with progress_bar("faults", is_shown=not arguments.json) as report:
        while (number := faults.total()) < arguments.kills:
            rng = random.Random(f"{arguments.seed}-{number}")
            before = listener.heard.total()
            listener.wait(lambda before=before: listener.heard.total() >= before + PROGRESS_EPISODES, PROGRESS_S)
            listener.listen(rng.uniform(0.0, 2.0))
            worker = threading.Thread(target=lambda rng=rng: faults.update([": ".join(mischief.do(rng))]))
            worker.start()
            listener.wait(lambda worker=worker: not worker.is_alive(), 60.0)
            worker.join()
            for name in crew.ended():  # a node may give up when its disk is full; a supervisor restarts it
                mischief.start(name)
            report(number + 1, arguments.kills, f"{listener.heard.total()} episodes, load {os.getloadavg()[0]:.1f}")


def settle(lab: Path, crew: Crew, mischief: Mischief, listener: Listener) -> str:
    """Halt every robot, keep every node alive, and wait until nothing is open any more."""
    from opc_interfaces.srv import HaltDeployment

    for name in crew.nodes.keys() - crew.pids().keys():
        mischief.start(name)
    listener.probe.call(HaltDeployment, "/deployment/halt", robot="", person="ada", reason="the end")
    waiting: list[str] = []
    worker = threading.Thread(target=lambda: waiting.append(_wait(lab)))
    worker.start()
    listener.wait(lambda: not worker.is_alive(), 2 * SETTLE_S)
    return waiting[0] if waiting else "the queue could not be read"


def _wait(lab: Path) -> str:
    try:
        return wait_until_settled(lab, SETTLE_S)
    except OpcError as error:
        return str(error)


def tell(result: Result, *, is_json: bool) -> int:
    found = result.reckoning
    if is_json:
        document = dataclasses.asdict(found) | {"faults": result.faults, "left_open": result.left_open}
        print(json.dumps(document | {"is_right": result.is_right, "hours": result.hours}, indent=2))
        return int(not result.is_right)
    print(format_table(("fault", "times"), [(name, str(times)) for name, times in sorted(result.faults.items())]))
    print(
        f"\n{result.faults.total()} faults in {result.hours:.2f} h: {found.begun} episodes began, "
        f"{found.counted} counted, {found.broken} named as broken ({found.unrecorded} of them for want of a "
        f"recording), {found.stored} of the counted are in the store"
    )
    rows = [(what, str(len(which)), ", ".join(which[:3])) for what, which in found.wrongs.items()]
    print("\n" + format_table(("what must not be", "found", "such as"), rows))
    print(f"\nleft open: {result.left_open or 'nothing'}")
    return int(not result.is_right)


def _read(path: Path, default: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else default


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
