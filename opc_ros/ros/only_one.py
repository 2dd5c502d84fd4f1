"""Make sure that a robot has one node of a kind: a second with its name or its state folder is refused."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from opc_ros.bringup.domain import read_domain
from opc_ros.bringup.lab_names import in_lab
from opc_ros.errors import SetupError


@contextmanager
def only_one(program: str, robot: str, state: Path) -> Iterator[None]:
    """Hold both locks until the process ends, however it ends; raises SetupError if another process holds one."""
    full_name = in_lab(robot).replace("/", "-")
    name = f"opc_ros-{os.getuid()}-domain-{read_domain(os.environ)}-{full_name}-{program}.lock"
    state.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        for path in (state / f"{program}.lock", Path(tempfile.gettempdir()) / name):
            file = held.enter_context(path.open("a+"))
            try:
                # A lock of this process only: a forked child must not keep it after this process has died.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise SetupError(
                    f"robot {robot} has a {program} already, process {holder}, by {path}: stop it first"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        yield
