"""Scores a folder of candidates on episodes made here and prints the cost as JSON; works with any version of opc_ros.

python tests/benchmarks/zoo_scoring.py FOLDER EPISODES [CANDIDATES]

With a number of candidates, that many are chosen from all over the folder: on a busy machine, where scoring has the
lowest priority, a whole zoo would take too long.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.compute import NICENESS
from opc_ros.scoring import engines
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from tests.policies.making import make_episode

STEPS = 10
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def processor_s() -> float:
    """Processor time of this process and all its descendants: candidates run in some that nobody waits for.

    Processes in a session of their own are left out, because the scorer would lower its priority below everything else
    on a busy machine.
    """
    stats = _read_stats()
    return sum((int(stats[process][11]) + int(stats[process][12])) * _TICK_S for process in _find(os.getpid(), stats))


def find_below(ancestor: int) -> list[int]:
    """All processes that it or one of its descendants has started."""
    return [process for process in _find(ancestor, _read_stats()) if process != ancestor]


def _read_stats() -> dict[int, list[str]]:
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has ended in the meantime
                continue
    return stats


def _find(ancestor: int, stats: dict[int, list[str]]) -> list[int]:
    found = []
    for process in stats:
        above = process
        while above in stats and above != ancestor:
            above = int(stats[above][1])
        if above == ancestor:
            found.append(process)
    return found


def main(folder: Path, episodes: int, few: int = 0) -> None:
    if os.nice(0) >= NICENESS:
        # Its priority is low already; candidates lowered twice would never finish on a busy machine.
        engines.NICENESS = 0  # type: ignore[attr-defined]
    folders = sorted(folder.iterdir())
    candidates = [read_candidate(each) for each in folders[:: len(folders) // few if few else 1][: few or None]]
    source = MemorySource([make_episode(seed, image_size=472, steps=STEPS) for seed in range(episodes)])
    marks: list[tuple[int, float, float]] = []  # pairs done, seconds of wall clock and of processor time

    def keep(done: int, total: int, note: str = "") -> None:
        marks.append((done, time.perf_counter(), processor_s()))

    with tempfile.TemporaryDirectory() as name, QCache(Path(name) / "q.sqlite") as q_cache:
        first = MemorySource([make_episode(10**6, image_size=472, steps=1)])
        score_candidates(first, candidates[:1], q_cache, LocalEngine())  # starts what candidates are forked from
        scored = score_candidates(source, candidates, q_cache, LocalEngine(), report=keep)
    assert not scored.failed_candidates
    begin, end = marks[0], marks[-1]
    found = {
        "candidates": len(candidates),
        "q_values": end[0] * STEPS,
        "wall_s": end[1] - begin[1],
        "processor_s": end[2] - begin[2],
    }
    print(json.dumps(found | {"mean_q": float(np.asarray(scored.q).mean(dtype="f8")), "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
