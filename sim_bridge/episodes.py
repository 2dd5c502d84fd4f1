"""Plays one episode of a policy on an arm and keeps every step."""

from __future__ import annotations

from typing import Protocol

from opc_ros.arms.arm import Arm
from opc_ros.episode import Episode, Frame, Label, LabelSource
from opc_ros.grasp import MAX_STEPS, GraspAction, GraspStep, Observation


class SeededPolicy(Protocol):
    """What chooses actions; its draws follow from the seed an episode begins with."""

    @property
    def name(self) -> str: ...

    def begin(self, seed: int) -> None: ...

    def choose(self, observation: Observation) -> GraspAction: ...


def play_outcome(arm: Arm, policy: SeededPolicy, seed: int, *, max_steps: int = MAX_STEPS) -> bool:
    """The same attempt as `play_episode` makes, of which nothing is kept but whether it succeeded."""
    observation = arm.begin(seed)
    policy.begin(seed)
    for step in range(1, max_steps + 1):
        action = policy.choose(observation)
        arm.apply(action)
        if action.terminate or step == max_steps:
            break
        observation = arm.observe()
    return arm.finish()


def play_episode(
    arm: Arm, policy: SeededPolicy, seed: int, *, episode_id: str, object_set: str, max_steps: int = MAX_STEPS
) -> Episode:
    """One attempt from layout to lift; the label is what the lift showed."""
    observation = arm.begin(seed)
    policy.begin(seed)
    steps: list[GraspStep] = []
    while True:
        action = policy.choose(observation)
        motion = arm.apply(action)
        steps.append(
            GraspStep(
                frame=Frame.from_image(observation.image, observation.stamp_ns),
                tool=observation.tool,
                action=action,
                sent=motion.sent if motion.clamped else None,
            )
        )
        if action.terminate or len(steps) == max_steps:
            break
        observation = arm.observe()
    label = Label(is_success=arm.finish(), source=LabelSource.EPISODE_END, labeller=arm.name)
    return Episode(
        id=episode_id,
        robot=arm.name,
        behaviour_policy=policy.name,
        steps=tuple(steps),
        label=label,
        object_set=object_set,
    )
