"""Relabelling: append-only, and race-free between processes."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from opc_ros.episode import Label, LabelSource
from opc_ros.errors import EpisodeNotFound, OpcError
from opc_ros.store import Store, open_store
from tests.store.grasps import FAILURE, SUCCESS, make_episode


def test_a_newer_label_replaces_the_older_and_keeps_it(store: Store) -> None:
    store.append(make_episode(label=Label()))
    before = (store.path / "episodes" / "left" / "1970-01-01" / "e1.mcap").read_bytes()
    assert store.label("e1", FAILURE, note="slipped") == 1
    assert store.label("e1", SUCCESS) == 2
    committed = store.find("e1")
    assert (committed.label, committed.label_revision) == (SUCCESS, 2)
    assert store.read("e1").label == SUCCESS
    assert [committed.label for committed in store.episodes()] == [SUCCESS]
    assert sorted(path.name for path in (store.path / "labels" / "left" / "1970-01-01").iterdir()) == [
        "e1.1.json",
        "e1.2.json",
    ]
    assert (store.path / "episodes" / "left" / "1970-01-01" / "e1.mcap").read_bytes() == before


def test_a_label_can_be_withdrawn(store: Store) -> None:
    store.append(make_episode())
    store.label("e1", Label())
    assert not store.find("e1").is_labelled


def test_labelling_an_unknown_episode_is_refused(store: Store) -> None:
    with pytest.raises(EpisodeNotFound, match="e9"):
        store.label("e9", SUCCESS)
    assert list((store.path / "labels").iterdir()) == []


def _label_many(root: Path, name: str, count: int, start: object, results: object) -> None:
    store = open_store(root)
    start.wait(30)  # type: ignore[attr-defined]
    label = Label(is_success=True, source=LabelSource.PERSON, labeller=name)
    results.put([store.label("e1", label) for _ in range(count)])  # type: ignore[attr-defined]


def test_processes_labelling_at_once_each_get_numbers_of_their_own(store: Store) -> None:
    store.append(make_episode())
    fork = multiprocessing.get_context("fork")
    start, results = fork.Barrier(4), fork.Queue()
    people = ["ada", "bob", "cyd", "dee"]
    processes = [fork.Process(target=_label_many, args=(store.path, name, 8, start, results)) for name in people]
    for process in processes:
        process.start()
    given = [number for _ in people for number in results.get(timeout=60)]
    for process in processes:
        process.join(30)
    assert sorted(given) == list(range(1, 33))
    assert store.find("e1").label_revision == 32


@pytest.mark.parametrize("episode_id", ["../../x", "/etc/passwd", "", ".", "a/b", "a\0b"])
def test_an_id_that_is_no_name_never_becomes_a_path(tmp_path: Path, episode_id: str) -> None:
    (tmp_path / "x.json").write_text("{}")
    with open_store(tmp_path / "store", create=True) as store:
        store.append(make_episode("e0"))
        before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        with pytest.raises(OpcError, match="expected up to 120 letters"):
            store.label(episode_id, SUCCESS)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
