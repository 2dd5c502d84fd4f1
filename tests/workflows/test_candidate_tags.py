"""Tags of candidates: kept beside the registry, safe against simultaneous writers, and never part of an id."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opc_ros.cli.main import main
from opc_ros.errors import CandidateError
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.workflows.candidate_tags import FILE_NAME, MOST_TAGS, CandidateTags
from tests.policies.making import make_candidate

SMALL: dict[str, Any] = {
    "stem_channels": 4,
    "trunk_channels": [4],
    "head_channels": [4],
    "tail_channels": [],
    "hidden": [8],
}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CandidateRegistry:
    """Two candidates, first and second."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("first", "second")):
        make_candidate(tmp_path / "made" / name, image_size=32, name=name, seed=seed, **SMALL)
        assert main(["candidate", "add", f"made/{name}"]) == 0
    return CandidateRegistry("candidates")


def test_tags_are_listed_shown_and_filtered_by(registry: CandidateRegistry, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["candidate", "tag", "first", "wrist", "night", "wrist"]) == 0
    assert capsys.readouterr().out == f"{registry.find('first').id[:12]}  first  night, wrist\n"
    assert main(["candidate", "tag", "second", "night"]) == 0
    assert main(["candidate", "show", "first"]) == 0
    assert "tags: night, wrist\n" in capsys.readouterr().out
    for words, names in (
        ([], ["first", "second"]),
        (["--tag", "night"], ["first", "second"]),
        (["--tag", "night", "--tag", "wrist"], ["first"]),
        (["--tag", "unknown"], []),
    ):
        assert main(["candidate", "list", "--json", *words]) == 0
        assert [one["manifest"]["name"] for one in json.loads(capsys.readouterr().out)] == names
    assert main(["candidate", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("night, wrist")


def test_a_tag_changes_no_id_and_no_file_of_the_candidate(registry: CandidateRegistry) -> None:
    first = registry.find("first")
    before = {path: path.read_bytes() for path in first.folder.rglob("*")}
    assert main(["candidate", "tag", "first", "wrist"]) == 0
    assert registry.find("first").id == first.id
    assert {path: path.read_bytes() for path in first.folder.rglob("*")} == before


def test_what_is_taken_off_is_gone_and_what_is_not_there_changes_nothing(
    registry: CandidateRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["candidate", "tag", "first", "a", "b", "c"]) == 0
    assert main(["candidate", "untag", "first", "b", "z"]) == 1
    assert capsys.readouterr().err.endswith("has no tag 'z', only a, b, c\n")
    assert main(["candidate", "untag", "first", "b"]) == 0
    tags = CandidateTags(registry.path)
    assert tags.read() == {registry.find("first").id: ("a", "c")}
    assert main(["candidate", "untag", "first", "a", "c"]) == 0
    assert tags.read() == {}


def test_a_candidate_keeps_its_tags_under_a_new_name_and_when_added_again(registry: CandidateRegistry) -> None:
    assert main(["candidate", "tag", "first", "wrist"]) == 0
    assert main(["candidate", "rename", "first", "third"]) == 0
    assert CandidateTags(registry.path).read()[registry.find("third").id] == ("wrist",)
    assert main(["candidate", "add", "made/first"]) == 0
    assert CandidateTags(registry.path).read()[registry.find("first").id] == ("wrist",)


TAG_MANY = """
import sys
from pathlib import Path
from typing import Any
from opc_ros.workflows.candidate_tags import CandidateTags
for number in range(8):
    CandidateTags(Path(sys.argv[1])).add(f"{number:064}", [f"by-{sys.argv[2]}"])
"""


def test_people_who_tag_at_once_lose_nothing(tmp_path: Path) -> None:
    people = [subprocess.Popen([sys.executable, "-c", TAG_MANY, tmp_path, str(person)]) for person in range(3)]
    assert [person.wait(120) for person in people] == [0, 0, 0]
    found = CandidateTags(tmp_path).read()
    assert found == {f"{number:064}": ("by-0", "by-1", "by-2") for number in range(8)}


def test_more_tags_than_a_table_can_show_are_refused(tmp_path: Path) -> None:
    tags = CandidateTags(tmp_path)
    tags.add("c" * 64, [f"t{number}" for number in range(MOST_TAGS)])
    with pytest.raises(CandidateError, match="33 tags, expected at most 32"):
        tags.add("c" * 64, ["one-more"])
    assert len(tags.read()["c" * 64]) == MOST_TAGS


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ('{"format_version": 2}', "format_version is 2, expected 1"),
        ('{"format_version": 1, "tags": {"c": "wrist"}}', "tags: c: got"),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(CandidateError, match=complaint):
        CandidateTags(tmp_path).add("c" * 64, ["wrist"])
    assert (tmp_path / FILE_NAME).read_text() == text
