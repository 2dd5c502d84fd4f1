from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from opc_ros.cli.main import main
from opc_ros.policies.candidate import read_candidate, write_candidate
from opc_ros.policies.image_view import ImageView
from opc_ros.policies.loading import load_q_function
from opc_ros.policies.q_function import Observations
from opc_ros.scoring import all_metrics
from opc_ros.scoring.metric import find_asked
from opc_ros.store import open_store
from tests.policies.making import SMALL, make_candidate, make_episodes, make_store


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of ten episodes and a registry of two candidates, in the working folder."""
    monkeypatch.chdir(tmp_path)
    make_store(tmp_path / "store", make_episodes(10))
    for seed in range(2):
        make_candidate(tmp_path / f"raw{seed}", seed=seed, image_size=32, **SMALL)
    assert main(["candidate", "add", "raw0", "raw1"]) == 0
    return tmp_path


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_scoring_twice_computes_nothing_the_second_time(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, first = run_json(capsys, "score")
    assert code == 0
    assert (first["pairs_evaluated"], first["pairs_cached"]) == (20, 0)
    code, second = run_json(capsys, "score")
    assert code == 0
    assert (second["pairs_evaluated"], second["pairs_cached"]) == (0, 20)
    assert second["ranking_id"] == first["ranking_id"]
    assert Path(first["page"]).read_text().startswith("<!doctype html>")
    assert json.loads(Path(first["report"]).read_text())["ranking_id"] == first["ranking_id"]


def test_the_score_in_the_report_is_that_of_direct_evaluation(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, result = run_json(capsys, "score", "--metric", "soft_opc")
    episodes = make_episodes(10)
    for ranked in result["ranking"]["candidates"]:
        candidate = next(c for f in lab.glob("raw*") if (c := read_candidate(f)).id == ranked["candidate_id"])
        q_function = load_q_function(candidate)
        means = [
            q_function.q(
                Observations.from_sequence([s.observe() for s in e.steps], ImageView((32, 32))), e.actions()
            ).mean()
            for e in episodes
        ]
        won = [mean for mean, episode in zip(means, episodes, strict=True) if episode.label.is_success]
        assert ranked["score"] == pytest.approx(np.mean(won) - np.mean(means), abs=1e-6)


def test_ranking_needs_no_network_but_every_value(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank"]) == 1
    assert "the Q cache has no values of 2 candidates" in capsys.readouterr().err
    run_json(capsys, "score")
    code, result = run_json(capsys, "rank", "--metric", "opc")
    assert code == 0
    assert result["ranking"]["metric"] == "opc"
    assert Path(result["page"]).parent == Path("scores", result["ranking_id"][:16])


def test_scoring_the_registry_publishes_and_scoring_a_part_or_exploring_does_not(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, whole = run_json(capsys, "score")
    published = lab / "scores" / "published" / "ranking.json"
    before = published.read_bytes()
    assert whole["is_published"]
    assert json.loads(before)["scope"] == "registry"
    for exploring in (["score", "raw0"], ["score", "--metric", "opc"], ["rank", "--prior", "0.9"], ["rank"]):
        code, result = run_json(capsys, *exploring)
        assert (code, result["is_published"]) == (0, False), exploring
        assert published.read_bytes() == before
    assert main(["score", "raw0"]) == 0
    assert "not published: it ranks only the candidates asked for" in capsys.readouterr().out
    assert main(["ranking", "publish", "newest"]) == 1
    assert "expected the whole registry" in capsys.readouterr().err


def test_rankings_are_listed_compared_and_published_on_purpose(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, first = run_json(capsys, "score", "--no-publish")
    assert not (lab / "scores" / "published").exists()
    _, second = run_json(capsys, "rank", "--metric", "opc")
    _, listed = run_json(capsys, "ranking", "list")
    assert {each["ranking_id"] for each in listed} == {first["ranking_id"], second["ranking_id"]}
    assert not any(each["is_published"] for each in listed)
    assert main(["ranking", "publish", second["ranking_id"][:12]]) == 0
    assert json.loads((lab / "scores/published/ranking.json").read_text())["metric"] == "opc"
    capsys.readouterr()
    assert main(["ranking", "diff", first["ranking_id"][:8], "published"]) == 0
    printed = capsys.readouterr().out
    assert "metric: soft_opc_over_spread, then opc" in printed
    assert "whole_image-0" in printed
    for task in (["list"], ["list", "--publications"], ["show", "newest"]):
        assert main(["ranking", *task]) == 0
        assert "ranking" in capsys.readouterr().out
    assert main(["ranking", "show", "nope"]) == 1
    assert "ranking 'nope': 0 of 2 rankings" in capsys.readouterr().err


def test_bfloat16_is_ranked_apart_and_never_published(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_json(capsys, "candidate", "remove", "whole_image-1")  # one is in order whatever the precision
    code, coarse = run_json(capsys, "score", "--precision", "bfloat16")
    assert (code, coarse["is_published"], coarse["ranking"]["scope"]) == (0, False, "selection")
    assert json.loads(Path(coarse["report"]).read_text())["scorer_version"] == "4+bfloat16"
    code, exact = run_json(capsys, "score")
    assert (code, exact["is_published"]) == (0, True)
    assert exact["pairs_cached"] == 10  # the small set was tried as a whole in float32
    (one,), (other,) = coarse["ranking"]["candidates"], exact["ranking"]["candidates"]
    assert 0 < abs(one["score"] - other["score"]) < 0.05
    assert main(["score", "--precision", "bfloat16"]) == 0
    assert "not published: it was not computed in float32" in capsys.readouterr().out
    assert main(["score", "--precision", "bfloat16", "--engine", "ray"]) == 1
    assert "expected the local engine with bfloat16" in capsys.readouterr().err


def test_baselines_come_when_asked(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, result = run_json(capsys, "score", "--baselines")
    for metrics in result["metrics"].values():
        assert set(metrics) == {name for name, metric in all_metrics().items() if find_asked(metric) == "q"}
        assert metrics["sum_of_advantages"] <= 0


def test_a_damaged_episode_and_an_unreadable_candidate_are_named_and_the_rest_is_scored(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(lab / "store") as store:
        store.take_snapshot(tag="now-ok")
    file = next((lab / "store" / "episodes").rglob("e00003.mcap"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    broken = next(path for path in (lab / "candidates").iterdir() if path.name.startswith("whole_image-1"))
    (broken / "candidate.yaml").write_text("name: half")
    capsys.readouterr()
    assert main(["score", "--snapshot", "now-ok"]) == 1
    printed = capsys.readouterr()
    assert "soft_opc_over_spread on 9 episodes" in printed.out
    assert "episode e00003 left out" in printed.err
    assert f"candidate {broken.relative_to(lab)} left out" in printed.err
    assert "opc candidate remove" in printed.err
    page = (lab / "scores" / "newest" / "report.html").read_text()
    assert "Left out: 1 episode" in page


def test_a_candidate_that_answers_nan_is_named_the_rest_is_scored_and_the_exit_code_says_so(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = make_candidate(lab / "sound", seed=7, image_size=32, **SMALL)
    weights = safetensors.numpy.load(sound.artifact_bytes)
    spoilt = {k: v * np.float32(np.nan) if v.dtype == np.float32 else v for k, v in weights.items()}
    manifest = dataclasses.replace(sound.manifest, name="spoilt")
    write_candidate(lab / "spoilt", manifest, safetensors.numpy.save(spoilt))
    assert main(["candidate", "add", "spoilt"]) == 1
    write_candidate(lab / "candidates" / "spoilt", manifest, safetensors.numpy.save(spoilt))
    capsys.readouterr()
    assert main(["score"]) == 1
    printed = capsys.readouterr()
    assert "left out: returned NaN or infinity for 2 of 2 actions" in printed.err
    assert "whole_image-0" in printed.out
    assert "whole_image-1" in printed.out
    assert "spoilt" not in printed.out


def test_known_success_reaches_the_report(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "measured.csv").write_text("candidate,success,episodes\nwhole_image-0,0.8,102\nsomeone-else,0.1,\n")
    run_json(capsys, "score", "--known-success", "measured.csv")
    report = json.loads((lab / "scores" / "newest" / "report.json").read_text())
    known = {candidate["name"]: candidate["known_success"] for candidate in report["candidates"]}
    assert known == {"whole_image-0": {"share": 0.8, "episodes": 102}, "whole_image-1": None}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("candidate,rate\nwhole_image-0,0.8\n", "line 2: expected columns candidate, success"),
        ("candidate,success\nwhole_image-0,80\n", "line 2: success is 80, expected 0 to 1"),
        ("candidate,success\nnobody,0.8\n", "names none of the 2 candidates"),
    ],
)
def test_a_wrong_file_of_known_success_is_refused(
    lab: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    (lab / "measured.csv").write_text(text)
    assert main(["score", "--known-success", "measured.csv"]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["score", "nobody"], "candidate 'nobody': neither a folder nor a name or id"),
        (["score", "--snapshot", "never"], "snapshot 'never'"),
        (["score", "--store", "elsewhere"], "no such folder"),
        (["score", "--candidates", "elsewhere"], "elsewhere: no such folder"),
        (["candidate", "add", "store"], "candidate.yaml: No such file"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    lab: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    capsys.readouterr()
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["--top-k", "--resamples", "--seed"])
def test_a_number_out_of_range_is_wrong_usage(capsys: pytest.CaptureFixture[str], option: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["rank", option, "-1"])
    assert f"argument {option}: '-1', expected a whole number from" in capsys.readouterr().err
