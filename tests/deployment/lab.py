"""A whole small lab on disk: keys, store, real candidates, their ranking, and rules for a given set of robots."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import yaml

from opc_ros.bringup.config_files import find_config
from opc_ros.deployment.keys import create_keys, export_public_keys
from opc_ros.deployment.signed_ranking import ENVELOPE_NAME, sign_ranking
from opc_ros.deployment.signing import find_signer, load_machine_key, make_machine_key, make_person_key
from opc_ros.deployment.statement import Body, Kind, sign_statement
from opc_ros.episode import Episode
from opc_ros.policies.candidate import Candidate
from opc_ros.ranking import RankedCandidate, Ranking
from opc_ros.scoring.search_look import SearchLook
from opc_ros.store import open_store
from tests.policies.making import make_candidate
from tests.store.grasps import FAILURE, SUCCESS, make_episode

SECOND = 1_000_000_000

GATE = {
    "metric": "soft_opc",
    "within": {"tolerance": 0.9, "confidence": 0.0, "doubt": 0.0},
    "floor": {"success": 0.0, "confidence": 0.0, "doubt": 0.0},
    "snapshot": {"episodes": 2, "successes": 1, "failures": 1, "age_days": 7.0, "robots": 1},
    "agreement": {"spearman": -1.0},
    "resamples": 10,
}


def shift(episode: Episode, start_ns: int) -> Episode:
    """The same episode, started at another time."""
    steps = (
        replace(step, frame=replace(step.frame, stamp_ns=step.frame.stamp_ns + start_ns))  # type: ignore[type-var]
        for step in episode.steps
    )
    return replace(episode, steps=tuple(steps))


def make_lab(
    folder: Path,
    robots: dict[str, list[str]],
    *,
    candidates: int = 1,
    rung_episodes: tuple[int, int, int] = (2, 2, 4),
    request_episodes: int = 4,
    batch_episodes: int = 2,
    heartbeat_s: float = 3.0,
    must_be_recorded: bool = False,
    recording_wait_s: float = 20.0,
) -> list[Candidate]:
    """Everything the scheduler and the runners need below `folder`; `robots` maps names to rungs."""
    create_keys(folder / "deployment" / "keys")
    make_person_key(folder / "deployment" / "keys", "ada")
    keys = folder / "deployment" / "keys"
    make_machine_key(keys, "scorer", "scorer", keys)
    for robot in robots:
        make_machine_key(folder / robot / "keys", robot, "robot", keys)
    for robot in robots:
        export_public_keys(keys, folder / robot / "keys")
    with open_store(folder / "store", create=True) as store:
        for number, label in enumerate((SUCCESS, FAILURE)):
            store.append(shift(make_episode(f"seen{number}", label=label, seed=number), time.time_ns() - 60 * SECOND))
        snapshot = store.take_snapshot()
    made = [make_candidate(folder / "candidates" / f"c{n}", name=f"c{n}", seed=n) for n in range(candidates)]
    _write_ranking(folder / "ranking.json", made, snapshot.id)
    (folder / "gate.yaml").write_text(yaml.safe_dump(GATE))
    ladder = {
        rung: {"episodes": episodes, "success_floor": 0.0, "safety_events": 5, "broken_episodes": 50}
        for rung, episodes in zip(("twin", "reduced", "full"), rung_episodes, strict=True)
    }
    rules = {
        "robots": {name: {"rungs": list(rungs)} for name, rungs in robots.items()},
        "ladder": ladder,
        "lease": {"heartbeat_s": heartbeat_s, "grace_s": 5.0, "length_s": 600.0},
        "rest": {"after_episodes": 100_000, "pause_s": 0.0},
        "race": {"batch_episodes": batch_episodes, "budget_episodes": 100_000, "explore_every": 0},
        "recording": {"required": must_be_recorded, "wait_s": recording_wait_s},
        "request_episodes": request_episodes,
    }
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(rules))
    return made


def say(folder: Path, kind: Kind, body: Body, now_ns: int | None = None) -> str:
    """A statement signed by ada, who belongs to this lab and has every role."""
    signs = find_signer(folder / "deployment" / "keys", folder / "deployment" / "keys" / "ada.person.pem")
    return sign_statement(kind, signs.person, body, signs.signer, time.time_ns() if now_ns is None else now_ns)


def write_patient_arm(path: Path, patience_s: float) -> None:
    """How the twin's arm is reached, with timeouts so long that a busy machine does not look like a dead one."""
    arm = yaml.safe_load(find_config("arm_twin.yaml").read_text())
    patience = {"measurement_timeout_s": patience_s, "connect_timeout_s": patience_s}
    slow = {"camera": {"timeout_s": patience_s}, "motion": {"patience": 50.0}}
    path.write_text(yaml.safe_dump(arm | patience | {key: arm.get(key, {}) | value for key, value in slow.items()}))


def scheduler_parameters(folder: Path) -> dict[str, object]:
    return {
        "state": str(folder / "deployment"),
        "rules": str(folder / "scheduler.yaml"),
        "gate": str(folder / "gate.yaml"),
        "ranking": str(folder / "ranking.json"),
        "store": str(folder / "store"),
        "candidates": str(folder / "candidates"),
        "tick_s": 0.1,
    }


def runner_parameters(folder: Path, robot: str, rungs: list[str], **changes: object) -> dict[str, object]:
    values: dict[str, object] = {
        "arm": "scripted",
        "image_size": 64,
        "rungs": ",".join(rungs),
        "keys": str(folder / robot / "keys"),
        "state": str(folder / robot),
        "heartbeat_s": 3.0,
        "wait_for_recorder": False,
    }
    return values | changes


def _write_ranking(path: Path, candidates: list[Candidate], snapshot_id: str) -> None:
    count = len(candidates)
    placed = tuple(
        RankedCandidate(
            each.id, each.name, 0.5 - 0.01 * n, (0.0, 1.0), n + 1, (1, count), 1.0, search=SearchLook(is_standard=True)
        )
        for n, each in enumerate(candidates)
    )
    ranking = Ranking(
        metric="soft_opc",
        prior=1.0,
        confidence=0.95,
        top_k=count,
        seed=0,
        q_digest="0" * 64,
        scope="registry",
        left_out=(),
        resamples=10,
        snapshot_id=snapshot_id,
        episodes=2,
        successes=1,
        candidates=placed,
        beats=tuple(tuple(0.5 for _ in placed) for _ in placed),
    )
    publish_ranking(path, ranking)


def publish_ranking(path: Path, ranking: Ranking) -> None:
    """As this lab's scorer would publish it: with its signature beside it."""
    path.write_text(ranking.to_json() + "\n")
    signer = load_machine_key(path.parent / "deployment" / "keys", "scorer")
    assert signer is not None
    path.with_name(ENVELOPE_NAME).write_text(sign_ranking(ranking, signer, time.time_ns()))
