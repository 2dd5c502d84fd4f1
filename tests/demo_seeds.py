"""Does the demo decide correctly whatever the seed? Runs it again and again and counts.

    python -m tests.demo_seeds --seeds 20 --out demo_seeds.csv

Each run is `opc demo --seed N`, from an empty folder, one after the other. A run that is already in the file is not
repeated. Goals: of 20 runs at least 19 with a champion within 10 points of the best, no candidate below 40 % at full
speed, and each within 5 minutes on two cores. Wall clock time says little on a machine with other work, so processor
time (of all processes of a run together) and the machine's load are recorded beside it. `--logs` keeps what each run
printed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from opc_ros.demo.proof import PROOF

COLUMNS = (
    *("seed", "seconds", "cpu_seconds", "load"),
    *("champion", "champion_success", "best", "best_success", "regret_points", "worst_at_full"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="how many (default 20)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default 1)")
    parser.add_argument("--out", type=Path, default=Path("demo_seeds.csv"))
    parser.add_argument("--logs", type=Path, help="folder for what each run printed")
    arguments = parser.parse_args()
    rows = read_rows(arguments.out)
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        if str(seed) not in {row["seed"] for row in rows}:
            rows.append(play(seed, arguments.logs))
            write_rows(arguments.out, rows)
            print(", ".join(f"{name} {rows[-1][name]}" for name in COLUMNS), flush=True)
    summarise(rows)
    return 0


def play(seed: int, logs: Path | None) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="demo_seeds_") as folder:
        began_s, used_s = time.monotonic(), processor_seconds()
        command = [sys.executable, "-m", "opc_ros.cli.main", "demo", "--seed", str(seed), "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        price = {
            "seed": str(seed),
            "seconds": f"{time.monotonic() - began_s:.0f}",
            "cpu_seconds": f"{processor_seconds() - used_s:.0f}",
            "load": f"{os.getloadavg()[1]:.0f}",
        }
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
            (logs / f"{seed}.txt").write_text(done.stdout + done.stderr)
        found = sorted(Path(folder).glob(f"*/{PROOF}"))
        if done.returncode or not found:
            print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
            return dict.fromkeys(COLUMNS, "") | price
        proof = json.loads(found[0].read_text())
    success, best = proof["champion_success"], proof["best_success"]
    return price | {
        "champion": proof["champion"],
        "champion_success": "" if success is None else f"{success:.3f}",
        "best": proof["best"],
        "best_success": f"{best:.3f}",
        "regret_points": "" if success is None else f"{100 * (best - success):.1f}",
        "worst_at_full": f"{min(proof['at_full_speed'].values()):.3f}" if proof["at_full_speed"] else "",
    }


def processor_seconds() -> float:
    """Processor time of all descendants of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def summarise(rows: list[dict[str, str]]) -> None:
    near = sum(bool(row["regret_points"]) and float(row["regret_points"]) <= 10.0 for row in rows)
    unsafe = sum(bool(row["worst_at_full"]) and float(row["worst_at_full"]) < 0.4 for row in rows)
    slow = sum(float(row["seconds"]) > 300.0 for row in rows)
    print(f"{len(rows)} runs: {near} with a champion within 10 points of the best (goal 19 of 20)")
    dear = max((float(row["cpu_seconds"]) for row in rows), default=0.0)
    print(f"at most {dear:.0f} s of processor time in a run; two idle cores have 600 s in 5 minutes")
    print(f"{unsafe} let somebody below 40 % run at full speed (goal 0); {slow} took more than 5 minutes (goal 0)")


def read_rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
