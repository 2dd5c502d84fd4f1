"""What a person may do from the console; the receiving node checks it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The result, in one line that a person can act on."""

    is_done: bool
    message: str


class Commands(Protocol):
    """The way from a click to the lab's nodes."""

    takes_statements: bool  # whether signed statements can be delivered

    def stop(self, robots: tuple[str, ...], person: str) -> CommandAnswer:
        """Hold these arms at once; needs no signature and waits for nothing."""

    def halt(self, robot: str, person: str, reason: str) -> CommandAnswer:
        """Take robot time back from one robot, or from all if it is empty; needs no signature."""

    def submit(self, envelope: str) -> CommandAnswer:
        """Deliver a signed statement to the node that acts on its kind."""

    def explain(self, request_id: str) -> dict[str, Any] | None:
        """One request as the scheduler sees it now, with the gate's findings rule by rule; None: no answer."""


class NoLab:
    """A console that is connected to no nodes: everything can be viewed, nothing changed."""

    takes_statements = False

    def stop(self, robots: tuple[str, ...], person: str) -> CommandAnswer:
        return CommandAnswer(
            False, "this console is not connected to any robot; use `opc stop` or the stop button at the arm"
        )

    def halt(self, robot: str, person: str, reason: str) -> CommandAnswer:
        return CommandAnswer(False, "this console is not connected to a scheduler; use `opc deploy halt` in a terminal")

    def submit(self, envelope: str) -> CommandAnswer:
        return CommandAnswer(False, "this console is not connected to a scheduler; use `opc deploy` in a terminal")

    def explain(self, request_id: str) -> dict[str, Any] | None:
        return None
