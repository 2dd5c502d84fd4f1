"""A lab and a robot that share no disk, and a channel between them that fails on demand."""

from __future__ import annotations

import random
from pathlib import Path

from opc_ros.deployment.keys import Signer, create_keys
from opc_ros.deployment.signing import make_machine_key
from opc_ros.errors import LabUnreachable, TransferError
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.registry import CandidateRegistry
from opc_ros.store import open_store
from opc_ros.transfer.call import describe_call, sign_call
from opc_ros.transfer.depot import Depot
from tests.policies.making import make_candidate
from tests.store.grasps import FAILURE, SUCCESS, make_episode


def make_lab(folder: Path, robots: tuple[str, ...] = ("arm1",)) -> dict[str, Signer]:
    """Store, registry and keys below folder/lab; returns the robots' keys."""
    keys = folder / "lab" / "keys"
    create_keys(keys)
    open_store(folder / "lab" / "store", create=True)
    (folder / "lab" / "candidates").mkdir()
    return {robot: make_machine_key(folder / robot / "keys", robot, "robot", keys) for robot in robots}


def open_depot(folder: Path) -> Depot:
    lab = folder / "lab"
    return Depot(lab / "store", lab / "candidates", lab / "keys", lab / "incoming")


def register_candidate(folder: Path, name: str = "c0") -> Candidate:
    return CandidateRegistry(folder / "lab" / "candidates").add(make_candidate(folder / name, name=name, seed=1))


def record(folder: Path, robot: str, *numbers: int) -> dict[str, str]:
    """Episodes on the robot's own disk: their ids and digests."""
    with open_store(folder / robot / "store", create=True) as store:
        made = [
            store.append(make_episode(f"{robot}-{n}", robot=robot, label=SUCCESS if n % 2 else FAILURE, seed=n))
            for n in numbers
        ]
    return {each.id: each.file_sha256 for each in made}


class Wire:
    """Straight to the depot, signed like the robot; `rng` loses requests and responses."""

    def __init__(self, depot: Depot, robot: str, signer: Signer, rng: random.Random | None = None) -> None:
        self.depot, self.robot, self.signer, self.rng = depot, robot, signer, rng
        self.cuts = 0
        self.asked: list[tuple[str, str]] = []

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        self.asked.append((method, path))
        self._perhaps_cut()
        envelope = sign_call(describe_call(self.robot, method, path, body), self.signer)
        answer = self.depot.answer(method, path, envelope, body)
        self._perhaps_cut()
        if answer.status == 200:
            return answer.body
        raise (TransferError if answer.status < 500 else LabUnreachable)(answer.body.decode())

    def _perhaps_cut(self) -> None:
        if self.rng is not None and self.rng.random() < 0.2:
            self.cuts += 1
            raise LabUnreachable("cut")
