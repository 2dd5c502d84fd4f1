"""A few mutations of every kind of file; `python -m tests.faults.files` makes thousands."""

from __future__ import annotations

from pathlib import Path

from tests.faults.files import make_kinds, try_kind


def test_no_mutated_file_gives_a_traceback_a_hang_or_a_number_that_is_not_finite(tmp_path: Path) -> None:
    for kind in make_kinds(tmp_path):
        outcome = try_kind(kind, 25, seed=1)
        assert not outcome.faults, f"{kind.name}: {outcome.faults[0]}"
        assert outcome.refused or kind.is_cache, kind.name
