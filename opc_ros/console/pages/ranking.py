"""Ranking: candidates with predicted success and intervals, and comparisons between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from opc_ros.console.app import Console, Page, data_route
from opc_ros.console.lab import label_word
from opc_ros.errors import OpcError

PAGE = Page("/ranking", "Ranking", "ranking.html")
MOST_COMPARED = 4


def routes(console: Console) -> list[Route]:
    def ranking(request: Request) -> object:
        report = console.lab.report()
        if report is None:
            return {"ranking": None}
        ranked = {entry["candidate_id"]: entry for entry in report["ranking"]["candidates"]}
        real = real_results(console)
        predicted = console.lab.predicted(real)
        tags, problem = console.lab.tags()
        rows = [
            ranked[candidate["candidate_id"]]
            | {"predicted": predicted.get(candidate["candidate_id"])}
            | {"tags": tags.get(candidate["candidate_id"], ()), "real": _counted(real.get(candidate["candidate_id"]))}
            | {name: candidate[name] for name in ("family", "training_run", "step", "known_success", "metrics")}
            for candidate in report["candidates"]
        ]
        about = {name: report["ranking"][name] for name in ("metric", "episodes", "successes", "snapshot_id", "top_k")}
        return {"ranking": about | {"made_at": report["made_at"]}, "candidates": rows, "problem": problem}

    def compare(request: Request) -> object:
        ids = [part for part in request.query_params.get("ids", "").split(",") if part]
        if not 2 <= len(ids) <= MOST_COMPARED:
            raise OpcError(f"compare: got {len(ids)} candidates, expected 2 to {MOST_COMPARED}")
        report = console.lab.report()
        if report is None:
            raise OpcError("there is no ranking yet: `opc score` makes one")
        found = [candidate for candidate in report["candidates"] if candidate["candidate_id"] in ids]
        order = [entry["candidate_id"] for entry in report["ranking"]["candidates"]]
        rows = [order.index(candidate["candidate_id"]) for candidate in found]
        beats = [[report["ranking"]["beats"][row][column] for column in rows] for row in rows]
        differing = console.lab.disagreements([candidate["candidate_id"] for candidate in found])
        return {
            "candidates": found,
            "beats": beats,
            "groups": [group for name in ("by_robot", "by_object_set") for group in _scores_in(report, name, rows)],
            "disagreements": [entry | {"label": _label(console, entry["episode_id"])} for entry in differing],
        }

    def history(request: Request) -> object:
        return {"rankings": console.lab.rankings()}

    return [
        data_route("/api/ranking", ranking),
        data_route("/api/ranking/history", history),
        data_route("/api/compare", compare),
    ]


def _counted(real: tuple[int, int] | None) -> dict[str, int] | None:
    return None if real is None else {"successes": real[0], "trials": real[1]}


def _scores_in(report: Mapping[str, Any], name: str, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Scores of some candidates on each part of the set; None for those ranked too low to be in the report."""
    kind = {"by_robot": "robot", "by_object_set": "objects"}[name]
    return [
        {
            "group": f"{kind} {group['group'] or 'not given'}",
            "episodes": group["episodes"],
            "scores": [group["scores"][row] if row < len(group["scores"]) else None for row in rows],
        }
        for group in report.get(name, ())
    ]


def _label(console: Console, episode_id: str) -> str:
    try:
        return label_word(console.lab.find(episode_id))
    except OpcError:
        return "gone"


def real_results(console: Console) -> dict[str, tuple[int, int]]:
    """Successes and trials on arms so far, by candidate id, as the scheduler counts them."""
    status = console.live.document("deployment", max_age_s=10.0) or {}
    return {
        asked["candidate_id"]: (asked["real"]["successes"], asked["real"]["trials"])
        for asked in status.get("requests", [])
        if asked["real"]["trials"]
    }
