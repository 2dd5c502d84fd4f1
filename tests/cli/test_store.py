"""`opc store` as people and scripts use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import pytest

from opc_ros.cli.main import main
from opc_ros.episode import EpisodeHeader, Label
from opc_ros.store import Store, open_store
from tests.store.grasps import FAILURE, make_episode

Run = Callable[..., str]
DAY_NS = 86_400 * 1_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "store", create=True)
    store.append(make_episode("a"))
    store.append(make_episode("b", robot="right", label=FAILURE, behaviour_policy="random"))
    store.append(make_episode("c", label=Label()), health=("frame 1 came late",))
    return store


@pytest.fixture
def opc(store: Store, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(verb: str, *words: str, expected: int = 0) -> str:
        assert main(["store", verb, "--store", str(store.path), *words]) == expected
        output, errors = capsys.readouterr()
        return errors if expected else output

    return run


def parsed(text: str) -> Any:
    return json.loads(text)


def test_list_shows_each_episode_with_label_and_health(opc: Run) -> None:
    lines = opc("list").splitlines()
    assert [line.split()[0] for line in lines] == ["a", "b", "c"]
    assert "success" in lines[0]
    assert "failure" in lines[1]
    assert "! frame 1 came late" in lines[2]


def test_list_filters_and_speaks_json(opc: Run) -> None:
    assert [entry["id"] for entry in parsed(opc("list", "--json", "--robot", "right"))] == ["b"]
    assert [entry["id"] for entry in parsed(opc("list", "--json", "--unlabelled"))] == ["c"]
    assert parsed(opc("list", "--json", "--since", "1970-01-02")) == []
    assert len(parsed(opc("list", "--json", "--until", "1970-01-02T00:00+00:00"))) == 3


def test_list_names_damage_and_goes_on(opc: Run, store: Store) -> None:
    (store.path / "episodes" / "left" / "1970-01-01" / "a.json").write_text("{}")
    assert "episode a" in opc("list", expected=1)


def test_quarantine_is_listed_with_reasons(opc: Run, store: Store) -> None:
    writer = store.begin(EpisodeHeader("q", "left", "scripted", DAY_NS))
    writer.add_step(make_episode().steps[0])
    writer.quarantine("camera froze")
    assert opc("list", "--quarantine") == "q  left  1 steps  camera froze\n"


def test_show_prints_and_draws_an_episode(opc: Run, tmp_path: Path) -> None:
    image = tmp_path / "sheet.png"
    text = opc("show", "a", "--image", str(image))
    assert "label             success" in text
    assert text.count("step ") == 3
    assert "clamped" in text
    drawn = cv2.imread(str(image))
    assert drawn is not None
    assert min(drawn.shape[:2]) > 300
    assert len(parsed(opc("show", "a", "--json"))["actions"]) == 3


def test_show_names_what_is_missing(opc: Run, tmp_path: Path) -> None:
    assert opc("show", "nobody", expected=1).startswith("opc: episode nobody: not in ")
    assert "cannot be written" in opc("show", "a", "--image", str(tmp_path / "no" / "x.png"), expected=1)
    assert "cannot be written" in opc("show", "a", "--image", str(tmp_path / "x.doc"), expected=1)


def test_stats_count_by_robot_and_policy(opc: Run) -> None:
    stats = parsed(opc("stats", "--json"))
    assert stats["total"]["episodes"] == 3
    assert (stats["total"]["success_rate"], stats["total"]["balance"]) == (0.5, 0.5)
    assert stats["by_robot"]["left"]["unlabelled"] == 1
    assert stats["by_robot"]["left"]["success_rate"] == 1.0
    assert stats["by_policy"]["random"]["failures"] == 1
    assert stats["total"]["unhealthy"] == 1
    assert "robot right" in opc("stats")


def test_verify_says_whether_all_is_as_committed(opc: Run, store: Store) -> None:
    assert opc("verify").endswith(": all as committed\n")
    path = store.path / "episodes" / "left" / "1970-01-01" / "a.mcap"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    opc("verify", expected=1)
    assert opc("recover").startswith("quarantined: a: its file has sha256")
    assert opc("recover", "--quick") == "nothing to recover\n"
    report = parsed(opc("verify", "--decode", "--json"))
    assert (report["episodes"], report["frames_decoded"], report["problems"]) == (2, 6, [])


def test_a_label_from_a_person_is_a_new_revision(opc: Run, store: Store) -> None:
    assert opc("label", "c", "success", "--by", "ada", "--note", "held") == "c: success, revision 1\n"
    assert store.find("c").label.labeller == "ada"
    assert parsed(opc("label", "c", "unlabelled", "--json"))["revision"] == 2
    assert not store.find("c").is_labelled


def test_snapshots_are_taken_listed_and_shown(opc: Run) -> None:
    text = opc("snapshot", "--tag", "week-1")
    digest = text.split()[0]
    assert text == f"{digest}  2 episodes, 1 successes\n"
    assert opc("snapshot", "--list") == f"{digest}  2 episodes, 1 successes  week-1\n"
    assert opc("snapshot", "--show", "week-1").splitlines()[0] == "a  left  success  revision 0"
    assert parsed(opc("snapshot", "--json", "--robot", "right"))["entries"][0]["episode_id"] == "b"
    assert "no labelled episode" in opc("snapshot", "--robot", "nobody", expected=1)


def test_export_writes_a_dataset(opc: Run, tmp_path: Path) -> None:
    folder = tmp_path / "dataset"
    assert opc("export", str(folder), "--robot", "left") == f"{folder}: 1 episodes, 3 frames at 10 fps\n"
    assert (folder / "meta" / "info.json").exists()
    assert "exists" in opc("export", str(folder), expected=1)


def test_import_names_a_bad_mapping(opc: Run, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text("robot: arm1\n")
    recording = tmp_path / "x.mcap"
    recording.touch()
    assert "key 'behaviour_policy' is missing" in opc("import", str(recording), "--mapping", str(mapping), expected=1)


def test_import_names_a_recording_that_is_not_there(opc: Run) -> None:
    assert "x.mcap: no such file or folder" in opc("import", "x.mcap", expected=1)


def test_a_missing_store_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["store", "list", "--store", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"opc: {tmp_path / 'none'}: no such folder, expected a validation store\n"


def test_a_bad_date_is_wrong_usage(opc: Run) -> None:
    with pytest.raises(SystemExit) as caught:
        opc("list", "--since", "yesterday")
    assert caught.value.code == 2


def test_an_excluded_episode_is_in_no_new_snapshot_and_comes_back_with_its_label(opc: Run, store: Store) -> None:
    before = parsed(opc("snapshot", "--json"))
    opc("label", "c", "failure", "--by", "ada")
    opc("exclude", "b", "c", "--reason", "camera was knocked", "--by", "ada")
    assert [entry["episode_id"] for entry in parsed(opc("snapshot", "--json"))["entries"]] == ["a"]
    assert parsed(opc("stats", "--json"))["total"]["excluded"] == 2
    assert [entry["id"] for entry in parsed(opc("list", "--json", "--label-source", "excluded"))] == ["b", "c"]
    assert parsed(opc("list", "--json", "--unlabelled")) == []
    assert "excluded by ada  camera was knocked" in opc("show", "c")
    assert "is excluded, so no label counts" in opc("label", "b", "success", expected=1)
    assert "is excluded already" in opc("exclude", "b", "--reason", "again", expected=1)
    assert "b: failure, revision 2" in opc("restore", "b", "--reason", "only the light had changed", "--by", "ben")
    assert "c: failure, revision 3" in opc("restore", "c", "--reason", "so had its", "--by", "ben")
    assert store.find("b").label == FAILURE
    entries = parsed(opc("snapshot", "--json"))["entries"]
    assert [(entry["episode_id"], entry["is_success"]) for entry in entries] == [
        ("a", True),
        ("c", False),
        ("b", False),
    ]
    assert parsed(opc("snapshot", "--show", before["id"], "--json")) == before
    assert "is not excluded" in opc("restore", "b", "--reason", "twice", expected=1)


def test_excluding_needs_a_reason(opc: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        opc("exclude", "a", "--reason", " ")
    assert "--reason" in capsys.readouterr().err


def test_backup_and_restore_speak_of_what_they_read_back(opc: Run, store: Store, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup")
    assert "read back 3 episodes" in opc("backup", backup)
    assert parsed(opc("backup", backup, "--json"))["kept"] == 3
    store.file_of("a").unlink()
    store.layout.sidecar(store.locate("a")).unlink()
    assert "copied 1 episodes" in opc("restore", "--from", backup)
    assert "all as committed" in opc("verify")
    assert "names no episode" in opc("restore", expected=1)


def test_sync_reports_what_conflicts(opc: Run, store: Store, tmp_path: Path) -> None:
    other = open_store(tmp_path / "other", create=True)
    other.append(make_episode("a", image_size=32))
    assert "another episode has this id" in opc("sync", str(store.path), str(other.path), expected=1)
    assert sorted(other.episode_ids()) == ["a", "b", "c"]


def test_quota_warns_in_stats_and_gc_lists_what_would_go(
    opc: Run, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no quota is set" in opc("quota")
    assert "of 1e+03 GB (0%)" in opc("quota", "--limit", "1T")
    assert main(["store", "quota", "--store", str(store.path), "--robot", "left", "--limit", "1K"]) == 1
    assert "robot left" in capsys.readouterr().out
    assert main(["store", "stats", "--store", str(store.path)]) == 0
    assert "quota: robot left" in capsys.readouterr().err
    assert "would remove 0.0 MB" in opc("gc", "--trial", "--quarantine-older-than", "30")


def test_pack_drops_files_and_reports_what_it_did(opc: Run, store: Store, tmp_path: Path) -> None:
    done = parsed(opc("pack", "--json", "--robot", "left"))
    assert (done["shards"], done["episodes"], done["dropped"], done["damaged"]) == (1, 2, 0, [])
    assert "packed 1 episodes" in opc("pack", "--drop")
    assert list(store.layout.episodes.rglob("*.mcap")) == []
    assert "all as committed" in opc("verify")
    assert opc("recover") == "nothing to recover\n"
    opc("label", "c", "failure", "--by", "ada")
    opc("show", "a", "--image", str(tmp_path / "sheet.png"))
    opc("snapshot", "--tag", "week-46")
    opc("export", str(tmp_path / "dataset"), "--snapshot", "week-46")
    assert len(list((tmp_path / "dataset").rglob("*.parquet"))) > 0


def test_pack_names_what_is_damaged_and_leaves_it(opc: Run, store: Store) -> None:
    file = store.file_of("a")
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert f"episode a: {file} has sha256" in opc("pack", "--drop", expected=1)
    assert [path.stem for path in store.layout.episodes.rglob("*.mcap")] == ["a"]
