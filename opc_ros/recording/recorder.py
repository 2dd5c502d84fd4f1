"""Turns streams of frames, steps, events and labels into episodes on disk, or says why not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from opc_ros.episode import EpisodeHeader, Frame, Label, WireMessage
from opc_ros.errors import RecordingError
from opc_ros.grasp import GraspStep
from opc_ros.recording.disk_thread import DiskThread
from opc_ros.recording.episode_file import EpisodeFile, RecordingOutcome
from opc_ros.recording.episode_id import check_episode_id, make_episode_id
from opc_ros.recording.frame_buffer import FrameBuffer
from opc_ros.recording.health import ClockWatch, DiskWatch, FrameWatch, HealthFinding
from opc_ros.recording.running_episode import RunningEpisode, StepReport
from opc_ros.recording.settings import RecorderSettings
from opc_ros.recording.sink import EpisodeSink
from opc_ros.recording.view import HealthBoard, OutcomeCounts, RecorderView, State
from opc_ros.recording.wire_buffer import WireBuffer
from opc_ros.task import GRASPING


@dataclass(frozen=True, slots=True)
class RecorderEnvironment:
    """Where a recorder reads the time and the free space; tests pass their own."""

    stamp_ns: Callable[[], int]  # the clock of timestamps
    wall_ns: Callable[[], int]
    mono_ns: Callable[[], int]
    free_bytes: Callable[[], int]


class Recorder:
    """One robot's recorder. Runs in the caller's thread, which never waits for the disk: another thread does."""

    def __init__(
        self,
        robot: str,
        settings: RecorderSettings,
        sink: EpisodeSink,
        surroundings: RecorderEnvironment,
        tell: Callable[[RecordingOutcome], None],
    ) -> None:
        """`tell` gets each outcome once the disk has it, in the disk's thread."""
        self._robot = robot
        self._settings = settings
        self._sink = sink
        self._around = surroundings
        self._tell = tell
        self._disk = DiskThread(capacity=settings.queue_capacity)
        self._frames = FrameBuffer(
            max_age_ns=int(settings.frame_buffer_s * 1e9), max_bytes=int(settings.frame_buffer_mb * 1e6)
        )
        self._frame_watch = FrameWatch(
            min_rate_hz=settings.min_frame_rate_hz,
            max_gap_s=settings.max_frame_gap_s,
            max_latency_s=settings.max_frame_latency_s,
        )
        self._clock_watch = ClockWatch(max_jump_s=settings.max_clock_jump_s)
        self._disk_watch = DiskWatch(surroundings.free_bytes, min_free_bytes=int(settings.min_disk_free_mb * 1e6))
        self._running: dict[str, tuple[RunningEpisode, EpisodeFile]] = {}
        self._wire = WireBuffer(max_rate_hz=settings.max_wire_rate_hz)
        self._strays: deque[tuple[StepReport, int]] = deque(maxlen=256)
        self._refused: deque[str] = deque(maxlen=16)
        self._board = HealthBoard()
        self._tally = OutcomeCounts()
        self._frames_received = 0
        self._frames_dropped = 0
        self._refusal = self._check_disk()

    @property
    def running_id(self) -> str:
        """The episode that has begun and not ended; empty if there is none."""
        return next((id for id, (episode, _) in self._running.items() if not episode.has_ended), "")

    @property
    def last_saved_id(self) -> str:
        return self._tally.last_saved_id

    def add_frame(self, frame: Frame) -> None:
        mono_ns = self._around.mono_ns()
        self._frames_received += 1
        findings = self._frame_watch.see(frame.stamp_ns, self._around.stamp_ns(), mono_ns)
        if not self._frames.add(frame, mono_ns):
            findings.append(HealthFinding("clock", f"two frames are stamped {frame.stamp_ns} ns"))
        if self._running:
            for finding in findings:
                self.note(finding)
        self._advance(mono_ns)

    def add_step(self, report: StepReport) -> None:
        mono_ns = self._around.mono_ns()
        episode_id = report.episode_id or self.running_id
        if episode_id in self._running:
            self._give(report, episode_id, mono_ns)
        elif episode_id and episode_id not in self._refused:
            self._strays.append((report, mono_ns))

    def add_wire_message(self, message: WireMessage) -> None:
        """Keep camera info, joint states and the like with the current episode, byte for byte."""
        self._wire.add(message, is_recording=bool(self.running_id))

    def begin(
        self,
        episode_id: str = "",
        behaviour_policy: str = "",
        object_set: str = "",
        permit_id: str = "",
        *,
        task: str = GRASPING.name,
        seed: int | None = None,
        is_by_hand: bool = False,
        stamp_ns: int = 0,
    ) -> str:
        """Start recording; returns the episode's id. Refused if the disk is nearly full.

        `stamp_ns` is when it began, according to whoever plays it; 0: now.
        """
        mono_ns = self._around.mono_ns()
        if is_by_hand and self.running_id:
            raise RecordingError(f"episode {self.running_id} is running: end or discard it first")
        episode_id = check_episode_id(episode_id or make_episode_id(self._robot, self._around.wall_ns()))
        if episode_id in self._running:
            raise RecordingError(f"episode {episode_id} has already begun")
        if self.running_id:
            self._break_off(self.running_id, f"episode {episode_id} began before this one had ended")
        self._refusal = self._check_disk()
        if self._refusal:
            self._refused.append(episode_id)
            raise RecordingError(f"episode {episode_id} is not recorded: {self._refusal}")
        start = EpisodeHeader(
            id=episode_id,
            robot=self._robot,
            behaviour_policy=behaviour_policy or (self._settings.behaviour_policy if is_by_hand else ""),
            began_ns=stamp_ns or self._around.stamp_ns(),
            object_set=object_set or (self._settings.object_set if is_by_hand else ""),
            permit_id=permit_id,
            task=task,
            seed=seed,
        )
        self._frame_watch.restart(mono_ns)
        file = EpisodeFile(self._sink, start)
        self._running[episode_id] = (RunningEpisode(start, self._settings, mono_ns, is_by_hand=is_by_hand), file)
        self._disk.submit(file.open)
        self._wire.begin()
        self._claim_strays(episode_id, mono_ns)
        return episode_id

    def end(self, episode_id: str = "", label: Label | None = None, steps: int = 0) -> str:
        """End the episode; it is written once its last steps have their frames."""
        episode_id = self._require_running(episode_id)
        mono_ns = self._around.mono_ns()
        self._running[episode_id][0].end(label or Label(), steps, mono_ns)
        self._advance(mono_ns)
        return episode_id

    def discard(self, episode_id: str = "", reason: str = "") -> str:
        """Discard the current episode."""
        episode_id = self._require_running(episode_id)
        self._finish(episode_id, "discarded", reason or "discarded on request")
        return episode_id

    def abort(self, episode_id: str = "", reason: str = "") -> str:
        """Abort the current episode, which sends it to quarantine."""
        episode_id = self._require_running(episode_id)
        self._break_off(episode_id, reason or "broken off by the arm")
        return episode_id

    def label(
        self,
        episode_id: str,
        label: Label,
        note: str,
        done: Callable[[int | Exception], None],
        signature: str = "",
    ) -> None:
        """Label an episode, current or stored; `done` gets the revision or the error, possibly in the disk's thread."""
        if episode_id in self._running:
            self._running[episode_id][0].relabel(label)
            done(0)
            return
        self._disk.submit(partial(self._relabel, episode_id, label, note, signature, done))

    def note(self, finding: HealthFinding) -> None:
        """Show a problem, and keep it with the current episode."""
        self._show(finding)
        if self.running_id:
            self._running[self.running_id][0].note(finding)

    def tick(self) -> None:
        """Check clocks and disk, and give up on what does not arrive; call this a few times a second."""
        mono_ns = self._around.mono_ns()
        jump = self._clock_watch.see(self._around.wall_ns(), mono_ns)
        silence = self._frame_watch.check(mono_ns) if self.running_id else []
        for finding in (*silence, *([jump] if jump else [])):
            self.note(finding)
        self._refusal = self._check_disk()
        self._advance(mono_ns)
        running = self.running_id
        reason = self._running[running][0].check_alive(mono_ns) if running else None
        if reason:
            self._break_off(running, reason)
        self._drop_strays(mono_ns)

    def break_off(self, reason: str) -> None:
        """Send everything that is not on its way to the disk yet to quarantine."""
        for episode_id in list(self._running):
            self._break_off(episode_id, reason)

    def close(self, reason: str, timeout_s: float = 5.0) -> bool:
        """Break off what is running and finish what is being written; returns False if the disk takes too long."""
        self.break_off(reason)
        return self._disk.close(timeout_s)

    def add_unlabelled(self, ids: Iterable[str]) -> None:
        """Add earlier episodes that still wait for a label; may be called from any thread."""
        self._tally.add_unlabelled(ids)

    def findings(self) -> tuple[HealthFinding, ...]:
        """Current and recent problems."""
        return self._board.current(self._around.mono_ns())

    def view(self) -> RecorderView:
        running = self.running_id
        state: State = "waiting"
        if running:
            state = "recording"
        elif self._refusal:
            state = "refusing"
        elif self._running or self._disk.is_busy:
            state = "saving"
        return RecorderView(
            state=state,
            reason=self._refusal,
            episode_id=running,
            steps=self._running[running][0].steps if running else 0,
            frames_received=self._frames_received,
            frames_dropped=self._frames_dropped,
            frame_rate_hz=self._frame_watch.rate_hz,
            queue_length=len(self._disk),
            queue_capacity=self._disk.capacity,
            disk_free_bytes=self._disk_watch.free_bytes,
            episodes_saved=self._tally.saved,
            episodes_quarantined=self._tally.quarantined,
            episodes_unlabelled=self._tally.unlabelled,
            last_outcome=self._tally.last_outcome,
            health=tuple(f"{finding.watch}: {finding.text}" for finding in self.findings()),
        )

    def _require_running(self, episode_id: str) -> str:
        running = self.running_id
        if not running:
            raise RecordingError("no episode is running: begin one first")
        if episode_id and episode_id != running:
            raise RecordingError(f"episode {episode_id} is not running, {running} is")
        return running

    def _give(self, report: StepReport, episode_id: str, mono_ns: int) -> None:
        episode, _ = self._running[episode_id]
        for finding in episode.offer(report, mono_ns):
            self._show(finding)
        self._advance(mono_ns)

    def _advance(self, mono_ns: int) -> None:
        """Write the steps that have their frames, and close the episodes that have all their steps."""
        for episode_id, (episode, file) in list(self._running.items()):
            for item in episode.advance(self._frames, mono_ns):
                if isinstance(item, HealthFinding):
                    self._show(item)
                elif not self._disk.offer(partial(file.add, item, self._wire.take())):
                    self._lose(episode, item)
            if episode.is_settled(mono_ns):
                episode.check_whole()
                self._finish(episode_id, "quarantined" if episode.reason else "saved", episode.reason)

    def _lose(self, episode: RunningEpisode, step: GraspStep) -> None:
        self._frames_dropped += 1
        text = f"the frame at {step.frame.stamp_ns} ns was dropped: {self._disk.capacity} steps wait for the disk"
        self._show(episode.note(HealthFinding("queue", text, spoils=True)))

    def _break_off(self, episode_id: str, reason: str) -> None:
        so_far = self._running[episode_id][0].reason
        self._finish(episode_id, "quarantined", f"{reason}; {so_far}" if so_far else reason)

    def _finish(self, episode_id: str, kind: Literal["saved", "quarantined", "discarded"], reason: str) -> None:
        episode, file = self._running.pop(episode_id)
        if beside := self._wire.take():
            self._disk.submit(partial(file.add, None, beside))
        self._frames_dropped += episode.frames_missing
        intended = RecordingOutcome(
            start=episode.start,
            kind=kind,
            reason=reason,
            steps=episode.steps,
            duration_s=(self._around.mono_ns() - episode.began_mono_ns) / 1e9,
            label=episode.decide_label(),
            health=episode.health.lines(),
        )
        self._disk.submit(partial(self._close_file, file, intended))

    def _close_file(self, file: EpisodeFile, intended: RecordingOutcome) -> None:
        outcome = file.close(intended)
        self._tally.add(outcome)
        self._tell(outcome)

    def _relabel(
        self, episode_id: str, label: Label, note: str, signature: str, done: Callable[[int | Exception], None]
    ) -> None:
        try:
            revision = self._sink.label(episode_id, label, note, signature)
        except Exception as error:  # the thread must go on, and `done` needs an answer
            done(error)
            return
        if label.is_success is not None:
            self._tally.forget_unlabelled(episode_id)
        done(revision)

    def _claim_strays(self, episode_id: str, mono_ns: int) -> None:
        """Take over steps that arrived before the event that begins their episode."""
        mine = [report for report, _ in self._strays if report.episode_id == episode_id]
        self._strays = deque((s for s in self._strays if s[0].episode_id != episode_id), maxlen=self._strays.maxlen)
        for report in mine:
            self._give(report, episode_id, mono_ns)

    def _drop_strays(self, mono_ns: int) -> None:
        timeout_ns = int(self._settings.pairing_timeout_s * 1e9)
        while self._strays and mono_ns - self._strays[0][1] >= timeout_ns:
            report, _ = self._strays.popleft()
            text = f"step {report.index} of episode {report.episode_id} is not recorded: no such episode is running"
            self._show(HealthFinding("steps", text))

    def _check_disk(self) -> str:
        finding = self._disk_watch.check()
        if finding is None:
            return ""
        self.note(finding)
        return f"{finding.watch}: {finding.text}"

    def _show(self, finding: HealthFinding) -> None:
        self._board.add(finding, self._around.mono_ns())
