"""Scores candidates by what they would have done: asks each for its own actions, and lets a judge rate them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from opc_ros.camera import CameraSpec
from opc_ros.errors import ScoreError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.critic import VERSION as CRITIC_VERSION
from opc_ros.policies.critic import Critic, fit_critic
from opc_ros.progress import Report, ignore_progress
from opc_ros.scoring.agreement import VERSION as AGREEMENT_VERSION
from opc_ros.scoring.agreement import AgreementJudge
from opc_ros.scoring.engines import Engine
from opc_ros.scoring.known_values import read_row
from opc_ros.scoring.metric import Asks
from opc_ros.scoring.q_cache import QCache, QCacheEntry
from opc_ros.scoring.recorded_set import RecordedSet, read_recorded
from opc_ros.scoring.scorer import ScoredSet, score_candidates
from opc_ros.scoring.source import EpisodeRef, EpisodeSource
from opc_ros.scoring.value_rows import gather_rows


class Judge(Protocol):
    """Rates what a candidate would have done in the recorded states."""

    def rate(self, actions: np.ndarray) -> np.ndarray:
        """One number for each own action (N, A), (N,) float32; higher is better."""
        ...


def fit_critic_to(recorded: RecordedSet, camera: CameraSpec | None) -> Critic:
    """A critic of this set; with a camera it sees where actions lead."""
    images, states, actions = recorded.images, recorded.states, recorded.actions
    return fit_critic(images, states, actions, recorded.lengths, recorded.success, recorded.keys, camera)


MakeJudge = Callable[[RecordedSet, CameraSpec | None], Judge]
_JUDGES: dict[Asks, tuple[str, MakeJudge]] = {
    "agreement": (AGREEMENT_VERSION, lambda recorded, camera: AgreementJudge(recorded)),
    "critic": (CRITIC_VERSION, fit_critic_to),
}


def score_by_judge(
    source: EpisodeSource,
    candidates: Sequence[Candidate],
    q_cache: QCache,
    engine: Engine,
    *,
    asks: Asks,
    trained_on: Mapping[str, Collection[str]] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    report: Report = ignore_progress,
) -> ScoredSet:
    """Like `score_candidates`, but with a judge's numbers in place of Q.

    These depend on the whole set of episodes, so the Q cache keeps them under that set's digest; the candidates' own
    actions do not, and are computed only once.
    """
    acted = score_candidates(
        source,
        candidates,
        q_cache,
        engine,
        has_only_actions=True,
        trained_on=trained_on,
        is_cancelled=is_cancelled,
        report=report,
    )
    if not acted.candidates:
        return dataclasses.replace(acted, asks=asks)
    own_actions = acted.actions
    assert own_actions is not None
    camera = _find_camera(acted.candidates) if asks == "critic" else None
    quantity = f"{asks}:{_digest(asks, acted.refs, camera)}"
    known = q_cache.find_episodes(acted.refs)

    def rows() -> Iterator[np.ndarray]:
        judge: Judge | None = None
        for row, candidate in enumerate(acted.candidates):
            rated = read_row(q_cache, candidate.id, quantity, known)
            if rated is None:
                judge = judge or _JUDGES[asks][1](read_recorded(source, acted.refs), camera)
                rated = _rate(judge, candidate, own_actions[row], quantity)
                parts = np.split(rated, np.cumsum(acted.lengths)[:-1])
                q_cache.append(
                    QCacheEntry(candidate.id, ref.key, part, quantity)
                    for ref, part in zip(acted.refs, parts, strict=True)
                )
            yield rated

    rated = gather_rows(rows(), len(acted.candidates), q_cache.path.parent)
    return dataclasses.replace(acted, q=rated, asks=asks)


def _rate(judge: Judge, candidate: Candidate, own_actions: np.ndarray, quantity: str) -> np.ndarray:
    values = judge.rate(own_actions)
    if not np.isfinite(values).all():
        raise ScoreError(f"candidate {candidate.name}: its {quantity.partition(':')[0]} is not finite")
    return values.astype(np.float32)


def _digest(asks: Asks, refs: Sequence[EpisodeRef], camera: CameraSpec | None) -> str:
    """What a judge's numbers depend on besides the candidate: its version, the episodes with outcomes, the camera."""
    lines = [f"opc judge 1 {asks} {_JUDGES[asks][0]}", repr(camera)]
    lines += [f"{ref.id} {ref.file_sha256} {ref.is_success}" for ref in refs]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _find_camera(candidates: Sequence[Candidate]) -> CameraSpec | None:
    """The camera that candidates state, which lets the critic look where actions lead; all must state the same."""
    stated = {candidate.manifest.input.camera: candidate.name for candidate in candidates}
    stated.pop(None, None)
    if len(stated) > 1:
        first, second = list(stated.values())[:2]
        raise ScoreError(f"candidates {first} and {second} state different cameras: score them in stores of their own")
    return next(iter(stated), None)
