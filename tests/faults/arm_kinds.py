"""What can go wrong at an arm, and how it is caused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.faults.arm_nodes import DRIVER, GUARD, RUNNER
from tests.faults.arm_rig import ArmRig

Mend = Callable[[], None]
Break = Callable[[ArmRig], Mend]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault; `candidate` plays, and with `thinks` it begins with the next choice, at rest."""

    act: Break
    candidate: str = "nan"
    thinks: bool = False
    has_arm: bool = True  # a driver that is gone measures nothing


def _nothing() -> None:
    """The rig repairs it when it recovers."""


def _set(flag: str) -> Break:
    def act(rig: ArmRig) -> Mend:
        setattr(rig, flag, True)
        return _nothing

    return act


def _kill(name: str) -> Break:
    def act(rig: ArmRig) -> Mend:
        rig.kill(name)
        return _nothing

    return act


def _step(name: str, seconds: int) -> Break:
    def act(rig: ArmRig) -> Mend:
        rig.clocks.step(name, seconds)
        return _nothing

    return act


def _stop(rig: ArmRig) -> Mend:
    rig.press_stop()
    return _nothing


def _crash(rig: ArmRig) -> Mend:
    rig.kill_worker()
    return _nothing


HOUR_S = 3600
KINDS: Mapping[str, Kind] = {
    "stop": Kind(_stop),
    "hang": Kind(_set("is_black"), candidate="hang", thinks=True),
    "slow": Kind(_set("is_black"), candidate="slow", thinks=True),
    "memory": Kind(_set("is_black"), candidate="memory", thinks=True),
    "nan": Kind(_set("is_black"), candidate="nan", thinks=True),
    "crash": Kind(_crash, thinks=True),
    "frozen camera": Kind(_set("is_frozen")),
    "silent joint states": Kind(_set("is_silent")),
    "doubled joint states": Kind(lambda rig: rig.double_joints()),
    "killed runner": Kind(_kill(RUNNER)),
    "killed guard": Kind(_kill(GUARD)),
    "killed driver": Kind(_kill(DRIVER), has_arm=False),
    "cut network": Kind(_set("is_cut")),
    "guard's clock -30 s": Kind(_step(GUARD, -30)),
    "guard's clock -1 h": Kind(_step(GUARD, -HOUR_S)),
    "guard's clock +1 h": Kind(_step(GUARD, HOUR_S)),
    "runner's clock -30 s": Kind(_step(RUNNER, -30)),
    "runner's clock -1 h": Kind(_step(RUNNER, -HOUR_S)),
    "runner's clock +1 h": Kind(_step(RUNNER, HOUR_S)),
    "driver's clock -30 s": Kind(_step(DRIVER, -30)),
    "driver's clock +1 h": Kind(_step(DRIVER, HOUR_S)),
}
