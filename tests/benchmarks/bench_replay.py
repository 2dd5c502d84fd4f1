"""How well `opc store replay` keeps an episode's timing, as received by another process over DDS.

python -m tests.benchmarks.bench_replay
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from opc_ros.bringup.reach import stay_on_this_machine

SECONDS, JOINT_HZ = 10, 100
LISTENER = """
import json, sys, time, rclpy
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
rclpy.init()
node, heard = rclpy.create_node("listener"), []
def hear(msg): heard.append((time.monotonic_ns(), msg.header.stamp.sec * 10**9 + msg.header.stamp.nanosec))
node.create_subscription(JointState, "/lbr/joint_states", hear, QoSProfile(depth=1000))
while len(heard) < int(sys.argv[1]): rclpy.spin_once(node, timeout_sec=0.5)
print(json.dumps(heard))
"""


def main() -> None:
    from opc_ros.episode import EpisodeHeader
    from opc_ros.ros.replay import replay
    from opc_ros.store import open_store, schemas
    from tests.domains import take_domain
    from tests.store.grasps import make_episode
    from tests.store.wire import WireMessages

    episode, wire, count = make_episode(), WireMessages(), SECONDS * JOINT_HZ
    with tempfile.TemporaryDirectory() as name, take_domain() as domain:
        os.environ.update(ROS_DOMAIN_ID=str(domain), **stay_on_this_machine())
        with open_store(Path(name), create=True) as store:
            header = EpisodeHeader(episode.id, "left", "scripted", episode.started_ns)
            writer = store.begin(header, {schemas.JOINT_STATE: "/lbr/joint_states"})
            for number in range(count):
                writer.add_wire_message(wire.joint_state(episode.started_ns + number * 10**9 // JOINT_HZ))
            for step in episode.steps:
                writer.add_step(step)
            writer.commit(episode.label)
            path = store.file_of(episode.id)
        command = [sys.executable, "-c", LISTENER, str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
            began_s = time.monotonic()
            replay(path, wait_s=5.0)
            out, _ = listener.communicate(timeout=120)
        heard = np.array(json.loads(out), dtype=np.int64)  # (N, 2): received, timestamp
    late_ms = (heard[:, 0] - heard[0, 0] - (heard[:, 1] - heard[0, 1])) / 1e6
    late_ms -= np.median(late_ms)
    print(f"{count} joint states at {JOINT_HZ} Hz in {time.monotonic() - began_s:.0f} s, load {os.getloadavg()[0]:.1f}")
    print(f"off their time by {np.percentile(np.abs(late_ms), 95):.2f} ms at the 95th percentile (goal 5)")


if __name__ == "__main__":
    main()
