"""A lab on two machines whose link is cut again and again: is anything lost, counted twice or left moving?

    nice -n 10 python -m tests.several_machines --cuts 50 --out machines     # as root; about half an hour
    python -m tests.several_machines --cuts 3 --longest 0 --twins 0          # a short form

Scheduler and depot run on one machine, arms with recorders, runners and couriers on another: namespaces of this
computer that share no folder, no shared memory and no multicast. The bench's clock is wrong at first, so nothing may
begin. Then the link is cut while an episode runs, mostly for one to three seconds, every tenth time for ten, and once
for `--longest`; each time it comes back losing one frame in twenty, slow and with jitter. In the end journals, queue,
audit log, the robots' disks and the lab's store are compared. Exit 0 if every episode that began is counted exactly
once or named as broken, every recorded one is in the lab's store byte for byte, and no arm moved when it had to stand
still.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from opc_ros.store import open_store
from tests.domains import take_domain
from tests.faults.fleet_lab import GRACE_S, HEARTBEAT_S, unsettled
from tests.faults.mischief import Clocks
from tests.faults.reckoning import Reckoning, reckon
from tests.several_machines.network import Machine, Weather, network, why_not
from tests.several_machines.two_machines import BENCH, OFFICE, TwoMachines, lay_out

PATIENCE_S = 1800.0  # a busy computer needs minutes to start a lab
STILL_RAD_S = 0.01
BAD_WEATHER_S = 4.0


@dataclasses.dataclass(slots=True)
class Findings:
    """What was done and what came of it."""

    cuts: int = 0
    cut_s: float = 0.0
    in_mid_episode: int = 0
    recorded: int = 0  # on the robots' disks
    wrongs: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    reckoning: Reckoning = dataclasses.field(default_factory=Reckoning)
    load: float = 0.0

    @property
    def is_right(self) -> bool:
        return not any(self.wrongs.values()) and self.reckoning.is_right


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=50, help="how often the link is cut (default 50)")
    parser.add_argument("--longest", type=float, default=300.0, help="length of one cut, s; 0: none (default 300)")
    parser.add_argument("--arms", type=int, default=1, help="scripted arms (default 1)")
    parser.add_argument("--twins", type=int, default=1, help="twins with driver and guard (default 1)")
    parser.add_argument("--minutes", type=float, default=600.0, help="after this long no further cut (default 600)")
    parser.add_argument("--seed", type=int, default=0, help="of lengths, moments and losses (default 0)")
    parser.add_argument("--out", type=Path, default=Path("machines"), help="folder of files, logs and results")
    arguments = parser.parse_args(argv)
    if reason := why_not():
        print(f"several machines cannot be tried here: {reason}", file=sys.stderr)
        return 1
    found = run(arguments)
    document = json.dumps(dataclasses.asdict(found) | {"is_right": found.is_right}, indent=2)
    (arguments.out / "result.json").write_text(document + "\n")
    print(document)
    return int(not found.is_right)


def run(arguments: argparse.Namespace) -> Findings:
    out: Path = arguments.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    lay_out(out, arguments.arms, arguments.twins)
    found = Findings()
    rng = random.Random(arguments.seed)
    with take_domain() as domain, network(out, (OFFICE, BENCH), seed=arguments.seed) as machines:
        lab = TwoMachines(out, machines, arguments.arms, arguments.twins, int(domain))
        clocks = Clocks(out / "clocks")
        clocks.step(BENCH, 30.0 if clocks.can_step else 0.0)
        try:
            lab.start(clocks.environment(BENCH))
            lab.run(OFFICE, "tests.several_machines.asking", "time", str(out / "here"))
            check_clocks(lab, clocks, found)
            watch_arms(lab)
            cut_again_and_again(arguments, lab, machines[BENCH], rng, found)
            settle(lab, found)
        finally:
            lab.stop()
        compare(lab, found)
    found.load = os.getloadavg()[0]
    return found


def check_clocks(lab: TwoMachines, clocks: Clocks, found: Findings) -> None:
    """With a clock that is half a minute off nothing begins and the reason is reported; once corrected, it does."""
    if clocks.can_step:
        said = "s ahead of the lab's, allowed 1"
        robot = lab.robots[0]
        lab.wait(lambda: said in lab.log(f"{robot}/courier"), PATIENCE_S, "the wrong clock is told")
        found.wrongs["began although the clocks were apart"] = sorted(lab.begun())
        clocks.step(BENCH, 0.0)
    lab.wait(lambda: len(lab.begun()) > 0, PATIENCE_S, "the first episode begins")
    lines = (lab.machines[OFFICE].files / "deployment" / "audit.jsonl").read_text().splitlines()
    found.wrongs["refused for a clock that was put right"] = [line for line in lines if "was set back" in line]


def watch_arms(lab: TwoMachines) -> None:
    for robot in lab.robots:
        if robot.startswith("twin"):
            file = str(lab.folder / "here" / f"{robot}.speed")
            words = [sys.executable, "-m", "tests.several_machines.watching", file, robot]
            lab.launch(f"{robot}/watching", BENCH, words)


def cut_again_and_again(
    arguments: argparse.Namespace, lab: TwoMachines, bench: Machine, rng: random.Random, found: Findings
) -> None:
    found.wrongs["moved though the lab was unheard for long"] = []
    last_s = time.monotonic() + 60.0 * arguments.minutes
    for number in range(arguments.cuts):
        if time.monotonic() > last_s:
            break
        length_s = rng.uniform(1.0, 3.0)
        if number % 10 == 9 or arguments.cuts < 10:
            length_s = 10.0
        if arguments.longest and number == min(arguments.cuts // 2, 5):
            length_s = arguments.longest
        before = len(lab.begun())
        lab.wait(lambda before=before: len(lab.begun()) >= before + 2, PATIENCE_S, "work goes on")  # type: ignore[misc]
        lab.wait(lambda: None in lab.begun().values(), PATIENCE_S, "an episode runs")
        bench.weather = Weather(is_cut=True)
        found.in_mid_episode += None in lab.begun().values()
        cut_off(lab, length_s, found)
        bench.weather = Weather(loss=0.05, delay_s=0.02, jitter_s=0.03)
        found.cuts, found.cut_s = found.cuts + 1, found.cut_s + length_s
        time.sleep(rng.uniform(0.0, BAD_WEATHER_S))
        print(f"cut {number + 1}: {length_s:.1f} s, {len(lab.begun())} episodes begun", file=sys.stderr, flush=True)
    bench.weather = Weather()


def cut_off(lab: TwoMachines, length_s: float, found: Findings) -> None:
    """While nobody hears anybody: what is running comes to its end, nothing begins, and then nothing moves."""
    until_s = time.monotonic() + length_s
    quiet_s = time.monotonic() + HEARTBEAT_S + GRACE_S + 10.0
    while time.monotonic() < until_s:
        time.sleep(0.1)
        if time.monotonic() > quiet_s and time.monotonic() + 1.0 < until_s:
            running = [name for name, outcome in lab.begun().items() if outcome is None]
            found.wrongs["moved though the lab was unheard for long"] += running + moving(lab)


def moving(lab: TwoMachines) -> list[str]:
    told = []
    for robot in lab.robots:
        path = lab.machines[BENCH].files / f"{robot}.speed"
        if path.exists():
            seen = json.loads(path.read_text())
            if seen["fastest_rad_s"] > STILL_RAD_S:
                told.append(f"{robot} at {seen['fastest_rad_s']:.3f} rad/s")
    return told


def settle(lab: TwoMachines, found: Findings) -> None:
    """Halt, and wait until nothing is open and the lab's store has everything the robots' have."""
    office = lab.machines[OFFICE].files
    lab.run(OFFICE, "tests.several_machines.asking", "halt", str(lab.folder / "here"))
    try:
        lab.wait(lambda: not unsettled(office), PATIENCE_S, "leases and results are settled")
        lab.wait(lambda: not missing(lab), PATIENCE_S, "the lab has every recorded episode")
    except TimeoutError as error:
        found.wrongs["left open"] = [str(error), unsettled(office)]
    found.wrongs["nodes that ended by themselves"] = [f"{name}: exit {code}" for name, code in lab.ended().items()]


def stored(path: Path) -> dict[str, str]:
    with open_store(path) as store:
        return {each.id: each.file_sha256 for each in store.episodes()}


def missing(lab: TwoMachines) -> list[str]:
    kept = stored(lab.machines[OFFICE].files / "store")
    recorded = {k: v for robot in lab.robots for k, v in stored(lab.machines[BENCH].files / robot / "store").items()}
    return sorted(name for name, digest in recorded.items() if kept.get(name) != digest)


def compare(lab: TwoMachines, found: Findings) -> None:
    whole = lab.folder / "whole"
    for machine in (OFFICE, BENCH):
        shutil.copytree(lab.machines[machine].files, whole, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
    found.recorded = sum(len(stored(whole / robot / "store")) for robot in lab.robots)
    found.wrongs["recorded by a robot, but not in the lab's store"] = missing(lab)
    found.reckoning = reckon(whole, lab.robots, {})


if __name__ == "__main__":
    sys.exit(main())
