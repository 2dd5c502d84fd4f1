"""`opc deploy`: ask for robot time, decide, halt, and see where everything stands."""

from __future__ import annotations

import argparse
import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opc_ros.cli.gate import add_evidence, ask_gate
from opc_ros.cli.halt import add_parsers

if TYPE_CHECKING:
    from opc_ros.deployment.simulation import SuccessTable

EXAMPLES = """examples:
  opc deploy request candidates/rcan-5k --store store
  opc deploy status
  opc deploy approve 4f21c09a --person ada
  opc deploy override 4f21c09a --person ada --reason "visitors at noon, arm fenced off"
  opc deploy halt --robot arm3 --reason "gripper squeaks"
  opc deploy simulate --runs 2000

Every word given here goes to the audit log with name and reason."""

SIMULATE_EXAMPLES = """examples:
  opc deploy simulate
  opc deploy simulate --table mine.csv --runs 500 --seed 7
  opc deploy simulate --shuffle-scores

A table has the columns name, score, success. Without one, the 15 real-world models of Irpan et al. (2019) are used."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "deploy",
        help="ask for robot time, decide, halt, see where everything stands",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    status = actions.add_parser("status", help="requests, robots, champion")
    status.add_argument("request", nargs="?", default="", help="one request alone")
    status.add_argument("--state", type=Path, default=Path("deployment"), help="folder of the deployment")
    status.add_argument("--json", action="store_true", help="for machines")
    status.set_defaults(run=run_status)
    _add_request(actions)
    for word, what in (
        ("approve", "let a waiting request go on"),
        ("reject", "turn a waiting or queued request down"),
        ("override", "let a request go on that the gate refused"),
    ):
        decide = actions.add_parser(word, help=what)
        decide.add_argument("request")
        _add_person(decide, is_reason_required=word != "approve")
        decide.set_defaults(run=run_decide, word=word)
    for stop in add_parsers(actions):
        _add_person(stop, is_reason_required=stop.prog.endswith("halt"))
    clock = actions.add_parser("accept-clock", help="go on after a clock that ran ahead was corrected")
    clock.add_argument("--journal", type=Path, help="a robot's journal.db; default: the scheduler's own clock")
    _add_person(clock, is_reason_required=True)
    clock.set_defaults(run=run_accept_clock)
    _add_simulate(actions)


def _login() -> str:
    """Who is logged in; nobody, where the machine does not know, and then --person has to say."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _add_person(parser: argparse.ArgumentParser, *, is_reason_required: bool) -> None:
    parser.add_argument("--person", default=_login(), help="who says so; default: you")
    parser.add_argument("--reason", default="", required=is_reason_required, help="why; kept in the audit log")
    parser.add_argument("--state", type=Path, default=Path("deployment"), help="folder of the deployment")


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scheduler", type=Path, default=Path("config/scheduler.yaml"), help="rules of the scheduler")
    parser.add_argument("--lab", default="", help="lab file that names the robots; default: config/lab.yaml")


def _add_request(actions: Any) -> None:
    request = actions.add_parser("request", help="ask the gate to let a candidate onto robots")
    request.add_argument("candidate", help="its folder, its name, or the beginning of its id")
    add_evidence(request)
    _add_rules(request)
    request.add_argument("--person", default=_login(), help="who asks; default: you")
    request.add_argument("--robots", default="", help="names separated by commas; default: any")
    request.add_argument("--episodes", type=int, default=0, help="at full speed; default: as the rules allow")
    request.add_argument("--priority", type=int, default=0, help="higher goes first")
    request.add_argument("--json", action="store_true", help="for machines")
    request.set_defaults(run=run_request)


