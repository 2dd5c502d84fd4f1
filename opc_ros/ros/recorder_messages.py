"""The recorder's state as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from opc_interfaces.msg import EpisodeSummary, RecorderStatus

from opc_ros.recording.episode_file import RecordingOutcome
from opc_ros.recording.health import WATCHES, HealthFinding
from opc_ros.recording.view import RecorderView
from opc_ros.ros import convert

_STATES: Mapping[str, int] = {
    "waiting": RecorderStatus.WAITING,
    "recording": RecorderStatus.RECORDING,
    "saving": RecorderStatus.SAVING,
    "refusing": RecorderStatus.REFUSING,
}
_OUTCOMES: Mapping[str, int] = {
    "saved": EpisodeSummary.SAVED,
    "quarantined": EpisodeSummary.QUARANTINED,
    "discarded": EpisodeSummary.DISCARDED,
}


def status_to_msg(view: RecorderView, robot: str, stamp_ns: int, *, is_active: bool) -> RecorderStatus:
    return RecorderStatus(
        header=convert.header(stamp_ns),
        robot=robot,
        state=_STATES[view.state] if is_active else RecorderStatus.INACTIVE,
        reason=view.reason,
        episode_id=view.episode_id,
        steps=view.steps,
        frames_received=view.frames_received,
        frames_dropped=view.frames_dropped,
        frame_rate_hz=view.frame_rate_hz,
        queue_length=view.queue_length,
        queue_capacity=view.queue_capacity,
        disk_free_bytes=view.disk_free_bytes,
        episodes_saved=view.episodes_saved,
        episodes_quarantined=view.episodes_quarantined,
        episodes_unlabelled=view.episodes_unlabelled,
        last_outcome=view.last_outcome,
        health=list(view.health),
    )


def diagnostics_to_msg(
    findings: Sequence[HealthFinding], view: RecorderView, robot: str, stamp_ns: int
) -> DiagnosticArray:
    """One status for each watch, and one for the recorder with its figures."""
    found = {finding.watch: finding for finding in findings}
    figures = {
        "episode": view.episode_id,
        "frame rate (Hz)": f"{view.frame_rate_hz:.1f}",
        "frames received": view.frames_received,
        "frames dropped": view.frames_dropped,
        "steps waiting for the disk": f"{view.queue_length} of {view.queue_capacity}",
        "disk free (MB)": view.disk_free_bytes // 1_000_000,
        "episodes saved": view.episodes_saved,
        "episodes quarantined": view.episodes_quarantined,
        "last outcome": view.last_outcome,
    }
    whole = DiagnosticStatus(
        level=DiagnosticStatus.WARN if view.state == "refusing" else DiagnosticStatus.OK,
        name=f"{robot} recorder",
        message=view.reason or view.state,
        hardware_id=robot,
        values=[KeyValue(key=key, value=str(value)) for key, value in figures.items()],
    )
    watches = [_watch_to_msg(watch, found.get(watch), robot) for watch in WATCHES]
    return DiagnosticArray(header=convert.header(stamp_ns, ""), status=[whole, *watches])


def _watch_to_msg(watch: str, finding: HealthFinding | None, robot: str) -> DiagnosticStatus:
    level = DiagnosticStatus.OK
    if finding is not None:
        level = DiagnosticStatus.ERROR if finding.spoils else DiagnosticStatus.WARN
    return DiagnosticStatus(
        level=level,
        name=f"{robot} recorder: {watch}",
        message=finding.text if finding else "ok",
        hardware_id=robot,
    )


def summary_to_msg(outcome: RecordingOutcome, stamp_ns: int) -> EpisodeSummary:
    start = outcome.start
    return EpisodeSummary(
        header=convert.header(stamp_ns),
        robot=start.robot,
        episode_id=start.id,
        outcome=_OUTCOMES[outcome.kind],
        reason=outcome.reason,
        steps=outcome.steps,
        label=convert.label_to_msg(outcome.label, start.id, stamp_ns=stamp_ns),
        started=convert.stamp_from_ns(start.began_ns),
        duration_s=outcome.duration_s,
        file_sha256=outcome.saved.sha256 if outcome.saved else "",
        file_bytes=outcome.saved.file_bytes if outcome.saved else 0,
        health=list(outcome.health),
    )
