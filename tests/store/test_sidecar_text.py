"""A sidecar parsed by its text layout gives what the strict reader gives, or nothing."""

from __future__ import annotations

import dataclasses
import json

import pytest

from opc_ros.episode import Label, LabelSource
from opc_ros.store.commit import encode_sidecar
from opc_ros.store.records import Sidecar
from opc_ros.store.sealed import indent_json
from opc_ros.store.sidecar_text import take_apart

PLAIN = Sidecar(
    id="arm1-7",
    robot="arm1",
    behaviour_policy="scripted",
    object_set="mugs, Größe 2",
    permit_id="",
    began_ns=1_728_000_000_000_000_000,
    duration_ns=5,
    steps=3,
    label=Label(True, LabelSource.EPISODE_END, "arm"),
    file_sha256="ab" * 32,
    file_bytes=8350,
    health=(),
    committed_ns=1_728_000_000_000_000_009,
)
OTHERS = [
    PLAIN,
    dataclasses.replace(PLAIN, label=Label()),
    dataclasses.replace(PLAIN, task="pong", seed=11),
    dataclasses.replace(PLAIN, task="pong"),
    dataclasses.replace(PLAIN, seed=0),
]


@pytest.mark.parametrize("sidecar", OTHERS)
def test_what_a_commit_writes_is_taken_apart(sidecar: Sidecar) -> None:
    assert take_apart(encode_sidecar(sidecar)) == sidecar


@pytest.mark.parametrize(
    "sidecar",
    [dataclasses.replace(PLAIN, health=("late frame",)), dataclasses.replace(PLAIN, object_set='a "mug"')],
)
def test_what_has_complaints_or_escapes_is_left_to_the_parser(sidecar: Sidecar) -> None:
    assert take_apart(encode_sidecar(sidecar)) is None


@pytest.mark.parametrize("sidecar", [PLAIN, OTHERS[2]])
def test_no_changed_byte_makes_another_sidecar(sidecar: Sidecar) -> None:
    data = encode_sidecar(sidecar)
    for place in range(len(data)):
        for other in (data[place] ^ 1, data[place] ^ 2, 0x30, 0x22, 0x20):
            changed = bytearray(data)
            changed[place] = other
            if changed == data:
                continue
            try:
                found = take_apart(bytes(changed))
            except ValueError:  # no longer UTF-8
                continue
            assert found is None


def test_a_version_has_its_own_keys_and_no_others() -> None:
    newer = encode_sidecar(OTHERS[2])
    assert take_apart(newer.replace(b'"version": 2', b'"version": 1')) is None
    assert take_apart(encode_sidecar(PLAIN).replace(b'"version": 1', b'"version": 2')) is None
    assert take_apart(newer.replace(b'"steps": 3', b'"steps": 03')) is None
    assert take_apart(newer + b"\n") is None


def test_documents_are_indented_as_the_standard_library_does() -> None:
    value = {
        "text": 'a "mug" \\ Größe\n\u2028',
        "whole": -3,
        "share": 0.1,
        "truths": [True, False, None],
        "nested": {"empty": {}, "none": [], "deep": [[1, {"source": LabelSource.PERSON}], ()]},
    }
    assert indent_json(value) == json.dumps(value, indent=2, ensure_ascii=False)
