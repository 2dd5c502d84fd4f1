"""The fast check of a line agrees with the strict check, whoever wrote the line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from opc_ros.deployment import audit_check
from opc_ros.deployment.audit_check import check_audit_log, read_checkpoint, write_checkpoint
from opc_ros.deployment.audit_line import LineChecker, check_plainly, make_verifier
from opc_ros.deployment.audit_log import SIGNED_PREFIX, AuditHead, AuditLog
from opc_ros.deployment.keys import Signer, is_signed_by, load_trusted_keys

BODIES = [
    {"episode_id": "lease-1", "success": True},
    {"who": "Zoë", "why": 'looked "good", he said\\', "emoji": "🤖"},
    {"loads": [1, 2.5, -0.0, 1e-7, 1e22, 2**64 - 1, None, False], "nested": {"b": {"a": [{}, []]}}},
    {"hash": "ab" * 32, "key_id": "x", "kind": "y", "n": 3, "prev": "", "signature": "cd" * 64},
    {"text": ',"hash":"' + "0" * 64 + '","key_id":"k","kind":"k","n":1,"prev":"","signature":"' + "0" * 128 + '"}'},
    {},
]
# Made with the addition law written out: a key a = 123456789123456789, whose nonce point has a part of order 8 added.
MIXED_ORDER_KEY = "6f6ca5462ae560235abfc4bf18f762edd72bc1a7de9e49eec0aeb5ecaa8d37ce"
MIXED_ORDER_SIGNATURE = (
    "6999d5cb5126005c325892f1c6eab824b310708befff12fbaf45dda050cb12f0"
    "3864f9cf8b0049e1fbe49c578010127b207aa9641e02937b0423b08c52b94001"
)


@pytest.fixture
def lines(tmp_path: Path, signer: Signer) -> list[bytes]:
    log = AuditLog(tmp_path / "audit.jsonl", signer)
    for number, body in enumerate(BODIES):
        log.append("decision", body, at_ns=number)
    return log.path.read_bytes().split(b"\n")[:-1]


def test_the_fast_check_agrees_with_every_line_that_was_written(lines: list[bytes], keys: Path) -> None:
    checker, before = LineChecker(load_trusted_keys(keys)), ""
    checker._keys = {}  # the strict check would refuse each: nothing here went that way
    for number, line in enumerate(lines, start=1):
        problems, before = checker.check(line, number, before)
        assert problems == []
    assert before == json.loads(lines[-1])["hash"]


@pytest.mark.parametrize("is_signed", [True, False])
def test_both_checks_agree_on_every_line_with_a_byte_changed(lines: list[bytes], keys: Path, is_signed: bool) -> None:
    trusted = load_trusted_keys(keys) if is_signed else None
    rng, checker, before = np.random.default_rng(7), LineChecker(trusted), ""
    for number, line in enumerate(lines, start=1):
        for _ in range(40):
            for changed in _scratch(line, rng):
                assert checker.check(changed, number, before) == check_plainly(changed, number, before, trusted)
        before = json.loads(line)["hash"]


def _scratch(line: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    at, other = (int(number) for number in rng.integers(len(line), size=2))
    byte = bytes([int(rng.choice(list(b'"{}[],:\\0129afe u.-')))])
    yield line[:at] + byte + line[at + 1 :]
    yield line[:at] + byte + line[at:]
    yield line[:at] + line[at + 1 :]
    yield line[:at] + line[at:other] + line[at:]
    yield line[:at] + line[at:].swapcase()


def _write(core: str, signer: Signer, end: str = "") -> bytes:
    """A line with arbitrary content, as only the owner of the key could write it, with its hash in our position."""
    digest = hashlib.sha256(core.encode()).hexdigest()
    signature = signer.sign(SIGNED_PREFIX + digest).hex()
    at = core.rindex(',"key_id"')
    return f'{core[:at]},"hash":"{digest}"{core[at:-1]},"signature":"{signature}"{end}}}'.encode()


@pytest.mark.parametrize(
    ("core", "is_right"),
    [
        ('{"at_ns":5,"body":{},"key_id":"ID","kind":"k","n":1,"prev":""}', True),
        ('{"at_ns":5,"body":{},"hash":"x","key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"at_ns":6,"body":{},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{"a":1,"a":2},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{"b":1,"a":2},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5, "body":{},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5.0,"body":{},"key_id":"ID","kind":"k","n":1,"prev":""}', True),
        ('{"at_ns":1e5,"body":{},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{"x":NaN},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{"x":18446744073709551616},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{"x":"\\u0000"},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{"x":"\\ud800"},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{"x":"\\u0041"},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{"x":"é"},"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":' + 70 * "[" + 70 * "]" + ',"key_id":"ID","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{},"key_id":"ID","kind":"k","n":1.0,"prev":""}', True),
        ('{"at_ns":5,"body":{},"key_id":"ID","kind":"k","n":01,"prev":""}', False),
        ('{"at_ns":5,"body":{},"key_id":"ID","kind":"k","n":2,"prev":""}', False),
        ('{"at_ns":5,"body":{},"key_id":"ID","kind":"k","n":1,"prev":"a"}', False),
        ('{"at_ns":5,"body":{},"key_id":"IE","kind":"k","n":1,"prev":""}', False),
        ('{"at_ns":5,"body":{},"key_id":"ID","kind":"k","n":1,"prev":"","zone":1}', True),
        ('{"a":0,"at_ns":5,"body":{},"key_id":"ID","kind":"k","n":1,"prev":""}', True),
        ('["at_ns",5,"body","key_id","ID","kind","k","n",1,"prev",""]', False),
    ],
)
def test_both_checks_agree_on_what_the_key_itself_could_have_signed(
    signer: Signer, keys: Path, core: str, is_right: bool
) -> None:
    trusted = load_trusted_keys(keys)
    line = _write(core.replace("ID", signer.key_id), signer)
    told = LineChecker(trusted).check(line, 1, "")
    assert told == check_plainly(line, 1, "", trusted)
    assert (told[0] == []) is is_right


def test_a_hash_moved_from_beside_the_body_into_it_is_found(lines: list[bytes], keys: Path) -> None:
    """The fourth line's body contains key and kind like the line itself, where a hash could be."""
    line, trusted = lines[3], load_trusted_keys(keys)
    document = json.loads(line)
    beside = f',"hash":"{document["hash"]}"'.encode()
    inner = b'"body":{"hash":"' + b"ab" * 32 + b'"'
    assert beside in line
    assert inner in line
    moved = line.replace(beside, b"").replace(inner, inner + beside)
    told = LineChecker(trusted).check(moved, 4, document["prev"])
    assert told == check_plainly(moved, 4, document["prev"], trusted)
    assert told[0] == ["entry 4: is not an audit log line"]


