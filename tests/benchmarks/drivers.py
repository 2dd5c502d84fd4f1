"""Joint states and camera info of several robots, as their drivers would publish them.

python -m tests.benchmarks.drivers arm1 arm2 --rate 100
"""

from __future__ import annotations

import argparse
import contextlib
import time

import rclpy
from rclpy.executors import ExternalShutdownException
from sensor_msgs.msg import CameraInfo, JointState

from opc_ros.ros import convert, topics

JOINTS = [f"A{number}" for number in range(1, 8)]
INFO_EVERY = 10  # joint states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="+")
    parser.add_argument("--rate", type=float, default=100.0, help="joint states per second of each robot")
    arguments = parser.parse_args()
    rclpy.init()
    node = rclpy.create_node("drivers")
    joints = [node.create_publisher(JointState, f"/{name}/joint_states", topics.RECORDED) for name in arguments.robots]
    infos = [
        node.create_publisher(CameraInfo, f"/{name}/camera/camera_info", topics.images()) for name in arguments.robots
    ]
    period_ns = int(1e9 / arguments.rate)
    first_ns = time.time_ns()
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        number = 0
        while rclpy.ok():
            # Timestamps are exactly one period apart, so that a reader sees what is missing.
            stamp_ns = first_ns + number * period_ns
            for publisher in joints:
                publisher.publish(
                    JointState(header=convert.header(stamp_ns), name=JOINTS, position=[0.001 * number] * len(JOINTS))
                )
            for publisher in infos if number % INFO_EVERY == 0 else ():
                publisher.publish(CameraInfo(header=convert.header(stamp_ns, "lens"), width=472, height=472))
            number += 1
            time.sleep(max(0.0, (first_ns + number * period_ns - time.time_ns()) / 1e9))
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
