"""From a candidate's bytes to its Q function, refusing whatever could run code of its own."""

from __future__ import annotations

import io
import zipfile

import numpy as np

from opc_ros.errors import CandidateError, OpcError
from opc_ros.policies.action_function import ActionFunction
from opc_ros.policies.answering import why_no_q
from opc_ros.policies.artifact_format import ArtifactFormat
from opc_ros.policies.candidate import Candidate
from opc_ros.policies.compute import choose_device
from opc_ros.policies.formats import all_formats
from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.q_function import Observations, QFunction
from opc_ros.task import find_task

FORMATS = all_formats()  # found now, because a candidate's own process may not open files later
CODE_FORMATS = tuple(name for name, each in FORMATS.items() if each.can_run_code)


def load_q_function(candidate: Candidate, *, allow_code: bool = False, device: str | None = None) -> QFunction:
    """The Q function in exactly the bytes that the candidate's id was computed from.

    A `.pt2` file can hold pickles, and TorchScript is a program: both load only if the caller allows code.
    """
    if candidate.manifest.is_policy:
        raise CandidateError(why_no_q(candidate.name))
    artifact_format, where = _trusted_format(candidate, allow_code=allow_code)
    return artifact_format.load(candidate, where, device or choose_device())


def load_action_function(
    candidate: Candidate, *, allow_code: bool = False, device: str | None = None
) -> ActionFunction:
    """Likewise for a candidate of kind policy."""
    artifact_format, where = _trusted_format(candidate, allow_code=allow_code)
    return artifact_format.load_actions(candidate, where, device or choose_device())


def _trusted_format(candidate: Candidate, *, allow_code: bool) -> tuple[ArtifactFormat, str]:
    """The format whose loader may see these bytes, and the beginning of its error messages."""
    manifest = candidate.manifest
    where = f"candidate {candidate.name}: {manifest.artifact}"
    _refuse_pickle(candidate.artifact_bytes, manifest.format, where)
    if manifest.format in CODE_FORMATS and not allow_code:
        raise CandidateError(
            f"{where}: format {manifest.format} can run code of its own; allow code if you trust its maker, "
            "or export it as onnx or safetensors"
        )
    return FORMATS[manifest.format], where


def try_candidate(candidate: Candidate) -> None:
    """Refuse a candidate that cannot be loaded or cannot answer; formats that can run code are not loaded.

    It is tried in a confined process with a deadline, because it may come from anybody.
    """
    from opc_ros.policies.worker.loader import PolicyLoader

    if candidate.manifest.format in CODE_FORMATS:
        return
    try:
        with PolicyLoader() as load:
            load(candidate)
    except OpcError:
        raise
    except Exception as error:  # a candidate may raise anything
        reason = " ".join(str(error).split())[:300]
        raise CandidateError(f"candidate {candidate.name}: raised {type(error).__name__}: {reason}") from error


def check_values(values: np.ndarray, count: int) -> np.ndarray:
    """Q values as (count,) float32; (count, 1) is accepted too. Raises what is wrong with them otherwise."""
    values = np.asarray(values)
    if values.shape not in ((count,), (count, 1)):
        raise CandidateError(f"returned shape {values.shape} for {count} actions, expected ({count},)")
    if not np.issubdtype(values.dtype, np.floating):
        raise CandidateError(f"returned {values.dtype}, expected floating point numbers")
    flat = values.reshape(count).astype(np.float32, copy=False)
    bad = int(np.count_nonzero(~np.isfinite(flat)))
    if bad:
        raise CandidateError(f"returned NaN or infinity for {bad} of {count} actions")
    return flat


def probe(q_function: QFunction, manifest: CandidateManifest) -> None:
    """One call on a grey image, so that a wrong image size or action length shows before any real work."""
    task, (height, width) = find_task(manifest.task, where="task"), manifest.input.image_size
    observations = Observations(
        images=np.full((2, height, width, 3), 128, dtype=np.uint8),
        tools=np.tile(np.array(task.usual_state(), dtype=np.float32), (2, 1)),
    )
    actions = np.tile(np.array(task.usual_action(), dtype=np.float32), (2, 1))
    try:
        values = q_function.q(observations, actions)
    except Exception as error:  # a candidate may raise anything
        if _answers_one(q_function, observations.rows(0, 1), actions[:1]):
            raise CandidateError(
                "takes exactly 1 row, expected any number: export it with a dynamic batch, or let "
                "`opc candidate export` do it"
            ) from error
        raise
    check_values(values, 2)


def _answers_one(q_function: QFunction, observation: Observations, action: np.ndarray) -> bool:
    try:
        check_values(q_function.q(observation, action), 1)
    except Exception:  # then the number of rows was not the problem
        return False
    return True


def warm_up_programs() -> None:
    """Load a trivial program of each kind, so that torch has already read and imported what later ones need."""
    import torch

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.look = torch.nn.Conv2d(3, 2, 3)
            self.judge = torch.nn.Linear(10, 1)

        def forward(self, image: torch.Tensor, tool: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
            seen = torch.relu(self.look(image.float())).mean(dim=(2, 3))
            judged: torch.Tensor = self.judge(torch.cat([seen, action], dim=1)) + tool.sum(dim=1, keepdim=True)
            return judged.view(image.shape[0], -1).squeeze(1)

    small, example = Small().eval(), (torch.zeros(2, 3, 8, 8), torch.zeros(2, 5), torch.zeros(2, 8))
    batch = {0: torch.export.Dim("batch", min=1, max=4096)}
    scripted, exported = io.BytesIO(), io.BytesIO()
    torch.jit.save(torch.jit.trace(small, example), scripted)
    torch.export.save(torch.export.export(small, example, dynamic_shapes=(batch,) * 3), exported)
    torch.jit.load(io.BytesIO(scripted.getvalue()), map_location="cpu").eval()(*example)
    torch.export.load(io.BytesIO(exported.getvalue())).module()(*example)


def _refuse_pickle(data: bytes, artifact_format: str, where: str) -> None:
    """Refuse a pickle under any name: bare, or inside the archives that torch.save writes."""
    is_pickle = len(data) > 2 and data[0] == 0x80 and data[1] in range(2, 6)
    if data[:2] == b"PK" and artifact_format not in CODE_FORMATS:
        is_pickle = True
    elif data[:2] == b"PK":
        try:
            names = zipfile.ZipFile(io.BytesIO(data)).namelist()
        except zipfile.BadZipFile as error:
            raise CandidateError(f"{where}: the archive is damaged: {error}") from error
        is_program = any("/code/" in name or "/models/" in name for name in names)
        is_pickle = not is_program and any(name.endswith(".pkl") for name in names)
    if is_pickle:
        raise CandidateError(
            f"{where}: is a pickle, which runs whatever its maker wrote; save weights as safetensors, programs as onnx"
        )
