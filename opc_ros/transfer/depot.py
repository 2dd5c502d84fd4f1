"""What the lab's machine offers its robots: candidates by digest go out, committed episodes come in."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opc_ros.deployment.people import load_people
from opc_ros.durable import age_s, make_folder, store_error
from opc_ros.errors import CandidateError, DeploymentError, EpisodeDamaged, OpcError, StoreError, TransferError
from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.store import open_store
from opc_ros.store.admission import admit_episode, admit_label, is_admitted, parse_sidecar
from opc_ros.store.object_blobs import is_bucket
from opc_ros.store.records import Sidecar
from opc_ros.transfer.call import CHUNK_BYTES, LARGEST_BODY, open_call

LARGEST_EPISODE = 1 << 30  # bytes
STALE_S = 7 * 24 * 3600.0  # unfinished uploads are deleted after this long without progress
_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and a body."""

    status: int
    body: bytes


class Depot:
    """Answers signed requests; a repeated request changes nothing.

    POST /episodes/ID with a sidecar returns how many of the episode's bytes are here, and whether it is stored once
    they all are; PUT /episodes/ID?from=N appends some. POST /labels/ID takes a label document. GET /candidates/ID
    returns the sizes of its parts, and GET /candidates/ID/PART?from=N up to a megabyte of one. GET /clock returns the
    time.
    """

    def __init__(
        self, store: Path | str, candidates: Path, keys: Path, incoming: Path, *, now: Callable[[], int] = time.time_ns
    ) -> None:
        """If the lab's store is a bucket, this accepts no episodes: recorders write to the bucket themselves."""
        self._store = open_store(store)
        self._is_bucket = is_bucket(store)
        self._registry = CandidateRegistry(candidates)
        self._keys, self._incoming, self._now = keys, incoming, now
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)  # by robot
        self._last: Candidate | None = None  # the one that is being fetched
        self.episodes_kept = 0
        make_folder(incoming)
        self._throw_away_stale()

    def answer(self, method: str, target: str, envelope: str, body: bytes) -> Answer:
        try:
            if (method, target) == ("GET", "/clock"):  # not secret, and needed even by a robot whose clock is wrong
                return _say(now_ns=self._now())
            if len(body) > LARGEST_BODY:
                raise TransferError(f"{len(body)} bytes at once, expected at most {LARGEST_BODY}")
            robot = open_call(envelope, method, target, body, load_people(self._keys))
            return self._answer_robot(robot, method, target, body)
        except DeploymentError as error:
            return _refuse(403, error)
        except (TransferError, CandidateError, EpisodeDamaged) as error:
            return _refuse(400, error)
        except StoreError as error:
            return _refuse(507, error)  # a full disk, for example: the robot keeps what it has and tries again
        except OpcError as error:
            return _refuse(400, error)

    def _answer_robot(self, robot: str, method: str, target: str, body: bytes) -> Answer:
        parts = urllib.parse.urlsplit(target)
        words = parts.path.strip("/").split("/")
        start = _read_start(parts.query)
        if words[0] == "candidates" and method == "GET" and len(words) in (2, 3):
            return self._give_candidate(words[1], words[2] if len(words) == 3 else "", start)
        if self._is_bucket:
            raise TransferError("the lab's store is a bucket, which recorders write to themselves: name it as theirs")
        with self._locks[robot]:
            if words[0] == "episodes" and len(words) == 2 and method == "POST":
                return self._take_sidecar(robot, words[1], body)
            if words[0] == "episodes" and len(words) == 2 and method == "PUT":
                return self._take_bytes(robot, words[1], start, body)
            if words[0] == "labels" and len(words) == 2 and method == "POST":
                return self._take_label(robot, words[1], body)
        raise TransferError(f"{method} {parts.path}: no such request")

    def _give_candidate(self, candidate_id: str, part: str, start: int) -> Answer:
        candidate = self._find(candidate_id)
        content = {"manifest": candidate.manifest_bytes, "artifact": candidate.artifact_bytes}
        if not part:
            sizes = {name: len(data) for name, data in content.items()}
            return _say(sizes=sizes, artifact_name=candidate.manifest.artifact)
        if part not in content:
            raise TransferError(f"candidate {candidate_id[:12]}: has no part {part!r}")
        return Answer(200, content[part][start : start + CHUNK_BYTES])

    def _find(self, candidate_id: str) -> Candidate:
        """Find a registered candidate, by an id that usually begins like the folder's name; nothing else is served."""
        if not _ID.fullmatch(candidate_id):
            raise TransferError(f"candidate {candidate_id[:80]!r}: expected an id of 64 hex digits")
        last = self._last
        if last is not None and last.id == candidate_id:
            return last
        folders = self._registry.folders()
        folders.sort(key=lambda folder: not folder.name.endswith(candidate_id[:12]))
        for folder in folders:
            try:
                found = read_candidate(folder)
            except OpcError:
                continue  # another candidate, or a damaged one with a different id
            if found.id == candidate_id:
                self._last = found
                return found
        raise CandidateError(f"candidate {candidate_id[:12]}: is not registered in {self._registry.path}")

    def _take_sidecar(self, robot: str, episode_id: str, document: bytes) -> Answer:
        sidecar = parse_sidecar(document, where=f"episode {episode_id}")
        if (sidecar.robot, sidecar.id) != (robot, episode_id):
            raise TransferError(f"robot {robot} sent episode {sidecar.id} of robot {sidecar.robot} as {episode_id}")
        if sidecar.file_bytes > LARGEST_EPISODE:
            raise TransferError(f"episode {episode_id}: {sidecar.file_bytes} bytes, expected up to {LARGEST_EPISODE}")
        part = self._part(robot, episode_id)
        if not is_admitted(self._store, sidecar):
            have = part.stat().st_size if part.exists() else 0
            if have < sidecar.file_bytes:
                return _say(is_kept=False, have=have)
            if not self._admit(sidecar, part):
                return _say(is_kept=False, have=0)
            self.episodes_kept += 1
        part.unlink(missing_ok=True)
        return _say(is_kept=True, have=sidecar.file_bytes)

    def _admit(self, sidecar: Sidecar, part: Path) -> bool:
        """Take in a complete upload; returns False if its bytes are wrong, and all of them are wanted again."""
        try:
            admit_episode(self._store, sidecar, part.read_bytes())
        except EpisodeDamaged:
            part.unlink(missing_ok=True)
            return False
        return True

    def _take_bytes(self, robot: str, episode_id: str, start: int, body: bytes) -> Answer:
        part = self._part(robot, episode_id)
        try:
            make_folder(part.parent)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                have = os.fstat(descriptor).st_size
                if start <= have <= LARGEST_EPISODE:  # bytes sent twice are overwritten by the same bytes
                    os.pwrite(descriptor, body, start)
                    have = max(have, start + len(body))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise store_error(f"episode {episode_id}: cannot be taken in", error) from error
        return _say(is_kept=False, have=have)

    def _take_label(self, robot: str, episode_id: str, document: bytes) -> Answer:
        if self._store.locate(episode_id).robot != robot:
            raise TransferError(f"robot {robot}: episode {episode_id} is another robot's")
        admit_label(self._store, document, where=f"label of episode {episode_id}")
        return _say(is_kept=True)

    def _part(self, robot: str, episode_id: str) -> Path:
        name = urllib.parse.quote(episode_id, safe="")
        if not 0 < len(name) < 200 or name.startswith("."):
            raise TransferError(f"episode {episode_id[:80]!r}: expected a name")
        return self._incoming / robot / f"{name}.part"

    def _throw_away_stale(self) -> None:
        for part in self._incoming.glob("*/*.part"):
            if age_s(part) > STALE_S:
                part.unlink(missing_ok=True)


def _read_start(query: str) -> int:
    text = urllib.parse.parse_qs(query).get("from", ["0"])[0]
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise TransferError(f"from={text[:40]}: expected where to begin, in bytes")
    return int(text)


def _say(**values: Any) -> Answer:
    return Answer(200, json.dumps(values).encode())


def _refuse(status: int, error: OpcError) -> Answer:
    return Answer(status, json.dumps({"error": " ".join(str(error).split())}).encode())
