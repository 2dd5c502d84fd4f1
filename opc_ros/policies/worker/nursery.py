"""The program that candidates' processes are forked from: everything is imported here once, before any is confined."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from opc_ros.camera import CameraSpec
from opc_ros.errors import OpcError
from opc_ros.policies.action_search import AnswerDraw, CrossEntropySearch
from opc_ros.policies.candidate import Candidate, candidate_id
from opc_ros.policies.freed_memory import keep_freed_memory
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.loading import warm_up_programs
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, canonical_manifest, parse_manifest
from opc_ros.policies.policy import load_thinker
from opc_ros.policies.q_function import Observations
from opc_ros.policies.stack import LocalStack
from opc_ros.policies.worker.arena import Arena, Layout
from opc_ros.policies.worker.confinement import Limits, confine
from opc_ros.policies.worker.messages import ASK, COMPARE, DECIDE, LOAD, Answer, Request, Spawn, split_parts

CONTROL = 3  # the descriptor that the parent process leaves open


def main() -> int:
    """Fork a process for each request, until nobody can send another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    control = socket.socket(fileno=CONTROL)
    os.set_inheritable(CONTROL, False)
    _warm_up(allow_code="--allow-code" in sys.argv)
    control.send(b"ready")
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, 4096, 3)
        except ConnectionError:  # the caller ended in the middle of a request
            return 0
        if not data:
            return 0
        pid = os.fork()
        if pid == 0:
            _live(Spawn.unpack(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(pid.to_bytes(8, "little"))


def _warm_up(*, allow_code: bool) -> None:
    """Run every kind of candidate once, unconfined: libraries read files when they are first used."""
    import cv2
    import torch

    from opc_ros.policies import onnx_q
    from opc_ros.policies.architectures import build_network, state_hyper_parameters
    from opc_ros.policies.weights import save_weights

    keep_freed_memory()  # candidates' processes inherit it
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    camera = CameraSpec(32, 32, ((0.0, 50.0, 0.0, 16.0), (-50.0, 0.0, 0.0, 43.0), (0.0, 0.0, 0.0, 1.0)))
    seen = Observations(images=np.zeros((1, 32, 32, 3), dtype=np.uint8), tools=np.zeros((1, 5), dtype=np.float32))
    for architecture in ("whole_image", "tool_crop", "target_crop"):
        manifest = CandidateManifest(
            format_version=FORMAT_VERSION,
            name="warm-up",
            artifact="weights.safetensors",
            format="safetensors",
            input=InputSpec(32, 32, camera=camera),
            architecture=architecture,
            hyper_parameters=state_hyper_parameters(architecture),
            action_search=CrossEntropySearch(samples=4, elites=2, rounds=2),
        )
        network = build_network(architecture, manifest.input, manifest.hyper_parameters)
        document = yaml.safe_dump(manifest.to_document()).encode()
        parts = [(document, save_weights(network))]
        _load(parts, allow_code=False, is_coarse=True)  # a confined process can no longer import anything
        stack = _load(parts, allow_code=False)
        actions, _ = stack.decide_on(0, seen, seed=0, first_step=0)
        stack.q_in_one_state(0, seen, actions)
    _warm_up_policy(camera, seen)
    onnx_q.warm_up()
    if allow_code:
        warm_up_programs()


def _warm_up_policy(camera: CameraSpec, seen: Observations) -> None:
    from opc_ros.policies.architectures.policies import build_policy_network, state_policy_parameters
    from opc_ros.policies.weights import save_weights

    manifest = CandidateManifest(
        format_version=FORMAT_VERSION,
        name="warm-up",
        artifact="weights.safetensors",
        format="safetensors",
        input=InputSpec(32, 32, camera=camera, arguments=("image", "tool")),
        architecture="keypoints",
        hyper_parameters=state_policy_parameters("keypoints"),
        action_search=AnswerDraw(),
        kind="policy",
    )
    network = build_policy_network("keypoints", manifest.input, manifest.hyper_parameters)
    document = yaml.safe_dump(manifest.to_document()).encode()
    _load([(document, save_weights(network))], allow_code=False).decide_on(0, seen, seed=0, first_step=0)


def _live(spawn: Spawn, link: int, bytes_file: int, arena_file: int) -> None:
    """The whole life of a candidate's process."""
    asked = socket.socket(fileno=link)
    try:
        parts = _read_parts(bytes_file, spawn.candidates)
        arena = Arena(arena_file, Layout(spawn.image_size, spawn.state_size, spawn.action_size, spawn.candidates))
        confine((link,), Limits(spawn.memory_bytes, spawn.cpu_s, spawn.niceness))
        _answer_until_told(asked, arena, parts, spawn)
    except BaseException as error:  # a process that could not be confined must not run a candidate
        asked.send(Answer(False, f"its process cannot be set up: {type(error).__name__}: {error}").pack())
    finally:
        os._exit(0)


def _read_parts(descriptor: int, candidates: int) -> list[tuple[bytes, bytes]]:
    """Manifest and artifact of each candidate, in the order in which they were written."""
    size = os.fstat(descriptor).st_size
    with open(descriptor, "rb") as file:
        file.seek(0)
        data = file.read(size)
    return split_parts(data, candidates)


def _answer_until_told(link: socket.socket, arena: Arena, parts: Sequence[tuple[bytes, bytes]], spawn: Spawn) -> None:
    stack: LocalStack | None = None
    while data := link.recv(64):
        request = Request.unpack(data)
        try:
            if request.kind == LOAD:
                stack = _load(parts, allow_code=spawn.allow_code, is_coarse=spawn.is_coarse)
            else:
                _think(stack, request, arena)
            answer = Answer(True)
        except MemoryError:
            answer = Answer(False, "needs more memory than a candidate may have")
        except OpcError as error:
            answer = Answer(False, str(error))
        except Exception as error:
            answer = Answer(False, f"raised {type(error).__name__}: {error}")
        link.send(answer.pack())


def _load(parts: Sequence[tuple[bytes, bytes]], *, allow_code: bool, is_coarse: bool = False) -> LocalStack:
    loaded = []
    for manifest_bytes, artifact in parts:
        manifest = parse_manifest(manifest_bytes, where="candidate.yaml")
        identity = candidate_id(canonical_manifest(manifest_bytes, where="candidate.yaml"), artifact)
        candidate = Candidate(identity, manifest, manifest_bytes, artifact, Path())
        loaded.append(load_thinker(candidate, allow_code=allow_code, device="cpu", is_coarse=is_coarse))
    return LocalStack(loaded)


def _think(stack: LocalStack | None, request: Request, arena: Arena) -> None:
    assert stack is not None, "load comes first"
    rows, members = request.rows, request.member_numbers
    seen = arena.observations(rows)
    if request.kind == ASK:
        arena.values(rows, len(members))[:] = stack.q(members, seen, arena.actions(rows).copy())
    elif request.kind == DECIDE:
        actions, values = stack.decide_on(members[0], seen, seed=request.seed, first_step=request.step)
        arena.chosen(rows)[:] = actions
        arena.values(rows)[0] = values
    elif request.kind == COMPARE:
        arena.values(rows)[0] = stack.q_in_one_state(members[0], seen.rows(0, 1), arena.actions(rows).copy())


if __name__ == "__main__":
    sys.exit(main())
