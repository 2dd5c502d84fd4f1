"""ROS domains for tests, each kept to this machine.

They are used in turn, not the lowest free one over and over, so that what one test leaves behind does not reach the
next.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

from domain_coordinator import domain_id

from opc_ros.bringup.reach import stay_on_this_machine
from opc_ros.bringup.shared_memory import sweep_shared_memory

# None of these is the domain that `opc up` gives to the first or second arm of a lab in another of them.
DOMAINS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 22, 27, 30, 31, 32, 33, 83, 91)

_first = 12 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % len(DOMAINS)
_turns = itertools.cycle(DOMAINS[_first:] + DOMAINS[:_first])


@contextmanager
def take_domain() -> Iterator[int]:
    """A domain nobody else on this machine uses. Arms that a failed test left in it are closed at the end."""
    with domain_id(lambda: next(_turns)) as domain:
        yield int(domain)
        _close_forgotten_arms(int(domain))


@contextmanager
def own_domain() -> Iterator[int]:
    """A domain of its own for what this process and its children start."""
    # A node killed by another test may have left an unfinished segment; ports are shared by all domains.
    sweep_shared_memory()
    with take_domain() as domain:
        settings = {"ROS_DOMAIN_ID": str(domain), **stay_on_this_machine()}
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        try:
            yield domain
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def _close_forgotten_arms(domain: int) -> None:
    from opc_ros.ros.ros_arm import RosArm

    for each in gc.get_objects():
        if type(each) is RosArm and not each.is_closed and each._link._context.get_domain_id() == domain:
            each.close()
