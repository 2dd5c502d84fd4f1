"""Candidate files from a stranger: none runs code, reads another file, or takes this process down."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("onnx")

from opc_ros.cli.main import main
from opc_ros.errors import CandidateError
from opc_ros.policies.candidate import read_candidate
from opc_ros.policies.loading import try_candidate
from opc_ros.policies.manifest import MANIFEST_NAME
from tests.policies.bad_graphs import eats_memory, points_at_other_files, sums_actions, write_onnx

SECRET = b"-----BEGIN PRIVATE KEY-----"


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self._mark,)


def test_nobody_asks_a_pt2_file_for_its_inputs_unless_code_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "ran"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for member in ("x/models/model.json", "x/data.pkl", "x/data/sample_inputs/model.pt", "x/../../outside"):
            file.writestr(member, pickle.dumps(Trap(mark)))
    Path("evil.pt2").write_bytes(archive.getvalue())
    assert main(["candidate", "new", "evil.pt2", "--name", "evil"]) == 1
    assert "--allow-code if you trust its maker" in capsys.readouterr().err
    assert not mark.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["evil.pt2"]


def test_a_graph_that_names_other_files_is_not_even_asked_for_its_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret.bin").write_bytes(SECRET * 10)
    graph = points_at_other_files("secret.bin", where="initializer")
    Path("graph.onnx").write_bytes(graph.SerializeToString())
    assert main(["candidate", "new", "graph.onnx", "--name", "x"]) == 1
    assert "keeps weights in other files" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["network.onnx", MANIFEST_NAME])
def test_a_link_in_a_strangers_folder_leads_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    """If followed, it would have copied a private key into the registry, for everybody to read."""
    folder = write_onnx(tmp_path / "theirs", sums_actions()).folder
    name = read_candidate(folder).manifest.artifact if part != MANIFEST_NAME else MANIFEST_NAME
    key = tmp_path / "key.pem"
    (folder / name).rename(key)
    (folder / name).symlink_to(key)
    registry = tmp_path / "registry"
    assert main(["candidate", "add", str(folder), "--candidates", str(registry)]) == 1
    assert f"{folder / name}: is a link, expected the file itself" in capsys.readouterr().err
    assert not registry.exists()
    assert read_candidate(folder).folder == folder  # your own files may be kept elsewhere


def test_a_graph_that_would_eat_all_memory_ends_in_its_own_process(tmp_path: Path) -> None:
    candidate = write_onnx(tmp_path, eats_memory(64.0))
    with pytest.raises(CandidateError):
        try_candidate(candidate)
