"""Append-only, hash-chained record of every decision, permit, override and outcome."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from opc_ros.config import parse_config
from opc_ros.deployment.keys import Signer
from opc_ros.documents import canonical_json, parse_json
from opc_ros.durable import replace_file, try_lock
from opc_ros.errors import AuditLogDamaged, ConfigError, QueueBusy

News = tuple[str, dict[str, Any], int]  # kind, body, at_ns

SIGNED_PREFIX = "opc_ros ledger\n"  # so that a line's signature can never pass for a permit's
TAIL_BYTES = 1 << 16
PATIENCE_S = 30.0  # how long to wait for another writer; a complete change takes milliseconds
LOOK_S = 0.002


FILE_NAME = "audit.jsonl"
OLDER_FILE_NAME = "ledger.jsonl"  # the name used by version 0.1.0; a log that has it keeps it


def find_audit_log(folder: Path) -> Path:
    """The path of a folder's audit log, under the name it was begun with."""
    older = folder / OLDER_FILE_NAME
    return older if older.exists() else folder / FILE_NAME


@dataclass(frozen=True, slots=True)
class AuditHead:
    """Length and last hash of an audit log; a remembered head reveals later that lines are missing."""

    entries: int = 0
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: what happened, when, and the hash of the preceding line."""

    n: int  # 1 for the first
    at_ns: int
    kind: str
    body: dict[str, Any]
    prev: str
    hash: str


class AuditLog:
    """An audit log to write to; several processes may do so, one line at a time.

    A line counts once it is on disk. Then `<path>.head` is replaced, so that a reader notices when lines are cut off at
    the end. A line torn by a crash was never acknowledged, so it is moved to a file beside the log rather than
    repaired.
    """

    def __init__(self, path: Path, signer: Signer | None = None, *, patience_s: float = PATIENCE_S) -> None:
        """`patience_s` is how long to wait for another program that is writing."""
        self._path = path
        self._signer = signer
        self._patience_s = patience_s
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as file:
            head = self._recover(file)
            known = read_head(path)
            if known.entries > head.entries:
                raise AuditLogDamaged(
                    f"{path}: ends at entry {head.entries}, but {head_path(path).name} knows of {known.entries}: "
                    "lines were cut off; restore the file, or see `opc audit verify`"
                )
            write_head(path, head)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def signer(self) -> Signer | None:
        return self._signer

    def append(self, kind: str, body: dict[str, Any], at_ns: int) -> Entry:
        """Write one line and return once it is on disk."""
        with self._locked() as file:
            return self._append(file, [(kind, body, at_ns)])[0]

    @contextmanager
    def exclusive(self) -> Iterator[tuple[Entry | None, Callable[[Sequence[News]], list[Entry]]]]:
        """Hold the lock; yields the last entry and an append function, for writers that must not repeat an event."""
        with self._locked() as file:
            self._recover(file)
            tail = read_tail(self._path)
            yield (tail[0] if tail else None), lambda news: self._append(file, news)

    def head(self) -> AuditHead:
        """Length and last hash, as of now."""
        return find_head(self._path)

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        with self._path.open("a+b") as file:
            deadline_s = time.monotonic() + self._patience_s
            while try_lock(file.fileno()) is False:
                if time.monotonic() > deadline_s:
                    raise QueueBusy(f"{self._path}: another program has held it for {self._patience_s:g} s")
                time.sleep(LOOK_S)
            yield file

    def _append(self, file: BinaryIO, news: Sequence[News]) -> list[Entry]:
        head = self._recover(file)
        entries = []
        for kind, body, at_ns in news:
            core = {"n": head.entries + 1, "at_ns": at_ns, "kind": kind, "body": body, "prev": head.hash}
            if self._signer is not None:
                core["key_id"] = self._signer.key_id
            digest = entry_hash(core)
            line = core | {"hash": digest}
            if self._signer is not None:
                line["signature"] = self._signer.sign(SIGNED_PREFIX + digest).hex()
            file.write(canonical_json(line, is_ascii=True).encode() + b"\n")
            entries.append(Entry(head.entries + 1, at_ns, kind, body, head.hash, digest))
            head = AuditHead(head.entries + 1, digest)
        file.flush()
        os.fsync(file.fileno())
        write_head(self._path, head)
        return entries

    def _recover(self, file: BinaryIO) -> AuditHead:
        """Where the audit log ends, after moving a torn last line aside."""
        size = file.seek(0, os.SEEK_END)
        if size and _last_byte(file) != b"\n":
            keep = _end_of_last_whole_line(file, size)
            file.seek(keep)
            torn = file.read()
            with self._path.with_name(f"{self._path.name}.torn-at-{keep}").open("wb") as aside:
                aside.write(torn)
                aside.flush()
                os.fsync(aside.fileno())
            os.truncate(self._path, keep)
            os.fsync(file.fileno())
        return self.head()


def find_head(path: Path) -> AuditHead:
    """Length and last hash of an audit log as of now, for readers; an empty head where there is no log."""
    tail = read_tail(path) if path.exists() else []
    return AuditHead(tail[-1].n, tail[-1].hash) if tail else AuditHead()


def entry_hash(core: dict[str, Any]) -> str:
    """sha256 over everything in a line except its hash and signature."""
    return hashlib.sha256(canonical_json(core, is_ascii=True).encode()).hexdigest()


def head_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.head")


def read_head(path: Path) -> AuditHead:
    """The head stored beside an audit log; an empty head if there is none."""
    try:
        data = head_path(path).read_bytes()
    except FileNotFoundError:
        return AuditHead()
    except OSError as error:
        raise AuditLogDamaged(f"{head_path(path)}: {error.strerror or error}") from error
    document = parse_json(data, where=str(head_path(path)), error=AuditLogDamaged)
    return parse_config(document, AuditHead, where=str(head_path(path)), error=AuditLogDamaged)


def write_head(path: Path, head: AuditHead) -> None:
    """Replace the head file; a crash leaves either the new one, or the old one, which only remembers fewer lines."""
    if head == read_head(path):
        return
    document = {"entries": head.entries, "hash": head.hash}
    replace_file(head_path(path), f"{canonical_json(document, is_ascii=True)}\n".encode(), is_name_synced=False)


def read_tail(path: Path, most: int = 1) -> list[Entry]:
    """The last entries, oldest first."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        block = TAIL_BYTES
        while True:
            start = max(0, size - block)
            file.seek(start)
            lines = file.read().split(b"\n")[:-1]
            whole = lines if start == 0 else lines[1:]
            if len(whole) >= most or start == 0:
                return [parse_line(line, path) for line in whole[-most:]]
            block *= 4


def parse_line(line: bytes, path: Path) -> Entry:
    try:
        document = parse_json(line, where=str(path))
        core = {name: document[name] for name in ("n", "at_ns", "kind", "body", "prev", "hash")}
        return parse_config(core, Entry, where=str(path))
    except (ConfigError, KeyError, TypeError) as error:
        raise AuditLogDamaged(f"{path}: a line is no audit log entry ({error!r}); see `opc audit verify`") from error


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return bytes(file.read(1))


def _end_of_last_whole_line(file: BinaryIO, size: int) -> int:
    start = size
    while start > 0:
        start = max(0, start - TAIL_BYTES)
        file.seek(start)
        newline = file.read(TAIL_BYTES).rfind(b"\n")
        if newline >= 0:
            return int(start + newline + 1)
    return 0
