"""What candidates would have done in recorded states, searched once for each candidate and kept on disk."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Steps of some episodes, concatenated."""

    episodes: tuple[Episode, ...]
    seen: Observations  # (M, ...)
    actions: np.ndarray  # (M, 8), as recorded
    lengths: np.ndarray  # (E,)


@dataclass(frozen=True, slots=True)
class GreedyChoices:
    """The greedy action of every candidate in every state, and its Q."""

    actions: np.ndarray  # (C, M, 8)
    q: np.ndarray  # (C, M), the candidate's Q of its own action


def gather_states(episodes: Sequence[Episode], image_size: tuple[int, int]) -> RecordedStates:
    images = [resize_image(step.frame.decode(), image_size) for episode in episodes for step in episode.steps]
    return RecordedStates(
        episodes=tuple(episodes),
        seen=Observations(images=np.stack(images), tools=np.concatenate([e.states() for e in episodes])),
        actions=np.concatenate([episode.actions() for episode in episodes]),
        lengths=np.array([len(episode.steps) for episode in episodes]),
    )


def spread_evenly(available: np.ndarray, count: int) -> np.ndarray:
    """At most `most` of the given indices, evenly spread."""
    if available.size <= count:
        return available
    return np.asarray(available[np.unique(np.linspace(0, available.size - 1, count).round().astype(int))])


def find_greedy(
    candidates: Sequence[Candidate], states: RecordedStates, folder: Path, *, report: Report = ignore_progress
) -> GreedyChoices:
    """Search what the folder lacks, episode by episode; an interrupted call resumes at the candidate it had reached."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for done, candidate in enumerate(candidates, start=1):
        path = folder / f"{candidate.id[:16]}.npz"
        known = _read(path)
        missing = [index for index, episode in enumerate(states.episodes) if episode.id not in known]
        if missing:
            known |= _search(candidate, states, missing)
            replace_file(path, _to_bytes(known))
        found.append(np.concatenate([known[episode.id] for episode in states.episodes]))
        report(done, len(candidates), candidate.name)
    both = np.stack(found)
    return GreedyChoices(both[:, :, :-1], both[:, :, -1])


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    with np.load(path) as file:
        return {episode_id: file[episode_id] for episode_id in file.files}


def _search(candidate: Candidate, states: RecordedStates, wanted: Sequence[int]) -> dict[str, np.ndarray]:
    """Actions and their Q side by side, (T, 9), for each of the wanted episodes, by id."""
    policy = load_policy(candidate, device="cpu")
    ends = np.cumsum(states.lengths).tolist()
    found = {}
    for index in wanted:
        episode = states.episodes[index]
        seen = states.seen.rows(ends[index] - len(episode.steps), ends[index])
        actions, values = policy.decide_each(seen, seed=seed_of_recorded(episode.id, episode.seed))
        found[episode.id] = np.column_stack([actions, values]).astype(np.float32)
    policy.close()
    return found


def _to_bytes(arrays: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # keyed by episode id
    return buffer.getvalue()
