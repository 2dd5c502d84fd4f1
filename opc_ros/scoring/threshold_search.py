"""The best threshold of very many transitions under many weightings of their episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK_STEPS = 64  # transitions that are summed as one, and walked through only if they can matter
PAIRS_AT_ONCE = 4096  # pairs of block and weighting that are walked through together
_BLOCKS_AT_ONCE = 16_384  # processed together: arrays as long as all transitions would fill the memory
WEIGHTINGS_AT_ONCE = 32  # so that an episode's weights fill two cache lines


class ThresholdSearch:
    """One candidate's transitions by descending Q, cut into blocks that never split equal Q values."""

    def __init__(self, row: np.ndarray, is_threshold: np.ndarray, edges: np.ndarray, outcomes: tuple[int, int]) -> None:
        """`row`, (N,), is each transition's episode, successes first; `edges` come from `cut_into_blocks`."""
        is_positive = row < outcomes[0]
        positive_edges = np.append(0, np.cumsum(is_positive, dtype=np.int32)[edges[1:] - 1].astype(np.int64))
        self._row = row
        self._is_positive = is_positive
        self._is_threshold = is_threshold
        self._edges = edges
        self._walked = _count_walked(is_threshold, edges)
        self._successes = outcomes[0]
        self._positives = _summing(row[is_positive], positive_edges, outcomes[0])
        negatives = row[~is_positive]
        negatives -= outcomes[0]
        self._negatives = _summing(negatives, edges - positive_edges, outcomes[1])

    def best_margins(self, weights: np.ndarray, gain: np.ndarray, loss: np.ndarray) -> np.ndarray:
        """Largest sum of margins over all transitions above some threshold, (R,), never below 0.

        A positive adds its episode's weight, (E, R), times gain (R,); a negative subtracts its weight times loss.
        """
        gains = (self._positives @ weights[: self._successes]) * gain  # (B, R)
        losses = (self._negatives @ weights[self._successes :]) * loss
        ends = np.cumsum(gains - losses, axis=0)
        starts = np.vstack([np.zeros_like(ends[:1]), ends[:-1]])
        best = np.maximum(0.0, ends.max(axis=0))
        # Walk through a block only if all of its gains, taken before any loss, would beat the best: first the most
        # promising block of each weighting, then whatever is still open.
        reachable = np.where(self._walked[:, None] > 0, starts + gains, 0.0)
        every = np.arange(best.size)
        first = reachable.argmax(axis=0)
        self._walk(first, every, weights, starts, gain, loss, best)
        reachable[first, every] = 0.0
        blocks, columns = np.nonzero(reachable > best)
        for done in range(0, blocks.size, PAIRS_AT_ONCE):
            some = slice(done, done + PAIRS_AT_ONCE)
            self._walk(blocks[some], columns[some], weights, starts, gain, loss, best)
        return np.asarray(best)

    def _walk(
        self,
        blocks: np.ndarray,
        columns: np.ndarray,
        weights: np.ndarray,
        starts: np.ndarray,
        gain: np.ndarray,
        loss: np.ndarray,
        best: np.ndarray,
    ) -> None:
        """Raise best (R,) to the largest margins within these blocks under these weightings."""
        is_open = self._walked[blocks] > 0
        blocks, columns = blocks[is_open], columns[is_open]
        if not blocks.size:
            return
        lengths = self._walked[blocks]
        places = np.arange(lengths.max())
        inside = self._edges[blocks][:, None] + np.minimum(places, lengths[:, None] - 1)  # (P, L)
        steps = weights[self._row[inside], columns[:, None]].astype(np.float64)
        steps *= np.where(self._is_positive[inside], gain[columns][:, None], -loss[columns][:, None])
        margins = np.cumsum(steps, axis=1) + starts[blocks, columns][:, None]
        margins[~self._is_threshold[inside] | (places >= lengths[:, None])] = 0.0
        np.maximum.at(best, columns, margins.max(axis=1))


def cut_into_blocks(last: np.ndarray, transitions: int) -> np.ndarray:
    """Where blocks begin and end, (B+1,), given the ends of groups of equal Q values."""
    wanted = np.arange(BLOCK_STEPS, transitions, BLOCK_STEPS)
    return np.unique(np.concatenate([[0], last[np.searchsorted(last, wanted)] + 1, [transitions]]))


def _count_walked(is_threshold: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many transitions of each block lead up to its last inner threshold, (B,); its end is an edge.

    At most BLOCK_STEPS, since a longer group of equal values ends its block.
    """
    walked = np.zeros(edges.size - 1, dtype=np.int64)
    for first in range(0, walked.size, _BLOCKS_AT_ONCE):
        some = edges[first : first + _BLOCKS_AT_ONCE + 1]
        is_inner = is_threshold[some[0] : some[-1]].copy()
        is_inner[some[1:] - 1 - some[0]] = False
        inner = np.flatnonzero(is_inner) + some[0]
        block = np.searchsorted(some, inner, side="right") - 1
        np.maximum.at(walked, first + block, inner - some[block] + 1)
    return walked


def _summing(rows: np.ndarray, edges: np.ndarray, episodes: int) -> Any:
    """A sparse matrix (B, E) with the number of each episode's transitions in each block."""
    from scipy.sparse import csr_matrix

    return csr_matrix((np.ones(rows.size, dtype=np.float32), rows, edges), shape=(edges.size - 1, episodes))
