"""Settings of the policy runner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from opc_ros.config import described


@dataclass(frozen=True, slots=True)
class PolicyRunnerSettings:
    """Parameters of the policy runner."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    arm: Literal["ros", "scripted"] = described("ros", "ros: through the arm's driver; scripted: a fake")
    arm_config: str = described("config/arm.yaml", "arm or lab file that says how the arm is reached; for arm ros")
    gateway: str = described(
        "", "folder of the arm gateway's socket; empty: straight to a driver in this ROS domain, for arms without one"
    )
    rungs: str = described("reduced,full", "rungs this robot may serve: twin, reduced and full, comma-separated")
    reduced_speed: float = described(0.3, "fraction of the arm's speeds on rung reduced", low=0.01, high=1.0)
    keys: str = described("keys", "folder with the public keys this robot trusts")
    state: str = described("runner", "folder of the robot's journal and audit log")
    heartbeat_s: float = described(
        5.0, "begin no episode if nothing was heard from the scheduler for this long", low=0.1
    )
    wait_for_recorder: bool = described(True, "begin an episode only while a recorder says it is ready for one")
    recorder_timeout_s: float = described(20.0, "how long to wait for it", low=0.1)
    depot: str = described(
        "", "address of the lab's depot on another machine, http://HOST:PORT; empty: candidates are on this disk"
    )
    max_clock_apart_s: float = described(
        1.0, "with a depot: begin no episode while this clock and the lab's are further apart", low=0.001
    )
    allow_code: bool = described(False, "load candidates in formats that can run code of their own")
    image_size: int = described(472, "of the scripted arm's images", low=16, high=4096)
