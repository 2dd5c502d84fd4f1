"""An episode or candidate that cannot be scored is named with its reason and left out; the others keep their scores."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from opc_ros.policies.candidate import Candidate
from opc_ros.policies.policy import LocalThinker, Policy, load_policy
from opc_ros.policies.q_function import ScriptedQFunction
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.q_cache import QCache
from opc_ros.scoring.scorer import score_candidates
from opc_ros.scoring.source import MemorySource
from tests.policies.making import make_candidate, make_episodes
from tests.scoring.counting_source import EPISODES, CountingSource


class FaultyLoader:
    """Loads every candidate, except one that behaves as told once it has been probed."""

    def __init__(self, candidate_id: str, fault: str) -> None:
        self._candidate_id = candidate_id
        self._fault = fault

    def __call__(self, candidate: Candidate) -> Policy:
        if candidate.id != self._candidate_id:
            return load_policy(candidate)
        if self._fault == "load":
            raise RuntimeError("no such operator")
        calls = 0

        def answer(images: np.ndarray, tools: np.ndarray, actions: np.ndarray) -> np.ndarray:
            nonlocal calls
            calls += 1
            if calls > 1 and self._fault == "raise":
                raise RuntimeError("out of\nmemory")
            return np.full(len(actions), np.nan if calls > 1 else 0.5)

        return Policy(candidate, LocalThinker(candidate.manifest, ScriptedQFunction(answer)))


def test_a_damaged_episode_is_named_and_left_out(q_cache: QCache, candidates: list[Candidate]) -> None:
    scored = score_candidates(CountingSource(EPISODES, damaged="e00004"), candidates, q_cache, LocalEngine())
    assert [(f.id, f.reason) for f in scored.failed_episodes] == [
        ("e00004", "episode e00004: bytes are not what was committed")
    ]
    assert len(scored.refs) == 11
    assert scored.q.shape == (3, scored.lengths.sum())
    assert not scored.is_complete


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("load", "raised RuntimeError: no such operator"),
        ("raise", "raised RuntimeError: out of memory"),
        ("nan", "returned NaN or infinity"),
    ],
)
def test_a_faulty_candidate_is_named_and_left_out(
    q_cache: QCache, candidates: list[Candidate], fault: str, reason: str
) -> None:
    engine = LocalEngine(load=FaultyLoader(candidates[1].id, fault))
    scored = score_candidates(MemorySource(EPISODES), candidates, q_cache, engine)
    assert [failure.id for failure in scored.failed_candidates] == [candidates[1].id]
    assert scored.failed_candidates[0].reason.startswith(reason)
    assert [candidate.id for candidate in scored.candidates] == [candidates[0].id, candidates[2].id]
    assert scored.q.shape == (2, scored.lengths.sum())


class PeekingLoader(FaultyLoader):
    """One candidate whose answer about each state is read from the last row of its batch."""

    def __init__(self, candidate_id: str, share: float) -> None:
        super().__init__(candidate_id, "peek")
        self._share = share

    def __call__(self, candidate: Candidate) -> Policy:
        if candidate.id != self._candidate_id:
            return load_policy(candidate)

        def peek(images: np.ndarray, tools: np.ndarray, actions: np.ndarray) -> np.ndarray:
            own, last = images.reshape(len(images), -1).mean(axis=1) / 255, images[-1].mean() / 255
            return (1 - self._share) * own + self._share * last

        return Policy(candidate, LocalThinker(candidate.manifest, ScriptedQFunction(peek)))


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_candidate_that_reads_the_outcome_from_its_batch_is_refused(
    q_cache: QCache, candidates: list[Candidate], share: float
) -> None:
    engine = LocalEngine(load=PeekingLoader(candidates[1].id, share))
    scored = score_candidates(MemorySource(EPISODES), candidates, q_cache, engine)
    assert [failure.id for failure in scored.failed_candidates] == [candidates[1].id]
    assert "it looks at its neighbours in the batch" in scored.failed_candidates[0].reason


@pytest.mark.parametrize("change", ["other bytes", "deleted"])
def test_a_candidate_whose_file_changes_during_scoring_is_named_and_left_out(
    tmp_path: Path, q_cache: QCache, candidates: list[Candidate], change: str
) -> None:
    victim = make_candidate(tmp_path / "victim", image_size=32, seed=9)
    artifact = tmp_path / "victim" / "weights.safetensors"

    def tamper(done: int, total: int, note: str = "") -> None:
        if done and change == "deleted":
            artifact.unlink(missing_ok=True)
        elif done:
            artifact.write_bytes(candidates[0].artifact_bytes)

    scored = score_candidates(MemorySource(EPISODES), [victim, *candidates], q_cache, LocalEngine(), report=tamper)
    assert [failure.id for failure in scored.failed_candidates] == [victim.id]
    assert "files changed while it was scored" in scored.failed_candidates[0].reason
    assert len(scored.candidates) == 3


def test_a_manifest_with_another_layout_is_still_the_same_candidate(
    tmp_path: Path, q_cache: QCache, candidates: list[Candidate]
) -> None:
    moved = make_candidate(tmp_path / "moved", image_size=32, seed=9)

    def comment(done: int, total: int, note: str = "") -> None:
        (tmp_path / "moved" / "candidate.yaml").write_bytes(b"# trained on Monday\n" + moved.manifest_bytes)

    scored = score_candidates(MemorySource(EPISODES), [moved, *candidates], q_cache, LocalEngine(), report=comment)
    assert scored.is_complete


def test_a_candidate_of_another_task_is_refused_in_one_line(q_cache: QCache, candidates: list[Candidate]) -> None:
    episodes = [dataclasses.replace(episode, task="pong") for episode in make_episodes(3)]
    scored = score_candidates(MemorySource(episodes), candidates[:1], q_cache, LocalEngine())
    (failure,) = scored.failed_candidates
    assert "it is made for grasping, but episode e0000" in failure.reason
    assert failure.reason.endswith("is of pong: score it on a store of its own task")
