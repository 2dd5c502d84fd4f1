"""The steps of episodes, decoded once for all candidates, in every view they need."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.episode import Episode
from opc_ros.policies.image_view import ImageView, show_in_each
from opc_ros.policies.policy import seed_of_recorded
from opc_ros.scoring.failure import Failure, describe_failure
from opc_ros.scoring.mixed_batches import COMPANY
from opc_ros.scoring.q_cache import EpisodeFacts
from opc_ros.scoring.source import EpisodeRef, EpisodeSource


@dataclass(frozen=True, slots=True)
class EpisodeStates:
    """The states of one episode, as candidates see them."""

    facts: EpisodeFacts
    task: str
    seed: int  # seeds the random numbers of policies evaluated on it
    images: Mapping[ImageView, np.ndarray]  # (T, H, W, 3) for each view
    tools: np.ndarray  # (T, 5)
    actions: np.ndarray  # (T, 8)


def read_states(
    source: EpisodeSource, refs: Sequence[EpisodeRef], views: Collection[ImageView]
) -> tuple[list[EpisodeStates], tuple[Failure, ...]]:
    states, failures = [], []
    for ref in refs:
        try:
            states.append(_decode(source.read(ref), ref, views))
        except Exception as error:  # damaged bytes may raise anything, and the others must still be scored
            failures.append(Failure(ref.id, describe_failure(error)))
    return states, tuple(failures)


def read_company(
    source: EpisodeSource, refs: Sequence[EpisodeRef], views: Collection[ImageView]
) -> list[EpisodeStates]:
    """Further episodes of the set, if too few are to be scored to mix their states well."""
    missing = COMPANY - len(refs)
    if missing <= 0:
        return []
    asked = {ref.id for ref in refs}
    # They depend on the first episode in question, so that a candidate does not always meet the same ones.
    others = sorted(
        (ref for ref in source.refs if ref.id not in asked),
        key=lambda ref: hashlib.sha256(f"{refs[0].file_sha256} {ref.file_sha256}".encode()).digest(),
    )
    return read_states(source, others[:missing], views)[0]


def _decode(episode: Episode, ref: EpisodeRef, views: Collection[ImageView]) -> EpisodeStates:
    images = {view: np.empty((len(episode.steps), *view.size, 3), dtype=np.uint8) for view in views}
    for index, step in enumerate(episode.steps):
        for view, image in show_in_each(step.frame, views).items():
            images[view][index] = image
    return EpisodeStates(
        task=episode.task,
        facts=EpisodeFacts(
            id=ref.id,
            file_sha256=ref.file_sha256,
            steps=len(episode.steps),
            robot=episode.robot,
            behaviour_policy=episode.behaviour_policy,
            object_set=episode.object_set,
            started_ns=episode.started_ns,
        ),
        seed=seed_of_recorded(episode.id, episode.seed),
        images=images,
        tools=episode.states(),
        actions=episode.actions(),
    )
