"""Candidates run in processes of their own: with the same results, and able to do nothing else."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest

from opc_ros.arms.arm import ScriptedArm
from opc_ros.errors import CandidateError, EpisodeStopped, ThoughtTooLong, WorkerLost
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.image_view import ImageView
from opc_ros.policies.policy import load_policy
from opc_ros.policies.q_function import Observations
from opc_ros.policies.worker.confinement import Limits, describe_confinement
from opc_ros.policies.worker.host import WorkerHost
from tests.policies.bad_graphs import answers_nan, eats_memory, loops_for_ever, sums_actions, write_onnx
from tests.policies.making import make_candidate

MANY = 10.0  # a probe has 2 rows, a search 64


@pytest.fixture(scope="module")
def host() -> Iterator[WorkerHost]:
    with WorkerHost() as host:
        yield host


@pytest.mark.parametrize("architecture", ["whole_image", "tool_crop", "target_crop"])
def test_it_gives_the_same_results_as_this_process_bit_for_bit(
    tmp_path: Path, host: WorkerHost, architecture: str
) -> None:
    candidate = make_candidate(tmp_path, architecture=architecture, image_size=48)
    here, there = load_policy(candidate, device="cpu"), host.load_policy(candidate)
    seen = ScriptedArm(image_size=96).begin(5)
    for step in range(3):
        ours, theirs = (policy.decide(seen, seed=9, step=step) for policy in (here, there))
        np.testing.assert_array_equal(ours.vector, theirs.vector)
        assert ours.q == theirs.q
    states = Observations.from_sequence([seen] * 4, ImageView((48, 48)))
    actions = np.random.default_rng(0).uniform(-0.05, 0.05, (4, 8)).astype(np.float32)
    np.testing.assert_array_equal(here.q(states, actions), there.q(states, actions))
    for ours, theirs in zip(here.decide_each(states, seed=3), there.decide_each(states, seed=3), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    there.close()


def test_an_onnx_graph_and_a_few_choices_work_there_too(tmp_path: Path, host: WorkerHost) -> None:
    for candidate in (
        write_onnx(tmp_path / "onnx", sums_actions()),
        make_candidate(tmp_path / "choices", architecture="region_moments", image_size=40),
    ):
        seen = ScriptedArm(image_size=64).begin(1)
        there = host.load_policy(candidate)
        expected = load_policy(candidate, device="cpu").decide(seen, seed=1, step=0)
        np.testing.assert_array_equal(there.decide(seen, seed=1, step=0).vector, expected.vector)
        there.close()


def test_what_goes_wrong_in_a_candidates_process_is_reported_in_one_line(tmp_path: Path, host: WorkerHost) -> None:
    broken = make_candidate(tmp_path / "c")
    (tmp_path / "c" / "weights.safetensors").write_bytes(b"no weights")
    with pytest.raises(CandidateError, match="is not a safetensors file"):
        host.load_policy(read_candidate(broken.folder))
    policy = host.load_policy(write_onnx(tmp_path / "nan", answers_nan(after_row=MANY)))
    with pytest.raises(CandidateError, match="NaN or infinity for 64 of 64"):
        policy.decide(ScriptedArm(image_size=32).begin(0), seed=0, step=0)
    policy.close()


def test_an_endless_search_is_cut_off_at_its_deadline(tmp_path: Path, host: WorkerHost) -> None:
    endless = write_onnx(tmp_path / "endless", loops_for_ever(after_row=MANY))
    policy = host.load_policy(endless, deadline_s=0.3)
    seen = ScriptedArm(image_size=32).begin(0)
    began = time.monotonic()
    with pytest.raises(ThoughtTooLong, match=r"endless: took longer than 0\.3 s"):
        policy.decide(seen, seed=0, step=0)
    assert time.monotonic() - began >= 0.3
    _wait_until_alone(host)


def test_whoever_waits_for_a_thought_can_stop_waiting(tmp_path: Path, host: WorkerHost) -> None:
    reasons = iter([None, None, "cancelled"])
    is_loaded = threading.Event()  # loading may take as long as it needs
    endless = write_onnx(tmp_path / "endless", loops_for_ever(after_row=MANY))
    policy = host.load_policy(endless, why_to_stop=lambda: next(reasons) if is_loaded.is_set() else None)
    is_loaded.set()
    with pytest.raises(EpisodeStopped, match="cancelled"):
        policy.decide(ScriptedArm(image_size=32).begin(0), seed=0, step=0)
    _wait_until_alone(host)


def test_an_endless_loop_while_loading_can_be_ended_too(tmp_path: Path, host: WorkerHost) -> None:
    endless = write_onnx(tmp_path / "endless", loops_for_ever())
    asked = iter([None] * 5 + ["shut down"])
    with pytest.raises(EpisodeStopped, match="shut down"):
        host.load_policy(endless, why_to_stop=lambda: next(asked))
    _wait_until_alone(host)


def test_a_candidate_that_wants_more_memory_than_its_share_fails_and_others_go_on(
    tmp_path: Path, host: WorkerHost
) -> None:
    seen = ScriptedArm(image_size=32).begin(0)
    greedy = write_onnx(tmp_path / "greedy", eats_memory(3.0, after_row=MANY))
    modest = write_onnx(tmp_path / "modest", eats_memory(0.1, after_row=MANY))
    for candidate, limits, is_fine in (
        (greedy, Limits(), False),
        (modest, Limits(), True),
        (modest, Limits(memory_bytes=50 << 20), False),
    ):
        fails = nullcontext() if is_fine else pytest.raises((CandidateError, WorkerLost))
        with closing(host.load_policy(candidate, limits=limits)) as policy, fails:
            policy.decide(seen, seed=0, step=0)


def test_a_process_that_died_is_noticed_and_the_next_choice_gets_a_new_one(tmp_path: Path, host: WorkerHost) -> None:
    policy = host.load_policy(make_candidate(tmp_path, image_size=48))
    seen = ScriptedArm(image_size=48).begin(0)
    before = policy.decide(seen, seed=0, step=0)
    (child,) = _children_of(host._process.pid)
    os.kill(child, 9)
    with pytest.raises(WorkerLost):
        policy.decide(seen, seed=0, step=0)
    np.testing.assert_array_equal(policy.decide(seen, seed=0, step=0).vector, before.vector)
    policy.close()


def test_processes_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    candidate = make_candidate(tmp_path, image_size=48)
    program = (
        "import sys, time; from opc_ros.policies.worker.host import WorkerHost;"
        "from opc_ros.policies.candidate import read_candidate;"
        f"host = WorkerHost(); policy = host.load_policy(read_candidate({str(candidate.folder)!r}));"
        "print(host._process.pid, flush=True); time.sleep(600)"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    nursery = int(starter.stdout.readline())
    (child,) = _children_of(nursery)
    starter.kill()
    starter.wait()
    deadline = time.monotonic() + 30
    while _is_alive(nursery) or _is_alive(child):
        assert time.monotonic() < deadline, "its processes go on"
        time.sleep(0.02)


@pytest.mark.skipif(not describe_confinement()[0], reason=describe_confinement()[1])
def test_a_confined_process_can_open_nothing_and_start_nothing() -> None:
    """Tried from inside, under the very filter that candidates run under."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            theirs.send(_try_everything(theirs.fileno()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs.close()
    assert ours.recv(4096).decode() == "nothing was allowed"


