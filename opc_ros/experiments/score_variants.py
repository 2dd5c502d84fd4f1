"""Every score that decision 14 lists, computed for all candidates on one validation set."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.policies.candidate import Candidate
from opc_ros.scoring import compute_metric, final_rewards, score_baselines

BASE = "soft_opc_over_spread"
BY_Q = ("opc", "soft_opc", BASE, "soft_opc_on_ranks", "episode_auc", "weighted_auc", "auc_by_step", "opc_by_episode")
WEIGHT = 0.3  # of a second part; from the first, exploratory look, not tuned again
_RIDGE = 3.0
_GAMMA = re.compile(r'"gamma":\s*([0-9.]+)')  # in the notes of a training run with a discount other than its recipe's
_RECIPE_GAMMA = 0.9  # of the zoo's recipes that state none
_FAR = 8  # from this many steps before the end on, steps are treated alike


@dataclass(frozen=True, slots=True)
class ActedOn:
    """Greedy actions of C candidates in the M states of some successes."""

    recorded: np.ndarray  # (M, 8)
    lengths: np.ndarray  # (E,)
    greedy: np.ndarray  # (C, M, 8)
    greedy_q: np.ndarray  # (C, M)
    q: np.ndarray  # (C, M), at the recorded action


def score_by_q(q: np.ndarray, lengths: np.ndarray, success: np.ndarray) -> dict[str, np.ndarray]:
    """Scores (C,) that need only Q (C, N) at the recorded actions."""
    return {metric: np.array([compute_metric(metric, row, lengths, success) for row in q]) for metric in BY_Q}


def discount_of(candidate: Candidate) -> float:
    """The discount a candidate was trained with, by its notes; for an average, that of recipes that state none."""
    named = _GAMMA.search(candidate.manifest.provenance.notes)
    return float(named.group(1)) if named else _RECIPE_GAMMA


def score_baselines_each(
    q: np.ndarray,
    q_greedy: np.ndarray,
    lengths: np.ndarray,
    success: np.ndarray,
    candidates: Sequence[Candidate],
) -> dict[str, np.ndarray]:
    """The three baselines (C,) from Q and greedy Q (C, N), each candidate with the discount it was trained with."""
    rewards = final_rewards(lengths, success)
    found = [
        score_baselines(own[:, None], greedy[:, None], lengths, rewards, gamma=discount_of(candidate))
        for own, greedy, candidate in zip(q, q_greedy, candidates, strict=True)
    ]
    return {
        "td_error": np.array([one.td_error[0] for one in found]),
        "sum_of_advantages": np.array([one.sum_of_advantages[0] for one in found]),
        "mcc_error": np.array([one.mcc_error[0] for one in found]),
    }


def score_actions(acted: ActedOn) -> dict[str, np.ndarray]:
    """Three properties (C,) of the greedy actions; larger is better."""
    spread = _spread_by_step(acted.recorded, acted.lengths)  # (M, 4)
    moved = _moves(acted.greedy)
    from_recorded = np.linalg.norm((moved - _moves(acted.recorded)) / spread, axis=2)
    from_recorded += (acted.greedy[:, :, 5:] != acted.recorded[:, 5:]).sum(axis=2)
    displaced = acted.greedy[:, :, :3]
    from_peers = np.linalg.norm((displaced - displaced.mean(axis=0)) / spread[:, :3], axis=2)
    return {
        "greedy_distance": -from_recorded.mean(axis=1),
        "peer_distance": -from_peers.mean(axis=1),
        "greedy_gap": -(acted.greedy_q - acted.q).mean(axis=1),
    }


def combine(base: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The standardised base plus WEIGHT times the standardised part."""
    return np.asarray(standardise(base) + WEIGHT * standardise(part))


def cross_fit(parts: Mapping[str, np.ndarray], success: np.ndarray, runs: Sequence[frozenset[str]]) -> np.ndarray:
    """Ridge regression of true success on all parts; a candidate is predicted from those that share no run with it."""
    columns = np.column_stack([standardise(part) for part in parts.values()])
    predicted = np.empty(success.size)
    for index, own in enumerate(runs):
        others = np.array([not (own & run) for run in runs])
        known, target = columns[others], success[others]
        centre = target.mean()
        weights = np.linalg.solve(known.T @ known + _RIDGE * np.eye(columns.shape[1]), known.T @ (target - centre))
        predicted[index] = centre + columns[index] @ weights
    return predicted


def _moves(actions: np.ndarray) -> np.ndarray:
    """Displacement and rotation (..., 4)."""
    return np.concatenate([actions[..., :3], np.arctan2(actions[..., 3], actions[..., 4])[..., None]], axis=-1)


def _spread_by_step(recorded: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Standard deviation (M, 4) of the recorded actions that are equally far from the end."""
    ends = np.repeat(np.cumsum(lengths), lengths)
    to_the_end = np.minimum(ends - 1 - np.arange(ends.size), _FAR)
    moves = _moves(recorded)
    overall = moves.std(axis=0)
    spread = np.empty_like(moves)
    for steps in np.unique(to_the_end):
        at = to_the_end == steps
        spread[at] = np.maximum(moves[at].std(axis=0), 0.1 * overall)  # small differences still count a little
    return np.where(overall > 0, spread, np.inf)  # numbers that never vary do not count


def standardise(values: np.ndarray) -> np.ndarray:
    """In standard deviations from the mean; zeros where all are equal."""
    spread = values.std()
    return np.asarray((values - values.mean()) / spread if spread > 0 else np.zeros_like(values))
