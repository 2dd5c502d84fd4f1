"""Asked over HTTP: episodes are found, shown, and opened elsewhere; who disagrees about their labels is told."""

from __future__ import annotations

from datetime import datetime

import pytest
from starlette.testclient import TestClient

from opc_ros.console.app import Console
from opc_ros.console.lab import find_disagreements
from opc_ros.episode import Label, LabelSource
from opc_ros.store import open_store
from tests.console.lab_on_disk import HOSTILE, Clock


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
