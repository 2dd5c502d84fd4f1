from __future__ import annotations

from pathlib import Path

import pytest

from opc_ros.config import load_config
from opc_ros.errors import ConfigError
from opc_ros.ros.scorer_settings import ScorerSettings

CONFIG = Path(__file__).parents[2] / "config" / "scorer.yaml"


def test_the_file_shows_every_setting_with_its_default() -> None:
    assert load_config(CONFIG, ScorerSettings) == ScorerSettings()
    keys = [line.split(":")[0] for line in CONFIG.read_text().splitlines() if not line.startswith("#")]
    assert keys == list(ScorerSettings.__dataclass_fields__)


@pytest.mark.parametrize("line", ["metric: accuracy", "prior: 1.5", "resamples: 0", "colour: red"])
def test_a_wrong_setting_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "scorer.yaml").write_text(line)
    with pytest.raises(ConfigError, match=line.split(":")[0]):
        load_config(tmp_path / "scorer.yaml", ScorerSettings)
