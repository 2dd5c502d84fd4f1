"""Reading episodes with our own CDR and MCAP reader, and with mcap and mcap-ros2-support, compared with JPEG decoding.

python -m tests.benchmarks.bench_episode_reading
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from opc_ros.episode import Episode, Frame
from opc_ros.grasp import GraspAction, GraspStep, ToolState
from opc_ros.store import open_store
from opc_ros.store.episode_reading import read_whole
from tests.benchmarks.timing import fastest_s

STEPS = 10
SIDE = 472


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_episode_reading_") as folder:
        data = _write(Path(folder))
    frames = [step.frame for step in read_whole(data, where="bench").steps]
    ours = fastest_s(lambda: read_whole(data, where="bench"), arguments.rounds, time.perf_counter)
    theirs = fastest_s(lambda: _read_with_mcap(data), arguments.rounds, time.perf_counter)
    decoding = fastest_s(lambda: [frame.decode() for frame in frames], max(5, arguments.rounds // 4), time.perf_counter)
    per_step_us = 1e6 / STEPS
    print(f"our reader:                  {ours * per_step_us:8.1f} us a step")
    print(f"mcap with mcap-ros2-support: {theirs * per_step_us:8.1f} us a step, {theirs / ours:.1f} times ours")
    print(f"JPEG decoding ({SIDE}x{SIDE}):    {decoding * per_step_us:8.1f} us a step")
    print(
        f"reading an episode with its images: {(theirs + decoding) / (ours + decoding):.2f} times as long with theirs"
    )
    print(f"load average beside these figures: {os.getloadavg()[0]:.1f}")


def _write(folder: Path) -> bytes:
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (SIDE // 8, SIDE // 8, 3), dtype=np.uint8).repeat(8, axis=0).repeat(8, axis=1)
    tool = ToolState(0.5, 0.0, 0.3, 0.0, 0.08)
    steps = tuple(
        GraspStep(Frame.from_image(smooth, (index + 1) * 100_000_000), tool, GraspAction()) for index in range(STEPS)
    )
    with open_store(folder, create=True) as store:
        store.append(Episode("e1", "arm1", "bench", steps))
    (path,) = folder.rglob("e1.mcap")
    return path.read_bytes()


def _read_with_mcap(data: bytes) -> list[object]:
    reader = make_reader(io.BytesIO(data), validate_crcs=True, decoder_factories=[DecoderFactory()])
    return [item.decoded_message for item in reader.iter_decoded_messages(log_time_order=False)]


if __name__ == "__main__":
    main()
