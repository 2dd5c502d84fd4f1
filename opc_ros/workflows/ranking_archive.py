"""All rankings by id: which is the newest, and which one the gate reads."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opc_ros.config import parse_config
from opc_ros.deployment.signed_ranking import ENVELOPE_NAME
from opc_ros.documents import canonical_json, parse_json, read_bytes
from opc_ros.durable import make_folder, replace_file, sync_folder
from opc_ros.errors import OpcError, RankingError
from opc_ros.ranking.ranking import Ranking, Scope

NEWEST = "newest"
PUBLISHED = "published"
RANKING = "ranking.json"
REPORT = "report.json"
PAGE = "report.html"
PAGES_KEPT = 50  # of published rankings; older rankings are kept without their pages
_SUMMARY = "summary.json"
_LOG = "published.jsonl"
_ID_SHOWN = 16  # hexadecimal digits in a folder's name


@dataclass(frozen=True, slots=True)
class RankingSummary:
    """What a list of rankings shows; the ranking itself may take megabytes."""

    ranking_id: str
    made_at: str  # ISO 8601, UTC
    metric: str
    prior: float
    snapshot_id: str
    episodes: int
    successes: int
    scope: Scope
    candidates: int
    left_out: int
    best: str  # name of the first


@dataclass(frozen=True, slots=True)
class Publication:
    """Since when the gate has read which ranking."""

    ranking_id: str
    published_at: str  # ISO 8601, UTC


class RankingArchive:
    """One folder for each ranking, named by the beginning of its id, and links to the newest and the published one."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)

    @property
    def q_cache(self) -> Path:
        return self._folder / "q.sqlite"

    def folder_of(self, ranking_id: str) -> Path:
        return self._folder / ranking_id[:_ID_SHOWN]

    def keep(self, ranking: Ranking, *, report: str, page: str, made_at: str) -> Path:
        """Write a ranking and its report; writing the same ranking again renews the report."""
        folder = self.folder_of(ranking.ranking_id)
        summary = summarise_ranking(ranking, made_at)
        files = {
            RANKING: ranking.to_json() + "\n",
            REPORT: report + "\n",
            PAGE: page,
            _SUMMARY: canonical_json(dataclasses.asdict(summary)) + "\n",  # last: a folder without it is not listed
        }
        try:
            make_folder(folder)
            for name, text in files.items():
                replace_file(folder / name, text.encode())
            self._point(NEWEST, folder)
        except OSError as error:
            raise OpcError(f"report in {folder}: {error.strerror or error}") from error
        return folder

    def publish(self, ref: str, *, now: str, sign: Callable[[Ranking], str] | None = None) -> Ranking:
        """Let the gate read this ranking from now on; a ranking of selected candidates is refused.

        `sign` returns the scorer's envelope, which is kept beside the ranking; the gate accepts no ranking without it.
        """
        ranking = self.read(ref)
        if ranking.scope != "registry":
            raise RankingError(
                f"ranking {ranking.ranking_id[:12]}: ranks {len(ranking.candidates)} selected candidates, expected the "
                "whole registry: run `opc score` without naming candidates"
            )
        entry = canonical_json(dataclasses.asdict(Publication(ranking.ranking_id, now)))
        try:
            if sign is not None:
                replace_file(self.folder_of(ranking.ranking_id) / ENVELOPE_NAME, sign(ranking).encode())
            with (self._folder / _LOG).open("a", encoding="utf-8") as log:
                log.write(entry + "\n")
                log.flush()
                os.fsync(log.fileno())
            self._point(PUBLISHED, self.folder_of(ranking.ranking_id))
            self._drop_old_pages()
        except OSError as error:
            raise RankingError(f"{self._folder}: cannot publish: {error.strerror or error}") from error
        return ranking

    def read(self, ref: str) -> Ranking:
        """Read by the beginning of an id, `newest` or `published`; a ranking that does not match its id is refused."""
        folder = self._find(ref)
        text = read_bytes(folder / RANKING, error=RankingError).decode("utf-8", errors="replace")
        ranking = Ranking.from_json(text)
        if not ranking.ranking_id.startswith(folder.name):
            raise RankingError(f"{folder / RANKING}: has id {ranking.ranking_id[:12]}, so it was changed; rank again")
        return ranking

    def summaries(self) -> list[RankingSummary]:
        """All rankings, newest first."""
        if not self._folder.is_dir():
            raise RankingError(f"{self._folder}: no such folder; `opc score` makes it")
        found = [
            parse_config(
                parse_json(read_bytes(path), where=str(path), error=RankingError),
                RankingSummary,
                where=str(path),
                error=RankingError,
            )
            for path in self._folder.glob(f"{'[0-9a-f]' * _ID_SHOWN}/{_SUMMARY}")
        ]
        return sorted(found, key=lambda summary: (summary.made_at, summary.ranking_id), reverse=True)

    def publications(self) -> list[Publication]:
        """What the gate has read, oldest first; a line cut off by a crash is skipped."""
        try:
            lines = (self._folder / _LOG).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RankingError(f"{self._folder / _LOG}: {error.strerror or error}") from error
        found = []
        for line in lines:
            try:
                found.append(parse_config(json.loads(line), Publication, where=_LOG))
            except (ValueError, OpcError):
                continue
        return found

    def published_id(self) -> str:
        """The beginning of the id of the ranking that the gate reads; empty if there is none."""
        link = self._folder / PUBLISHED
        return Path(os.readlink(link)).name if link.is_symlink() else ""

    def _find(self, ref: str) -> Path:
        if ref in (NEWEST, PUBLISHED):
            folder = self._folder / ref
            if not (folder / RANKING).is_file():
                raise RankingError(f"{folder}: no ranking there; `opc score` makes one")
            return folder.resolve()
        known = [path.parent for path in self._folder.glob(f"{'[0-9a-f]' * _ID_SHOWN}/{RANKING}")]
        found = [path for path in known if len(ref) >= 4 and (path.name.startswith(ref) or ref.startswith(path.name))]
        if len(found) != 1:
            raise RankingError(
                f"ranking {ref!r}: {len(found)} of {len(known)} rankings in {self._folder} begin so, expected one: "
                f"give four or more characters of an id, {NEWEST} or {PUBLISHED} (`opc ranking list`)"
            )
        return found[0]

    def _point(self, name: str, folder: Path) -> None:
        """Replace a link atomically: readers see either the old folder or the new one."""
        part = self._folder / f".{name}.{os.getpid()}.part"
        part.unlink(missing_ok=True)
        part.symlink_to(folder.name)
        part.replace(self._folder / name)
        sync_folder(self._folder)

    def _drop_old_pages(self) -> None:
        """Delete old pages, which would fill the disk of a busy scorer; the rankings are evidence and stay."""
        ids = list(dict.fromkeys(entry.ranking_id for entry in reversed(self.publications())))
        for ranking_id in ids[PAGES_KEPT : 2 * PAGES_KEPT]:
            for name in (PAGE, REPORT):
                (self.folder_of(ranking_id) / name).unlink(missing_ok=True)


def summarise_ranking(ranking: Ranking, made_at: str) -> RankingSummary:
    return RankingSummary(
        ranking_id=ranking.ranking_id,
        made_at=made_at,
        metric=ranking.metric,
        prior=ranking.prior,
        snapshot_id=ranking.snapshot_id,
        episodes=ranking.episodes,
        successes=ranking.successes,
        scope=ranking.scope,
        candidates=len(ranking.candidates),
        left_out=len(ranking.left_out),
        best=ranking.candidates[0].name,
    )
