"""Conversion between the ROS 2 messages of an episode file and our own types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from opc_ros.episode import Frame, Label, LabelSource
from opc_ros.errors import EpisodeError
from opc_ros.store import schemas
from opc_ros.store.cdr import Bytes, CdrError, CdrReader, CdrWriter
from opc_ros.task import GRASPING

Decoder = Callable[[Bytes], object]

COMPRESSED_ENCODINGS = ("jpeg", "png")
BYTES_PER_PIXEL = {"rgb8": 3, "bgr8": 3, "mono8": 1}

UNLABELLED = Label()

# Label.msg numbers its sources in this order.
_SOURCES = (
    LabelSource.NONE,
    LabelSource.EPISODE_END,
    LabelSource.GRIPPER_WIDTH,
    LabelSource.PERSON,
    LabelSource.IMPORT,
)
_VALUES = (None, False, True)


class EventKind(IntEnum):
    """The kinds of EpisodeEvent.msg that are written to files."""

    BEGIN = 0
    END = 1
    ABORT = 3


@dataclass(frozen=True, slots=True)
class EpisodeEvent:
    """An episode begins, ends or is broken off."""

    stamp_ns: int
    robot: str
    episode_id: str
    kind: EventKind
    behaviour_policy: str = ""
    object_set: str = ""
    permit_id: str = ""
    task: str = GRASPING.name
    seed: int | None = None
    label: Label = UNLABELLED
    steps: int = 0  # with END: number of steps in the episode; 0 if unknown
    reason: str = ""


def encode_frame(frame: Frame) -> tuple[bytes, bytes]:
    """CompressedImage for jpeg and png, Image for raw encodings, in two pieces: the second is the camera's bytes."""
    writer = CdrWriter()
    writer.header(frame.stamp_ns, frame.frame_id)
    data = bytes(frame.data)  # the same object, unless it is mutable
    if frame.encoding in COMPRESSED_ENCODINGS:
        writer.string(frame.encoding)
        return writer.finish_with(data)
    writer.uint32(frame.height)
    writer.uint32(frame.width)
    writer.string(frame.encoding)
    writer.boolean(False)  # is_bigendian
    writer.uint32(frame.width * BYTES_PER_PIXEL[frame.encoding])
    return writer.finish_with(data)


def decode_compressed_image(data: Bytes) -> Frame:
    reader = CdrReader(data)
    stamp_ns, frame_id = reader.header()
    encoding = reader.string()
    if encoding not in COMPRESSED_ENCODINGS:
        raise CdrError(f"image has format {encoding!r}, expected {' or '.join(COMPRESSED_ENCODINGS)}")
    pixels = reader.blob()
    reader.finish()
    return Frame(stamp_ns=stamp_ns, encoding=encoding, data=pixels, frame_id=frame_id)


def decode_image(data: Bytes) -> Frame:
    reader = CdrReader(data)
    stamp_ns, frame_id = reader.header()
    height = reader.uint32()
    width = reader.uint32()
    encoding = reader.string()
    reader.boolean()
    row_bytes = reader.uint32()
    pixels = reader.blob()
    reader.finish()
    expected = width * BYTES_PER_PIXEL.get(encoding, 0)
    if row_bytes != expected or len(pixels) != expected * height or not pixels:
        raise CdrError(f"image {width}x{height} {encoding!r} has {len(pixels)} bytes in rows of {row_bytes}")
    return Frame(stamp_ns=stamp_ns, encoding=encoding, data=pixels, width=width, height=height, frame_id=frame_id)


def encode_event(event: EpisodeEvent) -> bytes:
    writer = CdrWriter()
    writer.header(event.stamp_ns)
    writer.string(event.robot)
    writer.string(event.episode_id)
    writer.uint8(event.kind)
    writer.string(event.behaviour_policy)
    writer.string(event.object_set)
    writer.string(event.permit_id)
    writer.string(event.task)
    writer.int64(-1 if event.seed is None else event.seed)
    writer.uint8(_VALUES.index(event.label.is_success))
    writer.uint8(_SOURCES.index(event.label.source))
    writer.string(event.label.labeller)
    writer.uint32(event.steps)
    writer.string(event.reason)
    return writer.finish()


def decode_event(data: Bytes) -> EpisodeEvent:
    reader = CdrReader(data)
    stamp_ns, _ = reader.header()
    robot = reader.string()
    episode_id = reader.string()
    kind = to_event_kind(reader.uint8())
    policy, object_set, permit_id = reader.string(), reader.string(), reader.string()
    task, seed = reader.string(), reader.int64()
    label = _read_label_fields(reader)
    steps = reader.uint32()
    reason = reader.string()
    reader.finish()
    return EpisodeEvent(
        stamp_ns=stamp_ns,
        robot=robot,
        episode_id=episode_id,
        kind=kind,
        behaviour_policy=policy,
        object_set=object_set,
        permit_id=permit_id,
        task=task or GRASPING.name,
        seed=seed if seed >= 0 else None,
        label=label,
        steps=steps,
        reason=reason,
    )


def encode_label(label: Label, *, episode_id: str, stamp_ns: int) -> bytes:
    """The label that an episode is committed with; later labels are not in its file."""
    writer = CdrWriter()
    writer.string(episode_id)
    writer.uint8(_VALUES.index(label.is_success))
    writer.uint8(_SOURCES.index(label.source))
    writer.string(label.labeller)
    writer.uint32(0)  # revision
    writer.time(stamp_ns)
    writer.string("")  # note
    return writer.finish()


def decode_label(data: Bytes) -> tuple[str, Label]:
    """The episode's id, and its label."""
    reader = CdrReader(data)
    episode_id = reader.string()
    label = _read_label_fields(reader)
    reader.uint32()
    reader.time()
    reader.string()
    reader.finish()
    return episode_id, label


# By message type; steps have codecs of their own.
DECODERS: dict[str, Decoder] = {
    schemas.COMPRESSED_IMAGE: decode_compressed_image,
    schemas.IMAGE: decode_image,
    schemas.EPISODE_EVENT: decode_event,
    schemas.LABEL: decode_label,
}


def to_event_kind(number: int) -> EventKind:
    try:
        return EventKind(number)
    except ValueError:
        known = ", ".join(f"{kind} ({kind.name})" for kind in EventKind)
        raise CdrError(f"event is of kind {number}, expected {known}") from None


def label_of(value: int, source: int, labeller: str) -> Label:
    """Label.msg's numbers as a label."""
    if value >= len(_VALUES) or source >= len(_SOURCES):
        raise CdrError(f"label is {value} from source {source}, expected below {len(_VALUES)} and {len(_SOURCES)}")
    try:
        return Label(is_success=_VALUES[value], source=_SOURCES[source], labeller=labeller)
    except EpisodeError as error:
        raise CdrError(str(error)) from error


def _read_label_fields(reader: CdrReader) -> Label:
    return label_of(reader.uint8(), reader.uint8(), reader.string())