def test_a_line_whose_signature_was_made_by_another_key_is_found(lines: list[bytes], keys: Path) -> None:
    document = json.loads(lines[0])
    forged = Ed25519PrivateKey.generate().sign(f"{SIGNED_PREFIX}{document['hash']}".encode()).hex()
    line = lines[0].replace(document["signature"].encode(), forged.encode())
    assert LineChecker(load_trusted_keys(keys)).check(line, 1, "")[0] == ["entry 1: is not signed by a trusted key"]


def test_the_verifier_accepts_nothing_that_openssl_refuses() -> None:
    """What libraries disagree about: points of small order and mixed order, and numbers above the group's order."""
    order = 2**252 + 27742317777372353535851937790883648493
    private = Ed25519PrivateKey.generate()
    honest, text = private.sign(b"hello"), b"hello"
    above = honest[:32] + (int.from_bytes(honest[32:], "little") + order).to_bytes(32, "little")
    one = (1).to_bytes(32, "little")  # the neutral point: as key and nonce, it "signs" every text with zero
    mixed = Ed25519PublicKey.from_public_bytes(bytes.fromhex(MIXED_ORDER_KEY))
    for key, signature, is_right in (
        (private.public_key(), honest, True),
        (private.public_key(), above, False),
        (private.public_key(), honest[:63], False),
        (private.public_key(), b"", False),
        (mixed, bytes.fromhex(MIXED_ORDER_SIGNATURE), False),
    ):
        assert is_signed_by("", text, signature, {"": key}) is is_right
        assert make_verifier(key)(text, signature) is is_right
    small = Ed25519PublicKey.from_public_bytes(one)
    assert make_verifier(small)(text, one + bytes(32)) <= is_signed_by("", text, one + bytes(32), {"": small})


def test_a_checkpoint_is_over_the_bytes_that_were_checked_whatever_stands_there_by_then(
    tmp_path: Path, signer: Signer, keys: Path
) -> None:
    trusted, log = load_trusted_keys(keys), AuditLog(tmp_path / "audit.jsonl", signer)
    log.append("reject", {"request_id": "r1"}, at_ns=1)
    report = check_audit_log(log.path, trusted)
    log.path.write_bytes(log.path.read_bytes().replace(b"reject", b"permit"))
    write_checkpoint(log.path, report, signer)
    assert read_checkpoint(log.path, trusted) is None


def test_lines_swapped_below_a_checkpoint_after_it_was_read_are_found(
    tmp_path: Path, signer: Signer, keys: Path
) -> None:
    trusted, log = load_trusted_keys(keys), AuditLog(tmp_path / "audit.jsonl", signer)
    log.append("reject", {"request_id": "r1"}, at_ns=1)
    write_checkpoint(log.path, check_audit_log(log.path, trusted), signer)
    since = read_checkpoint(log.path, trusted)
    assert since is not None
    log.path.write_bytes(log.path.read_bytes().replace(b"reject", b"permit"))
    problems = check_audit_log(log.path, trusted, since=since).problems
    assert problems == ("the first 1 entries differ from those checked before",)


def test_a_log_that_is_read_in_many_pieces_on_every_core_is_judged_as_in_one(
    tmp_path: Path, signer: Signer, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks of 2,000 bytes: lines cross chunk boundaries, some are longer than a chunk, and two are wrong."""
    trusted, log = load_trusted_keys(keys), AuditLog(tmp_path / "audit.jsonl", signer)
    with log.exclusive() as (_, append):
        append([("note", {"text": "x" * (n * 97 % 3000)}, n) for n in range(60)])
    lines = log.path.read_bytes().split(b"\n")
    lines[20], lines[40] = lines[20].replace(b"note", b"vote"), lines[41]
    log.path.write_bytes(b"\n".join(lines) + b"torn")
    whole = check_audit_log(log.path, trusted, [AuditHead(31, "f" * 64)])
    monkeypatch.setattr(audit_check, "_BLOCK", 2000)
    pieces = check_audit_log(log.path, trusted, [AuditHead(31, "f" * 64)])
    assert pieces == whole
    assert whole.problems == (
        "entry 21: was changed after it was written",
        "entry 41: does not follow the entry before it: lines were removed, added or moved",
        "entry 42: does not follow the entry before it: lines were removed, added or moved",
        "witness 1 remembers a different entry 31: the audit log was rewritten",
    )
    assert whole.notes == ("after entry 60 there is a torn line: still being written, or left by a crash",)
