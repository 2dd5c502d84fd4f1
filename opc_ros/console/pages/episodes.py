"""Episodes: find them, play them frame by frame with every candidate's Q, and label them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import cv2
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from opc_ros.console.app import Console, Page, data_route
from opc_ros.console.lab import label_word
from opc_ros.episode import Frame, Outcome
from opc_ros.errors import OpcError
from opc_ros.store import CommittedEpisode, Selection
from opc_ros.task import find_task

PAGE = Page("/episodes", "Episodes", "episodes.html")
PAGE_SIZE = 50
MOST_CURVES = 12
OUTCOMES: Mapping[str, Outcome] = {
    "success": "success",
    "failure": "failure",
    "none": "unlabelled",
    "excluded": "excluded",
}
FILTERS = ("robot", "policy", "object_set", "label", "health", "text")


def routes(console: Console) -> list[Route]:
    def find(request: Request) -> object:
        given = request.query_params
        robot, policy, object_set, label, health, text = (given.get(name, "")[:200] for name in FILTERS)
        selection = Selection(
            robots=(robot,) if robot else (),
            behaviour_policies=(policy,) if policy else (),
            object_sets=(object_set,) if object_set else (),
            outcomes=(OUTCOMES[label],) if label in OUTCOMES else (),
            since_ns=read_day(given.get("since", ""), "since"),
            until_ns=read_day(given.get("until", ""), "until", days=1),
            is_healthy={"ok": True, "noted": False}.get(health),
            id_part=text,
        )
        first = read_integer(given.get("first", "0"), "first")
        total, page = console.lab.episodes(selection, first=first, count=PAGE_SIZE)
        return {
            "total": total,
            "first": first,
            "page_size": PAGE_SIZE,
            "episodes": [describe(episode) for episode in page],
            "facets": console.lab.facets(),
        }

    def show(request: Request) -> object:
        committed = console.lab.find(request.path_params["episode"])
        episode = console.lab.read(committed.id)
        curves = console.lab.q_along(committed)
        task = find_task(episode.task, where=f"episode {episode.id}")
        names = _names(console)
        file = f"{str(request.base_url).rstrip('/')}/episodes/{committed.id}/file"
        shown = sorted(curves, key=lambda candidate_id: names.get(candidate_id, (10**9, ""))[0])[:MOST_CURVES]
        return describe(committed) | {
            "history": console.lab.label_history(committed.id),
            "file": file,
            "foxglove": f"foxglove://open?ds=remote-file&ds.url={quote(file, safe='')}",
            "action_names": task.action_names,
            "state_names": task.state_names,
            "tool": [[round(float(v), 4) for v in row] for row in episode.states()],
            "actions": [[round(float(v), 4) for v in row] for row in episode.actions()],
            "q": [{"candidate_id": c, "name": names.get(c, (0, c[:12]))[1], "values": curves[c]} for c in shown],
        }

    def frame(request: Request) -> Response:
        episode = console.lab.read(request.path_params["episode"])
        index = request.path_params["index"]
        if index >= len(episode.steps):
            raise OpcError(f"episode {episode.id}: has {len(episode.steps)} frames, asked for number {index}")
        data, kind = as_image(episode.steps[index].frame)
        return Response(data, media_type=kind, headers={"cache-control": "private, max-age=3600"})

    def file(request: Request) -> Response:
        path = console.lab.file_of(request.path_params["episode"])
        return FileResponse(path, media_type="application/octet-stream", filename=path.name)

    def disputes(request: Request) -> object:
        return {
            "disputes": [
                each | {"episode": _describe_known(console, each["episode_id"])} for each in console.lab.disputes()
            ]
        }

    def quarantine(request: Request) -> object:
        return {"quarantined": console.lab.quarantined()}

    return [
        data_route("/api/episodes", find),
        data_route("/api/episodes/{episode}", show),
        Route("/episodes/{episode}/frame/{index:int}", frame),
        Route("/episodes/{episode}/file", file),
        data_route("/api/disputes", disputes),
        data_route("/api/quarantine", quarantine),
    ]


def describe(episode: CommittedEpisode) -> dict[str, Any]:
    return {
        "id": episode.id,
        "robot": episode.robot,
        "policy": episode.behaviour_policy,
        "object_set": episode.object_set,
        "began_ns": str(episode.began_ns),  # has more digits than a browser's numbers can hold
        "duration_s": round(episode.duration_ns / 1e9, 2),
        "steps": episode.steps,
        "label": label_word(episode),
        "labeller": episode.label.labeller,
        "label_revision": episode.label_revision,
        "health": list(episode.health),
        "permit_id": episode.permit_id,
    }


def _describe_known(console: Console, episode_id: str) -> dict[str, Any] | None:
    """None for an episode that still has labels but no file."""
    try:
        return describe(console.lab.find(episode_id))
    except OpcError:
        return None


def as_image(frame: Frame) -> tuple[bytes, str]:
    """The camera's own bytes if a browser can show them; raw frames become PNG."""
    if frame.encoding in ("jpeg", "png"):
        return frame.data, f"image/{frame.encoding}"
    _, encoded = cv2.imencode(".png", cv2.cvtColor(frame.decode(), cv2.COLOR_RGB2BGR))
    return encoded.tobytes(), "image/png"


def read_integer(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise OpcError(f"{name}: got {text[:20]!r}, expected a whole number")
    return int(text)


def read_day(text: str, name: str, *, days: int = 0) -> int | None:
    """The beginning of a day such as 2026-11-18, in local time, in nanoseconds; None for an empty text."""
    if not text:
        return None
    try:
        moment = datetime.strptime(text[:20], "%Y-%m-%d") + timedelta(days=days)
        return int(moment.astimezone().timestamp() * 1_000_000_000)
    except (ValueError, OverflowError) as error:
        raise OpcError(f"{name}: got {text[:20]!r}, expected a day such as 2026-11-18") from error


def _names(console: Console) -> dict[str, tuple[int, str]]:
    """Rank and name by candidate id."""
    report = console.lab.report()
    if report is None:
        return {}
    return {entry["candidate_id"]: (entry["rank"], entry["name"]) for entry in report["ranking"]["candidates"]}
