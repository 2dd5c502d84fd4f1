"""Snapshots: fixed, content-addressed, filtered and tagged."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from opc_ros.episode import EpisodeHeader, Label, LabelSource
from opc_ros.errors import EpisodeDamaged, EpisodeError, EpisodeNotFound, SnapshotNotFound, StoreError
from opc_ros.store import Selection, Store, open_store
from tests.store.grasps import FAILURE, SUCCESS, flatten, make_episode


def ids(store: Store, selection: Selection) -> list[str]:
    return [entry.episode_id for entry in store.take_snapshot(selection).entries]


def append_at(store: Store, episode_id: str, began_ns: int) -> None:
    writer = store.begin(EpisodeHeader(episode_id, "left", "scripted", began_ns))
    writer.add_step(make_episode().steps[0])
    writer.commit(SUCCESS)


def test_a_snapshot_is_the_sha256_of_its_file(store: Store) -> None:
    store.append(make_episode())
    snapshot = store.take_snapshot()
    data = (store.path / "snapshots" / f"{snapshot.id}.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == snapshot.id
    (part,) = (store.path / "snapshots" / "groups").rglob("*.json")
    digest = hashlib.sha256(part.read_bytes()).hexdigest()
    assert part.stem == digest
    assert data.decode() == (
        f'{{"format":"opc_ros.snapshot","groups":[["left","1970-01-01","{digest}",1,1]],"version":2}}'
    )
    sha = store.find("e1").file_sha256
    assert part.read_text() == (
        f'{{"day":"1970-01-01","entries":[["e1","{sha}",0,true]],'
        '"format":"opc_ros.snapshot_group","robot":"left","version":1}'
    )


def test_a_snapshot_of_before_keeps_its_id_and_is_read(store: Store) -> None:
    sha = store.append(make_episode()).file_sha256
    text = f'{{"entries":[["e1","left","{sha}",0,true]],"format":"opc_ros.snapshot","version":1}}'
    digest = hashlib.sha256(text.encode()).hexdigest()
    (store.path / "snapshots" / f"{digest}.json").write_text(text)
    snapshot = store.snapshot(digest)
    assert (snapshot.id, snapshot.successes) == (digest, 1)
    assert list(snapshot.entries) == [("e1", "left", sha, 0, True)]
    assert [episode.id for episode in store.read_snapshot(snapshot)] == ["e1"]


def test_a_snapshot_of_one_more_day_writes_one_more_part(store: Store) -> None:
    day_ns = 86_400_000_000_000
    for day in range(5):
        append_at(store, f"e{day}", day * day_ns)
    parts = store.path / "snapshots" / "groups"
    first = store.take_snapshot()
    before = {path: path.stat().st_mtime_ns for path in parts.rglob("*.json")}
    append_at(store, "e5", 5 * day_ns)
    second = store.take_snapshot()
    after = {path: path.stat().st_mtime_ns for path in parts.rglob("*.json")}
    assert (len(before), len(after)) == (5, 6)
    assert before.items() <= after.items()
    assert (len(first.entries), len(second.entries)) == (5, 6)
    assert second.entries[5].episode_id == second.entries[-1].episode_id == "e5"
    assert [entry.episode_id for entry in second.entries[1:3]] == ["e1", "e2"]
    assert store.snapshot_id_now() == second.id


def test_the_same_episodes_have_one_snapshot_whether_their_store_is_flat_or_not(tmp_path: Path) -> None:
    stores = [open_store(tmp_path / name, create=True) for name in ("flat", "fanned")]
    for store in stores:
        for number in range(3):
            append_at(store, f"e{number}", number * 40_000_000_000_000)
    flatten(stores[0])
    first, second = (store.take_snapshot() for store in stores)
    assert first.id == second.id
    append_at(stores[0], "e3", 0)  # now in a folder of its day, beside older ones of that day
    append_at(stores[1], "e3", 0)
    assert stores[0].take_snapshot().id == stores[1].take_snapshot().id != first.id


def test_equal_content_has_the_same_id_in_any_order_of_arrival(tmp_path: Path) -> None:
    found = set()
    for name, order in (("one", ("a", "b", "c")), ("two", ("c", "a", "b"))):
        store = open_store(tmp_path / name, create=True)
        for episode_id in order:
            store.append(make_episode(episode_id))
        snapshot = store.take_snapshot()
        found.add(snapshot.id)
        assert [entry.episode_id for entry in snapshot.entries] == ["a", "b", "c"]
    assert len(found) == 1


def test_unlabelled_episodes_are_left_out(store: Store) -> None:
    store.append(make_episode("known"))
    store.append(make_episode("unknown", label=Label()))
    assert ids(store, Selection()) == ["known"]


def test_an_empty_snapshot_is_refused_and_says_why(store: Store) -> None:
    store.append(make_episode("unknown", label=Label()))
    store.append(make_episode("other", robot="right"))
    with pytest.raises(StoreError, match="1 without label, 1 outside the selection"):
        store.take_snapshot(Selection(robots=("left",)))


def test_each_filter_selects(store: Store) -> None:
    store.append(make_episode("a", robot="left"))
    store.append(make_episode("b", robot="right", label=FAILURE))
    store.append(make_episode("c", robot="right", behaviour_policy="random"))
    store.append(make_episode("d", robot="middle", object_set="bottles"))
    assert ids(store, Selection(robots=("right",))) == ["b", "c"]
    assert ids(store, Selection(robots=("right", "middle"))) == ["d", "b", "c"]
    assert ids(store, Selection(behaviour_policies=("random",))) == ["c"]
    assert ids(store, Selection(object_sets=("bottles",))) == ["d"]
    assert ids(store, Selection(label_sources=(LabelSource.GRIPPER_WIDTH,))) == ["b"]
    assert ids(store, Selection(robots=("right",), label_sources=(LabelSource.PERSON,))) == ["c"]


def test_dates_select_from_the_first_moment_to_before_the_last(store: Store) -> None:
    for number, began_ns in enumerate((100, 200, 300)):
        append_at(store, f"e{number}", began_ns)
    assert ids(store, Selection(since_ns=200)) == ["e1", "e2"]
    assert ids(store, Selection(until_ns=200)) == ["e0"]
    assert ids(store, Selection(since_ns=100, until_ns=300)) == ["e0", "e1"]


def test_a_snapshot_keeps_its_labels_when_episodes_are_relabelled(store: Store) -> None:
    store.append(make_episode())
    store.label("e1", FAILURE)
    old = store.take_snapshot()
    store.label("e1", SUCCESS)
    new = store.take_snapshot()
    assert old.id != new.id
    assert [episode.label for episode in store.read_snapshot(store.snapshot(old.id))] == [FAILURE]
    assert [episode.label for episode in store.read_snapshot(new)] == [SUCCESS]
    assert (old.successes, new.successes) == (0, 1)


def test_a_snapshot_is_found_by_digest_beginning_and_tag(store: Store) -> None:
    store.append(make_episode())
    first = store.take_snapshot(tag="champion-set")
    assert store.snapshot(first.id) == first
    assert store.snapshot(first.id[:8]) == first
    assert store.snapshot("champion-set") == first
    store.append(make_episode("e2"))
    second = store.take_snapshot(tag="champion-set")
    assert store.snapshot("champion-set") == second
    assert store.tags() == {"champion-set": second.id}
    assert sorted(store.snapshots()) == sorted([first.id, second.id])


@pytest.mark.parametrize("ref", ["", "nobody", "0" * 64])
def test_an_unknown_snapshot_is_named(store: Store, ref: str) -> None:
    store.append(make_episode())
    store.take_snapshot()
    with pytest.raises(SnapshotNotFound, match="neither a tag nor a digest"):
        store.snapshot(ref)


def test_an_ambiguous_beginning_is_refused(store: Store) -> None:
    for number in range(17):  # more than there are hex digits, so two begin alike
        store.append(make_episode(f"e{number}"))
        store.take_snapshot()
    firsts = [digest[0] for digest in store.snapshots()]
    shared = next(digit for digit in firsts if firsts.count(digit) > 1)
    with pytest.raises(SnapshotNotFound, match="give more digits"):
        store.snapshot(shared)


@pytest.mark.parametrize("tag", ["abc", "../x", "a b"])
def test_tags_that_are_no_names_or_look_like_digests_are_refused(store: Store, tag: str) -> None:
    store.append(make_episode())
    with pytest.raises((StoreError, EpisodeError), match="tag"):
        store.take_snapshot(tag=tag)


def test_reading_continues_after_an_episode_that_cannot_be_read(store: Store) -> None:
    for name in ("a", "b", "c", "d", "e"):
        store.append(make_episode(name))
    snapshot = store.take_snapshot()
    path = store.path / "episodes" / "left" / "1970-01-01" / "b.mcap"
    path.write_bytes(path.read_bytes()[::-1])
    found = list(store.read_each(snapshot.entries))
    assert [entry.episode_id for entry, _ in found] == ["a", "b", "c", "d", "e"]
    assert [getattr(episode, "id", type(episode)) for _, episode in found] == ["a", EpisodeDamaged, "c", "d", "e"]
    with pytest.raises(EpisodeDamaged, match="episode b"):
        list(store.read_snapshot(snapshot))


def test_an_entry_whose_episode_is_gone_or_changed_is_refused(store: Store) -> None:
    store.append(make_episode())
    (entry,) = store.take_snapshot().entries
    with pytest.raises(EpisodeDamaged, match="says True, the snapshot False"):
        store.read_entry(entry._replace(is_success=False))
    with pytest.raises(EpisodeDamaged, match="sha256"):
        store.read_entry(entry._replace(file_sha256="0" * 64))
    with pytest.raises(EpisodeNotFound, match="e9"):
        store.read_entry(entry._replace(episode_id="e9"))
