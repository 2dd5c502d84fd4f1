"""Version-1 folders become version 2: nothing is lost, weights are untouched, and only what was implied is added."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from opc_ros.errors import CandidateError
from opc_ros.policies.candidate import candidate_id, read_candidate
from opc_ros.policies.manifest import canonical_manifest
from opc_ros.policies.migration import KEPT_NAME, migrate_candidates
from tests.policies.making import make_candidate

LEFT_TO_DEFAULTS = ("stem_kernel", "has_coordinates")
ADDED = ("action_search", "think_s", "task")


def to_version1(folder: Path, **changes: object) -> str:
    """Rewrite a folder as the previous version wrote it; returns its id then."""
    path = folder / "candidate.yaml"
    document = yaml.safe_load(path.read_text())
    for key in ADDED:
        del document[key]
    del document["input"]["normalisation"]
    document |= {"format_version": 1} | changes
    document["hyper_parameters"] = {
        key: value for key, value in document["hyper_parameters"].items() if key not in LEFT_TO_DEFAULTS
    }
    path.write_text("# trained long ago\n" + yaml.safe_dump(document))
    artifact = (folder / document["artifact"]).read_bytes()
    return candidate_id(canonical_manifest(path.read_bytes(), where="c"), artifact)


def test_a_version_1_manifest_is_refused_in_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    make_candidate(tmp_path / "c", hidden=[32])
    to_version1(tmp_path / "c")
    with pytest.raises(CandidateError, match=r"format_version 1 .*`opc candidate migrate FOLDER` writes them out"):
        read_candidate(tmp_path / "c")


def test_migration_states_what_was_implied_and_keeps_the_old_manifest(tmp_path: Path) -> None:
    made = make_candidate(tmp_path / "c", hidden=[32])
    old_id = to_version1(tmp_path / "c")
    old_text = (tmp_path / "c" / "candidate.yaml").read_text()
    (done,) = migrate_candidates([tmp_path / "c"])
    assert (done.old_id, done.folder) == (old_id, tmp_path / "c")
    migrated = read_candidate(tmp_path / "c")
    assert migrated.id == done.new_id == made.id
    assert migrated.artifact_bytes == made.artifact_bytes
    assert (tmp_path / "c" / KEPT_NAME).read_text() == old_text
    document = yaml.safe_load((tmp_path / "c" / "candidate.yaml").read_text())
    assert document["action_search"] == {
        "method": "cem",
        "samples": 64,
        "elites": 6,
        "rounds": 3,
        "randomness": "seed_and_step",
    }
    assert document["think_s"] == 1.0
    assert document["input"]["normalisation"]["tool_centre_m"] == [0.55, 0.0, 0.2, 0.04]
    assert document["hyper_parameters"]["trunk_channels"] == [32, 32]


def test_a_second_migration_finds_nothing_to_do(tmp_path: Path) -> None:
    make_candidate(tmp_path / "c", hidden=[32])
    to_version1(tmp_path / "c")
    assert len(migrate_candidates([tmp_path / "c"])) == 1
    assert migrate_candidates([tmp_path / "c"]) == []


def test_a_registrys_folder_takes_the_new_id_into_its_name_and_notes_follow(tmp_path: Path) -> None:
    make_candidate(tmp_path / "c", hidden=[32], name="one")
    old_id = to_version1(tmp_path / "c")
    folder = (tmp_path / "c").rename(tmp_path / f"one-{old_id[:12]}")
    make_candidate(tmp_path / "other", hidden=[32], seed=1)
    to_version1(tmp_path / "other", provenance={"notes": f"like one ({old_id[:12]})"})
    first, second = migrate_candidates([folder, tmp_path / "other"])
    assert first.folder.name == f"one-{first.new_id[:12]}"
    assert read_candidate(second.folder).manifest.provenance.notes == f"like one ({first.new_id[:12]})"


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        (("think_s",), "think_s is missing"),
        (("action_search",), "action_search is missing"),
        (("action_search", "rounds"), "action_search: rounds is missing"),
        (("input", "normalisation", "image_range"), "input: normalisation: image_range is missing"),
        (("input", "action_bounds"), "input: action_bounds is missing"),
    ],
)
def test_a_manifest_that_leaves_something_to_a_default_is_refused(
    tmp_path: Path, path: tuple[str, ...], missing: str
) -> None:
    make_candidate(tmp_path)
    document = yaml.safe_load((tmp_path / "candidate.yaml").read_text())
    below = document
    for key in path[:-1]:
        below = below[key]
    del below[path[-1]]
    (tmp_path / "candidate.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(CandidateError, match=missing):
        read_candidate(tmp_path)
