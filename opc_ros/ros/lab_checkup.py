"""Which nodes of a lab hear each other: where each runs, its discovery range, its clock and its version."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from diagnostic_msgs.msg import DiagnosticArray

from opc_ros.bringup.checks import SystemCheck
from opc_ros.bringup.lab_names import in_lab
from opc_ros.ros import convert, topics
from opc_ros.ros.arm_survey import looking_node
from opc_ros.ros.node_health import CALLBACKS

LARGEST_OFFSET_S = 0.5
OF_ALL = ("scheduler", "scorer")
OF_EACH = ("recorder", "policy_runner", "arm_gateway")
IN_ARMS_DOMAIN = ("arm_guard", "arm_gateway")
REMEDY = (
    "start both with the same ROS_DOMAIN_ID: with `opc up` where the lab file names `machines`, "
    "else with ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET in one network"
)


@dataclass(frozen=True, slots=True)
class NodeWord:
    """What a node reports about itself."""

    name: str  # arm1/recorder
    domain: int
    host: str
    version: str
    discovery: str
    hears: frozenset[str]  # names of the nodes that it has discovered in its domain
    offset_s: float  # our clock minus its own, including the message's travel time

    @property
    def place(self) -> str:
        return f"on {self.host}, domain {self.domain}, looks by {self.discovery}"


def check_lab(
    robots: Sequence[str], *, lab_domain: int, arm_domains: dict[str, int], wait_s: float = 4.0
) -> Iterator[SystemCheck]:
    """Listen in the lab's domain and in each arm's, then report who was heard and who hears whom."""
    words = hear_words((lab_domain, *arm_domains.values()), wait_s)
    yield from judge(words, robots, lab_domain, arm_domains)


def hear_words(domains: Iterable[int], wait_s: float) -> list[NodeWord]:
    """The last report of every node, by name and domain, with its smallest clock offset."""
    found: dict[tuple[str, int], NodeWord] = {}

    def take(msg: DiagnosticArray) -> None:
        for word in read_words(msg, time.time_ns()):
            before = found.get((word.name, word.domain))
            if before is None or abs(word.offset_s) <= abs(before.offset_s) or word.hears != before.hears:
                found[word.name, word.domain] = word

    with ExitStack() as stack:
        listening = []
        for domain in sorted(set(domains)):
            here = stack.enter_context(looking_node(domain))
            here.node.create_subscription(DiagnosticArray, in_lab("/diagnostics"), take, topics.RECORDED)
            listening.append(here)
        ends_s = time.monotonic() + wait_s
        while time.monotonic() < ends_s:
            for here in listening:
                here.pulse(0.01)
    return [found[key] for key in sorted(found)]


def read_words(msg: DiagnosticArray, now_ns: int) -> Iterator[NodeWord]:
    """Read the reports in a message; other programs use this topic too, but without these keys."""
    offset_s = (now_ns - convert.stamp_to_ns(msg.header.stamp)) * 1e-9
    for status in msg.status:
        values = {each.key: each.value for each in status.values}
        domain = values.get("domain", "")
        if status.name.endswith(CALLBACKS) and domain.isdecimal() and "hears" in values:
            yield NodeWord(
                status.name.removesuffix(CALLBACKS),
                int(domain),
                values.get("host", "?"),
                values.get("version", "?"),
                values.get("discovery", "?"),
                frozenset(values["hears"].split()),
                offset_s,
            )


def judge(
    words: Sequence[NodeWord], robots: Sequence[str], lab_domain: int, arm_domains: dict[str, int]
) -> Iterator[SystemCheck]:
    """One line for each node, then one for each node that does not hear another one it needs."""
    wanted = [(in_lab(name), lab_domain) for name in OF_ALL]
    wanted += [(in_lab(f"{robot}/{name}"), lab_domain) for robot in robots for name in OF_EACH]
    wanted += [(in_lab(f"{robot}/{name}"), arm_domains[robot]) for robot in robots for name in IN_ARMS_DOMAIN]
    heard = {(word.name, word.domain): word for word in words}
    if not heard:
        looked = ", ".join(map(str, sorted({lab_domain, *arm_domains.values()})))
        detail = f"no node of this lab is heard in ROS domain {looked}"
        yield SystemCheck("lab", "missing", detail, f"opc up hardware; on another machine, {REMEDY}")
        return
    versions = {word.version for word in words}
    for name, domain in wanted:
        if (name, domain) in heard:
            yield _judge_node(heard[name, domain], versions)
        else:
            yield _judge_unheard(name, domain, words)
    yield from _judge_pairs(heard, robots, lab_domain, arm_domains)


def _judge_node(word: NodeWord, versions: set[str]) -> SystemCheck:
    detail = f"{word.place}, version {word.version}, clock {1000 * word.offset_s:+.0f} ms behind ours"
    if abs(word.offset_s) > LARGEST_OFFSET_S:
        return SystemCheck(word.name, "missing", detail, f"synchronise the clocks (chrony) of {word.host} and this one")
    if len(versions) > 1:
        others = ", ".join(sorted(versions - {word.version}))
        return SystemCheck(word.name, "optional", f"{detail}; others have {others}", "bring all to one version")
    return SystemCheck(word.name, "ok", detail)


def _judge_unheard(name: str, domain: int, words: Sequence[NodeWord]) -> SystemCheck:
    hearers = [word for word in words if word.domain == domain and name in word.hears]
    if hearers:
        detail = f"not heard here in domain {domain}, though {hearers[0].name} on {hearers[0].host} hears it"
        return SystemCheck(name, "missing", detail, REMEDY)
    elsewhere = [word for word in words if word.name == name and word.domain != domain]
    if elsewhere and not name.endswith("arm_gateway"):  # which is in both
        return SystemCheck(name, "missing", f"{elsewhere[0].place}, expected in domain {domain}", "set its domain")
    return SystemCheck(name, "missing", f"nobody hears it in domain {domain}", f"start it, or {REMEDY}")


def _judge_pairs(
    heard: dict[tuple[str, int], NodeWord], robots: Sequence[str], lab_domain: int, arm_domains: dict[str, int]
) -> Iterator[SystemCheck]:
    pairs = [("scheduler", f"{robot}/policy_runner", lab_domain) for robot in robots]
    pairs += [(f"{robot}/recorder", f"{robot}/policy_runner", lab_domain) for robot in robots]
    pairs += [(f"{robot}/arm_gateway", f"{robot}/policy_runner", lab_domain) for robot in robots]
    pairs += [(f"{robot}/arm_guard", f"{robot}/arm_gateway", arm_domains[robot]) for robot in robots]
    for names in pairs:
        one, other, domain = in_lab(names[0]), in_lab(names[1]), names[2]
        if (one, domain) not in heard or (other, domain) not in heard:
            continue
        for hearer, told in ((one, other), (other, one)):
            deaf, mute = heard[hearer, domain], heard[told, domain]
            if told not in deaf.hears:
                detail = f"does not hear {told}: the first is {deaf.place}; the other {mute.place}"
                yield SystemCheck(hearer, "missing", detail, REMEDY)
