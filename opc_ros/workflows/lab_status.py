"""The state of a lab: store, published ranking, registry, requests and robots, and what waits for a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.status import describe_deployment, describe_recordings
from opc_ros.errors import OpcError
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.store import open_store
from opc_ros.workflows.ranking_archive import PUBLISHED, RankingArchive


@dataclass(frozen=True, slots=True)
class LabFolders:
    """Where a lab keeps its files."""

    store: Path
    candidates: Path
    scores: Path
    deployment: Path


@dataclass(frozen=True, slots=True)
class LabStatus:
    """One line for each part of the lab, and one for each thing that a person has to do."""

    lines: tuple[tuple[str, str], ...]  # part, state
    waiting: tuple[str, ...]


def describe_lab(folders: LabFolders, now_ns: int) -> LabStatus:
    """Describe every part; if one cannot be read, its line says so, and the others still appear."""
    waiting: list[str] = []
    parts: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("store", lambda: _describe_store(folders.store, waiting)),
        ("candidates", lambda: _describe_candidates(folders.candidates, waiting)),
        ("ranking", lambda: _describe_ranking(folders, waiting)),
        ("deployment", lambda: _describe_deployment(folders.deployment, now_ns, waiting)),
    )
    lines = []
    for name, describe in parts:
        try:
            lines += [(name, line) for line in describe()]
        except OpcError as error:
            lines.append((name, str(error)))
    return LabStatus(tuple(lines), tuple(waiting))


def _describe_store(path: Path, waiting: list[str]) -> list[str]:
    with open_store(path) as store:
        total = store.statistics().total
    if total.unlabelled:
        waiting.append(f"{total.unlabelled} episodes have no label: `opc store label EPISODE success|failure`")
    return [f"{total.episodes} episodes, {total.successes} successes, {total.failures} failures"]


def _describe_candidates(path: Path, waiting: list[str]) -> list[str]:
    found, unreadable = CandidateRegistry(path).find_each(())
    for folder, error in unreadable:
        waiting.append(f"{folder.name} cannot be read: {error}; `opc candidate remove {folder.name}`")
    return [f"{len(found)} registered"]


def _describe_ranking(folders: LabFolders, waiting: list[str]) -> list[str]:
    archive = RankingArchive(folders.scores)
    ranking = archive.read(PUBLISHED)
    ranked = {each.candidate_id for each in ranking.candidates} | {each.candidate_id for each in ranking.left_out}
    try:
        found, _ = CandidateRegistry(folders.candidates).find_each(())
    except OpcError:
        found = []
    new = sorted(candidate.name for candidate in found if candidate.id not in ranked)
    if new:
        shown = ", ".join(new[:3]) + (", ..." if len(new) > 3 else "")
        waiting.append(f"{len(new)} candidates are not in the published ranking ({shown}): `opc score`")
    best = ranking.candidates[0]
    return [
        f"{ranking.ranking_id[:12]} published, {len(ranking.candidates)} candidates by {ranking.metric} on "
        f"{ranking.episodes} episodes; first {best.name} ({best.score:.4f})"
    ]


def _describe_deployment(path: Path, now_ns: int, waiting: list[str]) -> list[str]:
    with DeploymentFolder(path).look() as queue:
        document = describe_deployment(queue, now_ns)
    states: dict[str, int] = {}
    for request in document["requests"]:
        state = "running" if request["running_on"] else request["state"]
        states[state] = states.get(state, 0) + 1
        if request["state"] == "waiting":
            waiting.append(f"request {request['id']} ({request['name']}): `opc deploy approve` or `reject` it")
    lines = [f"champion {document['champion_name'] or 'none'}"]
    lines.append("requests: " + (", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"))
    lines += describe_recordings(document)
    for robot in document["robots"]:
        lease = robot["lease"]
        doing = f"plays {lease['name']} ({lease['rung']})" if lease else "free"
        if robot["halted_by"]:
            doing = f"halted by {robot['halted_by']}"
            waiting.append(f"{robot['robot']} is halted by {robot['halted_by']}: `opc deploy resume --robot`")
        lines.append(f"{robot['robot']}: {robot['state']}, {doing}")
    return lines
