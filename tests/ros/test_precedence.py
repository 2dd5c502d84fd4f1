"""Nodes that keep an arm safe run ahead of others if the system allows it."""

from __future__ import annotations

import subprocess
import sys

from opc_ros.ros.precedence import Precedence, take_precedence

PROGRAM = """
import os
from opc_ros.ros.precedence import Precedence, take_precedence
is_allowed = take_precedence(Precedence({wanted!r}))
print(is_allowed, os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
"""


def try_out(wanted: Precedence) -> list[str]:
    command = [sys.executable, "-c", PROGRAM.format(wanted=wanted.value)]
    return subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True).stdout.split()


def test_a_guard_runs_in_real_time_or_says_that_it_may_not() -> None:
    is_allowed, policy, _ = try_out(Precedence.REAL_TIME)
    assert policy == ("2" if is_allowed == "True" else "0")  # SCHED_RR, or the usual policy


def test_a_gateway_comes_before_others_or_says_that_it_may_not() -> None:
    is_allowed, policy, niceness = try_out(Precedence.HIGH)
    assert policy == "0"
    assert (int(niceness) <= -10) == (is_allowed == "True")


def test_a_node_that_asks_for_no_precedence_gets_none() -> None:
    assert take_precedence(Precedence.NONE)
