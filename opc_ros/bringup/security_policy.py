"""SROS2 policies from the list of nodes: what each process may publish and subscribe to, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from opc_ros.bringup.graph import NodeGraph

VERSION = "0.2.0"  # of SROS2's policy schema


def write_policy(nodes: Iterable[NodeGraph]) -> str:
    """A policy with one enclave for each process, as read by `ros2 security generate_artifacts`."""
    policy = ElementTree.Element("policy", version=VERSION)
    enclaves = ElementTree.SubElement(policy, "enclaves")
    profiles: dict[str, ElementTree.Element] = {}
    for node in nodes:
        path = enclave_of(node)
        if path not in profiles:
            enclave = ElementTree.SubElement(enclaves, "enclave", path=path)
            profiles[path] = ElementTree.SubElement(enclave, "profiles")
        profile = ElementTree.SubElement(profiles[path], "profile", ns=f"/{node.namespace}", node=node.name)
        for group, member, permission, names in (
            ("topics", "topic", "publish", node.publishes),
            ("topics", "topic", "subscribe", node.hears),
            ("services", "service", "reply", node.offers),
            ("services", "service", "request", node.calls),
            ("actions", "action", "execute", node.executes),
            ("actions", "action", "call", node.asks),
        ):
            if names:
                element = ElementTree.SubElement(profile, group, {permission: "ALLOW"})
                for name in sorted(node.resolve(names)):
                    ElementTree.SubElement(element, member).text = name
    ElementTree.indent(policy)
    return ElementTree.tostring(policy, encoding="unicode", xml_declaration=True) + "\n"


def enclave_of(node: NodeGraph) -> str:
    """The enclave of a process, whatever nodes it contains: `/arm1/policy_runner`."""
    return f"/{node.namespace}/{node.program}".replace("//", "/")
