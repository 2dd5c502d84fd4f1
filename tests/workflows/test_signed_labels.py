"""A label file written by somebody without a labeller's key decides nothing in a lab with keys."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.deployment.keys import create_keys
from opc_ros.deployment.people import load_people
from opc_ros.deployment.signing import make_person_key
from opc_ros.episode import Label, LabelSource
from opc_ros.store import open_store
from opc_ros.store.exclusion import label_history
from opc_ros.workflows.signed_labels import find_unsigned_labels, is_signed
from tests.policies.making import make_episodes, make_store

EVE = Label(is_success=True, source=LabelSource.PERSON, labeller="ada")  # written by eve, in ada's name


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_store(tmp_path / "store", make_episodes(4))
    return tmp_path


def give_keys(lab: Path) -> Path:
    keys = lab / "deployment" / "keys"
    create_keys(keys)
    make_person_key(keys, "ada")
    return keys


def look(lab: Path) -> list[str]:
    with open_store(lab / "store") as store:
        return find_unsigned_labels(store, store.take_snapshot().entries, lab / "deployment" / "keys")


def test_only_labels_that_a_labeller_signed_count_once_there_are_keys(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(lab / "store") as store:
        ids = [episode.id for episode in store.episodes()]
        store.label(ids[0], EVE)  # before anybody had a key
    keys = give_keys(lab)
    assert look(lab) == []  # it remains valid, and is recorded
    signed = ["store", "label", ids[1], "failure", "--store", "store", "--keys", str(keys)]
    assert main(signed) == 0
    assert look(lab) == []
    with open_store(lab / "store") as store:
        store.label(ids[2], EVE)
        assert look(lab) == [ids[2]]
        # A signature for another episode, or for another outcome, does not count.
        borrowed = label_history(store, ids[1])[-1].signature
        assert borrowed
        store.label(ids[2], Label(is_success=False, source=LabelSource.PERSON, labeller="ada"), signature=borrowed)
        store.label(ids[1], EVE, signature=borrowed)
        assert look(lab) == sorted([ids[1], ids[2]])
        assert [is_signed(each, load_people(keys)) for each in label_history(store, ids[1])] == [True, False]
    capsys.readouterr()
    assert main(["store", "show", ids[1], "--store", "store"]) == 0
    assert "failure by ada, signed" in capsys.readouterr().out
    for episode_id in (ids[1], ids[2]):
        assert main(["store", "label", episode_id, "failure", "--store", "store", "--keys", str(keys)]) == 0
    assert look(lab) == []


def test_a_backdated_label_is_not_taken_for_an_old_one(lab: Path) -> None:
    give_keys(lab)
    assert look(lab) == []
    with open_store(lab / "store", now=lambda: time.time_ns() - 10**18) as store:
        first = next(iter(store.episodes())).id
        store.label(first, EVE)
    assert look(lab) == [first]


def test_a_withdrawn_label_does_not_count_when_somebody_adds_it_again(lab: Path) -> None:
    keys = give_keys(lab)
    with open_store(lab / "store") as store:
        first = next(iter(store.episodes())).id
        for word in ("success", "failure"):  # ada looked twice
            assert main(["store", "label", first, word, "--store", "store", "--keys", str(keys)]) == 0
        assert look(lab) == []
        taken_back = label_history(store, first)[0]
        assert taken_back.label.is_success
        store.label(first, taken_back.label, signature=taken_back.signature)
        assert is_signed(label_history(store, first)[-1], load_people(keys))
        assert look(lab) == [first]
    assert main(["store", "label", first, "failure", "--store", "store", "--keys", str(keys)]) == 0
    assert look(lab) == []
