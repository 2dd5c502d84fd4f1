"""The cost of committing and reading compared with a bare MCAP writer and bare JPEG decoding, in one run."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mcap.records import Channel, Message, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer

from opc_ros.arms.arm import ScriptedArm
from opc_ros.episode import Episode, EpisodeHeader, Frame, Label, LabelSource
from opc_ros.grasp import GraspAction, GraspStep
from opc_ros.store import Store, open_store
from opc_ros.store.episode_writing import CHUNK_BYTES

SUCCESS = Label(is_success=True, source=LabelSource.EPISODE_END)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure (default: the current one)")
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench_store_", dir=arguments.folder or Path.cwd()))
    try:
        with open_store(folder / "store", create=True) as store:
            episodes = [make_episode(number, arguments.steps) for number in range(arguments.episodes)]
            measure_commit(store, episodes, folder)
            measure_reading(store, episodes)
    finally:
        shutil.rmtree(folder)


def make_episode(number: int, steps: int) -> Episode:
    """472x472 frames with camera-like noise, so that a JPEG has about the size and cost of a real one."""
    arm = ScriptedArm("bench")
    rng = np.random.default_rng(number)
    observation = arm.begin(number)
    made = []
    for _ in range(steps):
        noisy = observation.image.astype(np.int16) + rng.integers(-12, 13, observation.image.shape)
        image = np.clip(noisy, 0, 255).astype(np.uint8)
        action = GraspAction(displacement_m=(0.01, 0.0, -0.01))
        frame = Frame.from_image(image, observation.stamp_ns, quality=90)
        made.append(GraspStep(frame=frame, tool=observation.tool, action=action))
        arm.apply(action)
        observation = arm.observe()
    return Episode(f"bench-{number:04d}", "bench", "scripted", tuple(made), SUCCESS)


def measure_commit(store: Store, episodes: list[Episode], folder: Path) -> None:
    """Both write the same messages in the same chunks and sync; the bare writer guarantees nothing beyond that."""
    store.append(episodes[0])
    steps, commit, bare = [], [], []
    for number, episode in enumerate(episodes[1:]):
        # Side by side and alternating, so that both see the same disk.
        begin = read_clocks()
        writer = store.begin(EpisodeHeader(episode.id, episode.robot, "scripted", episode.started_ns))
        for step in episode.steps:
            writer.add_step(step)
        recorded = read_clocks()
        writer.commit(SUCCESS)
        steps.append(recorded - begin)
        commit.append(read_clocks() - recorded)
        records = read_records(next((store.path / "episodes" / "bench").rglob(f"{episode.id}.mcap")))
        begin = read_clocks()
        write_bare(folder / f"bare{number}.mcap", records)
        bare.append(read_clocks() - begin)
    size = sum(len(step.frame.data) for step in episodes[0].steps) / 1e6
    print(f"{len(bare)} episodes of {size:.1f} MB, {len(episodes[0].steps)} steps")
    for clock, name in enumerate(("wall clock", "processor time")):
        for share, told in ((0.5, "median"), (0.1, "tenth percentile, the least disturbed by others")):
            times = (np.quantile([each[clock] for each in values], share) for values in (steps, commit, bare))
            steps_s, commit_s, bare_s = times
            print(f"{name}, {told}: begin and steps {steps_s * 1e3:.2f} ms, commit {commit_s * 1e3:.2f} ms; ", end="")
            print(f"bare MCAP writer and fsync {bare_s * 1e3:.2f} ms")
            print(
                f"  commit / bare: {commit_s / bare_s:.2f}; all / bare: {(steps_s + commit_s) / bare_s:.2f} (goal 1.5)"
            )


def read_clocks() -> np.ndarray:
    """Wall clock and this process's processor time, (2,) in s."""
    return np.array([time.perf_counter(), time.process_time()])


def read_records(path: Path) -> tuple[list[Schema], list[Channel], list[Message]]:
    with path.open("rb") as file:
        records = list(StreamReader(file).records)
    schemas = {record.id: record for record in records if isinstance(record, Schema)}
    channels = {record.id: record for record in records if isinstance(record, Channel)}
    return list(schemas.values()), list(channels.values()), [r for r in records if isinstance(r, Message)]


def write_bare(path: Path, records: tuple[list[Schema], list[Channel], list[Message]]) -> None:
    schemas, channels, messages = records
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=CHUNK_BYTES, compression=CompressionType.NONE)
        writer.start(profile="ros2")
        for schema in schemas:
            writer.register_schema(schema.name, schema.encoding, schema.data)
        for channel in channels:
            writer.register_channel(channel.topic, channel.message_encoding, channel.schema_id)
        for message in messages:
            writer.add_message(message.channel_id, message.log_time, message.data, message.publish_time)
        writer.finish()
        file.flush()
        os.fsync(file.fileno())


def measure_reading(store: Store, episodes: list[Episode]) -> None:
    frames = [step.frame for episode in episodes for step in episode.steps]
    snapshot = store.take_snapshot()
    for frame in frames[:50]:
        frame.decode()
    bare = min(timed(lambda: [frame.decode() for frame in frames]) for _ in range(3))
    ours = min(
        timed(lambda: [s.frame.decode() for e in store.read_snapshot(snapshot) for s in e.steps]) for _ in range(3)
    )
    print(f"bare JPEG decoding: {len(frames) / bare:.0f} frames/s")
    print(f"reading a snapshot for scoring: {len(frames) / ours:.0f} frames/s")
    print(f"reading for scoring / bare JPEG decoding: {bare / ours:.2f} (goal at least 0.80)")


def timed(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
