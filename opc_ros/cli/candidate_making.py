"""`opc candidate` verbs for your own candidates: export, new, remove, rename and diff."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opc_ros.cli.argument_types import number, whole_number
from opc_ros.cli.candidate_tags import carry_tags

if TYPE_CHECKING:
    from opc_ros.policies.input_spec import InputSpec
    from opc_ros.policies.manifest import CandidateManifest

EXPORT_EXAMPLES = """examples:
  opc candidate export my_policy.py:build --name mine
  opc candidate export my_policy.py:build --name mine --format torch_export --image-size 472
  opc candidate export my_policy.py:build --name mine --arguments image,action
  opc candidate export my_policy.py:build --name cloned --kind policy
  opc candidate export my_policy.py:build --name diffusion --kind policy --samples 16

FILE.py is run, and FUNCTION must return a torch.nn.Module that takes images (rows, 3, size, size)
from 0 to 1, tools (rows, 5: x, y, z, yaw, aperture) and actions (rows, 8: dx, dy, dz, sin, cos,
open, close, terminate), and returns Q (rows,). With --kind policy it takes images and tools, and returns
actions (rows, 8), or with --samples N (rows, N, 8): metres, and flags that are set above 0.5."""


def add_tasks(tasks: Any, add_task: Any) -> None:
    """Add the verbs beside those that only look at candidates."""
    export = add_task(tasks, "export", "export a torch module as a new candidate", _export)
    export.epilog, export.formatter_class = EXPORT_EXAMPLES, argparse.RawDescriptionHelpFormatter
    export.add_argument("module", metavar="FILE.py:FUNCTION", help="function that builds the torch module")
    export.add_argument("--format", choices=("onnx", "torch_export"), default="onnx", help="default: onnx")
    _add_manifest(export)
    export.add_argument(
        "--arguments", help="what it is called with (default: image,tool,action; for a policy image,tool)"
    )
    new = add_task(tasks, "new", "write a manifest for an exported file from its inputs", _new)
    new.add_argument("artifact", type=Path, metavar="FILE", help=".onnx or .pt2")
    _add_manifest(new)
    new.add_argument("--allow-code", action="store_true", help="allow .pt2 files, which can run code of their own")
    remove = add_task(tasks, "remove", "take candidates out of the registry; their folders are kept", _remove)
    remove.add_argument("refs", nargs="+", metavar="CANDIDATE", help="name, folder or beginning of an id")
    rename = add_task(tasks, "rename", "rename a candidate, which changes its id", _rename)
    rename.add_argument("candidate", help="name, folder or beginning of an id")
    rename.add_argument("name", help="the new name")
    diff = add_task(tasks, "diff", "show how two candidates differ", _diff)
    diff.add_argument("first", help="name, folder or beginning of an id")
    diff.add_argument("second", help="the same")


def _add_manifest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help="name of the new candidate")
    parser.add_argument(
        "--kind",
        choices=("q", "policy"),
        default="q",
        help="q: it rates actions; policy: it returns them (default: q)",
    )
    parser.add_argument(
        "--samples", type=whole_number(1), metavar="N", help="actions that a policy returns for each state (default: 1)"
    )
    parser.add_argument(
        "--image-size", type=whole_number(1), metavar="PIXELS", help="side of its images (default: 96, or as found)"
    )
    parser.add_argument(
        "--reduced-decoding",
        action="store_true",
        help="decode JPEG frames no larger than needed, at 1/2, 1/4 or 1/8 of their size: faster, but different pixels",
    )
    parser.add_argument("--family", default="", help="family it belongs to, for reports")
    parser.add_argument(
        "--think", type=number(0.001, 600), default=1.0, metavar="S", help="longest time for an action (default: 1)"
    )


def _export(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.exporting import SUFFIX, build_module, export_candidate
    from opc_ros.policies.input_spec import InputSpec

    size = 96 if arguments.image_size is None else arguments.image_size
    given = arguments.arguments or ("image,tool" if arguments.kind == "policy" else "image,tool,action")
    spec = _checked(InputSpec, size, size, arguments=tuple(given.split(",")))
    manifest = _manifest(arguments, SUFFIX[arguments.format], arguments.format, spec)
    return _register(arguments, lambda folder: export_candidate(build_module(arguments.module), folder, manifest), True)


def _new(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.artifact_signature import read_signature
    from opc_ros.policies.candidate import read_artifact, write_candidate

    artifact_format, spec = read_signature(arguments.artifact, allow_code=arguments.allow_code)
    manifest = _manifest(arguments, arguments.artifact.name, artifact_format, spec)
    data = read_artifact(arguments.artifact)
    return _register(arguments, lambda folder: write_candidate(folder, manifest, data), arguments.allow_code)


def _checked(make: Any, *values: Any, **named: Any) -> Any:
    """Turn a ValueError into an ordinary refusal."""
    from opc_ros.errors import CandidateError

    try:
        return make(*values, **named)
    except ValueError as error:
        raise CandidateError(str(error)) from error


def _manifest(arguments: argparse.Namespace, artifact: str, artifact_format: str, spec: InputSpec) -> CandidateManifest:
    from opc_ros.errors import CandidateError
    from opc_ros.policies.action_search import AnswerDraw, CrossEntropySearch
    from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance

    if arguments.reduced_decoding:
        spec = dataclasses.replace(spec, image_decoding="reduced")
    if arguments.kind != "policy" and arguments.samples is not None:
        raise CandidateError("--samples is given, but only a policy returns actions: add --kind policy")
    search = _checked(AnswerDraw, samples=arguments.samples or 1) if arguments.kind == "policy" else None
    made: CandidateManifest = _checked(
        CandidateManifest,
        FORMAT_VERSION,
        arguments.name,
        artifact,
        artifact_format,
        spec,
        action_search=search or CrossEntropySearch(),
        kind=arguments.kind,
        think_s=arguments.think,
        provenance=Provenance(family=arguments.family),
    )
    return made


def _register(arguments: argparse.Namespace, make: Any, allow_code: bool) -> int:
    import tempfile

    from opc_ros.policies.policy import load_thinker
    from opc_ros.policies.registry import CandidateRegistry

    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder))
        load_thinker(made, allow_code=allow_code).close()
        kept = CandidateRegistry(arguments.candidates).add(made)
    if arguments.json:
        print(json.dumps({"id": kept.id, "name": kept.name, "folder": str(kept.folder)}))
    else:
        print(f"{kept.id[:12]}  {kept.name}  in {kept.folder}")
        print(f"next: opc candidate check {kept.name}{'' if kept.manifest.format == 'onnx' else ' --allow-code'}")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.registry import CandidateRegistry

    registry = CandidateRegistry(arguments.candidates)
    kept = [registry.remove(ref) for ref in arguments.refs]
    if arguments.json:
        print(json.dumps([str(folder) for folder in kept]))
    else:
        for ref, folder in zip(arguments.refs, kept, strict=True):
            print(f"removed {ref}; its folder is {folder}")
    return 0


def _rename(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.registry import CandidateRegistry

    registry = CandidateRegistry(arguments.candidates)
    old = registry.find(arguments.candidate)
    new = registry.rename(arguments.candidate, arguments.name)
    carry_tags(registry.path, old.id, new.id)
    if arguments.json:
        print(json.dumps({"old": old.id, "new": new.id, "folder": str(new.folder)}))
    else:
        print(f"{old.name} ({old.id[:12]}) is now {new.name} ({new.id[:12]}); it has to be scored under its new id")
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    from opc_ros.cli.table import format_table
    from opc_ros.policies.behaviour_identity import behaviour_id
    from opc_ros.policies.registry import CandidateRegistry

    registry = CandidateRegistry(arguments.candidates)
    first, second = registry.find(arguments.first), registry.find(arguments.second)
    pairs = [dict(_flatten(one.manifest.to_document())) for one in (first, second)]
    rows = [
        (key, pairs[0].get(key, "-"), pairs[1].get(key, "-"))
        for key in dict.fromkeys([*pairs[0], *pairs[1]])
        if pairs[0].get(key) != pairs[1].get(key)
    ]
    is_same_artifact = first.artifact_bytes == second.artifact_bytes
    is_same_behaviour = behaviour_id(first) == behaviour_id(second)
    if arguments.json:
        found = {"is_same_artifact": is_same_artifact, "is_same_behaviour": is_same_behaviour}
        print(
            json.dumps(
                found | {"differences": [dict(zip(("key", "first", "second"), row, strict=True)) for row in rows]}
            )
        )
        return 0
    print(format_table(("", first.id[:12], second.id[:12]), rows))
    print(f"artifact: {'the same bytes' if is_same_artifact else 'different bytes'}")
    print(f"behaviour: {'the same: only names and provenance differ' if is_same_behaviour else 'different'}")
    return 0


def _flatten(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}: ")
        else:
            yield f"{prefix}{key}", json.dumps(value) if isinstance(value, list) else str(value)
