"""Parameters of the scheduler node."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.config import described


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Parameters of the scheduler."""

    state: str = described("deployment", "folder of keys, queue and audit log")
    rules: str = described("config/scheduler.yaml", "rules of the scheduler")
    lab: str = described("", "lab file that names the robots; empty: the rules name them")
    gate: str = described("config/gate.yaml", "rules of the gate")
    ranking: str = described("scores/published/ranking.json", "ranking that the gate uses; read again when it changes")
    store: str = described("store", "validation store that the ranking rests on")
    candidates: str = described("candidates", "folder of registered candidates")
    tick_s: float = described(
        0.5,
        "how often to check everything; new results, requests and robots are handled at once",
        low=0.01,
        high=60.0,
    )
