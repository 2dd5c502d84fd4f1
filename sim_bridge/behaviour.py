"""Scripted behaviour policies for collecting data: they know where the objects lie, and miss as often as configured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opc_ros.errors import ConfigError
from opc_ros.grasp import ActionBounds, GraspAction, Observation, ToolState
from sim_bridge.arm_model import FINGERTIP_BELOW_TOOL_M, OPEN_APERTURE_M
from sim_bridge.world import World

_MISSED_APERTURE_M = 0.012  # narrower than any object: the fingers have met
_STREAM = 11  # keeps a policy's random numbers apart from its world's, though both start from the episode's seed


@dataclass(frozen=True, slots=True)
class BehaviourSpec:
    """How well a behaviour policy grasps, and in which world it was tuned."""

    name: str
    target_success: float
    tuned_in: str  # the world's name
    aim_spread_m: float  # standard deviation of its error in the object's position, along x and y
    depth_spread_m: float = 0.006
    yaw_spread_rad: float = 0.35
    epsilon: float = 0.1  # how often it acts at random
    lean_m: float = 0.0  # how much less far random actions go up than down; without it, most wave in the air


# Rates over seeds 0 to 299 are measured by `python -m sim_bridge.measure_behaviour`.
BEHAVIOURS: dict[str, BehaviourSpec] = {
    spec.name: spec
    for spec in (
        BehaviourSpec("scripted", 0.60, "train", aim_spread_m=0.017),
        BehaviourSpec("mostly_random", 0.01, "train", aim_spread_m=0.017, epsilon=0.9, lean_m=0.05),
        BehaviourSpec("weaker", 0.28, "pseudo_real", aim_spread_m=0.042),
        BehaviourSpec("better", 0.51, "pseudo_real", aim_spread_m=0.021),
    )
}


def find_behaviour(name: str) -> BehaviourSpec:
    """The behaviour policy of that name."""
    try:
        return BEHAVIOURS[name]
    except KeyError:
        raise ConfigError(f"behaviour policy {name!r}: expected one of {', '.join(BEHAVIOURS)}") from None


@dataclass(frozen=True, slots=True)
class Approach:
    """One attempt: where to close the fingers, and by which path."""

    x_m: float
    y_m: float
    z_m: float
    yaw_rad: float
    hover_m: float  # height above the place before going down
    stride_m: float  # longest step along each axis
    lifts: bool  # whether to lift once before terminating, or terminate where the fingers closed


class BehaviourPolicy:
    """Goes above an object and down, closes the fingers and terminates; now and then it acts at random instead."""

    def __init__(self, spec: BehaviourSpec, world: World, *, bounds: ActionBounds | None = None) -> None:
        self.spec = spec
        self._world = world
        self._bounds = bounds or ActionBounds()
        self._rng = np.random.default_rng(0)
        self._approach: Approach | None = None
        self._has_closed = False
        self._has_lifted = False

    @property
    def name(self) -> str:
        return self.spec.name

    def begin(self, seed: int) -> None:
        """Start an episode; everything it does follows from the seed and the world."""
        self._rng = np.random.default_rng((seed, _STREAM))
        self._start_attempt()

    def choose(self, observation: Observation) -> GraspAction:
        if self._rng.random() < self.spec.epsilon:
            return act_at_random(self._rng, self._bounds, lean_m=self.spec.lean_m)
        return self._follow_script(observation.tool)

    def _start_attempt(self) -> None:
        self._approach = None
        self._has_closed = False
        self._has_lifted = False

    def _follow_script(self, tool: ToolState) -> GraspAction:
        if self._has_closed:
            return self._end_attempt(tool)
        if self._approach is None:
            self._approach = self._plan(tool)
        plan = self._approach
        across = max(abs(plan.x_m - tool.x_m), abs(plan.y_m - tool.y_m))
        turn = math.remainder(plan.yaw_rad - tool.yaw_rad, math.tau)
        is_above = across < 0.01 and abs(turn) < 0.2
        height = plan.z_m if is_above or across < 0.03 else max(plan.hover_m, plan.z_m)
        if is_above and abs(tool.z_m - plan.z_m) < 0.006:
            self._has_closed = True
            return GraspAction(close_gripper=True)
        return GraspAction(
            displacement_m=(
                self._stride(plan.x_m - tool.x_m, plan.stride_m),
                self._stride(plan.y_m - tool.y_m, plan.stride_m),
                self._stride(height - tool.z_m, plan.stride_m),
            ),
            rotation_rad=min(max(turn, -self._bounds.rotation_rad), self._bounds.rotation_rad),
            # A random action may have closed the fingers on the way.
            open_gripper=tool.aperture_m < 0.06,
        )

    def _end_attempt(self, tool: ToolState) -> GraspAction:
        """Terminate, or lift once first; after a miss, sometimes try again instead."""
        assert self._approach is not None
        if tool.aperture_m < _MISSED_APERTURE_M and not self._has_lifted and self._rng.random() < 0.15:
            self._start_attempt()
            return GraspAction(displacement_m=(0.0, 0.0, 0.06), open_gripper=True)
        if self._approach.lifts and not self._has_lifted:
            self._has_lifted = True
            return GraspAction(displacement_m=(0.0, 0.0, float(self._rng.uniform(0.03, 0.08))))
        return GraspAction(terminate=True)

    def _plan(self, tool: ToolState) -> Approach:
        """Pick one of the objects that are easiest to grasp and aim at it, with this policy's errors."""
        rng, spec = self._rng, self.spec
        corners = self._world.objects_base()
        points = np.concatenate([fill(body) for body in corners])
        aims = [aim_at(body, points) for body in corners]
        easiest = min(aim.obstacles for aim in aims)
        choices = [aim for aim in aims if aim.obstacles == easiest]
        aim = choices[int(rng.integers(len(choices)))]
        dx, dy, dz = rng.normal(0.0, (spec.aim_spread_m, spec.aim_spread_m, spec.depth_spread_m)).tolist()
        yaw = aim.yaw_rad + float(rng.normal(0.0, spec.yaw_spread_rad))
        # The gripper is the same after half a turn, so turn the shorter way.
        yaw = tool.yaw_rad + math.remainder(yaw - tool.yaw_rad, math.pi)
        (x, y, z), _ = self._world.spec.arm.workspace.clamp((aim.x_m + dx, aim.y_m + dy, aim.z_m + dz))
        return Approach(
            x_m=x,
            y_m=y,
            z_m=z,
            yaw_rad=min(max(yaw, -math.pi / 2), math.pi / 2),
            hover_m=float(rng.uniform(0.06, 0.16)),
            stride_m=float(rng.uniform(0.055, self._bounds.displacement_m)),
            lifts=bool(rng.random() < 0.5),
        )

    def _stride(self, way_m: float, stride_m: float) -> float:
        jitter = float(self._rng.normal(0.0, 0.002))
        return min(max(way_m + jitter, -stride_m), stride_m)


