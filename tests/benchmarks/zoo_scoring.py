"""Scores a folder of candidates on episodes made here and prints what it took as JSON; runs in any tree of opc_ros."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from opc_ros.policies.candidate import read_candidate
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from tests.policies.making import make_episode

STEPS = 10
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def processor_s() -> float:
    """Processor time of all processes of this session: candidates think in some that nobody waits for."""
    total, session = 0.0, os.getsid(0)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                total += (int(fields[11]) + int(fields[12])) * _TICK_S
    return total


def main(folder: Path, episodes: int) -> None:
    candidates = [read_candidate(each) for each in sorted(folder.iterdir())]
    source = MemorySource([make_episode(seed, image_size=472, steps=STEPS) for seed in range(episodes)])
    marks: list[tuple[int, float, float]] = []  # pairs done, seconds by the clock and by the processor

    def keep(done: int, total: int, note: str = "") -> None:
        marks.append((done, time.perf_counter(), processor_s()))

    with tempfile.TemporaryDirectory() as name, QCache(Path(name) / "q.sqlite") as q_cache:
        first = MemorySource([make_episode(10**6, image_size=472, steps=1)])
        score_candidates(first, candidates[:1], q_cache, LocalEngine())  # starts what candidates are forked from
        scored = score_candidates(source, candidates, q_cache, LocalEngine(), report=keep)
    assert not scored.failed_candidates
    begin, end = marks[0], marks[-1]
    found = {"q_values": end[0] * STEPS, "wall_s": end[1] - begin[1], "processor_s": end[2] - begin[2]}
    print(json.dumps(found | {"mean_q": float(scored.q.mean(dtype="f8")), "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
