"""Behaviour policies play on the arms, and recorders keep the episodes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from opc_ros.demo.lab import DemoLab, shorten
from opc_ros.demo.screen import Screen
from opc_ros.episode import LabelSource
from opc_ros.errors import ArmError
from opc_ros.store import open_store

STALLED_S = 240.0  # players are restarted after this long without a new episode
ROUNDS = 4  # how often failed or quarantined episodes are played again
SAVING_S = 30.0  # how long a recorder may take to save its last episode


@dataclass(frozen=True, slots=True)
class Recorded:
    """What behaviour policies have added to the store."""

    by_robot: dict[str, int]
    successes: int
    set_aside: int
    by_person: int
    newest: str  # an episode's id; empty if there is none yet

    @property
    def episodes(self) -> int:
        return sum(self.by_robot.values())

    def describe(self) -> str:
        aside = f", {self.set_aside} set aside" if self.set_aside else ""
        person = f", {self.by_person} labelled by a person" if self.by_person else ""
        return f"{self.successes} successes{aside}{person}"


def count_recorded(store: Path, robots: tuple[str, ...]) -> Recorded:
    with open_store(store) as opened:
        played = [episode for episode in opened.episodes() if episode.robot in robots and not episode.permit_id]
        mine = [episode for episode in played if episode.is_labelled]
        set_aside = len(opened.quarantined()[0])
    return Recorded(
        by_robot={robot: sum(episode.robot == robot for episode in mine) for robot in robots},
        successes=sum(episode.label.is_success is True for episode in mine),
        set_aside=set_aside,
        by_person=sum(episode.label.source is LabelSource.PERSON for episode in mine),
        newest=max(mine, key=lambda episode: episode.began_ns).id if mine else "",
    )


def collect(lab: DemoLab, screen: Screen) -> Recorded:
    """Collect until every robot has its share; failed episodes are played again."""
    plan = lab.plan
    teller = _Teller(lab, screen)
    for attempt in range(ROUNDS):
        recorded = teller.look()
        there = recorded.by_robot
        lacking = {robot: plan.share(robot) - there[robot] for robot in plan.robots if there[robot] < plan.share(robot)}
        if not lacking:
            return recorded
        if attempt:
            screen.line(f"  {sum(lacking.values())} episodes are missing; trying again")
        with lab.start(lab.behaviours(lacking, there)) as players:
            while not players.is_done and not teller.is_stalled:
                teller.look()
                time.sleep(0.5)
            failed = players.failed
        if teller.is_stalled:
            screen.line(f"  no arm has recorded an episode for {STALLED_S:g} s; logs: {shorten(plan.logs)}")
            teller.forgive()
        for label, how in failed.items():
            screen.line(f"  {label} failed: {how}; its log: {shorten(lab.logs.path(label))}")
        deadline = time.monotonic() + SAVING_S
        while teller.look().episodes < plan.episodes and not failed and time.monotonic() < deadline:
            time.sleep(0.2)
    recorded = teller.look()
    if recorded.episodes < plan.episodes:
        raise ArmError(
            f"{recorded.episodes} of {plan.episodes} episodes recorded after {ROUNDS} attempts; logs: {plan.logs}"
        )
    return recorded


class _Teller:
    """Reports progress, and says once how a person can label."""

    def __init__(self, lab: DemoLab, screen: Screen) -> None:
        self._lab = lab
        self._screen = screen
        self._has_invited = False
        self._newest = ""
        self.forgive()

    @property
    def is_stalled(self) -> bool:
        return time.monotonic() - self._news_s > STALLED_S

    def forgive(self) -> None:
        self._news_s = time.monotonic()

    def look(self) -> Recorded:
        plan = self._lab.plan
        self._lab.watch()
        recorded = count_recorded(plan.store, plan.robots)
        if recorded.newest != self._newest:
            self._newest = recorded.newest
            self.forgive()
        if recorded.newest and not self._has_invited:
            self._invite(recorded.newest)
        shares = ", ".join(f"{robot} {count}" for robot, count in recorded.by_robot.items())
        if recorded.episodes:
            what = f"{recorded.episodes} of {plan.episodes} episodes recorded ({shares}), {recorded.describe()}"
        else:
            what = "nodes are starting, and the first episode is played"
        self._screen.waiting(what)
        return recorded

    def _invite(self, episode: str) -> None:
        self._has_invited = True
        self._screen.line("  A person may label any episode while this runs; in another terminal:")
        self._screen.hint(f"    cd {shorten(self._lab.plan.folder)} && opc store label {episode} failure")
