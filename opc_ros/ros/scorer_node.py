"""The scorer on ROS: scores on request or when something is new, and publishes the ranking."""

from __future__ import annotations

import datetime
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from opc_interfaces.action import ScoreCandidates
from opc_interfaces.msg import Ranking as RankingMsg
from opc_interfaces.srv import RegisterCandidate
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.duration import Duration

from opc_ros.errors import OpcError
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.compute import choose_device, give_way
from opc_ros.policies.freed_memory import release_freed_memory
from opc_ros.policies.loading import try_candidate
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.progress import Report, ignore_progress
from opc_ros.ros import topics
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.ranking_messages import run_to_msg
from opc_ros.ros.run import run_node
from opc_ros.ros.scorer_settings import ScorerSettings
from opc_ros.ros.services import create_service
from opc_ros.ros.steady import create_steady_timer
from opc_ros.scoring.engines import LocalEngine
from opc_ros.scoring.metrics import find_ranking_metric
from opc_ros.store import open_store
from opc_ros.store.object_blobs import is_bucket
from opc_ros.workflows.scoring_run import RankingOptions, ScoringRun
from opc_ros.workflows.store_scoring import StoreScoring, score_store

FEEDBACK_S = 0.2
THREADS = 4  # one scores, one takes cancellations and candidates, two for requests that wait


