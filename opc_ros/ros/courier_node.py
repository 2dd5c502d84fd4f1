"""The courier as a ROS node: carries a robot's recordings to the lab's store, and reports its progress."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from opc_ros.bringup.lab_names import in_lab
from opc_ros.config import described
from opc_ros.deployment.signing import require_robot_key
from opc_ros.errors import ConfigError, OpcError
from opc_ros.ros import convert, topics
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.only_one import only_one
from opc_ros.ros.robot_name import robot_name
from opc_ros.ros.run import run_node
from opc_ros.ros.steady import create_steady_timer
from opc_ros.transfer.channel import DepotChannel
from opc_ros.transfer.courier import Courier
from opc_ros.transfer.lab_clock import LabClock, why_apart

TELL_S = 1.0
FORGET_S = 3600.0
LAST_LOOK_S = 2.0  # on shutdown, time to send what was just recorded


@dataclass(frozen=True, slots=True)
class CourierSettings:
    """Parameters of the courier."""

    robot: str = described("", "name of the robot; empty: the node's namespace")
    store: str = described("store", "folder of the robot's own store, which its recorder writes to")
    depot: str = described("", "address of the lab's depot: http://HOST:PORT")
    keys: str = described("keys", "folder with the robot's own key")
    state: str = described("runner", "folder that keeps what the lab has acknowledged")
    look_s: float = described(
        1.0, "how often to look for new episodes, and how long to wait after a lost connection", low=0.05
    )
    keep_days: float = described(7.0, "how long acknowledged episodes stay on this disk, too", low=0.0)
    max_clock_apart_s: float = described(1.0, "how far this machine's clock may be from the lab's", low=0.001)


class CourierNode(OpcNode[CourierSettings]):
    """Carries one robot's episodes to the lab."""

    NAME = "courier"
    SETTINGS = CourierSettings
    IS_GUARDED = True

    def setup(self, settings: CourierSettings) -> None:
        if not settings.depot:
            raise ConfigError("depot: expected the address of the lab's depot, http://HOST:PORT")
        self._settings = settings
        self._robot = robot_name(self, settings.robot)
        state = Path(settings.state)
        self.held.enter_context(only_one(self.NAME, self._robot, state))
        signer = require_robot_key(Path(settings.keys), self._robot)
        channel, clock_channel = (DepotChannel(settings.depot, self._robot, signer) for _ in range(2))
        self.held.callback(channel.close)
        self.held.callback(clock_channel.close)
        self._lab_clock = LabClock(clock_channel)
        self.held.callback(self._lab_clock.close)
        self._courier = Courier(
            channel, self._robot, Path(settings.store), state / "acknowledged.jsonl", keep_days=settings.keep_days
        )
        self._diagnostics = self.create_publisher(DiagnosticArray, in_lab("/diagnostics"), topics.RECORDED)
        self.held.callback(self.destroy_publisher, self._diagnostics)
        self._said = ""

    def start(self) -> None:
        self._is_stopping = threading.Event()
        self._worker = threading.Thread(target=lambda: self.end_on_error(self._work), name="courier", daemon=True)
        self._worker.start()
        self._timer = create_steady_timer(self, TELL_S, self._tell)

    def pause(self) -> None:
        self.destroy_timer(self._timer)
        self._is_stopping.set()
        self._worker.join(timeout=LAST_LOOK_S)

    def hurry(self) -> None:
        if self.is_active:
            self._is_stopping.set()

    def _work(self) -> None:
        since_forgot_s = 0.0
        while not self._is_stopping.wait(self._settings.look_s):
            try:
                self._courier.carry(is_stopping=self._is_stopping.is_set)
                since_forgot_s -= self._settings.look_s
                if since_forgot_s <= 0.0:
                    self._courier.forget()
                    since_forgot_s = FORGET_S
            except (OpcError, OSError) as error:  # such as its own disk; the next look tries again
                self.get_logger().error(str(error), throttle_duration_sec=30.0)

    def _tell(self) -> None:
        view, reading = self._courier.view, self._lab_clock.reading
        apart = why_apart(reading, self._settings.max_clock_apart_s) if reading is not None else None
        told = "; ".join(each for each in (view.reason, apart) if each)
        level = DiagnosticStatus.ERROR if view.is_refused or apart else DiagnosticStatus.WARN
        if told != self._said:
            self._said = told
            log = self.get_logger()
            log.warning(f"{view.waiting} waiting: {told}") if told else log.info("the lab has all that was recorded")
        values = {"carried": str(view.carried), "waiting": str(view.waiting)}
        if reading is not None:
            values |= {"lab's clock minus this one, s": f"{reading.apart_s:.3f}", "doubt, s": f"{reading.doubt_s:.3f}"}
        status = DiagnosticStatus(
            level=level if told else DiagnosticStatus.OK,
            name=f"{self._robot}/courier: episodes to the lab",
            message=told or f"{view.waiting} waiting",
            hardware_id=self._robot,
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        self._diagnostics.publish(DiagnosticArray(header=convert.header(self.now_ns(), ""), status=[status]))


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(CourierNode, argv)


if __name__ == "__main__":
    sys.exit(main())
