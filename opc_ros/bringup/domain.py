"""Which ROS domain a system uses, and that no second system on this machine uses the same one."""

from __future__ import annotations

import fcntl
import itertools
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from opc_ros.bringup.reach import stay_on_this_machine
from opc_ros.errors import SetupError

LARGEST_DOMAIN = 232  # above this, DDS runs out of port numbers
LARGEST_QUIET_DOMAIN = 101  # above this, ports may collide with those that Linux hands out
ARMS_OF_A_LAB = 8


def read_domain(environment: Mapping[str, str]) -> int:
    """ROS_DOMAIN_ID as a number; 0 if it is not set."""
    text = environment.get("ROS_DOMAIN_ID") or "0"
    if not text.isdecimal() or int(text) > LARGEST_DOMAIN:
        raise SetupError(f"ROS_DOMAIN_ID is {text!r}, expected a whole number from 0 to {LARGEST_DOMAIN}")
    return int(text)


def share_out_domains(lab: int, given: Mapping[str, int | None], namespace: str = "") -> dict[str, int]:
    """A domain for each arm of a lab: the given one, otherwise the next free one.

    They are counted down from the highest quiet domain, starting eight lower for each lab, so that labs on one machine
    differ. Labs that share a domain start at a number derived from their namespace.
    """
    taken = {lab, *(domain for domain in given.values() if domain is not None)}
    found: dict[str, int] = {}
    first = ARMS_OF_A_LAB * lab + zlib.crc32(namespace.encode())  # crc32 of an empty namespace is 0
    candidates = (LARGEST_QUIET_DOMAIN - (first + n) % LARGEST_QUIET_DOMAIN for n in itertools.count())
    for robot, domain in given.items():
        found[robot] = domain if domain is not None else next(each for each in candidates if each not in taken)
        taken.add(found[robot])
    return found


@contextmanager
def claim_domains(domains: Iterable[int], system: str) -> Iterator[None]:
    """Hold several at once, or none."""
    with ExitStack() as held:
        for domain in sorted(set(domains)):
            held.enter_context(claim_domain(domain, system))
        yield


@contextmanager
def claim_domain(domain: int, system: str) -> Iterator[None]:
    """Hold the domain for one system alone."""
    with _hold(f"domain-{domain}", fcntl.LOCK_EX, f"ROS domain {domain} is in use by", system, "set ROS_DOMAIN_ID"):
        yield


@contextmanager
def claim_lab(domain: int, namespace: str, arms: Iterable[int], system: str) -> Iterator[None]:
    """Hold one namespace of the domain, and each arm's domain as a whole.

    Two labs with the same node names in one domain would answer each other's requests; arms never share a domain.
    """
    used = f"ROS domain {domain} is in use by"
    name = namespace.replace("/", "-")
    remedy = "set ROS_DOMAIN_ID, or give each lab a namespace:=NAME of its own"
    with ExitStack() as held:
        held.enter_context(_hold(f"domain-{domain}-lab-{name}", fcntl.LOCK_EX, used, system, remedy))
        held.enter_context(_hold(f"domain-{domain}", fcntl.LOCK_SH, used, system, "set ROS_DOMAIN_ID"))
        for arm in sorted(set(arms)):
            used = f"ROS domain {arm}, meant for an arm, is in use by"
            remedy = "set ROS_DOMAIN_ID, or arm_domain in the lab file"
            held.enter_context(_hold(f"domain-{arm}", fcntl.LOCK_EX, used, system, remedy))
        yield


@contextmanager
def _hold(what: str, how: int, used: str, system: str, remedy: str) -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"opc_ros-{os.getuid()}-{what}.lock"
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another system"
            raise SetupError(f"{used} {holder}: stop it, or {remedy}") from None
        lock.truncate(0)
        lock.write(f"{system} (process {os.getpid()})")
        lock.flush()
        yield


@contextmanager
def claim_free_domain(system: str, robots: Iterable[str] = ()) -> Iterator[dict[str, str]]:
    """Hold an unused domain, and those of its arms; returns the environment that keeps nodes there."""
    for domain in range(LARGEST_QUIET_DOMAIN, 0, -1):
        arms = share_out_domains(domain, dict.fromkeys(robots))
        claim = claim_domains([domain, *arms.values()], system)
        try:
            claim.__enter__()
        except SetupError:
            continue
        with ExitStack() as held:
            held.push(claim)
            yield {"ROS_DOMAIN_ID": str(domain), **stay_on_this_machine()}
        return
    raise SetupError(f"every ROS domain from 1 to {LARGEST_QUIET_DOMAIN} is in use on this machine: stop a system")
