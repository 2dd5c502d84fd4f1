"""The catalogue says what the files say, whatever happens to it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from opc_ros.episode import EpisodeHeader, Label
from opc_ros.errors import EpisodeDamaged, StoreError
from opc_ros.store import CommittedEpisode, Selection, Store, open_store, recover, verify
from opc_ros.store.catalogue_index import FolderFacts
from opc_ros.store.segment import Segment
from tests.store.grasps import FAILURE, SUCCESS, flatten, make_episode

DAY_NS = 86_400_000_000_000


def by_files(store: Store) -> list[CommittedEpisode]:
    """Without any catalogue: every folder listed, every sidecar and label read strictly."""
    from opc_ros.store.survey import survey

    found = survey(store.layout)
    return sorted((store.read_committed(one.place) for one in found.remains), key=lambda episode: episode.id)


def by_catalogue(store: Store) -> list[CommittedEpisode]:
    return sorted(store.episodes(), key=lambda episode: episode.id)


def append_at(store: Store, episode_id: str, began_ns: int, *, robot: str = "left", label: Label = SUCCESS) -> None:
    writer = store.begin(EpisodeHeader(episode_id, robot, f"policy {began_ns % 3}", began_ns, object_set="cups"))
    writer.add_step(make_episode(image_size=16).steps[0])
    writer.commit(label, health=("dim",) if robot == "right" else ())


@pytest.fixture
def filled(store: Store) -> Store:
    for number in range(6):
        robot = "right" if number % 2 else "left"
        append_at(store, f"e{number}", number * DAY_NS // 2, robot=robot, label=FAILURE if number < 2 else SUCCESS)
    store.label("e1", SUCCESS)
    store.label("e3", Label())
    return store


CHANGES: dict[str, Callable[[Store], object]] = {
    "append": lambda store: append_at(store, "new", 9 * DAY_NS),
    "append to a known day": lambda store: append_at(store, "new", 1),
    "a robot more": lambda store: append_at(store, "new", 1, robot="middle"),
    "label": lambda store: store.label("e2", FAILURE),
    "label again": lambda store: store.label("e1", FAILURE),
    "withdraw": lambda store: store.label("e0", Label()),
    "remove an episode": lambda store: [path.unlink() for path in (store.path / "episodes").rglob("e2.*")],
    "remove a day": lambda store: shutil.rmtree(store.path / "episodes" / "left" / "1970-01-03"),
    "remove a label": lambda store: [path.unlink() for path in (store.path / "labels").rglob("e1.1.json")],
    "lay out as before": flatten,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_by_another_process_is_seen(filled: Store, change: Callable[[Store], object]) -> None:
    watching = open_store(filled.path)
    assert by_catalogue(watching) == by_files(filled)
    change(filled)
    assert by_catalogue(watching) == by_files(filled)
    assert by_catalogue(open_store(filled.path)) == by_files(filled)
    assert watching.snapshot_id_now() == open_store(filled.path).take_snapshot().id
    for episode in by_files(filled):
        assert watching.find(episode.id) == episode


def test_that_nothing_is_new_is_known_without_listing_a_folder(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = by_catalogue(filled)
    for folder in (filled.path / "episodes").rglob("*"):
        if folder.is_dir():
            os.utime(folder, ns=(1, 1))  # long ago, so that no folder is too recent to be trusted
    for folder in (filled.path / "labels").rglob("*"):
        if folder.is_dir():
            os.utime(folder, ns=(1, 1))
    os.utime(filled.path / "episodes" / "left", ns=(1, 1))
    filled.catalogue.refresh()
    known = filled.catalogue.refresh()
    monkeypatch.setattr("opc_ros.store.catalogue._scan", lambda folder: pytest.fail(f"looked into {folder}"))
    assert filled.catalogue.refresh() is known
    assert by_catalogue(filled) == before


def test_an_episode_committed_in_the_same_tick_of_the_clock_is_seen(filled: Store) -> None:
    watching = open_store(filled.path)
    watching.catalogue.refresh()
    folder = filled.path / "episodes" / "left" / "1970-01-01"
    before = folder.stat().st_mtime_ns
    append_at(filled, "same-tick", 5)
    os.utime(folder, ns=(before, before))  # as on a coarse file system
    assert "same-tick" in {episode.id for episode in watching.episodes()}


def test_an_older_catalogue_put_back_is_brought_up_to_date(filled: Store, tmp_path: Path) -> None:
    filled.catalogue.refresh()
    shutil.copytree(filled.layout.catalogue, tmp_path / "older")
    append_at(filled, "new", 2 * DAY_NS)
    filled.label("e4", FAILURE)
    shutil.rmtree(filled.layout.catalogue)
    shutil.copytree(tmp_path / "older", filled.layout.catalogue)
    assert by_catalogue(open_store(filled.path)) == by_files(filled)


def test_a_catalogue_of_another_store_says_nothing_of_this_one(filled: Store, tmp_path: Path) -> None:
    other = open_store(tmp_path / "other", create=True)
    append_at(other, "x1", 1)
    append_at(other, "e0", 7)
    other.catalogue.refresh()
    shutil.rmtree(filled.layout.catalogue, ignore_errors=True)
    shutil.copytree(other.layout.catalogue, filled.layout.catalogue)
    assert by_catalogue(open_store(filled.path)) == by_files(filled)


@pytest.mark.parametrize("seed", range(25))
def test_a_damaged_catalogue_never_gives_a_wrong_answer(filled: Store, seed: int) -> None:
    rng = random.Random(seed)
    truth, snapshot = by_files(filled), filled.take_snapshot().id
    stats = filled.statistics()
    files = sorted(path for path in filled.layout.catalogue.rglob("*") if path.is_file())
    for path in rng.sample(files, k=rng.randint(1, len(files))):
        mutate(path, rng)
    again = open_store(filled.path)
    assert by_catalogue(again) == truth
    assert again.statistics() == stats
    assert again.snapshot_id_now() == snapshot
    assert again.page(count=3) == sorted(truth, key=lambda one: (one.began_ns, one.id), reverse=True)[:3]


def mutate(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    kind = rng.randrange(4)
    if kind == 0:
        path.unlink()
        return
    if kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        data[rng.randrange(len(data)) :] = rng.randbytes(50)
    else:
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def test_a_store_that_cannot_be_written_to_is_still_read(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(filled.layout.catalogue)

    def refuse(*arguments: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("opc_ros.store.catalogue.swap_file", refuse)
    monkeypatch.setattr("opc_ros.store.catalogue_index.swap_file", refuse)
    reading = open_store(filled.path)
    assert by_catalogue(reading) == by_files(filled)
    append_at(filled, "new", 3)
    assert by_catalogue(reading) == by_files(filled)
    assert reading.find("new").id == "new"


def test_a_folder_that_may_not_be_read_is_one_clear_line(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def refuse(path: Path) -> object:
        if str(path).endswith("right"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StoreError, match="episodes/right: Permission denied"):
        list(open_store(filled.path).episodes())


def test_an_older_flat_store_opens_as_it_is_and_goes_on_in_folders_by_day(filled: Store) -> None:
    truth = by_files(filled)
    flatten(filled)
    shutil.rmtree(filled.layout.catalogue)
    store = open_store(filled.path)
    assert by_catalogue(store) == truth
    assert [store.read(episode.id).label for episode in truth] == [episode.label for episode in truth]
    with pytest.raises(StoreError, match="expected an id that no episode of the store has"):
        append_at(store, "e0", 8 * DAY_NS)
    append_at(store, "new", 8 * DAY_NS)
    assert store.label("e1", FAILURE) == 2  # its first label is where older stores have it
    assert (store.path / "labels" / "right" / "flat" / "e1.2.json").exists()
    assert store.find("e1").label == FAILURE
    assert by_catalogue(store) == by_files(store)
    assert verify(store).problems == ()
    assert recover(store).is_clean


def test_counts_are_those_of_the_episodes(filled: Store) -> None:
    stats = filled.statistics()
    assert (stats.total.episodes, stats.total.successes, stats.total.failures, stats.total.unlabelled) == (6, 4, 1, 1)
    assert (stats.by_robot["left"].episodes, stats.by_robot["right"].unhealthy) == (3, 3)
    assert sum(tally.episodes for tally in stats.by_policy.values()) == 6
    one_day = filled.statistics(Selection(since_ns=DAY_NS, until_ns=2 * DAY_NS))
    assert one_day.total.episodes == len(list(filled.episodes(Selection(since_ns=DAY_NS, until_ns=2 * DAY_NS)))) == 2
    some = Selection(robots=("left",), behaviour_policies=("policy 0",))
    meant = [each for each in by_files(filled) if (each.robot, each.behaviour_policy) == ("left", "policy 0")]
    assert filled.statistics(some).total.episodes == len(meant) > 0


def test_pages_follow_the_order_in_which_episodes_began(filled: Store) -> None:
    truth = sorted(by_files(filled), key=lambda episode: (episode.began_ns, episode.id))
    assert filled.page(count=100, is_newest_first=False) == truth
    assert filled.page(first=1, count=2, is_newest_first=False) == truth[1:3]
    assert filled.page(count=2) == truth[::-1][:2]
    assert filled.page(first=5, count=5) == truth[::-1][5:]


def test_damaged_episodes_are_named_and_left_out_and_come_back_when_repaired(filled: Store) -> None:
    sidecar = filled.path / "episodes" / "left" / "1970-01-02" / "e2.json"
    whole = sidecar.read_bytes()
    sidecar.write_bytes(whole.replace(b"cups", b"cans"))
    with pytest.raises(EpisodeDamaged, match="e2"):
        list(filled.episodes())
    with pytest.raises(EpisodeDamaged, match="e2"):
        filled.take_snapshot()
    assert len(filled.damage()) == 1
    assert "e2" not in {episode.id for episode in filled.episodes(on_damage=lambda error: None)}
    sidecar.write_bytes(whole)  # in place: the folder's own time does not change
    assert "e2" in {episode.id for episode in filled.episodes()}


def test_a_catalogue_that_differs_from_the_files_is_noticed_by_verify(filled: Store) -> None:
    filled.catalogue.refresh()
    for folder in (filled.path / "episodes").rglob("*"):
        if folder.is_dir():
            os.utime(folder, ns=(1, 1))
    filled.catalogue.refresh()
    sidecar = filled.path / "episodes" / "left" / "1970-01-01" / "e0.json"
    others = open_store(filled.path.parent / "others", create=True)
    append_at(others, "e0", 0, label=SUCCESS)
    folder = others.path / "episodes" / "left" / "1970-01-01"
    sidecar.write_bytes((folder / "e0.json").read_bytes())
    sidecar.with_suffix(".mcap").write_bytes((folder / "e0.mcap").read_bytes())
    (problem,) = verify(filled).problems
    assert problem.startswith("catalogue: episode e0 does not match its files")
    shutil.rmtree(filled.layout.catalogue)
    assert verify(open_store(filled.path)).problems == ()


def count_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []
    original = store.catalogue.segment

    def counted(facts: FolderFacts) -> Segment:
        read.append(facts.robot)
        return original(facts)

    monkeypatch.setattr(store.catalogue, "segment", counted)
    return read


def test_the_first_find_of_a_process_reads_only_tables_that_are_new(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        store.append(make_episode(f"e{number}", robot=f"robot{number}", image_size=16))
    assert store.find("e2").robot == "robot2"
    again = open_store(store.path)
    read = count_reads(again, monkeypatch)
    assert [again.find(f"e{number}").robot for number in range(4)] == [f"robot{number}" for number in range(4)]
    assert read == []
    store.append(make_episode("e4", robot="robot1", image_size=16))
    later = open_store(store.path)
    read = count_reads(later, monkeypatch)
    assert later.find("e4").robot == "robot1"
    assert later.find("e3").robot == "robot3"
    assert set(read) == {"robot1"}


def test_damaged_hashes_never_hide_an_episode(store: Store) -> None:
    for number in range(3):
        store.append(make_episode(f"e{number}", robot=f"robot{number}", image_size=16))
    store.find("e0")
    path = store.path / "catalogue" / "hashes"
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert open_store(store.path).find("e1").robot == "robot1"
    for length in range(0, len(whole), 11):
        path.write_bytes(whole[:length])
        assert open_store(store.path).find("e2").robot == "robot2"
