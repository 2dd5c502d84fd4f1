"""Asked over HTTP: what the lab does now, its audit log, its stops and halts."""

from __future__ import annotations

import functools
import threading

import httpx2
import pytest
from starlette.testclient import TestClient

from opc_ros.console.app import Console
from opc_ros.console.server import ConsoleServer
from opc_ros.errors import SetupError
from tests.console.lab_on_disk import OWN, Clock, CountingCommands


def test_the_audit_log_is_searched_newest_first(client: TestClient) -> None:
    assert [entry["kind"] for entry in client.get("/api/audit").json()["entries"]] == ["halt", "request"]
    found = client.get("/api/audit", params={"text": "careful"}).json()["entries"]
    assert [entry["n"] for entry in found] == [1]


def test_a_stop_reaches_every_robot_that_was_heard(
    client: TestClient, lab: tuple[Console, Clock], commands: CountingCommands
) -> None:
    for robot in ("arm2", "arm1"):
        lab[0].live.update_robot(robot, state="running")
    answer = client.post("/api/stop", json={"robot": ""}, headers=OWN)
    assert answer.json() == {"done": True, "message": "stopped: arm1, arm2"}
    client.post("/api/stop", json={"robot": "arm2"}, headers=OWN)
    assert commands.stopped == [("arm1", "arm2"), ("arm2",)]
    assert "unknown here" in client.post("/api/stop", json={"robot": "arm9"}, headers=OWN).json()["error"]


def test_a_robot_unheard_for_three_seconds_is_offline(client: TestClient, lab: tuple[Console, Clock]) -> None:
    console, clock = lab
    console.live.update_robot("arm1", state="running")
    assert client.get("/api/now").json()["robots"][0]["state"] == "running"
    clock.now_s += 3.1
    assert client.get("/api/now").json()["robots"][0]["state"] == "offline"


def test_images_are_wanted_only_while_somebody_looks(lab: tuple[Console, Clock], client: TestClient) -> None:
    console, clock = lab
    console.live.update_robot("arm1")
    assert console.live.watched() == frozenset()
    client.get("/camera/arm1.jpg")
    assert console.live.watched() == frozenset({"arm1"})
    clock.now_s += 5.1
    assert console.live.watched() == frozenset()


def test_a_taken_port_gives_the_next_and_an_address_that_is_not_ours_is_one_line(lab: tuple[Console, Clock]) -> None:
    first = ConsoleServer(lab[0])
    port = int(first.start().rstrip("/").rpartition(":")[2])
    second = ConsoleServer(lab[0], port=port)
    try:
        assert second.address != first.address
        with pytest.raises(SetupError, match=r"cannot listen on 192\.0\.2\.1"):
            ConsoleServer(lab[0], host="192.0.2.1")
    finally:
        second.stop()
        first.stop()


def test_a_stop_does_not_wait_for_threads_that_a_silent_scheduler_holds(
    lab: tuple[Console, Clock], commands: CountingCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, answers = threading.Semaphore(0), threading.Event()

    def wait_for_an_answer(request_id: str) -> None:
        arrived.release()
        answers.wait(120)

    monkeypatch.setattr(commands, "explain", wait_for_an_answer)
    lab[0].live.update_robot("arm1", state="running")
    server = ConsoleServer(lab[0])
    address = server.start()
    ask = functools.partial(httpx2.get, timeout=180)
    asking = [threading.Thread(target=ask, args=(f"{address}api/decisions/{n}",)) for n in range(45)]
    try:
        for each in asking:
            each.start()
        for _ in range(40):  # as many as there are threads for it
            assert arrived.acquire(timeout=60)
        headers = {"origin": address.rstrip("/"), "x-opc-console": "secret"}
        answer = httpx2.post(f"{address}api/stop", json={"robot": "arm1"}, headers=headers, timeout=30)
        assert answer.json()["done"]
        assert not answers.is_set()
    finally:
        answers.set()
        for each in asking:
            each.join(60)
        server.stop()


def test_a_halt_needs_a_reason_and_no_signature(client: TestClient, commands: CountingCommands) -> None:
    assert "give a reason" in client.post("/api/halt", json={"robot": "arm1"}, headers=OWN).json()["error"]
    said = {"robot": "arm1", "person": "ada", "reason": "smoke"}
    assert client.post("/api/halt", json=said, headers=OWN).json() == {"done": True, "message": "halted: arm1"}
    assert commands.halted == [("arm1", "ada", "smoke")]


def test_a_request_is_explained_rule_by_rule(client: TestClient) -> None:
    (finding,) = client.get("/api/decisions/4f21c09a").json()["findings"]
    assert (finding["rule"], finding["verdict"]) == ("floor", "inconclusive")


def test_the_now_page_shows_what_each_robot_has_achieved_and_gets_next_and_why(
    client: TestClient, lab: tuple[Console, Clock]
) -> None:
    asked = {
        "candidate_id": "c",
        "state": "queued",
        "on_this_rung": {"successes": 3, "trials": 5},
        "running_on": ["arm1"],
    }
    coming = {"arm1": {"name": "careful", "rung": "full", "episodes": 10, "why": "leads the race"}}
    lab[0].live.set_document("deployment", {"requests": [asked], "robots": [], "next": coming})
    for listener, stop_ns in (("guard", 17), ("runner", 17), ("twin", 18), ("twin", 0)):
        lab[0].live.set_stop("arm1", listener, stop_ns)
    now = client.get("/api/now").json()
    assert now["lab"]["so_far"] == {"arm1": {"successes": 3, "trials": 5}}
    assert now["lab"]["next"] == coming
    assert now["robots"][0]["stops"] == ["17"]
