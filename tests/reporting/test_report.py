from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from opc_ros.reporting.charts import Axis, format_number
from opc_ros.reporting.outlook import CandidateOutlook, CheckedPrediction, Glimpse, Outlook
from opc_ros.reporting.page import render_page
from opc_ros.reporting.report import BINS, KnownSuccess, ScoringReport, build_report
from opc_ros.scoring import compute_metric
from opc_ros.scoring.failure import Failure
from opc_ros.scoring.scorer import ScoredSet
from tests.ranking.making import make_scored, rank


def make_report(scored: ScoredSet, known: dict[str, KnownSuccess]) -> ScoringReport:
    return build_report(scored, rank(scored), known=known, made_at="2026-11-16T04:00:00+00:00", version="0.1.0", seed=0)


class Page(HTMLParser):
    """Checks that tags close in order; collects ids, links and anything that would load something."""

    VOID = frozenset({"meta", "path", "circle", "br", "img", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.unnamed_images = 0
        self.episodes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [value for key, value in attrs if key == "id" and value]
        self.links += [value for key, value in attrs if key == "href" and value]
        is_inline = (given.get("src") or "data:").startswith("data:")
        if tag in ("link", "iframe", "object", "embed", "source", "image", "use") or not is_inline:
            self.loads.append(tag)
        if tag == "a" and given.get("class") == "episode":
            self.episodes.append(self.links.pop())
        if tag == "svg" and not (given.get("aria-label") or given.get("aria-hidden")):
            self.unnamed_images += 1

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("candidates", [1, 2, 15, 200])
def test_the_page_is_whole_and_loads_nothing(candidates: int) -> None:
    text = render_page(make_report(*make_scored(candidates, episodes=60)))
    page = Page(text)
    assert page.open == []
    assert page.loads == []
    assert page.unnamed_images == 0
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert not re.search(r"https?://|url\(|@import", text)
    assert text.count('<td class="number place">') == candidates
    script = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert text.count("<script>") == 1


def test_numbers_in_the_report_equal_direct_evaluation() -> None:
    """Two episodes of two steps, one success; SoftOPC = (mean of success) - (mean of both), worked by hand.

    Candidate 0: success .9 .7, failure .2 .4: .8 - (.8 + .3) / 2 = .25; every positive above every negative, so OPC is
    1 - 2/4 = .5. Candidate 1: success .5 .5, failure .5 .7: .5 - .55 = -.05; nothing above a threshold is best, OPC 0.
    """
    made, _ = make_scored(2, episodes=2)
    scored = dataclasses.replace(
        made,
        lengths=np.array([2, 2]),
        success=np.array([True, False]),
        q=np.array([[0.9, 0.7, 0.2, 0.4], [0.5, 0.5, 0.5, 0.7]], dtype=np.float32),
    )
    report = make_report(scored, {})
    document = json.loads(report.to_json())
    first, second = document["ranking"]["candidates"]
    assert (first["name"], second["name"]) == (scored.candidates[0].name, scored.candidates[1].name)
    assert first["score"] == pytest.approx(0.25)
    assert second["score"] == pytest.approx(-0.05)
    assert [c["metrics"]["opc"] for c in document["candidates"]] == pytest.approx([0.5, 0.0])
    # Mean Q of the success is .8 and of the failure .3: bins 16 and 6 of 20 between 0 and 1, up to float rounding.
    histogram = document["candidates"][0]
    assert np.flatnonzero(histogram["successes_per_bin"]).tolist() in ([15], [16])
    assert np.flatnonzero(histogram["failures_per_bin"]).tolist() in ([5], [6])
    words = "".join(Page(render_page(report)).words)
    assert "0.250" in words
    assert "-0.050" in words


def test_histograms_count_every_episode_once() -> None:
    scored, known = make_scored(3, episodes=80)
    for candidate in make_report(scored, known).candidates:
        assert len(candidate.successes_per_bin) == BINS
        assert sum(candidate.successes_per_bin) == scored.success.sum()
        assert sum(candidate.failures_per_bin) == (~scored.success).sum()


def test_the_validation_set_is_counted_by_robot_policy_objects_and_steps() -> None:
    scored, known = make_scored(1, episodes=100)
    held = make_report(scored, known).validation_set
    assert [group.name for group in held.robots] == [f"kuka{n}" for n in range(1, 8)]
    for groups in (held.robots, held.behaviour_policies, held.object_sets, held.steps):
        assert sum(group.episodes for group in groups) == 100
        assert sum(group.successes for group in groups) == scored.success.sum()
    assert [group.name for group in held.steps] == ["1 to 5", "6 to 10", "11 to 15", "16 to 20"]


def test_agreement_is_measured_where_true_success_is_known() -> None:
    scored, known = make_scored(15)
    report = make_report(scored, known)
    assert report.agreement is not None
    assert report.agreement.line.points == 15
    assert "R² " in render_page(report)


def test_halves_of_the_set_agree_about_candidates_that_differ_widely() -> None:
    made, _ = make_scored(2, episodes=40)
    is_positive = np.repeat(made.success, made.lengths).astype(np.float32)
    report = make_report(dataclasses.replace(made, q=np.stack([is_positive, 1 - is_positive])), {})
    assert report.stability is not None
    assert (report.stability.spearman_mean, report.stability.same_best) == (1.0, 1.0)
    assert "name the same best candidate in 100% of splits" in render_page(report)


def test_one_candidate_or_one_success_cannot_be_halved() -> None:
    assert make_report(*make_scored(1)).stability is None
    assert make_report(*make_scored(2, episodes=2)).stability is None


def test_too_few_known_are_shown_without_a_line() -> None:
    scored, known = make_scored(4)
    two = dict(list(known.items())[:2])
    report = make_report(scored, two)
    assert report.agreement is None
    page = render_page(report)
    assert "True success is known for 2 candidates" in page
    assert 'class="band"' not in page.split('id="agreement"')[1].split("</section>")[0]


def test_every_hash_is_on_the_page() -> None:
    report = make_report(*make_scored(30, episodes=60))
    text = render_page(report)
    for digest in (report.ranking.ranking_id, report.ranking.snapshot_id):
        assert digest in text
    assert all(candidate.candidate_id in text for candidate in report.candidates)


def test_what_was_left_out_is_said_and_hostile_names_stay_text() -> None:
    scored, known = make_scored(2, episodes=60)
    scored = dataclasses.replace(
        scored,
        failed_candidates=(Failure("ab" * 32, "raised RuntimeError: <script>alert(1)</script>"),),
        failed_episodes=(Failure("e7", "bytes are not what was committed"),),
    )
    text = render_page(make_report(scored, known))
    assert "Left out: 1 candidate" in text
    assert "Left out: 1 episode" in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text


def test_checkpoints_of_one_run_are_drawn_over_training_steps() -> None:
    report = make_report(*make_scored(15))
    text = render_page(report).split('id="training"')[1]
    best = max(
        (c for c in report.candidates if c.training_run == "run-0"), key=lambda c: c.metrics[report.ranking.metric]
    )
    assert f"best: step {format_number(float(best.step or 0))}" in text


def test_the_report_is_the_same_for_the_same_input() -> None:
    assert make_report(*make_scored(5)).to_json() == make_report(*make_scored(5)).to_json()
    assert render_page(make_report(*make_scored(5))) == render_page(make_report(*make_scored(5)))


def test_axis_ticks_are_round_and_inside() -> None:
    assert Axis(0.013, 0.26, 0, 100).ticks(5) == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.25])
    assert Axis(-1, 1, 0, 100).ticks(4) == pytest.approx([-1, -0.5, 0, 0.5, 1])
    assert Axis(2, 2, 0, 100).at(2) == 50


