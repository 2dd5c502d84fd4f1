"""A stack of candidates is evaluated at once, and one that breaks it is identified and left out alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from opc_ros.errors import WorkerLost
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.image_view import ImageView
from opc_ros.policies.policy import Policy, load_policy
from opc_ros.policies.q_function import Observations
from opc_ros.policies.stack import LocalStack
from opc_ros.policies.worker.loader import PolicyLoader
from opc_ros.scoring.asking import LoadedCandidate, ask_stack, load_together
from opc_ros.scoring.episode_states import EpisodeStates, read_states
from opc_ros.scoring.source import MemorySource
from tests.policies.making import make_candidate, make_episodes

VIEW = ImageView((32, 32))


class SpoiledStack:
    """Whenever a certain member is queried, the process dies, or that member's answers are not numbers."""

    def __init__(self, members: int, spoiler: int, *, dies: bool) -> None:
        self.policies: tuple[Policy, ...] = ()
        self._members, self._spoiler, self._dies = members, spoiler, dies
        self.questions = 0

    def q(self, members: Sequence[int], seen: Observations, actions: np.ndarray) -> np.ndarray:
        self.questions += 1
        if self._dies and self._spoiler in members:
            raise WorkerLost("its process died")
        answers = np.stack([seen.tools[:, 0] + member for member in members]).astype(np.float32)
        if self._spoiler in members:
            answers[list(members).index(self._spoiler)] = np.nan
        return answers

    def close(self) -> None: ...


def load(stack: SpoiledStack | LocalStack, members: int) -> list[LoadedCandidate]:
    return [LoadedCandidate(f"c{n}", stack, n, VIEW, "grasping", False) for n in range(members)]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def states() -> list[EpisodeStates]:
    source = MemorySource(make_episodes(8, image_size=32))
    found, failures = read_states(source, source.refs, {VIEW})
    assert not failures
    return found


@pytest.mark.parametrize(("dies", "reason"), [(True, "its process died"), (False, "returned NaN or infinity")])
def test_only_the_member_that_spoils_a_stack_is_left_out(states: list[EpisodeStates], dies: bool, reason: str) -> None:
    stack = SpoiledStack(3, spoiler=1, dies=dies)
    answers, failures = ask_stack(load(stack, 3), states)
    assert [failure.id for failure in failures] == ["c1"]
    assert reason in failures[0].reason
    expected = np.concatenate([state.tools[:, 0] for state in states])
    np.testing.assert_array_equal(answers["c0"], expected)
    np.testing.assert_array_equal(answers["c2"], (expected + 2).astype(np.float32))


def test_a_good_stack_is_asked_once_for_each_batch(states: list[EpisodeStates]) -> None:
    stack = SpoiledStack(3, spoiler=9, dies=True)
    ask_stack(load(stack, 3), states)
    steps = sum(state.facts.steps for state in states)
    assert stack.questions == -(-steps // 64) + 1  # and one state alone


def test_a_stack_that_cannot_be_loaded_is_loaded_one_by_one(tmp_path: Path) -> None:
    good = [make_candidate(tmp_path / f"{seed}", seed=seed, image_size=32) for seed in range(2)]
    broken = Candidate("0" * 64, good[0].manifest, good[0].manifest_bytes, b"no weights", tmp_path)
    with PolicyLoader() as loader:
        loaded, failures = load_together([*good, broken], loader, at_least=1)
        assert set(loaded) == {candidate.id for candidate in good}
        assert [failure.id for failure in failures] == [broken.id]
        assert "is not a safetensors file" in failures[0].reason
        rows = Observations(np.zeros((2, 32, 32, 3), dtype=np.uint8), np.zeros((2, 5), dtype=np.float32))
        actions = np.zeros((2, 8), dtype=np.float32)
        for candidate in good:
            found = loaded[candidate.id].policy.q(rows, actions)
            np.testing.assert_array_equal(found, load_policy(candidate).q(rows, actions))
