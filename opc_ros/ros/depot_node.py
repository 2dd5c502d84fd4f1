"""The depot as a ROS node: hands candidates to robots on other machines, and takes in what they recorded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opc_ros.config import described
from opc_ros.ros.lifecycle import OpcNode
from opc_ros.ros.run import run_node
from opc_ros.ros.steady import create_steady_timer
from opc_ros.store import open_store
from opc_ros.transfer.depot import Depot
from opc_ros.transfer.server import DepotServer

TELL_S = 5.0


@dataclass(frozen=True, slots=True)
class DepotSettings:
    """Parameters of the depot."""

    store: str = described("store", "folder of the lab's validation store")
    candidates: str = described("candidates", "folder of registered candidates")
    keys: str = described("deployment/keys", "folder with people.yaml, which has the robots' public keys")
    state: str = described("deployment", "folder for incoming episodes")
    host: str = described("0.0.0.0", "address to listen on")
    port: int = described(8641, "port to listen on; 0: any that is free", low=0, high=65535)


class DepotNode(OpcNode[DepotSettings]):
    """Hands out candidates and takes in episodes for robots that share no disk with the lab."""

    NAME = "depot"
    SETTINGS = DepotSettings
    IS_GUARDED = True

    def setup(self, settings: DepotSettings) -> None:
        open_store(settings.store, create=True)
        self._depot = Depot(
            settings.store, Path(settings.candidates), Path(settings.keys), Path(settings.state) / "incoming"
        )
        server = DepotServer(self._depot, settings.host, settings.port)
        self.held.callback(server.close)
        self._told = 0
        self.get_logger().info(f"robots of other machines reach it at http://{settings.host}:{server.port}")

    def start(self) -> None:
        self._timer = create_steady_timer(self, TELL_S, self._tell)

    def pause(self) -> None:
        self.destroy_timer(self._timer)

    def _tell(self) -> None:
        kept = self._depot.episodes_kept
        if kept != self._told:
            self._told = kept
            self.get_logger().info(f"{kept} episodes of other machines kept since it started")


def main(argv: Sequence[str] | None = None) -> int:
    return run_node(DepotNode, argv)


if __name__ == "__main__":
    sys.exit(main())
