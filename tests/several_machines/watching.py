"""Inside the bench: `python -m tests.several_machines.watching FILE ROBOT` writes down how fast an arm turns now."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import rclpy
from sensor_msgs.msg import JointState

from opc_ros.ros import topics

TELL_S = 0.2


def main(file: str, robot: str) -> None:
    rclpy.init()
    node = rclpy.create_node("watching", namespace=f"/{robot}")
    fastest: list[float] = [0.0]
    heard: list[int] = [0]

    def on_joints(msg: JointState) -> None:
        fastest[0] = max([fastest[0], *(abs(each) for each in msg.velocity)])
        heard[0] += 1

    node.create_subscription(JointState, "joint_states", on_joints, topics.JOINTS)
    path = Path(file)
    while rclpy.ok():
        until_s = time.monotonic() + TELL_S
        while time.monotonic() < until_s:
            rclpy.spin_once(node, timeout_sec=0.05)
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"at_s": time.time(), "fastest_rad_s": fastest[0], "heard": heard[0]}))
        part.rename(path)
        fastest[0], heard[0] = 0.0, 0


if __name__ == "__main__":
    main(*sys.argv[1:3])
