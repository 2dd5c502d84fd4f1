"""The short form; `python -m tests.several_machines --cuts 50` is the long one."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests.several_machines.network import Weather, network, why_not

needs_namespaces = pytest.mark.skipif(bool(why_not()), reason=f"no machines of namespaces here: {why_not()}")


@needs_namespaces
def test_machines_hear_each_other_until_the_link_is_cut_and_see_no_file_of_the_other(tmp_path: Path) -> None:
    with network(tmp_path, ("office", "bench")) as machines:
        office, bench = machines["office"], machines["bench"]
        (office.files / "secret").write_text("of the office")
        assert office.run(["cat", str(office.here / "secret")]) == "of the office"
        assert bench.run(["ls", str(bench.here)]) == ""
        assert bench.run(["ls", str(tmp_path / "machines")]) == ""
        knock = "import socket, sys; socket.create_connection((sys.argv[1], 8641), 30)"
        serve = (
            "import socket; s = socket.create_server(('', 8641)); print('ready', flush=True); s.accept(); s.accept()"
        )
        log = tmp_path / "log"
        server = office.start(["python3", "-c", serve], log)
        while "ready" not in log.read_text():
            assert server.poll() is None, log.read_text()
        bench.weather = Weather(loss=0.2, delay_s=0.01)
        bench.run(["python3", "-c", knock, office.address])
        bench.weather = Weather(is_cut=True)
        with pytest.raises(RuntimeError, match=r"timed out|No route"):
            bench.run(["python3", "-c", knock.replace("30", "0.5"), office.address])
        bench.weather = Weather()
        bench.run(["python3", "-c", knock, office.address])
        assert server.wait(60) == 0


@needs_namespaces
@pytest.mark.ros
@pytest.mark.slow
def test_nothing_is_lost_or_counted_twice_when_the_link_is_cut(tmp_path: Path) -> None:
    from tests.several_machines.__main__ import run

    found = run(argparse.Namespace(out=tmp_path / "out", cuts=2, longest=0.0, arms=1, twins=1, seed=1, minutes=60.0))
    assert found.cuts == 2
    assert found.reckoning.counted > 0
    assert found.is_right, (found.wrongs, found.reckoning.wrongs)
