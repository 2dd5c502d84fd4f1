"""What people sign, who may say what, and what is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from opc_ros.deployment.dsse import from_text, payload_type, sign_payload, to_text
from opc_ros.deployment.keys import Signer, create_keys, key_id_of
from opc_ros.deployment.people import add_person, load_people, parse_public_key, read_public_key, remove_person
from opc_ros.deployment.signing import find_signer, list_agent_keys, load_person_key, make_person_key
from opc_ros.deployment.statement import (
    LIFE_NS,
    SECOND_NS,
    TYPE,
    DecisionBody,
    NonceMemory,
    RequestBody,
    check_statement,
    read_statement,
    sign_statement,
)
from opc_ros.errors import ConfigError, DeploymentError, StatementRefused
from tests.deployment.ssh_agent import Agent

NOW = 10**18
APPROVAL = DecisionBody("r1", "looks well")


@pytest.fixture
def ada(tmp_path: Path) -> Signer:
    signer = make_person_key(tmp_path, "ada").signer
    assert isinstance(signer, Signer)
    return signer


def check(folder: Path, envelope: str, now_ns: int = NOW, nonces: NonceMemory | None = None, kind: str = "approve"):
    memory = nonces or NonceMemory(lambda: now_ns)
    return check_statement(envelope, (kind,), load_people(folder), now_ns, memory.spend)  # type: ignore[arg-type]


def test_a_statement_says_who_said_what(tmp_path: Path, ada: Signer) -> None:
    said = check(tmp_path, sign_statement("approve", "ada", APPROVAL, ada, NOW))
    assert (said.kind, said.person, said.body) == ("approve", "ada", APPROVAL)


def test_securesystemslib_verifies_a_statement_and_refuses_a_changed_one(tmp_path: Path, ada: Signer) -> None:
    dsse = pytest.importorskip("securesystemslib.dsse")
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    envelope = json.loads(sign_statement("approve", "ada", APPROVAL, ada, NOW))
    public = ada.private_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    key = SSlibKey(ada.key_id, "ed25519", "ed25519", {"public": public})
    dsse.Envelope.from_dict(json.loads(json.dumps(envelope))).verify([key], 1)
    payload = base64.b64decode(envelope["payload"]).replace(b"r1", b"r2")
    envelope["payload"] = base64.b64encode(payload).decode()
    with pytest.raises(VerificationError):
        dsse.Envelope.from_dict(envelope).verify([key], 1)


def forge(envelope: str, old: str, new: str) -> str:
    signed = from_text(envelope)
    assert old in signed.payload
    return to_text(replace(signed, payload=signed.payload.replace(old, new)))


def test_what_is_not_signed_by_whom_it_names_is_refused(tmp_path: Path, ada: Signer) -> None:
    make_person_key(tmp_path, "bob")
    eve = Ed25519PrivateKey.generate()
    stranger = Signer(key_id_of(eve.public_key()), eve)
    good = sign_statement("approve", "ada", APPROVAL, ada, NOW)
    as_permit = to_text(sign_payload(payload_type("permit"), from_text(good).payload, ada))
    for envelope, complaint in (
        ("", "nobody has signed this: sign it with `opc deploy`"),
        ("{}", "statement cannot be read"),
        ("x" * 70_000, "expected at most 64000"),
        (forge(good, '"request_id":"r1"', '"request_id":"r2"'), "is not signed by ada"),
        (forge(good, '"person":"ada"', '"person":"bob"'), "is not signed by bob"),
        (sign_statement("approve", "ada", APPROVAL, stranger, NOW), "is not signed by ada"),
        (sign_statement("approve", "eve", APPROVAL, stranger, NOW), "nobody here is called 'eve'"),
        (as_permit, "statement is of type"),
        (sign_statement("request", "ada", RequestBody("c"), ada, NOW), "says request, expected approve"),
    ):
        with pytest.raises(StatementRefused, match=complaint) as refused:
            check(tmp_path, envelope)
        assert "\n" not in str(refused.value)


def test_words_that_could_be_read_in_two_ways_are_refused_though_they_are_signed(tmp_path: Path, ada: Signer) -> None:
    """Duplicate keys, names that look like another's, two signatures, and a nonce that is another one in disguise."""
    make_person_key(tmp_path, "bob")
    good = sign_statement("approve", "ada", APPROVAL, ada, NOW)
    payload = from_text(good).payload
    nonce = json.loads(payload)["nonce"]

    def sign(text: str) -> str:
        return to_text(sign_payload(TYPE, text, ada))

    outer = json.loads(good)
    for envelope, complaint in (
        (sign(payload.replace('"request_id":"r1"', '"request_id":"r1","request_id":"r2"')), "given twice"),
        (sign(payload.replace('"person":"ada"', '"person":"bob","person":"ada"')), "given twice"),
        (sign(payload.replace('"person":"ada"', '"person":"\\u0430da"')), "nobody here is called"),  # Cyrillic a
        (sign(payload.replace('"person":"ada"', '"person":"ada\\u202e"')), "nobody here is called"),
        (sign(payload.replace('"person":"ada"', '"person":"ada\\u0000"')), "holds a NUL character"),
        (sign(payload.replace('"kind":"approve"', '"kind":"Approve"')), "kind"),
        (sign(payload.replace('"reason":', '"robot":"arm1","reason":')), "robot"),
        (good.replace('"payload":', f'"payload":"{outer["payload"]}","payload":', 1), "given twice"),
        (json.dumps(outer | {"signatures": outer["signatures"] * 2}), "expected a DSSE envelope"),
        (
            good.replace(outer["payload"], outer["payload"][:20] + "\\n" + outer["payload"][20:]),
            "expected a DSSE envelope",
        ),
    ):
        with pytest.raises(StatementRefused, match=complaint):
            check(tmp_path, envelope)
    memory = NonceMemory(lambda: NOW)
    check(tmp_path, good, nonces=memory)
    for disguise in (f'"nonce" : "{nonce}"', '"nonce":"' + "".join(f"\\u{ord(letter):04x}" for letter in nonce) + '"'):
        with pytest.raises(StatementRefused, match="was acted on already"):
            check(tmp_path, sign(payload.replace(f'"nonce":"{nonce}"', disguise)), nonces=memory)


