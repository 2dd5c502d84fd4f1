"""Check an audit log: every line whole, chained and signed, and none missing at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opc_ros.deployment.audit_log import SIGNED_PREFIX, AuditHead, Entry, entry_hash, parse_line, read_head
from opc_ros.deployment.keys import TrustedKeys, is_signed_by
from opc_ros.documents import parse_json
from opc_ros.errors import AuditLogDamaged, ConfigError


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a check found; no problems means that nothing was changed, added or cut off."""

    head: AuditHead
    problems: tuple[str, ...]
    notes: tuple[str, ...]  # what is unusual and still right

    @property
    def is_whole(self) -> bool:
        return not self.problems


def check_audit_log(path: Path, keys: TrustedKeys | None, witnesses: Sequence[AuditHead] = ()) -> AuditReport:
    """Read the whole audit log; with keys every line must be signed by one of them.

    Cutting lines off the end leaves a whole chain, so the length is compared with what others remember: the head file
    beside the audit log, and `witnesses`, such as the heads that robots keep from the permits they were given.
    """
    problems, notes, hashes = [], [], [""]
    try:
        text = path.read_bytes()
    except OSError as error:
        raise AuditLogDamaged(f"{path}: {error.strerror}; expected an audit log") from error
    lines = text.split(b"\n")
    if lines.pop():
        notes.append(f"after entry {len(lines)} there is a torn line: a crash while writing, never acknowledged")
    for number, line in enumerate(lines, start=1):
        found, digest = _check_line(line, number, hashes[-1], keys)
        problems += found
        hashes.append(digest)
    try:
        known = [("the head file", read_head(path))]
    except AuditLogDamaged as error:
        known = []
        problems.append(str(error))
    known += [(f"witness {index}", witness) for index, witness in enumerate(witnesses, start=1)]
    for name, head in known:
        if head.entries >= len(hashes):
            problems.append(
                f"{name} remembers {head.entries} entries, the audit log has {len(lines)}: lines were cut off"
            )
        elif hashes[head.entries] != head.hash:
            problems.append(f"{name} remembers entry {head.entries} otherwise: the audit log was rewritten")
    return AuditReport(AuditHead(len(lines), hashes[-1]), tuple(problems), tuple(notes))


def read_audit_log(path: Path) -> Iterator[Entry]:
    """Every whole line, unchecked."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise AuditLogDamaged(f"{path}: {error.strerror}; expected an audit log") from error
    for line in lines:
        yield parse_line(line, path)


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