def _try_everything(link: int) -> str:
    from opc_ros.policies.worker.confinement import confine

    confine((link,), Limits(memory_bytes=100 << 20))
    libc = ctypes.CDLL(None, use_errno=True)
    tries = {
        "read a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "write a file": lambda: os.open("here", os.O_WRONLY | os.O_CREAT),
        "list a folder": lambda: os.listdir("/"),
        "look at a file": lambda: os.stat("/etc/passwd"),
        "open a socket": lambda: socket.socket(socket.AF_INET),
        "open a unix socket": lambda: socket.socket(socket.AF_UNIX),
        "fork": os.fork,
        "run a program": lambda: os.execv("/bin/true", ["true"]),
        "signal its parent": lambda: os.kill(os.getppid(), 0),
        "make a file in memory": lambda: os.memfd_create("more"),
        "raise its limits": lambda: _raise(libc.prlimit(0, 2, b"\xff" * 16, None)),
        "trace": lambda: _raise(libc.ptrace(16, os.getpid(), 0, 0)),
        "share memory": lambda: _raise(libc.mmap(None, 4096, 3, 0x21, -1, 0)),
        "take its limit's worth of memory": lambda: _raise(libc.mmap(None, 200 << 20, 3, 0x22, -1, 0)),
    }
    allowed = []
    for name, attempt in tries.items():
        try:
            attempt()
            allowed.append(name)
        except (OSError, MemoryError):
            pass
    return ", ".join(allowed) or "nothing was allowed"


def _raise(result: int) -> None:
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")


def _wait_until_alone(host: WorkerHost) -> None:
    """A killed process takes a moment to disappear."""
    deadline = time.monotonic() + 10
    while _children_of(host._process.pid):
        assert time.monotonic() < deadline, "a candidate's process goes on"
        time.sleep(0.01)


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
