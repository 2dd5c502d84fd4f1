"""Recording one episode and committing it: complete, checked and on disk, or not in the store at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from opc_ros.durable import store_error
from opc_ros.episode import EpisodeHeader, Label, Step, WireMessage, check_stamp, check_text
from opc_ros.errors import EpisodeDamaged, EpisodeError, StoreError
from opc_ros.store.commit import claim, commit_file, describe, place_for
from opc_ros.store.episode_writing import EpisodeFileWriter
from opc_ros.store.layout import Place, StoreLayout
from opc_ros.store.quarantine import move_to_quarantine
from opc_ros.store.records import CommittedEpisode


class EpisodeWriter:
    """An episode being recorded; use it from one thread at a time.

    Commit, quarantine or discard finishes it. A writer that is simply dropped, or whose process dies, leaves a `.part`
    file that `recover` puts into quarantine.
    """

    def __init__(
        self,
        layout: StoreLayout,
        header: EpisodeHeader,
        now: Callable[[], int],
        find_committed: Callable[[str], Place | None],
        topics: Mapping[str, str] | None = None,
    ) -> None:
        self._layout = layout
        self._place = place_for(header)
        self._header = header
        self._now = now
        self._problem: str | None = None
        self._is_done = False
        try:
            self._sink = claim(layout, header, find_committed)
        except OSError as error:
            raise store_error(f"episode {header.id}: cannot begin", error) from error
        try:
            self._file = EpisodeFileWriter(self._sink, header, topics)
            self._sink.flush()
        except OSError as error:
            # Nothing was recorded, so the id must stay free for the next attempt.
            self._part.unlink(missing_ok=True)
            self._sink.close()
            raise store_error(f"episode {header.id}: cannot begin", error) from error

    @property
    def header(self) -> EpisodeHeader:
        return self._header

    @property
    def steps(self) -> int:
        return self._file.steps

    def add_step(self, step: Step) -> None:
        """Append one frame and its step; an invalid step is refused and leaves the episode as it was."""
        self._refuse_if_over()
        try:
            self._file.add_step(step)
        except OSError as error:
            raise self._break("cannot write a step", error) from error

    def add_wire_message(self, message: WireMessage) -> None:
        """Keep a message beside the steps: camera info, joint states, static frames."""
        self._refuse_if_over()
        try:
            self._file.add_wire_message(message)
        except OSError as error:
            raise self._break("cannot write a message", error) from error

    def commit(self, label: Label, *, health: tuple[str, ...] = (), ended_ns: int | None = None) -> CommittedEpisode:
        """Put the episode into the store; on return, it is on disk, re-opened and checked.

        `ended_ns` is when the episode ended, by the clock of its beginning; the default is its last frame's timestamp.
        """
        self._refuse_if_over()
        if self.steps == 0:
            raise EpisodeError(f"episode {self._header.id}: has no steps, expected at least one")
        end_ns = self._file.last_stamp_ns if ended_ns is None else ended_ns
        check_stamp(f"episode {self._header.id}: end", end_ns)
        for text in (*health, label.labeller):
            check_text(f"episode {self._header.id}", text)
        try:
            self._file.finish(label, ended_ns=end_ns, health=health)
            self._sink.flush()
            sidecar = describe(
                self._header,
                steps=self.steps,
                label=label,
                ended_ns=end_ns,
                health=health,
                file_sha256=self._sink.sha256(),
                file_bytes=self._sink.tell(),
                committed_ns=self._now(),
            )
            committed = commit_file(self._layout, self._place, sidecar, self._sink)
        except OSError as error:
            raise self._break("cannot commit", error) from error
        except EpisodeDamaged as error:
            self._problem = str(error)
            raise
        self._end()
        return committed

    def quarantine(self, reason: str, *, health: tuple[str, ...] = ()) -> Path:
        """Keep what there is, away from scoring; returns where its file is now."""
        self._refuse_if_done()
        for text in (*health, reason):
            check_text(f"episode {self._header.id}", text)
        if self._problem is None:
            try:
                self._file.abort(reason, ended_ns=self._file.last_stamp_ns, health=health)
                self._sink.flush()
                os.fsync(self._sink.descriptor)
            except OSError as error:
                self._break("cannot finish the file", error)
        try:
            kept = move_to_quarantine(
                self._layout,
                (self._part,),
                episode_id=self._header.id,
                robot=self._header.robot,
                reason=reason if self._problem is None else f"{reason} ({self._problem})",
                steps=self.steps,
                health=health,
                now_ns=self._now(),
            )
        except OSError as error:
            raise store_error(f"episode {self._header.id}: stays at {self._part}, cannot quarantine", error) from error
        self._end()
        return kept

    def discard(self) -> None:
        """Delete the episode."""
        self._refuse_if_done()
        try:
            self._part.unlink(missing_ok=True)
        except OSError as error:
            raise store_error(f"episode {self._header.id}: cannot discard", error) from error
        self._end()

    @property
    def _part(self) -> Path:
        return self._layout.file_part(self._place)

    def _break(self, what: str, error: OSError) -> StoreError:
        broken = store_error(f"episode {self._header.id}: {what}", error)
        self._problem = self._problem or str(broken)
        return broken

    def _refuse_if_over(self) -> None:
        self._refuse_if_done()
        if self._problem is not None:
            raise StoreError(f"{self._problem}; only quarantine or discard are left")

    def _refuse_if_done(self) -> None:
        if self._is_done:
            raise StoreError(f"episode {self._header.id}: already committed, quarantined or discarded")

    def _end(self) -> None:
        self._is_done = True
        self._sink.close()
