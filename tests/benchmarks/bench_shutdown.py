"""How long a whole lab of twins takes from Ctrl-C to its end, and whether it prints anything on the way.

python -m tests.benchmarks.bench_shutdown --times 3
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from opc_ros.bringup.reach import stay_on_this_machine
from tests.domains import take_domain

PATIENCE_S = 300.0
GOAL_S = 3.0
# Printed once each of these is working.
SIGNS = (
    "console: http",
    *(f"recording arm{number} into" for number in (1, 2)),
    *(f"arm arm{number}: its driver is in ROS domain" for number in (1, 2)),
)
COMPLAINTS = ("Traceback", "never retrieved", "still running", "failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="for the lab to come up, s (default 300)")
    arguments = parser.parse_args()
    took_s, complaints = [], 0
    for _ in range(arguments.times):
        with tempfile.TemporaryDirectory(prefix="bench_shutdown_") as folder, take_domain() as domain:
            seconds, lines = measure(Path(folder), domain, arguments.patience)
        took_s.append(seconds)
        complaints += sum(any(word in line for word in COMPLAINTS) for line in lines)
    print(f"Ctrl-C to the end of a lab of two twins: {max(took_s):.2f} s at most of {len(took_s)} (goal {GOAL_S:.0f})")
    print(f"lines of complaint at its end: {complaints} (goal 0)")
    print(f"load average beside these figures: {os.getloadavg()[0]:.1f}")


def measure(folder: Path, domain: int, patience_s: float) -> tuple[float, list[str]]:
    """Seconds, and what was printed after Ctrl-C."""
    child = subprocess.Popen(
        [sys.executable, "-u", "-m", "opc_ros.cli.main", "up", "twin", "image_size:=64", "real_time_factor:=3"],
        cwd=folder,
        env={**os.environ, "ROS_DOMAIN_ID": str(domain), **stay_on_this_machine()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert child.stdout is not None
    stream, lines = child.stdout, list[str]()
    reader = threading.Thread(target=lambda: lines.extend(iter(stream.readline, "")))
    reader.start()
    deadline_s = time.monotonic() + patience_s
    try:
        while not all(any(sign in line for line in lines) for sign in SIGNS):
            if child.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit("the lab does not come up:\n" + "".join(lines))
            time.sleep(0.05)
        before, began_s = len(lines), time.monotonic()
        child.send_signal(signal.SIGINT)
        child.wait(60.0)
        took_s = time.monotonic() - began_s
    finally:
        child.kill()
        reader.join(5.0)
    return took_s, lines[before:]


if __name__ == "__main__":
    main()
