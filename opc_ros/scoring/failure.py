"""What is left out of a score, and why."""

from __future__ import annotations

from dataclasses import dataclass

from opc_ros.errors import OpcError


@dataclass(frozen=True, slots=True)
class Failure:
    """A candidate or an episode that is left out, and why."""

    id: str
    reason: str


def describe_failure(error: Exception) -> str:
    """One line about whatever a candidate or damaged bytes raised."""
    text = " ".join(str(error).split())[:400]
    return text if isinstance(error, OpcError) else f"raised {type(error).__name__}: {text}"
