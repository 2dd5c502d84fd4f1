import json
from pathlib import Path

import pytest

from opc_ros.cli.main import main
from opc_ros.experiments.published import MODELS, measure_published


def test_the_published_table_gives_the_recomputed_figures() -> None:
    agreement = measure_published()
    assert len(MODELS) == 15
    assert agreement.line.r_squared == pytest.approx(0.909, abs=5e-4)
    assert agreement.spearman == pytest.approx(0.976, abs=5e-4)
    regret = dict(agreement.regret)
    # By score RCAN + Real (3k) comes first with 88.34 %; the best, 90.71 %, comes second.
    assert regret[1] == pytest.approx(90.71 - 88.34)
    assert regret[3] == 0.0


def test_the_verb_prints_figures_and_draws_the_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "published", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "0.909" in printed
    assert "0.976" in printed
    assert (tmp_path / "published_scatter.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["published_scatter.png"]


def test_the_verb_speaks_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "published", "--json", "--safe-percent", "60", "--out", str(tmp_path)]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["agreement"]["line"]["r_squared"] == pytest.approx(0.909, abs=5e-4)
    assert content["agreement"]["safety"]["threshold"] == 60
    assert content["published"] == {"r_squared": 0.91, "spearman": 0.94}
    assert len(content["models"]) == 15


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["reproduce", "published", "--out", str(tmp_path / "file" / "plots")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("opc: cannot make folder")
    assert error.count("\n") == 1
