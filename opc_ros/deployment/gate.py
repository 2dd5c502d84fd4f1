"""The gate: turns a ranking of the whole field, real results, rules and the time into a verdict with typed findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opc_ros.deployment.decision import Decision, Finding, RealResult, Verdict
from opc_ros.deployment.gate_rules import AgreementRules, GateRules, HiddenRules, SearchRules, SnapshotRules, TopKRules
from opc_ros.ranking import Ranking
from opc_ros.ranking.forecast import Forecast, forecast_ranking, is_of_q

DAY_NS = 86_400 * 1_000_000_000
AHEAD_DAYS = 1 / 1440  # a robot's clock may be a minute ahead; beyond that, a timestamp is simply wrong


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """What the gate needs to know about the validation set."""

    snapshot_id: str
    episodes: int
    successes: int
    newest_ns: int  # when its newest episode began
    robots: tuple[str, ...]

    @property
    def failures(self) -> int:
        return self.episodes - self.successes


def predict_field(ranking: Ranking, real: Mapping[str, RealResult]) -> Forecast:
    """Predicted success of every candidate in a ranking."""
    return forecast_ranking(ranking, {name: (result.successes, result.trials) for name, result in real.items()})


def decide(
    candidate_id: str,
    ranking: Ranking,
    snapshot: SnapshotFacts,
    rules: GateRules,
    *,
    now_ns: int,
    champion_id: str = "",
    real: Mapping[str, RealResult] | None = None,
    forecast: Forecast | None = None,
) -> Decision:
    """Whether a candidate may go to robots; the same arguments always give the same answer.

    Callers who ask about many candidates pass `forecast`, the result of `predict_field` for the same ranking and
    results.
    """
    findings = [*_check_ranking(ranking, snapshot, rules), *_check_snapshot(snapshot, rules.snapshot, now_ns)]
    forecast = forecast or predict_field(ranking, real or {})
    if candidate_id not in forecast.ids:
        sentence = f"candidate {candidate_id[:12]} is not among the {len(ranking.candidates)} ranked: score it first"
        findings.append(Finding("ranked", Verdict.FAIL, sentence))
    else:
        findings += _check_success(candidate_id, forecast, rules)
        if is_of_q(ranking):
            findings.append(_check_search(candidate_id, ranking, rules.search))
        else:
            findings.append(_check_shown(candidate_id, ranking, rules, real or {}))
        findings.append(_check_hidden(candidate_id, ranking, rules.hidden))
        if rules.top_k is not None:
            findings.append(_check_top_k(candidate_id, ranking, rules.top_k))
        findings.append(_check_champion(candidate_id, forecast, rules, champion_id))
    findings.append(_check_agreement(forecast, real or {}, rules.agreement, "agreement_unknown" in rules.approval))
    if "every_request" in rules.approval:
        findings.append(Finding("approval", Verdict.INCONCLUSIVE, "the rules ask a person about every request"))
    return Decision(candidate_id, ranking.ranking_id, tuple(findings))


def _check_ranking(ranking: Ranking, snapshot: SnapshotFacts, rules: GateRules) -> Iterator[Finding]:
    """Check that nobody chose the metric, prior, seed, resamples or field to suit a candidate."""
    settings = (
        ("metric", ranking.metric == rules.metric, f"ranked by {ranking.metric}", rules.metric),
        ("prior", ranking.prior == rules.prior, f"ranked with prior {ranking.prior:g}", f"{rules.prior:g}"),
        ("seed", ranking.seed == rules.seed, f"ranked with seed {ranking.seed}", str(rules.seed)),
        (
            "resamples",
            ranking.resamples >= rules.resamples,
            f"ranked with {ranking.resamples} resamples",
            f"{rules.resamples} or more",
        ),
    )
    for rule, is_met, found, asked in settings:
        yield _finding(rule, is_met, found, f"the rules ask for {asked}: rank again")
    ranked, is_whole = len(ranking.candidates), ranking.scope == "registry"
    yield _finding(
        "field",
        is_whole and ranked >= rules.candidates,
        f"{ranked} candidates are ranked" + ("" if is_whole else ", those that were asked for"),
        f"the rules ask for {rules.candidates} or more" if is_whole else "score every registered candidate",
    )
    is_same = (ranking.snapshot_id, ranking.episodes, ranking.successes) == (
        snapshot.snapshot_id,
        snapshot.episodes,
        snapshot.successes,
    )
    yield _finding(
        "same_snapshot",
        is_same,
        f"ranked on snapshot {ranking.snapshot_id[:12]} with {ranking.successes} successes in {ranking.episodes}",
        f"the snapshot is {snapshot.snapshot_id[:12]} with {snapshot.successes} in {snapshot.episodes}: rank again",
    )


def _check_snapshot(snapshot: SnapshotFacts, rules: SnapshotRules, now_ns: int) -> Iterator[Finding]:
    for name, found, least in (
        ("episodes", snapshot.episodes, rules.episodes),
        ("successes", snapshot.successes, rules.successes),
        ("failures", snapshot.failures, rules.failures),
        ("robots", len(snapshot.robots), rules.robots),
    ):
        yield _finding(name, found >= least, f"snapshot has {found} {name}", f"the rules ask for {least}")
    age_days = (now_ns - snapshot.newest_ns) / DAY_NS
    yield _finding(
        "age",
        -AHEAD_DAYS <= age_days <= rules.age_days,
        f"snapshot's newest episode is {age_days:.1f} days old",
        f"the rules allow {rules.age_days:g}",
    )


def _check_success(candidate_id: str, forecast: Forecast, rules: GateRules) -> Iterator[Finding]:
    within, floor = rules.within, rules.floor
    near = forecast.chance_within(candidate_id, within.tolerance)
    expected = forecast.expected(candidate_id).describe()
    sentence = (
        f"expected {expected}, within {100 * within.tolerance:g} points of the best of {len(forecast.ids)} "
        f"with probability {near:.2f}"
    )
    yield _probable("within", near, within.confidence, within.doubt, sentence)
    above = forecast.chance_above(candidate_id, floor.success)
    sentence = f"succeeds in {floor.success:.0%} or more with probability {above:.2f}"
    yield _probable("floor", above, floor.confidence, floor.doubt, sentence)


def _check_shown(candidate_id: str, ranking: Ranking, rules: GateRules, real: Mapping[str, RealResult]) -> Finding:
    """Check that nobody passes on a judge's word alone, without enough real episodes."""
    trials = real[candidate_id].trials if candidate_id in real else 0
    found = f"is scored by a judge of its actions ({ranking.metric}) and has {trials} real episodes of its own"
    if trials >= rules.judged_episodes:
        return Finding("shown", Verdict.PASS, found)
    sentence = f"{found}; the rules ask for {rules.judged_episodes}"
    return Finding("shown", Verdict.INCONCLUSIVE, sentence)


