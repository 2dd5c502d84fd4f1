"""Check one line of an audit log: intact, chained and signed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nacl.exceptions import CryptoError
from nacl.signing import VerifyKey

from opc_ros.deployment.audit_log import SIGNED_PREFIX, entry_hash
from opc_ros.deployment.keys import TrustedKeys, is_signed_by
from opc_ros.documents import MAX_JSON_BYTES, canonical_json, parse_json
from opc_ros.errors import ConfigError

Verify = Callable[[bytes, bytes], bool]  # text, signature
_CORE = {"at_ns", "body", "key_id", "kind", "n", "prev"}  # what the hash of a signed line covers
_HASH_BYTES = len(',"hash":""') + 64
_SIGNATURE_BYTES = len(',"signature":""}') + 128
# Everything after the body, up to the last brace, so that a hash inside the body is never taken for the line's own.
_SIGNED_END = re.compile(
    rb',"hash":"([0-9a-f]{64})","key_id":"[^"\\]*","kind":"[^"\\]*","n":[0-9]+,"prev":"[0-9a-f]*",'
    rb'"signature":"([0-9a-f]{128})"\}'
)
_PREFIX = SIGNED_PREFIX.encode()


class LineChecker:
    """Checks lines, most of them by a fast path.

    Our writer has exactly one spelling for each content, so the hashed text is the line itself with its hash and
    signature cut out. The fast path can only accept: any line that it does not find in order goes through the full
    check.
    """

    def __init__(self, keys: TrustedKeys | None) -> None:
        """Given keys, one of them must have signed every line."""
        self._keys = keys
        self._verifiers = {} if keys is None else {key_id: make_verifier(key) for key_id, key in keys.items()}

    def check(self, line: bytes, number: int, before: str) -> tuple[list[str], str]:
        """What is wrong with line `number` (from 1) after a line with the hash `before`, and the line's own hash."""
        told = None if self._keys is None else _find_hash(line, number, before, self._verifiers)
        return check_plainly(line, number, before, self._keys) if told is None else ([], told)


def check_plainly(line: bytes, number: int, before: str, keys: TrustedKeys | None) -> tuple[list[str], str]:
    """The full check: parse the line, write its content again, and compare."""
    try:
        document: dict[str, Any] = parse_json(line, where="line")
        core = {name: value for name, value in document.items() if name not in ("hash", "signature")}
        digest = entry_hash(core)
        told, n, prev = document["hash"], document["n"], document["prev"]
    except (ConfigError, KeyError, TypeError, AttributeError):
        return [f"entry {number}: is not an audit log line"], ""
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


def is_genuine_line(line: bytes, keys: TrustedKeys) -> bool:
    """Whether one of the keys signed exactly this line, wherever it belongs in the log."""
    document = parse_json(line, where="line")
    return not check_plainly(line, document["n"], document["prev"], keys)[0]


def _find_hash(line: bytes, number: int, before: str, verifiers: Mapping[str, Verify]) -> str | None:
    """The line's hash if everything is in order; None decides nothing and leaves it to the full check."""
    at = line.rfind(b',"hash":"') if len(line) <= MAX_JSON_BYTES else -1
    end = _SIGNED_END.fullmatch(line, at) if at > 0 else None
    if end is None:
        return None
    core = line[:at] + line[at + _HASH_BYTES : -_SIGNATURE_BYTES] + b"}"
    digest = hashlib.sha256(core).hexdigest()
    if digest.encode() != end[1]:
        return None
    try:
        document = parse_json(core, where="line")
        # Other spellings of the same content go to the full check, which hashes the content as it writes it.
        if document.keys() != _CORE or canonical_json(document, is_ascii=True).encode() != core:
            return None
    except (ConfigError, AttributeError):
        return None
    verify = verifiers.get(document["key_id"])
    if verify is None or document["n"] != number or document["prev"] != before:
        return None
    return digest if verify(_PREFIX + end[1], bytes.fromhex(end[2].decode())) else None


def make_verifier(key: Ed25519PublicKey) -> Verify:
    """A function that verifies a key's signature with libsodium, in half of OpenSSL's time.

    It is stricter, refusing for example keys of small order, and accepts nothing that OpenSSL refuses:
    `tests/deployment/test_audit_line.py` covers the cases in which the two could differ.
    """
    verify = VerifyKey(key.public_bytes_raw()).verify

    def is_signed(text: bytes, signature: bytes) -> bool:
        try:
            verify(text, signature)
        except CryptoError:
            return False
        return True

    return is_signed
