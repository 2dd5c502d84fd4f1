"""`opc deploy`: ask for robot time, decide, halt, and see the state of everything."""

from __future__ import annotations

import argparse
import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opc_ros.cli.argument_types import some_text
from opc_ros.cli.deploy_simulation import add_simulate
from opc_ros.cli.gate import add_evidence
from opc_ros.cli.halt import add_parsers

if TYPE_CHECKING:
    from collections.abc import Callable

    from opc_ros.deployment.seen import Seen
    from opc_ros.deployment.statement import Body, Kind
    from opc_ros.workflows.statements import Outcome, StatementHandler

EXAMPLES = """examples:
  opc deploy request candidates/rcan-5k --store store
  opc deploy status
  opc deploy approve 4f21c09a --key ~/.ssh/id_ed25519
  opc deploy override 4f21c09a --reason "visitors at noon, arm fenced off"
  opc deploy reject 4f21c09a --reason "wait for the new gripper"
  opc deploy halt --robot arm3 --reason "gripper squeaks"
  opc deploy accept-clock --reason "time server was wrong, corrected"
  opc deploy simulate --runs 2000

Everything you say here is signed with your key: --key, $OPC_KEY, the ssh agent or ~/.ssh/id_ed25519, whichever `opc
people add` has registered. The audit log keeps it as you signed it. A halt needs no signature."""

