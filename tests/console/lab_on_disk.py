"""A small lab's folders for the console's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from opc_ros.console.app import Console
from opc_ros.console.commands import CommandAnswer
from opc_ros.console.lab import ConsoleLab, LabPaths
from opc_ros.console.live import LiveView
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.ranking import Ranking
from opc_ros.reporting.report import build_report
from opc_ros.scoring.q_cache import EpisodeFacts, QCache, QCacheEntry
from opc_ros.store import open_store
from tests.ranking.making import make_scored, rank

HOSTILE = "<script>alert(1)</script>"
ORIGIN = "http://localhost"
OWN = {"origin": ORIGIN, "x-opc-console": "secret"}  # what the console's own page sends with each click


class Clock:
    """A monotonic clock that tests can set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class CountingCommands:
    """Remembers what it was told, and answers accordingly."""

    takes_statements = True

    def __init__(self) -> None:
        self.stopped: list[tuple[str, ...]] = []
        self.submitted: list[str] = []
        self.halted: list[tuple[str, str, str]] = []
        self.answer = CommandAnswer(True, "approved")
        self.findings = [
            {"rule": "floor", "verdict": "inconclusive", "sentence": "predicted success is 40 % (10 to 70)"}
        ]

    def stop(self, robots: tuple[str, ...], person: str) -> CommandAnswer:
        self.stopped.append(robots)
        return CommandAnswer(True, f"stopped: {', '.join(robots)}")

    def submit(self, envelope: str) -> CommandAnswer:
        self.submitted.append(envelope)
        return self.answer

    def halt(self, robot: str, person: str, reason: str) -> CommandAnswer:
        self.halted.append((robot, person, reason))
        return CommandAnswer(True, f"halted: {robot or 'every robot'}")

    def explain(self, request_id: str) -> dict[str, Any]:
        return {"findings": self.findings}


def make_episode(
    number: int, *, robot: str = "arm1", policy: str = "better", is_success: bool | None = True
) -> Episode:
    image = np.full((32, 32, 3), 40 * number % 256, dtype=np.uint8)
    tool = ToolState(0.5, 0.0, 0.2, 0.0, 0.08)
    begin_ns = 1_700_000_000_000_000_000 + number * 1_000_000_000
    steps = tuple(
        GraspStep(Frame.from_image(image, begin_ns + 1_000_000 * step), tool, GraspAction(terminate=step == 2))
        for step in range(3)
    )
    label = Label() if is_success is None else Label(is_success, LabelSource.EPISODE_END, robot)
    return Episode(f"{robot}-{number:03}", robot, policy, steps, label, object_set="discs")


def make_console(folder: Path, commands: CountingCommands | None = None) -> tuple[Console, Clock]:
    """Three episodes, Q values of one candidate on the first, and an audit log of two lines."""
    paths = LabPaths(folder / "store", folder / "scores" / "published", folder / "deployment", folder / "candidates")
    with open_store(paths.store, create=True) as store:
        first = store.append(make_episode(1))
        store.append(make_episode(2, is_success=False))
        store.append(make_episode(3, robot="arm2", policy=HOSTILE, is_success=None))
    with QCache(paths.q_cache) as cache:
        facts = EpisodeFacts(first.id, first.file_sha256, 3, "arm1", "better", "discs", first.began_ns)
        values = np.array([0.25, 0.5, 0.75], dtype=np.float32)
        cache.append([QCacheEntry("c" * 64, (first.id, first.file_sha256), values)], [facts])
    log = AuditLog(paths.deployment / "audit.jsonl")
    log.append("request", {"candidate": "careful"}, 1)
    log.append("halt", {"robot": "arm1"}, 2)
    clock = Clock()
    return Console(LiveView(clock), ConsoleLab(paths, clock), commands or CountingCommands(), "secret"), clock


def publish_ranking(console: Console, candidates: int) -> Ranking:
    """Where the console looks for the ranking that the gate reads."""
    scored, _ = make_scored(candidates=candidates, episodes=80)
    ranking = rank(scored)
    report = build_report(scored, ranking, known={}, made_at="2026-11-16T04:00:00+00:00", version="0", seed=0)
    scores = console.lab.paths.scores
    scores.mkdir(parents=True)
    (scores / "ranking.json").write_text(ranking.to_json())
    (scores / "report.json").write_text(report.to_json())
    return ranking
