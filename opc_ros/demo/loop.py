"""The loop in seven acts: the lab's history, starting, recording, scoring, the gate, runs on the arms, the proof."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from opc_ros.demo.collecting import Recorded, collect
from opc_ros.demo.evidence import export_evidence_of_best
from opc_ros.demo.judging import Judged, ask_gate, score
from opc_ros.demo.lab import DemoLab, shorten
from opc_ros.demo.lab_history import LabHistory, play_history
from opc_ros.demo.plan import DemoPlan
from opc_ros.demo.proof import describe_proof, write_proof
from opc_ros.demo.running import Ran, run_permitted
from opc_ros.demo.screen import Screen
from opc_ros.demo.summary import next_commands, summarise, write_report
from opc_ros.ranking import Ranking


def run_loop(plan: DemoPlan, screen: Screen) -> None:
    """Run the whole loop, with real processes that talk over DDS in the ROS domain of the environment."""
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    arms = f"{len(plan.robots)} {plan.world.replace('_', '-')} arm{'s' if len(plan.robots) > 1 else ''}"
    screen.head("1. The lab's history: episodes that scripted and earlier learned policies have played")
    history = play_history(plan, screen)
    screen.line(f"  {history.describe()}")
    screen.head(f"2. {arms} behind KUKA topics come up, with recorders, runners, scorer, scheduler")
    with DemoLab(plan) as lab:
        screen.line(
            f"  {lab.count} ROS 2 nodes are starting in domain {domain}; their logs are in {shorten(plan.logs)}"
        )
        screen.head(f"3. Behaviour policy '{plan.policy}' adds to the validation set through the recorders")
        recorded = collect(lab, screen)
        screen.line(f"  {recorded.episodes} episodes recorded, {recorded.describe()}")
        if address := lab.console_address():
            screen.line(f"  The lab's live page, while this runs: {address}")
        screen.head("4. Candidates trained in simulation are scored on it")
        ranking, new = score(lab, screen, history)
        screen.head(f"5. The gate ({plan.gate_config}) is asked about each, and about a tampered copy of the best")
        judged = ask_gate(lab, screen, ranking, new)
        screen.head("6. The scheduler leases the arms, at reduced speed until the gate is convinced, then at full")
        ran = run_permitted(lab, screen)
        told = _Told(history, recorded, ranking, new, judged, ran)
        if plan.is_staying:
            _conclude(plan, screen, told)
            _stay(lab, screen)
            return
        screen.waiting("the nodes to end")
    _conclude(plan, screen, told)


@dataclass(frozen=True, slots=True)
class _Told:
    """The results of the acts."""

    history: LabHistory
    recorded: Recorded
    ranking: Ranking
    new: tuple[str, ...]
    judged: Judged
    ran: Ran


def _conclude(plan: DemoPlan, screen: Screen, told: _Told) -> None:
    page = write_report(plan, told.ranking, told.ran)
    screen.head("7. The proof: what was expected of each candidate, and what it truly does")
    screen.lines(describe_proof(plan, told.ranking, told.new, told.history, told.ran))
    write_proof(plan, told.ranking, told.new, told.ran)
    screen.lines(export_evidence_of_best(plan, told.ran))
    screen.head(f"What happened; everything is in {shorten(plan.folder)}")
    screen.lines(summarise(plan, told.recorded, told.ranking, told.judged, told.ran, told.history, page))
    screen.line("Next:")
    for command in next_commands(plan, told.ranking, told.new):
        screen.hint(command)


def _stay(lab: DemoLab, screen: Screen) -> None:
    """Keep the lab running until Ctrl-C."""
    screen.line(f"The lab stays up; its page is {lab.console_address() or 'not there'}. Ctrl-C ends it.")
    with suppress(KeyboardInterrupt):
        while True:
            lab.watch()
            time.sleep(0.5)