def _check_top_k(candidate_id: str, ranking: Ranking, rules: TopKRules) -> Finding:
    candidate = ranking.find(candidate_id)
    asked = min(rules.k, len(ranking.candidates))
    if ranking.top_k != asked:
        sentence = f"ranked for the top {ranking.top_k}; the rules ask for the top {asked}: rank again"
        return Finding("same_top_k", Verdict.FAIL, sentence)
    best, worst = candidate.rank_interval
    sentence = (
        f"rank {candidate.rank} of {len(ranking.candidates)} ({best} to {worst} at {ranking.confidence:.0%}), "
        f"its score is in the top {ranking.top_k} with probability {candidate.top_k_probability:.2f}"
    )
    return _probable("top_k", candidate.top_k_probability, rules.confidence, rules.doubt, sentence)


def _check_hidden(candidate_id: str, ranking: Ranking, rules: HiddenRules) -> Finding:
    chance = ranking.find(candidate_id).hidden_chance
    if not ranking.hidden_episodes:
        sentence = "no part of the validation set is hidden: a scorer with a key of its own hides one"
        return Finding("hidden", Verdict.PASS, sentence)
    part = f"the {ranking.hidden_episodes} of {ranking.episodes} episodes that are kept secret"
    if chance >= rules.person:
        return Finding("hidden", Verdict.PASS, f"its score on {part} agrees with the rest")
    sentence = (
        f"scores far better on the shown episodes than on {part}: by luck with probability {chance:.2g}; "
        "does it recognise recorded frames?"
    )
    if chance < rules.fail:
        return Finding("hidden", Verdict.FAIL, f"{sentence} Below {rules.fail:g} the rules say no")
    return Finding("hidden", Verdict.INCONCLUSIVE, f"{sentence} Below {rules.person:g} a person decides")


