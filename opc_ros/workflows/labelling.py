"""Labels signed by labellers, for recorders of labs whose people have keys."""

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
    """What a labeller says about a stored episode."""

    episode_id: str
    label: Label
    note: str
    signature: str  # the envelope


class SignedLabels:
    """Checks labels against the people of a keys folder, which is read again for each one."""

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
    """Why a person's unsigned label at the end of an episode does not count where people have keys; empty if it does.

    A label from the arm or a rule is not a person's statement.
    """
    if label.is_success is None or label.source is not LabelSource.PERSON:
        return ""
    return f"label by {label.labeller[:64]!r} with the episode's end: nobody has signed it: {HOW_TO_LABEL}"