def _add_simulate(actions: Any) -> None:
    simulate = actions.add_parser(
        "simulate",
        help="replay who gets robot time on known success rates",
        epilog=SIMULATE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    simulate.add_argument("--table", type=Path, help="CSV file; default: the paper's 15 models")
    simulate.add_argument("--scheduler", type=Path, default=Path("config/scheduler.yaml"), help="rules with the race's")
    simulate.add_argument("--runs", type=int, default=2000)
    simulate.add_argument("--seed", type=int, default=0)
    simulate.add_argument("--shuffle-scores", action="store_true", help="as if the scores said nothing")
    simulate.add_argument("--json", action="store_true", help="for machines")
    simulate.set_defaults(run=run_simulate)


def run_status(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.status import describe_deployment

    with DeploymentFolder(arguments.state).open() as (queue, _):
        document = describe_deployment(queue, time.time_ns(), arguments.request)
    if arguments.json:
        print(json.dumps(document))
        return 0
    print(f"champion  {document['champion'][:12] or 'none'}")
    for robot in document["robots"]:
        lease = robot["lease"]
        doing = f"{lease['episodes']} episodes of {lease['candidate_id'][:12]} ({lease['rung']})" if lease else "free"
        notes = [f"halted by {robot['halted_by']}"] if robot["halted_by"] else []
        notes += [f"rests {robot['rests_s']} s"] if robot["rests_s"] else []
        print(f"robot     {robot['robot']:<12} {robot['state']:<10} {doing} {', '.join(notes)}".rstrip())
    for request in document["requests"]:
        real, rung = request["real"], request["on_this_rung"]
        print(
            f"request   {request['id']:<12} {request['state']:<9} {request['name']:<24} rung {request['rung']:<8}"
            f" {rung['successes']}/{rung['trials']} here, {real['successes']}/{real['trials']} real"
            f" [{real['interval'][0]:.2f}, {real['interval'][1]:.2f}]  {request['reason']}"
        )
    return 0


def run_request(arguments: argparse.Namespace) -> int:
    import secrets
    import time

    from opc_ros.bringup.lab import load_scheduler_rules
    from opc_ros.deployment.approval_queue import NewRequest, submit_request
    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.gatekeeper import read_ranking
    from opc_ros.policies.registry import CandidateRegistry

    rules = load_scheduler_rules(arguments.scheduler, arguments.lab)
    candidate = CandidateRegistry(arguments.candidates).find(arguments.candidate)
    decision = ask_gate(arguments, candidate.id)
    ranked = {each.candidate_id: each.score for each in read_ranking(arguments.ranking).candidates}
    asked = NewRequest(
        candidate_id=candidate.id,
        name=candidate.name,
        path=str(candidate.folder.absolute()),
        score=ranked.get(candidate.id, 0.0),
        requested_by=arguments.person,
        robots=tuple(filter(None, arguments.robots.split(","))),
        episodes=arguments.episodes,
        priority=arguments.priority,
    )
    with DeploymentFolder(arguments.state).open() as (queue, _):
        request = submit_request(queue, rules, asked, decision, secrets.token_hex(4), time.time_ns())
    if arguments.json:
        document = {"request_id": request.id, "state": request.state, "verdict": decision.verdict}
        print(json.dumps(document | {"reasons": decision.reasons, "is_exploration": request.is_exploration}))
    else:
        slot = " in an exploration slot" if request.is_exploration else ""
        print(f"request {request.id} is {request.state}{slot}: the gate says {decision.verdict}")
        for reason in decision.reasons if decision.verdict != "pass" else ():
            print(f"  {reason}")
    return 1 if request.state == "refused" else 0


def run_decide(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.deployment.approval_queue import decide_request
    from opc_ros.deployment.folder import DeploymentFolder

    with DeploymentFolder(arguments.state).open() as (queue, _):
        request = decide_request(
            queue, arguments.request, arguments.word, arguments.person, arguments.reason, time.time_ns()
        )
    print(f"request {request.id} is {request.state}: {request.reason}")
    return 0


def run_accept_clock(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.deployment.approval_queue import accept_clock
    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.journal import accept_clock_on_robot

    if arguments.journal is not None:
        accept_clock_on_robot(arguments.journal, arguments.person, arguments.reason, time.time_ns())
    else:
        with DeploymentFolder(arguments.state).open() as (queue, _):
            accept_clock(queue, arguments.person, arguments.reason, time.time_ns())
    print("the clock counts from now; permits from before are void")
    return 0


def published_table() -> SuccessTable:
    """The 15 real-world models of the paper."""
    import numpy as np

    from opc_ros.deployment.simulation import SuccessTable
    from opc_ros.experiments.published import MODELS

    return SuccessTable(
        names=tuple(model.name for model in MODELS),
        scores=np.array([model.soft_opc for model in MODELS]),
        rates=np.array([model.success_percent for model in MODELS]) / 100.0,
    )


def run_simulate(arguments: argparse.Namespace) -> int:
    import dataclasses

    import numpy as np

    from opc_ros.bringup.lab import load_scheduler_rules
    from opc_ros.cli.progress_bar import progress_bar
    from opc_ros.deployment.simulation import read_success_table, simulate_races
    from opc_ros.errors import DeploymentError

    if arguments.runs < 1:
        raise DeploymentError(f"--runs is {arguments.runs}, expected at least 1")
    table = read_success_table(arguments.table) if arguments.table else published_table()
    race = load_scheduler_rules(arguments.scheduler).race
    with progress_bar("batches", is_shown=not arguments.json) as report:
        result = simulate_races(
            table,
            race,
            arguments.runs,
            np.random.default_rng(arguments.seed),
            is_score_shuffled=arguments.shuffle_scores,
            report=report,
        )
    if arguments.json:
        print(json.dumps({"names": table.names} | dataclasses.asdict(result)))
        return 0
    print(f"{result.runs} races of {len(table.names)} candidates, at most {race.budget_episodes} robot episodes each")
    print(f"within {race.tolerance:.0%} of the best: {result.good_fraction:.1%} of runs (goal 95 %)")
    print(f"the best itself: {result.best_fraction:.1%}; success given up on average: {result.mean_regret:.2%}")
    print(f"episodes: {result.episodes_mean:.0f} on average, {result.episodes_most} at most")
    least = "" if result.equal_is_enough else "more than "
    ratio = result.equal_episodes / max(result.episodes_mean, 1.0)
    print(f"testing everything equally takes {least}{result.equal_episodes} for the same: {ratio:.1f} times as many")
    for index in np.argsort(-table.rates):
        print(
            f"  {table.names[index]:<28} success {table.rates[index]:6.2%}  score {table.scores[index]:.3f}"
            f"  chosen {result.wins[index] / result.runs:6.1%}  episodes {result.episodes_by_candidate[index]:6.1f}"
        )
    return 0
