"""What is reported for a deployment from before people had keys."""

from __future__ import annotations

from pathlib import Path

from opc_ros.bringup.key_checks import missing_keys
from opc_ros.cli.main import main
from opc_ros.deployment.keys import create_keys


def test_an_older_deployment_is_told_which_keys_it_lacks_and_the_commands_make_them(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(missing_keys(Path("deployment"), Path("robots"))) == []
    create_keys(Path("deployment/keys"))
    Path("robots/arm1/keys").mkdir(parents=True)
    found = dict(missing_keys(Path("deployment"), Path("robots")))
    assert list(found) == ["the scorer has no key", "nobody may approve", "robot arm1 has no key that is known"]
    for what in ("the scorer has no key", "robot arm1 has no key that is known"):
        for command in found[what].split("; "):
            if "publish" not in command:
                assert main(command.split()[1:]) == 0, command
    assert list(dict(missing_keys(Path("deployment"), Path("robots")))) == ["nobody may approve"]
