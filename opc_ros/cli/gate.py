"""`opc gate`: what the gate says about a candidate, and why."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opc_ros.deployment.decision import Decision, Finding
    from opc_ros.deployment.gatekeeper import Gatekeeper
    from opc_ros.deployment.queue_reader import QueueReader

EXAMPLES = """examples:
  opc gate explain candidates/rcan-5k --store store
  opc gate explain rcan-5k --candidates candidates --ranking reports/ranking.json --store store
  opc gate explain 9f3a11 --json

Exit 0: it passes. Exit 1: it fails, or a person has to decide."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "gate",
        help="see whether a candidate may go to robots, and why",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    explain = actions.add_parser("explain", help="go through every rule for one candidate")
    explain.add_argument("candidate", help="its folder, its name, or the beginning of its id")
    add_evidence(explain)
    explain.add_argument("--json", action="store_true", help="for machines")
    explain.set_defaults(run=run_explain)


def add_evidence(parser: argparse.ArgumentParser) -> None:
    """Options that say where the gate's evidence is; `opc deploy request` shares them."""
    parser.add_argument("--state", type=Path, default=Path("deployment"), help="folder of the deployment")
    parser.add_argument("--ranking", type=Path, default=Path("scores/published/ranking.json"), help="published ranking")
    parser.add_argument("--store", type=Path, default=Path("store"), help="validation store the ranking rests on")
    parser.add_argument("--candidates", type=Path, default=Path("candidates"), help="folder of registered candidates")
    parser.add_argument("--gate", type=Path, default=Path("config/gate.yaml"), help="rules of the gate")


def run_explain(arguments: argparse.Namespace) -> int:
    import dataclasses

    from opc_ros.deployment.decision import Verdict

    candidate_id = find_candidate_id(arguments)
    decision = ask_gate(arguments, candidate_id)
    if arguments.json:
        findings = [dataclasses.asdict(finding) for finding in decision.findings]
        document = {"candidate_id": candidate_id, "ranking_id": decision.ranking_id, "verdict": decision.verdict}
        print(json.dumps(document | {"is_explorable": decision.is_explorable, "findings": findings}))
    else:
        marks = {Verdict.PASS: "yes", Verdict.FAIL: "NO", Verdict.INCONCLUSIVE: "?"}
        print(f"candidate {candidate_id[:12]}: {decision.verdict}")
        for finding in decision.findings:
            print(f"  {marks[finding.verdict]:>3}  {finding.rule:<16} {finding.sentence}")
        if decision.is_explorable:
            print("not enough evidence yet: a request gets an exploration slot at reduced speed, if one is free")
        elif decision.verdict is Verdict.INCONCLUSIVE:
            print("a person decides: opc deploy request, then approve or reject")
    return 0 if decision.verdict is Verdict.PASS else 1


def find_candidate_id(arguments: argparse.Namespace) -> str:
    """Look up by folder or in the registry; otherwise the ranking may know a name or id that is not on this machine."""
    from opc_ros.deployment.gatekeeper import read_ranking
    from opc_ros.errors import CandidateError
    from opc_ros.policies.registry import CandidateRegistry

    try:
        return CandidateRegistry(arguments.candidates).find(arguments.candidate).id
    except CandidateError as error:
        ranking = read_ranking(arguments.ranking)
        word = arguments.candidate
        ids = [
            each.candidate_id for each in ranking.candidates if word == each.name or each.candidate_id.startswith(word)
        ]
        if len(ids) != 1:
            raise CandidateError(f"{error}; the ranking has {len(ids)} of that name") from error
        return ids[0]


def make_gatekeeper(arguments: argparse.Namespace) -> Gatekeeper:
    """The gate with the evidence that the options name, or with the defaults where there are no such options."""
    import time

    from opc_ros.bringup.config_files import find_config
    from opc_ros.config import load_config
    from opc_ros.deployment.gate_rules import GateRules
    from opc_ros.deployment.gatekeeper import Gatekeeper
    from opc_ros.deployment.history import FILE_NAME
    from opc_ros.store import open_store

    rules = load_config(find_config(getattr(arguments, "gate", "config/gate.yaml")), GateRules)
    store = getattr(arguments, "store", Path("store"))
    ranking = getattr(arguments, "ranking", Path("scores/published/ranking.json"))
    state = getattr(arguments, "state", Path("deployment"))
    return Gatekeeper(rules, ranking, lambda: open_store(store), time.time_ns, state / FILE_NAME, state / "keys")


def ask_gate(arguments: argparse.Namespace, candidate_id: str) -> Decision:
    """The gate's decision on the evidence that the options name."""
    import dataclasses

    from opc_ros.deployment.folder import DeploymentFolder

    keeper = make_gatekeeper(arguments)
    if not (arguments.state / "queue.db").is_file():
        return keeper.decide(candidate_id, {}, "")
    with DeploymentFolder(arguments.state).look() as queue:
        champion = queue.champion()
        decision = keeper.decide(candidate_id, queue.real_results(), champion[0] if champion else "")
        return dataclasses.replace(decision, findings=(*decision.findings, *_look_back(arguments, queue, candidate_id)))


def _look_back(arguments: argparse.Namespace, queue: QueueReader, candidate_id: str) -> tuple[Finding, ...]:
    """Whether the same policy was aborted or rejected before, under any name."""
    from opc_ros.deployment.gatekeeper import read_ranking
    from opc_ros.deployment.known_again import Identity, find_refused_before
    from opc_ros.errors import OpcError
    from opc_ros.policies.behaviour_identity import behaviour_id
    from opc_ros.policies.registry import CandidateRegistry

    try:
        identity = Identity(answers=read_ranking(arguments.ranking).answers_of(candidate_id))
        candidate = CandidateRegistry(arguments.candidates).find(candidate_id)
        identity = Identity(behaviour_id(candidate), identity.answers)
    except OpcError:  # without ranking or files, only its id is known
        identity = Identity()
    return find_refused_before(queue, candidate_id, identity)
