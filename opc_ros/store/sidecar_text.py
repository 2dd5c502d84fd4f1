"""Parsing a sidecar by its exact spelling, for reading very many: no JSON parser, and the seal proves every value."""

from __future__ import annotations

import functools
import hashlib
import re

from opc_ros.episode import Label, LabelSource
from opc_ros.store.records import Sidecar

_TEXT = r'"([^"\\\x00-\x1f]*)"'
_WHOLE = r"(0|[1-9]\d{0,18})"
_SPELLING = re.compile(
    r'\{\n  "format": "opc_ros\.episode",\n  "version": ([12]),\n'
    rf'  "id": {_TEXT},\n  "robot": {_TEXT},\n  "behaviour_policy": {_TEXT},\n  "object_set": {_TEXT},\n'
    rf'  "permit_id": {_TEXT},\n  "began_ns": {_WHOLE},\n  "duration_ns": {_WHOLE},\n  "steps": {_WHOLE},\n'
    rf'  "label": \{{\n    "is_success": (true|false|null),\n    "source": {_TEXT},\n    "labeller": {_TEXT}\n  \}},\n'
    rf'  "file_sha256": {_TEXT},\n  "file_bytes": {_WHOLE},\n  "health": \[\],\n  "committed_ns": {_WHOLE},\n'
    rf'(?:  "task": {_TEXT},\n  "seed": (null|0|[1-9]\d{{0,18}}),\n)?  "seal": "([0-9a-f]{{64}})"\n\}}\n'
)
_TRUTHS = {"true": True, "false": False, "null": None}
_SOURCES = {source.value: source for source in LabelSource}


def take_apart(data: bytes) -> Sidecar | None:
    """Parse a healthy episode's sidecar as spelled by `encode_document`; None for any other, valid or not.

    The canonical text that the seal covers is assembled from the pieces found. Only what was sealed matches its seal,
    so every piece is exactly the value that was written.
    """
    match = _SPELLING.fullmatch(data.decode())
    if match is None:
        return None
    version, name, robot, policy, object_set, permit, began, duration, steps, *others = match.groups()
    success, source, labeller, sha256, size, committed, task, seed, seal = others
    if (task is None) != (version == "1"):
        return None
    is_older = task is None
    seed_and, task_and = ("", "") if is_older else (f'"seed":{seed},', f'"task":"{task}",')
    text = (
        f'{{"began_ns":{began},"behaviour_policy":"{policy}","committed_ns":{committed},"duration_ns":{duration},'
        f'"file_bytes":{size},"file_sha256":"{sha256}","format":"opc_ros.episode","health":[],"id":"{name}",'
        f'"label":{{"is_success":{success},"labeller":"{labeller}","source":"{source}"}},"object_set":"{object_set}",'
        f'"permit_id":"{permit}","robot":"{robot}",{seed_and}"steps":{steps},'
        f'{task_and}"version":{version}}}'
    )
    if hashlib.sha256(text.encode()).hexdigest() != seal:
        return None
    label = _label(success, source, labeller)
    numbers = (int(began), int(duration), int(steps))
    known = (name, robot, policy, object_set, permit, *numbers, label, sha256, int(size), (), int(committed))
    return Sidecar(*known) if is_older else Sidecar(*known, task, None if seed == "null" else int(seed))


@functools.lru_cache(maxsize=256)  # very many episodes share a few
def _label(success: str, source: str, labeller: str) -> Label:
    return Label(_TRUTHS[success], _SOURCES[source], labeller)
