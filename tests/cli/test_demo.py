"""The loop of `opc demo` at its smallest, through ROS; and that Ctrl-C leaves nothing behind."""

from __future__ import annotations

import io
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from opc_ros.deployment.audit_check import read_audit_log
from opc_ros.deployment.signing import find_signer
from opc_ros.deployment.statement import LabelBody, sign_statement
from opc_ros.episode import LabelSource
from opc_ros.ranking import Ranking
from opc_ros.store import open_store
from tests.cli.test_up import Running
from tests.deployment.lab import GATE
from tests.policies.making import make_candidate, make_episode

pytestmark = pytest.mark.ros
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def rules(tmp_path: Path) -> dict[str, str]:
    """A gate that lets both pass, and a ladder with one episode on two of its rungs."""
    (tmp_path / "gate.yaml").write_text(yaml.safe_dump(GATE))
    scheduler = yaml.safe_load((ROOT / "config" / "scheduler_demo.yaml").read_text())
    for name, episodes in (("twin", 1), ("reduced", 0), ("full", 1)):
        # A starved machine may lose its twin; the interrupted episode is then run again.
        scheduler["ladder"][name] |= {
            "episodes": episodes,
            "success_floor": 0.0,
            "climb_successes": 0,
            "safety_events": 100,
            "broken_episodes": 100,
        }
    scheduler["request_episodes"] = 1
    (tmp_path / "scheduler.yaml").write_text(yaml.safe_dump(scheduler))
    return {"gate_config": str(tmp_path / "gate.yaml"), "scheduler_config": str(tmp_path / "scheduler.yaml")}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A store with one success and one failure, so that a score exists whatever the arm does."""
    outcomes: dict[bool, int] = {}
    seed = 0
    with open_store(tmp_path / "run" / "store", create=True) as store:
        while len(outcomes) < 2:
            episode = make_episode(seed)
            if episode.label.is_success is not None and episode.label.is_success not in outcomes:
                outcomes[episode.label.is_success] = seed
                store.append(episode)
            seed += 1
    return tmp_path / "run"


class Person(threading.Thread):
    """Waits for the first episode of arm1, and labels it a success through the recorder's service, signed."""

    def __init__(self, store: Path) -> None:
        super().__init__(daemon=True)
        self._store = store
        self.is_over = threading.Event()
        self.episode = ""
        self.answer = self.labeller = ""

    def run(self) -> None:
        from opc_interfaces.srv import LabelEpisode

        from tests.ros.conftest import Probe

        while not (found := sorted(self._store.glob("episodes/arm1/**/*.json"))) and not self.is_over.wait(0.1):
            pass
        self.episode = found[0].stem
        probe = Probe()
        signs = find_signer(self._store.parent / "deployment" / "keys")
        said = LabelBody(self.episode, "success")
        envelope = sign_statement("relabel", signs.person, said, signs.signer, time.time_ns())
        self.labeller = signs.person
        self.answer = probe.call(LabelEpisode, "/arm1/recorder/label", statement=envelope).message
        probe.close()


@pytest.fixture
def person(run_folder: Path) -> Iterator[Person]:
    person = Person(run_folder / "store")
    person.start()
    yield person
    person.is_over.set()


def test_the_loop_runs_from_recording_to_a_recorded_outcome(
    ros_domain: int, tmp_path: Path, run_folder: Path, rules: dict[str, str], person: Person
) -> None:
    from opc_ros.demo.loop import run_loop
    from opc_ros.demo.plan import DemoPlan
    from opc_ros.demo.screen import Screen

    for seed in range(2):
        make_candidate(tmp_path / "zoo" / f"c{seed}", name=f"c{seed}", seed=seed)
    plan = DemoPlan(
        run_folder, tmp_path / "zoo", robots=("arm1",), episodes=2, image_size=48, real_time_factor=4.0, **rules
    )
    shown = io.StringIO()
    run_loop(plan, Screen(shown))
    text = shown.getvalue()
    print(text)

    with open_store(plan.store) as store:
        labelled = store.find(person.episode)
        recorded = [episode for episode in store.episodes() if episode.robot == "arm1"]
    assert (labelled.label.source, labelled.label.labeller) == (LabelSource.PERSON, person.labeller), person.answer
    assert sum(not episode.permit_id for episode in recorded) == 2
    ranking = Ranking.from_json(plan.ranking.read_text())
    assert {candidate.name for candidate in ranking.candidates} == {"c0", "c1"}

    told = list(read_audit_log(plan.audit_log))
    requests = [entry.body for entry in told if entry.kind == "request"]
    assert [body["state"] for body in requests] == ["queued", "queued", "refused"]
    assert "is not among the 2 ranked" in requests[2]["reasons"][0]
    outcomes = {
        entry.body["candidate_id"] for entry in told if entry.kind == "episode" and entry.body["rung"] == "full"
    }
    assert outcomes == {candidate.candidate_id for candidate in ranking.candidates}
    ran = {entry.body["episode_id"] for entry in told if entry.kind == "episode"}
    assert ran <= {episode.id for episode in recorded if episode.permit_id}, "what ran under a permit is recorded too"
    assert sum(entry.kind == "champion" for entry in told) == 1
    report = run_folder / "scores" / "newest" / "report.html"
    assert report.is_file()
    outlook = json.loads(report.with_suffix(".json").read_text())["outlook"]
    assert "refused" not in {each["verdict"] for each in outlook["candidates"]}, "the report's gate is the demo's"

    ending = text[text.index("What happened") :].splitlines()
    assert len(ending) <= 24
    assert [line for line in text.splitlines() if len(line) > 100 and str(tmp_path) not in line] == []
    assert "refused  the copy of" in text


def test_ctrl_c_ends_the_demo_and_leaves_no_process(ros_domain: int, tmp_path: Path) -> None:
    demo = Running("demo", "--folder", str(tmp_path), "--history", "0")
    demo.wait_for(lambda lines: any("ROS 2 nodes are starting" in line for line in lines))
    nodes = psutil.Process(demo.process.pid).children(recursive=True)
    assert len(nodes) >= 8
    demo.process.send_signal(signal.SIGINT)
    assert demo.end(deadline_s=60) == 130
    deadline = time.monotonic() + 20
    while any(node.is_running() and node.status() != psutil.STATUS_ZOMBIE for node in nodes):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert demo.lines[-1] == "opc: interrupted\n"