def test_a_statement_counts_once_and_for_five_minutes(tmp_path: Path, ada: Signer) -> None:
    envelope = sign_statement("approve", "ada", APPROVAL, ada, NOW)
    nonces = NonceMemory(lambda: NOW)
    check(tmp_path, envelope, nonces=nonces)
    with pytest.raises(StatementRefused, match="was acted on already"):
        check(tmp_path, envelope, nonces=nonces)
    check(tmp_path, envelope, NOW + LIFE_NS - 1)
    with pytest.raises(StatementRefused, match="signed 300 s ago, too old"):
        check(tmp_path, envelope, NOW + LIFE_NS)
    with pytest.raises(StatementRefused, match="signed 60 s from now"):
        check(tmp_path, envelope, NOW - 60 * SECOND_NS)
    # Nor can a signer give itself a longer life.
    long = json.loads(from_text(envelope).payload) | {"expires_ns": NOW + 10 * LIFE_NS}
    with pytest.raises(StatementRefused, match="too old"):
        check(tmp_path, to_text(sign_payload(TYPE, json.dumps(long), ada)), NOW + LIFE_NS + 1)


def test_a_role_is_needed_and_a_person_who_was_removed_has_none(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    signer = Signer(key_id_of(key.public_key()), key)
    add_person(tmp_path, "bob", key.public_key(), ("requester",))
    envelope = sign_statement("approve", "bob", APPROVAL, signer, NOW)
    with pytest.raises(StatementRefused, match=r"bob is not an approver; .*opc people add bob --role approver"):
        check(tmp_path, envelope)
    add_person(tmp_path, "bob", key.public_key(), ("approver",))
    assert load_people(tmp_path).people["bob"].roles == ("requester", "approver")
    check(tmp_path, envelope)
    remove_person(tmp_path, "bob")
    with pytest.raises(StatementRefused, match="nobody here is called 'bob'"):
        check(tmp_path, envelope)


def test_one_key_belongs_to_one_person(tmp_path: Path, ada: Signer) -> None:
    with pytest.raises((ConfigError, ValueError), match="ada and bob have the same key"):
        add_person(tmp_path, "bob", ada.private_key.public_key(), ("approver",))
    assert list(load_people(tmp_path).people) == ["ada"]


def write_ssh_key(path: Path) -> Ed25519PrivateKey:
    """A key file as `ssh-keygen -t ed25519 -N ''` writes it."""
    key = Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b" bob@lab\n"
    path.with_name(path.name + ".pub").write_bytes(public)
    return key


def test_an_ordinary_ssh_key_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    write_ssh_key(tmp_path / "bob")
    add_person(tmp_path, "bob", read_public_key(tmp_path / "bob.pub"), ("approver",))
    signs = find_signer(tmp_path, tmp_path / "bob")
    assert check(tmp_path, sign_statement("approve", signs.person, APPROVAL, signs.signer, NOW)).person == "bob"
    with pytest.raises(DeploymentError, match="is a private key, which stays with its owner"):
        read_public_key(tmp_path / "bob")
    (tmp_path / "bob").chmod(0o644)
    with pytest.raises(DeploymentError, match="mode is 644, expected 600"):
        load_person_key(tmp_path / "bob")
    with pytest.raises(DeploymentError, match="no key to sign with: `ssh-keygen"):
        find_signer(tmp_path)


def test_a_key_in_the_ssh_agent_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    key = write_ssh_key(tmp_path / "bob")
    add_person(tmp_path, "bob", key.public_key(), ("approver",))
    with Agent(tmp_path / "agent.sock", key) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent.path))
        assert [each.key_id for each in list_agent_keys()] == [key_id_of(key.public_key())]
        signs = find_signer(tmp_path)
        assert check(tmp_path, sign_statement("approve", signs.person, APPROVAL, signs.signer, NOW)).person == "bob"


