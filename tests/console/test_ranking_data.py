"""Asked over HTTP: rankings, their history and their reports."""

from __future__ import annotations

import base64
import hashlib
import re

from starlette.testclient import TestClient

from opc_ros.console.app import Console
from opc_ros.reporting.page import render_page
from opc_ros.reporting.report import build_report
from opc_ros.workflows.candidate_tags import CandidateTags
from opc_ros.workflows.ranking_archive import RankingArchive
from tests.console.lab_on_disk import Clock, publish_ranking
from tests.ranking.making import make_scored, rank


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
