from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opc_ros.errors import WorkerLost
from opc_ros.workers import work_through

PROGRAM = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from opc_ros.workers import begin_worker

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
    root = Path(__file__).resolve().parents[1]
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
    wait_for_end(worker)


def wait_for_end(worker: int) -> None:
    deadline = time.monotonic() + 60
    while is_running(worker):
        assert time.monotonic() < deadline, f"worker {worker} goes on"
        time.sleep(0.05)


def prepare_nothing() -> None:
    pass


def halve(number: int) -> int:
    return number // 2


def halves_of_even(number: int, half: int) -> tuple[int, ...]:
    return (half,) if number % 2 == 0 else ()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_task_is_followed_by_what_comes_of_it(workers: int) -> None:
    """12 makes 6, which makes 3; 5 and 7 make nothing."""
    done = list(work_through([12, 5, 7], halve, workers=workers, prepare=prepare_nothing, then=halves_of_even))
    assert sorted(done) == [(3, 1), (5, 2), (6, 3), (7, 3), (12, 6)]


def tell_who_i_am(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_a_worker_ends_in_the_middle_of_its_task_when_nobody_asks_for_more() -> None:
    results = work_through([0.0, 0.0, 3600.0, 3600.0], tell_who_i_am, workers=2, prepare=prepare_nothing)
    workers = {next(results)[1], next(results)[1]}
    results.close()  # type: ignore[attr-defined]  # a generator, though its type says less
    for worker in workers:
        wait_for_end(worker)


def die(status: int) -> None:
    os._exit(status)


def test_a_worker_that_dies_is_reported_in_one_line() -> None:
    with pytest.raises(WorkerLost, match="a worker process died; what was finished is kept"):
        list(work_through([1, 2], die, workers=2, prepare=prepare_nothing))


def refuse(number: int) -> None:
    raise ValueError(f"{number} is odd")


def test_what_a_task_raises_comes_out_where_its_result_would() -> None:
    with pytest.raises(ValueError, match="is odd"):
        list(work_through([1, 3], refuse, workers=2, prepare=prepare_nothing))
