"""Makes one candidate of several: its Q is the mean of theirs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from opc_ros.durable import replace_file
from opc_ros.errors import CandidateError
from opc_ros.policies import members as linking
from opc_ros.policies.architectures import Average
from opc_ros.policies.candidate import Candidate, read_candidate, write_candidate
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance
from opc_ros.policies.weights import load_network, save_weights


def average_candidates(members: Sequence[Candidate], name: str, folder: Path, *, is_linked: bool = False) -> Candidate:
    """Write a candidate folder with the members' weights side by side; the folder must not exist yet.

    With links, it refers to the members' folders, which lie beside it, and holds no weights of its own; the id is the
    same.
    """
    _check_alike(members)
    for member in members if is_linked else ():
        if member.folder.absolute().parent != folder.absolute().parent:
            raise CandidateError(f"{member.folder}: not beside {folder}, so the average cannot link to it")
    if folder.exists():
        raise CandidateError(f"{folder}: already exists; remove it or choose another name")
    first = members[0].manifest
    networks = [load_network(member.manifest, member.artifact_bytes) for member in members]
    try:
        manifest = CandidateManifest(
            format_version=FORMAT_VERSION,
            name=name,
            artifact="weights.safetensors",
            format="safetensors",
            input=first.input,
            architecture="average",
            hyper_parameters={
                "architecture": first.architecture,
                "hyper_parameters": first.hyper_parameters,
                "members": len(members),
            },
            action_search=first.action_search,
            think_s=first.think_s,
            provenance=Provenance(
                family=f"average of {len(members)}", training_run=name, notes=f"average of {_list_names(members)}"
            ),
        )
    except ValueError as error:
        raise CandidateError(str(error)) from error
    made = write_candidate(folder, manifest, save_weights(Average(first.input, networks)))
    return link_members(made, members) if is_linked else made


def link_members(average: Candidate, members: Sequence[Candidate]) -> Candidate:
    """Replace an average's own copy of the weights with references to its members; the id stays the same."""
    if (
        linking.join_weights([member.artifact_bytes for member in members], where=average.name)
        != average.artifact_bytes
    ):
        raise CandidateError(f"candidate {average.name}: its weights are not those of {_list_names(members)}")
    listed = linking.Members(
        format_version=linking.FORMAT_VERSION,
        artifact_sha256=hashlib.sha256(average.artifact_bytes).hexdigest(),
        members=tuple(linking.Member(member.folder.name, member.id) for member in members),
    )
    replace_file(average.folder / linking.MEMBERS_NAME, listed.to_yaml())
    (average.folder / average.manifest.artifact).unlink()
    return read_candidate(average.folder)


def _check_alike(members: Sequence[Candidate]) -> None:
    """Only networks of one architecture with the same input can be averaged."""
    if len({member.id for member in members}) < max(2, len(members)):
        raise CandidateError(f"{_list_names(members)}: expected at least two, and each only once")
    first = members[0].manifest
    for member in members:
        manifest = member.manifest
        if manifest.is_policy:
            raise CandidateError(f"candidate {member.name}: is a policy, which has no Q to average")
        if manifest.format != "safetensors" or manifest.architecture == "average":
            kind = manifest.architecture or manifest.format
            raise CandidateError(f"candidate {member.name}: is {kind}, expected safetensors weights of one network")
        for what in ("architecture", "hyper_parameters", "input", "action_search", "think_s"):
            if getattr(manifest, what) != getattr(first, what):
                raise CandidateError(f"candidate {member.name}: its {what} is not that of {first.name}")


def _list_names(members: Sequence[Candidate]) -> str:
    return ", ".join(f"{member.name} ({member.id[:12]})" for member in members)
