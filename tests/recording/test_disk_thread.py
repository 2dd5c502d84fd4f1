from __future__ import annotations

import threading

from opc_ros.recording.disk_thread import DiskThread


def test_jobs_run_in_order_and_closing_waits_for_them() -> None:
    done: list[int] = []
    disk = DiskThread(capacity=100)
    for number in range(50):
        assert disk.offer(lambda number=number: done.append(number))
    assert disk.close(5.0)
    assert done == list(range(50))


def test_a_full_queue_says_no_to_data_but_takes_what_must_get_in() -> None:
    gate, is_held = threading.Event(), threading.Event()
    done: list[str] = []
    disk = DiskThread(capacity=2)
    disk.submit(lambda: (is_held.set(), gate.wait(5)))
    assert is_held.wait(5)
    assert disk.offer(lambda: done.append("a"))
    assert disk.offer(lambda: done.append("b"))
    assert not disk.offer(lambda: done.append("c"))
    disk.submit(lambda: done.append("end"))
    assert len(disk) == 3
    assert disk.is_busy
    gate.set()
    assert disk.close(5.0)
    assert done == ["a", "b", "end"]
    assert not disk.is_busy


def test_closing_gives_up_on_a_disk_that_hangs() -> None:
    gate = threading.Event()
    disk = DiskThread(capacity=2)
    disk.submit(lambda: gate.wait(10))
    assert not disk.close(0.01)
    gate.set()
