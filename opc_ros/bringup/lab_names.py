"""Names of a lab that shares its ROS domain with other labs: everything is below the lab's namespace.

One rule covers nodes, commands, lists of names and policies. Remapping would not cover actions, nor names that a
command looks up on the graph.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from opc_ros.errors import SetupError

NAMESPACE = "OPC_NAMESPACE"  # environment variable of a lab's nodes, and of commands that talk to it
_NAME = re.compile(r"[A-Za-z]\w*(/[A-Za-z]\w*)*", re.ASCII)


def read_namespace(environment: Mapping[str, str] | None = None) -> str:
    """The lab's namespace without surrounding slashes; empty if the lab does not share its ROS domain."""
    text = (os.environ if environment is None else environment).get(NAMESPACE, "")
    return parse_namespace(text, NAMESPACE)


def parse_namespace(text: str, where: str) -> str:
    name = text.strip("/")
    if name and not _NAME.fullmatch(name):
        raise SetupError(f"{where} is {text!r}, expected names of letters, digits and underscores with / between")
    return name


def in_lab(name: str, namespace: str | None = None) -> str:
    """The lab's name for `/deployment/status` or `arm1`; keeps a leading slash."""
    above = read_namespace() if namespace is None else namespace
    if not above:
        return name
    return f"/{above}{name}" if name.startswith("/") else f"{above}/{name}"


def robot_of(topic: str, below: int, namespace: str | None = None) -> str:
    """The robot of this lab that a topic belongs to, `below` levels below the robot; empty for other labs' topics."""
    above = (read_namespace() if namespace is None else namespace).split("/")
    words = topic.strip("/").split("/")
    depth = len(above) if above[0] else 0
    is_ours = len(words) == depth + 1 + below and (not depth or words[:depth] == above)
    return words[depth] if is_ours else ""


def lab_of(topic: str, below: int) -> str:
    """The namespace of the lab whose robot a topic belongs to; empty for a lab without a namespace."""
    return "/".join(topic.strip("/").split("/")[: -1 - below])
