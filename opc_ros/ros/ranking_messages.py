"""Rankings as messages."""

from __future__ import annotations

from opc_interfaces.msg import CandidateScore
from opc_interfaces.msg import Ranking as RankingMsg

from opc_ros.workflows.scoring_run import ScoringRun


def run_to_msg(run: ScoringRun, stamp_ns: int) -> RankingMsg:
    """All candidates, best first; those that could not be scored come last, with the reason."""
    ranking = run.ranking
    message = RankingMsg(
        ranking_id=ranking.ranking_id,
        snapshot_id=ranking.snapshot_id,
        metric=ranking.metric,
        prior=ranking.prior,
        confidence=ranking.confidence,
        top_k=ranking.top_k,
        episodes=ranking.episodes,
        successes=ranking.successes,
        document=ranking.to_json(),
        envelope=run.envelope,
    )
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    for candidate in ranking.candidates:
        low, high = candidate.score_interval
        first, last = candidate.rank_interval
        message.scores.append(
            CandidateScore(
                candidate_id=candidate.candidate_id,
                name=candidate.name,
                score=candidate.score,
                score_low=low,
                score_high=high,
                rank=candidate.rank,
                rank_low=first,
                rank_high=last,
                probability_in_top_k=candidate.top_k_probability,
            )
        )
    for failure in run.report.failed_candidates:
        message.scores.append(CandidateScore(candidate_id=failure.id, error=failure.reason))
    return message
