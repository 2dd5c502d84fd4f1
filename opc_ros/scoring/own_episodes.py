"""Episodes that say nothing about a candidate because it played them itself or was trained on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from opc_ros.policies.behaviour_identity import behaviour_id
from opc_ros.policies.candidate import Candidate
from opc_ros.scoring.q_cache import EpisodeFacts

LEAST_LEFT = 20  # of each outcome: with fewer, a resample could have none


def find_own_episodes(
    candidates: Sequence[Candidate], facts: Sequence[EpisodeFacts], trained_on: Mapping[str, Collection[str]]
) -> np.ndarray:
    """Which episodes do not count for which candidate, (C, E) bool.

    These are the episodes that it played, under this name or another, or with random actions mixed in; and, by
    candidate id, those it was trained on.
    """
    own = np.zeros((len(candidates), len(facts)), dtype=np.bool_)
    played: dict[str, list[int]] = {}
    for index, fact in enumerate(facts):
        played.setdefault(fact.behaviour_policy.partition("+random")[0], []).append(index)
    behaviours = {one.id: behaviour_id(one) for one in candidates} if played.keys() & {c.id for c in candidates} else {}
    for row, candidate in enumerate(candidates):
        alike = [key for key, behaviour in behaviours.items() if behaviour == behaviours[candidate.id]]
        for key in alike or [candidate.id]:
            own[row, played.get(key, [])] = True
        seen = trained_on.get(candidate.id)
        if seen:
            own[row] |= [fact.id in seen for fact in facts]
    return own


def find_too_few(own: np.ndarray, success: np.ndarray) -> str:
    """Why a candidate cannot be scored on the episodes left for it; empty if enough are left or none were taken."""
    if not own.any():
        return ""
    left = (int((success & ~own).sum()), int((~success & ~own).sum()))
    if min(left) >= LEAST_LEFT:
        return ""
    return (
        f"has played or was trained on {int(own.sum())} of {own.size} episodes, which leaves {left[0]} successes and "
        f"{left[1]} failures to judge it by, expected {LEAST_LEFT} of each: record more with other policies"
    )
