"""Episodes on their way from a robot's disk to the lab's store."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from opc_ros.episode import Label, LabelSource
from opc_ros.errors import TransferError
from opc_ros.store import open_store, verify
from opc_ros.store.packing import pack
from opc_ros.transfer import courier as courier_module
from opc_ros.transfer.call import describe_call, sign_call
from opc_ros.transfer.courier import Courier
from tests.transfer.lab import Wire, make_lab, open_depot, record

DAY_S = 24 * 3600.0


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that an episode needs several."""
    monkeypatch.setattr(courier_module, "CHUNK_BYTES", 4000)


def kept(folder: Path) -> dict[str, str]:
    with open_store(folder / "lab" / "store") as store:
        assert not verify(store).problems
        return {each.id: each.file_sha256 for each in store.episodes()}


def test_what_a_robot_recorded_is_in_the_labs_store_byte_for_byte(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    recorded = record(tmp_path, "arm1", 1, 2, 3)
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
    view = Courier(wire, "arm1", tmp_path / "arm1" / "store", tmp_path / "arm1" / "acknowledged").carry()
    assert (view.carried, view.waiting, view.reason) == (3, 0, "")
    assert kept(tmp_path) == recorded
    for name in recorded:
        own, labs = (next((tmp_path / at / "store").rglob(f"{name}.json")) for at in ("arm1", "lab"))
        assert own.read_bytes() == labs.read_bytes()
    assert not list((tmp_path / "lab" / "incoming").rglob("*.part"))


def test_packed_episodes_are_carried_and_known_again_like_others(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    recorded = record(tmp_path, "arm1", 1, 2, 3)
    for number, packed in enumerate(("arm1", "lab")):  # in the robot's store first; later the lab has them packed, too
        with open_store(tmp_path / packed / "store") as store:
            assert pack(store, is_today_packed=True, is_dropping=True).dropped == 3
        wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
        view = Courier(wire, "arm1", tmp_path / "arm1" / "store", tmp_path / f"acknowledged-{number}").carry()
        assert (view.carried, view.waiting, view.reason) == (3, 0, "")
        assert kept(tmp_path) == recorded


def test_over_hundreds_of_cuts_and_restarts_nothing_is_lost_or_kept_twice(tmp_path: Path) -> None:
    keys, rng = make_lab(tmp_path, ("arm1", "arm2")), random.Random(7)
    recorded = record(tmp_path, "arm1", *range(8)) | record(tmp_path, "arm2", *range(8))
    cuts = 0
    for robot in ("arm1", "arm2"):
        waiting = 1
        while waiting:
            wire = Wire(open_depot(tmp_path), robot, keys[robot], rng)  # depot and courier start again each time
            view = Courier(wire, robot, tmp_path / robot / "store", tmp_path / robot / "acknowledged").carry()
            waiting, cuts = view.waiting, cuts + wire.cuts
    assert kept(tmp_path) == recorded
    assert cuts > 100


def test_an_upload_resumes_where_it_was_cut(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    record(tmp_path, "arm1", 1)
    size = next((tmp_path / "arm1" / "store").rglob("*.mcap")).stat().st_size
    sent, rng = 0, random.Random(3)
    waiting = 1
    while waiting:
        wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"], rng)
        waiting = Courier(wire, "arm1", tmp_path / "arm1" / "store", tmp_path / "arm1" / "acknowledged").carry().waiting
        sent += sum(method == "PUT" for method, _ in wire.asked)
    assert sent <= 2 * (size // 4000 + 1), "most chunks went once"


def test_what_was_acknowledged_is_not_asked_about_again_and_goes_after_a_week(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    recorded = record(tmp_path, "arm1", 1, 2)
    spool, acknowledged = tmp_path / "arm1" / "store", tmp_path / "arm1" / "acknowledged"
    Courier(Wire(open_depot(tmp_path), "arm1", keys["arm1"]), "arm1", spool, acknowledged).carry()
    record(tmp_path, "arm1", 3)
    acknowledged.write_text(acknowledged.read_text() + '"half')  # a power cut
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
    with open_store(spool) as store:
        newest_s = max(each.began_ns for each in store.episodes()) / 1e9
    later = Courier(wire, "arm1", spool, acknowledged, now_s=lambda: newest_s + 8 * DAY_S)
    assert later.forget() == 2
    with open_store(spool) as store:
        assert [each.id for each in store.episodes()] == ["arm1-3"], "what the lab has not acknowledged stays"
    later.carry()
    assert {path for _, path in wire.asked if path.startswith("/episodes")} >= {"/episodes/arm1-3"}
    assert not any("arm1-1" in path for _, path in wire.asked)
    assert kept(tmp_path).keys() == {*recorded, "arm1-3"}


def test_labels_given_at_the_robot_follow_and_are_counted_once(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    record(tmp_path, "arm1", 1)
    spool = tmp_path / "arm1" / "store"
    with open_store(spool) as store:
        store.label("arm1-1", Label(False, LabelSource.PERSON, "ada"), note="dropped it")
    for number in range(2):  # the second time without its memory
        Courier(
            Wire(open_depot(tmp_path), "arm1", keys["arm1"]), "arm1", spool, tmp_path / f"acknowledged{number}"
        ).carry()
    with open_store(tmp_path / "lab" / "store") as store:
        found = store.find("arm1-1")
    assert (found.label.is_success, found.label.labeller, found.label_revision) == (False, "ada", 1)


def test_bytes_that_came_out_wrong_are_sent_again(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    recorded = record(tmp_path, "arm1", 1)
    (tmp_path / "lab" / "incoming" / "arm1").mkdir(parents=True)
    (tmp_path / "lab" / "incoming" / "arm1" / "arm1-1.part").write_bytes(b"x" * 9000)
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
    Courier(wire, "arm1", tmp_path / "arm1" / "store", tmp_path / "acknowledged").carry()
    assert kept(tmp_path) == recorded


def test_a_refused_episode_holds_up_no_other_and_is_reported(tmp_path: Path) -> None:
    keys = make_lab(tmp_path, ("arm1",))
    record(tmp_path, "arm1", 1, 2)
    with open_store(tmp_path / "lab" / "store") as store:
        from tests.store.grasps import make_episode

        store.append(make_episode("arm1-1", robot="arm1", seed=99))  # a different one with that id
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
    view = Courier(wire, "arm1", tmp_path / "arm1" / "store", tmp_path / "acknowledged").carry()
    assert view.waiting >= 1
    assert "another one of that id" in view.reason


def ask(folder: Path, signer: object, robot: str, method: str, path: str, body: bytes = b"", said: str = "") -> str:
    """The depot's response to a request that is signed as something else if `said` says so."""
    envelope = sign_call(describe_call(robot, method, said or path, body), signer)  # type: ignore[arg-type]
    answer = open_depot(folder).answer(method, path, envelope, body)
    return f"{answer.status} {json.loads(answer.body).get('error', '')}"


def test_strangers_and_other_robots_can_neither_send_nor_fetch(tmp_path: Path) -> None:
    keys = make_lab(tmp_path, ("arm1", "arm2"))
    stranger = make_lab(tmp_path / "elsewhere")["arm1"]
    record(tmp_path, "arm1", 1)
    sidecar = next((tmp_path / "arm1" / "store").rglob("arm1-1.json")).read_bytes()
    depot = open_depot(tmp_path)
    assert depot.answer("POST", "/episodes/arm1-1", "", sidecar).status == 403
    assert ask(tmp_path, stranger, "arm1", "POST", "/episodes/arm1-1", sidecar).startswith("403")
    assert ask(tmp_path, keys["arm2"], "arm1", "POST", "/episodes/arm1-1", sidecar).startswith("403")
    assert "sent episode" in ask(tmp_path, keys["arm2"], "arm2", "POST", "/episodes/arm1-1", sidecar)
    assert ask(tmp_path, keys["arm1"], "arm1", "POST", "/episodes/arm1-1", sidecar, "/clock").startswith("403")
    assert ask(tmp_path, stranger, "arm1", "GET", f"/candidates/{'0' * 64}").startswith("403")
    assert kept(tmp_path) == {}


@pytest.mark.parametrize(
    "path", ["/episodes/..%2F..%2Fx", "/episodes/../x", "/candidates/../keys", "/labels/arm1-9", "/nothing", "/"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_odd_requests_are_refused_in_one_line_and_write_nothing_elsewhere(
    tmp_path: Path, method: str, path: str
) -> None:
    keys = make_lab(tmp_path)
    before = {each for each in tmp_path.rglob("*") if "incoming" not in each.parts}
    answer = ask(tmp_path, keys["arm1"], "arm1", method, path, b"{}")
    assert answer[:1] in "45" or (method, path) == ("PUT", "/episodes/..%2F..%2Fx")
    assert {each for each in tmp_path.rglob("*") if "incoming" not in each.parts} == before


def test_a_damaged_file_on_the_robots_disk_is_not_taken_in(tmp_path: Path) -> None:
    keys = make_lab(tmp_path)
    record(tmp_path, "arm1", 1)
    file = next((tmp_path / "arm1" / "store").rglob("*.mcap"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    wire = Wire(open_depot(tmp_path), "arm1", keys["arm1"])
    courier = Courier(wire, "arm1", tmp_path / "arm1" / "store", tmp_path / "acknowledged")
    view = courier.carry()
    assert view.waiting == 1
    assert "does not keep it" in view.reason
    assert kept(tmp_path) == {}
    with pytest.raises(TransferError):
        wire.ask("GET", "/nothing")
