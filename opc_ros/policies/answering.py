"""A thinker that asks its network for actions: it has no Q and searches nothing."""

from __future__ import annotations

import numpy as np

from opc_ros.errors import CandidateError
from opc_ros.grasp import ACTION_SIZE
from opc_ros.policies.action_function import ActionFunction, bring_within, check_answers
from opc_ros.policies.action_search import AnswerDraw, search_seed
from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.q_function import Observations
from opc_ros.task import find_task


class AnsweringThinker:
    """Runs in this process; each state is shown to the network alone, as on an arm."""

    def __init__(self, manifest: CandidateManifest, function: ActionFunction) -> None:
        assert isinstance(manifest.action_search, AnswerDraw)
        self._name = manifest.name
        self._bounds = manifest.input.action_bounds
        self._draw = manifest.action_search
        self._function = function

    def q(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        raise CandidateError(why_no_q(self._name))

    def decide_on(self, seen: Observations, *, seed: int, first_step: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Actions (T, A), and zeros (T,) in place of their Q, which is not known."""
        chosen = [self._answer(seen.rows(row, row + 1), seed, first_step + row) for row in range(len(seen))]
        actions = np.concatenate(chosen) if chosen else np.zeros((0, ACTION_SIZE), dtype=np.float32)
        return actions, np.zeros(len(seen), dtype=np.float32)

    def q_in_one_state(self, seen: Observations, actions: np.ndarray) -> np.ndarray:
        raise CandidateError(why_no_q(self._name))

    def close(self) -> None: ...

    def _answer(self, seen: Observations, seed: int, step: int) -> np.ndarray:
        answers = check_answers(self._function.act(seen), 1, self._draw.samples)[0]
        drawn = 0
        if self._draw.samples > 1:
            drawn = int(np.random.default_rng(search_seed(seed, step)).integers(self._draw.samples))
        return bring_within(answers[drawn : drawn + 1], self._bounds)


def why_no_q(name: str) -> str:
    """The error message for callers who ask a policy for Q."""
    return f"candidate {name}: is a policy, which answers actions and no Q: score it with --metric critic"


def probe_answers(function: ActionFunction, manifest: CandidateManifest) -> None:
    """One call on a grey image, so that a wrong image size or answer shows before any real work."""
    assert isinstance(manifest.action_search, AnswerDraw)
    task, (height, width) = find_task(manifest.task, where="task"), manifest.input.image_size
    seen = Observations(
        images=np.full((2, height, width, 3), 128, dtype=np.uint8),
        tools=np.tile(np.array(task.usual_state(), dtype=np.float32), (2, 1)),
    )
    samples = manifest.action_search.samples
    try:
        answers = function.act(seen)
    except Exception as error:  # a candidate may raise anything
        if _answers_one(function, seen.rows(0, 1), samples):
            raise CandidateError(
                "takes exactly 1 row, expected any number: export it with a dynamic batch, or let "
                "`opc candidate export` do it"
            ) from error
        raise
    check_answers(answers, 2, samples)


def _answers_one(function: ActionFunction, seen: Observations, samples: int) -> bool:
    try:
        check_answers(function.act(seen), 1, samples)
    except Exception:  # then the number of rows was not the problem
        return False
    return True
