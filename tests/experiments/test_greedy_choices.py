"""Greedy actions in recorded states are those the policy would take, and are searched once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.experiments import greedy_choices
from opc_ros.experiments.greedy_choices import find_greedy, gather_states, spread_evenly
from opc_ros.policies.action_search import CrossEntropySearch
from opc_ros.policies.policy import load_policy, seed_of_recorded
from tests.policies.making import make_candidate, make_episodes

SEARCH = CrossEntropySearch(samples=4, elites=1, rounds=1)


def test_what_was_searched_is_kept_and_is_what_the_policy_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"architecture": "tool_crop", "image_size": 32, "search": SEARCH, "cells": 8, "channels": [4]}
    candidates = [make_candidate(tmp_path / f"c{seed}", seed=seed, name=f"c{seed}", **settings) for seed in range(2)]
    episodes = make_episodes(2)  # of 3 and 4 steps
    states = gather_states(episodes, (32, 32))
    found = find_greedy(candidates, states, tmp_path / "greedy")
    assert (found.actions.shape, found.q.shape) == ((2, 7, 8), (2, 7))
    policy = load_policy(candidates[1])
    expected, values = policy.decide_each(
        states.seen.rows(3, 7), seed=seed_of_recorded(episodes[1].id, episodes[1].seed)
    )
    np.testing.assert_array_equal(found.actions[1, 3:], expected)
    np.testing.assert_array_equal(found.q[1, 3:], values)
    monkeypatch.setattr(greedy_choices, "_search", lambda *_: pytest.fail("searched again"))
    np.testing.assert_array_equal(find_greedy(candidates, states, tmp_path / "greedy").actions, found.actions)
    turned = gather_states(episodes[::-1], (32, 32))  # answers known from other episodes are reused as well
    again = find_greedy(candidates, turned, tmp_path / "greedy").actions
    np.testing.assert_array_equal(again, np.concatenate([found.actions[:, 3:], found.actions[:, :3]], axis=1))


def test_only_episodes_that_are_new_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"architecture": "tool_crop", "image_size": 32, "search": SEARCH, "cells": 8, "channels": [4]}
    candidates = [make_candidate(tmp_path / "c", seed=0, name="c", **settings)]
    episodes = make_episodes(3)
    find_greedy(candidates, gather_states(episodes[:2], (32, 32)), tmp_path / "greedy")
    searched: list[list[int]] = []
    search = greedy_choices._search
    monkeypatch.setattr(greedy_choices, "_search", lambda c, s, w: searched.append(list(w)) or search(c, s, w))
    find_greedy(candidates, gather_states(episodes, (32, 32)), tmp_path / "greedy")
    assert searched == [[2]]


def test_indices_are_evenly_spread_and_all_are_taken_if_there_are_too_few() -> None:
    np.testing.assert_array_equal(spread_evenly(np.array([3, 5, 8, 9, 12]), 3), [3, 8, 12])
    np.testing.assert_array_equal(spread_evenly(np.array([3, 5]), 3), [3, 5])
