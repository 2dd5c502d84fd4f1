"""Which part of a lab of several machines runs on this one, and how its nodes find the others' nodes."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from opc_ros.bringup.lab import Lab
from opc_ros.bringup.reach import PEERS, RANGE
from opc_ros.errors import SetupError


@dataclass(frozen=True, slots=True)
class Here:
    """This machine's part of a lab, or all of it if the lab has no other machine."""

    name: str = ""
    is_central: bool = True  # scorer, scheduler, console and depot run here
    robots: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # for nodes in the lab's domain
    depot: str = ""  # where robots on this machine reach the depot; empty: the lab's folders are on this disk

    @property
    def advice(self) -> tuple[str, ...]:
        """What other terminals on this machine need to see the lab; nothing if it has one machine."""
        if not self.environment:
            return ()
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in self.environment.items())
        return (f"machine {self.name}; in other terminals here: export {settings}",)


def find_here(lab: Lab, given: str, host_name: Callable[[], str] = socket.gethostname) -> Here:
    """Find this machine by the given name, or by this computer's host name."""
    if not lab.machines:
        if given:
            raise SetupError(f"machine:={given}: the lab file names no machines")
        return Here(robots=tuple(lab.robots))
    name = given or host_name().partition(".")[0]
    if name not in lab.machines:
        known = ", ".join(lab.machines)
        raise SetupError(
            f"machine {name!r} is not in the lab file, which has {known}: say which this is, machine:=NAME"
        )
    central = lab.central
    others = [machine.address for other, machine in lab.machines.items() if other != name]
    return Here(
        name=name,
        is_central=name == central,
        robots=tuple(robot for robot in lab.robots if lab.machine_of(robot) == name),
        # Peers by address, because many networks carry no multicast. With the range SUBNET, Fast DDS greets only the
        # first four programs of each peer, so that some nodes never meet; with LOCALHOST it greets 32.
        environment={RANGE: "LOCALHOST", PEERS: ";".join(others)},
        depot="" if name == central else f"http://{lab.machines[central].address}:{lab.depot_port}",
    )
