"""The console as a process: what nodes publish is on its pages, and its stop button reaches the arm's topic."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy")

from opc_interfaces.msg import SafetyEvent
from std_msgs.msg import Bool

from opc_ros.ros import topics
from tests.ros.conftest import Probe, Process

pytestmark = pytest.mark.ros

Start = Callable[..., Process]


def address_of(console: Process, probe: Probe) -> str:
    def found() -> re.Match[str] | None:
        return re.search(r"http://\S+", "\n".join(console.said()))

    probe.until(found, "the console printed no address")
    match = found()
    assert match is not None
    return match.group(0)


def get(address: str, path: str) -> Any:
    with urllib.request.urlopen(address + path, timeout=30) as answer:
        return json.loads(answer.read())


def post(address: str, path: str, body: object) -> Any:
    page = urllib.request.urlopen(address, timeout=30).read().decode()
    token = re.search(r'name="opc-token" content="([^"]+)"', page)
    assert token is not None
    headers = {
        "content-type": "application/json",
        "origin": address.rstrip("/"),
        "x-opc-console": token.group(1),
    }
    request = urllib.request.Request(address + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def test_a_recorded_episode_a_safety_event_and_a_camera_are_on_the_page_and_a_click_stops(
    tmp_path: Path, start: Start, probe: Probe
) -> None:
    store = tmp_path / "store"
    start("recorder", "/arm1", store=store)
    start("scripted_arm", "/arm1", episodes=0, seed=1)
    console = start("console", "/", port=0, store=store, scores=tmp_path / "scores" / "latest")
    address = address_of(console, probe)
    probe.until(lambda: any(e["kind"] == "saved" for e in get(address, "api/now")["events"]), "no episode was shown")
    probe.until(lambda: get(address, "api/episodes")["total"] > 0, "no episode was listed")
    urllib.request.urlopen(f"{address}camera/arm1.jpg", timeout=30)  # somebody is watching
    probe.until(lambda: get(address, "api/now")["robots"][0]["frame"] > 0, "no image came")
    jpeg = urllib.request.urlopen(f"{address}camera/arm1.jpg", timeout=30).read()
    assert jpeg[:2] == b"\xff\xd8"

    events = probe.publisher(SafetyEvent, "/arm1/safety/event", topics.RECORDED)
    events.publish(SafetyEvent(robot="arm1", kind=SafetyEvent.WATCHDOG, detail="it fell silent"))
    probe.until(
        lambda: any(e["text"] == "it fell silent" for e in get(address, "api/now")["events"]), "the event was not shown"
    )
    stops = probe.listen(Bool, "/arm1/stop", topics.LATEST)
    probe.until(
        lambda: "console" in {each.node_name for each in probe.node.get_publishers_info_by_topic("/arm1/stop")},
        "the console was not ready to stop before anybody pressed the button",
    )
    assert not any(stop.data for stop in stops)
    assert post(address, "api/stop", {"robot": "arm1"})["done"]
    probe.until(lambda: any(stop.data for stop in stops), "no stop came")
    began_s = time.monotonic()
    console.signal(signal.SIGINT)
    assert console.wait() == 0
    assert time.monotonic() - began_s < 30.0
