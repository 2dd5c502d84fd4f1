"""Which robot a node belongs to."""

from __future__ import annotations

from rclpy.node import Node

from opc_ros.errors import ConfigError


def robot_name(node: Node, given: str) -> str:
    """The name given as parameter, or else the node's namespace: `/lab/arm1` is `lab_arm1`."""
    name = given or str(node.get_namespace()).strip("/").replace("/", "_")
    if not name:
        raise ConfigError(
            "parameter 'robot' is empty and the node has no namespace: give -p robot:=NAME or -r __ns:=/NAME"
        )
    if not (name.isidentifier() and name.isascii()):
        raise ConfigError(f"robot {name!r}: expected a name of letters, digits and underscores")
    return name
