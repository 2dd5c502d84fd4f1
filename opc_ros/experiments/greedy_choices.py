"""What candidates would have done in recorded states, searched once for each candidate and kept on disk."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.durable import replace_file
from opc_ros.episode import Episode
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.image_view import resize_image
from opc_ros.policies.policy import load_policy, seed_of_recorded
from opc_ros.policies.q_function import Observations
from opc_ros.progress import Report, ignore_progress


@dataclass(frozen=True, slots=True)
class RecordedStates:
    """Steps of some episodes, one episode behind the other."""

    episodes: tuple[Episode, ...]
    seen: Observations  # (M, ...)
    actions: np.ndarray  # (M, 8), as recorded
    lengths: np.ndarray  # (E,)

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(episode.id for episode in self.episodes).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class GreedyChoices:
    """Of every candidate in every state."""

    actions: np.ndarray  # (C, M, 8)
    q: np.ndarray  # (C, M), what the candidate thinks of its own action


def gather_states(episodes: Sequence[Episode], image_size: tuple[int, int]) -> RecordedStates:
    images = [resize_image(step.frame.decode(), image_size) for episode in episodes for step in episode.steps]
    return RecordedStates(
        episodes=tuple(episodes),
        seen=Observations(images=np.stack(images), tools=np.concatenate([e.states() for e in episodes])),
        actions=np.concatenate([episode.actions() for episode in episodes]),
        lengths=np.array([len(episode.steps) for episode in episodes]),
    )


def find_greedy(
    candidates: Sequence[Candidate], states: RecordedStates, folder: Path, *, report: Report = ignore_progress
) -> GreedyChoices:
    """Search what the folder lacks; an interrupted call goes on at the candidate it was at."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for done, candidate in enumerate(candidates, start=1):
        path = folder / f"{candidate.id[:16]}-{states.digest}.npy"
        if not path.exists():
            replace_file(path, _to_bytes(_search(candidate, states)))
        found.append(np.load(path))
        report(done, len(candidates), candidate.name)
    both = np.stack(found)
    return GreedyChoices(both[:, :, :-1], both[:, :, -1])


def _search(candidate: Candidate, states: RecordedStates) -> np.ndarray:
    """Actions and their Q side by side, (M, 9)."""
    policy = load_policy(candidate, device="cpu")
    rows, start = [], 0
    for episode, length in zip(states.episodes, states.lengths.tolist(), strict=True):
        seed = seed_of_recorded(episode.id, episode.seed)
        actions, values = policy.decide_each(states.seen.rows(start, start + length), seed=seed)
        rows.append(np.column_stack([actions, values]))
        start += length
    policy.close()
    return np.concatenate(rows).astype(np.float32)


def _to_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()
