"""The gate applied to files: the current ranking, the store it rests on, and the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from opc_ros.deployment.beside import Beside
from opc_ros.deployment.decision import Decision, Finding, RealResult, Verdict
from opc_ros.deployment.gate import SnapshotFacts, decide, predict_field
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.history import add_results, read_history
from opc_ros.deployment.people import load_people
from opc_ros.deployment.signed_history import read_signed_history
from opc_ros.deployment.signed_ranking import ENVELOPE_NAME, RankingSeal, check_ranking
from opc_ros.deployment.statement import CLOCK_SKEW_NS, SECOND_NS
from opc_ros.documents import read_bytes
from opc_ros.errors import DeploymentError, OpcError
from opc_ros.ranking import Ranking
from opc_ros.ranking.forecast import Forecast


def read_ranking(path: Path) -> Ranking:
    try:
        return Ranking.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DeploymentError(f"{path}: cannot read a ranking: {error}; make one with `opc score`") from error


def _check_scope(ranking: Ranking) -> Ranking:
    """A rank only counts among everything that is registered: being first of one is no evidence."""
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
    """What the gate needs from a validation store."""

    def snapshot(self, ref: str) -> ListedSnapshot: ...

    def tags(self) -> Mapping[str, str]: ...

    def beginnings(self) -> Iterable[tuple[str, int]]: ...


def learn_snapshot(store: ValidationSource, ref: str) -> SnapshotFacts:
    """What the gate needs to know about a snapshot, from the episodes it lists."""
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


Counts = tuple[tuple[str, int, int], ...]  # candidate, successes, trials


class EvidencePending(DeploymentError):
    """The evidence is still being read; callers that cannot wait should ask again."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A ranking, and the facts about the snapshot it is judged by."""

    ranking: Ranking
    facts: SnapshotFacts


