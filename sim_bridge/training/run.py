"""One training run: batches, checkpoints as candidate folders, and a state to resume from."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opc_ros.camera import CameraSpec
from opc_ros.durable import replace_file
from opc_ros.errors import TrainingError
from opc_ros.policies.architectures import QNetwork, build_network, state_hyper_parameters
from opc_ros.policies.candidate import write_candidate
from opc_ros.policies.compute import choose_device
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.manifest import FORMAT_VERSION, CandidateManifest, Provenance
from opc_ros.policies.weights import save_weights
from opc_ros.progress import Report, ignore_progress
from opc_ros.scoring import soft_opc
from sim_bridge.camera import STANDARD_CAMERA, CameraModel
from sim_bridge.training.augmentation import ImageJitter, add_vain_closes, add_vain_stops, drop_features
from sim_bridge.training.recipe import TrainingRecipe
from sim_bridge.training.replay import Replay, split_episodes
from sim_bridge.training.targets import make_targets

_BATCH_STREAM = 3
_ROWS_AT_ONCE = 256
_WITHOUT_EFFECT = ("name", "family", "steps", "checkpoints")  # they do not change what a step of the run computes


@dataclass(frozen=True, slots=True)
class DataOrigin:
    """Where a run's episodes and code come from; written into every candidate."""

    snapshot_id: str = ""
    git_revision: str = ""


@dataclass(frozen=True, slots=True)
class TrainingCheckpoint:
    """A candidate that a run wrote, and how it performed at that point."""

    step: int
    folder: str
    candidate_id: str
    loss: float
    soft_opc: float  # on episodes held out from training


