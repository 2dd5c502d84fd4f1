"""An empty Q cache, and a small field of candidates to score."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opc_ros.policies.candidate import Candidate
from opc_ros.scoring.q_cache import QCache
from tests.policies.making import make_candidate


@pytest.fixture
def q_cache(tmp_path: Path) -> Iterator[QCache]:
    with QCache(tmp_path / "q_cache" / "q.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    folder = tmp_path_factory.mktemp("candidates")
    kinds = ("whole_image", "tool_crop", "target_crop")
    return [
        make_candidate(folder / kind, architecture=kind, seed=seed, image_size=32 + 8 * seed)
        for seed, kind in enumerate(kinds)
    ]
