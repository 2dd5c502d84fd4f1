"""Now: every arm, what it runs and its state, and the stop button."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from opc_ros.console.app import Console, Page, action_route, data_route, text_field
from opc_ros.errors import OpcError

PAGE = Page("/", "Now", "now.html")
PACE_S = 0.1  # a page gets at most ten updates a second
KEEP_ALIVE_S = 1.0


def routes(console: Console) -> list[Route]:
    def current(request: Request) -> object:
        return describe(console, after_event=0)

    async def stream(request: Request) -> Response:
        start = int(request.headers.get("last-event-id", "0") or 0)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(_follow(console, start), media_type="text/event-stream", headers=headers)

    async def camera(request: Request) -> Response:
        jpeg = console.live.image(request.path_params["robot"])
        if jpeg is None:
            return Response(status_code=204)
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "no-store"})

    def stop(body: dict[str, object]) -> object:
        robot = text_field(body, "robot")
        known = console.live.robot_names()
        if robot and robot not in known:
            raise OpcError(f"robot {robot!r} is unknown here; use `opc stop {robot}`")
        answer = console.commands.stop((robot,) if robot else known, text_field(body, "person"))
        return {"done": answer.is_done, "message": answer.message}

    return [
        data_route("/api/now", current),
        Route("/api/stream", stream),
        Route("/camera/{robot}.jpg", camera),
        action_route("/api/stop", stop, never_waits=True),
    ]


def describe(console: Console, after_event: int) -> dict[str, object]:
    """Everything the page shows; only events after the given number."""
    status = console.live.document("deployment", max_age_s=10.0)
    return {
        "robots": console.live.robots(),
        "events": console.live.events(after_event),
        "names": _candidate_names(console),
        "lab": {
            "is_heard": status is not None,
            "champion": (status or {}).get("champion", ""),
            "waiting": sum(r.get("state") == "waiting" for r in (status or {}).get("requests", [])),
            "robots": (status or {}).get("robots", []),
            "next": (status or {}).get("next", {}),
            "so_far": _so_far(status or {}),
        },
    }


def _so_far(status: dict[str, Any]) -> dict[str, dict[str, int]]:
    """By robot: successes and episodes of its current candidate on the current rung."""
    return {
        robot: {"successes": asked["on_this_rung"]["successes"], "trials": asked["on_this_rung"]["trials"]}
        for asked in status.get("requests", [])
        for robot in asked.get("running_on", [])
    }


def _candidate_names(console: Console) -> dict[str, str]:
    ranking = console.live.document("ranking")
    return {} if ranking is None else {entry["candidate_id"]: entry["name"] for entry in ranking["candidates"]}


async def _follow(console: Console, last_event: int) -> AsyncIterator[str]:
    """Server-sent events: a description after every change, and a keep-alive while nothing changes."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(changed.set)

    forget = console.live.on_change(wake)
    try:
        while True:
            changed.clear()
            description = describe(console, last_event)
            events = description["events"]
            assert isinstance(events, list)
            last_event = events[-1]["number"] if events else last_event
            yield f"id: {last_event}\ndata: {json.dumps(description)}\n\n"
            await asyncio.sleep(PACE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), KEEP_ALIVE_S)
    finally:
        forget()
