"""Check an audit log: every line whole, chained and signed, and none missing at the end."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from opc_ros.config import parse_config
from opc_ros.deployment.audit_log import SIGNED_PREFIX, AuditHead, Entry, entry_hash, parse_line, read_head
from opc_ros.deployment.keys import Signer, TrustedKeys, is_signed_by
from opc_ros.documents import canonical_json, parse_json, read_bytes
from opc_ros.durable import replace_file
from opc_ros.errors import AuditLogDamaged, ConfigError, OpcError

_CHUNK = 20_000  # lines that one process checks at a time
CHECKPOINT_PREFIX = "opc_ros checkpoint\n"  # keeps its signature from ever passing for another's


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a check found; no problems means that nothing was changed, added or cut off."""

    head: AuditHead
    problems: tuple[str, ...]
    notes: tuple[str, ...]  # what is unusual and still right
    size: int = 0  # bytes of all whole lines

    @property
    def is_whole(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Up to where an audit log was checked and found whole."""

    entries: int
    hash: str
    size: int  # bytes
    digest: str  # sha256 of those bytes: an edit below the checkpoint is seen without checking every line again


def check_audit_log(
    path: Path, keys: TrustedKeys | None, witnesses: Sequence[AuditHead] = (), since: Checkpoint | None = None
) -> AuditReport:
    """Read the audit log, or what came since a checkpoint; with keys every line must be signed by one of them.

    Cutting lines off the end leaves a whole chain, so the length is compared with what others remember: the head file
    beside the log, and `witnesses`, such as the heads that robots keep from the permits they were given. It is right
    on a log that is being written to.
    """
    start = since or Checkpoint(0, "", 0, "")
    problems, notes, hashes = [], [], {start.entries: start.hash}
    # The head is read before the lines: a log that grows meanwhile has more of them than it tells, never fewer.
    try:
        known = [("the head file", read_head(path))]
    except AuditLogDamaged as error:
        known = []
        problems.append(str(error))
    lines = _read_lines(path, start.size)
    if lines.pop():
        notes.append(f"after entry {start.entries + len(lines)} there is a torn line: being written, or a crash's")
    last = start.entries + len(lines)
    for found, told in _check_all(lines, start, keys):
        problems += found
        hashes |= told
    known += [(f"witness {index}", witness) for index, witness in enumerate(witnesses, start=1)]
    for name, head in known:
        if head.entries > last:
            problems.append(f"{name} remembers {head.entries} entries, the audit log has {last}: lines were cut off")
        elif hashes.get(head.entries, head.hash) != head.hash:
            problems.append(f"{name} remembers entry {head.entries} otherwise: the audit log was rewritten")
    size = start.size + sum(len(line) + 1 for line in lines)
    return AuditReport(AuditHead(last, hashes[last]), tuple(problems), tuple(notes), size)


def _check_all(
    lines: Sequence[bytes], start: Checkpoint, keys: TrustedKeys | None
) -> Iterator[tuple[list[str], dict[int, str]]]:
    """Chunk by chunk, on every core where there are many lines: nearly all the time goes into signatures."""
    raw = None if keys is None else {key_id: key.public_bytes_raw() for key_id, key in keys.items()}
    starts = range(0, len(lines), _CHUNK)
    # What a chunk begins with must be what the one before it ends with, as that one itself tells it.
    before = {first: _told_hash(lines[first - 1]) if first else start.hash for first in starts}
    chunks = [(lines[first : first + _CHUNK], start.entries + first, before[first]) for first in starts]
    cores = len(os.sched_getaffinity(0))
    if len(chunks) < 4 or cores < 2:
        yield from (_check_chunk(*chunk, raw) for chunk in chunks)
        return
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_check_chunk, *zip(*chunks, strict=True), [raw] * len(chunks))


def _check_chunk(
    lines: Sequence[bytes], done: int, before: str, raw: dict[str, bytes] | None
) -> tuple[list[str], dict[int, str]]:
    keys = None if raw is None else {key_id: Ed25519PublicKey.from_public_bytes(key) for key_id, key in raw.items()}
    problems: list[str] = []
    hashes = {}
    for number, line in enumerate(lines, start=done + 1):
        found, before = _check_line(line, number, before, keys)
        hashes[number] = before
        problems += found
    return problems, hashes


def _told_hash(line: bytes) -> str:
    try:
        return str(parse_json(line, where="line")["hash"])
    except (ConfigError, KeyError, TypeError):
        return ""


def write_checkpoint(path: Path, report: AuditReport, signer: Signer) -> None:
    """Keep, signed, how far an audit log was found whole, so that the next start checks only what is new."""
    digest = _digest_start(path, report.size)
    body = canonical_json(asdict(Checkpoint(report.head.entries, report.head.hash, report.size, digest)))
    signed = {"checkpoint": body, "key_id": signer.key_id, "signature": signer.sign(CHECKPOINT_PREFIX + body).hex()}
    replace_file(_checkpoint_path(path), canonical_json(signed).encode())


def read_checkpoint(path: Path, keys: TrustedKeys) -> Checkpoint | None:
    """The signed checkpoint beside an audit log, if it is in order and the log still begins as it did; or else None."""
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
    """sha256 of a file's first bytes; of fewer where it is shorter."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (part := file.read(min(size, 1 << 20))):
            digest.update(part)
            size -= len(part)
    return digest.hexdigest()


def _read_lines(path: Path, offset: int) -> list[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read().split(b"\n")
    except OSError as error:
        raise AuditLogDamaged(f"{path}: {error.strerror}; expected an audit log") from error


def read_audit_log(path: Path) -> Iterator[Entry]:
    """Every whole line, unchecked."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise AuditLogDamaged(f"{path}: {error.strerror}; expected an audit log") from error
    for line in lines:
        yield parse_line(line, path)


def is_genuine_line(line: bytes, keys: TrustedKeys) -> bool:
    """Whether one of the keys signed exactly this line, wherever in the log it belongs."""
    document = parse_json(line, where="line")
    return not _check_line(line, document["n"], document["prev"], keys)[0]


def _check_line(line: bytes, number: int, before: str, keys: TrustedKeys | None) -> tuple[list[str], str]:
    try:
        document: dict[str, Any] = parse_json(line, where="line")
        core = {name: value for name, value in document.items() if name not in ("hash", "signature")}
        digest = entry_hash(core)
        told, n, prev = document["hash"], document["n"], document["prev"]
    except (ConfigError, KeyError, TypeError, AttributeError):
        return [f"entry {number}: is no audit log line"], ""
    problems = []
    if digest != told:
        problems.append(f"entry {number}: was changed after it was written")
    if n != number or prev != before:
        problems.append(f"entry {number}: does not follow the entry before it: lines were removed, added or moved")
    if keys is not None and not problems:
        try:
            signature = bytes.fromhex(str(document.get("signature", "")))
        except ValueError:
            signature = b""
        if not is_signed_by(str(document.get("key_id", "")), SIGNED_PREFIX + digest, signature, keys):
            problems.append(f"entry {number}: is not signed by a trusted key")
    return problems, str(told)
