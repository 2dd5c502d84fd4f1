"""`opc store export` and `import`: exchange with LeRobot, and import a lab's own recordings."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opc_ros.cli.progress_bar import progress_bar
from opc_ros.cli.store_arguments import Verbs, add_selection, add_verb, open_existing, read_selection
from opc_ros.cli.table import format_table

if TYPE_CHECKING:
    from opc_ros.progress import Report
    from opc_ros.store import Store
    from opc_ros.store.bag_import import Imported

EXPORT_EXAMPLES = """examples:
  opc store export /data/lerobot/week-46 --snapshot week-46
  opc store export cups --object-set cups --fps 10

Writes a LeRobot dataset of format v3.0 with the images embedded as the camera sent them:
  LeRobotDataset("lab/week-46", root="/data/lerobot/week-46")"""

IMPORT_EXAMPLES = """examples:
  opc store import run1.mcap --inspect                          # topics, types and rates
  opc store import run1.mcap --inspect --mapping mapping.yaml   # and write a first mapping
  opc store import run1.mcap run2_bag/ --mapping mapping.yaml --trial
  opc store import run1.mcap run2_bag/ --mapping mapping.yaml
  opc store import /data/lerobot/week-46                        # reads back what `opc store export` wrote
  opc store import /data/lerobot/aloha --mapping columns.yaml   # any LeRobot dataset, v2.1 or v3

mapping.yaml:
  robot: arm1
  behaviour_policy: teleop
  camera: /camera/image/compressed          # CompressedImage or Image
  tool: {topic: /tool_pose, x_m: pose.position.x, y_m: pose.position.y, z_m: pose.position.z,
         orientation: pose.orientation}     # or yaw_rad: a field
  aperture_m: {topic: /joint_states, field: "position[7]"}
  # without the following: actions are the tool's motion from step to step, one episode for each recording, no label
  action: {topic: /action, dx_m: displacement.x, dy_m: displacement.y, dz_m: displacement.z, close_gripper: close}
  episodes: {topic: /phase, field: data, begin: 1, end: 2}
  label: {topic: /success, field: data}     # or: success, failure
  object_set: cups
  step_s: 0.5                               # without actions: how often a step is taken
  clock: stamp                              # match by the senders' stamps, not by time of receipt

columns.yaml:
  robot: arm1
  behaviour_policy: teleop
  camera: observation.images.top
  tool: {x_m: "observation.state[0]", y_m: "observation.state[1]", z_m: "observation.state[2]",
         yaw_rad: "observation.state[3]"}
  action: {dx_m: "action[0]", dy_m: "action[1]", dz_m: "action[2]", close_gripper: "action[3]"}
  label: next.success

