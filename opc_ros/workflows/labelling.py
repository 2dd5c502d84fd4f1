"""Labels that a labeller signed, for recorders whose lab has people with keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opc_ros.deployment.people import load_people
from opc_ros.deployment.statement import LabelBody, NonceMemory, check_statement
from opc_ros.episode import Label, LabelSource

HOW_TO_LABEL = "use `opc store label` or the console, which sign for you"


@dataclass(frozen=True, slots=True)
class SaidLabel:
    """What a labeller says of one stored episode."""

    episode_id: str
    label: Label
    note: str
    signature: str  # the envelope


class SignedLabels:
    """Checks labels against the people of a keys folder, which is read for each one."""

    def __init__(self, keys: Path, now: Callable[[], int]) -> None:
        self._keys = keys
        self._now = now
        self._nonces = NonceMemory(now)

    def check(self, envelope: str) -> SaidLabel:
        statement = check_statement(envelope, ("relabel",), load_people(self._keys), self._now(), self._nonces.spend)
        label = to_label(statement.body, statement.person)
        return SaidLabel(statement.body.episode_id, label, statement.body.note, envelope)


def to_label(body: LabelBody, person: str) -> Label:
    if body.label == "none":
        return Label()
    if body.label == "excluded":
        return Label(source=LabelSource.EXCLUDED, labeller=person)
    return Label(is_success=body.label == "success", source=LabelSource.PERSON, labeller=person)


def unsigned_persons_label(label: Label) -> str:
    """Why a label that came with an episode's end does not count where people have keys; empty where it does.

    What an arm or a rule tells by itself is no person's word.
    """
    if label.is_success is None or label.source is not LabelSource.PERSON:
        return ""
    return f"label by {label.labeller[:64]!r} with the episode's end: nobody has signed it: {HOW_TO_LABEL}"
