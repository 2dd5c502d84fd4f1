"""Computation has lower priority than what moves an arm."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from opc_ros.policies.compute import NICENESS, SESSION, give_way


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="niceness of threads is Linux's")
def test_a_thread_that_gives_way_leaves_the_others_as_they_are() -> None:
    before = niceness()
    with ThreadPoolExecutor(1, initializer=give_way) as pool:
        assert pool.submit(niceness).result() == max(NICENESS, before)
    assert niceness() == before


@pytest.mark.skipif(not SESSION.exists(), reason="this kernel does not share cores by sessions")
@pytest.mark.parametrize(("is_own", "line"), [(True, "nice 10"), (False, "nice 0")])
def test_a_session_gives_way_only_if_it_is_the_process_s_own(is_own: bool, line: str) -> None:
    code = "from opc_ros.policies.compute import give_way, SESSION; give_way(); print(SESSION.read_text())"
    inner = [sys.executable, "-c", code]
    outer = "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)"
    command = inner if is_own else [sys.executable, "-c", outer, *inner]
    ran = subprocess.run(command, start_new_session=True, capture_output=True, text=True, check=True)
    assert line in ran.stdout