An action belongs to the newest frame before it; several actions between two frames become one."""


def add_parsers(verbs: Verbs[argparse.ArgumentParser]) -> None:
    export = add_verb(verbs, "export", help="write episodes as a LeRobot dataset", examples=EXPORT_EXAMPLES)
    export.add_argument("folder", type=Path, help="a new folder")
    export.add_argument("--snapshot", metavar="REF", help="digest, its beginning, or tag; without it, one is taken")
    export.add_argument("--fps", type=int, help="frames per second to declare (default: the episodes' median rate)")
    add_selection(export)
    export.set_defaults(run=run_export)

    importing = add_verb(
        verbs, "import", help="import episodes from ROS recordings or LeRobot datasets", examples=IMPORT_EXAMPLES
    )
    importing.add_argument(
        "recordings", nargs="+", type=Path, help="bag folders, .bag, .db3 or .mcap files, or LeRobot dataset folders"
    )
    importing.add_argument("--mapping", type=Path, help="YAML file that says what each topic or column holds")
    importing.add_argument(
        "--inspect", action="store_true", help="describe what is in a recording; writes a new --mapping"
    )
    importing.add_argument("--trial", action="store_true", help="only print what would be imported")
    importing.set_defaults(run=run_import)


def run_export(arguments: argparse.Namespace) -> int:
    from opc_ros.errors import StoreError
    from opc_ros.store.lerobot_export import export_lerobot

    if arguments.fps is not None and arguments.fps < 1:
        raise StoreError(f"--fps is {arguments.fps}, expected at least 1")
    store = open_existing(arguments)
    if arguments.folder.exists():
        raise StoreError(f"{arguments.folder}: exists, expected a new folder to export to")
    if arguments.snapshot:
        snapshot = store.snapshot(arguments.snapshot)
    else:
        snapshot = store.take_snapshot(read_selection(arguments))
    with progress_bar("exporting", is_shown=not arguments.json) as report:
        done = export_lerobot(store, snapshot, arguments.folder, fps=arguments.fps, report=report)
    if arguments.json:
        document = {"folder": str(done.folder), "snapshot": snapshot.id, "episodes": done.episodes}
        print(json.dumps({**document, "frames": done.frames, "fps": done.fps}))
    else:
        print(f"{done.folder}: {done.episodes} episodes, {done.frames} frames at {done.fps} fps")
    return 0


def run_import(arguments: argparse.Namespace) -> int:
    from opc_ros.errors import StoreError
    from opc_ros.store import open_store

    if absent := [str(recording) for recording in arguments.recordings if not recording.exists()]:
        raise StoreError(f"{absent[0]}: no such file or folder")
    if arguments.inspect:
        return _inspect(arguments)
    store = None if arguments.trial else open_store(arguments.store, create=True)
    results = []
    for recording in arguments.recordings:
        with progress_bar(recording.name, is_shown=not arguments.json) as report:
            done = _import_one(arguments, recording, store, report)
        results.append(done)
        for line in done.skipped:
            print(f"opc: skipped {line}", file=sys.stderr)
        if not arguments.json:
            verb = "would import" if arguments.trial else "imported"
            print(f"{recording}: {verb} {len(done.episode_ids)} episodes, skipped {len(done.skipped)}")
    if arguments.json:
        print(
            json.dumps(
                [
                    {"recording": str(done.recording), "episodes": done.episode_ids, "skipped": done.skipped}
                    for done in results
                ],
                indent=2,
            )
        )
    return int(any(done.skipped for done in results))


def _import_one(arguments: argparse.Namespace, recording: Path, store: Store | None, report: Report) -> Imported:
    from opc_ros.config import load_config
    from opc_ros.errors import StoreError
    from opc_ros.store.bag_import import import_bag
    from opc_ros.store.bag_mapping import BagMapping
    from opc_ros.store.lerobot_dataset import is_dataset
    from opc_ros.store.lerobot_import import LerobotMapping, import_lerobot

    if is_dataset(recording):
        columns = load_config(arguments.mapping, LerobotMapping) if arguments.mapping else None
        return import_lerobot(store, recording, columns, report=report)
    if arguments.mapping is None:
        raise StoreError(
            f"{recording}: which topic is what? give --mapping FILE; "
            f"`opc store import {recording} --inspect --mapping FILE` writes one to begin with"
        )
    return import_bag(store, recording, load_config(arguments.mapping, BagMapping), report=report)


def _inspect(arguments: argparse.Namespace) -> int:
    import dataclasses

    from opc_ros.errors import StoreError
    from opc_ros.store.bag_inspection import inspect_bag, to_yaml

    if len(arguments.recordings) != 1:
        raise StoreError(f"--inspect looks at one recording, got {len(arguments.recordings)}")
    if arguments.mapping is not None and arguments.mapping.exists():
        raise StoreError(f"{arguments.mapping}: exists, expected a new file to write the mapping to")
    with progress_bar(arguments.recordings[0].name, is_shown=not arguments.json) as report:
        seen = inspect_bag(arguments.recordings[0], report=report)
    if arguments.json:
        document = dataclasses.asdict(seen)
        print(json.dumps(document | {"recording": str(seen.recording)}, indent=2))
    else:
        rows = [
            (
                topic.name,
                topic.type,
                str(topic.messages),
                "-" if topic.rate_hz is None else f"{topic.rate_hz:.1f} Hz",
                "-" if topic.longest_gap_s is None else f"{topic.longest_gap_s:.2f} s",
                topic.note,
            )
            for topic in seen.topics
        ]
        print(f"{seen.recording}: {seen.duration_s:.1f} s")
        print(format_table(("topic", "type", "messages", "rate", "longest gap", ""), rows))
    for line in seen.missing:
        print(f"opc: {seen.recording}: {line}", file=sys.stderr)
    if arguments.mapping is not None and seen.suggestion is not None:
        try:
            arguments.mapping.write_text(to_yaml(seen), encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{arguments.mapping}: {error.strerror or error}") from error
        if not arguments.json:
            print(f"\n{arguments.mapping}: check it, then")
            print(f"  opc store import {seen.recording} --mapping {arguments.mapping} --trial")
    return int(bool(seen.missing))
