"""Rules of gate and scheduler are read from files, and those that make no sense are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opc_ros.bringup.lab import load_scheduler_rules
from opc_ros.config import load_config
from opc_ros.deployment.gate_rules import GateRules, SearchRules, WithinRules
from opc_ros.deployment.rules import SchedulerRules
from opc_ros.errors import ConfigError
from tests.deployment.ranked_field import RULES

CONFIG = Path(__file__).parents[2] / "config"


def test_the_shipped_configuration_is_read_whole(tmp_path: Path) -> None:
    assert load_config(CONFIG / "gate.yaml", GateRules).metric == "soft_opc_over_spread"
    assert load_scheduler_rules(CONFIG / "scheduler.yaml").ladder.full.episodes == 50
    assert len(load_scheduler_rules(CONFIG / "scheduler.yaml", CONFIG / "lab_seven.yaml").robots) == 8
    for name, kind in (("gate.yaml", GateRules), ("scheduler.yaml", SchedulerRules)):
        broken = tmp_path / name
        broken.write_text((CONFIG / name).read_text() + "unread: 1\n")
        with pytest.raises(ConfigError, match="unknown key 'unread'"):
            load_config(broken, kind)


def test_rules_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="in order"):
        WithinRules(tolerance=0.1, confidence=0.5, doubt=0.9)


def test_a_rung_nobody_serves_is_refused(tmp_path: Path) -> None:
    text = (CONFIG / "lab.yaml").read_text().replace("[reduced, full]", "[full]")
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(ConfigError, match="no robot serves rung reduced"):
        load_scheduler_rules(CONFIG / "scheduler.yaml", tmp_path / "lab.yaml")


def test_a_floor_that_no_result_can_trigger_is_refused_when_the_file_is_read(tmp_path: Path) -> None:
    text = (CONFIG / "scheduler.yaml").read_text().replace("success_floor: 0.3", "success_floor: 0.2", 1)
    (tmp_path / "scheduler.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"not even 0 successes in 20 episodes would show less than 20%; set .* 0.29"):
        load_scheduler_rules(tmp_path / "scheduler.yaml")


@pytest.mark.parametrize("values", [{"states": 0}, {"person": 0.5, "fail": 0.4}, {"fail": 1.1}, {"reach": 2.0}])
def test_rules_of_action_searches_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="search: "):
        SearchRules(**values)  # type: ignore[arg-type]


def test_rules_cannot_let_a_judges_word_pass() -> None:
    with pytest.raises(ValueError, match="judged_episodes is 0, expected 1 or more"):
        replace(RULES, judged_episodes=0)
