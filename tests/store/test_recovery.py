"""What a crash, a failing disk or a stray hand leaves behind, and how the store recovers."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from opc_ros.episode import EpisodeHeader
from opc_ros.errors import EpisodeDamaged, EpisodeNotFound, StoreError
from opc_ros.grasp import GraspStep
from opc_ros.store import Store, open_store, recover, survey, verify
from tests.store.crashes import crash_writers
from tests.store.grasps import FAILURE, SUCCESS, make_episode


def episode_path(store: Store, name: str, robot: str = "left") -> Path:
    return store.path / "episodes" / robot / "1970-01-01" / name


def flip_bit(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def abandon_writer(store: Store, steps: int) -> None:
    """Leave what a writer leaves if its process dies after this many steps."""
    writer = store.begin(EpisodeHeader("dead", "left", "scripted", 0))
    for step in make_episode(image_size=472).steps[:steps]:
        writer.add_step(step)
    del writer


def test_killed_writers_lose_at_most_the_episode_they_were_writing(tmp_path: Path) -> None:
    outcome = crash_writers(tmp_path / "store", kills=10, robots=3, seed=1, image_size=120)
    assert outcome.lost == ()
    assert outcome.problems == ()
    assert outcome.acknowledged > 0
    assert outcome.quarantined + outcome.unacknowledged <= outcome.kills


def test_an_abandoned_episode_goes_to_quarantine_with_its_reason(store: Store) -> None:
    abandon_writer(store, steps=3)
    done = recover(store)
    assert len(done.quarantined) == 1
    assert done.quarantined[0].startswith("dead: its writer died")
    (entry,), _ = store.quarantined()
    assert entry.episode_id == "dead"
    assert list(store.episodes()) == []
    assert verify(store).problems == ()
    assert recover(store).is_clean


def test_the_steps_of_whole_chunks_can_be_salvaged(store: Store) -> None:
    writer = store.begin(EpisodeHeader("dead", "left", "scripted", 0))
    pattern = make_episode(image_size=64, encoding="rgb8").steps[0]  # 12 kB each, 256 kB a chunk
    for number in range(50):
        writer.add_step(_restamped(pattern, number))
    del writer
    recover(store)
    (entry,), _ = store.quarantined()
    assert 20 <= entry.steps < 50


def _restamped(step: GraspStep, number: int) -> GraspStep:
    return dataclasses.replace(step, frame=dataclasses.replace(step.frame, stamp_ns=number + 1))


def test_an_episode_being_written_is_left_alone(store: Store) -> None:
    writer = store.begin(EpisodeHeader("alive", "left", "scripted", 0))
    steps = make_episode().steps
    writer.add_step(steps[0])
    done = recover(open_store(store.path), settle_s=0.0)
    assert done.running == ["alive"]
    assert done.is_clean
    report = verify(store)
    assert (report.running, report.problems) == (1, ())
    writer.add_step(steps[1])
    assert writer.commit(SUCCESS).steps == 2
    assert recover(store).is_clean


def test_on_a_shared_file_system_a_file_must_lie_still_before_it_counts_as_abandoned(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandon_writer(store, steps=3)
    monkeypatch.setattr(survey, "is_shared", lambda path: True)
    assert recover(store, settle_s=60.0).running == ["dead"]
    part = episode_path(store, "dead.mcap.part")
    os.utime(part, (0, 0))
    assert len(recover(store, settle_s=60.0).quarantined) == 1


def test_where_files_cannot_be_locked_the_same_holds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    abandon_writer(store, steps=3)
    monkeypatch.setattr(survey, "try_lock", lambda descriptor: None)
    assert recover(store, settle_s=60.0).running == ["dead"]
    assert len(recover(store, settle_s=0.0).quarantined) == 1


def test_labels_of_a_quarantined_episode_do_not_pass_to_another_of_its_id(store: Store) -> None:
    store.append(make_episode())
    store.label("e1", FAILURE)
    episode_path(store, "e1.mcap").unlink()
    recover(store)
    with pytest.raises(StoreError, match="labels/left/1970-01-01 exists, expected an id that no episode"):
        store.append(make_episode(seed=5))


def test_a_whole_file_without_sidecar_is_completed(store: Store) -> None:
    committed = store.append(make_episode(label=FAILURE), health=("late",))
    episode_path(store, "e1.json").unlink()
    assert list(store.episodes()) == []
    assert "e1.mcap" in verify(store).problems[0]
    done = recover(store)
    assert len(done.completed) == 1
    (again,) = store.episodes()
    assert again.file_sha256 == committed.file_sha256
    assert (again.label, again.steps, again.began_ns) == (FAILURE, 3, committed.began_ns)
    assert again.health == ("late", "recovered: its writer died before its sidecar was written")


def test_a_finished_part_file_is_completed(store: Store) -> None:
    store.append(make_episode())
    episode_path(store, "e1.json").rename(episode_path(store, "e1.json.part"))
    episode_path(store, "e1.mcap").rename(episode_path(store, "e1.mcap.part"))
    done = recover(store)
    assert len(done.completed) == 1
    assert done.removed == ["episodes/left/1970-01-01/e1.json.part"]
    assert store.read("e1").label == SUCCESS
    assert verify(store).problems == ()


def test_a_sidecar_without_file_goes_to_quarantine(store: Store) -> None:
    store.append(make_episode())
    episode_path(store, "e1.mcap").unlink()
    with pytest.raises(EpisodeDamaged, match="e1"):
        list(store.episodes())
    with pytest.raises(EpisodeDamaged, match="No such file"):
        store.read("e1")
    assert len(verify(store).problems) == 1
    assert recover(store).quarantined == ["e1: its sidecar has no file"]
    assert verify(store).problems == ()
    with pytest.raises(EpisodeNotFound):
        store.read("e1")


def test_a_truncated_file_is_noticed_and_quarantined(store: Store) -> None:
    store.append(make_episode())
    path = episode_path(store, "e1.mcap")
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(EpisodeDamaged, match="bytes, committed were"):
        store.read("e1")
    with pytest.raises(EpisodeDamaged):
        store.take_snapshot()
    assert len(verify(store).problems) == 1
    assert len(recover(store, is_quick=True).quarantined) == 1
    assert verify(store).problems == ()
    assert {path.name for path in (store.path / "quarantine" / "left").iterdir()} == {
        "e1.json",
        "e1.mcap",
        "e1.sidecar.json",
    }


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_flipped_bit_anywhere_in_a_file_is_noticed(store: Store, share: float) -> None:
    store.append(make_episode())
    snapshot = store.take_snapshot()
    path = episode_path(store, "e1.mcap")
    flip_bit(path, int(share * path.stat().st_size))
    with pytest.raises(EpisodeDamaged, match="sha256"):
        store.read("e1")
    with pytest.raises(EpisodeDamaged, match="sha256"):
        store.read_entry(snapshot.entries[0])
    assert len(verify(store).problems) == 1
    assert len(recover(store).quarantined) == 1


def test_a_damaged_sidecar_is_rebuilt_from_its_file(store: Store) -> None:
    committed = store.append(make_episode())
    path = episode_path(store, "e1.json")
    path.write_text(path.read_text().replace('"is_success": true', '"is_success": false'))
    with pytest.raises(EpisodeDamaged, match="seal"):
        store.read("e1")
    done = recover(store)
    assert (len(done.completed), len(done.quarantined)) == (1, 1)
    (again,) = store.episodes()
    assert again.label == SUCCESS
    assert again.file_sha256 == committed.file_sha256


def test_damage_to_one_episode_does_not_hide_the_others(store: Store) -> None:
    for name in ("e1", "e2", "e3"):
        store.append(make_episode(name))
    episode_path(store, "e2.json").write_text("{}")
    damaged: list[EpisodeDamaged] = []
    assert [committed.id for committed in store.episodes(on_damage=damaged.append)] == ["e1", "e3"]
    assert "e2" in str(damaged[0])


def test_a_damaged_label_is_set_aside_and_its_number_not_given_again(store: Store) -> None:
    store.append(make_episode())
    store.label("e1", FAILURE)
    store.label("e1", SUCCESS)
    (store.path / "labels" / "left" / "1970-01-01" / "e1.2.json").write_text("not json")
    with pytest.raises(EpisodeDamaged, match="label revision 2"):
        store.read("e1")
    assert recover(store).set_aside == ["labels/left/1970-01-01/e1.2.json"]
    assert store.find("e1").label_revision == 1
    assert store.label("e1", SUCCESS) == 3


def test_a_damaged_snapshot_is_set_aside(store: Store) -> None:
    store.append(make_episode())
    snapshot = store.take_snapshot(tag="week-1")
    path = store.path / "snapshots" / f"{snapshot.id}.json"
    path.write_text(path.read_text().replace(",1,1]", ",1,0]"))
    with pytest.raises(StoreError, match="changed or damaged"):
        store.snapshot("week-1")
    assert recover(store).set_aside == [f"snapshots/{snapshot.id}.json"]
    assert verify(store).problems == (f"tag week-1: snapshot {snapshot.id[:12]} is not in the store",)
    assert store.take_snapshot().id == snapshot.id
    assert verify(store).problems == ()


def test_a_damaged_part_of_a_snapshot_is_set_aside_and_rewritten(store: Store) -> None:
    store.append(make_episode())
    snapshot = store.take_snapshot()
    (part,) = (store.path / "snapshots" / "groups").rglob("*.json")
    part.write_text(part.read_text().replace("true", "false"))
    with pytest.raises(StoreError, match="its part for left, 1970-01-01 was changed or damaged"):
        list(store.snapshot(snapshot.id).entries)
    assert len(verify(store).problems) == 1
    assert len(recover(store).set_aside) == 2
    assert store.take_snapshot().id == snapshot.id
    assert [entry.episode_id for entry in store.snapshot(snapshot.id).entries] == ["e1"]
    assert verify(store).problems == ()


def test_files_that_do_not_belong_are_named_and_kept(store: Store) -> None:
    store.append(make_episode())
    stray = episode_path(store, "notes.txt")
    stray.write_text("mine")
    assert verify(store).problems == ("episodes/left/1970-01-01/notes.txt: does not belong here",)
    recover(store)
    assert stray.read_text() == "mine"