class ScorerNode(OpcNode[ScorerSettings]):
    """Scores candidates on the validation store, on request or when new episodes or candidates arrive."""

    NAME = "scorer"
    SETTINGS = ScorerSettings

    def __init__(self) -> None:
        super().__init__()
        self._stopping = threading.Event()

    def setup(self, settings: ScorerSettings) -> None:
        self._settings = settings
        self._work = threading.Lock()  # one scoring at a time
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scoring", initializer=give_way)
        self.held.callback(self._thread.shutdown)
        self._is_serving = False
        self._goal_waits = threading.Event()  # a request takes precedence over the node's own scoring
        self._seen: tuple[object, ...] = ()
        self._complaint = ""
        if not is_bucket(settings.store) and not Path(settings.store).is_dir():
            self.get_logger().warning(f"{settings.store}: no store there yet; a recorder creates it")
        # Also loads torch, which takes seconds; do that before the first request.
        choose_device()
        self._rankings = self.create_publisher(RankingMsg, "ranking", topics.LATEST)
        self.held.callback(self.destroy_publisher, self._rankings)
        self.held.callback(self._rankings.wait_for_all_acked, Duration(seconds=0.5))
        server = ActionServer(
            self,
            ScoreCandidates,
            "score_candidates",
            execute_callback=self._execute,
            goal_callback=self._judge_goal,
            cancel_callback=lambda handle: CancelResponse.ACCEPT,
            callback_group=ReentrantCallbackGroup(),
        )
        self.held.callback(server.destroy)
        service = create_service(self, RegisterCandidate, "register_candidate", self._register)
        self.held.callback(self.destroy_service, service)
        if settings.rescore_s > 0:
            group = MutuallyExclusiveCallbackGroup()
            timer = create_steady_timer(self, settings.rescore_s, self._look_for_news, group)
            self.held.callback(self.destroy_timer, timer)

    def start(self) -> None:
        self._stopping.clear()
        self.get_logger().info(f"scoring {self._settings.candidates} on {self._settings.store}")

    def pause(self) -> None:
        self._stopping.set()
        with self._work:
            pass

    def hurry(self) -> None:
        self._stopping.set()

    def _judge_goal(self, goal: Any) -> GoalResponse:
        if not self.is_active or self._is_serving:
            why = "another request is being scored" if self._is_serving else "the scorer is not active"
            self.get_logger().warning(f"request refused: {why}")
            return GoalResponse.REJECT
        self._is_serving = True
        return GoalResponse.ACCEPT

    def _execute(self, handle: ServerGoalHandle) -> ScoreCandidates.Result:
        self._goal_waits.set()
        try:
            with self._work:
                return self._serve(handle)
        finally:
            self._goal_waits.clear()
            self._is_serving = False

    def _serve(self, handle: ServerGoalHandle) -> ScoreCandidates.Result:
        def is_cancelled() -> bool:
            return handle.is_cancel_requested or self._stopping.is_set()

        feedback = _Feedback(handle)
        try:
            run = self._score(self._request(handle.request), is_cancelled, feedback.scoring, feedback.ranking)
        except OpcError as error:
            if handle.is_cancel_requested:
                handle.canceled()
            else:
                handle.abort()
            return ScoreCandidates.Result(success=False, message=str(error))
        handle.succeed()
        return ScoreCandidates.Result(
            success=True,
            message="" if run.is_complete else "some candidates or episodes were left out; the report says why",
            ranking=run_to_msg(run, self.now_ns()),
            report_path=str(run.page.absolute()),
        )

    def _request(self, goal: Any) -> StoreScoring:
        settings = self._settings
        metric = find_ranking_metric(goal.metric or settings.metric).name
        options = replace(self._options(), metric=metric, prior=goal.prior or settings.prior)
        return replace(
            self._everything(), candidates=tuple(goal.candidate_ids), snapshot=goal.snapshot, options=options
        )

    def _everything(self) -> StoreScoring:
        settings = self._settings
        return StoreScoring(
            store=Path(settings.store),
            registry=Path(settings.candidates),
            scores=Path(settings.scores),
            keys=Path(settings.keys) if settings.keys else None,
            deployment=Path(settings.keys).parent if settings.keys else None,
            is_published=settings.publish,
            options=self._options(),
        )

    def _options(self) -> RankingOptions:
        settings = self._settings
        return RankingOptions(
            metric=settings.metric,
            prior=settings.prior,
            top_k=settings.top_k,
            confidence=settings.confidence,
            resamples=settings.resamples,
            seed=settings.seed,
        )

    def _score(
        self,
        request: StoreScoring,
        is_cancelled: Callable[[], bool],
        report_scoring: Report = ignore_progress,
        report_ranking: Report = ignore_progress,
    ) -> ScoringRun:
        # Always in the same thread: each of the executor's threads would keep the memory that scoring freed for itself.
        run = self._thread.submit(
            score_store,
            request,
            LocalEngine(workers=self._settings.workers or None, allow_code=self._settings.allow_code),
            now=lambda: datetime.datetime.now(datetime.UTC),
            is_cancelled=is_cancelled,
            report_scoring=report_scoring,
            report_ranking=report_ranking,
        ).result()
        release_freed_memory()
        if run.is_published:
            self._rankings.publish(run_to_msg(run, self.now_ns()))
        elif run.why_not_published:
            self.get_logger().info(
                f"ranking {run.ranking.ranking_id[:12]} is kept, not published: {run.why_not_published}"
            )
        best = run.ranking.candidates[0]
        self.get_logger().info(
            f"{len(run.ranking.candidates)} candidates on {run.ranking.episodes} episodes: "
            f"{best.name} leads with {best.score:.4f}; {run.page}"
        )
        return run

    def _look_for_news(self) -> None:
        """Score everything again if episodes, labels or candidates have changed."""
        if not self.is_active or not self._work.acquire(blocking=False):
            return
        try:
            seen = self._thread.submit(self._fingerprint).result()
            if seen != self._seen:
                self._score(self._everything(), lambda: self._stopping.is_set() or self._goal_waits.is_set())
                self._seen, self._complaint = seen, ""
        except OpcError as error:
            if str(error) != self._complaint and not self._goal_waits.is_set():
                self.get_logger().warning(f"cannot score yet: {error}")
            self._complaint = str(error)
        finally:
            self._work.release()

    def _fingerprint(self) -> tuple[object, ...]:
        folders = tuple(path.name for path in CandidateRegistry(self._settings.candidates).folders())
        with open_store(self._settings.store) as store:
            return (store.snapshot_id_now(), folders)

    def _register(self, request: Any, response: Any) -> Any:
        try:
            found = read_candidate(request.path, follows_links=False)
            try_candidate(found)
            candidate = CandidateRegistry(self._settings.candidates).add(found)
        except OpcError as error:
            response.message = str(error)
            return response
        response.success, response.candidate_id = True, candidate.id
        return response


class _Feedback:
    """Progress of one goal, no more often than anybody can read."""

    def __init__(self, handle: ServerGoalHandle) -> None:
        self._handle = handle
        self._began = time.monotonic()
        self._told = -FEEDBACK_S
        self._cached: int | None = None

    def scoring(self, done: int, total: int, note: str = "") -> None:
        if self._cached is None:
            self._cached = done
        self._tell("decoding and evaluating", done, total, self._cached)

    def ranking(self, done: int, total: int, note: str = "") -> None:
        self._tell("bootstrapping", done, total, 0)

    def _tell(self, phase: str, done: int, total: int, cached: int) -> None:
        now = time.monotonic()
        if now - self._told < FEEDBACK_S and done < total:
            return
        self._told = now
        fresh = done - cached
        remaining_s = (now - self._began) / fresh * (total - done) if fresh > 0 else -1.0
        self._handle.publish_feedback(
            ScoreCandidates.Feedback(phase=phase, done=done, cached=cached, total=total, remaining_s=remaining_s)
        )


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(ScorerNode, argv, threads=THREADS)


if __name__ == "__main__":
    sys.exit(main())