def _check_search(candidate_id: str, ranking: Ranking, rules: SearchRules) -> Finding:
    look = ranking.find(candidate_id).search
    if look is None:
        sentence = "the ranking does not say what its own action search is worth: score it again with this version"
        return Finding("search", Verdict.FAIL, sentence)
    if look.is_standard:
        return Finding("search", Verdict.PASS, "uses the standard action search over all actions that the task allows")
    if look.states < rules.states:
        sentence = f"its own action search was checked in {look.states} states; the rules ask for {rules.states}"
        return Finding("search", Verdict.INCONCLUSIVE, sentence)
    sentence = (
        f"in {look.states} recorded states its own action search misses {look.shortfall:.0%} of what a thorough one "
        "gains over random actions"
    )
    if look.shortfall > rules.fail:
        sentence = f"{sentence}: what would run is not what was scored; above {rules.fail:.0%} the rules say no"
        return Finding("search", Verdict.FAIL, sentence)
    if look.shortfall > rules.person:
        return Finding("search", Verdict.INCONCLUSIVE, f"{sentence}; above {rules.person:.0%} a person decides")
    if look.reach < rules.reach:
        sentence = (
            f"its actions go {look.reach:.0%} as far as the task allows; below {rules.reach:.0%} a person decides"
        )
        return Finding("search", Verdict.INCONCLUSIVE, sentence)
    return Finding("search", Verdict.PASS, sentence)


def _check_champion(candidate_id: str, forecast: Forecast, rules: GateRules, champion_id: str) -> Finding:
    if champion_id == candidate_id:
        return Finding("champion", Verdict.PASS, "is the champion")
    if champion_id not in forecast.ids:
        what = "there is no champion yet" if not champion_id else "the champion is not in this ranking"
        needs_person = champion_id or "no_champion" in rules.approval
        verdict = Verdict.INCONCLUSIVE if needs_person else Verdict.PASS
        rule = "champion_known" if needs_person else "champion"
        return Finding(rule, verdict, f"{what}, so nothing to compare with")
    # A candidate need not be better than the champion to race against it; to replace it, it must, as the race finds
    # out.
    better = forecast.chance_better(candidate_id, champion_id)
    champion = forecast.expected(champion_id).describe()
    sentence = f"better than the champion, of which {champion} is expected, with probability {better:.2f}"
    return Finding("champion", Verdict.PASS, sentence)


def _check_agreement(
    forecast: Forecast, real: Mapping[str, RealResult], rules: AgreementRules, asks_person: bool
) -> Finding:
    tried = sum(result.trials > 0 and name in forecast.ids for name, result in real.items())
    unknown = Verdict.INCONCLUSIVE if asks_person else Verdict.PASS
    if len(forecast.ids) < 3 or not tried:
        sentence = f"whether scores predict real success is unknown: {tried} of {len(forecast.ids)} candidates tried"
        return Finding("agreement", unknown, sentence)
    found = forecast.agreement()
    sentence = (
        f"scores and success of the whole field agree with rank correlation {found.mean:.2f} "
        f"({found.low:.2f} to {found.high:.2f}), by the results of {tried}"
    )
    asked = f"the rules ask for {rules.spearman:.2f}"
    if found.high < rules.spearman:
        closed = f"{sentence}; {asked}: the gate stays closed until scores predict again"
        return Finding("agreement", Verdict.FAIL, closed)
    if found.low < rules.spearman:
        return Finding("agreement", unknown, f"{sentence}; {asked}, so whether they do is unknown")
    return Finding("agreement", Verdict.PASS, sentence)


def _finding(rule: str, is_met: bool, found: str, asked: str) -> Finding:
    return Finding(rule, Verdict.PASS, found) if is_met else Finding(rule, Verdict.FAIL, f"{found}; {asked}")


def _probable(rule: str, probability: float, confidence: float, doubt: float, sentence: str) -> Finding:
    if probability >= confidence:
        return Finding(rule, Verdict.PASS, sentence)
    if probability < doubt:
        return Finding(rule, Verdict.FAIL, f"{sentence}; below {doubt:g} the rules say no")
    return Finding(rule, Verdict.INCONCLUSIVE, f"{sentence}; the rules ask for {confidence:g}")
