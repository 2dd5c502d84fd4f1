"""A key pair, a clock that only tests move, a robot that checks permits, and a fleet under a scheduler."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from opc_ros.deployment.audit_log import AuditHead, AuditLog
from opc_ros.deployment.dsse import Signed
from opc_ros.deployment.journal import RobotJournal
from opc_ros.deployment.keys import Signer, create_keys, load_signer, load_trusted_keys
from opc_ros.deployment.permit import Permit, Rung, sign_permit
from opc_ros.deployment.verifier import PermitVerifier
from tests.deployment.clock import SECOND, Clock
from tests.deployment.fleet import Fleet, make_rules

CANDIDATE = "c" * 64


@dataclass
class Robot:
    """One robot's side: its folder survives `restart`."""

    folder: Path
    keys: Path
    clock: Clock

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.journal = RobotJournal(self.folder / "journal.db", self.clock())
        self.audit_log = AuditLog(self.folder / "audit.jsonl")
        self.verifier = PermitVerifier(
            "arm1",
            frozenset({Rung.REDUCED, Rung.FULL}),
            lambda: load_trusted_keys(self.keys),
            self.journal,
            self.audit_log,
            self.clock,
        )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory: these tests wait for the disk thousands of times, and none of them pulls a plug."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    create_keys(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture
def signer(keys: Path) -> Signer:
    return load_signer(keys)


@pytest.fixture
def robot(tmp_path: Path, keys: Path, clock: Clock) -> Robot:
    return Robot(tmp_path / "robot", keys, clock)


@pytest.fixture
def permit(clock: Clock) -> Permit:
    return Permit(
        permit_id="p1",
        lease_id="lease1",
        candidate_id=CANDIDATE,
        robot="arm1",
        rung=Rung.REDUCED,
        episodes=3,
        issued_ns=clock(),
        expires_ns=clock() + 600 * SECOND,
        audit_head=AuditHead(4, "d" * 64),
    )


@pytest.fixture
def issue(permit: Permit, signer: Signer) -> Callable[..., Signed]:
    """Sign the sample permit with some fields changed."""
    return lambda **changes: sign_permit(replace(permit, **changes), signer)


@pytest.fixture
def fleet(folder: Path) -> Fleet:
    made = Fleet(folder, make_rules())
    made.start()
    return made
