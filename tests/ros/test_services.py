from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.ros.conftest import Probe

pytestmark = pytest.mark.ros


class Switch:
    """A service in this process, and the requests it got."""

    def __init__(self, probe: Probe) -> None:
        from std_srvs.srv import SetBool

        from opc_ros.ros.services import create_service

        self.asked: list[bool] = []
        create_service(probe.node, SetBool, "switch", self._serve)

    def _serve(self, request: Any, response: Any) -> Any:
        self.asked.append(request.data)
        response.success = True
        return response


def test_an_answer_that_found_no_client_is_sent_again(monkeypatch: pytest.MonkeyPatch, probe: Probe) -> None:
    from rclpy.service import Service
    from std_srvs.srv import SetBool

    really_send = Service.send_response
    lost = iter([True, True])

    def send(service: Service, response: Any, header: Any) -> None:
        if next(lost, False):
            warnings.warn("failed to send response (timeout): client unknown", RuntimeWarning, stacklevel=2)
        else:
            really_send(service, response, header)

    monkeypatch.setattr(Service, "send_response", send)
    switch = Switch(probe)
    assert probe.call(SetBool, "switch", data=True).success
    assert switch.asked == [True]
    assert not list(lost)


def test_a_client_that_cannot_be_answered_holds_up_nobody_and_is_named(
    probe: Probe, capfd: pytest.CaptureFixture[str]
) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from std_srvs.srv import SetBool

    switch = Switch(probe)
    # Requests transient-local answers, which the service does not offer, so that DDS never connects them.
    deaf = probe.node.create_client(
        SetBool, "switch", qos_profile=QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    )
    unheard = deaf.call_async(SetBool.Request(data=True))
    said: list[str] = []

    def is_named() -> bool:
        said.append(capfd.readouterr().err)
        return "service switch: did what a client asked but cannot answer it" in "".join(said)

    probe.until(lambda: switch.asked == [True], "the deaf client's request did not arrive")
    assert probe.call(SetBool, "switch", data=False).success
    assert not is_named()  # the other client was answered between two tries, not after the last
    probe.until(is_named, "nothing was said of it")
    assert switch.asked == [True, False]
    assert not unheard.done()