def test_large_numbers_are_cut_short() -> None:
    assert [format_number(value) for value in (1_500_000, 40_000, 9_000, 0.25)] == ["1.5M", "40k", "9000", "0.25"]


OUTLOOK = Outlook(
    candidates=(
        CandidateOutlook(0.71, 0.58, 0.82, 0.83, 12, 15, "pass", "within 10 points", 2),
        CandidateOutlook(0.4, 0.1, 0.7, 0.05, 0, 0, "refused", "below <0.1> the rules say no", None),
    ),
    tolerance=0.1,
    gate="gate.yaml",
    champion_id="",
    before_id="ab" * 32,
    before_made_at="2026-11-15T00:00:00+00:00",
    checked=(
        CheckedPrediction("one", 0.3, 0.5, 0.7, 15, 15, False),
        CheckedPrediction("two", 0.3, 0.5, 0.7, 5, 10, True),
    ),
)


def test_the_page_begins_with_the_verdict_what_to_expect_and_the_champion() -> None:
    scored, known = make_scored(2, episodes=60)
    ranking = rank(scored)
    first = ranking.candidates[0]
    outlook = dataclasses.replace(OUTLOOK, champion_id=first.candidate_id)
    report = dataclasses.replace(make_report(scored, known), outlook=outlook)
    text = render_page(report)
    top = text.split("<header>")[1].split("</header>")[0]
    assert f"<strong>{first.name}</strong> may run; 0 left open, 1 refused" in top
    assert f"<strong>{first.name}</strong>: 71% expected (58 to 82), 12 of 15 on robots" in top
    assert "abababababab" in top
    page = Page(text)
    words = " ".join(page.words)
    assert page.open == []
    assert "71% (58 to 82)" in words
    assert "1 of 2 candidates that have run" in words
    assert "below &lt;0.1&gt; the rules say no" in text


def test_no_column_lets_a_place_among_scores_look_like_performance() -> None:
    text = render_page(make_report(*make_scored(5, episodes=60)))
    assert "In top" not in text
    assert "Chance of a top-3 score" in text
    assert 'class="bar"' not in text.split('id="leaderboard"')[1].split("</section>")[0]


def test_glimpses_link_to_recordings_and_load_nothing() -> None:
    glimpse = Glimpse("e<1>", "kuka1", False, 0.93, "AAAA", "../../store/episodes/kuka1/e.mcap")
    report = dataclasses.replace(make_report(*make_scored(2, episodes=60)), glimpses=(glimpse,))
    page = Page(render_page(report))
    assert page.loads == []
    assert page.episodes == ["../../store/episodes/kuka1/e.mcap"]
    assert "Worst failures" in " ".join(page.words)
    assert "Best successes" not in " ".join(page.words)


def test_scores_are_split_by_robot_and_equal_the_score_of_that_part_alone() -> None:
    scored, known = make_scored(2, episodes=100)
    report = make_report(scored, known)
    robots = np.array([fact.robot for fact in scored.facts])
    group = next(each for each in report.by_robot if each.group == "kuka1")
    is_part = robots == "kuka1"
    steps = np.repeat(is_part, scored.lengths)
    row = next(i for i, each in enumerate(scored.candidates) if each.id == report.ranking.candidates[0].candidate_id)
    alone = compute_metric(
        report.ranking.metric, scored.q[row][steps], scored.lengths[is_part], scored.success[is_part]
    )
    assert group.scores[0] == pytest.approx(alone)
    assert (group.episodes, group.successes) == (int(is_part.sum()), int(scored.success[is_part].sum()))


def test_the_page_names_the_command_that_repeats_it() -> None:
    report = make_report(*make_scored(2, episodes=60))
    assert f"opc score --snapshot {report.ranking.snapshot_id} --metric {report.ranking.metric}" in render_page(report)
