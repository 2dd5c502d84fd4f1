"""A stop that an arm in this process keeps until it is lifted."""

from __future__ import annotations

from opc_ros.errors import ArmStopped


class StoppableArm:
    """What arms without a driver have in common: a name, and a stop that stays."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stop_reason: str | None = None

    @property
    def name(self) -> str:
        return self._name

    def stop(self, reason: str) -> None:
        """May come from another thread."""
        self._stop_reason = reason

    def release(self) -> None:
        self._stop_reason = None

    def close(self) -> None:
        self._stop_reason = self._stop_reason or "closed"

    def _refuse_if_stopped(self) -> None:
        if self._stop_reason is not None:
            raise ArmStopped(f"arm {self._name}: stopped ({self._stop_reason}); release it first")
