from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from sim_bridge.workers import begin_worker

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=begin_worker) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen(
        [sys.executable, str(program)], cwd=root, env={"PYTHONPATH": str(root)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_running(worker)
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 60
    while is_running(worker):
        assert time.monotonic() < deadline, f"worker {worker} outlives its parent"
        time.sleep(0.05)
