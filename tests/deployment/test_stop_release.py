"""Who may lift which stop."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opc_ros.deployment.keys import Signer, key_id_of
from opc_ros.deployment.people import add_person
from opc_ros.deployment.signing import SignsAs, make_person_key
from opc_ros.deployment.statement import RobotBody, sign_statement
from opc_ros.deployment.stop_release import StopReleases, sign_release
from opc_ros.errors import StatementRefused

NOW_NS = 1_790_000_000_000_000_000
STOP_NS = NOW_NS - 60_000_000_000


@pytest.fixture
def ada(tmp_path: Path) -> SignsAs:
    return make_person_key(tmp_path, "ada")


@pytest.fixture
def releases(tmp_path: Path, ada: SignsAs) -> StopReleases:
    return StopReleases(tmp_path, "arm1", lambda: NOW_NS)


def test_an_operators_release_names_the_stop_it_is_for(releases: StopReleases, ada: SignsAs) -> None:
    statement = releases.check(sign_release(ada, "arm1", STOP_NS, NOW_NS))
    assert (statement.person, statement.body.robot, statement.body.stop_id) == ("ada", "arm1", str(STOP_NS))


@pytest.mark.parametrize("stop_id", ["", "all", "-1", "\u0663"])
def test_a_release_that_names_no_stop_counts_for_nothing(releases: StopReleases, ada: SignsAs, stop_id: str) -> None:
    body = RobotBody("arm1", stop_id=stop_id)
    with pytest.raises(StatementRefused, match="expected a number"):
        releases.check(sign_statement("release_stop", "ada", body, ada.signer, NOW_NS))


def test_a_release_of_another_robot_counts_for_nothing(releases: StopReleases, ada: SignsAs) -> None:
    with pytest.raises(StatementRefused, match="is for robot 'arm2', not arm1"):
        releases.check(sign_release(ada, "arm2", STOP_NS, NOW_NS))


def test_a_release_counts_once_and_for_five_minutes(releases: StopReleases, ada: SignsAs) -> None:
    once = sign_release(ada, "arm1", STOP_NS, NOW_NS)
    releases.check(once)
    with pytest.raises(StatementRefused, match="was acted on already"):
        releases.check(once)
    with pytest.raises(StatementRefused, match="signed 301 s ago, too old"):
        releases.check(sign_release(ada, "arm1", STOP_NS, NOW_NS - 301_000_000_000))


def test_somebody_who_is_not_an_operator_releases_nothing(tmp_path: Path, releases: StopReleases) -> None:
    key = Ed25519PrivateKey.generate()
    add_person(tmp_path, "bob", key.public_key(), ("requester", "approver", "labeller"))
    bob = SignsAs("bob", Signer(key_id_of(key.public_key()), key))
    with pytest.raises(StatementRefused, match="bob is not an operator"):
        releases.check(sign_release(bob, "arm1", STOP_NS, NOW_NS))


def test_another_statement_of_an_operator_is_no_release(releases: StopReleases, ada: SignsAs) -> None:
    resume = sign_statement("resume", "ada", RobotBody("arm1", stop_id=str(STOP_NS)), ada.signer, NOW_NS)
    with pytest.raises(StatementRefused, match="statement says resume, expected release_stop"):
        releases.check(resume)


def test_a_robot_that_knows_nobody_is_released_by_nobody(ada: SignsAs) -> None:
    with pytest.raises(StatementRefused, match="knows no people"):
        StopReleases(None, "arm1").check(sign_release(ada, "arm1", STOP_NS, NOW_NS))
