"""Files that a person or another program can write, mutated at random: refused in one line, or read as they stand.

Run many with `python -m tests.faults.files --mutations 2000`.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opc_ros.arms.settings import ArmSettings
from opc_ros.bringup.lab import Lab
from opc_ros.config import load_config
from opc_ros.deployment.audit_log import parse_line, read_head
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.people import People
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.errors import OpcError
from opc_ros.policies.candidate import read_candidate
from opc_ros.ranking import Ranking
from opc_ros.recording.settings import RecorderSettings
from opc_ros.store import open_store
from opc_ros.store.bag_mapping import BagMapping
from opc_ros.store.packing import pack
from sim_bridge.training.recipe import load_recipes
from tests.ranking.test_rank import rank
from tests.store.grasps import FAILURE, make_episode

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 5.0

MAPPING = b"""robot: arm1
behaviour_policy: teleop
camera: /camera/image
tool: {topic: /tool, x_m: pose.x, y_m: pose.y, z_m: pose.z, yaw_rad: pose.yaw}
step_s: 0.5
"""
ROBOTS = b"""
robots: {arm1: {rungs: [twin, reduced, full]}}
"""
PEOPLE = b"""people:
  ada:
    keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g ada"]
    roles: [operator]
"""
LINE = b'{"at_ns":5,"body":{"x":1.5},"hash":"h","kind":"decision","n":1,"prev":""}'
HEAD = b'{"entries":1,"hash":"h"}\n'

_NASTY_WORDS = (
    b"2020-13-45 .nan .inf -.inf NaN Infinity 1e999 -1 0 1e308 null ~ [] {} '' *a &a yes no 0x10 0b2 1:30:99 "
    b"!!python/object:os.system \\ud800 \\u0000 - ? : % @ ` | > ---"
)
NASTY = (
    *_NASTY_WORDS.split(b" "),
    b"9" * 5000,
    b"[" * 3000,
    b"{a: " * 500,
    b"- " * 500,
    b"x" * 20_000,
    b"\xff\xfe",
    b"\0",
    b"!!int abc",
    b"!!float x",
    b"!!binary =",
    b"!!timestamp 2020-13-45",
    b"1." + b"0" * 400 + b"e+400",
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: the content of a valid one, and its reader."""

    name: str
    good: bytes
    read: Callable[[bytes], object]
    is_cache: bool = False  # whatever happens to it, an answer stays the same


@dataclass(slots=True)
class Outcome:
    """The results of the mutations of one kind."""

    accepted: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    faults: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=2000, help="of each kind of file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="the kind of this name")
    arguments = parser.parse_args()
    is_clean = True
    with tempfile.TemporaryDirectory() as folder:
        for kind in make_kinds(Path(folder)):
            if arguments.only in ("", kind.name):
                outcome = try_kind(kind, arguments.mutations, arguments.seed)
                is_clean &= not outcome.faults
                print(
                    f"{kind.name:<16} {outcome.refused:5} refused, {outcome.accepted:5} read, slowest "
                    f"{outcome.slowest_s:.2f} s, {len(outcome.faults)} faults",
                    flush=True,
                )
                for fault in outcome.faults[:5]:
                    print(f"    {fault}")
    raise SystemExit(0 if is_clean else 1)


def try_kind(kind: Kind, mutations: int, seed: int) -> Outcome:
    outcome = Outcome()
    truth = kind.read(kind.good)
    for number in range(mutations):
        rng = random.Random(f"{kind.name} {seed} {number}")
        data = mutate(kind.good, rng)
        begin = time.monotonic()
        try:
            value = kind.read(data)
            outcome.accepted += 1
            if kind.is_cache and value != truth:
                outcome.faults.append(f"mutation {number}: gave a wrong answer")
            if not is_finite(value):
                outcome.faults.append(f"mutation {number}: accepted a number that is not finite")
        except OpcError as error:
            outcome.refused += 1
            if "\n" in str(error) or len(str(error)) > 2000:
                outcome.faults.append(f"mutation {number}: complaint is not one line: {str(error)[:200]!r}")
        except Exception:
            outcome.faults.append(f"mutation {number}: {traceback.format_exc(limit=-2).splitlines()[-1]}")
        took = time.monotonic() - begin
        outcome.slowest_s = max(outcome.slowest_s, took)
        if took > LONGEST_S:
            outcome.faults.append(f"mutation {number}: took {took:.1f} s")
    return outcome


def mutate(data: bytes, rng: random.Random) -> bytes:
    changed = data
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        changed = rng.choice((_replace_value, _replace_value, _flip, _cut, _insert, _double_line, _drop_line))(
            changed, rng
        )
    return changed


def is_finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return all(is_finite(getattr(value, one.name)) for one in dataclasses.fields(value))
    if isinstance(value, dict):
        return all(map(is_finite, [*value.keys(), *value.values()]))
    if isinstance(value, (list, tuple)):
        return all(map(is_finite, value))
    return True


