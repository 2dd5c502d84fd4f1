"""How the soak's samples are judged; the soak itself takes hours: `python -m tests.faults.soak`."""

from __future__ import annotations

from typing import Any

from tests.faults.soak import judge


def sample(at_s: float, private_mb: float, descriptors: int = 20, shared_mb: float = 10.0) -> dict[str, Any]:
    process = {"private_mb": private_mb, "descriptors": descriptors, "threads": 16}
    return {"at_s": at_s, "processes": {"scorer": process}, "shared_memory": {"mb": shared_mb}}


def test_a_process_that_grows_by_four_per_cent_after_its_warm_up_is_named() -> None:
    # 100 s: the first 25 are warm-up; then 100 MB become 104.
    samples = [sample(at_s, 50.0 if at_s < 25 else 100.0 + 4.0 * (at_s - 25) / 75) for at_s in range(101)]
    grown = [drift.what for drift in judge(samples) if not drift.is_flat]
    assert grown == ["scorer: private_mb"]


def test_what_only_grows_while_it_warms_up_counts_as_flat() -> None:
    samples = [sample(at_s, min(100.0, 10.0 + 4.0 * at_s), descriptors=20 + at_s % 2) for at_s in range(101)]
    assert all(drift.is_flat for drift in judge(samples))


def test_growing_shared_memory_and_leaking_descriptors_are_named() -> None:
    samples = [sample(at_s, 100.0, descriptors=20 + at_s // 10, shared_mb=10.0 + at_s / 10) for at_s in range(101)]
    assert [drift.what for drift in judge(samples) if not drift.is_flat] == ["/dev/shm, MB", "scorer: descriptors"]
