"""The gate on files: the ranking as it is now, the store it rests on, and the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from opc_ros.deployment.decision import Decision, Finding, RealResult, Verdict
from opc_ros.deployment.gate import SnapshotFacts, decide, predict_field
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.history import add_results, read_history
from opc_ros.errors import DeploymentError, OpcError
from opc_ros.ranking import Ranking
from opc_ros.ranking.forecast import Forecast


def read_ranking(path: Path) -> Ranking:
    try:
        return Ranking.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DeploymentError(f"{path}: no ranking there: {error}; make one with `opc score`") from error


def _check_scope(ranking: Ranking) -> Ranking:
    """First of one is no evidence: a place counts only among everything that is registered."""
    if ranking.scope != "registry":
        raise DeploymentError(
            f"ranking {ranking.ranking_id[:12]}: ranks {len(ranking.candidates)} selected candidates, expected the "
            "whole registry: run `opc score` without naming candidates"
        )
    return ranking


class ListedEpisode(Protocol):
    """An episode as a snapshot lists it."""

    @property
    def episode_id(self) -> str: ...
    @property
    def robot(self) -> str: ...


class ListedSnapshot(Protocol):
    """A fixed set of episodes."""

    @property
    def id(self) -> str: ...
    @property
    def entries(self) -> Iterable[ListedEpisode]: ...
    @property
    def successes(self) -> int: ...


class ValidationSource(Protocol):
    """Of a validation store, what the gate asks."""

    def snapshot(self, ref: str) -> ListedSnapshot: ...

    def beginnings(self) -> Iterable[tuple[str, int]]: ...


def learn_snapshot(store: ValidationSource, ref: str) -> SnapshotFacts:
    """What the gate must know of a snapshot, from the episodes it lists."""
    snapshot = store.snapshot(ref)
    listed = {entry.episode_id: entry.robot for entry in snapshot.entries}
    began = [began_ns for episode_id, began_ns in store.beginnings() if episode_id in listed]
    if len(began) != len(listed):
        raise DeploymentError(
            f"snapshot {snapshot.id[:12]}: {len(listed) - len(began)} of {len(listed)} episodes are not in the store"
        )
    return SnapshotFacts(
        snapshot_id=snapshot.id,
        episodes=len(listed),
        successes=snapshot.successes,
        newest_ns=max(began),
        robots=tuple(sorted(set(listed.values()))),
    )


class Gatekeeper:
    """Answers for the gate again and again; reads a file anew only when it has changed."""

    def __init__(
        self,
        rules: GateRules,
        ranking: Path,
        open_store: Callable[[], AbstractContextManager[ValidationSource]],
        now: Callable[[], int],
        history: Path | None = None,
    ) -> None:
        """`history` is a file of results from before this deployment; `real` of each question is added to them."""
        self._rules = rules
        self._ranking_path = ranking
        self._open_store = open_store
        self._now = now
        self._history_path = history
        self._forecast: tuple[object, Forecast] | None = None
        self._mark: tuple[int, int] | None = None
        self._ranking: Ranking | None = None
        self._facts: dict[str, SnapshotFacts] = {}

    def decide(self, candidate_id: str, real: Mapping[str, RealResult], champion_id: str) -> Decision:
        """The gate's word now; evidence that cannot be read is a reason to fail."""
        try:
            ranking = self.ranking()
            facts = self._snapshot(self._rules.snapshot.tag or ranking.snapshot_id)
            results = self._add_history(real)
            forecast = self.forecast(real)
        except OpcError as error:
            return Decision(candidate_id, "", (Finding("evidence", Verdict.FAIL, str(error)),))
        return decide(
            candidate_id,
            ranking,
            facts,
            self._rules,
            now_ns=self._now(),
            champion_id=champion_id,
            real=results,
            forecast=forecast,
        )

    def forecast(self, real: Mapping[str, RealResult]) -> Forecast:
        """Predicted success of the whole field; computed anew only when ranking or results have changed."""
        ranking, results = self.ranking(), self._add_history(real)
        key = (ranking.ranking_id, tuple(sorted((name, each.successes, each.trials) for name, each in results.items())))
        if self._forecast is None or self._forecast[0] != key:
            self._forecast = (key, predict_field(ranking, results))
        return self._forecast[1]

    def _add_history(self, real: Mapping[str, RealResult]) -> dict[str, RealResult]:
        return add_results(read_history(self._history_path) if self._history_path else {}, real)

    def ranking(self) -> Ranking:
        try:
            found = self._ranking_path.stat()
        except OSError as error:
            raise DeploymentError(f"{self._ranking_path}: {error.strerror}; make one with `opc score`") from error
        mark = (found.st_mtime_ns, found.st_size)
        if self._ranking is None or mark != self._mark:
            self._ranking, self._mark = _check_scope(read_ranking(self._ranking_path)), mark
        return self._ranking

    def _snapshot(self, ref: str) -> SnapshotFacts:
        with self._open_store() as store:
            snapshot_id = store.snapshot(ref).id
            if snapshot_id not in self._facts:
                self._facts[snapshot_id] = learn_snapshot(store, snapshot_id)
        return self._facts[snapshot_id]
