"""One step of one episode has one action, whoever asks for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from opc_ros.arms.arm import ScriptedArm
from opc_ros.playing import record_episode
from opc_ros.policies.action_search import CrossEntropySearch, search_seed
from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.greedy import greedy_actions
from opc_ros.policies.image_view import ImageView
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.policy import load_policy, seed_of_recorded
from opc_ros.policies.q_function import Observations
from tests.policies.making import make_candidate


@pytest.fixture
def candidate(tmp_path: Path) -> Candidate:
    search = CrossEntropySearch(samples=16, elites=4, rounds=2)
    return make_candidate(tmp_path, architecture="target_crop", image_size=48, search=search)


def test_an_action_is_what_the_manifests_search_finds_from_seed_and_step(candidate: Candidate) -> None:
    seen = ScriptedArm(image_size=64).begin(7)
    expected, values = greedy_actions(
        load_q_function(candidate),
        Observations.from_sequence([seen], ImageView((48, 48))),
        candidate.manifest.input.action_bounds,
        candidate.manifest.action_search,
        7003,  # 1000 times seed 7, plus step 3
    )
    assert search_seed(7, 3) == 7003
    choice = load_policy(candidate).decide(seen, seed=7, step=3)
    np.testing.assert_array_equal(choice.vector, expected[0])
    assert choice.q == values[0]


def test_playing_an_episode_and_evaluating_it_afterwards_give_the_same_actions(candidate: Candidate) -> None:
    arm = ScriptedArm(image_size=48)
    played, seen = load_policy(candidate), []
    observe = arm.observe

    def keep() -> object:
        seen.append(observe())
        return seen[-1]

    arm.observe = keep  # type: ignore[method-assign,assignment]
    episode = record_episode(arm, played, 11, episode_id="e", object_set="disc", max_steps=6)
    again = load_policy(candidate)
    each, values = again.decide_each(
        Observations.from_sequence(seen[: len(episode.steps)], ImageView((48, 48))), seed=11
    )
    for index, step in enumerate(episode.steps):
        choice = again.decide(seen[index], seed=11, step=index)
        assert choice.action == step.action
        np.testing.assert_array_equal(each[index], choice.vector)
        assert values[index] == np.float32(choice.q)


def test_steps_and_episodes_draw_different_numbers(candidate: Candidate) -> None:
    policy, seen = load_policy(candidate), ScriptedArm(image_size=48).begin(0)
    found = {tuple(policy.decide(seen, seed=seed, step=step).vector) for seed in (0, 1) for step in (0, 1)}
    assert len(found) == 4


def test_another_search_is_another_policy_with_another_id(candidate: Candidate, tmp_path: Path) -> None:
    other = make_candidate(tmp_path / "other", architecture="target_crop", image_size=48)
    assert other.artifact_bytes == candidate.artifact_bytes
    assert other.id != candidate.id
    seen = ScriptedArm(image_size=48).begin(0)
    ours, theirs = (load_policy(one).decide(seen, seed=1, step=0) for one in (candidate, other))
    assert not np.array_equal(ours.vector, theirs.vector)


def test_a_recorded_episode_keeps_its_seed_and_one_without_gets_one_from_its_id() -> None:
    assert seed_of_recorded("e1", 42) == 42
    # sha256("e1") begins with these bytes, by sha256sum.
    assert seed_of_recorded("e1") == 0x8B5CC4DF
    assert seed_of_recorded("e2") != seed_of_recorded("e1")


def test_the_deadline_is_part_of_the_id(candidate: Candidate, tmp_path: Path) -> None:
    hasty = dataclasses.replace(candidate.manifest, think_s=0.5)
    assert write_candidate(tmp_path / "hasty", hasty, candidate.artifact_bytes).id != candidate.id
