"""Broken bytes of every kind: a named error or the original episode, never a crash, a hang or a wrong episode."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opc_ros.errors import EpisodeDamaged, OpcError, StoreError
from opc_ros.store import open_store, recover, verify
from opc_ros.store.cdr import CdrError
from opc_ros.store.episode_reading import WholeEpisode, read_whole
from opc_ros.store.grasp_steps import step_layout
from opc_ros.store.messages import DECODERS
from opc_ros.store.sealed import decode_document, encode_document
from opc_ros.store.snapshots import Selection
from tests.store.grasps import make_episode

FUZZ = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

FEW = settings(FUZZ, max_examples=12)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    store = open_store(tmp_path_factory.mktemp("fuzz") / "store", create=True)
    store.append(make_episode(image_size=32))
    return (store.path / "episodes" / "left" / "1970-01-01" / "e1.mcap").read_bytes()


@pytest.fixture(scope="module")
def whole(data: bytes) -> WholeEpisode:
    return read_whole(data, where="e1")


def read_or_complaint(data: bytes) -> WholeEpisode | str:
    try:
        return read_whole(data, where="e1")
    except EpisodeDamaged as error:
        return str(error)


def is_one_line(complaint: WholeEpisode | str) -> bool:
    return isinstance(complaint, str) and len(complaint.splitlines()) == 1


@FUZZ
@given(damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=8))
def test_flipped_bytes_are_noticed_or_harmless(
    data: bytes, whole: WholeEpisode, damage: list[tuple[float, int]]
) -> None:
    broken = bytearray(data)
    for share, mask in damage:
        broken[int(share * len(data))] ^= mask
    found = read_or_complaint(bytes(broken))
    # Harmless if it hit an index or a name that nothing is read from.
    assert found == whole or is_one_line(found)


@FUZZ
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_noticed(data: bytes, share: float) -> None:
    with pytest.raises(EpisodeDamaged):
        read_whole(data[: int(share * len(data))], where="e1")


@FUZZ
@given(noise=st.binary(max_size=300), share=st.floats(0, 1))
def test_noise_put_into_a_file_is_noticed_or_harmless(
    data: bytes, whole: WholeEpisode, noise: bytes, share: float
) -> None:
    at = int(share * len(data))
    found = read_or_complaint(data[:at] + noise + data[at:])
    assert found == whole or is_one_line(found)


@FUZZ
@given(payload=st.binary(max_size=200), is_prefixed=st.booleans())
def test_noise_is_no_message(payload: bytes, is_prefixed: bool) -> None:
    message = (b"\x00\x01\x00\x00" if is_prefixed else b"") + payload
    for decode in (*DECODERS.values(), step_layout("left", "e1").decode):
        with contextlib.suppress(CdrError):
            decode(message)


@settings(FUZZ, max_examples=50)
@given(text=st.binary(max_size=200) | JSON_VALUES.map(lambda value: json.dumps(value).encode()))
def test_noise_is_no_document(text: bytes) -> None:
    with pytest.raises(StoreError):
        decode_document(text, "episode", where="x.json")


@FEW
@given(body=st.dictionaries(st.sampled_from(["id", "robot", "steps", "label", "health", "began_ns"]), JSON_VALUES))
def test_a_sealed_sidecar_with_senseless_content_is_quarantined(body: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "store", create=True)
        store.append(make_episode(image_size=16))
        sidecar = store.path / "episodes" / "left" / "1970-01-01" / "e1.json"
        try:
            sidecar.write_bytes(encode_document("episode", body))
        except ValueError:  # NaN and lone surrogates cannot be sealed at all
            return
        with pytest.raises(OpcError):
            store.read("e1")
        with pytest.raises(EpisodeDamaged):
            store.take_snapshot(Selection())
        assert len(verify(store).problems) == 1
        assert len(recover(store).quarantined) == 1
        assert verify(store).problems == ()
        assert len(store.read("e1").steps) == 3


@pytest.mark.parametrize("name", ["episodes/left/1970-01-01/e1.json", "labels/left/1970-01-01/e1.1.json", "store.json"])
@pytest.mark.parametrize("text", [b"", b"null", b"[" * 100_000, b'{"version": 1e999}', b"\xff\xfe", b'{"a": 1' * 50])
def test_senseless_documents_are_named(tmp_path: Path, name: str, text: bytes) -> None:
    store = open_store(tmp_path / "store", create=True)
    store.append(make_episode(image_size=16))
    store.label("e1", make_episode().label)
    (store.path / name).write_bytes(text)
    with pytest.raises(StoreError, match=Path(name).name):
        open_store(store.path).read("e1")
