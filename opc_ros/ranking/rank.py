"""Orders candidates by score, with the uncertainty that the validation set leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from opc_ros.errors import RankingError
from opc_ros.progress import Report, ignore_progress
from opc_ros.ranking.answers import Probe
from opc_ros.ranking.ranking import LeftOutCandidate, RankedCandidate, Ranking, Scope
from opc_ros.ranking.uncertainty import beat_probabilities, rank_intervals, top_k_probabilities
from opc_ros.scoring import Answers, bootstrap_scores, find_ranking_metric, score_bias, score_intervals, score_without
from opc_ros.scoring.hidden_part import compare_with_hidden
from opc_ros.scoring.search_look import SearchLook
from opc_ros.scoring.value_rows import RowsInOrder


def rank_candidates(
    q_by_candidate: Mapping[str, ArrayLike],
    names: Mapping[str, str],
    lengths: ArrayLike,
    success: ArrayLike,
    *,
    metric: str = "soft_opc_over_spread",
    prior: float = 1.0,
    top_k: int = 3,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    snapshot_id: str,
    scope: Scope = "selection",
    left_out: Sequence[LeftOutCandidate] = (),
    families: Mapping[str, str] | None = None,
    own: Mapping[str, np.ndarray] | None = None,
    probes: Sequence[Probe] = (),
    hidden: np.ndarray | None = None,
    searches: Mapping[str, SearchLook] | None = None,
    report: Report = ignore_progress,
) -> Ranking:
    """Candidates from best to worst; ties are ordered by candidate id.

    Args:
        q_by_candidate: for each candidate id its Q value of each recorded transition, (N,).
        names: the name of each candidate id, for people.
        lengths: transitions of each episode, (E,).
        success: whether each episode succeeded, (E,).
        metric: which score.
        prior: p(y=1).
        top_k: how many count as the best; with fewer candidates, all of them.
        confidence: of intervals, such as 0.95.
        resamples: of the bootstrap.
        seed: of the resamples, the only source of randomness; the same seed gives the same ranking.
        snapshot_id: of the validation set that the Q values belong to.
        scope: whether these candidates, with those left out, are all there are.
        own: by candidate id, which episodes do not count for it because it played or was trained on them, (E,) bool.
        left_out: candidates that could not be scored, so that none goes missing silently.
        families: the family of each candidate id that has one.
        probes: states whose answers are kept, so that a policy can be recognised later.
        hidden: which episodes are kept secret, (E,) bool; scores on them are compared with those on the others.
        searches: by candidate id, what was measured of its own action search.
        report: called with the number of resamples done.
    """
    if not q_by_candidate:
        raise RankingError("no candidate to rank, expected at least one")
    if top_k < 1:
        raise RankingError(f"top_k is {top_k}, expected at least 1")
    nameless = [candidate_id for candidate_id in q_by_candidate if candidate_id not in names]
    if nameless:
        raise RankingError(f"candidate {nameless[0]} has no name, expected one for each of {len(q_by_candidate)}")
    is_success = np.asarray(success, dtype=np.bool_)
    steps = np.asarray(lengths)
    masks = {key: (own or {}).get(key, np.zeros(is_success.size, np.bool_)) for key in q_by_candidate}
    scores = {
        key: score_without(metric, Answers(q, steps, is_success), masks[key], prior=prior)
        for key, q in q_by_candidate.items()
    }
    find_ranking_metric(metric).check_prior_orders(prior, float(steps[is_success].sum() / steps.sum()))
    order = sorted(scores, key=lambda candidate_id: (-scores[candidate_id], candidate_id))
    in_order = RowsInOrder(q_by_candidate, order)
    own_in_order = np.array([masks[candidate_id] for candidate_id in order])
    samples = bootstrap_scores(
        in_order,
        lengths,
        success,
        metric=metric,
        prior=prior,
        resamples=resamples,
        rng=np.random.default_rng(seed),
        own=own_in_order,
        report=report,
    )
    if hidden is None:
        hidden = np.zeros(is_success.size, np.bool_)
    chances = compare_with_hidden(
        in_order,
        steps,
        is_success,
        hidden,
        own_in_order,
        metric=metric,
        prior=prior,
        rng=np.random.default_rng(seed),
    )
    lucks = dict(zip(order, chances.tolist(), strict=True))
    top_k = min(top_k, len(order))
    found = np.array([scores[candidate_id] for candidate_id in order])
    rarer = int(min(is_success.sum(), (~is_success).sum()))
    intervals = score_intervals(found, samples, confidence, metric, rarer=rarer)
    biases = score_bias(found, samples, metric).tolist()
    ranks = rank_intervals(samples, confidence).tolist()
    probabilities = top_k_probabilities(samples, top_k).tolist()
    asked = np.array([probe.index for probe in probes], dtype=np.int64)
    probed = [np.asarray(q)[asked].tolist() for q in in_order]
    candidates = tuple(
        RankedCandidate(
            candidate_id=candidate_id,
            name=names[candidate_id],
            score=scores[candidate_id],
            score_interval=(low, high),
            rank=rank,
            # Resampling may shift a rank; an interval that does not contain the rank itself would only confuse.
            rank_interval=(min(best, rank), max(worst, rank)),
            top_k_probability=probability,
            family=(families or {}).get(candidate_id, ""),
            own_episodes=int(masks[candidate_id].sum()),
            hidden_chance=lucks[candidate_id],
            search=(searches or {}).get(candidate_id),
            bias=bias,
            answers=tuple(answers),
        )
        for rank, (candidate_id, (low, high), (best, worst), probability, bias, answers) in enumerate(
            zip(order, intervals.tolist(), ranks, probabilities, biases, probed, strict=True), start=1
        )
    )
    return Ranking(
        metric=metric,
        prior=float(prior),
        confidence=float(confidence),
        top_k=top_k,
        resamples=resamples,
        seed=seed,
        snapshot_id=snapshot_id,
        q_digest=digest_q_values(q_by_candidate, lengths, is_success),
        scope=scope,
        episodes=int(is_success.size),
        successes=int(is_success.sum()),
        candidates=candidates,
        left_out=tuple(left_out),
        beats=tuple(tuple(row) for row in beat_probabilities(samples).tolist()),
        hidden_episodes=int(hidden.sum()),
        probes=tuple(probe.name for probe in probes),
    )


def digest_q_values(q_by_candidate: Mapping[str, ArrayLike], lengths: ArrayLike, success: ArrayLike) -> str:
    """sha256 over lengths, outcomes and every candidate's Q values in single precision, in order of candidate id."""
    digest = hashlib.sha256(b"opc q values 1\n")
    digest.update(np.ascontiguousarray(lengths, dtype="<i8").tobytes())
    digest.update(np.ascontiguousarray(success, dtype="u1").tobytes())
    for candidate_id in sorted(q_by_candidate):
        digest.update(candidate_id.encode() + b"\n")
        digest.update(np.ascontiguousarray(q_by_candidate[candidate_id], dtype="<f4").data)
    return digest.hexdigest()
