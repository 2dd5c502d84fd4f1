"""A task as data: what is seen, which actions are possible and how far, for how long, and what is success.

Episodes and candidates name their task. Code that stores, scores or ranks them reads sizes and names here, and knows
nothing about grippers. A new task is one more entry in TASKS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opc_ros.errors import TaskError


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of an action or a state; without a given bound it is unbounded."""

    name: str
    unit: str = ""  # empty: a plain number
    low: float = -math.inf
    high: float = math.inf
    usual: float = 0.0  # value used in trial questions


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of episode."""

    name: str
    actions: tuple[Quantity, ...]
    state: tuple[Quantity, ...]  # what is known besides the image; may be empty
    image: str  # what the image shows, for people
    max_steps: int  # the longest an episode may be
    success: str  # who or what decides, for people
    goal: str  # an instruction in a few words, for datasets
    goal_among: str = ""  # the same for known objects, with {} for their name

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(quantity.name for quantity in self.actions)

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(quantity.name for quantity in self.state)

    def instruct(self, object_set: str = "") -> str:
        """The goal as an instruction."""
        return self.goal_among.format(object_set) if object_set and self.goal_among else self.goal

    def usual_action(self) -> tuple[float, ...]:
        return tuple(quantity.usual for quantity in self.actions)

    def usual_state(self) -> tuple[float, ...]:
        return tuple(quantity.usual for quantity in self.state)

    def check_action(self, action: Sequence[float], *, where: str) -> None:
        _check_numbers(action, self.actions, f"{where}: action", self.name)

    def check_state(self, state: Sequence[float], *, where: str) -> None:
        _check_numbers(state, self.state, f"{where}: state", self.name)

    def violations(self, action: Sequence[float]) -> tuple[str, ...]:
        """One line for each number outside its bounds; allowed in a recorded action, but not in a policy's."""
        return tuple(
            f"{quantity.name} is {value:+.4f}{f' {quantity.unit}' if quantity.unit else ''}, "
            f"allowed {quantity.low:g} to {quantity.high:g}"
            for value, quantity in zip(action, self.actions, strict=True)
            if not quantity.low - 1e-6 <= value <= quantity.high + 1e-6
        )


GRASPING = Task(
    name="grasping",
    actions=(
        Quantity("dx", "m", -0.08, 0.08),
        Quantity("dy", "m", -0.08, 0.08),
        Quantity("dz", "m", -0.08, 0.08),
        Quantity("sin", "", -1.0, 1.0),  # of the rotation about base z
        Quantity("cos", "", -1.0, 1.0, usual=1.0),
        Quantity("open", "", 0.0, 1.0),
        Quantity("close", "", 0.0, 1.0),
        Quantity("terminate", "", 0.0, 1.0),
    ),
    state=(
        Quantity("x", "m", usual=0.55),
        Quantity("y", "m"),
        Quantity("z", "m", usual=0.3),
        Quantity("yaw", "rad", -math.pi, math.pi),
        Quantity("aperture", "m", 0.0, usual=0.08),
    ),
    image="one RGB camera that looks at the bin",
    max_steps=20,
    success="something is held after the lift: by the arm, the gripper's width or a person",
    goal="grasp an object",
    goal_among="grasp one of the {}",
)

PONG = Task(
    name="pong",
    actions=(Quantity("move", "", -1.0, 1.0),),  # down, stay, up
    state=(),
    image="the ball now, the ball one decision ago, both paddles, as the three channels",
    max_steps=400,
    success="the emulator says who won the point",
    goal="win the point",
)

TASKS = {task.name: task for task in (GRASPING, PONG)}


def find_task(name: str, *, where: str) -> Task:
    """The task of that name."""
    if name not in TASKS:
        raise TaskError(f"{where}: task is {name!r}, expected one of {', '.join(TASKS)}")
    return TASKS[name]


def _check_numbers(values: Sequence[float], quantities: tuple[Quantity, ...], where: str, task: str) -> None:
    if len(values) != len(quantities):
        raise TaskError(f"{where} has {len(values)} numbers, expected {len(quantities)} for {task}")
    for value, quantity in zip(values, quantities, strict=True):
        if not math.isfinite(value):
            raise TaskError(f"{where}: {quantity.name} is {value}, expected a finite number")
