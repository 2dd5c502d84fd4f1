"""Screenshots of every page of the console with a made-up lab: the images in the manual are made with it.

python -m tests.console.pictures FOLDER [--store STORE] [--width 1280] [--dark] [--only ranking]

With `--store`, episodes are those of a store, for instance of `opc collect --world pseudo_real --image-size 320`.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from opc_ros.console.app import Console
from opc_ros.console.lab import ConsoleLab, LabPaths
from opc_ros.console.live import LiveView, RecorderState
from opc_ros.console.server import ConsoleServer
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.confidence import success_interval
from opc_ros.episode import Label, LabelSource
from opc_ros.reporting.page import render_page
from opc_ros.reporting.report import build_report
from opc_ros.scoring.q_cache import EpisodeFacts, QCache, QCacheEntry
from opc_ros.store import open_store
from opc_ros.store.recovery import recover
from opc_ros.workflows.candidate_tags import CandidateTags
from opc_ros.workflows.ranking_archive import RankingArchive
from tests.console.browser import open_browser
from tests.console.lab_on_disk import CountingCommands
from tests.policies.making import make_episodes
from tests.ranking.making import make_scored, rank

PAGES = {"now": "", "ranking": "ranking", "decisions": "decisions", "episodes": "episodes", "race": "race"}
PAGES |= {"reports": "reports"}
CANDIDATES = 14
TAGS = {0: ["wrist-camera"], 1: ["night-run", "wrist-camera"], 3: ["paper"], 6: ["paper", "wrist-camera"]}
# Successes and trials on arms, by rank.
REAL = {0: (41, 50), 1: (33, 45), 2: (20, 30), 4: (9, 20), 7: (5, 20)}


def make_full_lab(folder: Path, store: Path | None, now_ns: int) -> Console:
    """Fourteen candidates in three rankings, thirty episodes, five requests and three arms."""
    paths = LabPaths(folder / "store", folder / "scores" / "published", folder / "deployment", folder / "candidates")
    if store is not None:
        shutil.copytree(store, paths.store)
    ids = _rank(paths)
    _fill_store(paths, ids)
    log = AuditLog(paths.deployment / "audit.jsonl")
    said: tuple[tuple[str, dict[str, Any]], ...] = (
        ("request", {"request": "4f21c09a", "name": ids[0][1], "person": "ada"}),
        ("permit", {"permit": "e5e89338", "robot": "arm1", "rung": "reduced", "episodes": 4}),
        ("episode", {"robot": "arm1", "success": True, "recording": "committed"}),
        ("halt", {"robot": "arm3", "person": "bob", "reason": "gripper squeaks"}),
    )
    for number, (kind, body) in enumerate(said):
        log.append(kind, body, now_ns - (9 - number) * 60 * 10**9)
    console = Console(LiveView(lambda: 100.0), ConsoleLab(paths), CountingCommands(), "secret")
    console.live.set_document("ranking", {"candidates": [{"candidate_id": i, "name": n} for i, n in ids]})
    console.live.set_document("deployment", _deployment(ids))
    _show_arms(console, ids, now_ns)
    return console


def _rank(paths: LabPaths) -> list[tuple[str, str]]:
    """Ids and names, best first."""
    archive = RankingArchive(paths.scores.parent)
    for seed, episodes in enumerate((60, 120, 240)):
        scored, _ = make_scored(candidates=CANDIDATES, episodes=episodes, seed=3)
        ranking = rank(scored, scope="registry", seed=seed)
        made_at = f"2026-11-1{6 + seed}T04:00:00+00:00"
        report = build_report(scored, ranking, known={}, made_at=made_at, version="0", seed=seed)
        archive.keep(ranking, report=report.to_json(), page=render_page(report), made_at=made_at)
    archive.publish(ranking.ranking_id, now="2026-11-18T05:00:00+00:00")
    ids = [(each.candidate_id, each.name) for each in ranking.candidates]
    paths.candidates.mkdir(parents=True)
    for place, tags in TAGS.items():
        CandidateTags(paths.candidates).add(ids[place][0], tags)
    return ids


def _fill_store(paths: LabPaths, ids: list[tuple[str, str]]) -> None:
    """Q of the first five candidates on every episode; two people who disagree; one episode in quarantine."""
    rng = np.random.default_rng(0)
    with open_store(paths.store, create=True) as store:
        if not list(store.episodes()):
            for number, made in enumerate(make_episodes(30, image_size=320, robot="arm1")):
                label = Label() if number % 7 == 3 else made.label
                store.append(replace(made, robot=f"arm{number % 3 + 1}", label=label))
        episodes = list(store.episodes())
        for person, is_success in (("ada", True), ("bob", False)):
            store.label(episodes[1].id, Label(is_success, LabelSource.PERSON, person))
        for each in episodes[3::7]:
            store.label(each.id, Label())
        store.file_of(episodes.pop().id).write_bytes(b"cut off")  # the oldest
        recover(store, is_quick=True)
    with QCache(paths.q_cache) as cache:
        for each in episodes:
            facts = EpisodeFacts(
                each.id, each.file_sha256, each.steps, each.robot, each.behaviour_policy, each.object_set, each.began_ns
            )
            rising = np.linspace(0.2, 0.75 if each.label.outcome == "success" else 0.4, each.steps)
            key = (each.id, each.file_sha256)
            entries = [
                QCacheEntry(
                    i, key, np.clip(rising + rng.normal(0, 0.06, each.steps) - 0.04 * n, 0, 1).astype(np.float32)
                )
                for n, (i, _) in enumerate(ids[:5])
            ]
            cache.append(entries, [facts])


def _deployment(ids: list[tuple[str, str]]) -> dict[str, Any]:
    """The status as the scheduler publishes it."""
    states = {0: "queued", 1: "queued", 2: "waiting", 4: "done", 7: "refused"}
    requests = []
    for place, (successes, trials) in REAL.items():
        low, high = success_interval(successes, trials)
        requests.append(
            {
                "id": f"{place}f21c09a",
                "candidate_id": ids[place][0],
                "name": ids[place][1],
                "state": states[place],
                "rung": "full" if place < 2 else "reduced",
                "requested_by": "ada",
                "reason": "predicted success is 40 % (10 to 70); a person has to decide" if place == 2 else "",
                "on_this_rung": {"successes": 7, "trials": 9},
                "real": {"successes": successes, "trials": trials, "interval": [float(low), float(high)]},
                "running_on": {0: ["arm1"], 1: ["arm2"]}.get(place, []),
            }
        )
    return {
        "deployment_id": "d",
        "champion": ids[0][0],
        "requests": requests,
        "robots": [
            {"robot": "arm1", "state": "running", "halted_by": "", "lease": {"name": ids[0][1], "rung": "full"}},
            {"robot": "arm2", "state": "running", "halted_by": "", "lease": {"name": ids[1][1], "rung": "full"}},
            {"robot": "arm3", "state": "idle", "halted_by": "bob", "lease": None},
        ],
        "next": {
            robot: {
                "name": ids[1][1],
                "rung": "full",
                "episodes": 10,
                "why": "it may be the best (0.41), and has run least",
            }
            for robot in ("arm1", "arm2")
        },
        "race": {"spent": 95, "at_most": 120, "budget": 1071},
    }


def _show_arms(console: Console, ids: list[tuple[str, str]], now_ns: int) -> None:
    with open_store(console.lab.paths.store) as store:
        frames = [store.read(each.id).steps[-1].frame.decode() for each in list(store.episodes())[:3]]
    for number, frame in enumerate(frames, 1):
        recorder = RecorderState("recording" if number < 3 else "idle", "", 10.0, 412 * 10**9, 130 + number, 1, 2)
        running = number < 3
        console.live.update_robot(
            f"arm{number}",
            state="running" if running else "stopped",
            reason="" if running else "stop requested by bob",
            candidate_id=ids[number - 1][0] if running else "",
            permit_id=f"{number}5e89338" * 4 if running else "",
            episode_id=f"arm{number}-20261118T180202.2020" if running else "",
            rung="full" if running else "",
            step=3 * number,
            episodes_left=7,
            guard="running" if running else "stopped",
            guard_reason="",
            recorder=recorder,
        )
        _, jpeg = cv2.imencode(".jpg", cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
        console.live.set_image(f"arm{number}", jpeg.tobytes())
    for number, (robot, kind, text) in enumerate(
        (
            ("arm1", "saved", "arm1-20261118T180142.101000, 9 steps, success"),
            ("arm2", "saved", "arm2-20261118T180148.400120, 12 steps, failure"),
            ("arm3", "stop", "stop requested by bob"),
            ("arm2", "clamped", "joint 4 kept within its limit"),
        )
    ):
        console.live.add_event(now_ns - (40 - 9 * number) * 10**9, robot, kind, text)


def photograph(console: Console, folder: Path, only: str, width: int, is_dark: bool) -> None:
    """One PNG for each page, as tall as the page."""
    server = ConsoleServer(console)
    address = server.start()
    try:
        with open_browser(folder / "profile", width=max(width, 500)) as browser:
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            size = {"width": width, "height": 860, "deviceScaleFactor": 1, "mobile": width < 600}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for name, path in PAGES.items():
                if only in ("", name):
                    _photograph_page(browser, address + path, folder / f"{name}-{width}{'-dark' * is_dark}.png", name)
    finally:
        server.stop()
        shutil.rmtree(folder / "profile", ignore_errors=True)


def _photograph_page(browser: Any, address: str, picture: Path, name: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    ready = {"now": ".card img", "ranking": "#ranking tbody tr", "decisions": "#requests article"}
    ready |= {"episodes": "#episodes tbody tr", "race": "#race tbody tr", "reports": "#reports li"}
    browser.get(address)

    def wait(script: str) -> None:
        WebDriverWait(browser, 30).until(lambda opened: opened.execute_script(f"return {script}"))

    wait(f"document.querySelector('{ready[name]}') !== null")
    if name == "episodes":
        browser.execute_script("document.querySelectorAll('#episodes tbody tr')[4].click()")
        wait("document.querySelectorAll('#curves polyline').length > 0")
    if name == "ranking":
        browser.execute_script(
            "document.querySelectorAll('#ranking tbody input').forEach((b, i) => i < 3 && b.click())"
        )
        browser.execute_script("document.getElementById('compare').click()")
        wait("document.querySelectorAll('#comparison figure').length === 3")
        browser.execute_script("window.scrollTo(0, 0)")
    wait("[...document.images].every((each) => each.complete)")
    height = browser.execute_script("return document.documentElement.scrollHeight")
    size = {"width": browser.execute_script("return innerWidth"), "height": height, "scale": 1, "x": 0, "y": 0}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": size})
    picture.write_bytes(base64.b64decode(shot["data"]))
    print(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--only", default="", choices=("", *PAGES))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    lab = arguments.folder / "lab"
    shutil.rmtree(lab, ignore_errors=True)
    console = make_full_lab(lab, arguments.store, time.time_ns())
    photograph(console, arguments.folder, arguments.only, arguments.width, arguments.dark)


if __name__ == "__main__":
    main()
