"""Order candidates by score, with the uncertainty that the validation set leaves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import RankingError
from opc_ros.progress import Report, ignore_progress
from opc_ros.ranking.ranking import RankedCandidate, Ranking
from opc_ros.ranking.uncertainty import beat_probabilities, rank_intervals, top_k_probabilities
from opc_ros.scoring import bootstrap_scores, compute_metric, find_ranking_metric, score_intervals


def rank_candidates(
    q_by_candidate: Mapping[str, ArrayLike],
    names: Mapping[str, str],
    lengths: ArrayLike,
    success: ArrayLike,
    *,
    metric: str = "soft_opc",
    prior: float = 1.0,
    top_k: int = 3,
    confidence: float = 0.95,
    resamples: int = 2000,
    rng: np.random.Generator,
    snapshot_id: str,
    report: Report = ignore_progress,
) -> Ranking:
    """Candidates from best to worst; equal scores are ordered by candidate id.

    Args:
        q_by_candidate: for each candidate id its Q value of each recorded transition, (N,).
        names: what people call each candidate id.
        lengths: transitions of each episode, (E,).
        success: whether each episode succeeded, (E,).
        metric: which score.
        prior: p(y=1).
        top_k: how many count as the best; with fewer candidates, all of them.
        confidence: of intervals, such as 0.95.
        resamples: of the bootstrap.
        rng: the only source of randomness; the same state gives the same ranking.
        snapshot_id: of the validation set that the Q values belong to.
        report: told how many resamples are done.
    """
    if not q_by_candidate:
        raise RankingError("no candidate to rank, expected at least one")
    if top_k < 1:
        raise RankingError(f"top_k is {top_k}, expected at least 1")
    nameless = [candidate_id for candidate_id in q_by_candidate if candidate_id not in names]
    if nameless:
        raise RankingError(f"candidate {nameless[0]} has no name, expected one for each of {len(q_by_candidate)}")
    is_success = np.asarray(success, dtype=np.bool_)
    scores = {
        candidate_id: compute_metric(metric, q, lengths, success, prior=prior)
        for candidate_id, q in q_by_candidate.items()
    }
    steps = np.asarray(lengths)
    find_ranking_metric(metric).check_prior_orders(prior, float(steps[is_success].sum() / steps.sum()))
    order = sorted(scores, key=lambda candidate_id: (-scores[candidate_id], candidate_id))
    samples = bootstrap_scores(
        [q_by_candidate[candidate_id] for candidate_id in order],
        lengths,
        success,
        metric=metric,
        prior=prior,
        resamples=resamples,
        rng=rng,
        report=report,
    )
    top_k = min(top_k, len(order))
    intervals = score_intervals(np.array([scores[candidate_id] for candidate_id in order]), samples, confidence, metric)
    ranks = rank_intervals(samples, confidence).tolist()
    probabilities = top_k_probabilities(samples, top_k).tolist()
    candidates = tuple(
        RankedCandidate(
            candidate_id=candidate_id,
            name=names[candidate_id],
            score=scores[candidate_id],
            score_interval=(low, high),
            rank=rank,
            # Resampling may shift a rank; an interval that left out the rank itself would only confuse.
            rank_interval=(min(best, rank), max(worst, rank)),
            top_k_probability=probability,
        )
        for rank, (candidate_id, (low, high), (best, worst), probability) in enumerate(
            zip(order, intervals.tolist(), ranks, probabilities, strict=True), start=1
        )
    )
    return Ranking(
        metric=metric,
        prior=float(prior),
        confidence=float(confidence),
        top_k=top_k,
        resamples=resamples,
        snapshot_id=snapshot_id,
        episodes=int(is_success.size),
        successes=int(is_success.sum()),
        candidates=candidates,
        beats=tuple(tuple(row) for row in beat_probabilities(samples).tolist()),
    )
