"""Seals on the queue's events: only the holder of the scheduler's key can add an event to the signed audit log."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from pathlib import Path

from opc_ros.deployment.audit_line import is_genuine_line
from opc_ros.deployment.keys import Signer
from opc_ros.documents import canonical_json, parse_json
from opc_ros.errors import OpcError

Told = tuple[int, str, str]  # at_ns, kind, body as canonical JSON


class EventSeal:
    """A keyed digest over an event and its number; the key can only be derived from the signer's private key."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._key = hashlib.sha256(b"opc_ros queue events\n" + signer.private_key.private_bytes_raw()).digest()

    def of(self, change: int, at_ns: int, kind: str, body: str) -> str:
        return hmac.digest(self._key, f"{change}\n{at_ns}\n{kind}\n{body}".encode(), "sha256")[:16].hex()

    def fits(self, change: int, at_ns: int, kind: str, body: str, seal: str) -> bool:
        return hmac.compare_digest(self.of(change, at_ns, kind, body).encode(), seal.encode())

    def read_log(self, path: Path, wanted: Collection[int]) -> dict[int, Told]:
        """Events as the audit log has them, by number; lines that this key did not sign are skipped."""
        keys = {self._signer.key_id: self._signer.private_key.public_key()}
        found: dict[int, Told] = {}
        with path.open("rb") as file:
            for line in file:
                try:
                    document = parse_json(line, where="audit log")
                    change = int(document["body"].get("change", 0))
                    if change not in wanted or not is_genuine_line(line, keys):
                        continue
                    body = {name: value for name, value in document["body"].items() if name != "change"}
                    told = canonical_json(body, is_ascii=True)
                    found[change] = (int(document["at_ns"]), str(document["kind"]), told)
                except (OpcError, ValueError, KeyError, TypeError, AttributeError):
                    continue
        return found
