"""What it costs to run a candidate in a confined process, and how soon a candidate that never answers is abandoned.

python -m tests.benchmarks.bench_worker
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from opc_ros.arms.arm import ScriptedArm
from opc_ros.errors import EpisodeStopped, ThoughtTooLong
from opc_ros.grasp import Observation
from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.policy import load_policy
from opc_ros.policies.worker.host import WorkerHost
from tests.policies.bad_graphs import loops_for_ever, write_onnx
from tests.policies.making import make_candidate

STEPS = 200
STOPS = 20
GOALS_MS = {96: 1.0, 472: 2.0}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, WorkerHost() as host:
        for size, goal_ms in GOALS_MS.items():
            _bench_step(host, Path(folder), size, goal_ms)
        _bench_stop(host, Path(folder))
        _bench_deadline(host, Path(folder))


def _bench_step(host: WorkerHost, folder: Path, size: int, goal_ms: float) -> None:
    """A deliberately quick network, so that the overhead shows; both alternate."""
    candidate = make_candidate(
        folder / f"c{size}",
        architecture="tool_crop",
        image_size=size,
        search=CrossEntropySearch(samples=8, elites=2, rounds=1),
        cells=8,
        channels=[4],
    )
    seen = ScriptedArm(image_size=size).begin(0)
    here = load_policy(candidate, device="cpu")
    with closing(host.load_policy(candidate)) as there:
        took: dict[str, list[float]] = {"here": [], "there": []}
        for step in range(STEPS):
            for name, policy in (("here", here), ("there", there)):
                took[name].append(_time(partial(policy.decide, seen, seed=0, step=step)))
    medians = {name: 1000 * statistics.median(times) for name, times in took.items()}
    quick = {name: 1000 * statistics.quantiles(times, n=10)[0] for name, times in took.items()}
    print(
        f"{size} px: {medians['here']:.2f} ms in this process, {medians['there']:.2f} ms in its own; a step costs "
        f"{medians['there'] - medians['here']:.2f} ms more at the median (goal below {goal_ms:g}), "
        f"{quick['there'] - quick['here']:.2f} ms at the quickest tenth"
    )


def _bench_stop(host: WorkerHost, folder: Path) -> None:
    """From the moment a reason to stop exists until the waiting caller continues."""
    endless = write_onnx(folder / "endless", loops_for_ever(after_row=10))
    waits = []
    for _ in range(STOPS):
        reason_at = [float("inf")]
        with closing(host.load_policy(endless, why_to_stop=partial(_why_to_stop, reason_at))) as policy:
            reason_at[0] = time.monotonic() + 0.1
            with suppress(EpisodeStopped):
                policy.decide(_see(), seed=0, step=0)
            waits.append(time.monotonic() - reason_at[0])
    print(f"a reason to stop ends an endless search after {1000 * max(waits):.0f} ms at the most (goal 200)")


def _why_to_stop(reason_at: list[float]) -> str | None:
    return "cancelled" if time.monotonic() > reason_at[0] else None


def _bench_deadline(host: WorkerHost, folder: Path) -> None:
    endless = write_onnx(folder / "late", loops_for_ever(after_row=10))
    waits = []
    for _ in range(STOPS):
        with closing(host.load_policy(endless, deadline_s=0.1)) as policy:
            began = time.monotonic()
            with suppress(ThoughtTooLong):
                policy.decide(_see(), seed=0, step=0)
            waits.append(time.monotonic() - began - 0.1)
    print(f"a deadline of 0.1 s is overrun by {1000 * max(waits):.0f} ms at the most")


def _see() -> Observation:
    return ScriptedArm(image_size=32).begin(0)


def _time(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
