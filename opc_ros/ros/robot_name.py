"""Which robot a node belongs to."""

from __future__ import annotations

from rclpy.node import Node

from opc_ros.bringup.lab_names import NAMESPACE, read_namespace
from opc_ros.errors import ConfigError


def robot_name(node: Node, given: str) -> str:
    """The name given as parameter, otherwise the node's namespace below the lab's: `/cell/arm1` is `cell_arm1`.

    A node outside its lab's namespace would be out of reach of the lab's stops, so it does not start.
    """
    above, full = read_namespace(), str(node.get_namespace()).strip("/")
    if above and not f"{full}/".startswith(f"{above}/"):
        raise ConfigError(
            f"namespace /{full} is not below /{above}, the lab's of ${NAMESPACE}: give -r __ns:=/{above}/ROBOT, "
            f"or leave ${NAMESPACE} unset"
        )
    name = given or full.removeprefix(above).strip("/").replace("/", "_")
    if not name:
        raise ConfigError(
            "parameter 'robot' is empty and the node has no namespace: give -p robot:=NAME or -r __ns:=/NAME"
        )
    if not (name.isidentifier() and name.isascii()):
        raise ConfigError(f"robot {name!r}: expected a name of letters, digits and underscores")
    return name
