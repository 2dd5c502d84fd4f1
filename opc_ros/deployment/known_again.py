"""Recognise an aborted or rejected policy when it comes back under another name, format or digest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from opc_ros.config import parse_config
from opc_ros.deployment.decision import Finding, Verdict
from opc_ros.deployment.queue_reader import QueueReader
from opc_ros.deployment.queue_rows import Request
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import DeploymentError
from opc_ros.ranking.answers import Likeness, compare_answers

ABORTED_RULE = "aborted_before"
REJECTED_RULE = "rejected_before"


@dataclass(frozen=True, slots=True)
class Identity:
    """What identifies a policy: a digest of what it computes, and its answers for recorded states."""

    behaviour: str = ""  # see policies.behaviour_identity
    answers: dict[str, float] = field(default_factory=dict)  # by probe, from the scorer's signed ranking

    def to_json(self) -> str:
        return canonical_json(asdict(self), is_ascii=True)

    @classmethod
    def from_json(cls, text: str) -> Identity:
        if not text:
            return cls()
        where = "queue: identity"
        document = parse_json(text, where=where, error=DeploymentError)
        return parse_config(document, cls, where=where, error=DeploymentError)

    def compare(self, other: Identity) -> Likeness:
        if self.behaviour and self.behaviour == other.behaviour:
            return "same"
        return compare_answers(self.answers, other.answers)


def find_refused_before(queue: QueueReader, candidate_id: str, identity: Identity) -> tuple[Finding, ...]:
    """What earlier requests say against this candidate: an abort is a failure, a rejection is a doubt."""
    return tuple(_look_back(queue, candidate_id, identity))


def _look_back(queue: QueueReader, candidate_id: str, identity: Identity) -> Iterator[Finding]:
    for old in queue.requests("aborted", "rejected"):
        is_aborted, other = old.state == "aborted", Identity.from_json(old.identity)
        rule = ABORTED_RULE if is_aborted else REJECTED_RULE
        likeness: Likeness = "same" if old.candidate_id == candidate_id else identity.compare(other)
        if likeness == "same" and (is_aborted or not _was_taken_back(queue, old)):
            other_name = f"acts like candidate {old.candidate_id[:12]} ({old.name}), which was {old.state}"
            what = f"was {old.state} before" if old.candidate_id == candidate_id else other_name
            sentence = f"{what}: {old.reason}"
            yield Finding(rule, Verdict.FAIL if is_aborted else Verdict.INCONCLUSIVE, sentence)
        elif likeness == "unknown" and is_aborted and other.answers and identity.answers:
            sentence = (
                f"whether it acts like candidate {old.candidate_id[:12]} ({old.name}), which was aborted, cannot be "
                "told: the ranking no longer uses the same states, or its answers are nearly all alike"
            )
            yield Finding(rule, Verdict.INCONCLUSIVE, sentence)


def _was_taken_back(queue: QueueReader, request: Request) -> bool:
    """Whether its own requester rejected it, which only withdraws the request."""
    rows = queue.rows("SELECT person FROM statements WHERE request_id = ? AND kind = 'reject'", request.id)
    return bool(rows) and {str(row[0]) for row in rows} == {request.requested_by}
