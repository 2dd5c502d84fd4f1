"""Players of known skill on the scripted arm, and what each would have done in states that others recorded.

python -m tests.scoring.graded_players --episodes 300 --trials 200
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opc_ros.arms.arm import ScriptedArm
from opc_ros.grasp import GraspAction, ToolState
from opc_ros.policies.critic import IMAGE_SIDE
from opc_ros.ranking import spearman
from opc_ros.scoring import compute_metric
from opc_ros.scoring.agreement import AgreementJudge
from opc_ros.scoring.judging import fit_critic_to
from opc_ros.scoring.recorded_set import RecordedSet
from opc_ros.task import GRASPING
from tests.policies.making import scripted_camera

# Image, tool, action, and where the disc was.
Step = tuple[np.ndarray, ToolState, np.ndarray, tuple[float, float]]

_MOST_STEPS = 8
_HIGH_M, _LOW_M = 0.2, 0.12  # before the step in which it closes, which goes 7 cm down


@dataclass(frozen=True, slots=True)
class GradedPlayer:
    """Goes to a point beside the disc, with some noise, and sometimes closes too high to reach it."""

    beside_m: float
    noise_m: float
    early: float  # how often

    def act(self, tool: ToolState, disc_xy: tuple[float, float], rng: np.random.Generator) -> GraspAction:
        aim = np.array([disc_xy[0] + self.beside_m, disc_xy[1]]) + rng.normal(0.0, self.noise_m, 2)
        dx, dy = np.clip(aim - (tool.x_m, tool.y_m), -0.08, 0.08).tolist()
        closes = tool.z_m <= (_HIGH_M if rng.random() < self.early else _LOW_M)
        return GraspAction(displacement_m=(dx, dy, -0.07), close_gripper=closes, terminate=closes)


PLAYERS = tuple(
    GradedPlayer(beside_m, noise_m, early)
    for early in (0.0, 0.4)
    for beside_m in (0.0, 0.015, 0.03, 0.06)
    for noise_m in (0.003, 0.015, 0.03)
)


def play(player: GradedPlayer, seed: int, image_size: int = 16) -> tuple[list[Step], bool]:
    """Every step's image, tool, action and disc position; and whether it was held in the end."""
    arm, rng = ScriptedArm(image_size=image_size), np.random.default_rng(seed)
    seen = arm.begin(seed)
    steps: list[Step] = []
    for _ in range(_MOST_STEPS):
        action = player.act(seen.tool, arm.disc_xy, rng)
        steps.append((seen.image, seen.tool, action.to_vector(), arm.disc_xy))
        arm.apply(action)
        seen = arm.observe()
        if action.terminate:
            break
    return steps, arm.finish()


def record(episodes: int) -> tuple[RecordedSet, list[Step]]:
    """Episodes by all players in turn, including the raw steps, to ask others what they would have done."""
    steps: list[Step] = []
    lengths, success = [], []
    for seed in range(episodes):
        player = PLAYERS[int(np.random.default_rng(seed).integers(len(PLAYERS)))]
        played, is_success = play(player, seed, IMAGE_SIDE)
        steps += played
        lengths.append(len(played))
        success.append(is_success)
    recorded = RecordedSet(
        task=GRASPING,
        keys=tuple(f"{seed:064x}" for seed in range(episodes)),
        images=np.stack([step[0] for step in steps]),
        states=np.stack([step[1].to_vector() for step in steps]),
        actions=np.stack([step[2] for step in steps]),
        lengths=np.array(lengths),
        success=np.array(success),
    )
    return recorded, steps


def judge_players(episodes: int, trials: int) -> dict[str, tuple[float, float]]:
    """Spearman with true success, and success lost by taking the first-ranked, for each judge."""
    recorded, steps = record(episodes)
    true = np.array([np.mean([play(p, 1_000_000 + n)[1] for n in range(trials)]) for p in PLAYERS])
    rng = np.random.default_rng(0)
    own = [np.stack([p.act(step[1], step[3], rng).to_vector() for step in steps]) for p in PLAYERS]
    critic = fit_critic_to(recorded, scripted_camera(IMAGE_SIDE))
    found = {}
    for name, judge in (("agreement", AgreementJudge(recorded)), ("critic", critic)):
        scores = np.array([compute_metric(name, judge.rate(a), recorded.lengths, recorded.success) for a in own])
        found[name] = (float(spearman(scores, true)), float(true.max() - true[scores.argmax()]))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--trials", type=int, default=200)
    arguments = parser.parse_args(argv)
    for name, (correlation, regret) in judge_players(arguments.episodes, arguments.trials).items():
        print(f"{name:<10} Spearman {correlation:.3f}, regret@1 {100 * regret:.1f} points")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