def act_at_random(rng: np.random.Generator, bounds: ActionBounds, *, lean_m: float = 0.0) -> GraspAction:
    """A random action within the bounds; `lean_m` is how much less far it goes up than down."""
    x, y, z = rng.uniform(-bounds.displacement_m, bounds.displacement_m, size=3).tolist()
    z -= lean_m * (z / bounds.displacement_m + 1) / 2
    flag = rng.random()
    return GraspAction(
        displacement_m=(x, y, z),
        rotation_rad=float(rng.uniform(-bounds.rotation_rad, bounds.rotation_rad)),
        open_gripper=bool(flag < 0.2),
        close_gripper=bool(0.2 <= flag < 0.4),
        terminate=bool(rng.random() < 0.1),
    )


@dataclass(frozen=True, slots=True)
class Aim:
    """Where to close the fingers on one object, and how much is in their way."""

    x_m: float
    y_m: float
    z_m: float
    yaw_rad: float
    obstacles: int  # points of objects where the fingers would come down


def aim_at(target: np.ndarray, points: np.ndarray) -> Aim:
    """The least obstructed, then narrowest, grasp of an object with corners (M, 3) among points (N, 3) of all."""
    z = float((target[:, 2].min() + target[:, 2].max()) / 2)
    nearby = points[points[:, 2] > z - FINGERTIP_BELOW_TOOL_M]
    aims = [_aim_at_yaw(target, nearby, z, yaw) for yaw in np.arange(-math.pi / 2, math.pi / 2, math.pi / 12)]
    return min(aims, key=lambda pair: (pair[0].obstacles, pair[1]))[0]


def _aim_at_yaw(target: np.ndarray, nearby: np.ndarray, z_m: float, yaw_rad: float) -> tuple[Aim, float]:
    """The aim at one yaw, and the width of the object between the fingers."""
    sine, cosine = math.sin(yaw_rad), math.cos(yaw_rad)
    from_gripper = np.array([[cosine, -sine], [sine, cosine]])  # columns: across the fingers, along their motion
    sides = target[:, :2] @ from_gripper
    low, high = sides.min(axis=0), sides.max(axis=0)
    middle = (low + high) / 2
    across, along = np.abs(nearby[:, :2] @ from_gripper - middle).T
    outer = OPEN_APERTURE_M / 2
    in_the_way = (across < 0.014) & (along > outer - 0.002) & (along < outer + 0.016)
    x, y = (from_gripper @ middle).tolist()
    return Aim(x, y, z_m, float(yaw_rad), int(in_the_way.sum())), float(high[1] - low[1])


def fill(corners: np.ndarray) -> np.ndarray:
    """Corners (M, 3) and points between them: a coarse point cloud of the body."""
    return np.concatenate([corners, *((corners + np.roll(corners, shift, axis=0)) / 2 for shift in (1, 3, 7, 13))])
