"""A candidate that plays for a store: its own episodes are data for scoring, and for learning from its mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opc_ros.arms.settings import ArmSettings
from opc_ros.errors import CandidateError, ConfigError
from opc_ros.grasp import GraspAction, Observation
from opc_ros.playing import Player
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.policy import Policy, load_policy
from sim_bridge.behaviour import act_at_random
from sim_bridge.collecting import check_scene
from sim_bridge.world import World

_NAME_LENGTH = 40
_STREAM = 12  # keeps random actions apart from other draws of the episode's seed


@dataclass(frozen=True, slots=True)
class OwnPlay:
    """Which candidate plays in which world, and how often it acts at random instead."""

    world: str
    folder: Path
    name: str
    candidate_id: str
    epsilon: float = 0.0
    image_size: int = 472
    robot: str = "twin"
    allow_code: bool = False
    arm: ArmSettings | None = None

    def __post_init__(self) -> None:
        check_scene(self.world, self.image_size)
        if not 0.0 <= self.epsilon < 1.0:
            raise ConfigError(f"epsilon: got {self.epsilon}, expected from 0 to below 1")

    def episode_id(self, seed: int) -> str:
        random = f"-random{self.epsilon:g}" if self.epsilon else ""
        name = self.name[:_NAME_LENGTH].replace("+", "_")  # ids of episodes are file names, so their length is limited
        arm = f"{self.arm.robot}-" if self.arm is not None else ""
        return f"{arm}{self.world}-{name}-{self.candidate_id[:12]}{random}-{self.image_size}px-{seed:08d}"

    def make_policy(self, world: World) -> Player:
        candidate = read_candidate(self.folder)
        if candidate.id != self.candidate_id:
            raise CandidateError(f"candidate {self.folder}: changed since the first episode; run again")
        policy = load_policy(candidate, allow_code=self.allow_code, device="cpu")
        return SometimesRandom(policy, self.epsilon) if self.epsilon else policy


class SometimesRandom:
    """A candidate's policy that acts at random now and then: this is a different policy, so its name says so."""

    def __init__(self, policy: Policy, epsilon: float) -> None:
        self._policy = policy
        self._epsilon = epsilon
        self._rng = np.random.default_rng(0)

    @property
    def name(self) -> str:
        return f"{self._policy.name}+random{self._epsilon:g}"

    def begin(self, seed: int) -> None:
        self._policy.begin(seed)
        self._rng = np.random.default_rng((seed, _STREAM))

    def choose(self, observation: Observation) -> GraspAction:
        if self._rng.random() >= self._epsilon:
            return self._policy.choose(observation)
        self._policy.skip()
        return act_at_random(self._rng, self._policy.candidate.manifest.input.action_bounds)


def plan_own_play(
    folder: Path,
    world: str,
    *,
    epsilon: float = 0.0,
    image_size: int = 0,
    robot: str = "twin",
    allow_code: bool = False,
    arm: ArmSettings | None = None,
) -> OwnPlay:
    """A plan for a candidate's folder; images have the candidate's size unless specified otherwise."""
    candidate = read_candidate(folder)
    size = image_size or max(candidate.manifest.input.image_size)
    return OwnPlay(world, folder, candidate.name, candidate.id, epsilon, size, robot, allow_code, arm)
