from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opc_ros.store import open_store
from tests.policies.making import SMALL, make_candidate, make_episode, make_episodes, make_store

pytestmark = pytest.mark.ros


class Client:
    """Sends goals to the scorer and waits for their results."""

    def __init__(self, probe: Any) -> None:
        from opc_interfaces.action import ScoreCandidates
        from rclpy.action import ActionClient

        self._probe = probe
        self._action = ActionClient(probe.node, ScoreCandidates, "/lab/score_candidates")
        self._goal = ScoreCandidates.Goal
        self.feedback: list[Any] = []

    def send(self, **fields: Any) -> Any:
        self._probe.until(self._action.server_is_ready, "no scorer")
        future = self._action.send_goal_async(
            self._goal(**fields), feedback_callback=lambda message: self.feedback.append(message.feedback)
        )
        self._probe.until(future.done, "no answer to the goal")
        return future.result()

    def finish(self, handle: Any) -> Any:
        future = handle.get_result_async()
        self._probe.until(future.done, "no result")
        return future.result()


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", make_episodes(12))
    make_candidate(tmp_path / "candidates" / "a", seed=1, image_size=32, **SMALL)
    return tmp_path


def parameters(lab: Path) -> dict[str, object]:
    return {
        "store": lab / "store",
        "candidates": lab / "candidates",
        "scores": lab / "scores",
        "resamples": 50,
        "workers": 1,
    }


def test_a_goal_gives_a_ranking_a_report_and_a_latched_topic(start: Callable, probe: Any, lab: Path) -> None:
    from action_msgs.msg import GoalStatus
    from opc_interfaces.msg import Ranking
    from opc_interfaces.srv import RegisterCandidate

    from opc_ros.ros import topics

    start("scorer", "/lab", **parameters(lab))
    client = Client(probe)
    other = make_candidate(lab / "elsewhere", seed=2, image_size=32, **SMALL)
    answer = probe.call(RegisterCandidate, "/lab/register_candidate", path=str(lab / "elsewhere"))
    assert (answer.success, answer.candidate_id) == (True, other.id)
    refused = probe.call(RegisterCandidate, "/lab/register_candidate", path=str(lab / "store"))
    assert not refused.success
    assert "candidate.yaml" in refused.message

    finished = client.finish(client.send(metric="opc"))
    assert finished.status == GoalStatus.STATUS_SUCCEEDED
    ranking = finished.result.ranking
    assert (ranking.metric, ranking.episodes, [score.rank for score in ranking.scores]) == ("opc", 12, [1, 2])
    assert Path(finished.result.report_path).read_text().startswith("<!doctype html>")
    assert client.feedback[-1].done == client.feedback[-1].total
    late = probe.listen(Ranking, "/lab/ranking", topics.LATEST)
    probe.until(lambda: late, "a late listener hears no ranking")
    assert late[0].ranking_id == ranking.ranking_id

    for part in ({"candidate_ids": [other.id], "metric": "opc"}, {"metric": "soft_opc"}):
        explored = client.finish(client.send(**part))
        assert explored.status == GoalStatus.STATUS_SUCCEEDED
        assert explored.result.ranking.ranking_id != ranking.ranking_id
    assert json.loads((lab / "scores/published/ranking.json").read_text())["metric"] == "opc"
    assert {message.ranking_id for message in late} == {ranking.ranking_id}

    aborted = client.finish(client.send(snapshot="never"))
    assert aborted.status == GoalStatus.STATUS_ABORTED
    assert "snapshot 'never'" in aborted.result.message


def test_a_cancelled_goal_keeps_what_it_computed_and_a_signal_ends_one_at_once(
    start: Callable, probe: Any, lab: Path
) -> None:
    from action_msgs.msg import GoalStatus

    with open_store(lab / "store") as store:
        for seed in range(100, 220):
            store.append(make_episode(seed, steps=6))
    for seed in range(3):
        make_candidate(lab / "candidates" / f"large{seed}", seed=seed, image_size=64)
    process = start("scorer", "/lab", **parameters(lab))
    client = Client(probe)
    handle = client.send()
    probe.until(lambda: any(f.done > 0 for f in client.feedback), "no feedback")
    second = client.send()
    assert not second.accepted
    cancelling = handle.cancel_goal_async()
    probe.until(cancelling.done, "no answer to the cancellation")
    finished = client.finish(handle)
    assert finished.status == GoalStatus.STATUS_CANCELED
    assert "what was computed is kept" in finished.result.message
    client.feedback.clear()
    client.send()
    probe.until(lambda: client.feedback, "no feedback")
    assert client.feedback[0].cached > 0
    process.signal(signal.SIGINT)
    assert process.wait() == 0  # in the middle of its work


def test_new_episodes_and_candidates_are_scored_without_being_asked(start: Callable, probe: Any, lab: Path) -> None:
    from opc_interfaces.msg import Ranking

    from opc_ros.ros import topics

    start("scorer", "/lab", **parameters(lab), rescore_s=0.2)
    rankings = probe.listen(Ranking, "/lab/ranking", topics.LATEST)
    probe.until(lambda: rankings, "no first ranking")
    assert (rankings[-1].episodes, len(rankings[-1].scores)) == (12, 1)
    with open_store(lab / "store") as store:
        store.append(make_episode(500))
    probe.until(lambda: rankings[-1].episodes == 13, "the new episode was not scored")
    make_candidate(lab / "candidates" / "b", seed=3, image_size=32, **SMALL)
    probe.until(lambda: len(rankings[-1].scores) == 2, "the new candidate was not scored")


def test_a_store_that_is_made_later_is_waited_for(start: Callable, probe: Any, lab: Path) -> None:
    from opc_interfaces.msg import Ranking

    from opc_ros.ros import topics

    later = parameters(lab) | {"store": lab / "later", "rescore_s": 0.2}
    process = start("scorer", "/lab", **later)
    probe.until(lambda: "cannot score yet" in process.log.read_text(), "nothing is said of the missing store")
    assert f"{lab / 'later'}: no store there yet; a recorder creates it" in process.log.read_text()
    (lab / "store").rename(lab / "later")
    rankings = probe.listen(Ranking, "/lab/ranking", topics.LATEST)
    probe.until(lambda: rankings, "the store that came later is not scored")
