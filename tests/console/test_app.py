"""The console's pages and data, requested over HTTP."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import threading
from datetime import datetime
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from opc_ros.console.app import Console, build_app
from opc_ros.console.guarding import BURST, Guarded
from opc_ros.console.lab import find_disagreements
from opc_ros.console.server import ConsoleServer
from opc_ros.episode import Label, LabelSource
from opc_ros.errors import SetupError
from opc_ros.reporting.page import render_page
from opc_ros.reporting.report import build_report
from opc_ros.store import open_store
from opc_ros.workflows.candidate_tags import CandidateTags
from opc_ros.workflows.ranking_archive import RankingArchive
from tests.console.lab_on_disk import HOSTILE, Clock, CountingCommands, make_console, publish_ranking
from tests.ranking.making import make_scored, rank

ORIGIN = "http://localhost"
OWN = {"origin": ORIGIN, "x-opc-console": "secret"}


@pytest.fixture
def commands() -> CountingCommands:
    return CountingCommands()


@pytest.fixture
def lab(tmp_path: Path, commands: CountingCommands) -> tuple[Console, Clock]:
    return make_console(tmp_path, commands)


@pytest.fixture
def client(lab: tuple[Console, Clock]) -> TestClient:
    return TestClient(build_app(lab[0]), base_url=ORIGIN)


@pytest.mark.parametrize("path", ["/", "/ranking", "/decisions", "/episodes", "/race", "/reports"])
def test_every_page_comes_with_strict_headers_and_no_inline_script(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-inline" not in policy
    assert "default-src 'none'" in policy
    assert "<script>" not in answer.text
    assert " onclick=" not in answer.text


def test_a_stored_report_sorts_and_leads_to_its_episodes(client: TestClient, lab: tuple[Console, Clock]) -> None:
    scored, _ = make_scored(candidates=2, episodes=40)
    ranking = rank(scored, scope="registry")
    report = build_report(scored, ranking, known={}, made_at="2026-11-16T04:00:00+00:00", version="0", seed=0)
    folder = lab[0].lab.paths.scores.parent / "0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text(render_page(report))
    answer = client.get("/reports/0123456789abcdef")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"script-src 'sha256-{digest}'" in policy  # its own script and no other
    assert "default-src 'none'" in policy
    found = client.get("/store/episodes/arm1/2026-11-16/arm1-001.mcap", follow_redirects=False)
    assert (found.status_code, found.headers["location"]) == (307, "/episodes?id=arm1-001")


def test_episodes_are_found_newest_first_and_filtered(client: TestClient) -> None:
    everything = client.get("/api/episodes").json()
    assert [episode["id"] for episode in everything["episodes"]] == ["arm2-003", "arm1-002", "arm1-001"]
    assert everything["facets"]["robots"] == ["arm1", "arm2"]
    failed = client.get("/api/episodes", params={"label": "failure", "robot": "arm1"}).json()
    assert [episode["id"] for episode in failed["episodes"]] == ["arm1-002"]
    for name, value, wanted in (
        ("label", "none", ["arm2-003"]),
        ("label", "excluded", []),
        ("health", "noted", []),
        ("health", "ok", ["arm2-003", "arm1-002", "arm1-001"]),
        ("text", "m1-0", ["arm1-002", "arm1-001"]),
        ("first", "2", ["arm1-001"]),
    ):
        found = client.get("/api/episodes", params={name: value}).json()
        assert [episode["id"] for episode in found["episodes"]] == wanted
        assert found["total"] == (3 if name == "first" else len(wanted))


def test_an_episode_shows_tool_action_and_each_candidates_q(client: TestClient) -> None:
    shown = client.get("/api/episodes/arm1-001").json()
    assert shown["actions"][2][-1] == 1.0  # terminates
    assert shown["q"] == [{"candidate_id": "c" * 64, "name": "c" * 12, "values": [0.25, 0.5, 0.75]}]
    frame = client.get("/episodes/arm1-001/frame/0")
    assert frame.headers["content-type"] == "image/jpeg"
    assert client.get("/episodes/arm1-001/frame/9").json() == {
        "error": "episode arm1-001: has 3 frames, asked for number 9"
    }


@pytest.mark.parametrize("name", ["nobody", "..%2F..%2Fetc", "%00"])
def test_an_unknown_episode_is_one_line(client: TestClient, name: str) -> None:
    answer = client.get(f"/api/episodes/{name}")
    assert answer.status_code in (404, 409)
    assert "error" in answer.json()


def test_names_from_episodes_travel_as_text_in_json_alone(client: TestClient) -> None:
    found = client.get("/api/episodes", params={"robot": "arm2"})
    assert found.headers["content-type"] == "application/json"
    assert found.json()["episodes"][0]["policy"] == HOSTILE
    assert HOSTILE not in client.get("/episodes").text


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


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": ORIGIN},
        {"origin": ORIGIN, "x-opc-console": "guess"},
        {"x-opc-console": "secret"},
        {"origin": "http://evil.example", "x-opc-console": "secret"},
        {"origin": "null", "x-opc-console": "secret"},
    ],
)
def test_what_does_not_come_from_the_consoles_own_page_changes_nothing(
    client: TestClient, commands: CountingCommands, headers: dict[str, str]
) -> None:
    answer = client.post("/api/stop", json={"robot": ""}, headers=headers)
    assert answer.status_code == 403
    assert client.post("/api/statements", json={"envelope": "{}"}, headers=headers).status_code == 403
    assert (commands.stopped, commands.submitted) == ([], [])


def test_another_host_name_is_not_served(lab: tuple[Console, Clock]) -> None:
    rebound = TestClient(build_app(lab[0]), base_url="http://evil.example")
    assert rebound.get("/api/now").status_code == 421


def test_beyond_loopback_everybody_needs_the_token(lab: tuple[Console, Clock]) -> None:
    app = build_app(lab[0], hosts=frozenset({"lab.local"}), needs_token_to_read=True)
    client = TestClient(app, base_url="http://lab.local", follow_redirects=False)
    assert client.get("/api/now").status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    first = client.get("/?token=secret")
    assert first.status_code == 303
    assert "httponly" in first.headers["set-cookie"].lower()
    assert client.get("/api/now").status_code == 200


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'{"robot": 7}', b'{"robot": "' + b"x" * 300 + b'"}'])
def test_a_body_that_is_not_expected_is_refused_in_one_line(
    client: TestClient, commands: CountingCommands, body: bytes
) -> None:
    answer = client.post("/api/stop", content=body, headers=OWN)
    assert answer.status_code in (400, 409)
    assert "expected" in answer.json()["error"]
    assert commands.stopped == []


def test_a_flood_is_slowed_down(lab: tuple[Console, Clock]) -> None:
    app = Guarded(
        build_app(lab[0]), token="", hosts=frozenset({"localhost"}), needs_token_to_read=False, now_s=lambda: 0.0
    )
    client = TestClient(app, base_url=ORIGIN)
    codes = [client.get("/static/icon.svg").status_code for _ in range(BURST + 5)]
    assert codes == [200] * BURST + [429] * 5


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


def test_how_the_ranking_moved_is_shown_from_the_stored_rankings(
    client: TestClient, lab: tuple[Console, Clock]
) -> None:
    assert client.get("/api/ranking/history").json() == {"rankings": []}
    archive = RankingArchive(lab[0].lab.paths.scores.parent)
    for episodes in (40, 80):
        scored, _ = make_scored(candidates=3, episodes=episodes)
        ranking = rank(scored, scope="registry")
        archive.keep(ranking, report="{}", page="", made_at=f"2026-11-16T04:00:{episodes}+00:00")
    archive.publish(ranking.ranking_id, now="2026-11-16T05:00:00+00:00")
    found = client.get("/api/ranking/history").json()["rankings"]
    assert [entry["episodes"] for entry in found] == [40, 80]
    assert sorted(found[1]["ranks"].values()) == [1, 2, 3]


def test_the_ranking_shows_predicted_success_that_follows_real_results(
    client: TestClient, lab: tuple[Console, Clock]
) -> None:
    ranking = publish_ranking(lab[0], candidates=6)
    before = {row["candidate_id"]: row["predicted"] for row in client.get("/api/ranking").json()["candidates"]}
    assert all(0 <= each["low"] <= each["mean"] <= each["high"] <= 1 for each in before.values())
    last = ranking.candidates[-1].candidate_id
    asked = {"candidate_id": last, "real": {"successes": 48, "trials": 50}}
    lab[0].live.set_document("deployment", {"requests": [asked], "robots": []})
    after = {row["candidate_id"]: row["predicted"] for row in client.get("/api/ranking").json()["candidates"]}
    assert after[last]["mean"] > max(0.8, before[last]["mean"])
    shown = {row["candidate_id"]: row["real"] for row in client.get("/api/ranking").json()["candidates"]}
    assert shown.pop(last) == {"successes": 48, "trials": 50}
    assert set(shown.values()) == {None}
    ids = ",".join(candidate.candidate_id for candidate in ranking.candidates[:2])
    assert len(client.get("/api/compare", params={"ids": ids}).json()["beats"]) == 2


def test_the_ranking_shows_tags_and_survives_a_damaged_file_of_them(
    client: TestClient, lab: tuple[Console, Clock]
) -> None:
    ranking = publish_ranking(lab[0], candidates=2)
    registry = lab[0].lab.paths.candidates
    registry.mkdir()
    first, second = (each.candidate_id for each in ranking.candidates)
    CandidateTags(registry).add(first, ["wrist", "night"])
    answer = client.get("/api/ranking").json()
    assert {row["candidate_id"]: row["tags"] for row in answer["candidates"]} == {first: ["night", "wrist"], second: []}
    assert answer["problem"] == ""
    (registry / "tags.json").write_text("{")
    answer = client.get("/api/ranking").json()
    assert [row["tags"] for row in answer["candidates"]] == [[], []]
    assert "tags.json: not JSON" in answer["problem"]


def test_a_report_that_replaces_another_is_read_again(lab: tuple[Console, Clock]) -> None:
    assert lab[0].lab.report() is None
    publish_ranking(lab[0], candidates=2)
    first = lab[0].lab.report()
    assert first is not None
    assert lab[0].lab.report() is first
    path = lab[0].lab.paths.scores / "report.json"
    path.with_suffix(".new").write_text(path.read_text().replace("2026-11-16", "2026-11-17"))
    path.with_suffix(".new").rename(path)
    second = lab[0].lab.report()
    assert second is not None
    assert second["made_at"].startswith("2026-11-17")


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


def test_episodes_are_found_by_day(client: TestClient) -> None:
    day = datetime.fromtimestamp(1_700_000_000).strftime("%Y-%m-%d")  # on which all three began
    for given, total in (
        ({"since": day}, 3),
        ({"until": day}, 3),
        ({"since": "2030-01-01"}, 0),
        ({"until": "2001-01-01"}, 0),
    ):
        assert client.get("/api/episodes", params=given).json()["total"] == total
    answer = client.get("/api/episodes", params={"since": "yesterday"}).json()
    assert answer == {"error": "since: got 'yesterday', expected a day such as 2026-11-18"}


def test_an_episodes_labels_are_listed_and_people_who_disagree_are_named(
    client: TestClient, lab: tuple[Console, Clock]
) -> None:
    def say(person: str, is_success: bool) -> None:
        with open_store(lab[0].lab.paths.store) as store:
            store.label("arm1-001", Label(is_success, LabelSource.PERSON, person), note="looked twice")

    say("ada", False)
    say("ada", True)  # she changed her mind, which is not a dispute
    assert client.get("/api/disputes").json() == {"disputes": []}
    say("bob", False)
    lab[1].now_s += 6.0
    (dispute,) = client.get("/api/disputes").json()["disputes"]
    assert dispute["said"] == {"ada": "success", "bob": "failure"}
    assert dispute["episode_id"] == dispute["episode"]["id"] == "arm1-001"
    history = client.get("/api/episodes/arm1-001").json()["history"]
    assert [(entry["labeller"], entry["label"]) for entry in history] == [
        ("ada", "failure"),
        ("ada", "success"),
        ("bob", "failure"),
    ]
    assert history[0]["note"] == "looked twice"
    assert not history[0]["is_signed"]


def test_an_episodes_file_opens_elsewhere(client: TestClient) -> None:
    shown = client.get("/api/episodes/arm1-001").json()
    assert shown["file"] == "http://localhost/episodes/arm1-001/file"
    assert shown["foxglove"] == (
        "foxglove://open?ds=remote-file&ds.url=http%3A%2F%2Flocalhost%2Fepisodes%2Farm1-001%2Ffile"
    )
    assert client.get("/episodes/arm1-001/file").content.startswith(b"\x89MCAP0")


def test_two_candidates_disagree_most_where_their_own_scales_put_an_episode_furthest_apart() -> None:
    # One answers between 0 and 1, the other between 10 and 20: only b is high for one and low for the other.
    found = find_disagreements([{"a": 0.0, "b": 1.0, "c": 0.5, "only": 1.0}, {"a": 10.0, "b": 10.0, "c": 20.0}], most=2)
    assert [entry["episode_id"] for entry in found] == ["b", "c"]
    assert found[0]["q"] == [1.0, 10.0]
    assert find_disagreements([{"a": 1.0}, {"a": 1.0}], most=2) == []