class TrainingRun:
    """Fully off-policy Q learning; an interrupted run resumes at its last checkpoint and ends with equal weights."""

    def __init__(
        self,
        recipe: TrainingRecipe,
        replay: Replay,
        out: Path,
        *,
        origin: DataOrigin | None = None,
        device: str | None = None,
    ) -> None:
        self.recipe = recipe
        self._out = out
        self._origin = origin or DataOrigin()
        self._device = device or choose_device()
        self._learned, self._held_out = split_episodes(replay, recipe.held_out, recipe.seed)
        self._actions = self._learned.actions.copy()
        self._actions[:, :3] *= recipe.action_gain
        self._closing = np.flatnonzero(self._actions[:, 6] > 0.5)
        self._jitter = ImageJitter(recipe.image_jitter, recipe.image_size, recipe.seed)
        self._targets = make_targets(recipe, self._learned, self._device)
        self._spec = InputSpec(
            image_height=recipe.image_size,
            image_width=recipe.image_size,
            camera=recipe.camera or camera_spec(STANDARD_CAMERA.calibrate(recipe.image_size)),
        )
        self._network = self._fresh_network().to(self._device)
        self._lagging = copy.deepcopy(self._network)
        self._written = copy.deepcopy(self._network) if recipe.averaging else self._network
        self._optimiser = torch.optim.Adam(self._network.parameters(), lr=recipe.learning_rate)
        self._step = 0
        self._losses: list[float] = []  # since the last checkpoint
        self._checkpoints: list[TrainingCheckpoint] = []
        self._resume()

    @property
    def step(self) -> int:
        return self._step

    @property
    def checkpoints(self) -> tuple[TrainingCheckpoint, ...]:
        return tuple(self._checkpoints)

    def train(self, report: Report = ignore_progress) -> tuple[TrainingCheckpoint, ...]:
        """Run to the recipe's last step; every checkpoint is a candidate folder below the run's folder."""
        note = ""
        while self._step < self.recipe.steps:
            self._losses.append(self.advance())
            loss = float(np.mean(self._losses[-50:]))
            if self.recipe.writes_candidate_at(self._step):
                checkpoint = self._write_checkpoint()
                note = f"SoftOPC {checkpoint.soft_opc:+.3f}"
            report(self._step, self.recipe.steps, f"loss {loss:.3f} {note}")
        return self.checkpoints

    def advance(self) -> float:
        """One batch; its random numbers depend only on seed and step. Returns the loss."""
        recipe = self.recipe
        if self._step % recipe.target_every == 0:
            self._lagging.load_state_dict(self._network.state_dict())
            self._targets.follow(self._lagging)
        for group in self._optimiser.param_groups:
            group["lr"] = recipe.learning_rate * (1 - (1 - recipe.final_rate) * self._step / recipe.steps)
        rng = np.random.default_rng((recipe.seed, _BATCH_STREAM, self._step))
        rows = self._draw_rows(rng)
        images = self._jitter.apply(self._learned.images[rows], rng)
        tools, targets = self._learned.tools[rows], self._targets.targets(rows, self._step)
        actions, targets = add_vain_stops(
            tools,
            self._actions[rows],
            targets,
            share=recipe.vain_stops,
            shut_m=recipe.shut_m,
            rng=rng,
            with_regrips=recipe.doubts_regrips,
        )
        actions, targets = add_vain_closes(tools, actions, targets, share=recipe.vain_closes, rng=rng)
        self._network.train()
        code = self._network.encode(self._move(images), self._move(tools))
        logits = self._network.logits(drop_features(code, recipe.dropout, rng), self._move(actions))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, self._move(targets))
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self._step += 1
        if recipe.averaging:
            _pull(self._written, self._network, 1 - min(recipe.averaging, self._step / (self._step + 10)))
        value = float(loss.detach())
        if not np.isfinite(value):
            raise TrainingError(f"run {recipe.name}: loss is {value} at step {self._step}; lower learning_rate")
        return value

    def _draw_rows(self, rng: np.random.Generator) -> np.ndarray:
        """Which transitions make the next batch, in random order."""
        rows = rng.integers(len(self._learned), size=min(self.recipe.batch_size, len(self._learned)))
        closing = round(self.recipe.closing_share * len(rows)) if len(self._closing) else 0
        if closing:
            rows[:closing] = rng.choice(self._closing, size=closing)
            rng.shuffle(rows)  # either end of a batch may be replaced with vain actions
        return rows

    def score_held_out(self) -> float:
        """SoftOPC of the weights that would be written now, on the held-out episodes."""
        self._written.eval()
        held = self._held_out
        parts = []
        with torch.inference_mode():
            for start in range(0, len(held), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                inputs = (self._move(part[rows]) for part in (held.images, held.tools, held.actions))
                parts.append(self._written(*inputs).cpu().numpy())
        return soft_opc(np.concatenate(parts), held.lengths, held.success)

    def _write_checkpoint(self) -> TrainingCheckpoint:
        recipe, step = self.recipe, self._step
        name = recipe.candidate_name(step)
        manifest = CandidateManifest(
            format_version=FORMAT_VERSION,
            name=name,
            artifact="weights.safetensors",
            format="safetensors",
            input=self._spec,
            architecture=recipe.architecture,
            hyper_parameters=state_hyper_parameters(recipe.architecture, recipe.hyper_parameters),
            provenance=Provenance(
                family=recipe.family or recipe.architecture,
                training_run=recipe.name,
                step=step,
                seed=recipe.seed,
                data_snapshot=self._origin.snapshot_id,
                git_revision=self._origin.git_revision,
                notes=self._describe(),
            ),
        )
        candidate = write_candidate(self._out / name, manifest, save_weights(self._written))
        checkpoint = TrainingCheckpoint(step, name, candidate.id, float(np.mean(self._losses)), self.score_held_out())
        self._losses.clear()
        self._checkpoints.append(checkpoint)
        self._save_state()
        return checkpoint

    def _describe(self) -> str:
        """The recipe's keys that differ from the defaults, and the amount of data."""
        default = TrainingRecipe()
        values = dataclasses.asdict(self.recipe)
        changed = {
            key: value
            for key, value in values.items()
            if value != dataclasses.asdict(default)[key] and key not in (*_WITHOUT_EFFECT, "camera", "seed")
        }
        learned = self._learned
        return f"{len(learned.lengths)} episodes, {int(learned.success.sum())} successes; " + json.dumps(changed)

    def _fresh_network(self) -> QNetwork:
        with torch.random.fork_rng():
            torch.manual_seed(self.recipe.seed)
            return build_network(
                self.recipe.architecture, self._spec, self.recipe.hyper_parameters, where=f"recipe {self.recipe.name}"
            )

    def _identity(self) -> str:
        """What must be equal for a saved state to belong to this run: recipe and data."""
        values = {k: v for k, v in dataclasses.asdict(self.recipe).items() if k not in _WITHOUT_EFFECT}
        if self.recipe.final_rate < 1:
            values["steps"] = self.recipe.steps  # the rate falls towards the last step
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
        for part in (self._learned.actions, self._learned.tools, self._learned.success):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def _save_state(self) -> None:
        state = {
            "identity": self._identity(),
            "step": self._step,
            "network": self._network.state_dict(),
            "lagging": self._lagging.state_dict(),
            "written": self._written.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "checkpoints": [dataclasses.asdict(checkpoint) for checkpoint in self._checkpoints],
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        replace_file(self._state_path(), buffer.getvalue())

    def _resume(self) -> None:
        path = self._state_path()
        if not path.exists():
            return
        try:
            state: dict[str, Any] = torch.load(path, map_location=self._device, weights_only=True)
        except Exception as error:  # torch passes on whatever its reader raised
            raise TrainingError(f"{path}: cannot be read; remove it to start the run over") from error
        if state["identity"] != self._identity():
            raise TrainingError(f"{path}: is of another recipe or other data; remove it or choose another folder")
        if state["step"] > self.recipe.steps:
            raise TrainingError(f"{path}: is at step {state['step']}, the recipe ends at {self.recipe.steps}")
        self._network.load_state_dict(state["network"])
        self._lagging.load_state_dict(state["lagging"])
        self._targets.follow(self._lagging)
        self._written.load_state_dict(state["written"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._step = state["step"]
        self._checkpoints = [TrainingCheckpoint(**values) for values in state["checkpoints"]]

    def _state_path(self) -> Path:
        return self._out / f".{self.recipe.name}.state"

    def _move(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)


def _pull(follower: QNetwork, leader: QNetwork, share: float) -> None:
    """Move weights and running statistics a share of the way towards the leader's."""
    with torch.no_grad():
        for own, other in zip(follower.state_dict().values(), leader.state_dict().values(), strict=True):
            if own.is_floating_point():
                own.lerp_(other, share)
            else:
                own.copy_(other)


def camera_spec(camera: CameraModel) -> CameraSpec:
    """A calibrated camera without its distortion, as candidates describe it: pixels from the image's corner."""
    from_corner = camera.intrinsics.copy()
    from_corner[:2, 2] += 0.5
    matrix = from_corner @ camera.camera_from_base[:3]
    rows = [tuple(round(float(value), 9) for value in row) for row in matrix]
    return CameraSpec(camera.size, camera.size, (rows[0], rows[1], rows[2]))  # type: ignore[arg-type]
