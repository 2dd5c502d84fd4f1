"""`opc candidate`: add, list, show, tag, check, migrate and average candidates."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opc_ros.cli import candidate_making, candidate_tags
from opc_ros.cli.candidate_tags import read_tags, with_tags

if TYPE_CHECKING:
    from opc_ros.policies.candidate import Candidate
    from opc_ros.policies.check import Defect

EXAMPLES = """examples:
  opc candidate add runs/randomised/step-40000
  opc candidate list
  opc candidate tag randomised-40k wrist-camera night-shift
  opc candidate list --tag wrist-camera
  opc candidate untag randomised-40k night-shift
  opc candidate show randomised-40k
  opc candidate check randomised-40k --store ./store
  opc candidate export my_policy.py:build --name mine
  opc candidate new policy.onnx --name mine
  opc candidate diff mine randomised-40k
  opc candidate rename mine mine-with-wrist-camera
  opc candidate remove mine
  opc candidate migrate candidates/*
  opc candidate average three-of-us first-00600 second-00700 third-00800

A candidate is a folder with candidate.yaml and the file it names: safetensors weights of a
network opc_ros knows, ONNX, torch.export (.pt2) or TorchScript. The last two can run code of
their own and load only with --allow-code; pickles never load."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "candidate",
        help="add, list, tag, check, migrate and average candidates",
        description="Manage candidates, Q functions and policies, and try them before scoring.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    add = _add_task(tasks, "add", "copy candidate folders into the registry", _add)
    add.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folder with candidate.yaml")
    listing = _add_task(tasks, "list", "list all candidates", _list)
    listing.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="only those with this tag; repeat for several"
    )
    show = _add_task(tasks, "show", "show one candidate's manifest and id", _show)
    show.add_argument("candidate", help="name, folder or beginning of an id")
    check = _add_task(tasks, "check", "try one on a few recorded frames and report what is wrong", _check)
    check.add_argument("candidate", help="name, folder or beginning of an id")
    check.add_argument("--store", type=Path, default=Path("store"), help="validation store (default: ./store)")
    check.add_argument("--allow-code", action="store_true", help="load formats that can run code of their own")
    migrate = _add_task(tasks, "migrate", "convert candidate folders from an earlier format", _migrate)
    migrate.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="default: all in the registry")
    migrate.add_argument("--outcomes", type=Path, help="`opc evaluate`'s cache, to carry over to the new ids")
    candidate_tags.add_tasks(tasks, _add_task)
    candidate_making.add_tasks(tasks, _add_task)
    average = _add_task(tasks, "average", "make one candidate whose Q is the mean of several", _average)
    average.add_argument("name", help="name of the new candidate; its folder below --candidates")
    average.add_argument("members", nargs="+", metavar="CANDIDATE", help="name, folder or beginning of an id")
    average.add_argument(
        "--link", action="store_true", help="refer to the members' folders next to it instead of copying their weights"
    )


def _add_task(tasks: Any, name: str, what: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = tasks.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
    parser.add_argument(
        "--candidates", type=Path, default=Path("candidates"), help="registry folder (default: ./candidates)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _add(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.candidate import read_candidate
    from opc_ros.policies.loading import try_candidate
    from opc_ros.policies.registry import CandidateRegistry

    registry = CandidateRegistry(arguments.candidates)
    found = [read_candidate(folder, follows_links=False) for folder in arguments.folders]
    for candidate in found:
        try_candidate(candidate)
    added = [registry.add(candidate) for candidate in found]
    if arguments.json:
        print(json.dumps([_describe(candidate) for candidate in added]))
    else:
        for candidate in added:
            print(f"{candidate.id[:12]}  {candidate.name}  in {candidate.folder}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from opc_ros.cli.table import format_table
    from opc_ros.policies.registry import CandidateRegistry

    kept, unreadable = CandidateRegistry(arguments.candidates).find_each(())
    tags = read_tags(arguments.candidates)
    found = with_tags(kept, arguments.tag, tags)
    if arguments.json:
        print(json.dumps([_describe(candidate) | {"tags": tags.get(candidate.id, ())} for candidate in found]))
    else:
        rows = [
            (
                one.id[:12],
                one.name,
                one.manifest.kind,
                one.manifest.architecture or one.manifest.format,
                one.manifest.provenance.family,
                ", ".join(tags.get(one.id, ())),
            )
            for one in found
        ]
        print(format_table(("id", "name", "kind", "network", "family", "tags"), rows))
    for folder, error in unreadable:
        print(f"opc: {folder} cannot be read: {error}", file=sys.stderr)
    return 1 if unreadable else 0


def _show(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.registry import CandidateRegistry

    candidate = CandidateRegistry(arguments.candidates).find(arguments.candidate)
    tags = read_tags(arguments.candidates).get(candidate.id, ())
    if arguments.json:
        print(json.dumps(_describe(candidate) | {"tags": tags}))
    else:
        print(f"id: {candidate.id}\nfolder: {candidate.folder}\nartifact bytes: {len(candidate.artifact_bytes)}")
        print(f"tags: {', '.join(tags) or 'none'}")
        print(candidate.manifest_bytes.decode().rstrip())
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.check import check_q_function
    from opc_ros.policies.policy_check import check_policy
    from opc_ros.policies.registry import CandidateRegistry
    from opc_ros.policies.worker.loader import PolicyLoader

    candidate = CandidateRegistry(arguments.candidates).find(arguments.candidate)
    states, actions = _read_states(arguments.store, candidate)
    with PolicyLoader(allow_code=arguments.allow_code) as load:
        policy = load(candidate)
        is_policy = candidate.manifest.is_policy
        findings = check_policy(policy, states) if is_policy else check_q_function(policy, states, actions)
    is_usable = not any(finding.is_fatal for finding in findings)
    if arguments.json:
        print(json.dumps({**_describe(candidate), "usable": is_usable, "findings": _plain(findings)}))
    else:
        for finding in findings:
            print(f"{'wrong' if finding.is_fatal else 'note'}: {finding.text}")
        outcome = "can be scored" if is_usable else "cannot be scored"
        print(f"{candidate.name} ({candidate.id[:12]}): tried on {len(actions)} recorded frames; it {outcome}")
    return 0 if is_usable else 1


def _migrate(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.migration import migrate_candidates
    from opc_ros.policies.registry import CandidateRegistry

    folders = arguments.folders or CandidateRegistry(arguments.candidates).folders()
    done = migrate_candidates(folders)
    carried = 0
    if arguments.outcomes:
        from sim_bridge.training.outcome_migration import migrate_outcomes

        carried = len(migrate_outcomes(arguments.outcomes, {one.old_id: one.new_id for one in done}))
    if arguments.json:
        print(json.dumps([{"old": one.old_id, "new": one.new_id, "folder": str(one.folder)} for one in done]))
        return 0
    for one in done:
        print(f"{one.old_id[:12]} -> {one.new_id[:12]}  {one.folder}")
    outcomes = f"; {carried} files of outcomes carried over" if arguments.outcomes else ""
    print(f"{len(done)} of {len(folders)} migrated, their old manifests kept beside the new ones{outcomes}")
    return 0


def _average(arguments: argparse.Namespace) -> int:
    from opc_ros.policies.averaging import average_candidates
    from opc_ros.policies.registry import CandidateRegistry

    registry = CandidateRegistry(arguments.candidates)
    members, _ = registry.find_each(arguments.members)
    made = average_candidates(members, arguments.name, registry.path / arguments.name, is_linked=arguments.link)
    if arguments.json:
        print(json.dumps(_describe(made)))
    else:
        print(f"{made.id[:12]}  {made.name}, the mean of {len(members)}, in {made.folder}")
    return 0


def _read_states(store_path: Path, candidate: Candidate) -> Any:
    """A few recorded frames from different episodes, with the actions taken on them."""
    import itertools

    import numpy as np

    from opc_ros.errors import EmptyValidationSet
    from opc_ros.policies.q_function import Observations
    from opc_ros.store import open_store

    with open_store(store_path) as store:
        steps = [
            step
            for committed in itertools.islice(store.episodes(on_damage=lambda error: None), 4)
            for step in store.read(committed.id).steps[:4]
        ]
    if len(steps) < 2:
        raise EmptyValidationSet(
            f"{store_path}: holds {len(steps)} recorded frames, expected a few to try a candidate on"
        )
    view = candidate.manifest.input.view
    images = np.stack([view.show(step.frame) for step in steps])
    observations = Observations(images=images, tools=np.stack([step.state_vector() for step in steps]))
    return observations, np.stack([step.action_vector() for step in steps])


def _describe(candidate: Candidate) -> dict[str, Any]:
    return {
        "id": candidate.id,
        "folder": str(candidate.folder),
        "artifact_bytes": len(candidate.artifact_bytes),
        "manifest": dataclasses.asdict(candidate.manifest),
    }


def _plain(findings: tuple[Defect, ...]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(finding) for finding in findings]
