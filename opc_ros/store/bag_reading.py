"""Messages of a lab's own ROS recording (bag folder, .bag, .db3 or .mcap), whatever program wrote it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opc_ros.errors import EpisodeError, SetupError, StoreError
from opc_ros.progress import Report, ignore_progress

IMAGE_TYPES = ("sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/Image")


@dataclass(frozen=True, slots=True)
class BagMessage:
    """One message, with the times at which it was received and stamped."""

    topic: str
    received_ns: int
    content: Any

    @property
    def stamp_ns(self) -> int:
        """Its header's timestamp, or the time of receipt if it has none."""
        stamp = getattr(getattr(self.content, "header", None), "stamp", None)
        stamped_ns = 0 if stamp is None else int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
        return stamped_ns or self.received_ns


def read_types(recording: Path) -> dict[str, str]:
    """The type of each topic."""
    with _open(recording) as reader:
        return {link.topic: link.msgtype for link in reader.connections}


def read_messages(
    recording: Path, topics: Collection[str] | None = None, *, report: Report = ignore_progress
) -> Iterator[BagMessage]:
    """All messages of these or all topics, in order of receipt; messages of undescribed types are left out."""
    with _open(recording) as reader:
        links = [link for link in reader.connections if topics is None or link.topic in topics]
        total = sum(link.msgcount for link in links)
        for number, (link, received_ns, data) in enumerate(reader.messages(links)):
            report(number, total)
            if topics is None and link.msgtype not in reader.typestore.types:
                yield BagMessage(link.topic, received_ns, None)
                continue
            yield BagMessage(link.topic, received_ns, reader.deserialize(data, link.msgtype))
        report(total, total)


@contextmanager
def _open(recording: Path) -> Iterator[Any]:
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise SetupError("rosbags is not installed, which imports need: pip install rosbags") from None
    if not recording.exists():
        raise StoreError(f"{recording}: no such recording")
    try:
        with AnyReader([recording], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as reader:
            yield reader
    except (StoreError, EpisodeError):
        raise
    except Exception as error:  # readers of foreign files raise whatever error their content causes
        raise StoreError(f"{recording}: cannot be read: {' '.join(str(error).split())}") from error
