from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opc_ros.grasp import ActionBounds, GraspAction
from opc_ros.policies.action_search import ChoiceSearch, CrossEntropySearch
from opc_ros.policies.action_space import ActionChoices
from opc_ros.policies.greedy import greedy_actions
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.q_function import Observations, ScriptedQFunction
from tests.policies.making import CHOICES, make_candidate

BOUNDS = ActionBounds(displacement_m=0.05, rotation_rad=0.6)
CEM = CrossEntropySearch(samples=64, elites=6, rounds=2)


def states(count: int, size: int = 8) -> Observations:
    rng = np.random.default_rng(5)
    return Observations(
        images=rng.integers(0, 256, (count, size, size, 3), dtype=np.uint8),
        tools=rng.uniform(-0.04, 0.04, (count, 5)).astype(np.float32),
    )


def hill(images: np.ndarray, tools: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Highest at displacement = tool position, rotation 0.3, gripper closing, not terminating."""
    rotation = np.arctan2(actions[:, 3], actions[:, 4])
    far = ((actions[:, :3] - tools[:, :3]) ** 2).sum(axis=1) / 0.05**2 + (rotation - 0.3) ** 2
    return 1.0 - far / 10 + actions[:, 6] * 0.5 - actions[:, 5] * 0.5 - actions[:, 7] * 0.5


def test_the_search_finds_the_top_of_a_hill() -> None:
    observations = states(6)
    actions, values = greedy_actions(
        ScriptedQFunction(hill), observations, BOUNDS, CrossEntropySearch(samples=128, elites=10, rounds=8)
    )
    np.testing.assert_allclose(actions[:, :3], observations.tools[:, :3], atol=0.003)
    np.testing.assert_allclose(np.arctan2(actions[:, 3], actions[:, 4]), 0.3, atol=0.05)
    assert actions[:, 5:].tolist() == [[0.0, 1.0, 0.0]] * 6
    np.testing.assert_allclose(values, 1.5, atol=0.01)


def test_every_action_lies_within_the_bounds() -> None:
    pulled = ScriptedQFunction(lambda images, tools, actions: actions[:, 0] * 100 + actions[:, 3])
    actions, _ = greedy_actions(pulled, states(4), BOUNDS, CrossEntropySearch(rounds=5))
    for action in actions:
        assert BOUNDS.violations(GraspAction.from_vector(action)) == ()
    assert actions[:, 0].min() > 0.045


def test_the_same_seed_gives_the_same_actions_and_another_seed_others() -> None:
    q_function = ScriptedQFunction(hill)
    first, _ = greedy_actions(q_function, states(3), BOUNDS, CEM, 1)
    again, _ = greedy_actions(q_function, states(3), BOUNDS, CEM, 1)
    other, _ = greedy_actions(q_function, states(3), BOUNDS, CEM, 2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_state_gets_the_same_action_whatever_else_is_in_the_batch() -> None:
    observations = states(100)
    together, _ = greedy_actions(ScriptedQFunction(hill), observations, BOUNDS, CEM)
    alone, _ = greedy_actions(
        ScriptedQFunction(hill), Observations(observations.images[70:71], observations.tools[70:71]), BOUNDS, CEM
    )
    np.testing.assert_array_equal(together[70], alone[0])


def test_the_value_is_the_q_of_the_action(tmp_path) -> None:
    candidate = make_candidate(tmp_path, architecture="target_crop", image_size=32)
    q_function = load_q_function(candidate)
    observations = states(5, size=32)
    actions, values = greedy_actions(q_function, observations, BOUNDS, CEM)
    np.testing.assert_allclose(q_function.q(observations, actions), values, atol=1e-6)


def test_a_factored_q_function_sees_each_image_once() -> None:
    class Counting(ScriptedQFunction):
        images = 0

        def encode(self, observations: Observations) -> Observations:
            self.images += len(observations)
            return observations

        def head(self, code: Observations, actions: np.ndarray) -> np.ndarray:
            times = len(actions) // len(code)
            return hill(code.images, np.repeat(code.tools, times, axis=0), actions).astype(np.float32)

    counting = Counting(hill)
    actions, _ = greedy_actions(counting, states(7), BOUNDS, CEM)
    plain, _ = greedy_actions(ScriptedQFunction(hill), states(7), BOUNDS, CEM)
    assert counting.images == 7
    np.testing.assert_array_equal(actions, plain)


def test_no_states_give_no_actions() -> None:
    actions, values = greedy_actions(ScriptedQFunction(hill), states(0), BOUNDS, CEM)
    assert actions.shape == (0, 8)
    assert values.shape == (0,)


@pytest.mark.parametrize("wrong", [{"elites": 0}, {"samples": 4, "elites": 5}, {"rounds": 0}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected at least one round"):
        CrossEntropySearch(**wrong)


def test_the_best_of_a_few_choices_is_exact_and_of_equals_the_first() -> None:
    """Q is 3 for up in bright images, 2 for down in dark ones; staying and everything else is worth 1."""

    def judge(images: np.ndarray, tools: np.ndarray, actions: np.ndarray) -> np.ndarray:
        is_bright, dz = images[:, 0, 0, 0] > 127, actions[:, 2]
        return 1.0 + 2.0 * (is_bright & (dz > 0)) + 1.0 * (~is_bright & (dz < 0)) * (tools[:, 0] > 0)

    images = np.zeros((3, 8, 8, 3), dtype=np.uint8)
    images[0] = 255
    tools = np.zeros((3, 5), dtype=np.float32)
    tools[1, 0] = 1.0  # the third state has no preference
    actions, values = greedy_actions(
        ScriptedQFunction(judge), Observations(images, tools), ActionChoices(CHOICES), ChoiceSearch()
    )
    assert actions.tolist() == np.array([CHOICES[1], CHOICES[2], CHOICES[0]], dtype=np.float32).tolist()
    assert values.tolist() == [3.0, 2.0, 1.0]


def test_a_network_over_choices_is_asked_about_each_and_takes_others_for_the_nearest(tmp_path: Path) -> None:
    candidate = make_candidate(tmp_path, architecture="region_moments", image_size=40)
    q_function, observations = load_q_function(candidate), states(50, size=40)
    space = candidate.manifest.input.action_space
    each = np.stack([q_function.q(observations, np.tile(np.float32(choice), (50, 1))) for choice in CHOICES], axis=1)
    actions, values = greedy_actions(q_function, observations, space, ChoiceSearch())
    np.testing.assert_allclose(values, each.max(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(actions, np.float32(CHOICES)[each.argmax(axis=1)])
    nearly_up = np.tile(np.float32([0, 0, 0.04, 0, 1, 0, 0, 0]), (50, 1))
    np.testing.assert_array_equal(q_function.q(observations, nearly_up), each[:, 1])


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        (CHOICES[:1], "1 different actions, expected 2 or more"),
        ((CHOICES[0], CHOICES[0]), "1 different actions, expected 2 or more"),
        ((CHOICES[0], (1.0, 2.0)), r"action_choices\[1\] has 2 numbers, expected 8"),
        ((CHOICES[0], (*CHOICES[0][:7], float("nan"))), "expected finite numbers"),
    ],
)
def test_choices_that_make_no_sense_are_refused(choices: tuple[tuple[float, ...], ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        InputSpec(40, 40, action_choices=choices)
