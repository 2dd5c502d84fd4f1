"""A robot's results as messages."""

from __future__ import annotations

from collections.abc import Sequence

from opc_interfaces.action import RunEpisodes
from opc_interfaces.msg import Label

from opc_ros.deployment.journal import RunEpisode
from opc_ros.deployment.runner import End

ENDS = {
    End.DONE: RunEpisodes.Result.DONE,
    End.REFUSED: RunEpisodes.Result.REFUSED,
    End.BROKEN_OFF: RunEpisodes.Result.BROKEN_OFF,
}
OUTCOMES = {"success": Label.SUCCESS, "failure": Label.FAILURE}


def feedback_to_msg(episodes: Sequence[RunEpisode], episode_id: str, step: int) -> RunEpisodes.Feedback:
    """How far a lease has progressed; the last of its episodes is still running."""
    return RunEpisodes.Feedback(
        episode=len(episodes) - 1,
        step=step,
        successes=sum(episode.outcome == "success" for episode in episodes),
        episode_id=episode_id,
    )


def result_to_msg(end: int, message: str, episodes: Sequence[RunEpisode], envelope: str) -> RunEpisodes.Result:
    """How a lease ended; `envelope` contains the same, signed by the robot."""
    return RunEpisodes.Result(
        success=end == RunEpisodes.Result.DONE,
        message=message,
        end=end,
        episodes_run=len(episodes),
        successes=sum(episode.outcome == "success" for episode in episodes),
        safety_events=sum(episode.safety_events for episode in episodes),
        episode_ids=[episode.episode_id for episode in episodes],
        outcomes=[OUTCOMES.get(episode.outcome or "", Label.UNLABELLED) for episode in episodes],
        episode_safety_events=[episode.safety_events for episode in episodes],
        envelope=envelope,
    )
