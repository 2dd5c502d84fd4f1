"""What a LeRobot dataset's own columns cannot hold of an episode, so that it can be restored exactly."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from opc_ros.config import parse_config
from opc_ros.documents import canonical_json, parse_json
from opc_ros.episode import Episode, EpisodeHeader, Frame, Label, Step
from opc_ros.errors import EpisodeDamaged, EpisodeError, StoreError
from opc_ros.store.cdr import CdrError
from opc_ros.store.step_codecs import STEP_TYPES, StepCodec, codec_for, codec_of

RECORD = "opc/record"  # a column of meta/episodes


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step without its image's bytes; its numbers are kept as an episode file's message, in full precision."""

    stamp_ns: int
    encoding: str
    width: int
    height: int
    frame_id: str
    message: str  # base64


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """An episode without its images."""

    header: EpisodeHeader
    label: Label
    message_type: str
    steps: tuple[StepRecord, ...]

    def to_json(self) -> str:
        return canonical_json(dataclasses.asdict(self))

    def to_episode(self, images: Sequence[bytes]) -> Episode:
        header = self.header
        if len(images) != len(self.steps):
            raise StoreError(f"episode {header.id}: {len(images)} images for {len(self.steps)} steps")
        if self.message_type not in STEP_TYPES:
            raise StoreError(f"episode {header.id}: steps of type {self.message_type!r}, expected {STEP_TYPES}")
        try:
            codec = codec_of(self.message_type, header)
            steps = tuple(_to_step(codec, *pair) for pair in zip(self.steps, images, strict=True))
        except (CdrError, EpisodeDamaged, binascii.Error, ValueError) as error:
            raise StoreError(f"episode {header.id}: its record is damaged: {error}") from error
        return Episode.from_header(header, steps, self.label)


def describe_episode(episode: Episode) -> EpisodeRecord:
    header = episode.header
    codec = codec_for(header, episode.steps[0])
    steps = tuple(_describe_step(codec, step, index) for index, step in enumerate(episode.steps))
    return EpisodeRecord(header, episode.label, codec.message_type, steps)


def read_record(text: str, *, where: str) -> EpisodeRecord:
    try:
        document = parse_json(text, where=where, error=StoreError)
        return parse_config(document, EpisodeRecord, where=where, error=StoreError)
    except EpisodeError as error:
        raise StoreError(f"{where}: {error}") from error


def embed_image(frame: Frame) -> bytes:
    """Camera bytes unchanged; raw images as PNG, which is lossless."""
    if frame.encoding in ("jpeg", "png"):
        return frame.data
    _, data = cv2.imencode(".png", cv2.cvtColor(frame.decode(), cv2.COLOR_RGB2BGR))
    return data.tobytes()


def _describe_step(codec: StepCodec, step: Step, index: int) -> StepRecord:
    frame, message = step.frame, base64.b64encode(codec.encode(step, index)).decode("ascii")
    return StepRecord(frame.stamp_ns, frame.encoding, frame.width, frame.height, frame.frame_id, message)


def _to_step(codec: StepCodec, record: StepRecord, image: bytes) -> Step:
    message = codec.decode(base64.b64decode(record.message, validate=True))
    return message.with_frame(_to_frame(record, image))


def _to_frame(step: StepRecord, image: bytes) -> Frame:
    data = image
    if step.encoding not in ("jpeg", "png"):
        pixels = cv2.imdecode(np.frombuffer(image, dtype=np.uint8), cv2.IMREAD_COLOR)
        if pixels is None:
            raise StoreError(f"frame at {step.stamp_ns} ns: {len(image)} bytes are not an image")
        ordered = {"bgr8": pixels, "rgb8": pixels[:, :, ::-1], "mono8": pixels[:, :, :1]}.get(step.encoding)
        if ordered is None:
            raise StoreError(f"frame at {step.stamp_ns} ns: encoding {step.encoding!r}, expected rgb8, bgr8 or mono8")
        data = ordered.tobytes()
    return Frame(step.stamp_ns, step.encoding, data, step.width, step.height, step.frame_id)
