"""Every artifact format answers like the network it was made from."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from opc_ros.errors import CandidateError
from opc_ros.policies.action_search import ChoiceSearch
from opc_ros.policies.candidate import Candidate, write_candidate
from opc_ros.policies.input_spec import InputSpec
from opc_ros.policies.loading import check_values, load_q_function, probe
from opc_ros.policies.manifest import CandidateManifest
from opc_ros.policies.q_function import FactoredQFunction, Observations
from opc_ros.policies.weights import load_network
from opc_ros.policies.worker.host import WorkerHost
from tests.policies.bad_graphs import points_at_other_files, write_onnx
from tests.policies.making import SMALL, make_candidate

SIZE = 32


class Exportable(torch.nn.Module):
    """The whole network with the inputs that an exported candidate gets by default: (B, 3, H, W) from 0 to 1."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__()
        self.network = load_network(candidate.manifest, candidate.artifact_bytes)

    def forward(self, image: torch.Tensor, tool: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return self.network(image.permute(0, 2, 3, 1) * 255.0, tool, action)


def states(count: int = 5) -> tuple[Observations, np.ndarray]:
    rng = np.random.default_rng(3)
    images = rng.integers(0, 256, (count, SIZE, SIZE, 3), dtype=np.uint8)
    tools = rng.uniform(0.0, 0.6, (count, 5)).astype(np.float32)
    return Observations(images, tools), rng.uniform(-0.08, 0.08, (count, 8)).astype(np.float32)


def example_inputs() -> tuple[torch.Tensor, ...]:
    return torch.rand(2, 3, SIZE, SIZE), torch.rand(2, 5), torch.rand(2, 8)


def export(candidate: Candidate, artifact_format: str) -> bytes:
    module = Exportable(candidate).eval()
    buffer = io.BytesIO()
    batch = torch.export.Dim("batch", min=1, max=4096)
    with torch.no_grad():
        if artifact_format == "torchscript":
            torch.jit.save(torch.jit.trace(module, example_inputs()), buffer)
        elif artifact_format == "torch_export":
            shapes = ({0: batch}, {0: batch}, {0: batch})
            torch.export.save(torch.export.export(module, example_inputs(), dynamic_shapes=shapes), buffer)
        else:
            names = ["image", "tool", "action"]
            axes = {name: {0: "batch"} for name in [*names, "q"]}
            torch.onnx.export(
                module, example_inputs(), buffer, input_names=names, output_names=["q"], dynamic_axes=axes, dynamo=False
            )
    return buffer.getvalue()


def exported_candidate(folder: Path, source: Candidate, artifact_format: str, data: bytes) -> Candidate:
    manifest = dataclasses.replace(
        source.manifest, format=artifact_format, artifact="network.bin", architecture="", hyper_parameters={}
    )
    return write_candidate(folder, manifest, data)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Candidate:
    return make_candidate(tmp_path_factory.mktemp("original"), image_size=SIZE, **SMALL)


@pytest.fixture(scope="module")
def trusting_host() -> Iterator[WorkerHost]:
    with WorkerHost(allow_code=True) as host:
        yield host


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("artifact_format", ["onnx", "torch_export", "torchscript"])
def test_an_exported_network_answers_like_its_original_here_and_confined(
    tmp_path: Path, original: Candidate, trusting_host: WorkerHost, artifact_format: str
) -> None:
    candidate = exported_candidate(tmp_path, original, artifact_format, export(original, artifact_format))
    observations, actions = states()
    expected = load_q_function(original).q(observations, actions)
    found = load_q_function(candidate, allow_code=True).q(observations, actions)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    with closing(trusting_host.load_policy(candidate)) as policy:
        np.testing.assert_allclose(policy.q(observations, actions), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_formats_that_can_run_code_need_permission(tmp_path: Path, original: Candidate) -> None:
    data = export(original, "torchscript")
    candidate = exported_candidate(tmp_path, original, "torchscript", data)
    with pytest.raises(CandidateError, match="can run code of its own; allow code"):
        load_q_function(candidate)


@pytest.mark.filterwarnings("ignore")
def test_a_graph_with_weights_in_other_files_is_refused(tmp_path: Path, original: Candidate) -> None:
    import onnx

    model = onnx.load_model_from_string(export(original, "onnx"))
    onnx.save_model(
        model, tmp_path / "graph.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    candidate = exported_candidate(tmp_path / "c", original, "onnx", (tmp_path / "graph.onnx").read_bytes())
    with pytest.raises(CandidateError, match="keeps weights in other files"):
        load_q_function(candidate)


@pytest.mark.filterwarnings("ignore")
def test_a_graph_with_other_inputs_than_the_manifest_names_is_refused(tmp_path: Path, original: Candidate) -> None:
    spec = dataclasses.replace(original.manifest.input, arguments=("image", "action"))
    manifest = dataclasses.replace(
        original.manifest, input=spec, format="onnx", artifact="q.onnx", architecture="", hyper_parameters={}
    )
    candidate = write_candidate(tmp_path, manifest, export(original, "onnx"))
    with pytest.raises(CandidateError, match=r"takes 3 inputs \(image, tool, action\), the manifest gives 2"):
        load_q_function(candidate)


@pytest.mark.parametrize("artifact_format", ["onnx", "torch_export", "torchscript", "safetensors"])
def test_bytes_that_are_no_such_file_are_refused(tmp_path: Path, original: Candidate, artifact_format: str) -> None:
    if artifact_format == "safetensors":
        candidate = write_candidate(tmp_path, original.manifest, b"nonsense" * 9)
    else:
        candidate = exported_candidate(tmp_path, original, artifact_format, b"nonsense" * 9)
    with pytest.raises(CandidateError, match="candidate whole_image-0"):
        load_q_function(candidate, allow_code=True)


@pytest.mark.parametrize("architecture", ["whole_image", "tool_crop", "target_crop"])
def test_both_halves_together_answer_like_the_whole(tmp_path: Path, architecture: str) -> None:
    q_function = load_q_function(make_candidate(tmp_path, architecture=architecture, image_size=SIZE))
    assert isinstance(q_function, FactoredQFunction)
    observations, _ = states(3)
    actions = np.random.default_rng(0).uniform(-0.08, 0.08, (3, 4, 8)).astype(np.float32)
    by_halves = q_function.head(q_function.encode(observations), actions.reshape(12, 8)).reshape(3, 4)
    for index in range(4):
        np.testing.assert_allclose(by_halves[:, index], q_function.q(observations, actions[:, index]), atol=1e-6)


def test_folding_normalisation_into_convolutions_changes_no_answer(tmp_path: Path) -> None:
    candidate = make_candidate(tmp_path, image_size=SIZE)
    network = load_network(candidate.manifest, candidate.artifact_bytes)
    observations, actions = states()
    with torch.no_grad():
        plain = network(*map(torch.from_numpy, (observations.images, observations.tools, actions))).numpy()
    np.testing.assert_allclose(load_q_function(candidate).q(observations, actions), plain, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (np.zeros((3, 2), np.float32), r"shape \(3, 2\) for 3 actions, expected \(3,\)"),
        (np.array([1, 2, 3]), "returned int64"),
        (np.array([0.1, np.nan, np.inf], np.float32), "NaN or infinity for 2 of 3"),
    ],
)
def test_values_no_score_can_use_are_refused(values: np.ndarray, complaint: str) -> None:
    with pytest.raises(CandidateError, match=complaint):
        check_values(values, 3)


def test_probing_asks_at_the_sizes_of_manifest_and_task() -> None:
    asked = []

    class Spy:
        def q(self, observations: Observations, actions: np.ndarray) -> np.ndarray:
            asked.append((observations.images.shape, observations.tools.shape, actions.shape))
            return np.zeros((len(actions), 1), dtype=np.float32)

    searched = CandidateManifest(2, "grasps", "q.onnx", "onnx", InputSpec(20, 30))
    probe(Spy(), searched)
    few = InputSpec(40, 40, action_choices=((0.0,), (1.0,)))
    probe(Spy(), CandidateManifest(2, "points", "q.onnx", "onnx", few, task="pong", action_search=ChoiceSearch()))
    assert asked == [((2, 20, 30, 3), (2, 5), (2, 8)), ((2, 40, 40, 3), (2, 0), (2, 1))]


@pytest.mark.parametrize(
    "where", ["initializer", "sparse_initializer", "attribute", "sparse_attribute", "subgraph", "function"]
)
def test_an_onnx_graph_that_points_at_other_files_from_anywhere_is_refused(tmp_path: Path, where: str) -> None:
    (tmp_path / "outside.bin").write_bytes(bytes(32))
    candidate = write_onnx(tmp_path / "c", points_at_other_files("../outside.bin", where=where))
    with pytest.raises(CandidateError, match="keeps weights in other files"):
        load_q_function(candidate)