def make_kinds(folder: Path) -> Iterable[Kind]:
    """Every kind of file, with a valid one of each and the product's reader for it."""
    config = {
        "gate": GateRules,
        "scheduler": SchedulerRules,
        "recorder": RecorderSettings,
        "arm": ArmSettings,
        "lab": Lab,
    }
    for name, kind in config.items():
        good = (ROOT / "config" / f"{name}.yaml").read_bytes() + (ROBOTS if name == "scheduler" else b"")
        yield Kind(name, good, _reader(folder / f"{name}.yaml", kind))
    yield Kind("people", PEOPLE, _reader(folder / "people.yaml", People))
    yield Kind("bag mapping", MAPPING, _reader(folder / "mapping.yaml", BagMapping))
    yield Kind("recipes", (ROOT / "sim_bridge" / "zoo" / "recipes.yaml").read_bytes(), _recipes(folder))
    yield Kind("ranking", rank().to_json().encode(), lambda data: Ranking.from_json(data.decode("utf-8", "replace")))
    yield _candidate(folder)
    yield Kind("audit line", LINE, lambda data: parse_line(data, Path("audit.jsonl")))
    yield Kind("audit head", HEAD, _writing(folder / "log.head", lambda: read_head(folder / "log")))
    yield from _store_kinds(folder)
    yield from _packed_kinds(folder)


def _reader(path: Path, kind: type) -> Callable[[bytes], object]:
    return _writing(path, lambda: load_config(path, kind))


def _writing(path: Path, read: Callable[[], object]) -> Callable[[bytes], object]:
    def attempt(data: bytes) -> object:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return read()

    return attempt


def _recipes(folder: Path) -> Callable[[bytes], object]:
    return _writing(folder / "recipes.yaml", lambda: load_recipes(folder / "recipes.yaml"))


def _candidate(folder: Path) -> Kind:
    source = next((ROOT / "sim_bridge" / "zoo" / "candidates").glob("wary-*"))
    target = folder / "candidate"
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    manifest = target / "candidate.yaml"
    return Kind("candidate", manifest.read_bytes(), _writing(manifest, lambda: read_candidate(target).manifest))


def _store_kinds(folder: Path) -> Iterable[Kind]:
    store = open_store(folder / "store", create=True)
    store.append(make_episode("e1", image_size=16))
    store.append(make_episode("e2", image_size=16, label=FAILURE))
    store.label("e1", FAILURE)
    snapshot = store.take_snapshot(tag="week-1")

    def use() -> Any:
        again = open_store(store.path)
        return [again.read("e1").label, list(again.snapshot("week-1").entries), again.snapshot_id_now(), again.tags()]

    files = {
        "store marker": store.layout.marker,
        "sidecar": next(store.layout.episodes.rglob("e1.json")),
        "label": next(store.layout.labels.rglob("e1.1.json")),
        "snapshot": store.layout.snapshots / f"{snapshot.id}.json",
        "snapshot part": next(store.layout.snapshot_groups.rglob("*.json")),
        "tag": store.layout.tags / "week-1",
        "catalogue": store.layout.catalogue / "index",
        "segment": max(store.layout.catalogue.glob("??/*"), key=lambda path: path.stat().st_size),
        "episode": next(store.layout.episodes.rglob("e1.mcap")),
    }
    originals = {name: path.read_bytes() for name, path in files.items()}
    for name, path in files.items():
        is_cache = name in ("catalogue", "segment")
        yield Kind(name, originals[name], _writing(path, use), is_cache=is_cache)
        path.write_bytes(originals[name])


def _packed_kinds(folder: Path) -> Iterable[Kind]:
    """A store whose episodes are only in a shard: whatever happens to it, no episode is read as another."""
    store = open_store(folder / "packed", create=True)
    store.append(make_episode("e1", image_size=16))
    store.append(make_episode("e2", image_size=16, label=FAILURE))
    snapshot = store.take_snapshot()
    pack(store, is_dropping=True)

    def use() -> Any:
        again = open_store(store.path)
        return [*again.read_snapshot(again.snapshot(snapshot.id)), again.find("e1"), again.snapshot_id_now()]

    for name, ending in (("shard", ".mcap"), ("shard index", ".json")):
        path = next(store.layout.shards.rglob(f"*{ending}"))
        good = path.read_bytes()
        yield Kind(name, good, _writing(path, use), is_cache=True)
        path.write_bytes(good)


def _replace_value(data: bytes, rng: random.Random) -> bytes:
    """Put something nasty in the place of a number, a word or a list."""
    starts = [at + 1 for at, byte in enumerate(data) if byte in b":,[ "]
    if not starts:
        return data
    at = rng.choice(starts)
    end = at
    while end < len(data) and data[end] not in b",]}\n":
        end += 1
    return data[:at] + b" " + rng.choice(NASTY) + data[end:]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(NASTY) + data[at:]


def _double_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join([*lines, rng.choice(lines)])


def _drop_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


if __name__ == "__main__":
    main()