class Gatekeeper:
    """Answers for the gate repeatedly; rereads files only when they have changed, in a background thread.

    Callers that must not wait pass a short patience, and get answers from the previous evidence until the new has been
    read.
    """

    def __init__(
        self,
        rules: GateRules,
        ranking: Path,
        open_store: Callable[[], AbstractContextManager[ValidationSource]],
        now: Callable[[], int],
        history: Path | None = None,
        keys: Path | None = None,
    ) -> None:
        """`history` is a file of results from before this deployment, added to the `real` results of each call.

        `keys` is the folder that says whose signatures count on ranking and history; None, as in simulations, requires
        no signature.
        """
        self._rules = rules
        self._keys = keys
        self._newest: tuple[Ranking, RankingSeal] | None = None
        self._since_ns = 0
        self._history_since_ns = 0
        self._history_ns = 0
        self._ranking_path = ranking
        self._open_store = open_store
        self._now = now
        self._history_path = history
        self._forecasts: Beside[tuple[str, Counts], Forecast] = Beside("forecast")
        self._facts: dict[str, SnapshotFacts] = {}
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gate evidence")
        self._mark: tuple[int, int, str] | None = None
        self._reading: Future[Evidence] | None = None  # what the files at the mark contain, or will
        self._before: Evidence | None = None

    def close(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._forecasts.close()

    def decide(
        self,
        candidate_id: str,
        real: Mapping[str, RealResult],
        champion_id: str,
        *,
        patience_s: float | None = None,
    ) -> Decision:
        """The gate's current verdict; unreadable evidence fails. Waits for evidence unless given `patience_s`."""
        try:
            evidence = self.evidence(patience_s)
            results = self._add_history(real)
        except EvidencePending:
            raise
        except OpcError as error:
            return Decision(candidate_id, "", (Finding("evidence", Verdict.FAIL, str(error)),))
        return decide(
            candidate_id,
            evidence.ranking,
            evidence.facts,
            self._rules,
            now_ns=self._now(),
            champion_id=champion_id,
            real=results,
            forecast=self._predict(evidence.ranking, results, patience_s),
        )

    def forecast(self, real: Mapping[str, RealResult], *, patience_s: float | None = None) -> Forecast:
        """Predicted success of the whole field; recomputed only when the ranking or the results have changed."""
        return self._predict(self.evidence(patience_s).ranking, self._add_history(real), patience_s)

    def _predict(self, ranking: Ranking, results: Mapping[str, RealResult], patience_s: float | None) -> Forecast:
        """Impatient callers may get a forecast from slightly older results, but never one from another ranking."""
        counts = tuple(sorted((name, each.successes, each.trials) for name, each in results.items()))
        key = (ranking.ranking_id, counts)
        answer = self._forecasts.ask(key, lambda: self._foresee(ranking, results), patience_s)
        if answer is None or answer[0][0] != ranking.ranking_id:
            raise EvidencePending(
                f"ranking {ranking.ranking_id[:12]}: success is being predicted; ask again in a moment"
            )
        return answer[1]

    def _foresee(self, ranking: Ranking, results: Mapping[str, RealResult]) -> Forecast:
        """Compute the slow parts that every decision needs, so that deciding itself takes no time."""
        found = predict_field(ranking, results)
        found.agreement()
        found.chance_within(found.ids[0], self._rules.within.tolerance)
        return found

    def _add_history(self, real: Mapping[str, RealResult]) -> dict[str, RealResult]:
        path = self._history_path
        if path is None:
            return dict(real)
        if self._keys is None:
            return add_results(read_history(path), real)
        found = read_signed_history(path, self._keys, max(self._history_since_ns, self._history_ns))
        if found.signed_ns > self._now() + CLOCK_SKEW_NS:
            raise DeploymentError(f"{path}: signed in the future: set the clocks, and sign it again")
        self._history_ns = max(self._history_ns, found.signed_ns)
        return add_results(found.results, real)

    def evidence(self, patience_s: float | None = None) -> Evidence:
        """The newest evidence that could be read in the given time, or else the previous evidence."""
        mark = self._look()
        if self._reading is None or mark != self._mark:
            if self._reading is not None and self._reading.done() and self._reading.exception() is None:
                self._before = self._reading.result()
            self._mark, self._reading = mark, self._reader.submit(self._read)
        try:
            return self._reading.result(timeout=patience_s)
        except TimeoutError:
            if self._before is None:
                raise EvidencePending(f"{self._ranking_path}: is being read; ask again in a few seconds") from None
            return self._before

    def ranking(self) -> Ranking:
        return self.evidence().ranking

    def _look(self) -> tuple[int, int, str]:
        """A cheap fingerprint that changes whenever the evidence does."""
        try:
            found = self._ranking_path.stat()
        except OSError as error:
            raise DeploymentError(f"{self._ranking_path}: {error.strerror}; make one with `opc score`") from error
        tag, heard = self._rules.snapshot.tag, self._newest[0].ranking_id if self._newest else ""
        if not tag:
            return found.st_mtime_ns, found.st_size, heard
        with self._open_store() as store:
            return found.st_mtime_ns, found.st_size, store.tags().get(tag, "") + heard

    def hear(self, ranking: Ranking, envelope: str) -> None:
        """Take a ranking from the scorer, from a file or a topic; it never replaces a newer one."""
        assert self._keys is not None
        seal = check_ranking(_check_scope(ranking), envelope, load_people(self._keys))
        if seal.signed_ns > self._now() + CLOCK_SKEW_NS:
            ahead_s = (seal.signed_ns - self._now()) // SECOND_NS
            raise DeploymentError(f"ranking {ranking.ranking_id[:12]}: signed {ahead_s} s from now: set the clocks")
        if self._newest is None and seal.signed_ns < self._since_ns:
            raise DeploymentError(
                f"ranking {ranking.ranking_id[:12]}: is older than one that counted here before: an old file was put "
                "back; `opc score` publishes a new one"
            )
        if self._newest is None or seal.signed_ns >= self._newest[1].signed_ns:
            self._newest = (ranking, seal)

    def newest_seal(self) -> RankingSeal | None:
        """The seal of the ranking that counts now."""
        return self._newest[1] if self._newest is not None else None

    def newest_history_ns(self) -> int:
        """When the newest history that this program has used was signed; 0 if it has seen none."""
        return self._history_ns

    def require_since(self, signed_ns: int, history_ns: int) -> None:
        """Reject rankings and histories signed before these times, even after a restart of this program."""
        self._since_ns, self._history_since_ns = signed_ns, history_ns
        self._history_ns = min(self._history_ns, history_ns)  # after a clock that ran ahead was corrected
        if self._newest is not None and self._newest[1].signed_ns < signed_ns:
            self._newest = self._mark = self._reading = self._before = None

    def _read_signed(self) -> Ranking:
        """The newest ranking that the scorer signed."""
        ranking = _check_scope(read_ranking(self._ranking_path))
        if self._keys is None:
            return ranking
        envelope = self._ranking_path.resolve().with_name(ENVELOPE_NAME)
        if not envelope.is_file():
            raise DeploymentError(
                f"{envelope}: the ranking is not signed; give the scorer a key with "
                f"`opc keys create {self._keys} --for scorer` and publish it again"
            )
        self.hear(ranking, read_bytes(envelope, error=DeploymentError).decode("utf-8", errors="replace"))
        assert self._newest is not None
        return self._newest[0]

    def _read(self) -> Evidence:
        ranking = self._read_signed()
        ref = self._rules.snapshot.tag or ranking.snapshot_id
        with self._open_store() as store:
            if ref not in self._facts or self._rules.snapshot.tag:
                facts = learn_snapshot(store, ref)
                self._facts[facts.snapshot_id] = facts
                return Evidence(ranking, facts)
        return Evidence(ranking, self._facts[ref])
