"""A deployment's folder: keys, queue and audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opc_ros.deployment.audit_log import PATIENCE_S, AuditLog, find_audit_log
from opc_ros.deployment.keys import Signer, load_signer
from opc_ros.deployment.queue import Queue, ignore_moment
from opc_ros.deployment.queue_reader import QueueReader, look_into_queue
from opc_ros.errors import DeploymentError


@dataclass(frozen=True, slots=True)
class DeploymentFolder:
    """Where a deployment keeps its files."""

    path: Path

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def audit_log(self) -> Path:
        return find_audit_log(self.path)

    def signer(self) -> Signer:
        """The scheduler's key, which signs everything in this folder."""
        self._require()
        return load_signer(self.keys)

    @contextmanager
    def look(self) -> Iterator[QueueReader]:
        """Open the queue read-only; this needs no key and writes nothing."""
        self._require()
        with look_into_queue(self.path) as queue:
            yield queue

    def _require(self) -> None:
        if not self.path.is_dir():
            raise DeploymentError(f"{self.path}: no such folder; begin one with `opc keys create {self.keys}`")

    @contextmanager
    def open(
        self, *, probe: Callable[[str], None] = ignore_moment, patience_s: float = PATIENCE_S
    ) -> Iterator[tuple[Queue, Signer]]:
        """Open the queue with its signing key; several programs may have it open, but only one may schedule."""
        signer = self.signer()
        audit_log = AuditLog(self.audit_log, signer, patience_s=patience_s)
        queue = Queue(self.path, audit_log, probe=probe, patience_s=patience_s)
        try:
            yield queue, signer
        finally:
            queue.close()
