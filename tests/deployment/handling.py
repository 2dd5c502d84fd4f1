"""Acts on signed statements in a lab on disk, as the scheduler's node and `opc deploy` do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from opc_ros.config import load_config
from opc_ros.deployment.audit_log import AuditLog
from opc_ros.deployment.folder import DeploymentFolder
from opc_ros.deployment.gate_rules import GateRules
from opc_ros.deployment.gatekeeper import Gatekeeper
from opc_ros.deployment.history import FILE_NAME
from opc_ros.deployment.queue import Queue
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.store import open_store
from opc_ros.workflows.statements import StatementHandler
from tests.deployment.lab import scheduler_parameters


def make_handler(folder: Path, now: Callable[[], int] = time.time_ns) -> StatementHandler:
    names = {name: Path(str(value)) for name, value in scheduler_parameters(folder).items() if name != "tick_s"}
    state = DeploymentFolder(names["state"])
    gate = Gatekeeper(
        load_config(names["gate"], GateRules),
        names["ranking"],
        lambda: open_store(names["store"]),
        now,
        history=names["state"] / FILE_NAME,
        keys=state.keys,
    )
    rules = load_config(names["rules"], SchedulerRules)
    queue = Queue(names["state"], AuditLog(state.audit_log, state.signer()))
    return StatementHandler(queue, state.keys, rules, gate, names["candidates"], names["store"], now)
