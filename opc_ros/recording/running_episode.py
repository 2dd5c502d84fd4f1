"""One episode while it is being recorded: steps in order, each with the frame it was chosen on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opc_ros.episode import EpisodeHeader, Label
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.recording.frame_buffer import FrameBuffer
from opc_ros.recording.health import FrozenWatch, HealthFinding, HealthLog, check_bounds
from opc_ros.recording.labels import GripperWidthRule
from opc_ros.recording.settings import RecorderSettings

_REASONS_TOLD = 3


@dataclass(frozen=True, slots=True)
class StepReport:
    """A step as an arm reports it: without the image, which comes from the camera with the same timestamp."""

    episode_id: str  # empty: the current episode
    index: int
    stamp_ns: int
    tool: ToolState
    action: GraspAction
    sent: GraspAction | None = None


class RunningEpisode:
    """Collects the steps of one episode; never touches the disk.

    Times are by a monotonic clock. Messages of different topics may overtake each other, so a step may arrive before
    its frame, and an end before the last steps: each waits for `pairing_timeout_s`. What has not arrived by then makes
    the episode incomplete.
    """

    def __init__(self, start: EpisodeHeader, settings: RecorderSettings, mono_ns: int, *, is_by_hand: bool) -> None:
        """For an episode begun by hand, the arm was not told, so its step index may start anywhere."""
        self.start = start
        self.health = HealthLog()
        self._reasons: list[str] = []
        self.frames_missing = 0
        self.began_mono_ns = mono_ns
        self._settings = settings
        self._timeout_ns = int(settings.pairing_timeout_s * 1e9)
        self._frozen = FrozenWatch(frozen_steps=settings.frozen_steps)
        self._waiting: dict[int, tuple[StepReport, int]] = {}  # index -> report, arrival time
        self._next_index: int | None = None if is_by_hand else 0
        self._first_index = 0
        self._heard_ns = mono_ns
        self._ended_ns: int | None = None
        self._steps_told = 0
        self._label = Label()
        self._actions: list[GraspAction] = []
        self._apertures_m: list[float] = []
        self._last_stamp_ns: int | None = None

    @property
    def steps(self) -> int:
        """Number of steps that have their frame."""
        return len(self._actions)

    @property
    def reason(self) -> str:
        """Why it is incomplete; empty if it is not, as far as is known."""
        shown, more = self._reasons[:_REASONS_TOLD], len(self._reasons) - _REASONS_TOLD
        return "; ".join([*shown, f"and {more} more"] if more > 0 else shown)

    @property
    def has_ended(self) -> bool:
        return self._ended_ns is not None

    def note(self, finding: HealthFinding) -> HealthFinding:
        """Remember a problem that occurred during this episode."""
        self.health.add(finding)
        if finding.spoils:
            self._reasons.append(finding.text)
        return finding

    def offer(self, report: StepReport, mono_ns: int) -> Iterator[HealthFinding]:
        """Take a step whose frame has not arrived yet."""
        self._heard_ns = mono_ns
        if self._next_index is None:
            self._next_index = self._first_index = report.index
        if report.index < self._next_index or report.index in self._waiting:
            yield self.note(HealthFinding("steps", f"step {report.index} came twice", spoils=True))
            return
        self._waiting[report.index] = (report, mono_ns)
        violation = check_bounds(report.action, self._settings.bounds, report.index)
        if violation is not None:
            yield self.note(violation)

    def advance(self, frames: FrameBuffer, mono_ns: int) -> Iterator[GraspStep | HealthFinding]:
        """Yield the steps that are complete, in order, and findings about those that will never be."""
        while self._waiting and self._next_index is not None:
            report, came_ns = self._waiting.get(self._next_index, (None, 0))
            if report is None:
                oldest_ns = min(came for _, came in self._waiting.values())
                if mono_ns - oldest_ns < self._timeout_ns:
                    return
                yield self._skip(self._next_index, min(self._waiting))
                continue
            frame = frames.find(report.stamp_ns)
            if frame is None and mono_ns - came_ns < self._timeout_ns:
                return
            del self._waiting[self._next_index]
            self._next_index += 1
            if frame is None:
                self.frames_missing += 1
                text = f"step {report.index}: its frame {frames.explain_absence(report.stamp_ns)}"
                yield self.note(HealthFinding("missing frames", text, spoils=True))
                continue
            step = GraspStep(frame=frame, tool=report.tool, action=report.action, sent=report.sent)
            yield from self._accept(step, report.index)

    def end(self, label: Label, steps_told: int, mono_ns: int) -> None:
        """The arm says that the episode is over, after this many steps; 0 if it does not know."""
        self._ended_ns = mono_ns
        self._steps_told = steps_told
        if self._label.is_success is None:
            self._label = label

    def relabel(self, label: Label) -> None:
        """Take a label that arrives before the episode is written."""
        self._label = label

    def is_settled(self, mono_ns: int) -> bool:
        """Whether an ended episode has everything that it will ever get."""
        if self._ended_ns is None:
            return False
        if mono_ns - self._ended_ns >= self._timeout_ns:
            return not self._waiting or mono_ns - self._heard_ns >= self._timeout_ns
        if self._waiting:
            return False
        if self._steps_told:
            return self._count_told() >= self._steps_told
        return bool(self._actions) and self._actions[-1].terminate

    def check_whole(self) -> None:
        """Once settled, note what is missing at the end."""
        if self._steps_told and self._count_told() != self._steps_told:
            text = f"the arm says {self._steps_told} steps, {self._count_told()} came"
            self.note(HealthFinding("steps", text, spoils=True))
        if not self._actions and not self._reasons:
            self.note(HealthFinding("steps", "no step came", spoils=True))

    def check_alive(self, mono_ns: int) -> str | None:
        """Why an episode that has not ended should be broken off."""
        silent_s = (mono_ns - self._heard_ns) / 1e9
        if silent_s > self._settings.step_timeout_s:
            return f"no step for {silent_s:.0f} s and no end"
        if self.steps >= self._settings.max_steps:
            return f"{self.steps} steps and no end, allowed {self._settings.max_steps}"
        return None

    def decide_label(self) -> Label:
        """The label given by a person or the end event, or else by the gripper's width."""
        if self._label.is_success is not None or not self._settings.has_gripper_rule:
            return self._label
        rule = GripperWidthRule(self._settings.held_from_m, self._settings.held_to_m)
        return rule.label(self._actions, self._apertures_m)

    def _count_told(self) -> int:
        return (self._next_index or 0) - self._first_index

    def _skip(self, begin: int, end: int) -> HealthFinding:
        self._next_index = end
        missing = f"step {begin}" if end == begin + 1 else f"steps {begin} to {end - 1}"
        return self.note(HealthFinding("steps", f"{missing} never came", spoils=True))

    def _accept(self, step: GraspStep, index: int) -> Iterator[GraspStep | HealthFinding]:
        """Check that timestamps increase, and that nothing follows a terminating action."""
        if self._last_stamp_ns is not None and step.frame.stamp_ns <= self._last_stamp_ns:
            back_s = (self._last_stamp_ns - step.frame.stamp_ns) / 1e9
            yield self.note(
                HealthFinding("clock", f"step {index}: its frame's stamp went back by {back_s:.3f} s", spoils=True)
            )
            return
        if self._actions and self._actions[-1].terminate:
            yield self.note(HealthFinding("steps", f"step {index} follows a terminating one", spoils=True))
            return
        self._last_stamp_ns = step.frame.stamp_ns
        self._actions.append(step.action)
        self._apertures_m.append(step.tool.aperture_m)
        frozen = self._frozen.see(step.frame, step.sent or step.action)
        if frozen is not None:
            yield self.note(frozen)
        yield step
