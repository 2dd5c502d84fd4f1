"""Candidates are scored on a snapshot, and the gate is asked about them, over ROS."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from opc_ros.demo.candidates import choose_candidates, tamper_with
from opc_ros.demo.lab import DemoLab
from opc_ros.demo.lab_history import LabHistory
from opc_ros.demo.screen import Screen
from opc_ros.demo.truth import read_truth
from opc_ros.deployment.decision import Verdict
from opc_ros.deployment.gate import predict_field
from opc_ros.deployment.gatekeeper import read_ranking
from opc_ros.deployment.history import write_history
from opc_ros.deployment.signed_history import sign_history
from opc_ros.deployment.signing import find_signer
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.ranking import RankedCandidate, Ranking
from opc_ros.ranking.forecast import Forecast
from opc_ros.ros.lab_client import GateAnswer
from opc_ros.store import open_store

TAG = "demo"


@dataclass(frozen=True, slots=True)
class Judged:
    """The gate's answers, in the order of the ranking."""

    answers: tuple[tuple[RankedCandidate, GateAnswer], ...]
    tampered: GateAnswer

    def count(self, verdict: Verdict) -> int:
        return sum(answer.verdict is verdict for _, answer in self.answers)


def score(lab: DemoLab, screen: Screen, history: LabHistory) -> tuple[Ranking, tuple[str, ...]]:
    """Register, take the snapshot, score, and show the ranking; also says which candidates are new today."""
    plan, client = lab.plan, lab.client
    while absent := client.absent():
        lab.watch()
        screen.waiting(f"the {' and the '.join(absent)} to come up")
    chosen = choose_candidates(plan.zoo, plan.most_candidates, read_truth(plan.truth))
    everyone = [*chosen, *history.candidates]
    for number, candidate in enumerate(everyone, start=1):
        client.register(candidate.folder)
        screen.waiting(f"{number} of {len(everyone)} candidates registered")
    write_history(plan.history, history.results)
    keys = plan.history.parent / "keys"
    sign_history(plan.history, keys, find_signer(keys), time.time_ns())
    with open_store(plan.store) as store:
        snapshot = store.take_snapshot(tag=TAG)
    old = f" beside {len(history.candidates)} of earlier days" if history.candidates else ""
    screen.line(
        f"  {len(chosen)} new candidates registered{old}; snapshot {snapshot.id[:12]} has"
        f" {len(snapshot.entries)} episodes"
    )

    def tell(done: int, total: int, note: str = "") -> None:
        screen.waiting(f"the scorer is {note}: {done} of {total}")

    client.score(TAG, tell)
    ranking = read_ranking(plan.ranking)
    forecast = predict_field(ranking, history.results)
    new = tuple(candidate.id for candidate in chosen)
    screen.lines(describe_forecast(ranking, forecast, new))
    return ranking, new


def describe_forecast(ranking: Ranking, forecast: Forecast, new: tuple[str, ...]) -> list[str]:
    """The new candidates, the most promising first."""
    names = {candidate.candidate_id: candidate for candidate in ranking.candidates if candidate.candidate_id in new}
    width = max(len("candidate"), *(len(candidate.name) for candidate in names.values()))
    lines = [f"  {'candidate':<{width}}  {'score':>8}  expected success  within 10 points of the best"]
    for candidate_id in sorted(names, key=lambda each: -forecast.expected(each).mean):
        expected, near = forecast.expected(candidate_id), forecast.chance_within(candidate_id, 0.1)
        candidate = names[candidate_id]
        lines.append(f"  {candidate.name:<{width}}  {candidate.score:>8.4f}  {expected.describe():>16}  {near:>10.2f}")
    return lines


def ask_gate(lab: DemoLab, screen: Screen, ranking: Ranking, new: tuple[str, ...]) -> Judged:
    """Request robot time for every new candidate, and for a copy of the best that was changed after it was scored."""
    answers = []
    asked = [candidate for candidate in ranking.candidates if candidate.candidate_id in new]
    for candidate in asked:
        answers.append((candidate, lab.client.request(candidate.candidate_id)))
        screen.waiting(f"the gate has answered {len(answers)} of {len(asked)} requests")
    registry = CandidateRegistry(lab.plan.folder / "candidates")
    best = registry.find(asked[0].candidate_id)
    tampered = lab.client.register(tamper_with(best, _tampered_folder(lab)).folder)
    judged = Judged(tuple(answers), lab.client.request(tampered))
    registry.remove(tampered)  # or later rankings of the whole registry would include it
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
    for word, verdict in (("open", Verdict.INCONCLUSIVE), ("refused", Verdict.FAIL)):
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
    """What a rule said, or else the first sentence behind the verdict."""
    said = {finding.rule: finding.sentence for finding in answer.decision.findings}
    return said.get(rule, answer.decision.reasons[0])


def _why_not(answer: GateAnswer) -> str:
    """The reason for a refusal; anything other than its rank comes first, as such a candidate cannot pass at all."""
    against = [finding for finding in answer.decision.findings if finding.verdict is answer.verdict]
    others = [finding for finding in against if finding.rule != "within"]
    return (others or against)[0].sentence
