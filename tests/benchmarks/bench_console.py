"""How quickly the console shows what happens, and what it costs: seven scripted arms, a real Chromium.

python -m tests.benchmarks.bench_console [--arms 7] [--events 100] [--seconds 20]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.console.browser import open_browser

WATCH = """
window.seen = [];
new MutationObserver((changes) => {
  for (const change of changes) for (const node of change.addedNodes) {
    const found = /sent at (\\d+) ms/.exec(node.textContent || "");
    if (found) window.seen.push(Date.now() - Number(found[1]));
  }
}).observe(document.getElementById("events"), { childList: true });
"""


@contextmanager
def running(module: str, log: Path, **parameters: object) -> Iterator[subprocess.Popen[bytes]]:
    arguments = ["--ros-args"]
    for name, value in parameters.items():
        arguments += ["-r", f"__ns:={value}"] if name == "namespace" else ["-p", f"{name}:={value}"]
    with log.open("wb") as sink:
        child = subprocess.Popen([sys.executable, "-u", "-m", module, *arguments], stdout=sink, stderr=sink)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(30)


def wait_for_address(log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = re.search(r"http://\S+", log.read_text())
        if found:
            return found.group(0)
        time.sleep(0.05)
    raise SystemExit("the console printed no address")


def processor_share(process: psutil.Process, seconds: float) -> float:
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / seconds


def measure_latency(browser: Any, events: int) -> np.ndarray:
    """Milliseconds from publishing an event over DDS to its line on the screen."""
    import rclpy
    from opc_interfaces.msg import SafetyEvent

    from opc_ros.ros import topics

    rclpy.init()
    node = rclpy.create_node("bench_console")
    publisher = node.create_publisher(SafetyEvent, "/arm1/safety/event", topics.RECORDED)
    while not publisher.get_subscription_count():
        time.sleep(0.05)
    browser.execute_script(WATCH)
    for _ in range(events):
        detail = f"sent at {time.time_ns() // 1_000_000} ms"
        publisher.publish(SafetyEvent(robot="arm1", kind=SafetyEvent.CLAMPED, detail=detail))
        time.sleep(0.15)
    deadline = time.monotonic() + 10
    while browser.execute_script("return window.seen.length") < events and time.monotonic() < deadline:
        time.sleep(0.1)
    seen = browser.execute_script("return window.seen")
    node.destroy_node()
    rclpy.shutdown()
    print(f"events on the screen: {len(seen)} of {events}")
    return np.array(seen, dtype=float)


def measure_answers(address: str, path: str, times: int = 20) -> float:
    """Median milliseconds to answer."""
    taken = []
    for _ in range(times):
        began = time.monotonic()
        urllib.request.urlopen(address + path, timeout=60).read()
        taken.append(1e3 * (time.monotonic() - began))
    return float(np.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=7)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        store = folder / "store"
        console = stack.enter_context(running("opc_ros.ros.console_node", folder / "console.log", port=0, store=store))
        address = wait_for_address(folder / "console.log")
        process = psutil.Process(console.pid)
        with open_browser(folder / "profile") as browser:
            browser.get(address)
            print(f"idle page: {processor_share(process, arguments.seconds):.1%} of a core (goal below 5%)")
            for number in range(1, arguments.arms + 1):
                parameters = {"namespace": f"/arm{number}"}
                for module in ("recorder", "scripted_arm"):
                    extra = {"store": store} if module == "recorder" else {"seed": number}
                    log = folder / f"{module}{number}.log"
                    stack.enter_context(running(f"opc_ros.ros.{module}_node", log, **parameters, **extra))
            time.sleep(10)
            share = processor_share(process, arguments.seconds)
            print(f"{arguments.arms} arms with live images: {share:.1%} of a core (goal below 25%)")
            print(f"memory of the server: {process.memory_info().rss / 1e6:.0f} MB")
            taken = measure_latency(browser, arguments.events)
            print(
                f"event on DDS to the screen: median {np.median(taken):.0f} ms, "
                f"95th percentile {np.percentile(taken, 95):.0f} ms (goal 300)"
            )
            print(f"episode list answers in {measure_answers(address, 'api/episodes'):.0f} ms")


if __name__ == "__main__":
    main()
