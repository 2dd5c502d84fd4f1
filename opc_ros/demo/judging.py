"""Candidates are scored on a snapshot and asked past the gate, over ROS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opc_ros.demo.candidates import choose_candidates, tamper_with
from opc_ros.demo.lab import DemoLab
from opc_ros.demo.screen import Screen
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.gatekeeper import read_ranking
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.ranking import RankedCandidate, Ranking
from opc_ros.ros.lab_client import GateAnswer
from opc_ros.store import open_store

TAG = "demo"


@dataclass(frozen=True, slots=True)
class Judged:
    """What the gate said, in the order of the ranking."""

    answers: tuple[tuple[RankedCandidate, GateAnswer], ...]
    tampered: GateAnswer

    def count(self, verdict: Verdict) -> int:
        return sum(answer.verdict is verdict for _, answer in self.answers)


def score(lab: DemoLab, screen: Screen) -> Ranking:
    """Register, fix the snapshot, have the scorer score, show the ranking."""
    plan, client = lab.plan, lab.client
    while absent := client.absent():
        lab.watch()
        screen.waiting(f"the {' and the '.join(absent)} to come up")
    chosen = choose_candidates(plan.zoo, plan.most_candidates)
    for number, candidate in enumerate(chosen, start=1):
        client.register(candidate.folder)
        screen.waiting(f"{number} of {len(chosen)} candidates registered")
    with open_store(plan.store) as store:
        snapshot = store.take_snapshot(tag=TAG)
    screen.line(
        f"  {len(chosen)} candidates registered, the last checkpoint of each training run; snapshot {snapshot.id[:12]}"
        f" has {len(snapshot.entries)} episodes"
    )

    def tell(done: int, total: int, note: str = "") -> None:
        screen.waiting(f"the scorer is {note}: {done} of {total}")

    client.score(TAG, tell)
    ranking = read_ranking(plan.ranking)
    screen.lines(describe_ranking(ranking))
    return ranking


def describe_ranking(ranking: Ranking) -> list[str]:
    width = max(len("candidate"), *(len(candidate.name) for candidate in ranking.candidates))
    head = f"{'#':>4}  {'candidate':<{width}}  {'score':>8}  {f'{ranking.confidence:.0%} interval':>18}"
    lines = [f"{head}  {'rank':>6}  in top {ranking.top_k}"]
    for candidate in ranking.candidates:
        (low, high), (first, last) = candidate.score_interval, candidate.rank_interval
        lines.append(
            f"{candidate.rank:>4}  {candidate.name:<{width}}  {candidate.score:>8.4f}  {f'{low:.4f} .. {high:.4f}':>18}"
            f"  {f'{first}-{last}':>6}  {candidate.top_k_probability:>7.0%}"
        )
    return lines


def ask_gate(lab: DemoLab, screen: Screen, ranking: Ranking) -> Judged:
    """A request for every candidate, and one for a copy of the best that was changed after it was scored."""
    answers = []
    for candidate in ranking.candidates:
        answers.append((candidate, lab.client.request(candidate.candidate_id)))
        screen.waiting(f"the gate has answered {len(answers)} of {len(ranking.candidates)} requests")
    best = CandidateRegistry(lab.plan.folder / "candidates").find(ranking.candidates[0].candidate_id)
    tampered = lab.client.register(tamper_with(best, _tampered_folder(lab)).folder)
    judged = Judged(tuple(answers), lab.client.request(tampered))
    screen.lines(_describe_answers(judged, best.name, tampered))
    return judged


def _tampered_folder(lab: DemoLab) -> Path:
    return lab.plan.folder / "tampered"


def _describe_answers(judged: Judged, best: str, tampered: str) -> list[str]:
    lines = []
    for candidate, answer in judged.answers:
        if answer.verdict is Verdict.PASS:
            lines.append(f"  pass     {candidate.name}: {_sentence(answer, 'within')}")
    lines = lines or ["  pass     nobody"]
    for word, verdict in (("a person", Verdict.INCONCLUSIVE), ("refused", Verdict.FAIL)):
        told = [(candidate, answer) for candidate, answer in judged.answers if answer.verdict is verdict]
        if told:
            names = ", ".join(candidate.name for candidate, _ in told)
            first, answer = told[0]
            lines.append(f"  {word:<8} {names}; {first.name}: {_why_not(answer)}")
    reason = _sentence(judged.tampered, "ranked")
    return [
        *lines,
        f"  {judged.tampered.state:<8} the copy of {best} with one byte changed, now {tampered[:12]}: {reason}",
    ]


def _sentence(answer: GateAnswer, rule: str) -> str:
    """What a rule said, or else the first that led to the verdict."""
    said = {finding.rule: finding.sentence for finding in answer.decision.findings}
    return said.get(rule, answer.decision.reasons[0])


def _why_not(answer: GateAnswer) -> str:
    """Anything but its place counts first: who cannot pass at all need not be ranked."""
    against = [finding for finding in answer.decision.findings if finding.verdict is answer.verdict]
    others = [finding for finding in against if finding.rule != "within"]
    return (others or against)[0].sentence
