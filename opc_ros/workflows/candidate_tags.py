"""Tags that people put on candidates, kept beside the registry and never part of an id."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from opc_ros.config import parse_config
from opc_ros.documents import canonical_json, parse_json, read_bytes
from opc_ros.durable import replace_file, wait_for_lock
from opc_ros.errors import CandidateError

FILE_NAME = "tags.json"
FORMAT = 1
MOST_TAGS = 32  # of one candidate
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}")


@dataclass(frozen=True, slots=True)
class _TagFile:
    format_version: int
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by candidate id


class CandidateTags:
    """The tags of a registry's candidates, by id: a candidate that is removed and added again keeps them."""

    def __init__(self, registry: Path) -> None:
        self._path = registry / FILE_NAME

    def read(self) -> Mapping[str, tuple[str, ...]]:
        """The tags of every tagged candidate, in alphabetical order."""
        if not self._path.exists():
            return {}
        document = parse_json(read_bytes(self._path, error=CandidateError), where=str(self._path), error=CandidateError)
        found = parse_config(document, _TagFile, where=str(self._path), error=CandidateError)
        if found.format_version != FORMAT:
            raise CandidateError(f"{self._path}: format_version is {found.format_version}, expected {FORMAT}")
        return found.tags

    def add(self, candidate_id: str, tags: Sequence[str]) -> tuple[str, ...]:
        """Add tags, and return all tags that the candidate now has; adding one twice changes nothing."""
        for tag in tags:
            check_tag(tag)
        with self._changing() as kept:
            now = tuple(sorted({*kept.get(candidate_id, ()), *tags}))
            if len(now) > MOST_TAGS:
                raise CandidateError(f"candidate {candidate_id[:12]}: {len(now)} tags, expected at most {MOST_TAGS}")
            if now:
                kept[candidate_id] = now
        return now

    def remove(self, candidate_id: str, tags: Sequence[str]) -> tuple[str, ...]:
        """Remove tags, and return those that are left; if one of them is not there, nothing is removed."""
        with self._changing() as kept:
            before = kept.pop(candidate_id, ())
            for tag in tags:
                if tag not in before:
                    had = ", ".join(before) or "none"
                    raise CandidateError(f"candidate {candidate_id[:12]}: has no tag {tag!r}, only {had}")
            now = tuple(tag for tag in before if tag not in tags)
            if now:
                kept[candidate_id] = now
        return now

    @contextmanager
    def _changing(self) -> Iterator[dict[str, tuple[str, ...]]]:
        """Lock while reading, changing and writing, so that two people who tag at once both succeed."""
        if not self._path.parent.is_dir():
            raise CandidateError(f"{self._path.parent}: no such folder; `opc candidate add` makes it")
        try:
            lock = os.open(self._path.with_name(f".{FILE_NAME}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise CandidateError(f"{self._path}: {error.strerror or error}") from error
        try:
            wait_for_lock(lock)
            kept = dict(self.read())
            before = dict(kept)
            yield kept
            if kept != before:
                replace_file(self._path, canonical_json(asdict(_TagFile(FORMAT, kept))).encode())
        except OSError as error:
            raise CandidateError(f"{self._path}: {error.strerror or error}") from error
        finally:
            os.close(lock)


def check_tag(tag: str) -> str:
    """Accept only a single word, so that it can be typed, filtered by and shown in a table."""
    if not _TAG.fullmatch(tag):
        raise CandidateError(f"tag {tag!r}: expected up to 40 letters, digits, dots, dashes, underscores or pluses")
    return tag
