"""Messages whose definitions have changed since their file was written, read by the definitions in the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcap.records import Schema
from mcap_ros2.decoder import DecoderFactory

from opc_ros.episode import EpisodeHeader, Frame, Label
from opc_ros.store import schemas
from opc_ros.store.cdr import CdrError
from opc_ros.store.messages import Decoder, EpisodeEvent, label_of, to_event_kind
from opc_ros.store.step_codecs import STEP_TYPES, codec_of
from opc_ros.task import GRASPING

Converter = Callable[[Any], object]


def decoder_for(schema: Schema, header: EpisodeHeader | None) -> Decoder:
    """A function that decodes to the type that today's decoder returns; fields added since have their defaults."""
    is_step = schema.name in STEP_TYPES
    convert = codec_of(schema.name, header).from_fields if is_step else _CONVERTERS.get(schema.name)
    decode = DecoderFactory().decoder_for("cdr", schema)
    if convert is None or decode is None:
        raise CdrError(f"message of type {schema.name!r} defined by {schema.encoding!r}, which no episode has")
    return lambda data: convert(decode(bytes(data)))


def _to_event(message: Any) -> EpisodeEvent:
    return EpisodeEvent(
        stamp_ns=_nanoseconds(message.header.stamp),
        robot=message.robot,
        episode_id=message.episode_id,
        kind=to_event_kind(message.kind),
        behaviour_policy=message.behaviour_policy,
        object_set=message.object_set,
        permit_id=message.permit_id,
        task=getattr(message, "task", "") or GRASPING.name,
        seed=seed if (seed := getattr(message, "seed", -1)) >= 0 else None,
        label=label_of(message.label, message.label_source, message.labeller),
        steps=getattr(message, "steps", 0),
        reason=message.reason,
    )


def _to_label(message: Any) -> tuple[str, Label]:
    return message.episode_id, label_of(message.value, message.source, message.labeller)


def _to_compressed_frame(message: Any) -> Frame:
    header = message.header
    return Frame(_nanoseconds(header.stamp), message.format, bytes(message.data), frame_id=header.frame_id)


def _to_raw_frame(message: Any) -> Frame:
    stamp_ns = _nanoseconds(message.header.stamp)
    return Frame(
        stamp_ns, message.encoding, bytes(message.data), message.width, message.height, message.header.frame_id
    )


def _nanoseconds(stamp: Any) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


_CONVERTERS: dict[str, Converter] = {
    schemas.COMPRESSED_IMAGE: _to_compressed_frame,
    schemas.IMAGE: _to_raw_frame,
    schemas.EPISODE_EVENT: _to_event,
    schemas.LABEL: _to_label,
}