@pytest.mark.parametrize("text", ["", "ssh-rsa AAAA", "ssh-ed25519 AAAA", "-----BEGIN PUBLIC KEY-----\nx"])
def test_a_file_that_is_no_ed25519_key_is_one_line(text: str) -> None:
    with pytest.raises(DeploymentError) as refused:
        parse_public_key(text)
    assert "\n" not in str(refused.value)


def test_what_was_said_to_one_deployment_counts_in_no_other(tmp_path: Path) -> None:
    """Two labs that trust the same person: a statement overheard in one is worth nothing in the other."""
    here, there = tmp_path / "here", tmp_path / "there"
    own = create_keys(here).key_id
    other = create_keys(there).key_id
    make_person_key(here, "ada")
    key_file = here / "ada.person.pem"
    add_person(there, "ada", load_person_key(key_file).private_key.public_key(), ("approver",))
    signs = find_signer(here, key_file)
    envelope = sign_statement("approve", signs.person, APPROVAL, signs.signer, NOW)
    assert check(here, envelope).deployment == own
    with pytest.raises(StatementRefused, match=f"signed for deployment {own}, this is {other}"):
        check(there, envelope)
    unbound = sign_statement("approve", "ada", APPROVAL, load_person_key(key_file), NOW)
    with pytest.raises(StatementRefused, match="signed for no deployment by name"):
        check(here, unbound)
    # Statements made and acted on before they named a deployment remain evidence.
    assert read_statement(unbound, load_people(here)).person == "ada"
