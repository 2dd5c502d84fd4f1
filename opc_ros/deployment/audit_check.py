"""Check an audit log: every line intact, chained and signed, and none missing at the end."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from opc_ros.config import parse_config
from opc_ros.deployment.audit_line import LineChecker
from opc_ros.deployment.audit_log import AuditHead, Entry, parse_line, read_head
from opc_ros.deployment.keys import Signer, TrustedKeys, is_signed_by
from opc_ros.documents import canonical_json, parse_json, read_bytes
from opc_ros.durable import replace_file
from opc_ros.errors import AuditLogDamaged, ConfigError, OpcError

_BLOCK = 1 << 23  # how much one process checks at a time: about twenty thousand lines
CHECKPOINT_PREFIX = "opc_ros checkpoint\n"  # so that its signature can never pass for any other kind


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of a check; no problems means that nothing was changed, added or cut off."""

    head: AuditHead
    problems: tuple[str, ...]
    notes: tuple[str, ...]  # unusual, but no sign of tampering
    size: int = 0  # bytes of all complete lines
    digest: str = ""  # sha256 of those bytes, as read

    @property
    def is_whole(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far an audit log has been checked and found intact."""

    entries: int
    hash: str
    size: int  # bytes
    digest: str  # sha256 of those bytes: shows an edit before the checkpoint without checking every line again


def check_audit_log(
    path: Path, keys: TrustedKeys | None, witnesses: Sequence[AuditHead] = (), since: Checkpoint | None = None
) -> AuditReport:
    """Check the audit log, or what was added since a checkpoint; given keys, one of them must have signed every line.

    Cutting lines off the end leaves a valid chain, so the length is compared with what others remember: the head file
    beside the log, and `witnesses`, such as the heads that robots keep from their permits. The log may be written to
    during the check.
    """
    start = since or Checkpoint(0, "", 0, "")
    problems, notes, hashes = [], [], {start.entries: start.hash}
    # Read the head before the lines: if the log grows meanwhile, there are more lines than the head says, never fewer.
    try:
        known = [("the head file", read_head(path))]
    except AuditLogDamaged as error:
        known = []
        problems.append(str(error))
    known += [(f"witness {index}", witness) for index, witness in enumerate(witnesses, start=1)]
    try:
        with path.open("rb") as file:
            reader = _Reader(file, start.size)
            if since is not None and reader.digest != since.digest:
                problems.append(f"the first {since.entries} entries differ from those checked before")
            for found, told in _check_all(reader, start, keys, frozenset(head.entries for _, head in known)):
                problems += found
                hashes |= told
    except OSError as error:
        raise AuditLogDamaged(f"{path}: {error.strerror}; expected an audit log") from error
    last = start.entries + reader.lines
    if reader.is_torn:
        notes.append(f"after entry {last} there is a torn line: still being written, or left by a crash")
    for name, head in known:
        if head.entries > last:
            problems.append(f"{name} remembers {head.entries} entries, the audit log has {last}: lines were cut off")
        elif hashes.get(head.entries, head.hash) != head.hash:
            problems.append(f"{name} remembers a different entry {head.entries}: the audit log was rewritten")
    return AuditReport(AuditHead(last, hashes[last]), tuple(problems), tuple(notes), reader.size, reader.digest)


class _Reader:
    """Reads the complete lines after an offset, a few megabytes at a time, and digests everything it reads."""

    def __init__(self, file: BinaryIO, offset: int) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0  # bytes up to the end of the last complete line returned
        self.lines = 0
        self.is_torn = False
        while self.size < offset and (part := file.read(min(offset - self.size, _BLOCK))):
            self._digest.update(part)
            self.size += len(part)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    @property
    def bytes_left(self) -> int:
        return os.fstat(self._file.fileno()).st_size - self.size

    def __iter__(self) -> Iterator[list[bytes]]:
        rest = b""
        while block := self._file.read(_BLOCK):
            whole, newline, tail = block.rpartition(b"\n")
            if not newline:
                rest += block
                continue
            text = rest + whole
            rest = tail
            lines = text.split(b"\n")
            self._digest.update(text + newline)
            self.size += len(text) + 1
            self.lines += len(lines)
            yield lines
        self.is_torn = bool(rest)


def _check_all(
    reader: _Reader, start: Checkpoint, keys: TrustedKeys | None, wanted: frozenset[int]
) -> Iterator[tuple[list[str], dict[int, str]]]:
    """Check in chunks, on every core for a long log: nearly all the time goes into verifying signatures."""
    raw = None if keys is None else {key_id: key.public_bytes_raw() for key_id, key in keys.items()}
    cores = len(os.sched_getaffinity(0))
    if reader.bytes_left < 4 * _BLOCK or cores < 2:
        for lines, done, before in _number(reader, start):
            yield _check_chunk(lines, done, before, raw, wanted)
        return
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        running: deque[Future[tuple[list[str], dict[int, str]]]] = deque()
        for lines, done, before in _number(reader, start):
            running.append(pool.submit(_check_chunk, lines, done, before, raw, wanted))
            if len(running) > cores + 1:  # hold only as much of the log in memory as keeps every core busy
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _number(reader: _Reader, start: Checkpoint) -> Iterator[tuple[list[bytes], int, str]]:
    """Each chunk with the number of lines before it, and the hash that its first line must follow.

    That hash is what the preceding line claims for itself; it is verified where that line is checked.
    """
    before = start.hash
    for lines in reader:
        yield lines, start.entries + reader.lines - len(lines), before
        before = _told_hash(lines[-1])


def _check_chunk(
    lines: Sequence[bytes], done: int, before: str, raw: dict[str, bytes] | None, wanted: frozenset[int]
) -> tuple[list[str], dict[int, str]]:
    """What is wrong with these lines, and the hashes of the last line and of those numbered in `wanted`."""
    keys = None if raw is None else {key_id: Ed25519PublicKey.from_public_bytes(key) for key_id, key in raw.items()}
    checker = LineChecker(keys)
    problems: list[str] = []
    hashes = {}
    number = done
    for number, line in enumerate(lines, start=done + 1):
        found, before = checker.check(line, number, before)
        problems += found
        if number in wanted:
            hashes[number] = before
    return problems, hashes | {number: before}


def _told_hash(line: bytes) -> str:
    try:
        return str(parse_json(line, where="line")["hash"])
    except (ConfigError, KeyError, TypeError):
        return ""


def write_checkpoint(path: Path, report: AuditReport, signer: Signer) -> None:
    """Sign and save how far an audit log was found intact, so that the next start checks only what is new.

    The digest covers the bytes that were checked, not what is in the file by now.
    """
    body = canonical_json(asdict(Checkpoint(report.head.entries, report.head.hash, report.size, report.digest)))
    signed = {"checkpoint": body, "key_id": signer.key_id, "signature": signer.sign(CHECKPOINT_PREFIX + body).hex()}
    replace_file(_checkpoint_path(path), canonical_json(signed).encode())


def read_checkpoint(path: Path, keys: TrustedKeys) -> Checkpoint | None:
    """The signed checkpoint beside an audit log, or None if it is invalid or the log's beginning has changed."""
    try:
        signed = parse_json(read_bytes(_checkpoint_path(path), limit=1 << 16), where="checkpoint")
        body = str(signed["checkpoint"])
        signature = bytes.fromhex(str(signed["signature"]))
        if not is_signed_by(str(signed["key_id"]), CHECKPOINT_PREFIX + body, signature, keys):
            return None
        found = parse_config(parse_json(body, where="checkpoint"), Checkpoint, where="checkpoint")
        return found if _digest_start(path, found.size) == found.digest else None
    except (OpcError, OSError, ValueError, KeyError, TypeError):
        return None


def _checkpoint_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.checked")


def _digest_start(path: Path, size: int) -> str:
    """sha256 of a file's first `size` bytes, or of the whole file if it is shorter."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (part := file.read(min(size, 1 << 20))):
            digest.update(part)
            size -= len(part)
    return digest.hexdigest()


def read_audit_log(path: Path) -> Iterator[Entry]:
    """Every complete line, unchecked."""
    try:
        with path.open("rb") as file:
            for lines in _Reader(file, 0):
                for line in lines:
                    yield parse_line(line, path)
    except OSError as error:
        raise AuditLogDamaged(f"{path}: {error.strerror}; expected an audit log") from error