HISTORY_EXAMPLES = """examples:
  opc deploy sign-history                         # deployment/history.csv, with your key
  opc deploy sign-history --state /lab/deployment --key ~/.ssh/id_ed25519

Look at the file first: the gate uses its results. Sign it again after each change."""
RESTORE_EXAMPLES = """examples:
  opc deploy restore --state deployment

Stop the scheduler first. The audit log is checked; results, champions, halts and revoked permits are taken from it.
The damaged queue.db is kept beside the new one. Requests that were under way wait for a person (opc deploy approve);
leases that were open count as lost, and their robots are asked what they ran."""
ROBOT_HEADERS = ("robot", "state", "leased to", "rung", "episodes", "notes")
# The gate counts episodes at reduced and full speed, including those of twins that stand in for real arms.
REQUEST_HEADERS = ("request", "state", "candidate", "rung", "this rung", "reduced+full", "interval", "reason")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "deploy",
        help="ask for robot time, decide, halt, see where everything stands",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    status = actions.add_parser("status", help="requests, robots, champion")
    status.add_argument("request", nargs="?", default="", help="only this request")
    status.add_argument("--state", type=Path, default=Path("deployment"), help="folder of the deployment")
    status.add_argument("--json", action="store_true", help="for machines")
    status.set_defaults(run=run_status)
    _add_request(actions)
    for word, what in (
        ("approve", "let a waiting request proceed"),
        ("reject", "turn a waiting or queued request down"),
        ("override", "let a request proceed that the gate refused"),
    ):
        decide = actions.add_parser(word, help=what)
        decide.add_argument("request")
        _add_reason(decide, is_reason_required=word != "approve", has_state=word != "approve")
        if word == "approve":  # the gate's findings are shown, and signed with the approval
            add_evidence(decide)
        _add_key(decide)
        decide.set_defaults(run=run_decide, word=word)
    halting, resuming = add_parsers(actions)
    _add_reason(halting, is_reason_required=True)
    halting.add_argument("--person", default=_login(), help="who says so; default: you")
    _add_reason(resuming, is_reason_required=False)
    _add_key(resuming)
    resuming.set_defaults(run=run_resume)
    clock = actions.add_parser("accept-clock", help="continue after correcting a clock that ran ahead")
    clock.add_argument("--journal", type=Path, help="a robot's journal.db; default: the scheduler's own clock")
    _add_reason(clock, is_reason_required=True)
    _add_key(clock)
    clock.set_defaults(run=run_accept_clock)
    signing = actions.add_parser(
        "sign-history",
        help="sign results from before this deployment, so that they count",
        epilog=HISTORY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    signing.add_argument("--state", type=Path, default=Path("deployment"), help="folder of the deployment")
    signing.add_argument("--key", type=Path, help="private key to sign with; default: $OPC_KEY, ssh agent, ~/.ssh")
    signing.add_argument("--person", default="", help="sign as this person, if you have keys of several people")
    signing.set_defaults(run=run_sign_history)
    restore = actions.add_parser(
        "restore",
        help="rebuild a damaged or lost queue from the audit log",
        epilog=RESTORE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    restore.add_argument("--state", type=Path, default=Path("deployment"), help="folder of the deployment")
    restore.add_argument("--json", action="store_true", help="for machines")
    restore.set_defaults(run=run_restore)
    add_simulate(actions)


def _add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", type=Path, help="private key to sign with; default: $OPC_KEY, ssh agent, ~/.ssh")
    parser.add_argument("--person", default="", help="sign as this person, if you have keys of several people")
    _add_rules(parser)


def _login() -> str:
    """The logged-in user; empty if unknown, in which case --person is required."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _add_reason(parser: argparse.ArgumentParser, *, is_reason_required: bool, has_state: bool = True) -> None:
    kind = some_text if is_reason_required else str
    parser.add_argument(
        "--reason", type=kind, default="", required=is_reason_required, help="why; kept in the audit log"
    )
    if has_state:
        parser.add_argument("--state", type=Path, default=Path("deployment"), help="folder of the deployment")


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scheduler", type=Path, default=Path("config/scheduler.yaml"), help="rules of the scheduler")
    parser.add_argument("--lab", default="", help="lab file that names the robots; default: config/lab.yaml")


def _add_request(actions: Any) -> None:
    request = actions.add_parser("request", help="ask the gate to let a candidate onto robots")
    request.add_argument("candidate", help="its folder, its name, or the beginning of its id")
    add_evidence(request)
    _add_key(request)
    request.add_argument("--robots", default="", help="comma-separated names; default: any")
    request.add_argument("--episodes", type=int, default=0, help="at full speed; default: as the rules allow")
    request.add_argument("--priority", type=int, default=0, help="higher goes first")
    request.add_argument("--json", action="store_true", help="for machines")
    request.set_defaults(run=run_request)


def run_restore(arguments: argparse.Namespace) -> int:
    import dataclasses
    import time

    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.restoring import restore_queue

    made = restore_queue(DeploymentFolder(arguments.state), time.time_ns())
    if arguments.json:
        print(json.dumps(dataclasses.asdict(made) | {"kept": str(made.kept or "")}))
        return 0
    print(f"restored from {made.events} changes: {made.requests} requests, {made.results} results")
    if made.lost:
        print(f"leases that were open, now lost: {', '.join(made.lost)}")
    if made.waiting:
        print(f"wait for a person: {', '.join(made.waiting)}; opc deploy approve or reject each")
    if made.kept is not None:
        print(f"the damaged queue is kept as {made.kept}")
    return 0


def run_sign_history(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.history import FILE_NAME
    from opc_ros.deployment.signed_history import sign_history
    from opc_ros.deployment.signing import find_signer

    keys = DeploymentFolder(arguments.state).keys
    signs = find_signer(keys, arguments.key, arguments.person)
    made = sign_history(arguments.state / FILE_NAME, keys, signs, time.time_ns())
    print(f"{made}: signed by {signs.person}")
    return 0


def run_status(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.cli.table import format_table
    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.status import describe_deployment, describe_recordings

    with DeploymentFolder(arguments.state).look() as queue:
        document = describe_deployment(queue, time.time_ns(), arguments.request)
    if arguments.json:
        print(json.dumps(document))
        return 0
    print(f"champion  {document['champion_name'] or 'none'}")
    for line in describe_recordings(document):
        print(f"recording {line}")
    if document["robots"]:
        print("\n" + format_table(ROBOT_HEADERS, [_robot_row(robot) for robot in document["robots"]]))
    if document["requests"]:
        print("\n" + format_table(REQUEST_HEADERS, [_request_row(request) for request in document["requests"]]))
    return 0


def _robot_row(robot: dict[str, Any]) -> tuple[str, ...]:
    lease = robot["lease"]
    leased = (lease["name"], lease["rung"], str(lease["episodes"])) if lease else ("nobody", "", "")
    notes = [f"halted by {robot['halted_by']}"] if robot["halted_by"] else []
    notes += [f"rests {robot['rests_s']} s"] if robot["rests_s"] else []
    return (robot["robot"], robot["state"], *leased, ", ".join(notes))


def _request_row(request: dict[str, Any]) -> tuple[str, ...]:
    """A request is running if any robot runs it, even if more of its episodes are queued."""
    real, rung = request["real"], request["on_this_rung"]
    return (
        request["id"],
        f"runs on {', '.join(request['running_on'])}" if request["running_on"] else request["state"],
        request["name"],
        request["rung"],
        f"{rung['successes']}/{rung['trials']}",
        f"{real['successes']}/{real['trials']}",
        f"[{real['interval'][0]:.2f}, {real['interval'][1]:.2f}]" if real["trials"] else "",
        request["reason"],
    )


def run_request(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.statement import RequestBody
    from opc_ros.policies.registry import CandidateRegistry

    candidate = CandidateRegistry(arguments.candidates).find(arguments.candidate)
    robots = tuple(filter(None, arguments.robots.split(",")))
    body = RequestBody(candidate.id, robots, arguments.episodes, arguments.priority)
    outcome = _say(arguments, "request", body, arguments.candidates)
    request, decision = outcome.request, outcome.decision
    assert request is not None
    assert decision is not None
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
    from opc_ros.deployment.statement import DecisionBody

    request_id, reason = arguments.request, arguments.reason
    if arguments.word != "approve":
        print(_say(arguments, arguments.word, DecisionBody(request_id, reason)).message)
        return 0

    def approve(handler: StatementHandler) -> DecisionBody:
        return DecisionBody(request_id, reason, _show_findings(request_id, handler))

    print(_say(arguments, "approve", approve).message)
    return 0


def _show_findings(request_id: str, handler: StatementHandler) -> Seen:
    """Print the open findings; the approval that follows covers only these."""
    from opc_ros.deployment.decision import Verdict
    from opc_ros.deployment.seen import Seen
    from opc_ros.errors import DeploymentError

    findings = handler.explain(request_id).findings
    for finding in findings:
        if finding.rule == "evidence":
            raise DeploymentError(f"{finding.sentence}; give --ranking, --store and --gate: you approve what they show")
        if finding.verdict is not Verdict.PASS:
            print(f"  {'NO' if finding.verdict is Verdict.FAIL else '?':>3}  {finding.rule:<16} {finding.sentence}")
    return Seen.of(request_id, findings)


def run_resume(arguments: argparse.Namespace) -> int:
    from opc_ros.deployment.statement import RobotBody

    outcome = _say(arguments, "resume", RobotBody(arguments.robot, arguments.reason))
    print(json.dumps({"resumed": outcome.robots}) if arguments.json else outcome.message)
    return 0


def run_accept_clock(arguments: argparse.Namespace) -> int:
    import time

    from opc_ros.deployment.journal import accept_clock_on_robot
    from opc_ros.deployment.signing import find_signer
    from opc_ros.deployment.statement import RobotBody, sign_statement

    body = RobotBody(reason=arguments.reason)
    if arguments.journal is None:
        print(_say(arguments, "accept_clock", body).message)
        return 0
    keys = arguments.journal.parent / "keys"
    signs = find_signer(keys, arguments.key, arguments.person)
    envelope = sign_statement("accept_clock", signs.person, body, signs.signer, time.time_ns())
    accept_clock_on_robot(arguments.journal, keys, envelope, time.time_ns())
    print("the clock counts from now; permits from before are void")
    return 0


def _say(
    arguments: argparse.Namespace,
    kind: Kind,
    body: Body | Callable[[StatementHandler], Body],
    candidates: Path | None = None,
) -> Outcome:
    """Sign a statement as the current user and act on it as the scheduler would."""
    import time

    from opc_ros.bringup.lab import load_scheduler_rules
    from opc_ros.cli.gate import make_gatekeeper
    from opc_ros.deployment.folder import DeploymentFolder
    from opc_ros.deployment.signing import find_signer
    from opc_ros.deployment.statement import sign_statement
    from opc_ros.workflows.statements import StatementHandler

    folder = DeploymentFolder(arguments.state)
    with folder.open() as (queue, _):
        signs = find_signer(folder.keys, arguments.key, arguments.person)
        handler = StatementHandler(
            queue,
            folder.keys,
            load_scheduler_rules(arguments.scheduler, arguments.lab),
            make_gatekeeper(arguments),
            candidates or Path("candidates"),
            getattr(arguments, "store", Path("store")),
            time.time_ns,
        )
        said = body(handler) if callable(body) else body
        return handler.act_on(sign_statement(kind, signs.person, said, signs.signer, time.time_ns()))
