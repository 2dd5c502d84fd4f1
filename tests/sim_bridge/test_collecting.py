"""Episodes depend only on world, policy and seed, not on who plays them or how many play at once."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal

import pytest

from opc_ros.episode import Episode, LabelSource
from opc_ros.errors import ArmLost, ConfigError
from sim_bridge.collecting import CollectionPlan, collect

PLAN = CollectionPlan("train", "scripted", image_size=32)


def digest(episode: Episode) -> str:
    content = hashlib.sha256(episode.id.encode())
    for step in episode.steps:
        content.update(step.frame.stamp_ns.to_bytes(8, "little"))
        content.update(step.frame.data)
        content.update(step.action.to_vector().tobytes())
        content.update(step.tool.to_vector().tobytes())
    return content.hexdigest()


def test_two_processes_collect_the_same_bytes_as_one_in_the_same_order() -> None:
    seeds = [7, 2, 5, 9]
    alone = [digest(episode) for episode in collect(PLAN, seeds)]
    together = [digest(episode) for episode in collect(PLAN, seeds, workers=2)]
    reversed_order = [digest(episode) for episode in collect(PLAN, seeds[::-1])]
    assert alone == together == reversed_order[::-1]
    assert len(set(alone)) == 4


def test_an_episode_says_who_played_what_and_how_it_ended() -> None:
    (episode,) = collect(PLAN, [3])
    assert episode.id == "train-scripted-32px-00000003"
    assert (episode.robot, episode.behaviour_policy, episode.object_set) == ("twin", "scripted", "train")
    assert episode.label.source is LabelSource.EPISODE_END
    assert episode.label.is_success is not None
    assert episode.steps[-1].action.terminate or len(episode.steps) == 20
    assert episode.steps[0].frame.decode().shape == (32, 32, 3)


def test_a_worker_that_dies_is_reported_and_ends_the_others() -> None:
    others = set(multiprocessing.active_children())
    stream = collect(PLAN, range(50), workers=2)
    next(stream)
    victim, other = set(multiprocessing.active_children()) - others
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(ArmLost, match="a worker process died"):
        list(stream)
    other.join(timeout=30)
    assert not other.is_alive()


def test_refuses_a_plan_that_names_nothing() -> None:
    with pytest.raises(ConfigError, match="world 'moon'"):
        CollectionPlan("moon", "scripted")
    with pytest.raises(ConfigError, match="behaviour policy 'luck'"):
        CollectionPlan("train", "luck")
    with pytest.raises(ConfigError, match="workers: got 0"):
        collect(PLAN, [1], workers=0)
