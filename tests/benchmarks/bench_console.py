"""How quickly the console shows what happens, and what it costs: seven scripted arms, a real Chromium.

python -m tests.benchmarks.bench_console [--arms 7] [--events 100] [--seconds 20]
python -m tests.benchmarks.bench_console --part pages --episodes 100000 --candidates 1000
python -m tests.benchmarks.bench_console --part memory --minutes 60
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

from opc_ros.bringup.reach import stay_on_this_machine
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


def measure_stops(browser: Any, times: int = 30) -> None:
    """Milliseconds from a click on the stop button to its message at the arm, and of a publisher's own message."""
    import rclpy
    from std_msgs.msg import Bool

    from opc_ros.ros import topics

    rclpy.init()
    node = rclpy.create_node("bench_stops")
    heard: list[float] = []
    node.create_subscription(Bool, "/arm1/stop", lambda _: heard.append(1e3 * time.time()), topics.STOPS)
    publisher = node.create_publisher(Bool, "/arm1/stop", topics.LATEST)

    def press() -> float:
        click = "const at = Date.now(); document.querySelector('#stop-all').click(); return at;"
        return float(browser.execute_script(click))

    def publish() -> float:
        at = 1e3 * time.time()
        publisher.publish(Bool(data=True))
        return at

    found = {}
    for name, act in (("button", press), ("topic", publish)):
        taken: list[float] = []
        while len(taken) < times:
            heard.clear()
            at = act()
            deadline = time.monotonic() + 10
            while not heard and time.monotonic() < deadline:
                rclpy.spin_once(node, timeout_sec=0.005)
            taken += [heard[0] - at] if heard else []
            end = time.monotonic() + 0.2  # until everything else that was sent has arrived
            while time.monotonic() < end:
                rclpy.spin_once(node, timeout_sec=0.01)
        found[name] = np.percentile(taken, (50, 95))
    node.destroy_node()
    rclpy.shutdown()
    more = found["button"] - found["topic"]
    print(
        f"stop by the button: median {found['button'][0]:.0f} ms, 95th percentile {found['button'][1]:.0f} ms; "
        f"by topic {found['topic'][0]:.0f} and {found['topic'][1]:.0f} ms; "
        f"{more[0]:.0f} and {more[1]:.0f} ms more (goal 50)"
    )


def measure_pages(episodes: int, candidates: int) -> None:
    """How quickly a large lab's lists are answered; no nodes, no browser."""
    from opc_ros.console.app import Console
    from opc_ros.console.lab import ConsoleLab, LabPaths
    from opc_ros.console.live import LiveView
    from opc_ros.console.server import ConsoleServer
    from opc_ros.reporting.report import build_report
    from tests.benchmarks.bench_store_scale import make_store
    from tests.ranking.making import make_scored, rank

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = LabPaths(
            folder / "store", folder / "scores" / "published", folder / "deployment", folder / "candidates"
        )
        make_store(paths.store, episodes, 10, 1000)
        scored, _ = make_scored(candidates=candidates, episodes=80)
        ranking = rank(scored, scope="registry")
        report = build_report(scored, ranking, known={}, made_at="2026-11-16T04:00:00+00:00", version="0", seed=0)
        paths.scores.mkdir(parents=True)
        (paths.scores / "ranking.json").write_text(ranking.to_json())
        (paths.scores / "report.json").write_text(report.to_json())
        server = ConsoleServer(Console(LiveView(time.monotonic), ConsoleLab(paths)))
        address = server.start()
        for path, what in (
            ("api/ranking", f"ranking of {candidates} candidates"),
            ("api/episodes", f"list of {episodes} episodes"),
            ("api/episodes?robot=robot-03&label=success", "the same, one robot's successes"),
            ("api/episodes?first=50000", "its page in the middle"),
        ):
            first = measure_answers(address, path, 1)
            print(f"{what}: first {first:.0f} ms, then median {measure_answers(address, path):.0f} ms (goal 300)")
        server.stop()


def follow_memory(process: psutil.Process, minutes: float) -> None:
    """The server's memory while arms run; flat means that the second half grows no more than noise."""
    seen = []
    for minute in range(int(minutes) + 1):
        seen.append(process.memory_info().rss / 1e6)
        if minute % 5 == 0:
            print(f"after {minute} minutes: {seen[-1]:.0f} MB", flush=True)
        if minute < minutes:
            time.sleep(60)
    half = len(seen) // 2
    growth = np.polyfit(np.arange(half, len(seen)), seen[half:], 1)[0] * 60 if half > 1 else 0.0
    print(f"memory of the server: {growth:+.1f} MB an hour over the last half (goal: flat), largest {max(seen):.0f} MB")


def measure_answers(address: str, path: str, times: int = 20) -> float:
    """Median milliseconds per request."""
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
    parser.add_argument("--part", choices=("live", "pages", "memory"), default="live")
    parser.add_argument("--episodes", type=int, default=100_000, help="of --part pages")
    parser.add_argument("--candidates", type=int, default=1000, help="of --part pages")
    parser.add_argument("--minutes", type=float, default=60.0, help="of --part memory")
    arguments = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}", flush=True)
    if arguments.part == "pages":
        measure_pages(arguments.episodes, arguments.candidates)
        return
    os.environ.update(stay_on_this_machine())
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
            if arguments.part == "memory":
                follow_memory(process, arguments.minutes)
                return
            share = processor_share(process, arguments.seconds)
            print(f"{arguments.arms} arms with live images: {share:.1%} of a core (goal below 25%)")
            print(f"memory of the server: {process.memory_info().rss / 1e6:.0f} MB")
            taken = measure_latency(browser, arguments.events)
            print(
                f"event on DDS to the screen: median {np.median(taken):.0f} ms, "
                f"95th percentile {np.percentile(taken, 95):.0f} ms (goal 300)"
            )
            measure_stops(browser)
            print(f"episode list answers in {measure_answers(address, 'api/episodes'):.0f} ms")


if __name__ == "__main__":
    main()
