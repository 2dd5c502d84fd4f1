"""Names of a lab that shares its ROS domain with other labs: all of them are below its namespace.

One rule for nodes, commands, lists of names and policies alike. Remapping would miss what a command looks for on the
graph, and actions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from opc_ros.errors import SetupError

NAMESPACE = "OPC_NAMESPACE"  # environment variable of a lab's nodes and of the commands that talk to it
_NAME = re.compile(r"[A-Za-z]\w*(/[A-Za-z]\w*)*", re.ASCII)


def read_namespace(environment: Mapping[str, str] | None = None) -> str:
    """The lab's namespace without slashes around it; empty where the lab has its ROS domain for itself."""
    text = (os.environ if environment is None else environment).get(NAMESPACE, "")
    return parse_namespace(text, NAMESPACE)


def parse_namespace(text: str, where: str) -> str:
    name = text.strip("/")
    if name and not _NAME.fullmatch(name):
        raise SetupError(f"{where} is {text!r}, expected names of letters, digits and underscores with / between")
    return name


def in_lab(name: str, namespace: str | None = None) -> str:
    """What the lab calls `/deployment/status` or `arm1`, with a leading slash if it was given with one."""
    above = read_namespace() if namespace is None else namespace
    if not above:
        return name
    return f"/{above}{name}" if name.startswith("/") else f"{above}/{name}"


def robot_of(topic: str, below: int, namespace: str | None = None) -> str:
    """The robot of this lab whose topic it is, with so many names below the robot's; empty for another lab's."""
    above = (read_namespace() if namespace is None else namespace).split("/")
    words = topic.strip("/").split("/")
    depth = len(above) if above[0] else 0
    is_ours = len(words) == depth + 1 + below and (not depth or words[:depth] == above)
    return words[depth] if is_ours else ""


def lab_of(topic: str, below: int) -> str:
    """The namespace of the lab whose robot's topic it is; empty for that of a lab without one."""
    return "/".join(topic.strip("/").split("/")[: -1 - below])
